//! System calls of a server per request, and their order: counted and listed by perf from the
//! kernel's own tracepoints, in separate runs, since tracing slows the server.
//!
//! The command chooses the server and its work.

mod hardware;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

pub use hardware::{HardwareCounts, check_hardware, count_hardware};
use serde::Serialize;

/// Remedy where perf is missing.
const REMEDY: &str = "system calls are counted by perf: apt-get install linux-perf";
/// Most frequent reason for which perf is refused.
const REFUSED: &str = "perf must see tracepoints: run it as root";
/// Tracepoints by name. Watching one takes the kernel some hundredths of a second, so only those of
/// calls that occurred are watched.
const TRACEPOINTS: &str = "/sys/kernel/tracing/events/syscalls";
/// Every call, whatever its name.
const ANY: &str = "raw_syscalls:sys_enter";
/// Receives that returned no data (EAGAIN is 11).
const IN_VAIN: [&str; 2] = ["syscalls:sys_exit_recvfrom", "syscalls:sys_exit_read"];
/// Calls shown of a busy moment.
const MOMENT_CALLS: usize = 24;
/// Calls fewer than this per request are not shown.
const SHOWN_MIN: f64 = 0.005;

/// A server's system calls.
#[derive(Clone, Debug, Serialize)]
pub struct Calls {
    /// Name of the contender whose calls are counted.
    pub contender: String,
    /// Connections; each sends its next request after the response.
    pub connections: u32,
    /// Responses while calls were counted.
    pub requests: u64,
    /// All calls, those of making the connections included.
    pub total: u64,
    /// Calls by name, the most frequent first, of those that occurred in the other run.
    pub counts: Vec<Count>,
    /// Receives that returned no data.
    pub in_vain: u64,
    /// One thread's successive calls, from a separate run.
    pub moment: Vec<String>,
}

/// The count of one system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Name of the system call.
    pub name: String,
    /// Number of calls in the counted time.
    pub calls: u64,
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |calls: u64| calls as f64 / self.requests.max(1) as f64;
        let named: u64 = self.counts.iter().map(|count| count.calls).sum();
        writeln!(
            f,
            "{}, {} connections: {:.2} system calls a request ({} requests)",
            self.contender,
            self.connections,
            share(self.total),
            self.requests
        )?;
        let others = Count { name: "others".to_owned(), calls: self.total.saturating_sub(named) };
        for count in self.counts.iter().chain([&others]) {
            if share(count.calls) >= SHOWN_MIN {
                writeln!(f, "  {:<16} {:.2}", count.name, share(count.calls))?;
            }
        }
        writeln!(f, "  received nothing {:.2}", share(self.in_vain))?;
        writeln!(f, "one busy moment:")?;
        self.moment.iter().try_for_each(|call| writeln!(f, "  {call}"))
    }
}

/// Counts of system calls in one run.
#[derive(Debug, Default)]
pub struct CallCounts {
    /// System calls of all names.
    pub total: u64,
    /// By name, the most frequent first.
    pub counts: Vec<Count>,
    /// Receives that returned no data.
    pub in_vain: u64,
}

/// Checks that perf is installed.
///
/// # Errors
/// perf is missing; the text says how to install it.
pub fn check() -> io::Result<()> {
    let status = Command::new("perf").arg("--version").stdout(Stdio::null()).status();
    status.map(drop).map_err(|e| io::Error::new(e.kind(), REMEDY))
}

