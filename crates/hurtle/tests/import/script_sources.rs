//! An imported site sends no source of a script that an application runs behind nginx, whatever
//! path leads to it: a directory's index, the end of a search, a page in place of an error.

use std::fs;

use crate::servers::{Dir, Ours, ask, free_port, import, import_partially, upstream};

/// Requests of every row: none gets the source.
const REQUESTS: [&str; 10] = [
    "GET /",
    "GET /index.php",
    "GET /gone",
    "GET /gone.php",
    "GET /app/",
    "GET /app/index.php",
    "GET /app/gone",
    "GET /app/one/",
    "GET /app/gone.txt",
    "GET /docs/",
];

/// The scripts of the sites whose applications run all of them.
const ALL: &[&str] = &["index.php", "app/index.php"];

/// A sentence, the scripts of the site, the inside of a server, and the part of a remark, or of a
/// problem that refuses it.
const ROWS: &[(&str, &[&str], &str, Result<&str, &str>)] = &[
    (
        "an index that a proxy of scripts runs",
        ALL,
        "index index.php index.html; location / { try_files $uri $uri/ =404; }
         location ~ \\.php$ { proxy_pass http://{upstream}; }",
        Ok("GET / is 404; nginx runs its index /index.php"),
    ),
    (
        "an index that an application of uwsgi runs",
        ALL,
        "index index.php; location ~ \\.php$ { uwsgi_pass 127.0.0.1:1; }",
        Ok("GET / is 404; nginx runs its index /index.php"),
    ),
    (
        "an index that an exact location runs",
        &["index.php"],
        "index index.php; location = /index.php { fastcgi_pass 127.0.0.1:1;
         fastcgi_param SCRIPT_FILENAME $document_root/index.php; }",
        Ok("GET / is 404; nginx runs its index /index.php"),
    ),
    (
        "an index that a prefix of its path runs",
        &["index.php"],
        "index index.php; location / { } location /index.php { proxy_pass http://{upstream}; }",
        Ok("GET / is 404; nginx runs its index /index.php"),
    ),
    (
        "an index of a directory that an exact location runs",
        &["app/index.php"],
        "index index.php index.html; location / { } location = /app/index.php { proxy_pass http://{upstream}; }",
        Ok("GET /app/ is 404; nginx runs its index /app/index.php"),
    ),
    (
        "an index that is redirected",
        &["index.php"],
        "index index.php; location / { } location = /index.php { return 301 /home; }",
        Ok("GET / is 404; nginx runs its index /index.php"),
    ),
    (
        "a script in place of missing files, by error_page",
        &["index.php"],
        "error_page 404 = /index.php; location / { }
         location ~ ^/(index|matomo|piwik)\\.php$ { fastcgi_pass 127.0.0.1:1; }",
        Err("/index.php in place of missing files would be sent as it is"),
    ),
    (
        "a script of a proxy in place of missing files",
        ALL,
        "location / { error_page 404 =200 /index.php; } location ~ \\.php$ { proxy_pass http://{upstream}; }",
        Err("/index.php in place of missing files would be sent as it is"),
    ),
    (
        "a script at the end of a search beneath a prefix",
        ALL,
        "location /app/ { try_files $uri /app/index.php; }
         location ~ \\.php$ { proxy_pass http://{upstream}; }",
        Err("/app/index.php in place of missing files would be sent as it is"),
    ),
    // Its name is that of the index, which is another file.
    (
        "a script of a directory at the end of a search",
        &["app/index.php"],
        "index index.php index.html; location / { try_files $uri $uri/ /app/index.php; }
         location ~ ^/app/ { proxy_pass http://{upstream}; }",
        Err("/app/index.php in place of missing files would be sent as it is"),
    ),
    (
        "a script of an expression in place of an error",
        ALL,
        "error_page 404 /index.php; location / { } location ~ \\.php$ { proxy_pass http://{upstream}; }",
        Ok(""),
    ),
    (
        "a script of FastCGI in place of an error",
        ALL,
        "error_page 404 /index.php; location / { } location ~ \\.php$ { fastcgi_pass 127.0.0.1:1;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Ok(""),
    ),
    (
        "a script of an exact location in place of an error",
        &["index.php"],
        "error_page 404 /index.php; location / { } location = /index.php { proxy_pass http://{upstream}; }",
        Ok(""),
    ),
    (
        "scripts of FastCGI at the end of searches",
        ALL,
        "index index.php; location / { try_files $uri $uri/ /index.php?$args; }
         location /app/ { try_files $uri /app/index.php?$args; }
         location ~ \\.php$ { fastcgi_pass 127.0.0.1:1;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Err("it needs a script; see fastcgi"),
    ),
    (
        "an index of directories by an expression, behind scripts",
        ALL,
        "index index.php; location / { try_files $uri $uri/ /index.php?$args; }
         location ~ \\.php$ { fastcgi_pass 127.0.0.1:1;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }
         location ~ ^/(app|wp-content)/ { expires 1d; }",
        Ok("GET /app/ is 404; nginx runs its index /app/index.php"),
    ),
    (
        "pages that Laravel's own configuration names",
        ALL,
        "index index.php; error_page 404 /index.php; location / { try_files $uri $uri/ /index.php?$query_string; }
         location ~ \\.php$ { fastcgi_pass 127.0.0.1:1;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }
         location /docs/ { expires 1y; }",
        Ok(""),
    ),
    (
        "an index of the page of / alone",
        &["index.php"],
        "index index.html; location = / { index index.php; } location / { }
         location = /index.php { proxy_pass http://{upstream}; }",
        Ok("GET / is 404; nginx runs its index /index.php"),
    ),
    (
        "an index of the page of / with a field, and scripts of a proxy",
        &["index.php"],
        "index index.php index.html; location = / { add_header X-A b; } location / { }
         location ~ ^/(index|x)\\.php$ { proxy_pass http://{upstream}; }",
        Ok("GET / is 404; nginx runs its index /index.php"),
    ),
    (
        "an index of two locations of its path",
        &["index.php"],
        "index index.php; location / { } location = /index.php { proxy_pass http://{upstream}; }
         location /index.php/ { proxy_pass http://{upstream}; }",
        Ok("GET / is 404; nginx runs its index /index.php"),
    ),
    (
        "an exact index of a directory by an expression",
        &["app/index.php"],
        "index index.php; location / { } location ~ ^/(app|docs)/ { expires 1d; }
         location = /app/index.php { proxy_pass http://{upstream}; }",
        Ok("GET /app/ is 404; nginx runs its index /app/index.php"),
    ),
    (
        "scripts of a directory, with a path behind them",
        &["app/one/index.php"],
        "index index.php; location / { }
         location ~ ^/app/[^/]+/.+\\.php(/|$) { proxy_pass http://{upstream}; }",
        Ok("nginx runs its index /DIRECTORY/index.php"),
    ),
    (
        "programs of another language",
        &["index.cfm", "app/index.cfm"],
        "index index.cfm; location / { } location ~* \\.(cfm|cfml|cfc)$ { proxy_pass http://{upstream}; }",
        Ok("GET / is 404; nginx runs its index /index.cfm"),
    ),
    (
        "a program of another language beside scripts",
        &["app/index.pl"],
        "index index.pl index.php; location ~ \\.php$ { fastcgi_pass 127.0.0.1:1;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }
         location ~ \\.pl$ { proxy_pass http://{upstream}; }",
        Ok("nginx runs its index /index.pl"),
    ),
];

#[test]
fn the_source_of_scripts_that_nginx_runs_is_not_sent() {
    let upstream = upstream();
    let mut faults = Vec::new();
    for (sentence, scripts, server, expected) in ROWS {
        let dir = Dir::new();
        for name in *scripts {
            let file = dir.0.join("www").join(name);
            fs::create_dir_all(file.parent().expect("a directory")).expect("it is made");
            fs::write(file, "<?php source").expect("it is written");
        }
        let port = free_port();
        let text = format!("server {{ listen 127.0.0.1:{port}; root {{root}}; {server} }}");
        let file = dir.configure(&text, port, upstream);
        let text = match (import(&file), expected) {
            (Ok(text), Ok(part)) => {
                if !text.replace("\n#   ", " ").contains(part) {
                    faults.push(format!("{sentence}: no remark {part:?} in\n{text}"));
                }
                text
            }
            (Err(problems), Err(part)) if problems.iter().any(|line| line.contains(part)) => {
                // A translation of a part sends no source either.
                let Ok(text) = import_partially(&file) else { continue };
                text
            }
            (seen, _) => {
                faults.push(format!("{sentence}: {seen:?}"));
                continue;
            }
        };
        let ours = Ours::start(&text, port);
        for request in REQUESTS {
            if ask(ours.port, request).body.contains("<?php") {
                faults.push(format!("{sentence}: {request} gets the source, by\n{text}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
