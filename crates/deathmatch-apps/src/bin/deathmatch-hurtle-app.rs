//! The application mounted in hurtle: on its workers, or (`--isolated`) on threads of its own. Its
//! handlers answer with files through `hurtle::file`.
//!
//! `deathmatch-hurtle-app [--isolated] PORT DIRECTORY WORKERS INBOX`, on 127.0.0.1.

use std::io;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use axum::extract::Request;
use axum::routing::get;
use deathmatch_apps::{Site, files, router, run};
use hurtle::config::Listen;
use hurtle::{Config, Server};

fn main() -> ExitCode {
    run("deathmatch-hurtle-app", &["hurtle", "axum"], |own, site| match own {
        [] => serve(&site, false),
        [word] if word == "--isolated" => serve(&site, true),
        _ => Err(io::Error::other("say [--isolated] PORT DIRECTORY WORKERS INBOX")),
    })
}

fn serve(site: &Site, isolated: bool) -> io::Result<()> {
    let mut app = router(site);
    for (route, name) in files(site)? {
        let docroot = site.docroot.clone();
        let download = async move |request: Request| hurtle::file(docroot, name, &request).await;
        app = app.route(&route, get(download));
    }
    // Hurtle finishes each request first, as `axum::serve` does.
    let app = app.with_state(());
    let mut config = Config::new(Vec::new());
    config.listen = vec![Listen::Tcp(site.address)];
    config.workers = NonZeroUsize::new(site.workers).unwrap_or(NonZeroUsize::MIN);
    let server = Server::bind(config)?;
    let server = match isolated {
        false => server.mount("*", "/", app)?,
        true => server.mount_isolated("*", "/", app)?,
    };
    server.start()?.join()
}