/// Counts the calls of these processes during `work`: all, and those of these names.
///
/// # Errors
/// perf is not permitted; errors of `work`.
pub fn count<T>(
    pids: &[u32],
    names: &BTreeSet<String>,
    folder: &Path,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<(CallCounts, T)> {
    // Other calls are in the total.
    let named = names.iter().filter_map(|name| tracepoint(name));
    let events: Vec<String> = named.chain([ANY.to_owned()]).collect();
    let in_vain = IN_VAIN.iter().flat_map(|event| ["-e", event, "--filter", "ret == -11"]);
    let events = events.iter().flat_map(|event| ["-e", event]);
    let words: Vec<&str> = ["stat", "-x,"].into_iter().chain(events).chain(in_vain).collect();
    let (text, done) = Watch::begin(&words, pids, folder)?.run(work)?;
    Ok((read_counts(&text), done))
}

/// The kernel's name of a call's tracepoint: `sendfile` is `sendfile64`.
fn tracepoint(name: &str) -> Option<String> {
    let names = ["", "64"].map(|end| format!("sys_enter_{name}{end}"));
    let known = names.into_iter().find(|name| Path::new(TRACEPOINTS).join(name).exists());
    known.map(|name| format!("syscalls:{name}"))
}

/// The names of all calls of these processes during `work`, and the successive calls of one of
/// their threads in the middle of it.
///
/// # Errors
/// As for `count`.
pub fn moment<T>(
    pids: &[u32],
    folder: &Path,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<(BTreeSet<String>, Vec<String>)> {
    let (text, _) = Watch::begin(&["trace"], pids, folder)?.run(work)?;
    Ok(read_moment(&text))
}

/// A running perf. It watches until its own command, `cat`, ends. Once `cat` echoes a line, perf is
/// watching; when its input ends, perf prints its result.
struct Watch {
    perf: Child,
    cat: ChildStdin,
    written: PathBuf,
}

impl Watch {
    fn begin(words: &[&str], pids: &[u32], folder: &Path) -> io::Result<Watch> {
        let written = folder.join("perf.txt");
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut perf = Command::new("perf")
            .args(words)
            .arg("-o")
            .arg(&written)
            .args(["-p", &pids.join(","), "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (Some(mut cat), Some(mut answer)) = (perf.stdin.take(), perf.stdout.take()) else {
            return Err(io::Error::other("perf has no pipes"));
        };
        // If perf has ended, no program reads this, and no line is echoed.
        let _ = cat.write_all(b".");
        if answer.read_exact(&mut [0]).is_err() {
            drop(cat);
            let output = perf.wait_with_output()?;
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{REFUSED}; its message: {}", message.trim())));
        }
        Ok(Watch { perf, cat, written })
    }

    /// Does the work; returns it with perf's output.
    fn run<T>(self, work: impl FnOnce() -> io::Result<T>) -> io::Result<(String, T)> {
        let done = work();
        drop(self.cat);
        let output = self.perf.wait_with_output()?;
        let done = done?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("perf failed: {}", message.trim())));
        }
        // perf prints file names unescaped.
        let text = String::from_utf8_lossy(&fs::read(&self.written)?).into_owned();
        fs::remove_file(&self.written)?;
        Ok((text, done))
    }
}

/// Parses the output of `perf stat -x,`: `VALUE,UNIT,EVENT,...`.
fn read_counts(text: &str) -> CallCounts {
    let mut counted = CallCounts::default();
    for line in text.lines() {
        let mut fields = line.split(',');
        let (value, event) = (fields.next(), fields.nth(1).unwrap_or_default());
        let Some(calls) = value.and_then(|v| v.parse().ok()).filter(|&calls| calls > 0) else {
            continue;
        };
        if event == ANY {
            counted.total = calls;
        } else if let Some(name) = event.strip_prefix("syscalls:sys_enter_") {
            counted.counts.push(Count { name: name.to_owned(), calls });
        } else if IN_VAIN.contains(&event) {
            counted.in_vain += calls;
        }
    }
    counted.counts.sort_by(|a, b| b.calls.cmp(&a.calls).then(a.name.cmp(&b.name)));
    counted
}

/// Parses the output of `perf trace`: the names of all calls, and the calls of one thread in the
/// middle.
fn read_moment(text: &str) -> (BTreeSet<String>, Vec<String>) {
    let all: Vec<(&str, String)> = text.lines().filter_map(read_call).collect();
    let name = |(_, call): &(&str, String)| call.split('(').next().unwrap_or_default().to_owned();
    let names = all.iter().map(name).collect();
    let Some((thread, _)) = all.get(all.len() / 2) else { return (names, Vec::new()) };
    let theirs: Vec<&String> = all.iter().filter(|(t, _)| t == thread).map(|(_, c)| c).collect();
    let from = (theirs.len() / 2).saturating_sub(MOMENT_CALLS / 2);
    (names, theirs.into_iter().skip(from).take(MOMENT_CALLS).cloned().collect())
}

