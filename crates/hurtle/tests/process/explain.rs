//! `hurtle explain` as a command.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::geteuid;

use crate::child::{hurtle, write_config};
use crate::support::Dir;

#[test]
fn the_limits_of_a_path_are_shown() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let config = write_config(
        &dir,
        "[[site]]\nrate_limit = [{ requests = '10/s', burst = 20 }]\n[[site.mount]]\n\
         files = '{root}'\nconcurrency = 9\nqueue = 3\n[[site.mount.rate_limit]]\n\
         requests = '5/m'\nkey = ['path', 'header:X-Key']\n",
    );
    let output = hurtle().args(["explain", "/a.txt", "--config"]).arg(&config).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let limits: Vec<_> = said.lines().filter(|line| line.starts_with("limit")).collect();
    let expected = [
        "limit    10/s for each address, 20 at once, else 429",
        "limit    5/m for each path and header:x-key, 5 at once, else 429",
        "limit    9 requests at once, 3 more wait for at most 5000 ms, else 503",
    ];
    assert_eq!(limits, expected, "{said}");
}

#[test]
fn the_mount_behind_files_is_described() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let config = write_config(
        &dir,
        "[[site]]\n[[site.mount]]\nfiles = '{root}'\notherwise = 'app'\n[[site.mount]]\n\
         name = 'app'\nrespond = 'an app'\ndeny = '10.0.0.0/8'\n",
    );
    let explain = |path: &str| {
        let output = hurtle().args(["explain", path, "--config"]).arg(&config).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = explain("/gone");
    let expected = "otherwise the mount with the name \"app\"\n";
    let (files, app) = said.split_once(expected).expect(&said);
    assert!(files.contains("mount    /: files\n"), "{said}");
    assert!(app.contains("mount    @app: a fixed response\n"), "{said}");
    assert!(app.contains("admits 127.0.0.1") && app.contains("HTTP/1.1 200 OK"), "{said}");
    assert!(!explain("/a.txt").contains("otherwise"), "a file");
}

