//! Sites with scripts of PHP: Caddy and hurtle ask the same PHP-FPM.

use std::fs;
use std::path::Path;

use crate::caddy_alike::{Caddy, is_remarked, program};
use crate::htaccess_scripts::SCRIPTS;
use crate::php_fpm::PhpFpm;
use crate::servers::{Dir, Ours, ask, free_port};

/// A sentence, the inside of `php_fastcgi`, and requests whose answers are compared.
const ROWS: &[(&str, &str, &[&str])] = &[
    (
        "paths without a file, and scripts that are not there",
        "",
        &[
            "GET /",
            "GET /post/1/?x=y",
            "POST /post/1",
            "GET /x.php?a=b",
            "GET /x.php/more",
            "GET /none.php",
            "GET /none.php/more",
            "GET /a.txt/x.php",
            "GET /docs/",
            "GET /docs",
            "GET /docs/none.php",
            "GET /a.txt",
            "GET /bare/",
        ],
    ),
    (
        "no front controller",
        "try_files {path} {path}/index.php =404",
        &["GET /", "GET /none", "GET /x.php", "GET /docs/", "GET /a.txt"],
    ),
    ("scripts alone", "index off", &["GET /x.php", "GET /a.txt", "GET /none", "GET /dir/"]),
];

#[test]
fn both_servers_run_the_same_scripts() {
    let Some(caddy) = program() else {
        eprintln!("not run: no Caddy; `cargo xtask test --only packages` builds it");
        return;
    };
    let php = PhpFpm::start(2);
    let mut faults = Vec::new();
    for (sentence, inside, requests) in ROWS {
        let dir = Dir::new();
        let root = dir.0.join("www");
        write_scripts(&root);
        let port = free_port();
        let text = format!(
            "{{\nadmin off\nauto_https off\n}}\n:{port} {{\nbind 127.0.0.1\nroot * {}\n\
             php_fastcgi unix/{} {{\n{inside}\n}}\nfile_server\n}}\n",
            root.display(),
            php.dir.path("fpm.sock").display()
        );
        let file = dir.0.join("Caddyfile");
        fs::write(&file, text).expect("it is written");
        let imported = hurtle::import::caddy::caddy_file(&file, false)
            .unwrap_or_else(|problems| panic!("{sentence}: {problems:?}"));
        let _theirs = Caddy::start(&caddy, &file, &dir.0, port);
        let ours = Ours::start_in(&imported.text, port, &dir.0);
        for request in *requests {
            let (mut a, b) = (ask(port, request), ask(ours.port, request));
            // Caddy writes the path relative to that of the request, which are all in the root.
            a.location = a.location.map(|to| to.trim_start_matches('.').to_owned());
            if a != b && !is_remarked(request, &a, &b, &imported.text) {
                faults.push(format!("{sentence}: {request}\n  caddy  {a:?}\n  hurtle {b:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Writes the scripts of the site.
fn write_scripts(root: &Path) {
    for (name, script) in SCRIPTS {
        let file = root.join(name);
        fs::create_dir_all(file.parent().expect("a directory")).expect("it is made");
        fs::write(file, script).expect("it is written");
    }
}
