//! The server process: binds, switches its user, notifies the service manager and handles signals.

use std::io::{self, Write};
use std::path::PathBuf;

use rustix::process::geteuid;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::apps::Apps;
use super::{BoundAddresses, Running, Server, activation};
use crate::config::{Config, Listen};
use crate::observe::ErrorLogHandle;
use crate::sys;

/// Ports tried in turn when the default one is in use.
const PORTS_TRIED: u16 = 100;

/// Runs a server until it is stopped. `any_port`: the address is a default, so another port may be
/// used.
///
/// # Errors
/// The server cannot start, or a worker failed.
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
        switch_user(&user, group.as_deref())?;
    } else if geteuid().is_root() {
        tracing::warn!(
            "running as root; set `user = \"www-data\"` in the configuration to give it up"
        );
    }
    let bound = server.bound.clone();
    let roots = server.roots();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Installed before the server is announced, because a stop signal may follow at once.
    let signals = Signals::catch(&runtime)?;
    // Started after the switch of user.
    let apps = Apps::start(&mut server)?;
    let running = server.start()?;
    print_greeting(&bound, &roots)?;
    activation::notify("READY=1");
    let outcome = runtime.block_on(handle_signals(signals, running, apps.as_ref(), errors));
    // Applications must outlive the last request.
    if let Some(apps) = apps {
        apps.stop();
    }
    for socket in sockets {
        // The server's user may not write in the directory; the next start replaces the socket
        // file.
        let _ = std::fs::remove_file(socket);
    }
    outcome
}

/// The socket files that the server removes at its end.
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

/// Gives up root for good: groups first, because only root may change them.
fn switch_user(name: &str, group: Option<&str>) -> io::Result<()> {
    use nix::unistd::{Group, User, setgid, setuid};
    let missing = |what: &str, name: &str| io::Error::other(format!("there is no {what} {name}"));
    let user = User::from_name(name)?.ok_or_else(|| missing("user", name))?;
    if !geteuid().is_root() {
        if user.uid.as_raw() == geteuid().as_raw() {
            return Ok(());
        }
        return Err(io::Error::other(format!("only root can switch to the user {name}")));
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

/// Prints the addresses for the person at the terminal.
fn print_greeting(bound: &BoundAddresses, roots: &[PathBuf]) -> io::Result<()> {
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

/// Signal streams; a signal that arrives early waits in its stream.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Installs the handlers; the signals no longer end the process.
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

/// Handles signals until the server has ended: SIGTERM and SIGINT stop gracefully and, the second
/// time, at once; SIGUSR1 reopens the logs; SIGHUP scans the applications.
async fn handle_signals(
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
            // A reload of the configuration is not implemented yet.
            _ = signals.hang_up.recv() => match apps {
                Some(apps) => apps.scan(),
                None => tracing::info!("SIGHUP: nothing to reload yet"),
            },
        }
    }
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! { _ = a.recv() => {}, _ = b.recv() => {} }
}
