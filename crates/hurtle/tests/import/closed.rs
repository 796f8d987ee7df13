//! An import that succeeds opens nothing that nginx closes: for a grid of requests, hurtle sends no
//! 2xx or 3xx where nginx sends an error. All other configurations are refused, or a remark names
//! the paths.

use crate::closed_parts;
use crate::servers::{
    Dir, Nginx, Ours, ask, free_port, import, import_partially, program, upstream,
};

/// The requests of every row.
const GRID: &[&str] = &[
    "GET /",
    "GET /index.html",
    "GET /a.txt",
    "GET /a.txt X-Forwarded-For=10.1.2.3",
    "GET /a.txt Host=b.example",
    "GET /about",
    "GET /about.html",
    "GET /app/a.txt",
    "GET /app/.git",
    "GET /app/style.css",
    "GET /dir",
    "GET /dir/",
    "GET /dir/index.html",
    "GET /docs/guide.txt",
    "GET /docs/gone",
    "GET /docs/secret/key.txt",
    "GET /docs/style.css",
    "GET /docs/x.php",
    "GET /moved/guide.txt",
    "GET /moved/secret/key.txt",
    "GET /route",
    "GET /static/guide.txt",
    "GET /static/style.css",
    "GET /style.css",
    "GET /x.php",
    "GET //docs/guide.txt",
    "GET /docs//guide.txt",
    "GET /%64ocs/guide.txt",
    "GET /bare/../docs/guide.txt",
    "GET /docs%2fguide.txt",
    "GET /a.txt X-Forwarded-For=10.1.2.3,127.0.0.1",
    "GET /a.txt X-Real-IP=10.1.2.3",
    "GET /auth",
    "GET /.hidden",
    "GET /.well-known/a.txt",
    "GET /bare/.well-known/a.txt",
];

