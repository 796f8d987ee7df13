//! Hardware counters, if perf can read them here.

use std::process::Command;

/// Checks that perf counts instructions and cycles.
///
/// # Errors
/// The reason for which it cannot.
pub fn counters() -> Result<(), String> {
    let tried = Command::new("perf")
        .args(["stat", "-x", ",", "-e", "instructions,cycles", "true"])
        .output();
    let output =
        tried.map_err(|_| "perf is not installed: apt-get install linux-perf".to_owned())?;
    counted(&String::from_utf8_lossy(&output.stderr))
}

fn counted(text: &str) -> Result<(), String> {
    if text.contains("<not supported>") {
        return Err("this machine has no hardware counters, as most virtual ones".to_owned());
    }
    let counts = |name: &str| {
        let mut lines = text.lines().filter(|line| line.contains(name));
        lines.any(|line| line.split(',').next().is_some_and(|n| n.trim().parse::<u64>().is_ok()))
    };
    match counts("instructions") && counts("cycles") {
        true => Ok(()),
        false => Err("perf may not count here: run it as root".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_counters_is_told() {
        let rows = [
            ("1096,,instructions:u,77,100.00,,\n80,,cycles:u,77,100.00,,\n", "", "both"),
            (
                "<not supported>,,instructions,0,100.00,,\n",
                "no hardware counters",
                "a virtual machine",
            ),
            ("<not counted>,,instructions,0,0.00,,\n", "may not count", "another has them"),
            ("Error:\nAccess is limited\n", "may not count", "not root"),
        ];
        for (text, reason, why) in rows {
            assert!(counted(text).err().unwrap_or_default().contains(reason), "{why}");
            assert_eq!(counted(text).is_ok(), reason.is_empty(), "{why}");
        }
    }
}
