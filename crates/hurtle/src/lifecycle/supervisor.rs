//! Process 1 of a container, whose end is that of the container. It starts the server as a process
//! of its own, which another one can replace; passes signals on; reaps orphans; and ends with the
//! server's exit code. Servers have it start their successors, as they have a `starter` do it.

use std::convert::Infallible;
use std::env;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

use super::handover;
use super::starter::{KILL, SERVES};
use super::upgrade::{OF_THIS_PROCESS, Program};
use crate::sockets::activation;
use crate::sockets::descriptors::{receive_byte, receive_descriptor};

/// Environment variable of a server that a supervisor has started.
const VARIABLE: &str = "HURTLE_SUPERVISED";

/// Time limit of a poll that does not wait.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Added to the number of the signal that has ended the server, for the exit code, as shells do.
const BY_SIGNAL: i32 = 128;

/// Returns `true` if this process must not serve itself.
pub fn is_needed() -> bool {
    std::process::id() == 1
}

/// Returns `true` if a supervisor has started this process.
pub(super) fn is_supervised() -> bool {
    env::var_os(VARIABLE).is_some()
}

struct Server {
    id: Pid,
    /// `true`: it accepts connections, or did so before its successor.
    serves: bool,
    /// Signals for when it serves, each once: until then they would end it.
    waiting: Vec<Signal>,
}

struct Supervisor {
    program: Program,
    channel: UnixStream,
    /// The processes that have not ended, oldest first. Whoever holds the lock receives messages,
    /// and tells the start of a process before its end.
    servers: Mutex<Vec<Server>>,
}

/// Starts the server and waits until it, or the last one that has replaced it, has ended. Returns
/// its exit code.
///
/// # Errors
/// The system refuses a process or a thread.
pub fn run() -> io::Result<u8> {
    let program = Program::current();
    let (channel, theirs) = UnixStream::pair()?;
    let supervisor = Arc::new(Supervisor { program, channel, servers: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the server starts, because its end may follow at once.
        let mut ends = signal(SignalKind::child())?;
        let signals = supervisor.pass_on_signals()?;
        supervisor.start_first(theirs.into())?;
        // The server has the sockets of the service manager.
        drop(activation::listeners()?);
        let attending = Arc::clone(&supervisor);
        thread::Builder::new().name("attend".to_owned()).spawn(move || attending.attend())?;
        let waiting = async {
            loop {
                if let Some(code) = supervisor.reap()? {
                    return Ok(code);
                }
                ends.recv().await;
            }
        };
        tokio::select! { code = waiting => code, never = signals => match never {} }
    })
}

impl Supervisor {
    /// Passes signals on as long as it is polled.
    fn pass_on_signals(self: &Arc<Self>) -> io::Result<impl Future<Output = Infallible> + use<>> {
        let supervisor = Arc::clone(self);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut reopen = signal(SignalKind::user_defined1())?;
        let mut upgrade = signal(SignalKind::user_defined2())?;
        Ok(async move {
            loop {
                let received = tokio::select! {
                    _ = terminate.recv() => Signal::TERM,
                    _ = interrupt.recv() => Signal::INT,
                    _ = hang_up.recv() => Signal::HUP,
                    _ = reopen.recv() => Signal::USR1,
                    _ = upgrade.recv() => Signal::USR2,
                };
                supervisor.signal(received);
            }
        })
    }

    /// Signals that do not stop a server wait for the first one to serve.
    fn signal(&self, received: Signal) {
        let stops = matches!(received, Signal::TERM | Signal::INT);
        let mut servers = self.servers();
        let is_early = !stops && servers.iter().all(|server| !server.serves);
        for server in servers.iter_mut() {
            if stops || server.serves {
                // An error means that it has ended.
                let _ = kill_process(server.id, received);
            } else if is_early && !server.waiting.contains(&received) {
                server.waiting.push(received);
            }
        }
    }

    fn start_first(&self, stdin: OwnedFd) -> io::Result<()> {
        let mut command = self.command(stdin);
        // It is that of this process.
        command.env_remove("LISTEN_PID");
        Supervisor::start(&mut self.servers(), command).map(drop)
    }

