//! `deathmatch watch`: the use of a server's processes and machine, a line for each second.

use std::fs::{self, File};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use deathmatch::cli::WatchArgs;
use deathmatch::fleet::{WATCH_FORMAT, Watched, host, unix_now};
use deathmatch::machine::Snapshot;
use deathmatch::machine::process::stat;
use deathmatch::process::pids;

use super::interrupt::on_signal;
use super::usage;

/// Interval of lines.
const LINE: Duration = Duration::from_secs(1);

/// Longest part of a wait between two looks for a signal or the process's end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Writes lines until a signal, or until the process ends.
pub(crate) fn watch(args: &WatchArgs) -> io::Result<ExitCode> {
    let Some(first) = began(args.pid) else {
        return usage(&format!("{}: there is no such process", args.pid));
    };
    let stop = on_signal()?;
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", args.out.display()));
    let mut out = match File::create(&args.out) {
        Ok(out) => out,
        Err(e) => return usage(&named(e).to_string()),
    };
    let host = host();
    let mut then = Snapshot::take(&pids(args.pid));
    let mut due = Instant::now() + LINE;
    loop {
        let is_over = stop.load(Ordering::Relaxed) || began(args.pid) != Some(first);
        if !is_over && Instant::now() < due {
            thread::sleep(LOOK_EVERY);
            continue;
        }
        due += LINE;
        let now = Snapshot::take(&pids(args.pid));
        let (server, machine) = then.until(&now, 0.0);
        let line = Watched {
            format: WATCH_FORMAT.to_owned(),
            host: host.clone(),
            pid: args.pid,
            unix_s: unix_now(),
            server,
            machine,
        };
        then = now;
        // One write, so that a copy of the file has whole lines.
        out.write_all((serde_json::to_string(&line)? + "\n").as_bytes()).map_err(named)?;
        if is_over {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The start of a living process, in ticks since boot: its id may belong to another one later.
fn began(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state follows the name (proc_pid_stat(5)); Z has ended.
    let is_zombie = text.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z"));
    stat(&text).filter(|_| !is_zombie).map(|stat| stat.began)
}
