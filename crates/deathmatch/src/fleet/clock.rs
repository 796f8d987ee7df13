//! Facts about this machine's clock, from the program that keeps it.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Longest time of a question to one program.
const ASK_WITHIN: Duration = Duration::from_secs(2);

/// Facts about a clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Program that keeps it: `chronyd`, `systemd`; `None` if none could be asked.
    pub source: Option<String>,
    /// `true` if that program calls it synchronized.
    pub is_synchronized: Option<bool>,
    /// Its offset from the source's time as that program knows it, in seconds, without sign.
    pub offset_s: Option<f64>,
    /// Its largest error, in seconds: offset, half of the root delay, and root dispersion
    /// (RFC 5905, section 4).
    pub error_s: Option<f64>,
    /// Seconds by which it was set during the load: the time it counted less the monotonic clock's.
    pub step_s: f64,
}

/// Seconds since 1970.
pub fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Clock {
    /// Asks chrony, else systemd. It takes a few seconds at most.
    pub fn ask(step_s: f64) -> Clock {
        let chrony = answer(&["chronyc", "-n", "-c", "tracking"]);
        if let Some(clock) = chrony.and_then(|text| tracking(&text)) {
            return Clock { step_s, ..clock };
        }
        let systemd = answer(&["timedatectl", "show", "-p", "NTPSynchronized", "--value"]);
        let is_synchronized = systemd.and_then(|text| match text.trim() {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        });
        let source = is_synchronized.map(|_| "systemd".to_owned());
        Clock { source, is_synchronized, step_s, ..Clock::default() }
    }
}

/// `chronyc -c tracking`, chronyc(1): 14 fields, with the offset of the system's clock as the
/// fifth, root delay and dispersion as the eleventh and twelfth, and the leap status as the last.
fn tracking(text: &str) -> Option<Clock> {
    let fields: Vec<&str> = text.trim().split(',').collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok().map(f64::abs);
    let (offset, delay, dispersion) = (number(4)?, number(10)?, number(11)?);
    let is_synchronized = !fields.get(13)?.starts_with("Not synch");
    Some(Clock {
        source: Some("chronyd".to_owned()),
        is_synchronized: Some(is_synchronized),
        offset_s: is_synchronized.then_some(offset),
        error_s: is_synchronized.then_some(offset + delay / 2.0 + dispersion),
        step_s: 0.0,
    })
}

/// Output of a program; `None` if there is none, it fails, or it takes too long.
fn answer(command: &[&str]) -> Option<String> {
    let (program, args) = command.split_first()?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + ASK_WITHIN;
    let succeeded = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    // A line or two, which the pipe holds.
    let mut text = String::new();
    child.stdout.take()?.take(4096).read_to_string(&mut text).ok()?;
    succeeded.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chrony_s_answer_has_the_error_of_the_clock() {
        let text = "A9FEA97B,169.254.169.123,4,1768000000.1,-0.000010,0.000002,0.000016,-3.2,0.001,\
                    0.025,0.000400,0.000300,16.1,Normal\n";
        let clock = tracking(text).unwrap();
        assert_eq!((clock.is_synchronized, clock.offset_s), (Some(true), Some(0.000_010)));
        assert!((clock.error_s.unwrap() - 0.000_510).abs() < 1e-9, "{clock:?}");
        let lost = tracking(&text.replace("Normal", "Not synchronised")).unwrap();
        assert_eq!((lost.is_synchronized, lost.error_s), (Some(false), None));
        assert_eq!(tracking("506 Cannot talk to daemon\n"), None);
    }
}