    /// A process group of its own, because a terminal sends signals to the whole group of this one.
    fn command(&self, stdin: OwnedFd) -> Command {
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.arguments).env(VARIABLE, "1").stdin(stdin).process_group(0);
        command
    }

    fn start(servers: &mut Vec<Server>, mut command: Command) -> io::Result<Pid> {
        let id = Pid::from_child(&command.spawn()?);
        servers.push(Server { id, serves: false, waiting: vec![] });
        Ok(id)
    }

    /// Does what the servers say, until the last one has ended.
    fn attend(&self) {
        // Nobody is left to read an error.
        while self.attend_once().is_ok() {}
    }

    fn attend_once(&self) -> io::Result<()> {
        is_readable(&self.channel, None)?;
        self.attend_sent(&mut self.servers())
    }

    /// Does what the servers have said until now. Messages are received under the lock, so that the
    /// end of a server is judged after all that it has said.
    fn attend_sent(&self, servers: &mut Vec<Server>) -> io::Result<()> {
        while is_readable(&self.channel, Some(&AT_ONCE))? {
            self.attend_message(servers)?;
        }
        Ok(())
    }

    fn attend_message(&self, servers: &mut Vec<Server>) -> io::Result<()> {
        match receive_byte(&self.channel)? {
            (_, Some(stdin)) => {
                let stderr = receive_descriptor(&self.channel)?;
                let mut command = self.command(stdin);
                command.env(handover::VARIABLE, "1").stderr(Stdio::from(stderr));
                for name in OF_THIS_PROCESS {
                    command.env_remove(name);
                }
                match Supervisor::start(servers, command) {
                    Ok(id) => self.tell(&format!("started {}", id.as_raw_nonzero())),
                    Err(e) => self.tell(&format!("failed {e}")),
                }
            }
            (KILL, None) => {
                if let Some(server) = servers.last().filter(|server| !server.serves) {
                    // An error means that it has ended.
                    let _ = kill_process(server.id, Signal::KILL);
                }
                Ok(())
            }
            (SERVES, None) => {
                if let Some(server) = servers.last_mut() {
                    server.serves = true;
                    for signal in server.waiting.drain(..) {
                        // An error means that it has ended.
                        let _ = kill_process(server.id, signal);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn tell(&self, line: &str) -> io::Result<()> {
        writeln!(&self.channel, "{line}")
    }

    /// Reaps every process that has ended. Returns the exit code if no server is left to wait for.
    fn reap(&self) -> io::Result<Option<u8>> {
        let mut servers = self.servers();
        loop {
            let ended = match wait(WaitOptions::NOHANG) {
                Ok(ended) => ended,
                Err(Errno::CHILD) => None,
                Err(e) => return Err(e.into()),
            };
            let Some((id, status)) = ended else { return Ok(None) };
            if let Some(code) = self.judge(&mut servers, id, status) {
                return Ok(Some(code));
            }
        }
    }

    /// Returns the exit code if no server is left to wait for after the end of this process.
    fn judge(&self, servers: &mut Vec<Server>, id: Pid, status: WaitStatus) -> Option<u8> {
        // `attend` finds an error, too.
        let _ = self.attend_sent(servers);
        let at = servers.iter().position(|server| server.id == id)?;
        let ended = servers.remove(at);
        let is_last = at == servers.len();
        if is_last {
            // The server that has asked for it may have ended.
            let _ = self.tell(&format!("ended {}", shown(status)));
        }
        // Without a server that accepts connections, the container must be started again.
        let has_failed = is_last && ended.serves && code(status) != 0;
        (servers.is_empty() || has_failed).then(|| code(status))
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a message, or for the end of the last server; at most for `within`.
fn is_readable(channel: &UnixStream, within: Option<&Timespec>) -> io::Result<bool> {
    loop {
        match poll(&mut [PollFd::new(channel, PollFlags::IN)], within) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn code(status: WaitStatus) -> u8 {
    let signal = || status.terminating_signal().map(|signal| BY_SIGNAL + signal);
    let code = status.exit_status().or_else(signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn shown(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status: {code}"),
        (None, Some(signal)) => format!("signal: {signal}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use rustix::process::waitpid;

    use super::*;

    #[test]
    fn a_signal_waits_for_the_first_server_to_serve() {
        let (channel, mut server) = UnixStream::pair().unwrap();
        let supervisor =
            Supervisor { program: Program::current(), channel, servers: Mutex::default() };
        let mut command = Command::new("sh");
        command.args(["-c", "trap 'exit 7' HUP; echo trapped; while read line; do :; done"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let id = Pid::from_child(&child);
        supervisor.servers().push(Server { id, serves: false, waiting: vec![] });

        supervisor.signal(Signal::HUP);
        supervisor.signal(Signal::HUP);
        assert_eq!(supervisor.servers()[0].waiting, [Signal::HUP], "once");
        server.write_all(&[SERVES]).unwrap();
        supervisor.attend_once().unwrap();
        // Standard input stays open, so only the signal ends it.
        let stdin = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        drop(stdin);
    }

    #[test]
    fn a_server_that_ends_just_after_it_said_that_it_serves_has_served() {
        let (channel, mut server) = UnixStream::pair().unwrap();
        let supervisor =
            Supervisor { program: Program::current(), channel, servers: Mutex::default() };
        let before = Pid::from_raw(i32::MAX).unwrap();
        let after = Pid::from_child(&Command::new("false").spawn().unwrap());
        supervisor.servers().push(Server { id: before, serves: true, waiting: vec![] });
        supervisor.servers().push(Server { id: after, serves: false, waiting: vec![] });
        // Nothing attends to the message before the end.
        server.write_all(&[SERVES]).unwrap();
        let (_, status) = waitpid(Some(after), WaitOptions::empty()).unwrap().unwrap();
        let code = supervisor.judge(&mut supervisor.servers(), after, status);
        assert_eq!(code, Some(1), "the container ends with it");
    }
}
