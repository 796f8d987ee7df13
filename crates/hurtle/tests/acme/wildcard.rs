//! Certificates for wildcard names: records that a hook writes, in the sandbox, and hooks that
//! fail.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::child::Killed;
use crate::pebble::{Net, PebbleOptions};
use crate::subscriber::{Setup, Subscriber};
use crate::zone::{self, KEEPS_RECORDS, Zone};

/// Lines of `[acme]` for a hook.
fn keys(net: &Net, zone: &Zone, commands: &str, timeout: &str) -> String {
    let (hook, resolver) = (zone.hook(net, commands), net.at(zone::PORT));
    format!("dns_hook = {hook:?}\ndns_timeout = {timeout:?}\ndns_resolvers = \"{resolver}\"\n")
}

/// An authority that asks the tests' server.
fn options() -> PebbleOptions {
    PebbleOptions { dns_port: Some(zone::PORT), ..PebbleOptions::default() }
}

/// The process of the server that runs its hook.
fn helper(server: &Subscriber) -> Pid {
    let id = server.child.id();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |id_of: &i32| {
        let read = |file| fs::read_to_string(format!("/proc/{id_of}/{file}")).unwrap_or_default();
        read("status").contains(&format!("PPid:\t{id}\n"))
            && read("cmdline").contains("run-dns-hook")
    };
    ids.into_iter().find(is_it).and_then(Pid::from_raw).unwrap()
}

#[test]
fn a_wildcard_and_its_domain_are_validated_by_records_of_a_hook() {
    let Some(net) = Net::new() else { return };
    let zone = Zone::start(&net, 2);
    let pebble = net.pebble(0, &options());
    let commands = format!("id -u >> $DIR/ids\nenv >> $DIR/env\n{KEEPS_RECORDS}");
    let acme = keys(&net, &zone, &commands, "1m");
    let server = Setup { hosts: &["*.a.test", "a.test"], acme, ..Setup::new(&net) };
    let server = server.start(&net, 0);
    let shown = server.served("b.a.test", &pebble.roots());
    assert_eq!(shown, server.served("a.test", &pebble.roots()), "one for both");
    assert_eq!(pebble.orders(), 1, "the authority was asked once");
    assert_eq!(zone.values_max(), 2, "both records are there at once");
    server.eventually("the records are removed", || zone.left().is_empty());
    assert!(server.storage.join("_.a.test.pem").exists(), "its name needs no quotes");
    let log = server.child.stderr();
    // The server is in the sandbox, if the system has one.
    assert!(log.contains("starts no program") || log.contains("no sandbox: the kernel"), "{log}");
    assert!(!zone.read("env").contains("CARGO"), "{}", zone.read("env"));
    if geteuid().is_root() {
        let user = nix::unistd::User::from_name("nobody").unwrap().unwrap().uid.to_string();
        assert!(zone.read("ids").lines().all(|id| id == user), "{}", zone.read("ids"));
    }
}

#[test]
fn a_certificate_of_records_is_renewed_by_records() {
    let Some(net) = Net::new() else { return };
    let zone = Zone::start(&net, 0);
    let pebble = net.pebble(0, &options());
    let acme = keys(&net, &zone, &format!("echo $1 >> $DIR/calls\n{KEEPS_RECORDS}"), "1m");
    let setup = Setup { hosts: &["*.a.test"], acme, ..Setup::new(&net) };
    let mut server = setup.start(&net, 0);
    let before = server.served("b.a.test", &pebble.roots());
    let pem = fs::read_to_string(server.storage.join("_.a.test.pem")).unwrap();
    pebble.advise_renewal(&pem);
    server.child.signal(Signal::TERM);
    server.child.wait();
    let server = setup.start(&net, 0);
    server.eventually("another", || server.served("b.a.test", &pebble.roots()) != before);
    assert!(zone.read("calls").starts_with("present\ncleanup\n"), "{}", zone.read("calls"));
    server.eventually("the records are removed", || zone.left().is_empty());
}

