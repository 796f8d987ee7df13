//! TCP congestion control during a run: chosen, and restored. bbr paces its sender and multiplies
//! the cost of large files over loopback; results under it cannot be compared.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Preferred congestion controls, best first: cubic is Linux's default; reno always exists, also in
/// a fresh network namespace, where cubic is refused.
pub const PREFERRED: [&str; 2] = ["cubic", "reno"];

const SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Holds the choice; dropping it restores the former one. A signal that ends the process at once
/// does not.
#[derive(Debug)]
pub struct Congestion {
    setting: PathBuf,
    used: String,
    before: Option<String>,
}

impl Congestion {
    /// Sets the first of `wanted` that the kernel accepts. If it accepts none, the present one
    /// stays; `used` returns it. An error means that the setting cannot be read.
    pub fn choose(wanted: &[&str]) -> io::Result<Congestion> {
        Congestion::choose_in(Path::new(SETTING), wanted)
    }

    fn choose_in(setting: &Path, wanted: &[&str]) -> io::Result<Congestion> {
        let now = || Ok::<_, io::Error>(fs::read_to_string(setting)?.trim().to_owned());
        let before = now()?;
        let setting = setting.to_owned();
        for name in wanted {
            if before == *name {
                break;
            }
            // Read back: the kernel does not always use what it accepts.
            if fs::write(&setting, name).is_ok() && now()? == *name {
                return Ok(Congestion { setting, used: (*name).to_owned(), before: Some(before) });
            }
        }
        Ok(Congestion { setting, used: before, before: None })
    }

    /// Congestion control of new connections.
    pub fn used(&self) -> &str {
        &self.used
    }

    /// Congestion control that will be restored; `None` if nothing was changed.
    pub fn before(&self) -> Option<&str> {
        self.before.as_deref()
    }
}

impl Drop for Congestion {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A process that could set it can restore it; a failure could not be reported here.
            let _ = fs::write(&self.setting, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in place of the setting; it accepts any name.
    fn setting(name: &str, value: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("congestion-{}-{name}", std::process::id()));
        fs::write(&path, value).unwrap();
        path
    }

    #[test]
    fn the_previous_setting_is_restored() {
        let rows = [
            ("bbr\n", &["cubic", "reno"][..], "cubic", Some("bbr"), "changed for the run"),
            ("cubic\n", &["cubic", "reno"][..], "cubic", None, "right already"),
            ("reno\n", &[][..], "reno", None, "nothing wanted"),
        ];
        for (at, (was, wanted, used, before, sentence)) in rows.into_iter().enumerate() {
            let path = setting(&at.to_string(), was);
            let held = Congestion::choose_in(&path, wanted).unwrap();
            assert_eq!((held.used(), held.before()), (used, before), "{sentence}");
            assert_eq!(fs::read_to_string(&path).unwrap().trim(), used, "{sentence}");
            drop(held);
            let after = fs::read_to_string(&path).unwrap();
            assert_eq!(after.trim(), was.trim(), "{sentence}: put back");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn without_the_setting_it_fails() {
        assert!(Congestion::choose_in(Path::new("/nowhere/at/all"), &PREFERRED).is_err());
    }
}
