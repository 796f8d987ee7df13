//! Guards of scripts and the paths behind scripts, such as `/x.php/y`, which are other paths in
//! nginx: hurtle runs no script there that nginx does not.

use std::fs;
use std::path::Path;

use crate::htaccess_scripts::SCRIPTS;
use crate::php_fpm::PhpFpm;
use crate::servers::{Dir, Nginx, Ours, ask, free_port, import, program};

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
    // Regression: they were asked without the name of their script, and each answered 404.
    (
        "scripts with a password and a limit of requests",
        "index index.php;
         location / { try_files $uri $uri/ /index.php?$args; }
         location = /wp-config.php { auth_basic s; auth_basic_user_file {dir}/ht; {php} }
         location = /x.php { limit_req zone=one; try_files $fastcgi_script_name =404;
             set $path_info $fastcgi_path_info; {php} fastcgi_param PATH_INFO $path_info; }
         location ~ \\.php$ { {php} }",
        &[
            ("GET /wp-config.php", "401"),
            ("GET /wp-config.php Authorization=Basic~YmVydDpzZWNyZXQ=", "200"),
            ("GET /x.php?a=b", "200"),
            ("GET /x.php", "429"),
            ("GET /docs/x.php", "200"),
            ("GET /post/1", "200"),
        ],
    ),
    (
        "a script in place of missing files of a server",
        "index index.php;
         if (!-e $request_filename) { rewrite ^ /index.php last; }
         location / { try_files $uri $uri/ /index.php?$args; }
         location ~ /\\.ht { deny all; }
         location ~ \\.php$ { {php} }",
        &[
            ("GET /post/1", "200"),
            ("GET /x.php", "200"),
            ("GET /docs/", "200"),
            ("GET /.htaccess", "403"),
            ("GET /gone.php", "404"),
        ],
    ),
    (
        "a guard of scripts that does not say so",
        "index index.html;
         location ~* ^/docs/.*\\.ph(p|tml)$ { deny all; }
         location ~* \\.php$ { {php} }",
        &[
            ("GET /docs/x.php", "403"),
            ("GET /docs/x.php/y", "403"),
            ("GET /docs/guide.txt", "200"),
            ("GET /x.php", "200"),
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

/// The usual parameters of a script.
const PHP: &str = "fastcgi_pass unix:{socket};
    fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
    fastcgi_param REQUEST_URI $request_uri; fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_METHOD $request_method;";

/// nginx and hurtle with the same scripts.
pub(super) struct Both {
    _theirs: Nginx,
    /// The port of nginx.
    pub(super) port: u16,
    pub(super) ours: Ours,
    _dir: Dir,
}

impl Both {
    /// Starts them with the inside of a server.
    pub(super) fn start(nginx: &Path, server: &str, php: &PhpFpm) -> Both {
        let dir = Dir::new();
        for (name, script) in SCRIPTS {
            let file = dir.0.join("www").join(name);
            fs::create_dir_all(file.parent().expect("a directory")).expect("it is made");
            fs::write(file, script).expect("it is written");
        }
        let port = free_port();
        let socket = php.dir.path("fpm.sock").display().to_string();
        let server = server.replace("{php}", PHP).replace("{socket}", &socket);
        let http = format!(
            "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
             server {{ listen 127.0.0.1:{{port}}; root {{root}}; {server} }}"
        );
        let file = dir.configure(&http, port, "127.0.0.1:1".parse().expect("an address"));
        let text = import(&file).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
        let theirs = Nginx::start(nginx, &file, &dir.0, port);
        Both { _theirs: theirs, port, ours: Ours::start(&text, port), _dir: dir }
    }
}

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
