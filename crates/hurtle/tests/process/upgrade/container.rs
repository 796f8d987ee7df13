//! Upgrades of a server that is process 1 of a PID namespace, as in a container.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};

use super::{SITE, Upgraded, said};
use crate::child::{eventually, hurtle};

const SKIPPED: &str = "skipped: unshare may not make PID namespaces here";

/// A server that is process 1; `None`: the system refuses PID namespaces.
fn start(config: &str) -> Option<Container> {
    let may = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        return None;
    }
    let server = Upgraded::with(config, |command| {
        let program = command.get_program().to_owned();
        *command = Command::new("unshare");
        // The namespace ends with unshare.
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(program);
        for (name, _) in hurtle().get_envs() {
            command.env_remove(name);
        }
    });
    let first = children(server.child.id());
    Some(Container { server, first: first[0] })
}

struct Container {
    server: Upgraded,
    /// Process 1, as it is seen from outside.
    first: Pid,
}

/// The processes that a process has started, and those that it has adopted, from the oldest to the
/// newest.
fn children(id: u32) -> Vec<Pid> {
    // A thread may end between the two calls.
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let ids: String = tasks.filter_map(of).collect();
    let mut ids: Vec<i32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids.into_iter().filter_map(Pid::from_raw).collect()
}

impl Container {
    /// The servers, from the oldest to the newest.
    fn servers(&self) -> Vec<Pid> {
        let is_running = |id: &Pid| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
            stat.is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
        };
        children(self.first.as_raw_nonzero().get().cast_unsigned())
            .into_iter()
            .filter(is_running)
            .collect()
    }

    #[track_caller]
    fn upgrade(&self) {
        let output = self.server.command("upgrade").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }

    /// Waits until this many servers run; returns the newest.
    #[track_caller]
    fn settle(&self, count: usize) -> Pid {
        eventually("the servers have started and ended", || self.servers().len() == count);
        *self.servers().last().unwrap()
    }
}

#[test]
fn process_1_stays_while_servers_replace_each_other() {
    let Some(mut container) = start(SITE) else {
        println!("{SKIPPED}");
        return;
    };
    let before = container.settle(1);
    container.server.expect_service();
    for _ in 0..3 {
        container.upgrade();
        container.server.expect_service();
    }
    let now = container.settle(1);
    assert_ne!(now, before);
    container.server.install_script("exit 3");
    let output = container.server.command("upgrade").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("exit status: 3"), "{}", said(&output));
    assert_eq!(container.settle(1), now, "the one before serves on");
    container.server.expect_service();
    container.server.install_hurtle();
    // A signal to process 1, as of `docker kill --signal`.
    kill_process(container.first, Signal::USR2).unwrap();
    eventually("another one serves", || container.servers().last() != Some(&now));
    container.settle(1);
    container.server.expect_service();
    kill_process(container.first, Signal::TERM).unwrap();
    let status = container.server.child.wait_for_process();
    assert_eq!(status.code(), Some(0), "{}", container.server.child.stderr());
}

#[test]
fn the_container_ends_with_the_server_that_serves() {
    let Some(mut container) = start(&format!("drain = '60s'\n{SITE}")) else {
        println!("{SKIPPED}");
        return;
    };
    // It keeps the process before in its drain.
    let mut client = container.server.child.connect();
    client.send("GET /a.txt HTTP/1.1\r\n");
    container.upgrade();
    let serving = container.settle(2);
    kill_process(serving, Signal::KILL).unwrap();
    let status = container.server.child.wait_for_process();
    assert_eq!(status.code(), Some(128 + 9), "{}", container.server.child.stderr());
}

#[test]
fn a_changed_setting_that_needs_a_start_is_in_force_in_a_container() {
    let Some(container) = start(SITE) else {
        println!("{SKIPPED}");
        return;
    };
    let before = container.settle(1);
    let file = container.server.dir.path("../hurtle.toml");
    change(&file, "workers = 1", "workers = 2");
    kill_process(container.first, Signal::HUP).unwrap();
    eventually("another process has started", || container.servers().last() != Some(&before));
    let after = container.settle(1);
    let tasks = fs::read_dir(format!("/proc/{}/task", after.as_raw_nonzero())).unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    assert_eq!(names.filter(|name| name.starts_with("worker-")).count(), 2);
    container.server.expect_service();
}

#[test]
fn orphans_are_reaped() {
    if !geteuid().is_root() {
        println!("skipped: it takes root to enter a namespace");
        return;
    }
    let Some(container) = start(SITE) else {
        println!("{SKIPPED}");
        return;
    };
    // Its child is adopted by process 1 when the shell has ended.
    let id = container.first.as_raw_nonzero().to_string();
    let orphan = "sh -c 'sleep 0.2; echo done > $0' \"$0\" &";
    let file = container.server.dir.path("../orphan");
    let entered = Command::new("nsenter")
        .args(["--target", &id, "--pid", "--mount", "sh", "-c", orphan])
        .arg(&file)
        .status();
    if !entered.is_ok_and(|status| status.success()) {
        println!("skipped: nsenter may not enter the namespace");
        return;
    }
    eventually("the orphan has ended", || file.exists());
    let server = container.settle(1);
    eventually("it is reaped", || {
        children(container.first.as_raw_nonzero().get().cast_unsigned()) == [server]
    });
    assert!(test_kill_process(server).is_ok());
}

fn change(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from));
    fs::write(file, text.replace(from, to)).unwrap();
}
