//! `hurtle check` finds the problems that a start would, each with its line and key.

use std::fs;

use crate::child::hurtle;
use crate::support::Dir;

/// Checks a configuration beside a directory; `{root}` stands for it.
fn check(dir: &Dir, name: &str, text: &str) -> (Option<i32>, String) {
    let path = dir.path("..").join(name);
    fs::write(&path, text.replace("{root}", &dir.root().display().to_string())).unwrap();
    let output = hurtle().arg("check").arg(&path).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// 0: whole; 2: refused, and nothing is printed; 3: a part, with comments.
#[test]
fn the_exit_code_of_an_import_tells_how_much_is_translated() {
    let dir = Dir::new(&[
        ("whole.conf", "server { root /srv; }"),
        ("partly.conf", "server {\n root /srv;\n location /x/ { secure_link any; deny all; }\n}"),
        ("none.conf", "server { listen 127.0.0.1:x; root /srv; }"),
    ]);
    for (file, flags, code, said) in [
        ("whole.conf", &[][..], 0, "files = \"/srv\""),
        ("whole.conf", &["--partial"], 0, "files = \"/srv\""),
        ("partly.conf", &[], 2, "partly.conf:3: cannot translate `secure_link any`"),
        ("partly.conf", &["--partial"], 3, "status = 403"),
        ("none.conf", &["--partial"], 2, "listen"),
    ] {
        let output =
            hurtle().arg("import").args(flags).arg(dir.root().join(file)).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{file} {flags:?}");
        assert_eq!(output.stdout.is_empty(), code == 2, "{file} {flags:?}");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains(said), "{file} {flags:?}: {text}");
    }
}

#[test]
fn a_check_finds_what_the_start_refuses() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let table = [
        (
            "an unknown user",
            "user = 'nobody-here'\nroot = '{root}'\n",
            ":1:8: user: there is no user nobody-here on this system",
        ),
        (
            "an unknown group",
            "user = 'root'\ngroup = 'nobody-here'\nroot = '{root}'\n",
            ":2:9: group: there is no group nobody-here on this system",
        ),
        (
            "a log in a directory that does not exist",
            "root = '{root}'\n[access_log]\npath = 'gone/access.log'\n",
            ":3:8: access_log.path: ",
        ),
        (
            "a directory in place of a log",
            "root = '{root}'\n[error_log]\npath = '{root}'\n",
            ":3:8: error_log.path: ",
        ),
        (
            "a missing certificate",
            "listen_tls = ':0'\n[[site]]\nhosts = 'a'\ntls = { certificate = 'gone.pem' }\n\
             [[site.mount]]\nfiles = '{root}'\n",
            ":4:23: site[0].tls.certificate: ",
        ),
        (
            "a missing key",
            "listen_tls = ':0'\n[[site]]\nhosts = 'a'\n\
             tls = { certificate = 'checks.toml', key = 'gone.pem' }\n\
             [[site.mount]]\nfiles = '{root}'\n",
            ":4:44: site[0].tls.key: ",
        ),
        (
            "a missing authority of upstreams",
            "[[site]]\n[[site.mount]]\nproxy = 'https://127.0.0.1:1'\n\
             upstream_tls = { ca = 'gone.pem' }\n",
            ":4:23: site[0].mount[0].upstream_tls.ca: ",
        ),
    ];
    for (sentence, text, expected) in table {
        let (code, said) = check(&dir, "checks.toml", text);
        assert_eq!(code, Some(2), "{sentence}: {said}");
        assert!(said.contains(expected), "{sentence}: {said}");
        let (_, said) = check(&dir, "checks.toml", &format!("backlog = 0\n{text}"));
        assert!(said.contains("backlog"), "{sentence}, beside another problem: {said}");
        assert_eq!(said.lines().count(), 2, "{sentence}, beside another problem: {said}");
    }
}

#[test]
fn a_check_reads_the_files_of_certificate_authorities() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let text = "listen_tls = ':0'\n[acme]\naccept_terms = true\nstorage = '{root}'\n\
                [[acme.authority]]\ndirectory = 'https://acme.example/directory'\n\
                eab_id = 'kid-1'\neab_key = 'checks.toml'\n\
                [[site]]\nhosts = 'a.test'\ntls = { certificate = 'auto' }\n\
                [[site.mount]]\nfiles = '{root}'\n";
    let (code, said) = check(&dir, "checks.toml", text);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("checks.toml: Invalid symbol"), "{said}");
}

#[test]
fn a_check_warns_of_addresses_that_include_another() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let text = "listen = ['127.0.0.1:81', '0.0.0.0:81', '[::]:81', '0.0.0.0:0']\nroot = '{root}'\n";
    let (code, said) = check(&dir, "overlap.toml", text);
    assert_eq!(code, Some(0), "{said}");
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert!(matches!(warnings[..], [one] if one.contains("0.0.0.0:81 and 127.0.0.1:81")), "{said}");
}

#[test]
fn a_check_warns_of_pages_that_do_not_exist() {
    let dir = Dir::new(&[("errors/404.html", "gone\n")]);
    let mount = "[[site.mount]]\nfiles = '{root}'\n";
    let rows = [
        ("pages that exist", "errors = { 404 = '/errors/404.html' }", "", None),
        ("a missing page", "errors = { 500 = '/500.html' }", "", Some("site[0].errors.500: ")),
        ("a start page", "", "spa = '/app.html'", Some("site[0].mount[0].spa: ")),
        (
            "a site that is down",
            "maintenance = '{root}/errors/404.html'",
            "",
            Some("site[0].maintenance: there is "),
        ),
        (
            "a page of an application",
            "errors = { 404 = '/api/404.html' }",
            "[[site.mount]]\npath = '/api'\nproxy = 'http://127.0.0.1:1'",
            None,
        ),
        (
            "a page that another handler has",
            "errors = { 404 = '/old/404.html' }",
            "[[site.mount]]\npath = '/old'\nredirect = '/new'",
            Some("is in no mount of files or of an application"),
        ),
    ];
    for (sentence, site, more, expected) in rows {
        let text = format!("[[site]]\n{site}\n{mount}{more}\n");
        let (code, said) = check(&dir, "pages.toml", &text);
        assert_eq!(code, Some(0), "{sentence}: {said}");
        assert!(said.starts_with("ok\n"), "{sentence}: {said}");
        match expected {
            None => assert_eq!(said, "ok\n", "{sentence}"),
            Some(expected) => assert!(said.contains(expected), "{sentence}: {said}"),
        }
    }
}

#[test]
fn a_configuration_of_another_server_is_pointed_to_the_way_here() {
    let dir = Dir::new(&[]);
    let rows = [
        ("nginx.conf", "http {\n  server {\n    listen 80;\n  }\n}\n", "hurtle import "),
        ("default", "server {\n\tlisten 80;\n}\n", "hurtle import "),
        ("Caddyfile", "example.org {\n\troot * /srv\n}\n", "hurtle import "),
        ("000.conf", "<VirtualHost *:80>\n</VirtualHost>\n", "docs/from-apache.md"),
    ];
    for (name, text, expected) in rows {
        let (code, said) = check(&dir, name, text);
        assert_eq!((code, said.lines().count()), (Some(2), 1), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
    }
    let (_, said) = check(&dir, "own.toml", "root = public\n");
    assert!(said.contains("a string needs quotes"), "{said}");
}
