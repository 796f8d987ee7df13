//! Orders and renewals that fail.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::pebble::{Net, PebbleOptions};
use crate::scripted;
use crate::subscriber::{Setup, authority};

#[test]
fn without_a_certificate_handshakes_fail_and_the_log_has_the_next_attempt() {
    let Some(net) = Net::new() else { return };
    let mut server = Setup::new(&net).start(&net, 0);
    server.eventually_says("a.test: no certificate was issued; handshakes for it are refused");
    server.eventually_says("The next attempt is at ");
    let refusal = server.refusal("a.test");
    assert!(refusal.contains("InternalError"), "{refusal}");
    server.child.signal(Signal::TERM);
    assert!(server.child.wait().success());
    let server = Setup::new(&net).start(&net, 0);
    server.eventually_says("a.test: no certificate yet; the next attempt is at ");
    assert!(!server.child.stderr().contains("ordering"), "a restart makes no attempt");
    assert_eq!(server.record("a.test")["trials"][net.directory(0)]["attempts"], 1);
}

#[test]
fn an_order_is_resumed_after_a_crash() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let mut server = Setup::new(&net).start(&net, 0);
    server.eventually("it has ordered", || server.record("a.test")["order"].is_object());
    server.child.signal(Signal::KILL);
    server.child.wait();
    server.forgive("a.test");
    let server = Setup::new(&net).start(&net, 0);
    server.served("a.test", &pebble.roots());
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn a_failed_renewal_keeps_the_previous_certificate() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let mut server = Setup::new(&net).start(&net, 0);
    let before = server.served("a.test", &pebble.roots());
    server.child.signal(Signal::TERM);
    server.child.wait();
    let hosts = &["a.test", "blocked.example"];
    let server = Setup { hosts, ..Setup::new(&net) }.start(&net, 0);
    server.eventually_says("the previous one stays in use, valid until ");
    server.eventually_says("blocked.example");
    assert_eq!(server.served("a.test", &pebble.roots()), before);
}

#[test]
fn an_account_that_the_authority_lost_is_created_again() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let mut server = Setup::new(&net).start(&net, 0);
    server.served("a.test", &pebble.roots());
    server.child.signal(Signal::TERM);
    server.child.wait();
    // A new authority at the same address, without accounts.
    drop(pebble);
    let pebble = net.pebble(0, &PebbleOptions::default());
    let hosts = &["a.test", "b.test"];
    let server = Setup { hosts, ..Setup::new(&net) }.start(&net, 0);
    server.served("b.test", &pebble.roots());
}

#[test]
fn retry_after_delays_the_next_attempt() {
    let Some(net) = Net::new() else { return };
    scripted::refuse_all(&net, 0, "429 Too Many Requests", 3 * 60 * 60);
    let server = Setup { authorities: vec![authority(&net, 0)], ..Setup::new(&net) };
    let server = server.start(&net, 0);
    server.eventually_says("a.test: no certificate was issued");
    let log = server.child.stderr();
    assert!(log.contains("too many of this, come back later"), "{log}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let next = server.record("a.test")["trials"][net.directory(0)]["next"].as_u64().unwrap();
    assert!(next > now + 2 * 60 * 60, "{} s", next - now);
}

/// Regression: a time that was written before the clock was set back delayed orders until then.
#[test]
fn a_clock_that_was_set_back_delays_nothing() {
    let Some(net) = Net::new() else { return };
    let mut server = Setup::new(&net).start(&net, 0);
    server.eventually_says("The next attempt is at ");
    server.child.signal(Signal::TERM);
    assert!(server.child.wait().success());
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let later = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + year;
    server.set_next("a.test", later.as_secs());
    let pebble = net.pebble(0, &PebbleOptions::default());
    let server = Setup::new(&net).start(&net, 0);
    server.served("a.test", &pebble.roots());
}
