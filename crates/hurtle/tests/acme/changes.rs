//! Certificates after a change: of the authority, its profile, the account or its address, or of
//! the stored state.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::pebble::{EAB_KEY, Net, PebbleOptions};
use crate::subscriber::{Setup, Subscriber, authority};

/// Ends a server in order.
fn stop(mut server: Subscriber) {
    server.child.signal(Signal::TERM);
    assert!(server.child.wait().success());
}

fn accounts(server: &Subscriber) -> Vec<PathBuf> {
    let entries = fs::read_dir(&server.storage).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|is| is == "account")).collect()
}

#[test]
fn another_authority_issues_the_next_certificate_and_the_present_one_stays_in_use() {
    let Some(net) = Net::new() else { return };
    let first = net.pebble(0, &PebbleOptions::default());
    let server = Setup::new(&net).start(&net, 0);
    let before = server.served("a.test", &first.roots());
    stop(server);
    let other = net.pebble(1, &PebbleOptions::default());
    let changed = || Setup { authorities: vec![authority(&net, 1)], ..Setup::new(&net) };
    let server = changed().start(&net, 0);
    assert_eq!(server.served("a.test", &first.roots()), before);
    assert_eq!(other.orders(), 0, "it is not renewed before its time");
    stop(server);
    let server = Setup { hosts: &["a.test", "b.test"], ..changed() }.start(&net, 0);
    server.served("b.test", &other.roots());
    assert_eq!((first.orders(), other.orders()), (1, 1));
}

#[test]
fn a_profile_decides_about_the_certificate_and_an_unknown_one_is_named() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let with = |profile: &str| {
        let lines = format!("{}\nprofile = {profile:?}", authority(&net, 0));
        Setup { authorities: vec![lines], ..Setup::new(&net) }
    };
    let server = with("no-such-profile").start(&net, 0);
    server.eventually_says("the authority has no profile \"no-such-profile\", but ");
    server.eventually_says("shortlived");
    assert_eq!(pebble.orders(), 0);
    server.forgive("a.test");
    stop(server);
    let server = with("shortlived").start(&net, 0);
    let der = server.served("a.test", &pebble.roots());
    let [from, until] = validity(&der);
    assert!((5..=6).contains(&(until - from)), "{from} to {until}");
}

/// Days of the validity period, which a certificate has as two UTCTime (RFC 5280 section
/// 4.1.2.5.1).
fn validity(der: &[u8]) -> [i64; 2] {
    let at = der.windows(2).position(|tag| tag == [0x17, 13]).unwrap();
    [at + 2, at + 17].map(|at| {
        let number = |from: usize| -> i64 {
            std::str::from_utf8(&der[at + from..at + from + 2]).unwrap().parse().unwrap()
        };
        // March begins the year, so that the leap day is its last.
        let (year, month) = (2000 + number(0), number(2));
        let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + number(4)
    })
}

#[test]
fn a_changed_address_is_told_to_the_authority_once() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let server = Setup::new(&net).start(&net, 0);
    server.served("a.test", &pebble.roots());
    stop(server);
    let moved = |hosts| Setup { email: "other@a.test", hosts, ..Setup::new(&net) };
    let server = moved(&["a.test", "b.test"]).start(&net, 0);
    server.served("b.test", &pebble.roots());
    let told = "the account's address is other@a.test now";
    server.eventually_says(told);
    stop(server);
    let server = moved(&["a.test", "c.test"]).start(&net, 0);
    server.served("c.test", &pebble.roots());
    assert!(!server.child.stderr().contains(told), "{}", server.child.stderr());
    assert_eq!(accounts(&server).len(), 1);
}

#[test]
fn another_external_account_is_used_for_the_next_order() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions { binding: true, ..PebbleOptions::default() });
    fs::write(net.dir.path("../eab.key"), format!("{EAB_KEY}\n")).unwrap();
    let steps: [(&str, &'static [&'static str], bool); 4] = [
        ("kid-1", &["a.test"], true),
        ("kid-1", &["b.test"], false),
        ("kid-2", &["c.test"], true),
        ("kid-2", &["d.test"], false),
    ];
    let bound = |id: &str, hosts: &'static [&'static str]| {
        let authority = authority(&net, 0);
        let lines = format!("{authority}\neab_id = {id:?}\neab_key = \"eab.key\"");
        Setup { authorities: vec![lines], hosts, ..Setup::new(&net) }
    };
    let stored = |server: &Subscriber| -> serde_json::Value {
        serde_json::from_slice(&fs::read(&accounts(server)[0]).unwrap()).unwrap()
    };
    let mut before = serde_json::Value::Null;
    for (id, hosts, is_new) in steps {
        let server = bound(id, hosts).start(&net, 0);
        server.served(hosts[0], &pebble.roots());
        let now = stored(&server);
        assert_eq!(now["binding"], id, "{hosts:?}");
        assert_eq!(now["id"] != before["id"], is_new, "{hosts:?}: {now}");
        before = now;
        stop(server);
    }
}

#[test]
fn damaged_state_is_named_and_made_anew() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let server = Setup::new(&net).start(&net, 0);
    let before = server.served("a.test", &pebble.roots());
    let (account, record) = (accounts(&server).remove(0), server.storage.join("a.test.json"));
    stop(server);
    let key_at_fault = {
        let text = fs::read_to_string(&account).unwrap();
        let mut stored: serde_json::Value = serde_json::from_str(&text).unwrap();
        stored["key_pkcs8"] = "AAAA".into();
        stored.to_string()
    };
    let hosts = [&["a.test", "b.test"][..], &["a.test", "c.test"], &["a.test", "d.test"]];
    for (damaged, hosts) in ["", "{\"id\":", &key_at_fault].into_iter().zip(hosts) {
        // Overwritten, not replaced, so that the server's user stays its owner.
        fs::write(&account, damaged).unwrap();
        fs::write(&record, damaged).unwrap();
        let server = Setup { hosts, ..Setup::new(&net) }.start(&net, 0);
        assert_ne!(server.served(hosts[1], &pebble.roots()), before, "{damaged:?}");
        let log = server.child.stderr();
        assert!(log.contains(&account.display().to_string()), "{damaged:?}: {log}");
        stop(server);
    }
}
