//! Guards of scripts and the paths behind scripts, such as `/x.php/y`, which are other paths in
//! nginx: hurtle runs no script there that nginx does not.

use crate::nginx_scripts::Both;
use crate::php_fpm::PhpFpm;
use crate::servers::{ask, program};

/// Requests, with the status of hurtle.
type Requests = &'static [(&'static str, &'static str)];

/// A sentence, the inside of a server, and requests.
const ROWS: &[(&str, &str, Requests)] = &[
    (
        "scripts that are closed or have a password",
        "index index.php;
         location / { try_files $uri $uri/ /index.php?$args; }
         location = /wp-config.php { deny all; }
         location ~* /(?:docs|files)/.*\\.php$ { deny all; }
         location ~ ^/(x|bare/[^/]*)$ { deny all; }
         location ~* \\.php$ { {php} }
         location ~ ^/x\\.php$ { auth_basic s; auth_basic_user_file {dir}/ht; {php} }",
        &[
            ("GET /wp-config.php", "403"),
            ("GET /wp-config.php/", "403"),
            ("GET /wp-config.php/x", "403"),
            ("GET /wp-config.php%2Fx", "404"),
            ("GET //wp-config.php/x", "403"),
            ("GET /docs/x.php", "403"),
            ("GET /docs/x.php/y", "403"),
            ("GET /DOCS/../docs/x.php/y", "403"),
            ("GET /docs/guide.txt", "200"),
            ("GET /x.php", "200"),
            ("GET /index.php/y", "200"),
            ("GET /post/1", "200"),
        ],
    ),
    (
        "a script with a password before all others",
        "index index.php;
         location / { try_files $uri $uri/ /index.php?$args; }
         location = /wp-config.php { auth_basic s; auth_basic_user_file {dir}/ht; {php} }
         location ~ ^/docs/x\\.php$ { auth_basic s; auth_basic_user_file {dir}/ht; {php} }
         location ~ ^/(?:x\\.[a-z]*|y)$ { return 410; }
         location ~ \\.php$ { {php} }",
        &[
            ("GET /wp-config.php", "401"),
            ("GET /wp-config.php/x", "404"),
            ("GET /docs/x.php", "401"),
            ("GET /docs/x.php/y", "401"),
            ("GET /x.php", "410"),
            ("GET /x.php/y", "410"),
            ("GET /x.txt/y", "200"),
            ("GET /post/1", "200"),
        ],
    ),
    (
        "one script, and no other",
        "index index.php;
         location / { try_files $uri $uri/ /index.php?$args; }
         location ~ ^/index\\.php(/|$) { {php} }
         location ~ \\.php$ { return 404; }",
        &[
            ("GET /index.php/y", "200"),
            ("GET /x.php", "404"),
            ("GET /x.php/y", "404"),
            ("GET /docs/x.php/y", "404"),
            ("GET /post/1", "200"),
        ],
    ),
];

/// The script that answered; empty: none.
fn script(body: &str) -> &str {
    let name = body.split(' ').next().unwrap_or_default();
    if name.ends_with(".php") { name } else { "" }
}

#[test]
fn guards_of_scripts_hold_for_the_paths_behind_them() {
    let Some(nginx) = program() else {
        panic!("nginx is missing; `cargo xtask test --only packages` installs it");
    };
    let php = PhpFpm::start(2);
    let mut faults = Vec::new();
    for (sentence, server, requests) in ROWS {
        let both = Both::start(&nginx, server, &php);
        for (request, status) in *requests {
            let (theirs, ours) = (ask(both.port, request), ask(both.ours.port, request));
            let is_of_nginx = ["", script(&theirs.body)].contains(&script(&ours.body));
            if ours.status != *status || !is_of_nginx {
                faults
                    .push(format!("{sentence}: {request}\n  nginx  {theirs:?}\n  hurtle {ours:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
