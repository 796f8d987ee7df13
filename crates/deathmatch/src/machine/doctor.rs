//! The doctor: settings that would decide a result instead of the servers, with the value they
//! should have, the reason, and the command that changes them. It changes nothing itself.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

use super::fingerprint::Fingerprint;

/// Descriptors the generator and a server need for some thousand connections and as many files.
const OPEN_FILES_MIN: u64 = 16_384;
/// Connections that may wait to be accepted: sessions arrive in bursts while a server is busy.
const BACKLOG_MIN: u64 = 4_096;
/// Local ports: a closed connection keeps its port for 60 s (TIME_WAIT), on the side that closed
/// it.
const PORTS_MIN: u64 = 28_000;
/// Bytes of a socket's buffer: the deck's setting.
const BUFFER_MIN: u64 = 16_777_216;
/// One processor for the server, one for the generator.
const CPUS_MIN: u32 = 2;

/// A setting of the machine that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the setting.
    pub name: String,
    /// Present value of the setting.
    pub value: String,
    /// The value it should have.
    pub wanted: String,
    /// Effect of another value on measurements.
    pub why: String,
    /// The command that changes it; empty if there is none.
    pub command: String,
    /// `true` if it is as wanted.
    pub fine: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fine {
            return write!(to, "ok    {}: {}", self.name, self.value);
        }
        write!(to, "check {}: {}, wanted {}", self.name, self.value, self.wanted)?;
        write!(to, "\n      why: {}", self.why)?;
        if self.command.is_empty() { Ok(()) } else { write!(to, "\n      do:  {}", self.command) }
    }
}

/// Looks at this machine.
pub fn examine() -> Vec<Finding> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut names = names.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    let reclaims = names.any(|name| name.starts_with("kdamond"));
    check(&Fingerprint::take(), reclaims)
}

/// Judges a machine by its fingerprint, and by a running thread of DAMON.
pub fn check(machine: &Fingerprint, damon: bool) -> Vec<Finding> {
    vec![
        open_files(machine),
        at_least(
            machine,
            "net.core.somaxconn",
            BACKLOG_MIN,
            "listen(2) cuts a server's backlog to this; connections beyond it are dropped and come \
             back a second later, as latency",
        ),
        at_least(
            machine,
            "net.ipv4.tcp_max_syn_backlog",
            BACKLOG_MIN,
            "connections half open beyond this are answered with cookies or dropped",
        ),
        ports(machine),
        at_least(
            machine,
            "net.core.rmem_max",
            BUFFER_MIN,
            "the deck's value; what SO_RCVBUF asks for is cut to it",
        ),
        at_least(
            machine,
            "net.core.wmem_max",
            BUFFER_MIN,
            "the deck's value; what SO_SNDBUF asks for is cut to it",
        ),
        congestion(machine),
        cpus(machine),
        huge_pages(machine),
        reclaim(damon),
    ]
}

fn open_files(machine: &Fingerprint) -> Finding {
    let (soft, hard) = machine.open_files;
    let text = soft.map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    let may_raise = hard.is_none_or(|hard| hard >= OPEN_FILES_MIN);
    let command = if may_raise {
        format!("ulimit -n {OPEN_FILES_MIN}")
    } else {
        format!("sudo prlimit --pid $$ --nofile={OPEN_FILES_MIN}:{OPEN_FILES_MIN}")
    };
    Finding {
        name: "open descriptors (ulimit -n)".into(),
        value: text,
        wanted: format!("at least {OPEN_FILES_MIN}"),
        why: "a server that runs out of descriptors refuses connections, which looks like a slow \
              server"
            .into(),
        command,
        fine: soft.is_none_or(|soft| soft >= OPEN_FILES_MIN),
    }
}

fn at_least(machine: &Fingerprint, name: &str, least: u64, why: &str) -> Finding {
    let value = machine.sysctls.get(name);
    Finding {
        name: name.into(),
        value: shown(value),
        wanted: format!("at least {least}"),
        why: why.into(),
        command: format!("sudo sysctl -w {name}={least}"),
        fine: value.and_then(|value| value.parse().ok()).is_some_and(|now: u64| now >= least),
    }
}

fn ports(machine: &Fingerprint) -> Finding {
    const NAME: &str = "net.ipv4.ip_local_port_range";
    let value = machine.sysctls.get(NAME);
    let range = value.and_then(|value| {
        let (first, last) = value.split_once(' ')?;
        Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?))
    });
    let many = |(first, last): (u64, u64)| last.saturating_sub(first) + 1 >= PORTS_MIN;
    Finding {
        name: NAME.into(),
        value: shown(value),
        wanted: format!("at least {PORTS_MIN} ports"),
        why:
            "each new connection takes a port, and a closed one keeps its for 60 s; without a free \
              port connecting fails, which counts as the server's error"
                .into(),
        command: format!("sudo sysctl -w {NAME}=\"1024 65535\""),
        fine: range.is_some_and(many),
    }
}