#[test]
fn directories_of_scripts_without_their_slash_are_redirected() {
    let dir = Dir::new(&[("app/index.php", "<?php\n"), ("app/sub/index.php", "<?php\n")]);
    let config = write_config(
        &dir,
        "[[site]]\n[[site.mount]]\npath = '/app'\nfastcgi = '127.0.0.1:1'\nroot = '{root}/app'\n",
    );
    for path in ["/app", "/app/sub"] {
        let output = hurtle().args(["explain", path, "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let expected = "found    a directory, requested without its trailing slash: redirected\n";
        assert!(said.contains(expected), "{path}: {said}");
    }
}

/// Regression: the path was looked up, although GET and HEAD are redirected before that.
#[test]
fn the_path_of_a_mount_without_its_slash_is_redirected() {
    let dir = Dir::new(&[("app/index.html", "<p>")]);
    let config = write_config(
        &dir,
        "[[site]]\n[[site.mount]]\npath = '/app'\nfiles = '{root}/app'\nindex = []\n\
         otherwise = 'app'\n[[site.mount]]\nname = 'app'\nrespond = 'an app'\n",
    );
    let slash = "found    a directory, requested without its trailing slash\n";
    let table = [
        ("GET", "/app", Some("HTTP/1.1 301 ")),
        ("HEAD", "/app", Some("HTTP/1.1 301 ")),
        ("POST", "/app", None),
        ("GET", "/app/", None),
    ];
    for (method, path, expected) in table {
        let mut command = hurtle();
        let command = command.args(["explain", path, "-X", method, "--config"]).arg(&config);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let is_redirected = expected.is_some_and(|line| said.contains(line));
        assert_eq!(is_redirected, expected.is_some(), "{method} {path}: {said}");
        assert_eq!(said.contains(slash), is_redirected, "{method} {path}: {said}");
        assert_eq!(said.contains("\notherwise"), !is_redirected, "{method} {path}: {said}");
    }
}

/// A request that is explained comes from this machine, whose address is that of the client and of
/// the peer.
#[test]
fn a_condition_on_the_peer_is_described() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let config = write_config(
        &dir,
        "trusted_proxies = '10.0.0.0/8'\n[[site]]\n[[site.mount]]\nfiles = '{root}'\n\
         [[site.mount]]\nmatch = { path = '/in', peer = '127.0.0.0/8' }\nrespond = 'in'\n\
         [[site.mount]]\nmatch = { path = '/out', not = { peer = '127.0.0.1' } }\nabort = true\n",
    );
    let explain = |path: &str| {
        let output = hurtle().args(["explain", path, "--config"]).arg(&config).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = explain("/in");
    assert!(said.contains("mount    / /in peer 127.0.0.0/8: a fixed response"), "{said}");
    let said = explain("/out");
    assert!(said.contains("mount    /: files"), "{said}");
}

#[test]
fn the_token_that_a_path_requires_is_described() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let config = write_config(
        &dir,
        "[[site]]\nauth = 'jwt'\njwks = 'https://login.example/keys'\nissuer = 'me'\n\
         audience = ['api', 'web']\ntoken_cookie = 'session'\nclaims = { sub = 'X-User' }\n\
         [[site.mount]]\nfiles = '{root}'\n",
    );
    let output = hurtle().args(["explain", "/a.txt", "--config"]).arg(&config).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = "\
auth     requires a bearer token or the cookie session signed with RS256, ES256, EdDSA, else 401
         its key is in https://login.example/keys
         its claim iss has me
         its claim aud has api or web
         its claim sub is in the request field x-user
";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_dictionary_is_described() {
    let page = "/* style */ ".repeat(200);
    let dir = Dir::new(&[("app.1.css", &page), ("app.2.css", "/**/"), ("other.css", &page)]);
    let with = |of_site: &str, of_mount: &str| {
        let mount = "[[site.mount]]\npath = '/s'\nfiles = '{root}'\n";
        let versions = "[[site.mount.dictionary]]\nmatch = 'app.*.css'\n";
        write_config(&dir, &format!("[[site]]\n{of_site}{mount}{of_mount}{versions}"))
    };
    let explain = |config: &std::path::Path, path: &str| {
        let output = hurtle().args(["explain", path, "--config"]).arg(config).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let config = with("", "");
    let expected = concat!(
        "\n         a dictionary, match=\"/s/app.*.css\"; dcz for clients that have one of the 8 newest ",
        "versions; clients use it while it is fresh, but no header rule sets Cache-Control\n",
    );
    let said = explain(&config, "/s/app.1.css");
    assert!(said.contains(expected), "{said}");
    for path in ["/s/app.2.css", "/s/other.css"] {
        let said = explain(&config, path);
        assert!(!said.contains("dictionary"), "{path}: {said}");
    }
    let rule = "header = [{ set = { Cache-Control = 'max-age=9' } }]\n";
    for config in [with(rule, ""), with("", rule)] {
        let said = explain(&config, "/s/app.1.css");
        assert!(said.contains("8 newest versions\n"), "{said}");
    }
}

#[test]
fn an_authorizer_is_named_for_the_paths_it_decides_on() {
    let dir = Dir::new(&[("private/a.txt", "a\n"), ("b.txt", "b\n")]);
    let config = write_config(
        &dir,
        "[[site]]\n[[site.mount]]\nfiles = '{root}'\n[[site.mount]]\npath = '/private'\n\
         files = '{root}/private'\nauthorizer = '127.0.0.1:9001'\n",
    );
    let table = [
        ("/private/a.txt", Some("auth     the authorizer 127.0.0.1:9001 decides first")),
        ("/private/none", Some("auth     the authorizer 127.0.0.1:9001 decides first")),
        ("/b.txt", None),
    ];
    for (path, expected) in table {
        let output = hurtle().args(["explain", path, "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{path}");
        let line = said.lines().find(|line| line.starts_with("auth"));
        assert_eq!(line, expected, "{path}: {said}");
    }
}

#[test]
fn a_cache_says_which_responses_it_stores() {
    let dir = Dir::new(&[]);
    let proxy = "proxy = 'http://127.0.0.1:1'\ncache";
    for (keys, expected) in [
        ("{}", "heuristic_percent is 0, so without one it is not stored"),
        ("{ heuristic_percent = 10 }", "without one, 10 % of the time since Last-Modified"),
        (
            "{ lifetimes = { 200 = '10m', 404 = 0 } }",
            "without one, 600 s for 200, 0 s for 404, no other status is stored",
        ),
        ("{ lifetimes = { any = '5s' }, heuristic_percent = 10 }", "without one, 5 s\n"),
        (
            "{ lifetimes = { 200 = '1s', any = '5s' } }",
            "without one, 1 s for 200, 5 s for any other status",
        ),
        (
            "{ lifetimes = { 200 = '1s' }, heuristic_percent = 10 }",
            "without one, 1 s for 200, 10 % of the time since Last-Modified for any other status",
        ),
        ("{ max_object = 1000 }", "not if its body is longer than 1000 bytes"),
    ] {
        let config = write_config(&dir, &format!("[[site]]\n[[site.mount]]\n{proxy} = {keys}\n"));
        let output = hurtle().args(["explain", "/a", "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(expected), "{keys}: {said}");
    }
}

#[test]
fn the_codings_of_a_path_are_explained() {
    let text = "lorem ipsum\n".repeat(200);
    let dir = Dir::new(&[
        ("a.css", text.as_str()),
        ("b.css", &text),
        ("b.css.br", "own"),
        ("small.css", "a"),
        ("a.png", &text),
        ("off/a.css", &text),
    ]);
    let config = write_config(
        &dir,
        "[[site]]\n[[site.mount]]\nfiles = '{root}'\n[[site.mount]]\npath = '/off'\n\
         files = '{root}/off'\ncompress = false\n[[site.mount]]\npath = '/app'\n\
         proxy = 'http://127.0.0.1:1'\n[[site.mount]]\npath = '/api'\n\
         proxy = 'http://127.0.0.1:1'\ncompress = true\n",
    );
    let made = "made when a client first accepts one, which gets it encoded while it is sent";
    let table = [
        ("/a.css", format!("br, zstd, gzip: {made}")),
        ("/b.css", format!("zstd, gzip: {made}")),
        ("/small.css", "no: it is smaller than compress.min_bytes".to_owned()),
        ("/a.png", "no: its media type is not in compress.types".to_owned()),
        ("/off/a.css", "no: compress is off here".to_owned()),
        ("/app/x", "no: compress is off here".to_owned()),
        ("/api/x", "responses of the types in compress.types, while they are sent".to_owned()),
    ];
    for (path, expected) in table {
        let output = hurtle().args(["explain", path, "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find_map(|line| line.strip_prefix("compress "));
        assert_eq!(line, Some(expected.as_str()), "{path}: {said}");
    }
}

/// Regression: the first variant was taken for the file that is missing.
#[test]
fn variants_alone_are_named() {
    let dir = Dir::new(&[("app.1.css.br", &"b".repeat(2_000)), ("app.1.css.gz", "gz")]);
    let config = write_config(
        &dir,
        "[[site]]\n[[site.mount]]\nfiles = '{root}'\nsidecars_alone = true\n\
         [[site.mount.dictionary]]\nmatch = 'app.*.css'\n",
    );
    let output = hurtle().args(["explain", "/app.1.css", "-c"]).arg(&config).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let found = "/app.1.css, which is missing; Br variant, 2000 bytes; Gzip variant, 2 bytes\n";
    assert!(said.contains(found), "{said}");
    assert!(said.contains("compress the variants on disk\n"), "{said}");
    assert!(!said.contains("dictionary"), "{said}");
}

#[test]
fn the_page_of_a_single_page_application_is_named() {
    let dir = Dir::new(&[("index.html", "app"), ("bare/x", "x")]);
    let config =
        write_config(&dir, "[[site]]\n[[site.mount]]\nfiles = '{root}'\nspa = '/index.html'\n");
    let rows = [
        ("/users/7", Some("; a client that accepts HTML gets /index.html (spa), others 404")),
        ("/bare/", Some("; a client that accepts HTML gets /index.html (spa), others 404")),
        (
            "/a.js",
            Some("; a client that names text/html in Accept gets /index.html (spa), others 404"),
        ),
        ("/index.html", None),
        ("/bare/x", None),
    ];
    for (path, expected) in rows {
        let output = hurtle().args(["explain", path, "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        match expected {
            Some(expected) => assert!(said.contains(expected), "{path}: {said}"),
            None => assert!(!said.contains("(spa)"), "{path}: {said}"),
        }
    }
}

#[test]
fn a_variant_whose_time_was_rounded_is_named() {
    let dir = Dir::new(&[("a.css", "a {}"), ("a.css.gz", "gz")]);
    let second = std::time::Duration::from_secs(crate::support::MODIFIED.0);
    dir.set_time("a.css.gz", second);
    let config = write_config(&dir, "[[site]]\n[[site.mount]]\nfiles = '{root}'\n");
    let output = hurtle().args(["explain", "/a.css", "--config"]).arg(&config).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("; Gzip variant, 2 bytes, older by a rounding of its time"), "{said}");
}

#[test]
fn a_link_that_leads_out_is_named_and_a_path_may_have_spaces() {
    let dir = Dir::new(&[("a b.txt", "a\n"), ("é.txt", "e\n"), ("d/x.txt", "x\n")]);
    std::os::unix::fs::symlink("/etc", dir.path("d/out")).unwrap();
    let config = write_config(&dir, "root = '{root}'\n");
    let root = dir.root();
    let root = root.display();
    let rows = [
        ("/a b", "no such file".to_owned()),
        ("/a b.txt", format!("{root}/a b.txt")),
        ("/a%20b.txt", format!("{root}/a b.txt")),
        ("/é.txt", format!("{root}/é.txt")),
        ("/d/out/hosts", format!("the symbolic link {root}/d/out leads to /etc, out of the root")),
    ];
    for (path, expected) in rows {
        let output = hurtle().args(["explain", path, "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(said.contains(&format!("found    {expected}")), "{path}: {said}");
    }
}

#[test]
fn files_are_read_as_the_server_reads_them() {
    let dir = Dir::new(&[("secret.txt", "a\n")]);
    let secret = dir.path("secret.txt");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let user = |name: &str| {
        let file = dir.path("../user.toml");
        fs::write(&file, format!("user = '{name}'\nroot = {:?}\n", dir.root())).unwrap();
        let output = hurtle().args(["explain", "/secret.txt", "-c"]).arg(&file).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    if !geteuid().is_root() {
        let said = user("nobody");
        assert!(said.contains("user     the server is nobody, but this is "), "{said}");
        return;
    }
    let said = user("nobody");
    assert!(said.contains("secret.txt, which this user may not read"), "{said}");
    assert!(said.contains("HTTP/1.1 403 Forbidden"), "{said}");
    assert!(user("root").contains("HTTP/1.1 200 OK"), "{said}");
}

#[test]
fn the_reason_for_a_mount_is_explained() {
    let dir = Dir::new(&[("a.txt", "a"), ("final/a.txt", "a")]);
    let config = write_config(
        &dir,
        "[[site]]\n[[site.mount]]\nfiles = '{root}'\n\
         [[site.mount]]\nfiles = '{root}/final'\npath = '/final'\nfinal = true\n\
         [[site.mount]]\nrespond = ''\npath = '/one'\nexact = true\n\
         [[site.mount]]\nrespond = ''\n\
         match = { regex = '[.]txt$', method = 'HEAD', header = { X-A = 'b' } }\n",
    );
    let table: [(&str, &[&str], &str); 5] = [
        ("a path", &["/a.txt"], "the longest path; no mount"),
        ("one path", &["/one"], "exactly this path"),
        ("a final path", &["/final/a.txt", "-X", "HEAD", "-H", "X-A: b"], "which is final"),
        ("conditions", &["/a.txt", "-X", "HEAD", "-H", "X-A: b"], "the first mount whose"),
        ("one is not met", &["/a.txt", "-X", "HEAD", "-H", "X-A: c"], "the longest path; no mount"),
    ];
    for (sentence, arguments, expected) in table {
        let mut command = hurtle();
        let command = command.arg("explain").args(arguments).arg("--config").arg(&config);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.lines().any(|l| l.starts_with("why") && l.contains(expected)),
            "{sentence}: {text}"
        );
    }
    let output =
        hurtle().args(["explain", "/", "-H", "X-A", "--config"]).arg(&config).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("write 'Name: value'"), "{text}");
}
