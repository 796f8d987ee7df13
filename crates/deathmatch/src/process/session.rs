//! Processes that belong to a session: its members, and processes they started outside it.

use std::collections::BTreeSet;
use std::fs;

/// One process, from /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    session: u32,
    /// It has ended, and its parent has not waited for it.
    is_zombie: bool,
}

/// The living processes of the session that this process leads or is about to lead, and their
/// descendants, in ascending order.
pub fn pids(leader: u32) -> Vec<u32> {
    belonging(leader, &all())
}

fn belonging(leader: u32, all: &[Process]) -> Vec<u32> {
    let is_member = |p: &&Process| p.session == leader || p.pid == leader;
    let mut found: BTreeSet<u32> = all.iter().filter(is_member).map(|p| p.pid).collect();
    // Each turn adds a generation, so there are at most as many turns as processes.
    for _ in 0..all.len() {
        let before = found.len();
        let children = all.iter().filter(|p| found.contains(&p.parent)).map(|p| p.pid);
        let children: Vec<u32> = children.collect();
        found.extend(children);
        if found.len() == before {
            break;
        }
    }
    let is_alive = |p: &&Process| !p.is_zombie && found.contains(&p.pid);
    let mut alive: Vec<u32> = all.iter().filter(is_alive).map(|p| p.pid).collect();
    alive.sort_unstable();
    alive
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| parse(&fs::read(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// `PID (NAME) STATE PARENT GROUP SESSION ...`; the name may hold spaces and brackets, so the last
/// bracket ends it (proc_pid_stat(5)).
fn parse(stat: &[u8]) -> Option<Process> {
    let text = String::from_utf8_lossy(stat);
    let (front, back) = text.rsplit_once(')')?;
    let pid = front.split(' ').next()?.parse().ok()?;
    let mut fields = back.split_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, session, is_zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let expected =
            |pid, parent, session, is_zombie| Some(Process { pid, parent, session, is_zombie });
        let rows: &[(&str, &str, Option<Process>)] = &[
            ("plain", "12 (nginx) S 3 12 12 0 -1", expected(12, 3, 12, false)),
            ("a bracket in the name", "12 (a) R (b) S 3 12 9 0", expected(12, 3, 9, false)),
            ("ended", "12 (sh) Z 3 12 9 0", expected(12, 3, 9, true)),
            ("cut short", "12 (sh) S 3", None),
            ("nothing", "", None),
        ];
        for (sentence, line, expected) in rows {
            assert_eq!(parse(line.as_bytes()), *expected, "{sentence}");
        }
    }

    #[test]
    fn members_and_what_they_started_elsewhere_belong_together() {
        let process = |pid, parent, session| Process { pid, parent, session, is_zombie: false };
        let all = [
            process(10, 1, 10), // the leader
            process(11, 10, 10),
            process(12, 1, 10),  // its parent ended
            process(13, 11, 13), // left the session
            process(14, 13, 13),
            process(20, 1, 20), // a stranger
            Process { is_zombie: true, ..process(15, 10, 10) },
        ];
        assert_eq!(belonging(10, &all), [10, 11, 12, 13, 14]);
        assert_eq!(belonging(13, &all), [13, 14]);
        assert_eq!(belonging(99, &all), [0; 0]);
    }
}
