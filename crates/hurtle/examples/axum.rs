//! A site and an axum application in one server: files are served from a directory, and what is
//! beneath `/api` by the `Router`.
//!
//! ```text
//! cargo run --release --example axum -- examples/site
//! curl http://127.0.0.1:8080/api/hello/world
//! curl http://127.0.0.1:8080/api/sum --json '[1, 2, 3]'
//! curl http://127.0.0.1:8080/api/upload --upload-file Cargo.lock
//! ```

use std::io;

use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http_body_util::BodyExt;
use hurtle::{Config, Server};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let site = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let server = Server::bind(Config::for_directory(site.into()))?;
    eprintln!("http://{}/", server.addresses()[0]);
    server.mount("*", "/api", api())?.start()?.join()
}

/// Paths begin beneath the mount: this is `/api/hello/...` to the client.
pub(crate) fn api() -> Router {
    Router::new()
        .route("/hello/{name}", get(hello))
        .route("/sum", post(sum))
        .route("/upload", put(upload))
}

async fn hello(Path(name): Path<String>) -> String {
    format!("hello, {name}\n")
}

async fn sum(Json(numbers): Json<Vec<u64>>) -> Json<Value> {
    Json(json!({ "sum": numbers.iter().sum::<u64>() }))
}

/// The body comes as it is read, and the client is held back where it is read slowly: an upload of
/// any size needs no more memory than one piece of it.
async fn upload(mut body: Body) -> Result<String, String> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| e.to_string())?;
        bytes += frame.into_data().map_or(0, |piece: Bytes| piece.len());
    }
    Ok(format!("{bytes} bytes\n"))
}
