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
