//! Tests of the examples: an axum `Router` and a plain service.

use crate::support::{App, Folder};
use crate::{example, service_example};

#[test]
fn an_axum_router_answers() {
    let app = App::mounted(|_| (), |server| server.mount("*", "/api", example::api()).unwrap());
    let mut client = app.connect();
    let mut ask = |request: &str| {
        client.send(request.replace('\n', "\r\n"));
        client.answer()
    };
    let (head, body) = ask("GET /api/hello/world HTTP/1.1\nHost: a\n\n");
    assert!(head.contains("Content-Type: text/plain; charset=utf-8\n"), "{head}");
    assert_eq!(body, "hello, world\n");
    let json = "Host: a\nContent-Type: application/json\n";
    let (_, body) = ask(&format!("POST /api/sum HTTP/1.1\n{json}Content-Length: 7\n\n[1,2,3]"));
    assert_eq!(body, r#"{"sum":6}"#);
    let chunked = format!("POST /api/sum HTTP/1.1\n{json}Transfer-Encoding: chunked\n\n");
    let (_, body) = ask(&format!("{chunked}4\n[1,2\n3\n,4]\n0\n\n"));
    assert_eq!(body, r#"{"sum":7}"#);
    let (head, _) = ask("DELETE /api/sum HTTP/1.1\nHost: a\n\n");
    assert!(head.starts_with("HTTP/1.1 405") && head.contains("Allow: POST\n"), "{head}");
    let (head, _) = ask("GET /api/none HTTP/1.1\nHost: a\n\n");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");

    client.send("HEAD /api/hello/world HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert!(head.contains("Content-Length: 13\n"), "as its GET would have it: {head}");
}

#[test]
fn a_store_accepts_files_and_returns_them() {
    let folder = Folder::new();
    let app = App::mounted(
        |_| (),
        |server| server.mount_isolated("*", "/store", example::store(folder.root())).unwrap(),
    );
    let mut client = app.connect();
    let text = "0123456789".repeat(50_000);
    client.send("PUT /store/a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n");
    client.send(&text);
    assert_eq!(client.answer().1, "500000 bytes\n");
    client.send("GET /store/a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, body) = client.answer();
    assert!(head.contains("Content-Type: text/plain; charset=utf-8\n"), "{head}");
    assert!(body == text, "{} bytes", body.len());
    client.send("GET /store/a.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=499995-\r\n\r\n");
    let (head, body) = client.answer();
    assert!(head.contains("Content-Range: bytes 499995-499999/500000\n"), "{head}");
    assert_eq!(body, "56789");
    client.send("HEAD /store/a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().contains("Content-Length: 500000\n"));
    client.send("PUT /store/..%2Fb.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    let (head, _) = client.answer();
    assert!(head.starts_with("HTTP/1.1 4"), "{head}");
}

#[test]
fn a_plain_service_answers() {
    let app = App::mounted(
        |_| (),
        |server| server.mount("*", "/who", tower::service_fn(service_example::who)).unwrap(),
    );
    let (_, body) = app.ask("GET /who/am?i HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(body, "/who/am?i from 127.0.0.1, for the application at */who\n");
}
