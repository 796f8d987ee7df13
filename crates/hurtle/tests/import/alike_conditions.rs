//! Configurations with conditions, maps of properties of the request, and redirects that repeat
//! parts of it.

use crate::alike::Row;

pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "a condition of a page before its redirect, and angle brackets in expressions",
        http: "server { listen 127.0.0.1:{port}; root {root};
               if ($http_user_agent ~* \"\\<|\\>\") { return 403; }
               location = / { if ($cookie_session = \"\") { return 302 /login; } return 302 /docs/guide.txt; }
               location /docs/ { } }",
        requests: &[
            "GET /",
            "GET / Cookie=session=1",
            "GET /docs/guide.txt User-Agent=Mozilla/5.0",
            "GET /docs/guide.txt User-Agent=<x",
            "GET /docs/guide.txt User-Agent=x>",
        ],
    },
    Row {
        sentence: "redirects to the requested host, with the target",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /a/ { return 301 https://$host$request_uri; }
               location /b/ { return 302 https://www.$host/new$request_uri; }
               location = /c { return 307 $scheme://b.example$request_uri; }
               location /login { return 302 https://sso.example/?rd=$scheme://$host$request_uri; }
               location ^~ /.well-known/ { } }",
        requests: &[
            "GET /a/x?y=z Host=A.example",
            "GET /a/%41/b/../c Host=a.example:8080",
            "GET /b/x Host=a.example",
            "GET /c?d Host=a.example",
            "GET /login?a=b&c Host=a.example",
            "GET /.well-known/none",
        ],
    },
    Row {
        sentence: "a whole site that redirects, but for challenges of ACME",
        http: "server { listen 127.0.0.1:{port}; server_name a.example;
               location /.well-known/ { root {root}/bare; default_type text/plain; }
               location / { return 301 https://$host$request_uri; } }
               server { listen 127.0.0.1:{port}; server_name b.example;
               rewrite ^(.*)$ https://$host$1 permanent; }
               server { listen 127.0.0.1:{port}; server_name c.example;
               rewrite ^ https://a.example$request_uri? redirect; }",
        requests: &[
            "GET /x/y?z=1 Host=a.example",
            "GET / Host=a.example",
            "POST /x Host=a.example",
            "GET /x/y?z=1 Host=b.example",
            "GET /%41%20b Host=b.example",
            "GET /x/y?z=1 Host=c.example",
        ],
    },
    Row {
        sentence: "conditions by expressions, and their negations",
        http: "server { listen 127.0.0.1:{port}; root {root};
               if ($http_user_agent ~* (bot|crawl)) { return 403; }
               if ($http_user_agent ~ ^$) { return 410; }
               if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; }
               if ($scheme = https) { return 404; }
               location /of/ { if ($uri ~ ^.+/of/) { return 405; } return 206; }
               location /c/ { if ($http_cookie !~ \"token=1\") { return 302 /login; }
                              proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location /q/ { if ($args) { return 204; }
                              if ($arg_a != \"\") { return 205; } return 201; }
               location /h/ { if ($http_x_one != \"a*b\") { return 401; }
                              if ($http_x_two = \"\") { return 409; } return 202; }
               location /u/ { if ($request_uri ~ ^/u/old) { return 303 /u/new; }
                              if ($request_uri ~* ^/u/closed/.*$) { return 409; }
                              if ($request_uri ~ ^/u/(?:one|two[0-9])\\.html$) { return 410; }
                              if ($uri ~ ^/.+/mid/) { return 411; }
                              if ($uri ~* \\.(PNG|gif)$) { return 404; } return 203; } }",
        requests: &[
            "GET /a.txt User-Agent=Crawler",
            "GET /a.txt",
            "GET /a.txt User-Agent=me",
            "DELETE /a.txt User-Agent=me",
            "GET /c/x User-Agent=me Cookie=token=1",
            "GET /c/x User-Agent=me",
            "GET /q/?a User-Agent=me",
            "GET /q/ User-Agent=me",
            "GET /h/ User-Agent=me X-One=a*b",
            "GET /h/ User-Agent=me X-One=axb",
            "GET /h/ User-Agent=me X-One=a*b X-Two=1",
            "GET /u/old/x User-Agent=me",
            "GET /u/closed/x User-Agent=me",
            "GET /u/CLOSED/x?a=1 User-Agent=me",
            "GET /u/closed?a=1 User-Agent=me",
            "GET /u/two7.html User-Agent=me",
            "GET /u/two7.html?a=1 User-Agent=me",
            "GET /u/twox.html User-Agent=me",
            "GET /u/mid/x User-Agent=me",
            "GET /of/x User-Agent=me",
            "GET /u/of/x User-Agent=me",
            "GET /u/x.png User-Agent=me",
            "GET /u/x User-Agent=me",
        ],
    },
    Row {
        sentence: "conditions by maps and networks",
        http: "map $http_x_kind $bad { default 0; evil 1; ~^mal 1; ~*BAD 1; ~good 0; }
               map $http_x_key $unknown { default 1; one 0; ~^two 0; }
               map $request_method $writes { default 0; POST 1; PUT 1; }
               map $uri $gone { default 0; /gone 1; ~^/former/ yes; }
               geo $near { default 0; 127.0.0.0/8 1; }
               geo $far { default 0; 192.0.2.0/24 1; }
               map $status $loggable { ~^2 0; default 1; }
               server { listen 127.0.0.1:{port}; root {root}; access_log {dir}/log combined if=$loggable;
               if ($bad) { return 403; }
               if ($gone) { return 410; }
               if ($far) { return 404; }
               location /k/ { if ($unknown) { return 401; } return 200 known; }
               location /w/ { if ($writes) { return 405; } return 200 read; }
               location /n/ { if ($near) { return 200 near; } return 404; } }",
        requests: &[
            "GET /a.txt",
            "GET /a.txt X-Kind=evil",
            "GET /a.txt X-Kind=EVIL",
            "GET /a.txt X-Kind=malign",
            "GET /a.txt X-Kind=so-bad",
            "GET /a.txt X-Kind=good",
            "GET /gone",
            "GET /former/x",
            "GET /k/ X-Key=one",
            "GET /k/ X-Key=two-x",
            "GET /k/ X-Key=three",
            "GET /k/",
            "POST /w/",
            "GET /w/",
            "GET /n/",
        ],
    },
    Row {
        sentence: "conditions by the end of the file's name",
        http: "map $request_filename $style { default 0; ~*\\.CSS$ 1; }
               server { listen 127.0.0.1:{port}; root {root};
               if ($request_filename ~ ^.*/(key|none)\\.txt$) { return 403; }
               if ($request_filename ~* e\\.txt$) { return 410; }
               if ($style) { return 404; } }",
        requests: &[
            "GET /docs/secret/key.txt",
            "GET /key.txt/",
            "GET /docs/key.txt.x",
            "GET /docs/monkey.txt",
            "GET /docs/GUIDE.TXT",
            "GET /style.css",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "conditions that set fields",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-All server;
               location / { try_files $uri $uri/ /index.html;
                            if ($request_filename ~* ^.*?\\.(html|htm)$) { add_header Cache-Control no-cache; } }
               location /docs/ { if ($query_string) { expires 1h; } }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                if ($request_method = POST) { add_header X-Docs posted; }
                                if ($http_origin ~ ^https://a) { add_header X-Docs origin; } } }",
        requests: &[
            "GET /about.html",
            "GET /a.txt",
            "GET /gone.html",
            "GET /docs/guide.txt",
            "GET /docs/guide.txt?v=1",
            "GET /app/x",
            "POST /app/x",
            "GET /app/x Origin=https://a.example",
            "POST /app/x Origin=https://a.example",
        ],
    },
    Row {
        sentence: "rewrites before an upstream, which gets another path",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /api/v1 { rewrite ^/api/v1/(.*)$ /v2/$1 break; proxy_pass http://{upstream};
                                  proxy_set_header Host $http_host; }
               location /svc { rewrite /inner/(.*) /$1 break; rewrite ^/svc/x$ /y?z=1 break;
                               proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /api/v1/users?a=b",
            "GET /api/v1",
            "GET /svc/inner/a/b",
            "GET /svc/x?q=1",
            "GET /svc/other",
            "GET /.upstream-1/v2/x",
            "GET /.upstream-closed",
            "GET /%2eupstream-2/x",
        ],
    },
    Row {
        sentence: "limits of connections that are not reached, and a site with an expression alone",
        http: "limit_conn_zone $binary_remote_addr zone=each:1m;
               limit_conn_zone $server_name zone=all:1m;
               server { listen 127.0.0.1:{port}; limit_conn each 50; limit_conn all 100; limit_conn_status 429;
               location ~ ^/(api|v1)/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &["GET /api/x", "GET /v1/y?z"],
    },
];