#[test]
fn hooks_that_fail_are_told_in_the_log_and_ended() {
    let says = "echo \"no access to $2 with $3\" >&2\nexit 7\n";
    let hangs = "[ $1 = cleanup ] && exit\necho $$ > $DIR/id\nwhile :; do sleep 1; done\n";
    let much = "head -c 8000000 /dev/zero\nhead -c 8000000 /dev/zero | tr '\\0' y >&2\nexit 1\n";
    let table = [
        (
            says,
            "2m",
            "hook present: exit status: 7: no access to _acme-challenge.a.test. with VALUE",
        ),
        (hangs, "1s", "hook present: not done after 1s; its processes were ended"),
        (much, "2m", "hook present: exit status: 1: yyyy"),
    ];
    for (commands, timeout, expected) in table {
        let Some(net) = Net::new() else { return };
        let zone = Zone::start(&net, 0);
        let _pebble = net.pebble(0, &options());
        let acme = keys(&net, &zone, &format!("echo $1 >> $DIR/calls\n{commands}"), timeout);
        let server = Setup { acme, ..Setup::new(&net) }.start(&net, 0);
        server.eventually_says("a.test: no certificate was issued");
        let log = server.child.stderr();
        assert!(log.contains(expected), "{expected}: {log}");
        assert!(log.lines().all(|line| line.len() < 2_000), "{}", log.len());
        // A busy machine may not get to the hook within a second.
        let is_called = zone.read("calls") == "present\ncleanup\n";
        assert!(is_called || timeout == "1s", "{}: {log}", zone.read("calls"));
        let hanging = zone.read("id");
        assert!(
            hanging.is_empty() || !Path::new("/proc").join(hanging.trim()).exists(),
            "{hanging}"
        );
        assert_serves(&server);
    }
}

#[test]
fn a_record_that_the_servers_do_not_get_is_no_reason_to_ask_the_authority() {
    let Some(net) = Net::new() else { return };
    let zone = Zone::start(&net, 0);
    let pebble = net.pebble(0, &options());
    let acme = keys(&net, &zone, "exit 0\n", "1s");
    let server = Setup { acme, ..Setup::new(&net) }.start(&net, 0);
    server.eventually_says("a.test: no certificate was issued");
    let expected = format!(
        "_acme-challenge.a.test.: the DNS server {} has no such record after 1 s",
        net.at(zone::PORT)
    );
    server.eventually_says(&expected);
    assert!(!pebble.child.stdout().contains("validation"), "{}", pebble.child.stdout());
}

#[test]
fn the_server_goes_on_without_the_process_that_runs_hooks() {
    let Some(net) = Net::new() else { return };
    let zone = Zone::start(&net, 0);
    let _pebble = net.pebble(0, &options());
    // The hook ends with the test's directory.
    let hangs = "echo > $DIR/begun\nwhile [ -e $DIR ]; do sleep 0.2; done\n";
    let server = Setup { acme: keys(&net, &zone, hangs, "2m"), ..Setup::new(&net) }.start(&net, 0);
    server.eventually("the hook runs", || !zone.read("begun").is_empty());
    kill_process(helper(&server), Signal::KILL).unwrap();
    server.eventually_says("the process that runs dns_hook does not answer");
    assert_serves(&server);
}

#[test]
fn records_are_removed_when_the_server_is_killed() {
    let Some(net) = Net::new() else { return };
    // The zone never answers with a record.
    let zone = Zone::start(&net, usize::MAX);
    let _pebble = net.pebble(0, &options());
    let acme = keys(&net, &zone, KEEPS_RECORDS, "10m");
    let mut server = Setup { acme, ..Setup::new(&net) }.start(&net, 0);
    server.eventually("the record is written", || !zone.left().is_empty());
    server.child.signal(Signal::KILL);
    server.child.wait();
    server.eventually("the record is removed", || zone.left().is_empty());
}

#[test]
fn a_reload_that_adds_a_hook_starts_another_process() {
    let Some(net) = Net::new() else { return };
    let zone = Zone::start(&net, 0);
    let pebble = net.pebble(0, &options());
    let before = Setup {
        authorities: vec!["directory = \"https://127.0.0.1:1/\"".to_owned()],
        ..Setup::new(&net)
    };
    let server = before.start(&net, 0);
    let hosts = &["*.a.test"];
    let acme = keys(&net, &zone, KEEPS_RECORDS, "1m");
    Setup { hosts, acme, ..Setup::new(&net) }.write(&net, 0);
    server.child.signal(Signal::HUP);
    server.eventually_says("a new process puts acme.dns_hook in force");
    server.eventually_says(" serves, process ");
    let log = server.child.stderr();
    let id = log.split_once("upgraded: process ").unwrap().1.split_once(' ').unwrap().0;
    let _new = Killed(Pid::from_raw(id.parse().unwrap()).unwrap());
    server.served("b.a.test", &pebble.roots());
}

/// The server answers in clear.
fn assert_serves(server: &Subscriber) {
    let mut socket = TcpStream::connect(server.clear).unwrap();
    socket.write_all(b"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
}
