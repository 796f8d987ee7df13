//! A site and axum applications in one server: files from a directory, a JSON API beneath `/api`,
//! and a file store beneath `/store`.
//!
//! ```text
//! cargo run --release --example axum -- examples/site /tmp
//! curl http://127.0.0.1:8080/api/hello/world
//! curl http://127.0.0.1:8080/api/sum --json '[1, 2, 3]'
//! curl http://127.0.0.1:8080/store/ --upload-file Cargo.lock
//! curl http://127.0.0.1:8080/store/Cargo.lock --range 0-99
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use http_body_util::BodyExt;
use hurtle::{Config, Server};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let site = arguments.next().unwrap_or_else(|| ".".to_owned());
    let kept = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let server = Server::bind(Config::for_directory(site.into()))?;
    eprintln!("http://{}/", server.addresses()[0]);
    // Writing files blocks, so the store has threads of its own.
    server.mount("*", "/api", api())?.mount_isolated("*", "/store", store(kept))?.start()?.join()
}

/// The path is relative to the mount: clients request `/api/hello/...`.
pub(crate) fn api() -> Router {
    Router::new().route("/hello/{name}", get(hello)).route("/sum", post(sum))
}

async fn hello(Path(name): Path<String>) -> String {
    format!("hello, {name}\n")
}

async fn sum(Json(numbers): Json<Vec<u64>>) -> Json<Value> {
    Json(json!({ "sum": numbers.iter().sum::<u64>() }))
}

/// Keeps files in this directory.
pub(crate) fn store(kept: PathBuf) -> Router {
    Router::new().route("/{name}", get(download).put(upload)).with_state(kept)
}

/// Responds with a file. The kernel sends it, and the server evaluates conditions and ranges.
async fn download(
    State(kept): State<PathBuf>,
    Path(name): Path<String>,
    request: Request,
) -> impl IntoResponse {
    hurtle::file(kept, name, &request).await
}

/// Stores an upload. The body is received as fast as it is read, so an upload of any size needs
/// memory for one piece only.
async fn upload(
    State(kept): State<PathBuf>,
    Path(name): Path<String>,
    mut body: Body,
) -> Result<String, StatusCode> {
    // One segment, and not `.` or `..`.
    if name.starts_with('.') || name.contains(['/', '\0']) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let failed = |_| StatusCode::INTERNAL_SERVER_ERROR;
    let mut file = File::create(kept.join(name)).map_err(failed)?;
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let piece: Bytes =
            frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data().unwrap_or_default();
        bytes += piece.len();
        file.write_all(&piece).map_err(failed)?;
    }
    Ok(format!("{bytes} bytes\n"))
}
