//! A process that looks up names of hosts for a confined server. The system's resolver opens files
//! by name (/etc/resolv.conf, /etc/hosts) that other programs replace, and the server's sandbox has
//! permissions for inodes only. This process may read all of /etc, but it has the server's user,
//! knows no secret, writes nothing and starts nothing.
//!
//! Each look-up is a connection: the server sends its other end, and then the name.

use std::env;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use super::sandbox::Permissions;
use super::starter::{await_ready, outlive_signals};
use crate::config::{Auth, Config, JwksSource, Jwt, MountHandler, Upstream};
use crate::rt::host_names::{set_look_up, system_addresses};
use crate::sockets::descriptors::{receive_descriptor, send_descriptor, take_stdin};
use crate::users::switch_user;

/// Variables of the system's resolver (resolv.conf(5)) and of the linker.
const VARIABLES: [&str; 4] = ["HOSTALIASES", "LD_LIBRARY_PATH", "LOCALDOMAIN", "RES_OPTIONS"];

/// Longest wait for the addresses of a name.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Longest name, with its port.
const QUESTION_BYTES_MAX: u64 = 1 << 10;

/// Longest list of addresses, as text.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Most look-ups at once, each on a thread of its own.
const THREADS_MAX: usize = 64;

/// The first word of an answer that is an error.
const FAILED: &str = "failed ";

/// `true`: this process has looked up a name itself.
static LOOKS_UP_ITSELF: AtomicBool = AtomicBool::new(false);

/// The server's end of the socket to the process that looks up names.
#[derive(Debug)]
pub(super) struct Resolver(UnixStream);

impl Resolver {
    /// `true`: a server with this configuration looks up names.
    pub(super) fn is_needed(config: &Config) -> bool {
        let is_name = |upstream: &Upstream| matches!(upstream, Upstream::Name(..));
        let asks = |auth: &Auth| match auth {
            Auth::Forward(forward) => is_name(&forward.upstream.upstream),
            Auth::Jwt(Jwt { jwks: JwksSource::Url(_), .. }) => true,
            _ => false,
        };
        let mounts = || config.sites.iter().flat_map(|site| &site.mounts);
        config.acme.is_some()
            || config.store.as_ref().is_some_and(|store| is_name(&store.server))
            || config.sites.iter().any(|site| site.auth.as_ref().is_some_and(asks))
            || mounts().any(|mount| {
                let proxied = match &mount.handler {
                    MountHandler::Proxy(proxy) => {
                        proxy.upstreams.iter().any(|server| is_name(&server.upstream))
                    }
                    MountHandler::FastCgi(fastcgi) => fastcgi.upstreams.iter().any(&is_name),
                    MountHandler::Uwsgi(uwsgi) => uwsgi.upstreams.iter().any(&is_name),
                    _ => false,
                };
                proxied
                    || mount.auth.as_ref().is_some_and(asks)
                    || mount.authorizer.as_ref().is_some_and(is_name)
            })
    }

    /// Starts the process. Call it before this one is confined.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn spawn(config: &Config) -> io::Result<Resolver> {
        let (channel, theirs) = UnixStream::pair()?;
        let mut command = Command::new(env::current_exe()?);
        command.arg("look-up-names");
        let options = [("--user", &config.user), ("--group", &config.group)];
        for (option, value) in options {
            command.args(value.iter().flat_map(|value| [option, value]));
        }
        // Others may be secrets.
        let kept = env::vars_os().filter(|(name, _)| VARIABLES.iter().any(|kept| name == kept));
        command.env_clear().envs(kept);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).spawn()?;
        await_ready(&channel)?;
        Ok(Resolver(channel))
    }

    /// Has this process look up names by the other one; if that has ended, by itself.
    pub(super) fn install(self) {
        let is_told = AtomicBool::new(false);
        set_look_up(Box::new(move |name, port| match self.look_up(name, port) {
            Ok(answer) => answer,
            Err(e) => {
                if !is_told.swap(true, SeqCst) {
                    tracing::error!("the process that looks up names has failed: {e}");
                }
                look_up_here(name, port)
            }
        }));
    }

    /// Looks up a name; the inner error is that of the name.
    fn look_up(&self, name: &str, port: u16) -> io::Result<io::Result<Vec<SocketAddr>>> {
        let (mut ours, theirs) = UnixStream::pair()?;
        send_descriptor(&self.0, theirs.as_fd())?;
        drop(theirs);
        ours.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        writeln!(ours, "{port} {name}")?;
        ours.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        match (&ours).take(ANSWER_BYTES_MAX).read_to_string(&mut answer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Err(io::Error::other("the look-up takes too long")));
            }
            read => read?,
        };
        if answer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(why) = answer.strip_prefix(FAILED) {
            return Ok(Err(io::Error::other(why.trim_end().to_owned())));
        }
        Ok(answer.lines().map(|line| line.parse().map_err(io::Error::other)).collect())
    }
}