/// A sentence, and the inside of a server with files, or of `http` if it begins with `server`.
const ROWS: &[(&str, &str)] = &[
    // Locations with `=` and with regular expressions.
    ("a password for a file", "location / {} location = /a.txt { PASSWORD }"),
    ("addresses for a file", "location / {} location = /about.html { allow 192.0.2.1; deny all; }"),
    ("a password for an ending", "location / {} location ~ \\.txt$ { PASSWORD }"),
    ("addresses for an ending", "location / {} location ~* \\.txt$ { allow 192.0.2.1; deny all; }"),
    ("nobody for an ending", "location / {} location ~ \\.txt$ { deny all; }"),
    ("a file for nobody", "location / {} location = /a.txt { deny all; }"),
    ("an index for nobody", "location = /index.html { deny all; }"),
    ("an index of a directory for nobody", "location /dir/index.html { deny all; }"),
    ("pages of a directory for nobody", "location / {} location ~ ^/dir/.*\\.html$ { deny all; }"),
    ("pages of one of two directories", "location / {} location ~ ^/(x|dir)/.*html$ { PASSWORD }"),
    ("a directory for nobody", "location / {} location ~ ^/dir/ { deny all; }"),
    (
        "the rest of a path for nobody",
        "location ~ ^/docs/(.*)$ { alias {root}/docs/$1; deny all; }",
    ),
    (
        "a condition of two",
        "if ($arg_x = 1) { set $a 1; } if ($a = 1) { return 403; } location / {}",
    ),
    ("a server that decides about a file", "AUTH location = /a.txt { auth_request /auth; }"),
    ("a server that decides about an ending", "AUTH location ~ \\.txt$ { auth_request /auth; }"),
    (
        "a server that decides, not internal",
        "location /auth { proxy_pass http://{upstream}/deny; } location /docs/ { auth_request /auth; }",
    ),
    ("a password for the page of /", "location / {} location = / { PASSWORD }"),
    // Guards of the server, switched off in a location.
    (
        "a password of the server, off in /",
        "PASSWORD location / { auth_basic off; } location ~ \\.css$ { expires 1h; }",
    ),
    (
        "a password of the server, off in /, and a page",
        "PASSWORD location / { auth_basic off; } location = /a.txt { }",
    ),
    (
        "addresses of the server, others in /",
        "deny all; location / { allow all; } location ~* \\.(css|txt)$ { }",
    ),
    ("a password of the server, off for a page", "PASSWORD location = /a.txt { auth_basic off; }"),
    (
        "a server that decides, off in /",
        "AUTH auth_request /auth; location / { auth_request off; } location ~ \\.css$ { expires 1h; }",
    ),
    // Regular expressions win over prefixes, unless these have ^~.
    (
        "an ending beneath an alias",
        "location /static/ { alias {root}/docs/; } location ~ \\.css$ { expires 1h; }",
    ),
    ("an ending beneath a proxy", "location /app/ { PROXY } location ~ \\.css$ { expires 1h; }"),
    (
        "an ending of the server's guard beneath an open prefix",
        "PASSWORD location / { } location /docs/ { auth_basic off; } location ~ \\.css$ { }",
    ),
    // Names that begin with a dot.
    ("names with a dot", "location ~ /\\. { deny all; }"),
    (
        "names with a dot, sent to an application",
        "location / { PROXY } location ~ /\\.(?!well-known) { deny all; }",
    ),
    (
        "an error page whose location has a password",
        "location / { PASSWORD } location ^~ /docs/ { error_page 404 =200 /a.txt; }",
    ),
    // An address or a password.
    (
        "an address or a password, around a closed directory and an ending of its own",
        "satisfy any; allow 127.0.0.1; deny all; PASSWORD location / { }
         location /docs/ { satisfy all; } location ~ \\.css$ { satisfy all; }
         location = /a.txt { allow 192.0.2.1; deny all; }",
    ),
    (
        "an address or a password that a client has neither of",
        "satisfy any; allow 192.0.2.1; deny all; PASSWORD location / { } location /dir/ { allow all; }
         location ~ \\.txt$ { allow 127.0.0.1; deny all; }",
    ),
    (
        "an address or a server that decides",
        "AUTH location / { satisfy any; allow 192.0.2.1; deny all; auth_request /auth; }
         location /docs/ { satisfy any; deny 127.0.0.1; allow all; auth_request /auth; }",
    ),
    (
        "an address or a password for scripts",
        "satisfy any; allow 127.0.0.1; deny all; PASSWORD location / { }
         location ~ \\.php$ { satisfy all; fastcgi_pass 127.0.0.1:1; }",
    ),
    // Scripts.
    (
        "a password for / beside scripts",
        "location / { PASSWORD } location ~ \\.php$ { fastcgi_pass 127.0.0.1:1; }",
    ),
    (
        "a password for scripts beside a proxy",
        "location / { try_files $uri $uri/ =404; } location /app/ { PROXY }
      location ~ \\.(php)$ { PASSWORD }",
    ),
    (
        "scripts with a password",
        "location / { } location ~ \\.php$ { PASSWORD fastcgi_pass 127.0.0.1:1; }",
    ),
    // Rewrites.
    (
        "a password beside a rewrite of a part",
        "location /docs/ { rewrite ^/docs/none$ /a.txt; PASSWORD }",
    ),
    ("a password beside a rewrite in /", "location / { rewrite ^/none$ /a.txt; PASSWORD }"),
    (
        "a rewrite around a closed location",
        "location /moved/ { rewrite ^/moved/(.*)$ /docs/$1 last; } location /moved/secret/ { deny all; }",
    ),
    (
        "a rewrite to a rewritten path",
        "rewrite ^/moved/(.*)$ /docs/$1 last; rewrite ^/docs/(.*)$ /$1 last; location /docs/ { deny all; }",
    ),
    (
        "a rewrite after return",
        "location /moved { return 403; rewrite ^/moved/(.*)$ /docs/$1 last; }",
    ),
    (
        "a rewrite before return, without a flag",
        "location /moved { rewrite ^/moved/(.*)$ /docs/$1; return 403; }",
    ),
    (
        "a rewrite within a closed location",
        "location /moved/ { PASSWORD rewrite ^/moved/(.*)$ /docs/$1 break; }",
    ),
    (
        "a rewrite before a proxy",
        "location /app/ { PASSWORD rewrite ^/app/(.*)$ /$1 break; PROXY }",
    ),
    (
        "a rewrite of a rest with a password of the server",
        "PASSWORD location / { auth_basic off; } location /docs/ { rewrite ^/docs/none$ /a.txt; }",
    ),
    (
        "a page behind try_files",
        "location / { try_files $uri /docs/guide.txt; } location /docs/ { deny all; }",
    ),
    (
        "a page behind try_files, of an alias",
        "location / { try_files $uri /docs/guide.txt; } location /docs/ { alias {root}/dir/; }",
    ),
    (
        "a password for an ending beside a redirect",
        "location ~ \\.css$ { PASSWORD } location / { return 301 https://b.example/; }",
    ),
    (
        "a page in place of errors",
        "location / { error_page 404 =200 /docs/guide.txt; } location /docs/ { deny all; }",
    ),
    // Internal locations.
    ("an internal directory", "location /docs/ { internal; }"),
    ("an internal file", "location = /a.txt { internal; }"),
    ("an internal ending", "location ~ \\.txt$ { internal; }"),
    ("an internal directory of an alias", "location /static/ { internal; alias {root}/docs/; }"),
    // Prefixes of names, and mounts that take more.
    ("a prefix for nobody", "location /a.t { deny all; }"),
    ("a prefix with a password", "location /do { PASSWORD }"),
    ("a file that is proxied", "location / { PASSWORD } location = /app { PROXY }"),
    ("a page that is proxied", "location / { PASSWORD } location = / { PROXY }"),
    ("a proxied page beside files", "location = / { PROXY }"),
    ("an answer for the page of /", "location = / { return 200 ok; }"),
    ("try_files before a proxy", "location /app/ { try_files $uri =404; PROXY }"),
    (
        "nested locations behind an alias",
        "location /docs/ { alias {root}/docs/; location /docs/secret/ { deny all; } }",
    ),
    ("a limit of methods", "location /docs/ { limit_except POST { deny all; } }"),
    ("a condition", "location /docs/ { if ($http_x_key != k) { return 403; } }"),
    // Addresses of clients.
    (
        "addresses behind a proxy, X-Real-IP",
        "set_real_ip_from 127.0.0.1; allow 10.0.0.0/8; deny all;",
    ),
    (
        "addresses behind a proxy of another server",
        "server { listen 127.0.0.1:{port}; root {root}; allow 10.0.0.0/8; deny all; }
      server { listen 127.0.0.1:{port}; root {root}; server_name b.example;
               set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; }",
    ),
    (
        "addresses behind a proxy of a location",
        "location /docs/ { set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; }
      location / { allow 10.0.0.0/8; deny all; }",
    ),
    (
        "addresses behind a proxy, its network trusted",
        "set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;
         allow 10.0.0.0/8; deny all;",
    ),
    (
        "addresses behind a proxy, recursively",
        "set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;
         allow 192.0.2.0/24; deny all;",
    ),
    // Guards that a location switches off.
    ("a directory without the server's password", "PASSWORD location /dir/ { auth_basic off; }"),
    (
        "an answer without a password",
        "PASSWORD location = /healthz { auth_basic off; return 204; }",
    ),
    ("a page of a closed site", "location / { deny all; } location = /a.txt { allow all; }"),
    ("a directory of a closed site", "deny all; location /docs/ { allow all; }"),
    ("a page closed by return", "location = /a.txt { return 403; }"),
    (
        "an ending beneath a closed directory",
        "location /docs/ { deny all; } location ~ \\.css$ { }",
    ),
    ("an index that an expression guards", "location / { } location ~ \\.html$ { PASSWORD }"),
    (
        "an index that an expression guards, of the same guard",
        "PASSWORD location / { } location ~ \\.html$ { }",
    ),
    (
        "a page behind try_files that an expression guards",
        "location / { try_files $uri $uri/ /docs/guide.txt; } location ~ \\.txt$ { deny all; }",
    ),
    (
        "a page behind try_files that a page guards",
        "location / { try_files $uri $uri/ /a.txt; } location = /a.txt { PASSWORD }",
    ),
    (
        "expressions beneath a final prefix",
        "location ^~ /docs/ { PASSWORD } location ~ \\.txt$ { deny all; }",
    ),
    (
        "an expression before a longer one",
        "location ~ ^/docs/ { deny all; } location ~ ^/docs/guide { PROXY }",
    ),
    ("an expression without look-ahead", "location ~ /\\.(?!well-known) { deny all; }"),
    ("an expression with look-ahead", "location ~ ^/(?=docs) { deny all; }"),
    // Closed by a translation.
    ("a directory with a password", "location /docs/ { PASSWORD }"),
    ("a directory for nobody", "location ^~ /docs/ { deny all; }"),
    ("a password for all", "PASSWORD location ~ \\.css$ { expires 1h; } location = /a.txt { }"),
    ("a server that decides about a directory", "AUTH location /docs/ { auth_request /auth; }"),
];

