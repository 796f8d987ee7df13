//! An axum `Router`, mounted as it is.

use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::support::App;

fn router() -> Router {
    let greet = |Path(name): Path<String>, State(greeting): State<&'static str>| async move {
        format!("{greeting}, {name}!")
    };
    let sum = |Json(numbers): Json<Vec<u64>>| async move {
        Json(json!({ "sum": numbers.iter().sum::<u64>() }))
    };
    let query = |Query(query): Query<Value>| async move { query.to_string() };
    Router::new()
        .route("/hello/{name}", get(greet))
        .route("/sum", post(sum))
        .route("/query", get(query))
        .with_state("hello")
}

#[test]
fn an_axum_router_answers() {
    let app = App::mounted(|_| (), |server| server.mount("*", "/app", router()).unwrap());
    let mut client = app.connect();
    let mut ask = |request: &str| {
        client.send(request.replace('\n', "\r\n"));
        client.answer()
    };
    let (head, body) = ask("GET /app/hello/world HTTP/1.1\nHost: a\n\n");
    assert!(head.contains("Content-Type: text/plain; charset=utf-8\n"), "{head}");
    assert_eq!(body, "hello, world!");
    let json = "Host: a\nContent-Type: application/json\n";
    let (_, body) = ask(&format!("POST /app/sum HTTP/1.1\n{json}Content-Length: 7\n\n[1,2,3]"));
    assert_eq!(body, r#"{"sum":6}"#);
    let chunked = format!("POST /app/sum HTTP/1.1\n{json}Transfer-Encoding: chunked\n\n");
    let (_, body) = ask(&format!("{chunked}4\n[1,2\n3\n,4]\n0\n\n"));
    assert_eq!(body, r#"{"sum":7}"#);
    assert_eq!(ask("GET /app/query?a=b HTTP/1.1\nHost: a\n\n").1, r#"{"a":"b"}"#);
    let (head, _) = ask("DELETE /app/sum HTTP/1.1\nHost: a\n\n");
    assert!(head.starts_with("HTTP/1.1 405") && head.contains("Allow: POST\n"), "{head}");
    let (head, _) = ask("GET /app/none HTTP/1.1\nHost: a\n\n");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");

    client.send("HEAD /app/hello/world HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert!(head.contains("Content-Length: 13\n"), "as its GET would have it: {head}");
}