/// A thread and its call, from `TIME ( TOOK ms): THREAD NAME(fd: 13<...>, ...) = 85`; perf names no
/// thread if there is only one.
fn read_call(line: &str) -> Option<(&str, String)> {
    let (_, rest) = line.split_once(" ms): ")?;
    let (called, arguments) = rest.split_once('(')?;
    let (thread, name) = called.rsplit_once(' ').unwrap_or(("", called));
    let (arguments, result) = arguments.rsplit_once(" = ")?;
    // Drops the explanation that follows an error's name, as in `-1 EAGAIN (Resource ...)`.
    let result = result.split(" (").next().unwrap_or(result);
    let descriptor: String = match arguments.split_once("fd: ") {
        Some((_, behind)) => behind.chars().take_while(char::is_ascii_digit).collect(),
        None => String::new(),
    };
    Some((thread, format!("{name}({descriptor}) = {result}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_name_and_failed_calls_apart() {
        let text = "# started on Sun\n\n0,,syscalls:sys_enter_close,36,100.00,,\n\
                    10,,syscalls:sys_enter_sendto,36,100.00,,\n\
                    23,,syscalls:sys_enter_recvfrom,36,100.00,,\n\
                    <not counted>,,syscalls:sys_enter_read,0,0.00,,\n\
                    34,,raw_syscalls:sys_enter,36,100.00,,\n\
                    8,,syscalls:sys_exit_recvfrom,36,100.00,,\n";
        let counted = read_counts(text);
        let named: Vec<_> = counted.counts.iter().map(|c| (&*c.name, c.calls)).collect();
        assert_eq!(named, [("recvfrom", 23), ("sendto", 10)]);
        assert_eq!((counted.total, counted.in_vain), (34, 8));
    }

    #[test]
    fn a_call_is_read_as_the_seed_writes_it() {
        let rows = [
            (
                "a socket",
                "  1.1 ( 0.025 ms): recvfrom(fd: 11<socket:[15]>, ubuf: 0x5, size: 4096)  = 85",
                Some(("", "recvfrom(11) = 85")),
            ),
            (
                "of a thread, in vain",
                " 18.0 ( 0.020 ms): worker 1/77 recvfrom(fd: 9<socket:[1]>, size: 4096) = -1 EAGAIN (Resource temporarily unavailable)",
                Some(("worker 1/77", "recvfrom(9) = -1 EAGAIN")),
            ),
            (
                "an event loop",
                "  4.3 (12.879 ms): epoll_wait(epfd: 3<anon_inode:[eventpoll]>, timeout: 4294967295) = 1",
                Some(("", "epoll_wait(3) = 1")),
            ),
            ("no descriptor", "  4.3 ( 0.001 ms): getpid()     = 7", Some(("", "getpid() = 7"))),
            ("began earlier", "    ? (         ):  ... [continued]: epoll_wait()) = 1", None),
            ("perf's own words", "LOST 12 events!", None),
        ];
        for (sentence, line, expected) in rows {
            let expected = expected.map(|(thread, call)| (thread, call.to_owned()));
            assert_eq!(read_call(line), expected, "{sentence}");
        }
    }

    #[test]
    fn a_moment_is_from_the_middle_and_of_one_thread() {
        let line = |n: usize, thread: &str| format!(" 1.0 ( 0.1 ms): {thread} sendto(fd: {n}) = 1");
        let text: Vec<_> =
            (0..100).map(|n| line(n, if n % 2 == 0 { "a/1" } else { "b/2" })).collect();
        let (names, moment) = read_moment(&text.join("\n"));
        assert_eq!(names.iter().collect::<Vec<_>>(), ["sendto"]);
        assert_eq!(moment.len(), MOMENT_CALLS);
        assert_eq!((&*moment[0], &*moment[23]), ("sendto(26) = 1", "sendto(72) = 1"));
        assert!(read_moment("").1.is_empty(), "of nothing, nothing");
    }
}
