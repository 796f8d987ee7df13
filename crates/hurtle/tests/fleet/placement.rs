//! Which server answers which path, and what moves when a server dies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::balancer::{Balancer, Kind};
use crate::child::eventually;
use crate::servers::{FILES, SERVERS, Servers, example, path_of, replace, served_by};
use crate::support::Client;

/// Fewest paths of a server: a fair share is 50 of 201.
const SHARE_MIN: usize = 15;

/// Most paths of other servers that a death moves. Envoy fills its Maglev table anew.
fn moved_max(kind: Kind) -> usize {
    match kind {
        Kind::HaProxy => 0,
        Kind::Envoy => FILES / 20,
    }
}

#[test]
fn each_path_has_one_server_and_moves_only_if_that_dies() {
    for kind in [Kind::HaProxy, Kind::Envoy] {
        let mut servers = Servers::start("0s");
        let Some(balancer) = Balancer::start(kind, &servers) else { continue };
        // One connection: on a second one a request may overtake the end of the last request of the
        // first, which counts as in flight and moves it (`hash-balance-factor`).
        let mut client = servers.connect();
        let mut place = || place(&mut client);
        let placement = place();
        for (index, count) in counts(&placement) {
            assert!(count >= SHARE_MIN, "{kind:?}: {count} of {FILES} paths at {index}");
        }
        assert_eq!(place(), placement, "{kind:?}: requests do not wander");
        expect_clients(&servers, 2 * FILES);

        let dead = servers.name(1);
        servers.processes[1].as_ref().unwrap().signal(Signal::KILL);
        // Requests succeed, also before the balancer knows.
        place();
        let health = balancer.expect(&servers, 1, false);
        println!("{kind:?}: the killed server is down: {}", health.detail);
        let without = place();
        assert!(!without.contains(&dead), "{kind:?}: nothing goes to the dead server");
        let kept = placement.iter().zip(&without).filter(|(before, _)| **before != dead);
        let moved = kept.filter(|(before, after)| before != after).count();
        println!("{kind:?}: {moved} paths of the living servers have moved");
        assert!(moved <= moved_max(kind), "{kind:?}: {moved} moved");
        let heirs = without.iter().zip(&placement).filter(|(_, before)| **before == dead);
        let heirs: Vec<String> = heirs.map(|(after, _)| after.clone()).collect();
        assert_eq!(counts(&heirs).len(), SERVERS - 1, "{kind:?}: all others share its paths");

        servers.processes[1] = None;
        servers.start_one(1);
        balancer.expect(&servers, 1, true);
        let reborn = servers.name(1);
        let back: Vec<String> = placement
            .iter()
            .map(|name| if *name == dead { reborn.clone() } else { name.clone() })
            .collect();
        // Envoy's threads learn of it one after another.
        eventually("its paths are its own again", || place() == back);
    }
}

#[test]
fn the_servers_example_is_valid_also_with_its_origin() {
    let text = example("hurtle.toml");
    let mut with_origin = text.clone();
    for key in ["[[site.mount]]", "path = ", "proxy = ", "cache = "] {
        replace(&mut with_origin, &format!("\n# {key}"), &format!("\n{key}"), 1);
    }
    for text in [text, with_origin] {
        let checked = hurtle::config::check(&text, Path::new("hurtle.toml"));
        assert!(checked.is_ok(), "{checked:?}\n{text}");
    }
}

/// Requests every file, half of them with a query; returns their servers.
#[track_caller]
fn place(client: &mut Client) -> Vec<String> {
    let of = |number: usize| {
        let query = if number.is_multiple_of(2) { "" } else { "?version=2" };
        let response = client.request("GET", &format!("{}{query}", path_of(number)));
        assert_eq!((response.status, response.text()), (200, &*number.to_string()));
        served_by(&response).to_owned()
    };
    (0..FILES).map(of).collect()
}

/// The number of paths of each server.
fn counts(placement: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for server in placement {
        *counts.entry(server.as_str()).or_default() += 1;
    }
    counts
}

/// Waits until the access logs have this many lines; all are of the client's address.
#[track_caller]
fn expect_clients(servers: &Servers, lines: usize) {
    let mut logged = Vec::new();
    eventually("all requests are in the access logs", || {
        let logs = (0..SERVERS).map(|index| fs::read_to_string(servers.log_of(index)).unwrap());
        logged = logs.flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        logged.len() >= lines
    });
    assert_eq!(logged.len(), lines, "checks of the balancer are not in the access log");
    let client = servers.client().to_string();
    for line in logged {
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["client"], *client, "{line}");
    }
}
