//! The server as a process: binds, becomes its user, tells whoever started it, obeys signals.

use std::io::{self, Write};
use std::path::PathBuf;

use rustix::process::geteuid;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::apps::Apps;
use super::{Bound, Running, Server, activation};
use crate::config::{Config, Listen};
use crate::observe::ErrorLogHandle;
use crate::sys;

/// Ports tried after the default one when that is taken.
const PORTS_TRIED: u16 = 100;

/// Runs a server until it is told to stop. `any_port`: the address is nobody's choice.
///
/// # Errors
/// What kept it from starting, or a worker from working.
pub fn run(config: Config, any_port: bool, errors: &ErrorLogHandle) -> io::Result<()> {
    warn_about_backlog(&config);
    let (user, group) = (config.user.clone(), config.group.clone());
    let inherited = activation::listeners()?;
    let sockets = if inherited.is_none() { socket_files(&config) } else { vec![] };
    let mut server = match inherited {
        Some(listeners) => Server::with_listeners(config, listeners)?,
        None => bind(config, any_port)?,
    };
    server.open_logs()?;
    if let Some(user) = user {
        become_user(&user, group.as_deref())?;
    } else if geteuid().is_root() {
        tracing::warn!("running as root; `user = \"www-data\"` in a configuration gives that up");
    }
    let bound = server.bound.clone();
    let roots = server.roots();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Before anybody is served or told: whoever knows of the server may stop it.
    let signals = Signals::catch(&runtime)?;
    // As the user it is from now on.
    let apps = Apps::start(&mut server)?;
    let running = server.start()?;
    greet(&bound, &roots)?;
    activation::notify("READY=1");
    let outcome = runtime.block_on(obey(signals, running, apps.as_ref(), errors));
    // Not before the last request that one of them may be answering.
    if let Some(apps) = apps {
        apps.stop();
    }
    for socket in sockets {
        // A directory its user may not write keeps it; the next start replaces it.
        let _ = std::fs::remove_file(socket);
    }
    outcome
}

/// The socket files that are the server's own to remove.
fn socket_files(config: &Config) -> Vec<PathBuf> {
    let path = |listen: &Listen| match listen {
        Listen::Unix(path) => Some(path.clone()),
        Listen::Tcp(_) => None,
    };
    let listening = config.listen.iter().chain(&config.listen_tls).filter_map(path);
    listening.chain(config.admin.clone()).collect()
}

fn bind(config: Config, any_port: bool) -> io::Result<Server> {
    let first = config.listen.iter().chain(&config.listen_tls).find_map(Listen::port);
    let first = first.filter(|_| any_port).unwrap_or_default();
    for tried in 0..PORTS_TRIED {
        let mut config = config.clone();
        for listen in config.listen.iter_mut().chain(&mut config.listen_tls) {
            if let (Listen::Tcp(address), true) = (listen, any_port) {
                address.set_port(first.saturating_add(tried));
            }
        }
        match Server::bind(config) {
            Err(e) if any_port && e.kind() == io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    Server::bind(config)
}

/// Gives up root for good: groups first, since only root may change them.
fn become_user(name: &str, group: Option<&str>) -> io::Result<()> {
    use nix::unistd::{Group, User, setgid, setuid};
    let missing = |what: &str, name: &str| io::Error::other(format!("there is no {what} {name}"));
    let user = User::from_name(name)?.ok_or_else(|| missing("user", name))?;
    if !geteuid().is_root() {
        if user.uid.as_raw() == geteuid().as_raw() {
            return Ok(());
        }
        return Err(io::Error::other(format!("only root can become the user {name}")));
    }
    let gid = match group {
        None => user.gid,
        Some(group) => Group::from_name(group)?.ok_or_else(|| missing("group", group))?.gid,
    };
    sys::init_groups(&std::ffi::CString::new(name)?, gid)?;
    setgid(gid)?;
    setuid(user.uid)?;
    Ok(())
}

fn warn_about_backlog(config: &Config) {
    if let Some(max) = sys::backlog_max()
        && config.backlog > max
    {
        tracing::warn!(
            "the backlog of {} is cut to {max} by the kernel (net.core.somaxconn)",
            config.backlog
        );
    }
}

/// Tells the person at the terminal where to look.
fn greet(bound: &Bound, roots: &[PathBuf]) -> io::Result<()> {
    let mut out = io::stdout();
    let what = match roots {
        [root] => format!("{}", root.display()),
        [] => "the configuration".to_owned(),
        roots => format!("{} directories", roots.len()),
    };
    writeln!(out, "hurtle serves {what}")?;
    for (scheme, addresses) in [("http", &bound.clear), ("https", &bound.tls)] {
        for address in addresses {
            match address {
                Listen::Tcp(addr) => writeln!(out, "  {scheme}://{addr}/")?,
                Listen::Unix(path) => writeln!(out, "  unix:{}", path.display())?,
            }
        }
    }
    out.flush()
}

/// What the server is told by signals. One that comes before anybody listens waits.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on they are told to the server, and no longer end the process.
    fn catch(runtime: &Runtime) -> io::Result<Signals> {
        let _entered = runtime.enter();
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reopen: signal(SignalKind::user_defined1())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

/// SIGTERM and SIGINT stop gracefully, the second at once; SIGUSR1 reopens the logs; SIGHUP looks
/// after the applications.
async fn obey(
    mut signals: Signals,
    running: Running,
    apps: Option<&Apps>,
    errors: &ErrorLogHandle,
) -> io::Result<()> {
    let (stop, logs) = (running.stop(), running.logs());
    let mut ended = tokio::task::spawn_blocking(move || running.join());
    let mut stopping = false;
    loop {
        tokio::select! {
            outcome = &mut ended => return outcome.map_err(io::Error::other)?,
            () = either(&mut signals.terminate, &mut signals.interrupt) => {
                if stopping {
                    stop.end();
                } else {
                    stopping = true;
                    activation::notify("STOPPING=1");
                    stop.drain();
                }
            }
            _ = signals.reopen.recv() => {
                errors.reopen();
                logs.reopen();
            }
            // The configuration is not reloaded yet.
            _ = signals.hang_up.recv() => match apps {
                Some(apps) => apps.look(),
                None => tracing::info!("SIGHUP: nothing to reload yet"),
            },
        }
    }
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! { _ = a.recv() => {}, _ = b.recv() => {} }
}