/// Rows in which hurtle opens a path of the grid, and a part of the remark that names it.
const REMARKED: &[(&str, &str, &str)] = &[
    ("a condition before a redirect", "GET /a.txt", "the redirects of GET /a.txt precede it"),
    ("a condition of names that begin alike", "GET /about.html", "names that begin with /about"),
    (
        "an address or a password that a client has neither of",
        "GET /dir",
        "GET /dir is redirected to /dir/",
    ),
    ("a prefix for nobody", "GET /a.txt", "/a.t-x"),
    ("a prefix with a password", "GET /docs/", "/do-x"),
    ("a prefix with a password", "GET //docs/", "/do-x"),
    ("a prefix with a password", "GET /%64ocs/", "/do-x"),
    ("a prefix with a password", "GET /bare/../docs/", "/do-x"),
    ("a directory without the server's password", "GET /dir", "a request for /dir has the guard"),
];

/// Rows that are translated. All others are refused.
const TRANSLATED: &[&str] = &[
    "an internal file",
    "a condition",
    "a file for nobody",
    "a directory with a password",
    "a directory for nobody",
    "a password for all",
    "a server that decides about a directory",
    "a password beside a rewrite of a part",
    "a password beside a rewrite in /",
    "a rewrite of a rest with a password of the server",
    "a prefix for nobody",
    "a prefix with a password",
    "addresses behind a proxy, recursively",
    "a directory without the server's password",
    "an answer without a password",
    "a directory of a closed site",
    "a page closed by return",
    "an ending beneath a closed directory",
    "a password for a file",
    "addresses for a file",
    "a password for an ending",
    "addresses for an ending",
    "nobody for an ending",
    "a server that decides about a file",
    "a server that decides about an ending",
    "a password for the page of /",
    "a password of the server, off in /",
    "a password of the server, off in /, and a page",
    "addresses of the server, others in /",
    "a password of the server, off for a page",
    "a server that decides, off in /",
    "an ending beneath an alias",
    "an ending beneath a proxy",
    "an ending of the server's guard beneath an open prefix",
    "names with a dot",
    "names with a dot, sent to an application",
    "a password for scripts beside a proxy",
    "a password for an ending beside a redirect",
    "a file that is proxied",
    "a page that is proxied",
    "a proxied page beside files",
    "an answer for the page of /",
    "a page of a closed site",
    "an index that an expression guards, of the same guard",
    "expressions beneath a final prefix",
    "an expression before a longer one",
    "an expression without look-ahead",
    "a rewrite before a proxy",
    "the rest of a path for nobody",
    "a condition of names that begin alike",
    "a condition of two",
    "an address or a password, around a closed directory and an ending of its own",
    "an address or a password that a client has neither of",
    "an address or a server that decides",
    "a condition before a redirect",
    "a location of one file beside a closed ending",
];

