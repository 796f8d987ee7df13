//! Limits of a request whose error a mount replaces, and the framing of that response, which is
//! part of the same request.

use crate::errors::{answered, get, response};
use crate::support::{NOBODY, Proxy, Upstream};

/// The failed request held its place while its page waited for one.
#[test]
fn the_page_of_an_error_needs_no_second_place_and_no_second_request_of_a_rate() {
    let upstream = Upstream::new();
    let limits = "concurrency = 1\nqueue = 9\nqueue_timeout = '1h'\n[[site.mount.rate_limit]]\nrequests = '2/h'";
    let mount = format!("proxy = 'http://{}'\nintercept_errors = true\n{limits}", upstream.address);
    let server = Proxy::of_site("errors = { 404 = '/errors/404' }", &mount);
    for _ in 0..2 {
        let mut client = server.send(get("/none"));
        let (mut peer, _) = upstream.next_request();
        peer.send(response("404 Not Found", "", "theirs"));
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with("GET /errors/404 "), "{head}");
        peer.send(response("200 OK", "", "our page"));
        assert_eq!(answered(&mut client), ("404 Not Found".to_owned(), "our page".to_owned()));
    }
    let mut client = server.send(get("/none"));
    assert!(answered(&mut client).0.starts_with("429 "), "the third request of two an hour");
}

/// The limits of a rate behind the gate that refused the request have not counted it.
#[test]
fn the_page_of_a_request_that_no_rate_has_counted_counts() {
    let upstream = Upstream::new();
    let server = Proxy::of_site(
        "body_bytes = 4\nerrors = { 413 = '/errors/413' }",
        &format!(
            "proxy = 'http://{}'\n[[site.mount.rate_limit]]\nrequests = '1/h'",
            upstream.address
        ),
    );
    let large =
        "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge";
    let mut client = server.send(large);
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("GET /errors/413 "), "{head}");
    peer.send(response("200 OK", "", "our page"));
    assert_eq!(answered(&mut client).1, "our page");
    let (status, body) = answered(&mut server.send(large));
    assert!(status.starts_with("413 ") && body != "our page", "{status}: {body}");
    upstream.expect_no_connection();
}

/// The limits of the mount of files had counted the request, whose error was that of another mount.
#[test]
fn the_page_of_a_request_that_was_handed_on_is_counted_once() {
    let upstream = Upstream::new();
    let empty = std::env::temp_dir().join(format!("hurtle-handed-on-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let server = Proxy::written(
        1,
        &format!(
            "[[site]]\nerrors = {{ 502 = '/error' }}\n[[site.rate_limit]]\nrequests = '1/h'\n\
             [[site.mount]]\nfiles = {empty:?}\notherwise = 'app'\n\
             [[site.mount]]\nname = 'app'\nproxy = 'http://{NOBODY}'\n\
             [[site.mount]]\npath = '/error'\nproxy = 'http://{}'\n",
            upstream.address
        ),
    );
    let mut client = server.send(get("/none"));
    let (mut peer, _) = upstream.next_request();
    peer.send(response("200 OK", "", "our page"));
    assert_eq!(answered(&mut client), ("502 Bad Gateway".to_owned(), "our page".to_owned()));
    std::fs::remove_dir(&empty).unwrap();
}

/// Regression: the error had no length on a connection that stayed open.
#[test]
fn a_response_without_content_is_no_page() {
    for cache in ["", "cache = {}\n"] {
        let upstream = Upstream::new();
        let to = upstream.address;
        let mount = format!("proxy = 'http://{to}'\nintercept_errors = true\n{cache}");
        let server = Proxy::of_site("errors = { 404 = '/error' }", &mount);
        let mut client = server.send(get("/none"));
        let (mut peer, _) = upstream.next_request();
        peer.send(response("404 Not Found", "", "theirs"));
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with("GET /error "), "{head}");
        let lifetime = "Cache-Control: max-age=60\r\nConnection: close\r\n";
        peer.send(format!("HTTP/1.1 204 No Content\r\n{lifetime}\r\n"));
        let (status, body) = answered(&mut client);
        assert_eq!((&*status, &*body), ("404 Not Found", "404 Not Found\n"), "{cache}");
    }
}
