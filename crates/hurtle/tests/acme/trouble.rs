//! The bad days.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::pebble::{Manner, Net};
use crate::scripted;
use crate::subscriber::{Terms, authority};

#[test]
fn without_a_certificate_handshakes_are_refused_and_the_log_says_when_it_is_asked_for_again() {
    let Some(net) = Net::new() else { return };
    let mut server = Terms::new(&net).start(&net, 0);
    server.eventually_says("a.test: no certificate was issued; handshakes for it are refused");
    assert!(server.child.stderr().contains("The next attempt is at "));
    let refusal = server.refusal("a.test");
    assert!(refusal.contains("InternalError"), "{refusal}");
    server.child.signal(Signal::TERM);
    assert!(server.child.wait().success());
    let server = Terms::new(&net).start(&net, 0);
    server.eventually_says("a.test: no certificate yet; the next attempt is at ");
    assert!(!server.child.stderr().contains("asking"), "a restart is no further attempt");
    assert_eq!(server.record("a.test")["trials"][net.directory(0)]["attempts"], 1);
}

#[test]
fn an_order_that_a_crash_has_left_is_gone_on_with() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &Manner::default());
    let mut server = Terms::new(&net).start(&net, 0);
    server.eventually("it has ordered", || server.record("a.test")["order"].is_object());
    server.child.signal(Signal::KILL);
    server.child.wait();
    server.forgive("a.test");
    let server = Terms::new(&net).start(&net, 0);
    server.served("a.test", &pebble.roots());
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn a_renewal_that_fails_leaves_the_certificate_of_before() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &Manner::default());
    let mut server = Terms::new(&net).start(&net, 0);
    let before = server.served("a.test", &pebble.roots());
    server.child.signal(Signal::TERM);
    server.child.wait();
    let hosts = &["a.test", "blocked.example"];
    let server = Terms { hosts, ..Terms::new(&net) }.start(&net, 0);
    server.eventually_says("the one from before stays in use, valid until ");
    assert!(server.child.stderr().contains("blocked.example"), "{}", server.child.stderr());
    assert_eq!(server.served("a.test", &pebble.roots()), before);
}

#[test]
fn an_account_that_is_forgotten_is_made_anew() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &Manner::default());
    let mut server = Terms::new(&net).start(&net, 0);
    server.served("a.test", &pebble.roots());
    server.child.signal(Signal::TERM);
    server.child.wait();
    // Another one at its address, which knows nobody.
    drop(pebble);
    let pebble = net.pebble(0, &Manner::default());
    let hosts = &["a.test", "b.test"];
    let server = Terms { hosts, ..Terms::new(&net) }.start(&net, 0);
    server.served("b.test", &pebble.roots());
}

#[test]
fn an_authority_that_wants_to_be_left_alone_is() {
    let Some(net) = Net::new() else { return };
    scripted::refuse_all(&net, 0, "429 Too Many Requests", 3 * 60 * 60);
    let server = Terms { authorities: vec![authority(&net, 0)], ..Terms::new(&net) };
    let server = server.start(&net, 0);
    server.eventually_says("a.test: no certificate was issued");
    let log = server.child.stderr();
    assert!(log.contains("too many of this, come back later"), "{log}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let next = server.record("a.test")["trials"][net.directory(0)]["next"].as_u64().unwrap();
    assert!(next > now + 2 * 60 * 60, "{} s", next - now);
}
