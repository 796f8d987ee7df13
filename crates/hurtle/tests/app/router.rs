//! An axum `Router`, mounted as it is.

use crate::example;
use crate::support::App;

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
    let (_, body) = ask("PUT /api/upload HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello");
    assert_eq!(body, "5 bytes\n");
    let (head, _) = ask("DELETE /api/sum HTTP/1.1\nHost: a\n\n");
    assert!(head.starts_with("HTTP/1.1 405") && head.contains("Allow: POST\n"), "{head}");
    let (head, _) = ask("GET /api/none HTTP/1.1\nHost: a\n\n");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");

    client.send("HEAD /api/hello/world HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert!(head.contains("Content-Length: 13\n"), "as its GET would have it: {head}");
}
