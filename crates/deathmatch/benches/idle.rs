//! Cost of a server that is alive without load: while a contender fights itself, an idle one with
//! open connections is started and stopped beside it, and slices with and without it are compared.
//! `cargo bench -p deathmatch -- nginx h2o` measures nginx beside an idle h2o; without names the
//! floor beside itself.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deathmatch::arena::recorded;
use deathmatch::contender::{Contender, Site};
use deathmatch::stats::{Ratio, Rounds, cpu_us_per_reply};

/// Pairs of a stretch with the idle server and one without. The second pair of two has the opposite
/// order, so that a steady drift cancels out.
const PAIRS: u32 = 24;

/// Duration of a stretch: some slices of each fighter.
const STRETCH: Duration = Duration::from_millis(2_500);

/// Open connections to the idle server.
const CONNECTIONS: usize = 50;

/// The fighters' port; the idle server is far behind it.
const PORT: u16 = 8930;

/// A stretch: its pair, with the idle server or without, begin and end in seconds since 1970.
struct Stretch {
    pair: u32,
    is_beside: bool,
    from_s: f64,
    to_s: f64,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --benches` runs this too: it is no test.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let mut names = arguments.iter().map(String::as_str).filter(|name| !name.starts_with('-'));
    let (contender, idle) = (names.next().unwrap_or("floor"), names.next().unwrap_or("floor"));
    let folder = env::temp_dir().join(format!("deathmatch-idle-{}", std::process::id()));
    let budget = STRETCH * 2 * PAIRS + Duration::from_secs(60);
    let mut duel = Command::new(env!("CARGO_BIN_EXE_deathmatch"))
        .args(["duel", contender, contender, "--precision", "0.1%", "--json", "--budget"])
        .arg(format!("{}s", budget.as_secs()))
        .args(["--port", &PORT.to_string(), "--out"])
        .arg(&folder)
        .stdout(Stdio::null())
        .spawn()?;
    let measured = wait_for_slices(&folder).and_then(|()| toggle(idle, &folder));
    let slices = recorded(&folder)?;
    duel.kill()?;
    duel.wait()?;
    let stretches = measured?;
    let mut figures = [Rounds::new(), Rounds::new()];
    for Stretch { pair, is_beside, from_s, to_s } in stretches {
        let is_within = |began: f64, seconds: f64| began >= from_s && began + seconds <= to_s;
        let inside = slices.iter().filter(|s| is_within(s.began_unix_s, s.load.seconds));
        let logs: Vec<f64> = inside.filter_map(cpu_us_per_reply).map(f64::ln).collect();
        if !logs.is_empty() {
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            figures[usize::from(is_beside)].insert(pair, mean.exp());
        }
    }
    let [alone, beside] = figures;
    let ratio = Ratio::of(&beside, &alone).ok_or(io::Error::other("no slices"))?;
    let mut out = io::stdout();
    writeln!(
        out,
        "processor time of {contender} beside idle {idle}, as a multiple of alone: {ratio}"
    )?;
    fs::remove_dir_all(&folder)
}

/// Waits until the duel has begun.
fn wait_for_slices(folder: &Path) -> io::Result<()> {
    for _ in 0..300 {
        if recorded(folder).is_ok_and(|samples| !samples.is_empty()) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(io::Error::other("the duel did not begin"))
}

/// Starts and stops the idle server.
fn toggle(idle: &str, folder: &Path) -> io::Result<Vec<Stretch>> {
    let mut contender = Contender::by_name(idle).ok_or(io::Error::other("no such contender"))?;
    contender.name = format!("{idle}-idle");
    let site = Site {
        work: folder.join("work"),
        docroot: folder.join("docroot"),
        port: PORT + 50,
        cores: vec![0],
        workers: 1,
        uploads: false,
    };
    let prepared = contender.prepare(&site)?;
    let mut stretches = Vec::new();
    for pair in 0..PAIRS {
        for part in 0..2 {
            let is_beside = (part == 0) == (pair % 2 == 0);
            if is_beside {
                let running = prepared.start().map_err(|e| io::Error::other(e.to_string()))?;
                let connect = |_| TcpStream::connect(running.addr());
                let connections =
                    (0..CONNECTIONS).map(connect).collect::<io::Result<Vec<TcpStream>>>()?;
                stretches.push(stretch(pair, is_beside));
                drop(connections);
                running.stop()?;
            } else {
                stretches.push(stretch(pair, is_beside));
            }
        }
    }
    Ok(stretches)
}

fn stretch(pair: u32, is_beside: bool) -> Stretch {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    let from_s = now();
    thread::sleep(STRETCH);
    Stretch { pair, is_beside, from_s, to_s: now() }
}
