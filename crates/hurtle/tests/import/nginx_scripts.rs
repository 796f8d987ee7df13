//! Sites with scripts of PHP: nginx and hurtle ask the same PHP-FPM.

use crate::nginx_behind_scripts::Both;
use crate::php_fpm::PhpFpm;
use crate::servers::{ask, program};

/// A sentence, the inside of a server, and requests whose answers are compared.
struct Row {
    sentence: &'static str,
    server: &'static str,
    requests: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        sentence: "directories of files beside scripts",
        server: "index index.php index.html;
            location / { try_files $uri $uri/ /index.php?$args; }
            location /docs/ { add_header X-Docs yes; }
            location /dir { add_header X-All yes; }
            location /alias/ { alias {root}/docs/; }
            location ^~ /bare/ { }
            location ~ \\.php$ { try_files $uri =404; {php} }",
        requests: &[
            "GET /",
            "GET /post/1?a=b",
            "GET /docs/guide.txt",
            "GET /docs/gone",
            "GET /docs/x.php?a=b",
            "GET /docs/x%2Ephp",
            "GET //docs//x.php",
            "GET /docs/./x.php",
            "GET /docs/gone.php",
            "GET /docs/x.php/",
            "GET /docs/x.php/more",
            "GET /docs/X.PHP",
            "POST /docs/x.php",
            "POST /docs/guide.txt",
            "GET /alias/guide.txt",
            "GET /alias/x.php",
            "GET /dir/",
            "GET /dir/index.html",
            "GET /dir/gone.php",
            "GET /bare/x.txt",
            "GET /bare/gone.php",
            "GET /x.php",
            "GET /x.php?a=b",
        ],
    },
    Row {
        sentence: "a condition on scripts beneath a directory",
        server: "index index.php index.html;
            if ($uri ~* ^/docs/.*\\.php$) { return 403; }
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ \\.php$ { {php} }",
        requests: &["GET /docs/x.php", "GET /docs/", "GET /docs/guide.txt", "GET /x.php", "GET /post"],
    },
    Row {
        sentence: "a condition of files, which is not for scripts",
        server: "index index.php;
            location / {
                if ($http_user_agent ~* wget) { return 403; }
                try_files $uri $uri/ /index.php?$args;
            }
            location ~ \\.php$ { {php} }",
        requests: &[
            "GET /x.php User-Agent=Wget",
            "GET /x.php",
            "GET /a.txt User-Agent=Wget",
            "GET /a.txt",
            "GET /post User-Agent=Wget",
            "GET /post",
        ],
    },
    Row {
        sentence: "a script behind a name",
        server: "index index.php;
            location / { try_files $uri $uri/ @front; }
            location /docs { try_files $uri =404; }
            location @front { rewrite ^ /index.php last; }
            location ~ \\.php$ { {php} }",
        requests: &[
            "GET /",
            "GET /post/1?a=b",
            "POST /post/1?a=b",
            "GET /post/1",
            "GET /a.txt?x",
            "GET /docs/x.php",
            "GET /docs/guide.txt",
            "GET /docs/gone",
        ],
    },
    Row {
        sentence: "a script in place of missing files",
        server: "index index.php;
            location / { if (!-e $request_filename) { rewrite ^(.*)$ /index.php last; } }
            location ~ \\.php$ { {php} }",
        requests: &["GET /", "GET /post/1?a=b", "GET /a.txt", "GET /docs/", "GET /docs/x.php"],
    },
    Row {
        sentence: "uploads of files that are not there, which a script answers",
        server: "index index.php;
            location / { dav_methods PUT DELETE; dav_access user:rw all:r; create_full_put_path on;
                         try_files $uri $uri/ @front; }
            location @front { rewrite ^(.*)$ /index.php last; }
            location /docs { alias {root}/docs; }
            location /bare/ { alias {root}/bare/; }
            location ~ \\.php$ { try_files $uri =404; {php} }",
        requests: &[
            "PUT /new.txt Content-Length=0",
            "GET /new.txt",
            "DELETE /gone.txt",
            "GET /gone.txt?a=b",
            "PUT /docs/new.txt Content-Length=0",
            "PUT /gone.php Content-Length=0",
            "GET /docs/guide.txt",
            "GET /docs/x.php",
            "GET /bare/x.txt",
            "GET /",
        ],
    },
    Row {
        sentence: "one script, and directories of files",
        server: "index index.php;
            location / { try_files $uri /index.php?$args; }
            location /docs/ { add_header X-Docs yes; }
            location ~ ^/index\\.php(/|$) { {php} }",
        requests: &[
            "GET /",
            "GET /post/1?a=b",
            "GET /docs/guide.txt",
            "GET /docs/gone",
            "GET /index.php/x",
        ],
    },
    Row {
        sentence: "conditions and expressions beside scripts",
        server: "index index.php;
            if ($arg_closed = 1) { return 403; }
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ ^/docs/secret/ { return 410; }
            location ~ \\.php$ { {php} }
            location /docs/ { if ($request_method = POST) { return 405; } }
            location ~ \\.(txt|php)$ { add_header X-All yes; }",
        requests: &[
            "GET /docs/x.php?closed=1",
            "GET /docs/guide.txt?closed=1",
            "GET /docs/secret/x.php",
            "POST /docs/x.php",
            "POST /docs/gone",
            "GET /docs/guide.txt",
            "GET /docs/x.php",
            "GET /a.txt",
            "GET /x.php",
        ],
    },
    Row {
        sentence: "an application of PHP in a directory of its own, by alias",
        server: "index index.html;
            location / { }
            location /apps { alias {root}/docs; index index.php x.php; add_header X-All yes;
                location ~ \\.php$ { {php} fastcgi_param SCRIPT_FILENAME $request_filename; }
                location ~ ^/apps/secret/ { deny all; } }
            location ~ \\.txt$ { add_header X-Docs text; }
            location ~ \\.css$ { return 410; }",
        requests: &[
            "GET /apps",
            "GET /apps/",
            "GET /apps/x.php?a=b",
            "POST /apps/x.php",
            "GET /apps/%78.php",
            "GET /apps/gone.php",
            "GET /apps/gone",
            "GET /apps/style.css",
            "GET /apps/secret/key.txt",
            "GET /apps/secret/x.php",
            "GET /docs/guide.txt",
            "GET /a.txt",
            "GET /",
        ],
    },
    Row {
        sentence: "applications of PHP within roots of their own, beside scripts",
        server: "index index.php index.html;
            location / { try_files $uri $uri/ /index.php?$args; }
            location ^~ /docs { root {root}; index x.php;
                location ~ ^/docs/(.+\\.php)$ { try_files $uri =404; root {root}; {php} }
                location ~* ^/docs/(.+\\.(css|txt))$ { root {root}; add_header X-Docs nested; } }
            location /bare/ { alias {root}/docs/; index x.php;
                location ~ ^/bare/(.+\\.php)$ { alias {root}/docs/$1; {php}
                    fastcgi_param SCRIPT_FILENAME $request_filename; } }
            location ~ \\.css$ { add_header X-All outer; }
            location ~ \\.php$ { try_files $uri =404; {php} }",
        requests: &[
            "GET /docs/",
            "GET /docs/x.php?a=b",
            "GET /docs/guide.txt",
            "GET /docs/style.css",
            "GET /docs/gone.css",
            "GET /docs/gone.php",
            "GET /docs/gone",
            "GET /docs/secret/key.txt",
            "GET /bare/",
            "GET /bare/x.php?a=b",
            "GET /bare/guide.txt",
            "GET /bare/gone.php",
            "GET /style.css",
            "GET /post/1?a=b",
            "GET /x.php",
        ],
    },
    Row {
        sentence: "an application of PHP beneath a path, whose script answers for missing files",
        server: "index index.html;
            location /docs/ { root {root}; index x.php; try_files $uri $uri/ /docs/x.php?$args;
                location ~ \\.php$ { {php} } }
            location = /a.txt { add_header X-Docs yes; }",
        requests: &[
            "GET /docs/",
            "GET /docs/post/1?a=b",
            "POST /docs/post/1?a=b",
            "GET /docs/guide.txt",
            "GET /docs/x.php?a=b",
            "GET /a.txt",
            "GET /gone",
        ],
    },
    Row {
        sentence: "scripts with settings of their own beside others",
        server: "index index.php;
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ ^/docs/x\\.php$ { auth_basic s; auth_basic_user_file {dir}/ht; {php} }
            location ~ ^/(bare|dir)/.*\\.php(/|$) { fastcgi_read_timeout 300s; try_files $uri =404; {php} add_header X-All own; }
            location ~ \\.php$ { try_files $uri =404; {php} }",
        requests: &[
            "GET /docs/x.php",
            "POST /docs/x.php?a",
            "GET /docs/%78.php",
            "GET /x.php",
            "GET /bare/gone.php",
            "GET /bare/x.txt",
            "GET /post/1",
            "GET /",
        ],
    },
    Row {
        sentence: "constants in place of what is known of the connection",
        server: "location / { }
            location ~ \\.php$ { {php} fastcgi_param HTTPS on; fastcgi_param REQUEST_SCHEME https;
                fastcgi_param SERVER_NAME a.example; fastcgi_param SERVER_PORT 443;
                fastcgi_param REMOTE_ADDR 192.0.2.7; fastcgi_param REMOTE_USER anna;
                fastcgi_param HTTPS $https if_not_empty; }",
        requests: &["GET /server.php"],
    },
    Row {
        sentence: "a constant and then what is known of the connection",
        server: "location / { }
            location ~ \\.php$ { {php} fastcgi_param REMOTE_ADDR 192.0.2.7; fastcgi_param REMOTE_ADDR $remote_addr;
                fastcgi_param HTTPS on; fastcgi_param HTTPS off; fastcgi_param REQUEST_SCHEME $scheme;
                fastcgi_param SERVER_NAME $host; fastcgi_param SERVER_PORT 80; fastcgi_param REMOTE_USER x; }",
        requests: &["GET /server.php"],
    },
    Row {
        sentence: "scripts of one directory alone",
        server: "index index.html x.php;
            location ~ ^/docs/.*\\.php$ { {php} }
            location ~ ^/bare/.*\\.php$ { deny all; fastcgi_pass unix:{socket}; }",
        requests: &[
            "GET /docs/x.php?a=b",
            "GET /docs/gone.php",
            "GET /docs/guide.txt",
            "GET /bare/x.php",
            "GET /bare/x.txt",
            "GET /",
            "GET /docs",
        ],
    },
    Row {
        sentence: "scripts that are closed in directories of uploads, and pages of PHP-FPM",
        server: "index index.php index.html;
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~* /(?:docs|files)/.*\\.php$ { deny all; }
            location ~ ^/(status|ping)$ { {php} allow 127.0.0.1; deny all; }
            location ~ ^/bare/x\\.php$ { return 404; }
            location ~ \\.php$ { try_files $uri =404; {php} }
            location = /a.txt { deny all; }
            location ~ /\\. { deny all; }",
        requests: &[
            "GET /docs/x.php",
            "GET /docs/",
            "GET /docs/index.php",
            "GET /DOCS/x.php",
            "GET /docs/secret/x.php",
            "GET /docs/guide.txt",
            "GET /docs/gone",
            "GET /bare/x.php",
            "GET /x.php",
            "GET /ping",
            "GET /status?json",
            "GET /ping/x",
            "GET /a.txt",
            "GET /.hidden",
        ],
    },
    Row {
        sentence: "a script in place of missing files of expressions and directories",
        server: "index index.php;
            location / { try_files $uri $uri/ @rewrite; }
            location @rewrite { rewrite ^ /index.php last; }
            location /docs/ { add_header X-Docs yes; try_files $uri $uri/ /index.php?$args; }
            location ~* \\.(css|txt)$ { add_header X-All yes; try_files $uri /index.php$is_args$args; }
            location ~ ^/bare/ { try_files $uri @rewrite; }
            location ~ \\.php$ { try_files $uri =404; {php} }",
        requests: &[
            "GET /style.css",
            "GET /gone.css?a=b",
            "GET /%67one.txt",
            "POST /gone.css",
            "HEAD /gone.css",
            "GET /docs/guide.txt",
            "GET /docs/gone",
            "GET /docs/gone?a=b&c",
            "GET /docs/x.php",
            "GET /docs/style.css",
            "GET /bare/x.txt",
            "GET /bare/gone",
            "GET /post/1",
            "GET /gone.php",
        ],
    },
    Row {
        sentence: "one script for directories, missing files and most other scripts",
        server: "index index.php index.html /index.php$request_uri;
            include /etc/nginx/mime.types; types { text/javascript mjs; }
            location = / { if ($http_user_agent ~ ^DavClnt) { return 302 /remote.php/webdav/$is_args$args; } }
            location ^~ /.well-known {
                location = /.well-known/carddav { return 301 /remote.php/dav/; }
                location /.well-known/acme-challenge { try_files $uri $uri/ =404; }
                return 301 /index.php$request_uri; }
            location ~ ^/(?:bare|data)(?:$|/) { return 404; }
            location ~ ^/(?:\\.|autotest|db_) { return 404; }
            location ~ \\.php(?:$|/) {
                rewrite ^/(?!index|remote|docs\\/x|.+\\/own) /index.php$request_uri;
                try_files $fastcgi_script_name =404; {php} }
            location ~ \\.(?:css|js|txt)$ { try_files $uri /index.php$request_uri; add_header X-All public; }
            location /remote { return 301 /remote.php$request_uri; }
            location /dir/ { add_header X-Docs yes; }
            location /docs/secret/ { add_header X-Docs yes; }
            location / { try_files $uri $uri/ /index.php$request_uri; }",
        requests: &[
            "GET /",
            "GET / User-Agent=DavClnt/1",
            "GET /?a=b&c User-Agent=DavClnt/1",
            "GET /a.txt User-Agent=DavClnt/1",
            "GET /index.php",
            "GET /index.php/apps/x?y",
            "GET /x.php",
            "GET /x.php?a=b",
            "POST /x.php/more?a=b",
            "GET /docs/x.php",
            "GET /docs/x.php/more",
            "GET /dir/",
            "GET /dir/index.html",
            "GET /dir/gone.php",
            "GET /docs/secret/key.txt",
            "GET /docs/secret/gone.php/x?y",
            "GET /gone.php",
            "GET /remote.php/gone",
            "GET /remote/x?y",
            "GET /style.css",
            "GET /gone.css?x",
            "GET /bare/x.txt",
            "GET /bare",
            "GET /.well-known/carddav",
            "GET /.well-known/x?y=z",
            "GET /.hidden",
            "GET /db_x",
            "GET /post/1?a=b",
        ],
    },
];

#[test]
fn both_servers_run_the_same_scripts() {
    let Some(nginx) = program() else {
        panic!("nginx is missing; `cargo xtask test --only packages` installs it");
    };
    let php = PhpFpm::start(2);
    let mut faults = Vec::new();
    for Row { sentence, server, requests } in ROWS {
        let both = Both::start(&nginx, server, &php);
        for request in *requests {
            let [a, b] = [both.port, both.ours.port].map(|port| {
                let mut seen = ask(port, request);
                // PHP-FPM's own text of 404, which only a server that asks it has.
                if seen.body == "File not found.\n" {
                    seen.body.clear();
                }
                seen
            });
            if a != b {
                faults.push(format!("{sentence}: {request}\n  nginx  {a:?}\n  hurtle {b:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
