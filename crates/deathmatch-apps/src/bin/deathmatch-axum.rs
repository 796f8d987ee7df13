//! The application as axum's own documentation serves it: `axum::serve`, which is hyper, and
//! tower-http's `ServeFile` for each file that is there when it starts.
//!
//! `deathmatch-axum PORT DIRECTORY WORKERS INBOX`, on 127.0.0.1.

use std::io;
use std::process::ExitCode;

use axum::serve::ListenerExt as _;
use deathmatch_apps::{Site, files, router, run};
use tokio::net::TcpSocket;
use tokio::runtime::Builder;
use tower_http::services::ServeFile;

/// More connections than any step of a ladder opens at once.
const BACKLOG: u32 = 4096;

fn main() -> ExitCode {
    run("deathmatch-axum", &["axum", "hyper", "tower-http", "tokio"], |_, site| serve(&site))
}

fn serve(site: &Site) -> io::Result<()> {
    let mut app = router(site);
    for (route, name) in files(site)? {
        app = app.route_service(&route, ServeFile::new(site.docroot.join(name)));
    }
    // One thread needs no runtime that could move work to another.
    let mut runtime = match site.workers {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    runtime.worker_threads(site.workers.max(1)).enable_all().build()?.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(site.address)?;
        let listener = socket.listen(BACKLOG)?.tap_io(|stream| {
            // A connection that is closed already reports that when it is read.
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, app).await
    })
}
