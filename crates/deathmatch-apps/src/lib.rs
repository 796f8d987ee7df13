//! One application and the parts two servers need to serve it: a text, and uploads that are
//! streamed to files. Each program answers with files in its own way; that is compared.

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

/// The response at `/hello`, and the content of the plans' files of that name.
const HELLO: &str = "hello, world\n";
const HELLO_PATH: &str = "/hello";
/// Exact versions of all crates of these programs.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// The parsed command line.
#[derive(Clone, Debug)]
pub struct Site {
    /// Address and port to listen on.
    pub address: SocketAddr,
    /// The files to serve, directly in it.
    pub docroot: PathBuf,
    /// Number of serving threads.
    pub workers: usize,
    /// Directory where uploads are stored.
    pub inbox: PathBuf,
}

/// Runs a program's `main`: prints the version of its server (`--version`), or serves until it is
/// killed. The arguments `own` come before `PORT DIRECTORY WORKERS INBOX`.
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

/// Names and versions, as in `axum 0.8.9, hyper 1.12.0`.
fn versions(parts: &[&str]) -> String {
    let version = |part: &&str| format!("{part} {}", version(LOCK, part).unwrap_or("?"));
    parts.iter().map(version).collect::<Vec<_>>().join(", ")
}

/// Version of a crate in a lock file: the one that this package depends on, if there are several.
fn version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let package =
        lock.split("[[package]]\n").find(|p| p.starts_with("name = \"deathmatch-apps\""))?;
    let own = package.split_once(&format!("\"{name} "));
    let any = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    own.or(any)?.1.split('"').next()
}

/// The application.
pub fn router(site: &Site) -> Router {
    let inbox: Arc<std::path::Path> = site.inbox.clone().into();
    let store = async move |Path(name): Path<String>, body: Body| match stored_at(&inbox, &name) {
        Some(path) => upload(path, body).await,
        None => StatusCode::FORBIDDEN,
    };
    Router::new().route(HELLO_PATH, get(async || HELLO)).route("/up/{name}", put(store))
}

/// The route and the name of each file that exists when the program starts; each has a route of its
/// own.
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

/// Path of an upload: a file directly in `inbox`. `None` for any other name, since one that was
/// decoded may be a path, which `join` would follow out of the directory.
fn stored_at(inbox: &std::path::Path, name: &str) -> Option<PathBuf> {
    let file_name = std::path::Path::new(name).file_name()?;
    (file_name == name).then(|| inbox.join(file_name))
}

/// Writes the body as it arrives, on threads that may wait for a disk.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_versions_in_the_lock_file_the_used_one_is_named() {
        let entry = |name: &str, version: &str, dependencies: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{dependencies}\n")
        };
        let own = "dependencies = [\n \"axum\",\n \"tower-http 0.7.1\",\n]\n";
        let lock = [
            entry("axum", "0.8.9", ""),
            entry("deathmatch-apps", "0.1.0", own),
            entry("tower-http", "0.6.11", ""),
            entry("tower-http", "0.7.1", ""),
        ]
        .concat();
        assert_eq!(version(&lock, "tower-http"), Some("0.7.1"));
        assert_eq!(version(&lock, "axum"), Some("0.8.9"), "the only one");
        assert_eq!(version(&lock, "warp"), None);
    }
}