#[test]
fn what_nginx_closes_stays_closed() {
    let Some(nginx) = program() else {
        panic!("nginx is missing; `cargo xtask test --only packages` installs it");
    };
    let upstream = upstream();
    let mut faults = Vec::new();
    for (sentence, text) in ROWS.iter().chain(closed_parts::ROWS) {
        let dir = Dir::new();
        let port = free_port();
        let file = dir.configure(&http(text), port, upstream);
        let expects = TRANSLATED.contains(sentence);
        let text = match import(&file) {
            Ok(text) if expects => text,
            Ok(_) => {
                faults.push(format!("{sentence}: translated"));
                continue;
            }
            Err(problems) => {
                let at = format!("{}:", file.display());
                if expects || problems.iter().any(|line| !line.starts_with(&at)) {
                    faults.push(format!("{sentence}: refused: {}", problems.join("\n")));
                }
                // A translation of a part opens nothing either.
                match import_partially(&file) {
                    Ok(partial) => partial,
                    Err(_) => continue,
                }
            }
        };
        let theirs = Nginx::start(&nginx, &file, &dir.0, port);
        let ours = Ours::start(&text, port);
        for request in GRID {
            let (a, b) = (ask(port, request).status, ask(ours.port, request).status);
            let is_open = |status: &str| status.starts_with(['2', '3']);
            let is_remarked = REMARKED.iter().any(|(row, paths, part)| {
                row == sentence && request.starts_with(paths) && text.contains(part)
            });
            if !is_open(&a) && is_open(&b) && !is_remarked {
                faults.push(format!("{sentence}: {request}: nginx {a}, hurtle {b}"));
            }
        }
        drop((theirs, ours));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// The whole configuration of a row.
fn http(text: &str) -> String {
    let server = match text.starts_with("server") {
        true => text.to_owned(),
        false => format!("server {{ listen 127.0.0.1:{{port}}; root {{root}};\n{text} }}"),
    };
    server
        .replace("PASSWORD", "auth_basic s; auth_basic_user_file {dir}/ht;")
        .replace("PROXY", "proxy_pass http://{upstream}; proxy_set_header Host $host;")
        .replace("AUTH", "location = /auth { internal; proxy_pass http://{upstream}/deny; }")
}
