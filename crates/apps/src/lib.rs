//! One application and what two servers need to serve it: a text, and uploads that are streamed to
//! files. How a file is answered with is each program's own, and what is compared.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, put};
use http_body_util::BodyExt;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// What is answered at `/hello`, and in the plans' files of that name.
const HELLO: &str = "hello, world\n";
/// The path of it.
const HELLO_PATH: &str = "/hello";
/// Exact versions of everything these programs are made of.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Site {
    /// Where to listen.
    pub address: SocketAddr,
    /// The files to be answered with, directly in it.
    pub docroot: PathBuf,
    /// Threads that serve.
    pub workers: usize,
    /// Where uploads are stored.
    pub inbox: PathBuf,
}

/// What a program's `main` does: says the version of what it is made of (`--version`), or serves
/// until it is killed. `own` words come before `PORT DIRECTORY WORKERS INBOX`.
pub fn run(
    name: &str,
    parts: &[&str],
    serve: impl FnOnce(&[String], Site) -> io::Result<()>,
) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match &words[..] {
        [word] if word == "--version" => writeln!(io::stdout(), "{name} {}", versions(parts)),
        [own @ .., port, docroot, workers, inbox] => match (port.parse(), workers.parse()) {
            (Ok(port), Ok(workers)) => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                serve(own, Site { address, docroot: docroot.into(), workers, inbox: inbox.into() })
            }
            _ => Err(io::Error::other("PORT and WORKERS are numbers")),
        },
        _ => Err(io::Error::other("say PORT DIRECTORY WORKERS INBOX")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "{name}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// As in `axum 0.8.9, hyper 1.12.0`.
fn versions(parts: &[&str]) -> String {
    let version = |part: &&str| {
        let entry = LOCK.split_once(&format!("name = \"{part}\"\nversion = \""));
        let version = entry.and_then(|(_, rest)| rest.split('"').next()).unwrap_or("?");
        format!("{part} {version}")
    };
    parts.iter().map(version).collect::<Vec<_>>().join(", ")
}

/// The application.
pub fn router(site: &Site) -> Router {
    let inbox: Arc<std::path::Path> = site.inbox.clone().into();
    let store = move |Path(name): Path<String>, body: Body| upload(inbox.join(name), body);
    Router::new().route(HELLO_PATH, get(async || HELLO)).route("/up/{name}", put(store))
}

/// The files that are there when the program starts, each of which has a route of its own: that
/// route, and the file's name.
pub fn files(site: &Site) -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&site.docroot)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && entry.path().is_file()
        {
            files.push((format!("/{name}"), name));
        }
    }
    files.retain(|(route, _)| route != HELLO_PATH);
    Ok(files)
}

/// The body is written as it comes, on threads that may wait for a disk.
async fn upload(path: PathBuf, mut body: Body) -> StatusCode {
    let Ok(mut file) = File::create(path).await else { return StatusCode::FORBIDDEN };
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return StatusCode::BAD_REQUEST };
        let piece = frame.into_data().unwrap_or_default();
        if file.write_all(&piece).await.is_err() {
            return StatusCode::INSUFFICIENT_STORAGE;
        }
    }
    match file.flush().await {
        Ok(()) => StatusCode::CREATED,
        Err(_) => StatusCode::INSUFFICIENT_STORAGE,
    }
}
