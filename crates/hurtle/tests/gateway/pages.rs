//! Pages of errors beside scripts.

use crate::dir::Dir;
use crate::peer::receive;
use crate::support::{NOBODY, Proxy, Upstream};

/// A page was taken for the file of the path that had failed, from then on.
#[test]
fn a_page_in_the_directory_of_scripts_replaces_errors_only() {
    let dir = Dir::new(&[
        ("root/index.php", ""),
        ("root/404.html", "none such"),
        ("root/502.html", "down"),
        ("root/a.txt", "a file"),
    ]);
    let root = dir.path("root");
    let pages = "errors = { 404 = '/404.html', 502 = '/502.html' }";
    let of = |address: String| {
        Proxy::of_site(
            pages,
            &format!("fastcgi = {address:?}\nfront_controller = false\nroot = {root:?}"),
        )
    };
    let get = |server: &Proxy, path: &str| {
        let mut client = server.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (head, body) = client.answer();
        (head.split(' ').nth(1).unwrap_or_default().to_owned(), body)
    };
    let answered = |status: &str, body: &str| (status.to_owned(), body.to_owned());
    let server = of(NOBODY.to_string());
    for _ in 0..3 {
        assert_eq!(get(&server, "/none.png"), answered("404", "none such"));
        assert_eq!(get(&server, "/index.php"), answered("502", "down"));
        assert_eq!(get(&server, "/a.txt"), answered("200", "a file"));
    }
    assert_eq!(get(&server, "/404.html"), answered("200", "none such"));

    let upstream = Upstream::new();
    let server = of(upstream.address.to_string());
    for (said, expected) in [
        ("no response at all\n\n", answered("502", "down")),
        ("Content-Type: a/b\nContent-Length: 2\n\nup", answered("200", "up")),
    ] {
        let mut client = server.send("GET /index.php HTTP/1.1\r\nHost: a\r\n\r\n");
        receive(&upstream).answer(said);
        let (head, body) = client.answer();
        assert_eq!((head.split(' ').nth(1).unwrap().to_owned(), body), expected);
    }
}

/// Regression: pages had the fields of a 200, such as a lifetime of a year (RFC 9111 section 3).
#[test]
fn pages_have_the_fields_of_their_status() {
    let dir = Dir::new(&[
        ("root/404.html", "none such"),
        ("root/a.txt", "a file"),
        ("down/app/a.txt", "down"),
    ]);
    let (root, down) = (dir.path("root"), dir.path("down"));
    let server = Proxy::written(
        1,
        &format!(
            "[[site]]\nerrors = {{ 404 = '/404.html', 502 = {{ to = '@down', status = 503 }} }}\n\
             header = [{{ set = {{ Cache-Control = 'immutable' }} }}, \
                       {{ set = {{ X-Always = 'x' }}, always = true }}]\n\
             [[site.mount]]\npath = '/app'\nproxy = 'http://{NOBODY}'\n\
             [[site.mount]]\nname = 'down'\nfiles = {down:?}\n\
             [[site.mount]]\nfastcgi = '{NOBODY}'\nfront_controller = false\nroot = {root:?}\n"
        ),
    );
    for _ in 0..3 {
        for (path, status, body, is_immutable) in [
            ("/none.png", 404, "none such", false),
            ("/404.html", 200, "none such", true),
            ("/app/a.txt", 503, "down", false),
            ("/a.txt", 200, "a file", true),
        ] {
            let mut client = server.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let (head, got) = client.answer();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
            assert_eq!(got, body, "{path}");
            assert_eq!(head.contains("immutable"), is_immutable, "{path}: {head}");
            assert!(head.contains("X-Always: x"), "{path}: {head}");
        }
    }
}
