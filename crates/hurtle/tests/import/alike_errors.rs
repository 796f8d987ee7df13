//! Configurations that answer errors by other locations, rewrite with queries and expressions, or
//! hand on requests without a file.

use crate::alike::Row;

pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "rewrites with queries and expressions",
        http: "server { listen 127.0.0.1:{port}; root {root};
               rewrite ^/q/([a-z]+)/(\\d+)$ /app/found?name=$1&id=$2 last;
               rewrite ^/moved/(\\w+)$ /new?to=$1 permanent;
               rewrite ^/short/(\\w+)$ /new? permanent;
               rewrite ^/bare/(.*)$ /app/bare? last;
               rewrite ^/gone\\.(html|php)$ /a.txt redirect;
               rewrite ^/opt(/.*)?$ /app/opt$1 last;
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location /wiki/ { rewrite ^/wiki/(.*)$ /app/wiki?title=$1 last; }
               location /docs/ { rewrite \\.old$ /a.txt last; } }",
        requests: &[
            "GET /q/ab/12",
            "GET /q/ab/12?x=y",
            "GET /q/ab/x",
            "GET /moved/x?a=b",
            "GET /moved/x",
            "GET /short/x?a=b",
            "GET /bare/x?a=b",
            "GET /gone.php?a=b",
            "GET /opt",
            "GET /opt/x?a=b",
            "GET /wiki/A%20b%26c?d=e",
            "GET /wiki/A/b+c",
            "GET /wiki/",
            "GET /docs/x.old",
            "GET /x.old",
        ],
    },
    Row {
        sentence: "errors with named locations, other statuses, and of upstreams",
        http: "server { listen 127.0.0.1:{port}; root {root}; error_page 404 /404.html;
               error_page 502 503 =503 @down;
               location / { try_files $uri =404; }
               location /gone/ { proxy_pass http://127.0.0.1:1; proxy_set_header Host $http_host; }
               location /shown/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                  proxy_intercept_errors on; error_page 403 =200 /about.html;
                                  error_page 404 /404.html; error_page 502 503 =503 @down; }
               location /asks/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                 proxy_intercept_errors on; error_page 403 = @other;
                                 error_page 404 502 503 @down; }
               location /passed/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location /bare/ { error_page 403 404 = @other; error_page 502 503 @down; deny all; }
               location /docs/ { error_page 404 @down; error_page 502 503 /404.html; }
               location /closed/ { return 444; }
               location @down { return 200 busy; }
               location @other { proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /a.txt",
            "GET /none",
            "GET /gone/x",
            "HEAD /gone/x",
            "GET /shown/x",
            "GET /shown/deny",
            "GET /asks/deny?a=b",
            "GET /asks/x",
            "GET /passed/deny",
            "GET /docs/guide.txt",
            "GET /docs/none",
            "GET /closed/x",
        ],
    },
    Row {
        sentence: "an application behind a condition on missing files",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-All yes;
               location / { proxy_set_header Host $http_host; expires 1h;
                            if (!-f $request_filename) { proxy_pass http://{upstream}; break; } }
               location /docs/ { index guide.txt; } }",
        requests: &[
            "GET /a.txt",
            "GET /gone?a=b",
            "POST /gone",
            "GET /",
            "GET /dir/",
            "GET /docs/guide.txt",
            "GET /docs/gone",
        ],
    },
    Row {
        sentence: "a page in place of missing files",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { index about.html;
                            if (!-e $request_filename) { rewrite ^(.*)$ /a.txt last; break; } } }",
        requests: &["GET /a.txt", "GET /gone?a=b", "GET /", "GET /style.css"],
    },
    Row {
        sentence: "a page in place of missing files of a server",
        http: "server { listen 127.0.0.1:{port}; root {root};
               if (!-f $request_filename) { rewrite ^ /a.txt last; } }",
        requests: &["GET /about.html", "GET /gone?a=b", "GET /dir/", "GET /"],
    },
    Row {
        sentence: "a page in place of missing files of a server, which its location names, too",
        http: "server { listen 127.0.0.1:{port}; root {root};
               if (!-e $request_filename) { rewrite ^ /a.txt last; }
               location / { try_files $uri $uri/ /a.txt; } }",
        requests: &["GET /about.html", "GET /gone?a=b", "GET /dir/", "GET /"],
    },
    Row {
        sentence: "pages of directories and of a file in place of missing files",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /dir/ { error_page 404 =200 /dir/index.html; }
               location /alias/ { alias {root}/docs/; error_page 404 =200 /alias/guide.txt; }
               location = /bare/gone { error_page 404 =200 /a.txt; } }",
        requests: &[
            "GET /dir/",
            "GET /dir/index.html",
            "GET /dir/gone",
            "HEAD /dir/gone",
            "GET /alias/guide.txt",
            "GET /alias/gone?a=b",
            "GET /bare/gone",
            "GET /bare/none",
        ],
    },
    Row {
        sentence: "error pages of an application",
        http: "server { listen 127.0.0.1:{port}; root {root}; proxy_set_header Host $http_host;
               error_page 404 /errors/missing; error_page 403 =200 /errors/closed;
               location / { }
               location /secret/ { deny all; }
               location /errors/ { proxy_pass http://{upstream}; } }",
        requests: &["GET /gone?a=b", "GET /secret/x", "GET /a.txt", "GET /errors/missing"],
    },
];
