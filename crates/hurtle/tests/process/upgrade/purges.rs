//! Purges of another server while the responses that they remove are on their way to the new
//! process.

use std::fs;

use super::Upgraded;
use crate::child::eventually;
use crate::redis::{Redis, figure};
use crate::shared_purges::upstream;
use crate::support::Dir;

fn server(redis: &Redis) -> Upgraded {
    let config = format!(
        "store = '{}'\n[[site]]\n[[site.mount]]\nproxy = 'http://{}'\ncache = {{}}\n",
        redis.url(),
        upstream()
    );
    let server = Upgraded::of(Dir::new(&[]), &config, |_| {});
    eventually("it follows the purges", || {
        figure(&server.dir, "hurtle_store_purges_subscribed") == 1.0
    });
    server
}

/// Requests a path; returns whether it was stored.
fn is_stored(server: &Upgraded, path: &str) -> bool {
    let response = server.child.get(&format!("{path}\nHost: example.org"));
    response.field("Cache-Status").unwrap().starts_with("hurtle; hit")
}

fn purge(server: &Upgraded, url: &str) {
    let output = server.command("purge").arg(url).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_purge_during_an_upgrade_reaches_the_new_process() {
    let Some(redis) = Redis::start() else { return };
    let (mut upgraded, other) = (server(&redis), server(&redis));
    let paths = ["/a", "/b", "/c"];
    let stored = |server: &Upgraded| paths.map(|path| is_stored(server, path));
    stored(&upgraded);
    assert_eq!(stored(&upgraded), [true; 3]);
    purge(&other, "http://example.org/c");
    eventually("it is received", || {
        figure(&upgraded.dir, "hurtle_store_purges_received_total") == 1.0
    });

    let (command, _) = upgraded.begin_waiting();
    eventually("the responses are sent", || !upgraded.child.has_thread("cached"));
    purge(&other, "http://example.org/a");
    eventually("the process before has no such response", || !is_stored(&upgraded, "/a"));
    fs::write(upgraded.dir.path("../go"), "").unwrap();
    let output = command.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let messages = upgraded.child.stderr();
    assert!(messages.contains("received 2 cached responses"), "{messages}");

    eventually("the purge is repeated", || {
        figure(&upgraded.dir, "hurtle_store_purges_received_total") == 1.0
    });
    assert_eq!(stored(&upgraded), [false, true, false]);
    assert_eq!(figure(&upgraded.dir, "hurtle_store_purges_resets_total"), 0.0);
    // The new process goes on from there.
    purge(&other, "http://example.org/b");
    eventually("it is received", || {
        figure(&upgraded.dir, "hurtle_store_purges_received_total") == 2.0
    });
    assert_eq!(stored(&upgraded), [true, false, true]);
}
