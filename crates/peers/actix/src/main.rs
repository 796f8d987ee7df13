//! Serves a directory with actix-files and nothing else: `deathmatch-actix PORT DIRECTORY WORKERS`.

use std::net::Ipv4Addr;
use std::time::Duration;

use actix_files::Files;
use actix_web::{App, HttpServer};

/// As in Cargo.toml.
const VERSION: &str = "actix-files 0.7.3, actix-web 4.18.1";

/// Smaller files, in bytes, are read on the worker's own thread.
const READ_AT_ONCE_MAX: u64 = 1 << 20;

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--version"] {
        println!("deathmatch-actix {VERSION}");
        return Ok(());
    }
    let [port, directory, workers] = &arguments[..] else {
        return Err(std::io::Error::other("usage: deathmatch-actix PORT DIRECTORY WORKERS"));
    };
    let port: u16 = port.parse().map_err(std::io::Error::other)?;
    let workers: usize = workers.parse().map_err(std::io::Error::other)?;
    let directory = directory.clone();
    let files = move || Files::new("/", directory.clone()).read_mode_threshold(READ_AT_ONCE_MAX);
    HttpServer::new(move || App::new().service(files()))
        .workers(workers)
        .backlog(4096)
        .keep_alive(Duration::from_secs(65))
        .bind((Ipv4Addr::LOCALHOST, port))?
        .run()
        .await
}
