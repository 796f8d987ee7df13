//! Configurations whose plainer forms are translated: URLs of constants, exact locations that lead
//! elsewhere, fixed files, maps of media types; and answers that only their statuses make
//! comparable.

use crate::alike::Row;
use crate::servers::{Dir, Nginx, Ours, ask, free_port, import, program, upstream};

pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "locations of single files, several lines of names of an index, and types",
        http: "server { listen 127.0.0.1:{port}; root {root}; index none.html; index index.html;
               location /a.txt { access_log off; log_not_found off; }
               location /page.txt { alias {root}/a.txt; }
               location ^~ /.well-known { root {root}/bare; }
               location /dir/ { types { } default_type application/octet-stream; }
               location /docs/ { types { text/css txt; } default_type text/x-other; } }",
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /page.txt",
            "GET /.well-known/a.txt",
            "GET /docs/guide.txt",
            "GET /dir/index.html",
            "GET /docs/style.css",
        ],
    },
    Row {
        sentence: "a URL of a constant for a path and what is beneath it",
        http: "server { listen 127.0.0.1:{port}; root {root};
               set $events http://{upstream}/base/events; set $script http://{upstream}/js/x.js;
               location /api/events { proxy_pass $events; proxy_set_header Host $http_host; }
               location = /js/script.js { proxy_pass $script; proxy_set_header Host $http_host; }
               location / { } }",
        requests: &[
            "GET /api/events",
            "GET /api/events?a=b",
            "GET /api/events/x/y?a=b",
            "POST /api/events/x",
            "GET /js/script.js?a=b",
            "GET /js/script.jsx",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "exact locations that lead to other paths, and one that no path meets",
        http: "server { listen 127.0.0.1:{port};
               location static/ { root {root}; }
               location = /favicon.ico { rewrite (.*) /static/favicon.ico; }
               location = /robots.txt { rewrite ^ /docs/guide.txt last; access_log off; }
               location /docs/ { root {root}; }
               location / { proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /favicon.ico",
            "GET /favicon.ico?a=b",
            "GET /robots.txt",
            "GET /robots.txt/x",
            "GET /static/x",
            "GET /docs/guide.txt",
        ],
    },
    Row {
        sentence: "fixed files of exact locations",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location = / { alias {root}/docs/; try_files guide.txt guide.txt; add_header X-All \"yes \"; }
               location = /page { try_files /about.html =404; }
               location = /gone { try_files /gone.html =404; }
               location = /dir/ { root {root}; try_files /docs/guide.txt =404; } }",
        requests: &["GET /", "GET /page?a", "HEAD /page", "GET /gone", "GET /dir/", "GET /x"],
    },
    Row {
        sentence: "expiry by expressions of media types, the first of which counts",
        http: "types { text/html html; text/css css; text/plain txt; application/json json; }
               map $sent_http_content_type $expires { default 1y; \"\" off; ~*text/html epoch;
                                                      text/css 1h; ~*json epoch; ~*text/ 1d; }
               server { listen 127.0.0.1:{port}; root {root}; expires $expires; }",
        requests: &["GET /", "GET /style.css", "GET /a.txt", "GET /about.html"],
    },
    Row {
        sentence: "fields by media types, also of a redirect and of an upstream",
        http: "types { text/html html; text/css css; text/plain txt; }
               map $sent_http_content_type $all { ~*text/(html|javascript)|application/pdf|xml DENY; }
               map $sent_http_content_type $docs { default other; text/css css; ~*text/ text; }
               map $sent_http_content_type $expires { default 1y; text/html epoch; }
               server { listen 127.0.0.1:{port}; root {root}; add_header X-All $all; add_header X-Docs $docs;
               location /moved { return 301 /a.txt; expires $expires; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /style.css",
            "GET /moved",
            "GET /none",
            "GET /app/x",
        ],
    },
    Row {
        sentence: "the rest of a path behind an expression",
        http: "proxy_set_header Host $http_host;
               server { listen 127.0.0.1:{port}; root {root};
               location ~ ^/api/(.*)$ { proxy_pass http://{upstream}/$1$is_args$args; }
               location ~ \\.css$ { add_header X-All yes; } }
               server { listen 127.0.0.1:{port}; server_name b.example; root {root};
               location ~ ^/v1/(.*) { proxy_pass http://{upstream}/base/$1?$args; add_header X-All yes; }
               location / { try_files $uri =404; } }
               server { listen 127.0.0.1:{port}; server_name c.example; root {root};
               location ~ ^/v2/(.*)$ { proxy_pass http://{upstream}/base/$1; } }
               server { listen 127.0.0.1:{port}; server_name d.example; root {root};
               location ~ ^/files/(.*)$ { alias {root}/docs/$1; add_header X-Docs yes; }
               location / { } }",
        requests: &[
            "GET /api/x?a=b",
            "POST /api/x",
            "GET /api/",
            "GET /api/style.css",
            "GET /apix/y",
            "GET /style.css",
            "GET /v1/x?a=b Host=b.example",
            "GET /v1/x/y.css?a=b Host=b.example",
            "GET /a.txt Host=b.example",
            "GET /v2/x Host=c.example",
            "GET /v2/x?a=b Host=c.example",
            "GET /v2/ Host=c.example",
            "GET /files/guide.txt Host=d.example",
            "GET /files/gone Host=d.example",
            "GET /files/secret/key.txt Host=d.example",
            "GET /a.txt Host=d.example",
        ],
    },
    Row {
        sentence: "a directory above the location that an upstream does not know",
        http: "proxy_set_header Host $http_host;
               server { listen 127.0.0.1:{port}; root {root};
               location ^~ /own/ { proxy_pass http://{upstream}; rewrite /own(.*) $1 break;
                                   proxy_redirect off; }
               location ^~ /own/api { rewrite /own(.*) $1 break; proxy_pass http://{upstream};
                                      proxy_redirect off; add_header X-All yes; }
               location /own/v1/ { rewrite ^/own/(.*)$ /$1 break; proxy_pass http://{upstream};
                                   proxy_redirect off; } }",
        requests: &[
            "GET /own/x?a=b",
            "GET /own/api?a=b",
            "GET /own/api/x/y?a=b",
            "GET /own/api/a%20b",
            "POST /own/api/x",
            "GET /own/v1/x",
            "GET /own/v1/",
            "GET /own/",
        ],
    },
    Row {
        sentence: "a location without a slash, and its directory with one",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /x { alias {root}/docs/; }
               location /y { alias {root}/dir/; try_files $uri $uri/ /y/index.html; } }",
        requests: &[
            "GET /x/guide.txt",
            "GET /x/gone",
            "GET /x",
            "GET /x/secret/key.txt",
            "GET /y/",
            "GET /y/index.html",
        ],
    },
    Row {
        sentence: "redirects with parts of a path",
        http: "server { listen 127.0.0.1:{port}; server_name a.example; root {root};
               location ~ ^/old/(.*)$ { return 301 /new/$1; }
               location ~ ^/page/([0-9]+)/(\\w+)$ { return 302 $scheme://$host/$2/$1$is_args$args; }
               location ~ ^/far/(.*)$ { return 301 https://b.example/$1?$args; }
               location = /args { return 302 /y/$is_args$args; }
               location = /url { return 301 https://b.example/z?$args; }
               location /docs/ { } }
               server { listen 127.0.0.1:{port}; server_name b.example;
               rewrite ^/x/(.*)$ http://$host/y/$1 permanent; root {root}; }",
        requests: &[
            "GET /old/x Host=a.example",
            "GET /old/x?a=b Host=a.example",
            "GET /old/ Host=a.example",
            "GET /old/x/y.html Host=a.example",
            "GET /old Host=a.example",
            "HEAD /old/x Host=a.example",
            "GET /page/12/ab Host=a.example",
            "GET /page/12/ab?c=d Host=a.example",
            "GET /page/ab/12 Host=a.example",
            "GET /far/x?a=b Host=a.example",
            "GET /args Host=a.example",
            "GET /args?a=b Host=a.example",
            "GET /args/x Host=a.example",
            "GET /url?a=b Host=a.example",
            "GET /docs/guide.txt Host=a.example",
            "GET /x/z?a=b Host=b.example",
        ],
    },
    Row {
        sentence: "names without www, and an ID of each request",
        http: "server { listen 127.0.0.1:{port}; server_name a.example www.a.example; root {root};
               if ($host ~* ^www\\.(.*)$) { return 301 https://$1$request_uri; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                proxy_set_header X-Request-ID $request_id; } }
               server { listen 127.0.0.1:{port}; server_name www.c.example c.example; root {root};
               if ($host ~* ^www\\.(.*)) { set $bare $1; rewrite ^(.*)$ http://$bare$1 permanent; } }",
        requests: &[
            "GET /a.txt Host=a.example",
            "GET /a.txt?x=y Host=www.a.example",
            "GET /a%20b?x=y Host=WWW.a.example",
            "POST /app/x Host=www.a.example",
            "GET /app/x Host=a.example",
            "GET /a.txt Host=c.example",
            "GET /a.txt?x=y Host=www.c.example",
            "GET / Host=www.c.example",
        ],
    },
    Row {
        sentence: "variables that are set under conditions",
        http: "server { listen 127.0.0.1:{port}; server_name a.example; root {root};
               set $closed 0;
               if ($http_x_key = k) { set $closed 1; }
               if ($closed = 1) { return 403; }
               location / { } }
               server { listen 127.0.0.1:{port}; server_name b.example; root {root};
               if ($request_method = POST) { set $t M; }
               if ($http_x_key = k) { set $t \"${t}K\"; }
               if ($t = MK) { return 410; }
               location / { try_files $uri =404; } }
               server { listen 127.0.0.1:{port}; server_name c.example; root {root};
               set $down off; if ($down = on) { return 503; }
               location /docs/ { set $no 1; if ($arg_open = 1) { set $no 0; } if ($no) { return 403; } } }
               server { listen 127.0.0.1:{port}; server_name d.example; root {root};
               if (-f $document_root/a.txt) { set $m 1; } if ($m = 1) { return 503; }
               error_page 503 @m; location @m { rewrite ^(.*)$ /about.html break; } }",
        requests: &[
            "GET /a.txt Host=a.example",
            "GET /a.txt Host=a.example X-Key=k",
            "POST /a.txt Host=b.example X-Key=k",
            "GET /a.txt Host=b.example X-Key=k",
            "GET /gone Host=b.example",
            "GET /a.txt Host=c.example",
            "GET /docs/guide.txt Host=c.example",
            "GET /docs/guide.txt?open=1 Host=c.example",
        ],
    },
];

/// Starts both servers with a server of nginx; the text of the import is changed by `edit`.
fn both(inside: &str, edit: impl Fn(&str, &Dir) -> String) -> (Dir, Nginx, Ours, u16) {
    let nginx =
        program().expect("nginx is missing; `cargo xtask test --only packages` installs it");
    let (dir, port) = (Dir::new(), free_port());
    let http = format!("server {{ listen 127.0.0.1:{{port}}; {inside} }}");
    let file = dir.configure(&http, port, upstream());
    let text = import(&file).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
    let theirs = Nginx::start(&nginx, &file, &dir.0, port);
    let ours = Ours::start(&edit(&text, &dir), port);
    (dir, theirs, ours, port)
}

#[test]
fn pages_of_figures_have_the_same_clients() {
    let inside = "root {root}; location /status { stub_status; }
                  location = /figures { stub_status on; allow 127.0.0.1; deny all; }
                  location = /closed { stub_status; deny all; }";
    let (_dir, _theirs, ours, port) = both(inside, |text, _| text.to_owned());
    for request in ["GET /status", "HEAD /status", "GET /figures", "GET /figures/x", "GET /closed"]
    {
        let (theirs, own) = (ask(port, request), ask(ours.port, request));
        assert_eq!(own.status, theirs.status, "{request}");
    }
}

#[test]
fn relative_paths_are_those_of_the_directory_that_the_remark_names() {
    let inside = "root www; location /docs/ { root ./www; add_header X-Docs yes; } error_page 404 /404.html;";
    let (_dir, _theirs, ours, port) = both(inside, |text, dir| {
        assert!(text.contains("--prefix"), "{text}");
        text.replace("\"/usr/local/nginx", &format!("\"{}", dir.0.display()))
    });
    for request in ["GET /", "GET /a.txt", "GET /docs/guide.txt", "GET /docs/none", "GET /none"] {
        assert_eq!(ask(ours.port, request), ask(port, request), "{request}");
    }
}
