//! Sends the same requests to nginx and to hurtle with the imported configuration, and compares
//! status, Location, fields and body.

use crate::servers::{Dir, Nginx, Ours, ask, free_port, import, program, upstream};
use crate::{
    alike_cache, alike_conditions, alike_errors, alike_forms, alike_guards, alike_maps,
    alike_official, alike_paths,
};

/// A configuration, and requests whose answers are compared.
pub(crate) struct Row {
    pub(crate) sentence: &'static str,
    /// Inside of `http`; `{port}`, `{root}` and `{upstream}` are replaced.
    pub(crate) http: &'static str,
    /// Requests: method, target and, after a space each, field lines with `=`.
    pub(crate) requests: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        sentence: "a static site",
        http: "server { listen 127.0.0.1:{port}; root {root}; }",
        requests: &[
            "GET /",
            "GET /a.txt",
            "HEAD /a.txt",
            "GET /dir",
            "GET /dir/",
            "GET /none",
            "GET /a.txt Range=bytes=1-2",
            "GET /a.txt Range=bytes=9-",
            "GET /dir?x=1",
        ],
    },
    Row {
        sentence: "names without their ending",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { try_files $uri $uri.html $uri/ =404; } }",
        requests: &["GET /about", "GET /about.html", "GET /none", "GET /"],
    },
    Row {
        sentence: "a single-page application",
        http: "server { listen 127.0.0.1:{port}; root {root}; index index.html;
               location / { try_files $uri $uri/ /index.html; } }",
        requests: &["GET /route/deep", "GET /a.txt", "GET /dir/", "GET /"],
    },
    Row {
        sentence: "root and alias",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /docs/ { root {root}; }
               location /d/ { alias {root}/docs/; } }",
        requests: &["GET /docs/guide.txt", "GET /d/guide.txt", "GET /d/none"],
    },
    Row {
        sentence: "redirects",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /old { return 301 /about.html; }
               location /moved/ { return 302 https://example.org$request_uri; }
               location = /home { return 307 https://example.org/; }
               rewrite ^/blog/(.*)$ /news/$1 permanent;
               rewrite ^/short\\.html$ /about.html redirect;
               rewrite ^/hidden/(.*)$ /docs/$1 last; }",
        requests: &[
            "GET /old",
            "GET /moved/a/b?c=d",
            "GET /home",
            "GET /blog/x/y",
            "GET /short.html",
            "GET /hidden/guide.txt",
        ],
    },
    Row {
        sentence: "fixed answers",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location = /healthz { return 200 \"ok\\n\"; }
               location /gone { return 410; }
               location /secret { deny all; } }",
        requests: &["GET /healthz", "GET /gone", "GET /secret", "GET /secret/x"],
    },
    Row {
        sentence: "fields by path and ending",
        http: "add_header X-All yes; server { listen 127.0.0.1:{port}; root {root};
               location / { }
               location /docs/ { add_header X-Docs yes; expires 1h; }
               location ~* \\.(css|png)$ { expires 30d; add_header Cache-Control \"public\"; } }",
        requests: &["GET /a.txt", "GET /docs/guide.txt", "GET /style.css"],
    },
    Row {
        sentence: "an error page, and addresses",
        http: "server { listen 127.0.0.1:{port}; root {root}; error_page 404 /404.html;
               location /docs/ { allow 127.0.0.0/8; deny all; }
               location /bare/ { deny 127.0.0.1; } }",
        requests: &["GET /none", "GET /docs/guide.txt", "GET /bare/x.txt"],
    },
    Row {
        sentence: "fields of errors",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-All yes always;
               location / { }
               location /docs/ { add_header X-Docs yes; } }",
        requests: &["GET /a.txt", "GET /none", "GET /docs/guide.txt", "GET /docs/none"],
    },
    Row {
        sentence: "a server that decides about requests",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location = /auth { internal; proxy_pass http://{upstream}/verify;
                                  proxy_pass_request_body off;
                                  proxy_set_header Content-Length \"\"; }
               location /docs/ { auth_request /auth; }
               location /app/ { auth_request /auth; proxy_pass http://{upstream};
                                proxy_set_header Host $http_host; } }",
        requests: &["GET /docs/guide.txt", "GET /docs/none", "GET /app/x", "GET /a.txt"],
    },
    Row {
        sentence: "weights, a limit of connections and a backup",
        http: "upstream app { server {upstream} weight=3 max_conns=50; server 127.0.0.1:1 backup;
                              keepalive 4; }
               limit_req_zone $binary_remote_addr zone=a:1m rate=100r/s;
               server { listen 127.0.0.1:{port}; root {root};
               limit_req zone=a burst=50 nodelay;
               location /app/ { proxy_pass http://app; proxy_set_header Host $http_host; } }",
        requests: &["GET /app/x", "GET /app/y?a=b", "GET /a.txt"],
    },
    Row {
        sentence: "sites by name",
        http: "server { listen 127.0.0.1:{port}; server_name a.example; root {root}; }
               server { listen 127.0.0.1:{port}; server_name b.example *.c.example;
                        return 302 https://a.example$request_uri; }
               server { listen 127.0.0.1:{port} default_server; server_name _; return 404; }",
        requests: &[
            "GET /a.txt Host=a.example",
            "GET /x?y Host=b.example",
            "GET / Host=w.c.example",
            "GET / Host=unknown.example",
        ],
    },
    Row {
        sentence: "one path, expressions and final prefixes",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-All yes;
               location / { try_files $uri $uri/ /about.html; add_header X-Root yes; }
               location = /a.txt { add_header Cache-Control no-cache; }
               location = /renamed { alias {root}/a.txt; default_type text/plain; }
               location = / { return 200 \"front\"; }
               location = /app { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                 proxy_redirect off; proxy_hide_header X-Seen; charset UTF-8;
                                 proxy_set_header Connection $http_connection; }
               location ^~ /docs/ { add_header X-Docs yes; }
               location ~* \\.(css|txt)$ { expires 30d; try_files $uri =404; }
               location ~ ^/dir/[a-z]+$ { return 410; }
               location ~ /\\.(?!well-known) { deny all; } }",
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /a.txt/x",
            "GET /app",
            "GET /app/x",
            "GET /docs/guide.txt",
            "GET /docs/gone.txt",
            "GET /style.css",
            "GET /gone.css",
            "GET /gone.CSS",
            "GET /gone",
            "GET /dir/abc",
            "GET /dir/abc1",
            "GET /.git/x",
            "GET /dir/.x",
        ],
    },
    Row {
        sentence: "files, and an application behind them",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-All yes;
               location / { try_files $uri $uri/ @app; }
               location /docs/ { try_files $uri @app; add_header X-Docs yes; }
               location ~ \\.(css|txt)$ { try_files $uri @other; }
               location @app { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                               add_header X-App yes; }
               location @other { return 404; }
               location @unused { return 410; } }",
        requests: &[
            "GET /",
            "GET /about.html",
            "GET /dir",
            "GET /dir/",
            "GET /gone?a=b",
            "GET /gone/a%20b%2Bc",
            "HEAD /gone",
            "POST /gone",
            "DELETE /gone",
            "POST /about.html",
            "GET /docs/",
            "GET /docs/guide.txt",
            "GET /docs/gone",
            "GET /gone.css",
            "GET /style.css",
        ],
    },
    Row {
        sentence: "an application behind a guard, pages of directories by name, and a page by a rewrite",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { try_files $uri/index.html $uri.html $uri @app; }
               location /docs/ { try_files $uri $uri/ @page; }
               location /bare/ { error_page 404 = @closed; }
               location @app { deny all; }
               location @closed { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                  allow 192.0.2.0/24; deny all; }
               location @page { rewrite ^(.*)$ /docs/guide.txt last; } }",
        requests: &[
            "GET /",
            "GET /about",
            "GET /dir",
            "GET /a.txt",
            "GET /gone",
            "POST /gone",
            "GET /docs/guide.txt",
            "GET /docs/gone",
            "GET /bare/gone",
            "GET /bare/x.txt",
        ],
    },
    Row {
        sentence: "a redirect to a slash, an internal page, a name of the server, and hidden fields of all locations",
        http: "server { listen 127.0.0.1:{port}; server_name a.example; root {root};
               proxy_hide_header X-Seen; ignore_invalid_headers off; underscores_in_headers on;
               error_page 410 /about.html;
               location = /invoice { return 301 $scheme://$host/invoice/; }
               location /invoice/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                    proxy_set_header X-Own-Name \"$server_name:x\";
                                    proxy_connect_timeout 500ms; proxy_read_timeout 1500ms; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                proxy_hide_header X-Other; }
               location /here { return 302 $scheme://$host/a.txt; }
               location = /404.html { internal; }
               location = /about.html { internal; }
               location = /gone { return 410; } }",
        requests: &[
            "GET /invoice",
            "GET /invoice/x?a=b",
            "GET /app/x",
            "GET /here",
            "GET /404.html",
            "GET /gone",
            "GET /none",
        ],
    },
    Row {
        sentence: "answers by host, method, field, cookie and parameter",
        http: "server { listen 127.0.0.1:{port}; server_name a.example b.example; root {root};
               if ($host = b.example) { return 301 http://a.example$request_uri; }
               if ($request_method !~ ^(GET|HEAD|POST|OPTIONS|PUT)$) { return 405; }
               location / { if ($arg_old = 1) { return 410; } }
               location /app/ { add_header X-All yes;
                                if ($request_method = 'OPTIONS') { add_header X-App yes; return 204; }
                                if ($http_x_key != k) { return 403; }
                                if ($request_method = PUT) { return 200 put; }
                                proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location = /one { if ($cookie_beta = yes) { return 302 /a.txt; } return 200 one; }
               location ~ \\.css$ { } }",
        requests: &[
            "GET /x?y=1 Host=b.example",
            "OPTIONS /app/x Host=b.example",
            "DELETE /a.txt Host=a.example",
            "DELETE /app/x Host=a.example",
            "GET /a.txt?old=1 Host=a.example",
            "GET /a.txt?old=11 Host=a.example",
            "GET /a.txt?x=1&old=1 Host=a.example",
            "OPTIONS /app/x Host=a.example",
            "GET /app/x Host=a.example",
            "GET /app/x Host=a.example X-Key=k",
            "PUT /app/x Host=a.example X-Key=k",
            "GET /one Host=a.example",
            "GET /one Host=a.example Cookie=beta=yes",
            "POST /one Host=a.example Cookie=beta=yes",
            "GET /style.css Host=a.example",
        ],
    },
    Row {
        sentence: "pages of PHP without a front controller",
        http: "server { listen 127.0.0.1:{port}; root {root}; index index.php index.html;
               fastcgi_hide_header X-Powered-By;
               location / { }
               location ~ ^/.+\\.php(/|$) { fastcgi_pass 127.0.0.1:1; } }",
        requests: &["GET /x.php", "GET /docs/x.php", "GET /", "GET /gone", "GET /gone/", "GET /a.txt"],
    },
    Row {
        sentence: "one script that answers everything but files, and no other script",
        http: "server { listen 127.0.0.1:{port}; root {root};
               if ($request_method = OPTIONS) { return 200; }
               location / { try_files $uri /x.php$is_args$args; }
               location ~ ^/x\\.php(/|$) { fastcgi_pass 127.0.0.1:1;
                                           fastcgi_split_path_info ^(.+\\.php)(/.*)$;
                                           fastcgi_param SCRIPT_FILENAME {root}/x.php; }
               location ~ \\.php$ { return 404; } }",
        requests: &[
            "GET /gone?a=b",
            "POST /gone",
            "OPTIONS /gone",
            "GET /x.php",
            "GET /x.php/more",
            "GET /docs/x.php",
            "GET /gone.php",
            "GET /dir/",
            "GET /",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "names of directories that are no candidates",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { try_files $uri /about.html; }
               location /docs/ { try_files $uri =404; } }",
        requests: &["GET /", "GET /dir", "GET /dir/", "GET /a.txt", "GET /docs/", "GET /docs/gone"],
    },
    Row {
        sentence: "a prefix that a rewrite takes off, and a page of its own",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { try_files $uri $uri/ /index.html; }
               location = /index.html { add_header Cache-Control no-cache; }
               location /api/ { rewrite ^/api/(.*)$ /$1 break; proxy_pass http://{upstream};
                                proxy_set_header Host $http_host; } }",
        requests: &["GET /api/users?a=b", "GET /api/", "GET /index.html", "GET /a.txt"],
    },
    Row {
        sentence: "fields of one location, and the same field of an upstream of another",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-Seen server;
               location /docs/ { add_header X-Docs yes; add_header Cache-Control no-cache; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                add_header X-All yes; } }",
        requests: &["GET /a.txt", "GET /docs/guide.txt", "GET /app/x"],
    },
    Row {
        sentence: "a proxied site with files of its own",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location = /a.txt { }
               location ~* \\.(css|ico)$ { expires 30d; }
               location ~ ^/(api|v[0-9])/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                           proxy_set_header X-Own-Api 1; } }",
        requests: &[
            "GET /a.txt",
            "GET /style.css",
            "GET /gone.css",
            "GET /v2/x",
            "GET /api/style.css",
            "GET /apis/x",
            "GET /v2",
        ],
    },
    Row {
        sentence: "an upstream",
        http: "upstream app { server {upstream}; keepalive 4; }
               server { listen 127.0.0.1:{port}; root {root};
               location /api/ { proxy_pass http://app; proxy_set_header Host $host;
                                proxy_http_version 1.1; proxy_set_header Connection \"\"; }
               location /app { proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /api/a?b=c Host=a.example",
            "GET /app Host=a.example",
            "GET /a.txt",
            "GET /app/%41%20b Host=a.example",
        ],
    },
];

#[test]
fn both_servers_answer_alike() {
    let Some(nginx) = program() else {
        panic!("nginx is missing; `cargo xtask test --only packages` installs it");
    };
    let upstream = upstream();
    let mut faults = Vec::new();
    let rows = ROWS.iter().chain(alike_paths::ROWS).chain(alike_errors::ROWS);
    let rows = rows.chain(alike_forms::ROWS).chain(alike_maps::ROWS);
    let rows = rows.chain(alike_guards::ROWS).chain(alike_official::ROWS);
    for row in rows.chain(alike_conditions::ROWS).chain(alike_cache::ROWS) {
        let dir = Dir::new();
        let port = free_port();
        let file = dir.configure(row.http, port, upstream);
        let text = import(&file).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
        let theirs = Nginx::start(&nginx, &file, &dir.0, port);
        let ours = Ours::start(&text, port);
        for request in row.requests {
            let request = &request.replace("{upstream}", &upstream.to_string());
            let (a, b) = (ask(port, request), ask(ours.port, request));
            if a != b {
                faults.push(format!("{}: {request}\n  nginx  {a:?}\n  hurtle {b:?}", row.sentence));
            }
        }
        drop((theirs, ours));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