/// Has this confined process look up names by itself.
pub(super) fn install_none() {
    set_look_up(Box::new(look_up_here));
}

/// `true`: this process has looked up a name itself, so it opens the files of the system's
/// resolver.
pub(super) fn looks_up_itself() -> bool {
    LOOKS_UP_ITSELF.load(SeqCst)
}

fn look_up_here(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    LOOKS_UP_ITSELF.store(true, SeqCst);
    system_addresses(name, port)
}

/// Looks up names for the server, until it has ended.
///
/// # Errors
/// Standard input is no socket of a server, or the user is unknown.
pub fn run(user: Option<&str>, group: Option<&str>) -> io::Result<()> {
    let channel = take_stdin()?.ok_or(io::ErrorKind::InvalidInput)?;
    outlive_signals(&channel)?;
    if let Some(user) = user {
        switch_user(user, group)?;
    }
    // A system without a sandbox has none for the server either.
    let _ = Permissions::of_resolver().enter();
    let running = Arc::<AtomicUsize>::default();
    loop {
        let client = match receive_descriptor(&channel) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            received => UnixStream::from(received?),
        };
        if running.fetch_add(1, SeqCst) >= THREADS_MAX {
            running.fetch_sub(1, SeqCst);
            // The server may have given up.
            let _ = writeln!(&client, "{FAILED}too many look-ups at once");
            continue;
        }
        let count = Arc::clone(&running);
        let spawned = thread::Builder::new().name("look-up".to_owned()).spawn(move || {
            // The server may have given up.
            let _ = answer(&client);
            count.fetch_sub(1, SeqCst);
        });
        if spawned.is_err() {
            // The server gets no answer, and looks the name up itself.
            running.fetch_sub(1, SeqCst);
        }
    }
}

/// Reads a port and a name, and writes a line for each address, or one that begins with `FAILED`.
fn answer(mut client: &UnixStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(client.take(QUESTION_BYTES_MAX)).read_line(&mut line)?;
    let (port, name) = line.trim_end().split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
    let port = port.parse().map_err(io::Error::other)?;
    let answer = match system_addresses(name, port) {
        Ok(found) if found.is_empty() => format!("{FAILED}it has no address\n"),
        Ok(found) => found.iter().map(|address| format!("{address}\n")).collect(),
        Err(e) => format!("{FAILED}{e}\n"),
    };
    client.write_all(answer.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has another thread answer as the process would.
    fn resolver() -> Resolver {
        let (channel, theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            while let Ok(client) = receive_descriptor(&theirs) {
                answer(&client.into()).unwrap();
            }
        });
        Resolver(channel)
    }

    #[test]
    fn a_name_and_an_error_come_back() {
        let resolver = resolver();
        let found = resolver.look_up("127.0.0.1", 80).unwrap().unwrap();
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 80))]);
        let found = resolver.look_up("::1", 443).unwrap().unwrap();
        assert_eq!(found, ["[::1]:443".parse().unwrap()]);
        assert!(resolver.look_up("a name with spaces", 1).unwrap().is_err());
    }

    #[test]
    fn without_the_process_an_error_says_so() {
        let (channel, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        Resolver(channel).look_up("127.0.0.1", 80).unwrap_err();
    }
}
