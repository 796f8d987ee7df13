//! Configurations whose upstreams get other paths or fields than the client sent.

use crate::alike::Row;

pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "fields of requests, and a prefix that is taken off",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /api/ { proxy_pass http://{upstream}/; proxy_set_header Host app.internal;
                                proxy_set_header X-Own-Client $remote_addr;
                                proxy_set_header X-Own-All \"$scheme $host ${args} {x}\";
                                proxy_set_header X-Own-Id $http_x_own_name;
                                proxy_set_header X-Own-Gone \"\"; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                proxy_set_header X-Own-Host $http_host; } }",
        requests: &[
            "GET /api/users/1?a=b Host=a.example X-Own-Name=1 X-Own-Gone=evil X-Own-Client=evil",
            "GET /api/ Host=a.example",
            "GET /api/a%20b Host=a.example",
            "GET /app/x Host=a.example:81 X-Own-Kept=1",
            "GET /api?q=1",
            "GET /app",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "another path in place of the location's",
        http: "server { listen 127.0.0.1:{port}; root {root}; proxy_set_header Host $http_host;
               location /base/ { proxy_pass http://{upstream}/v2/; }
               location /bare { proxy_pass http://{upstream}/v3; }
               location = /one { proxy_pass http://{upstream}/page; } }",
        requests: &[
            "GET /base/users/1?a=b",
            "GET /base/",
            "GET /base",
            "GET /base/a%20b",
            "POST /base/x",
            "GET /bare",
            "GET /bare/",
            "GET /bare/x?y",
            "GET /one",
            "GET /one/x",
        ],
    },
    Row {
        sentence: "try_files before a proxy, which leads to the same proxy",
        http: "server { listen 127.0.0.1:{port}; root {root}; proxy_set_header Host $http_host;
               location / { try_files $uri $uri/ @back; proxy_pass http://{upstream}; add_header X-A b; }
               location @back { proxy_pass http://{upstream}; add_header X-A b; } }",
        requests: &["GET /a.txt", "GET /none?a=b", "GET /", "GET /dir/", "GET /dir", "POST /x%20y", "POST /a.txt"],
    },
    Row {
        sentence: "variables with constant values",
        http: "server { listen 127.0.0.1:{port}; root {root}; set $server_part one; set $base http://{upstream};
               location /whole/ { proxy_pass $base; proxy_set_header Host $http_host; }
               location /parts/ { set $proto http; set $app {upstream}; proxy_set_header Host $http_host;
                                  proxy_set_header X-Own-Part \"${server_part}-two\";
                                  proxy_pass $proto://$app; }
               location /sent/ { proxy_pass http://{upstream}$request_uri; proxy_set_header Host $http_host; }
               location = /one { proxy_pass $base/page; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /whole/a%20b?c=d",
            "GET /parts/x",
            "GET /sent/a%2Fb?c",
            "GET /one",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "properties of the request in its fields",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                            proxy_set_header X-Own-Uri $request_uri;
                            proxy_set_header X-Own-Url $scheme://$http_host$request_uri;
                            proxy_set_header X-Own-Early $ssl_early_data;
                            proxy_set_header X-Own-Method $request_method; } }",
        requests: &[
            "GET /a%20b?c=d Host=a.example:8080",
            "POST /x Host=a.example X-Own-Early=1",
            "GET /x? Host=a.example",
        ],
    },
    Row {
        sentence: "a prefix that a rewrite takes off, and its redirect to a slash",
        http: "server { listen 127.0.0.1:{port}; root {root}; proxy_set_header Host $http_host;
               location /app { return 301 $scheme://$http_host/app/; }
               location ^~ /app/ { rewrite /app(.*) $1 break; proxy_pass http://{upstream}; }
               location /tool { rewrite ^/tool(/.*)$ $1 break; proxy_pass http://{upstream}; } }",
        requests: &["GET /app?q=1", "GET /app/", "GET /app/x?y=z", "POST /app/x/app/y", "GET /tool/", "GET /tool/x"],
    },
    Row {
        sentence: "sizes of bodies, of the server and of a location",
        http: "server { listen 127.0.0.1:{port}; root {root}; client_max_body_size 1k;
               proxy_set_header Host $http_host;
               location / { proxy_pass http://{upstream}; }
               location /small/ { client_max_body_size 100; proxy_pass http://{upstream}; }
               location /any/ { client_max_body_size 0; proxy_pass http://{upstream}; } }",
        requests: &[
            "POST /x Content-Length=1025",
            "POST /small/x Content-Length=101",
            "GET /x",
            "GET /any/x",
        ],
    },
    Row {
        sentence: "a name in any domain",
        http: "server { listen 127.0.0.1:{port}; server_name www.example; root {root}; }
               server { listen 127.0.0.1:{port}; server_name mail.*; location / { return 200 mail; } }
               server { listen 127.0.0.1:{port}; server_name *.wild.example; location / { return 200 wild; } }",
        requests: &[
            "GET / Host=mail.a.example",
            "GET / Host=mail.wild.example",
            "GET / Host=mailx.example",
            "GET / Host=www.example",
        ],
    },
    Row {
        sentence: "settings of a cache where there is none",
        http: "server { listen 127.0.0.1:{port}; root {root}; proxy_no_cache $cookie_a; proxy_cache_valid 200 1h;
               location /api/ { proxy_cache_bypass $cookie_a; proxy_pass http://{upstream};
                                proxy_set_header Host $http_host; } }",
        requests: &["GET /api/x", "GET /api/x Cookie=a=1"],
    },
    Row {
        sentence: "fields of a page that answers other paths",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-All yes;
               location / { try_files $uri $uri/ /index.html; }
               location ~* \\.(css|png)$ { expires 1y; }
               location ~* \\.html$ { expires -1; add_header X-Page yes; } }",
        requests: &["GET /", "GET /index.html", "GET /gone/route", "GET /a.txt", "GET /style.css"],
    },
    Row {
        sentence: "fields of one page that answers other paths",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { try_files $uri $uri/ /index.html; }
               location = /index.html { add_header Cache-Control no-cache; } }",
        requests: &["GET /", "GET /index.html", "GET /gone/route", "GET /a.txt"],
    },
    Row {
        sentence: "a map of media types to lifetimes",
        http: "map $sent_http_content_type $lifetime { default off; text/html epoch; text/plain max; ~image/ 1h; }
               server { listen 127.0.0.1:{port}; root {root}; expires $lifetime;
               location / { }
               location /docs/ { expires 2h; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &["GET /", "GET /a.txt", "GET /docs/guide.txt", "GET /app/x"],
    },
    Row {
        sentence: "locations within a location",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-Server 1;
               location / { }
               location /docs/ { add_header X-Docs 1; expires 1h;
                                 location /docs/sub/ { expires 2h; }
                                 location /docs/secret/ { deny all; }
                                 location = /docs/guide.txt { add_header X-Guide 1; } }
               location /app/ { proxy_set_header Host $http_host; proxy_set_header X-Own-App 1;
                                proxy_pass http://{upstream};
                                location /app/own/ { proxy_set_header X-Own-Nested 1;
                                                     proxy_set_header Host $http_host;
                                                     proxy_pass http://{upstream}; }
                                location /app/same/ { proxy_pass http://{upstream}; } } }",
        requests: &[
            "GET /a.txt",
            "GET /docs/guide.txt",
            "GET /docs/none",
            "GET /docs/secret/x",
            "GET /app/x",
            "GET /app/own/x",
            "GET /app/same/x",
        ],
    },
    Row {
        sentence: "expressions within a location, for its paths alone",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { add_header X-Root 1;
                            location ~* \\.(css|png)$ { expires 30d; }
                            location ~ \\.txt$ { add_header X-Text 1; } }
               location /docs/ { add_header X-Docs 1; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /",
            "GET /style.css",
            "GET /a.txt",
            "GET /docs/guide.txt",
            "GET /app/x.css",
            "GET /app/y.txt",
        ],
    },
    Row {
        sentence: "rewrites whose expressions match paths outside of their locations, too",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { }
               location = / { rewrite ^/(.*)$ /home permanent; }
               location /blog/ { rewrite ^/blog(.*)$ /news$1 permanent; }
               location /api/ { rewrite ^/api(.*)$ /v1$1 break; proxy_pass http://{upstream};
                                proxy_set_header Host $http_host; }
               location /api-internal/ { deny all; }
               location /a/b/ { rewrite ^/a/(.*)$ /c/$1 redirect; } }",
        requests: &[
            "GET /",
            "GET /home",
            "GET /a.txt",
            "GET /blog/x?y=z",
            "GET /blogroll",
            "GET /api/users?a=b",
            "GET /api/",
            "GET /api-internal/x",
            "GET /a/b/x",
            "GET /a/x",
        ],
    },
    Row {
        sentence: "a location within a final one, beside expressions of the server",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { }
               location ^~ /docs/ { add_header X-Docs 1; location /docs/sub/ { deny all; } }
               location /dir/ { location ^~ /dir/sub/ { add_header X-Sub 1; } }
               location ~ \\.(css|txt)$ { add_header X-Text 1; } }",
        requests: &[
            "GET /docs/sub/x.css",
            "GET /docs/sub/",
            "GET /docs/guide.txt",
            "GET /dir/sub/x.css",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "parts of paths that are not empty",
        http: "server { listen 127.0.0.1:{port}; root {root};
               rewrite ^/old/(.+)$ /new/$1 permanent;
               rewrite ^/user/([^/]+)$ /users?name=$1 permanent;
               location /docs/ { rewrite ^/docs/(.+)$ /about.html last; }
               location /app/ { rewrite ^/app/(.+)$ /about.html last;
                                proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /old/",
            "GET /old/x/y?z",
            "GET /user/",
            "GET /user/x",
            "GET /user/x/y",
            "GET /docs/guide.txt",
            "GET /app/",
            "GET /app/x",
        ],
    },
    Row {
        sentence: "redirects of parts of paths that are not empty, without a root",
        http: "server { listen 127.0.0.1:{port};
               location /old/ { rewrite ^/old/(.+)$ https://b.example/$1 permanent; }
               location /docs/ { root {root}; } }",
        requests: &["GET /old/x/y?z", "GET /old/", "GET /docs/guide.txt"],
    },
    Row {
        sentence: "a redirect of all paths but the first, without a root",
        http: "server { listen 127.0.0.1:{port};
               location / { rewrite ^/(.+)$ https://b.example/$1 permanent; } }",
        requests: &["GET /x/y?z", "GET /"],
    },
    Row {
        sentence: "expressions within a final location",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { }
               location ^~ /docs/ { location ~ \\.txt$ { add_header X-Text 1; } } }",
        requests: &["GET /docs/guide.txt", "GET /a.txt", "GET /"],
    },
    Row {
        sentence: "a prefix and an expression within one location",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { location /docs/ { add_header X-Docs 1; }
                            location ~ \\.txt$ { add_header X-Text 1; } } }",
        requests: &["GET /docs/guide.txt", "GET /docs/none", "GET /a.txt"],
    },
];