fn congestion(machine: &Fingerprint) -> Finding {
    let now = machine.congestion_control.as_str();
    Finding {
        name: "congestion control".into(),
        value: if now.is_empty() { "unknown".into() } else { now.into() },
        wanted: "cubic, or reno".into(),
        why: "bbr paces what it sends: over loopback a large file then costs several times as much; a \
              run sets cubic or reno if permitted, and restores the setting"
            .into(),
        command: "sudo sysctl -w net.ipv4.tcp_congestion_control=cubic".into(),
        fine: super::congestion::PREFERRED.contains(&now),
    }
}

fn cpus(machine: &Fingerprint) -> Finding {
    Finding {
        name: "processors".into(),
        value: machine.cpus.to_string(),
        wanted: format!("at least {CPUS_MIN}"),
        why: "server and generator each need one of their own, or they measure each other".into(),
        command: String::new(),
        fine: machine.cpus >= CPUS_MIN,
    }
}

fn huge_pages(machine: &Fingerprint) -> Finding {
    let now = machine.huge_pages.as_deref();
    Finding {
        name: "transparent huge pages".into(),
        value: now.unwrap_or("not in this kernel").into(),
        wanted: "madvise or never".into(),
        why: "with `always` the kernel compacts memory behind some servers and not others: pauses, and \
              additional resident memory"
            .into(),
        command: "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled".into(),
        fine: now != Some("always"),
    }
}

fn reclaim(damon: bool) -> Finding {
    Finding {
        name: "DAMON".into(),
        value: if damon { "a thread runs" } else { "no thread runs" }.into(),
        wanted: "no thread".into(),
        why: "it may evict idle files from memory, so that one contender reads from the disk what \
              the next finds in memory: a run reads its files once before each sample"
            .into(),
        command: "echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/*/state".into(),
        fine: !damon,
    }
}

fn shown(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| "not readable".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Fingerprint {
        let sysctls = [
            ("net.core.somaxconn", "4096"),
            ("net.ipv4.tcp_max_syn_backlog", "8192"),
            ("net.ipv4.ip_local_port_range", "32768 60999"),
            ("net.core.rmem_max", "16777216"),
            ("net.core.wmem_max", "16777216"),
        ];
        Fingerprint {
            cpus: 2,
            congestion_control: "cubic".into(),
            sysctls: sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            open_files: (Some(20_000), None),
            huge_pages: Some("madvise".into()),
            ..Fingerprint::default()
        }
    }

    #[test]
    fn each_bad_setting_is_found_alone() {
        assert!(check(&good(), false).iter().all(|finding| finding.fine));
        let rows: [(&str, fn(&mut Fingerprint), &str); 9] = [
            ("open descriptors (ulimit -n)", |m| m.open_files = (Some(1_024), None), "few files"),
            (
                "net.core.somaxconn",
                |m| drop(m.sysctls.insert("net.core.somaxconn".into(), "128".into())),
                "a short backlog",
            ),
            (
                "net.ipv4.tcp_max_syn_backlog",
                |m| drop(m.sysctls.remove("net.ipv4.tcp_max_syn_backlog")),
                "what cannot be read is not fine",
            ),
            (
                "net.ipv4.ip_local_port_range",
                |m| drop(m.sysctls.insert("net.ipv4.ip_local_port_range".into(), "60000 1".into())),
                "a range the wrong way round",
            ),
            (
                "net.core.rmem_max",
                |m| drop(m.sysctls.insert("net.core.rmem_max".into(), "much".into())),
                "no number",
            ),
            (
                "net.core.wmem_max",
                |m| drop(m.sysctls.insert("net.core.wmem_max".into(), "212992".into())),
                "the kernel's default",
            ),
            ("congestion control", |m| m.congestion_control = "bbr".into(), "bbr"),
            ("processors", |m| m.cpus = 1, "one processor"),
            ("transparent huge pages", |m| m.huge_pages = Some("always".into()), "always"),
        ];
        for (name, spoil, sentence) in rows {
            let mut machine = good();
            spoil(&mut machine);
            let bad: Vec<_> = check(&machine, false).into_iter().filter(|f| !f.fine).collect();
            assert_eq!(bad.len(), 1, "{sentence}: {bad:?}");
            assert_eq!(bad[0].name, name, "{sentence}");
        }
    }

    #[test]
    fn a_finding_has_a_state_a_reason_and_a_remedy() {
        let findings = check(&Fingerprint { cpus: 1, ..good() }, true);
        let text = |name: &str| findings.iter().find(|f| f.name == name).unwrap().to_string();
        assert_eq!(text("net.core.somaxconn"), "ok    net.core.somaxconn: 4096");
        assert!(text("DAMON").contains("\n      do:  echo off"), "{}", text("DAMON"));
        assert!(!text("processors").contains("do:"), "no command adds a processor");
    }

    #[test]
    fn a_hard_limit_below_what_is_needed_needs_root() {
        let machine = Fingerprint { open_files: (Some(1_024), Some(4_096)), ..good() };
        assert!(check(&machine, false)[0].command.starts_with("sudo prlimit"));
    }

    #[test]
    fn this_machine_is_examined() {
        assert_eq!(examine().len(), check(&good(), false).len());
    }
}
