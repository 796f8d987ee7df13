//! Serves a directory with hyper and hyper-staticfile and nothing else: `deathmatch-hyper PORT
//! DIRECTORY WORKERS`.

use std::io::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_staticfile::Static;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Builder;

/// As in Cargo.toml.
const VERSION: &str = "hyper-staticfile 0.10.1, hyper 1.12.0";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--version"] {
        println!("deathmatch-hyper {VERSION}");
        return Ok(());
    }
    let [port, directory, workers] = &arguments[..] else {
        return Err(Error::other("usage: deathmatch-hyper PORT DIRECTORY WORKERS"));
    };
    let port: u16 = port.parse().map_err(Error::other)?;
    let runtime = match workers.parse().map_err(Error::other)? {
        1 => Builder::new_current_thread().enable_all().build()?,
        many => Builder::new_multi_thread().worker_threads(many).enable_all().build()?,
    };
    runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        serve(socket.listen(4096)?, Static::new(directory)).await
    })
}

async fn serve(listener: TcpListener, files: Static) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let files = files.clone();
        let answer = service_fn(move |request| files.clone().serve(request));
        tokio::spawn(async move {
            // A connection's failure is its client's affair.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}
