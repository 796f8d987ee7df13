//! Instructions and cycles of a server, from the processor's counters, if perf can read them here.

use std::io;
use std::path::Path;
use std::process::Command;

use super::Watch;

/// Counted events, in user mode and in the kernel.
const EVENTS: [&str; 2] = ["instructions", "cycles"];

/// Counts of a server's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareCounts {
    pub instructions: u64,
    /// Cycles of the processor.
    pub cycles: u64,
}

/// Checks that perf counts instructions and cycles.
///
/// # Errors
/// The reason for which it cannot.
pub fn check_hardware() -> Result<(), String> {
    let words = ["stat", "-x", ",", "-e", &EVENTS.join(","), "true"];
    let output = Command::new("perf").args(words).output();
    let output = output.map_err(|_| "perf is not installed: apt-get install linux-perf")?;
    read(&String::from_utf8_lossy(&output.stderr)).map(drop)
}

/// Counts the instructions and cycles of these processes during `work`; perf writes to `folder`.
///
/// # Errors
/// perf cannot count them; errors of `work`.
pub fn count_hardware<T>(
    pids: &[u32],
    folder: &Path,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<(HardwareCounts, T)> {
    let words = ["stat", "-x,", "-e", &EVENTS.join(",")];
    let (text, done) = Watch::begin(&words, pids, folder)?.run(work)?;
    Ok((read(&text).map_err(io::Error::other)?, done))
}

/// Parses the output of `perf stat -x,`: `VALUE,UNIT,EVENT,...`; perf may add `:u` to the event.
fn read(text: &str) -> Result<HardwareCounts, String> {
    if text.contains("<not supported>") {
        return Err("this machine has no hardware counters, as most virtual ones".to_owned());
    }
    let count = |name: &str| {
        text.lines().find_map(|line| {
            let mut fields = line.split(',');
            let (value, event) = (fields.next()?, fields.nth(1)?);
            (event.split(':').next() == Some(name)).then(|| value.trim().parse().ok())?
        })
    };
    count(EVENTS[0])
        .zip(count(EVENTS[1]))
        .map(|(instructions, cycles)| HardwareCounts { instructions, cycles })
        .ok_or_else(|| "perf may not count here: run it as root".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_a_machine_without_counters_is_told() {
        let both = "1096,,instructions:u,77,100.00,,\n80,,cycles:u,77,100.00,,\n";
        assert_eq!(read(both), Ok(HardwareCounts { instructions: 1096, cycles: 80 }));
        for (text, reason, why) in [
            ("<not supported>,,instructions,0,100.00,,\n", "no hardware counters", "virtual"),
            ("<not counted>,,instructions,0,0.00,,\n", "may not count", "others count"),
            ("9,,instructions,0,0.00,,\n", "may not count", "one of two"),
            ("Error:\nAccess is limited\n", "may not count", "not root"),
        ] {
            assert!(read(text).unwrap_err().contains(reason), "{why}");
        }
    }
}
