//! Servers that share a real Redis: a purge of one reaches the others, also those that were away.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::redis::{Redis, figure};
use crate::support::Dir;

/// The stream of the purges.
const STREAM: &str = "hurtle:purges";

/// Longest purge while the store does not respond. Most of it is patience with a loaded machine.
const PURGE_MAX: Duration = Duration::from_secs(20);

/// A server with a cache.
struct Server {
    dir: Dir,
    child: Child,
    /// The part of the configuration beside the store.
    config: String,
}

/// An upstream whose responses may be cached for an hour.
pub(crate) fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for peer in listener.incoming() {
            let (mut peer, mut head, mut byte) = (peer.unwrap(), Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && peer.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let answer = "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: 2\r\n\
                          Connection: close\r\n\r\nok";
            let _ = peer.write_all(answer.as_bytes());
        }
    });
    address
}

impl Server {
    /// Starts a server, and waits until it follows the purges of others.
    #[track_caller]
    fn start(store: &str) -> Server {
        let server = Server::start_away(store);
        server.is_subscribed();
        server
    }

    fn start_away(store: &str) -> Server {
        Server::in_dir(Dir::new(&[]), store)
    }

    fn in_dir(dir: Dir, store: &str) -> Server {
        let config = format!(
            "admin = '{{root}}/../admin.sock'\n[[site]]\n[[site.rate_limit]]\nrequests = '9000/s'\n\
             [[site.mount]]\nproxy = 'http://{}'\ncache = {{}}\n",
            upstream()
        );
        let child = Child::configured(&dir, &format!("{store}{config}"));
        Server { dir, child, config }
    }

    /// Reloads with other keys of the store.
    #[track_caller]
    fn reload(&self, store: &str) {
        write_config(&self.dir, &format!("{store}{}", self.config));
        let mut command = hurtle();
        command.arg("reload").arg("--admin").arg(self.dir.path("../admin.sock"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[track_caller]
    fn is_subscribed(&self) {
        eventually("it follows the purges", || self.figure("subscribed") == 1.0);
    }

    fn figure(&self, name: &str) -> f64 {
        let suffix = if name == "subscribed" { "" } else { "_total" };
        figure(&self.dir, &format!("hurtle_store_purges_{name}{suffix}"))
    }

    /// Requests these paths; returns those that were stored.
    fn stored<'a>(&self, paths: &[&'a str]) -> Vec<&'a str> {
        let is_hit = |path: &&&str| {
            let response = self.child.get(&format!("{path}\nHost: example.org"));
            assert_eq!(response.text(), "ok", "{path}");
            response.field("Cache-Status").unwrap().starts_with("hurtle; hit")
        };
        paths.iter().filter(is_hit).copied().collect()
    }

    /// Exit code, standard output and standard error of `hurtle purge`.
    fn purge(&self, url: &str) -> (Option<i32>, String, String) {
        let mut command = hurtle();
        command.args(["purge", url, "--admin"]).arg(self.dir.path("../admin.sock"));
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    #[track_caller]
    fn purges(&self, url: &str, count: usize) {
        let purged = (Some(0), format!("purged {count}\n"), String::new());
        assert_eq!(self.purge(url), purged, "{url}");
    }
}

fn store(redis: &Redis) -> String {
    format!("store = '{}'\n", redis.url())
}

#[test]
fn a_purge_reaches_the_servers_that_share_the_store() {
    let Some(redis) = Redis::start() else { return };
    let keys = store(&redis);
    let (a, b) = (Server::start(&keys), Server::start(&keys));
    let other = Server::start(&format!("{keys}store_prefix = 'other:'\n"));
    let paths = ["/a/1", "/a/2?q", "/b", "/c%20d"];
    let servers = [&a, &b, &other];
    for server in servers {
        assert_eq!(server.stored(&paths), [""; 0]);
        assert_eq!(server.stored(&paths), paths);
    }
    a.purges("http://example.org/a/*", 2);
    eventually("the pattern is received", || b.figure("received") == 1.0);
    assert_eq!(b.stored(&paths), ["/b", "/c%20d"]);
    b.purges("http://example.org/%62", 1);
    eventually("the URL is received", || a.figure("received") == 1.0);
    assert_eq!(a.stored(&paths), ["/c%20d"]);
    a.purges("http://example.com/c%20d", 0);
    a.purges("http://example.org:81/c%20d", 0);
    eventually("hosts and ports are received", || b.figure("received") == 3.0);
    assert_eq!(b.stored(&["/c%20d"]), ["/c%20d"]);
    a.purges("http://example.org/c%20d", 1);
    eventually("it is received", || b.figure("received") == 4.0);
    assert_eq!(b.stored(&["/c%20d"]), [""; 0]);
    assert_eq!(other.stored(&paths), paths, "another prefix");
    let sent = servers.map(|server| (server.figure("sent"), server.figure("failed")));
    assert_eq!(sent, [(4.0, 0.0), (1.0, 0.0), (0.0, 0.0)]);
    assert!(servers.iter().all(|server| server.figure("resets") == 0.0));
    assert_eq!(a.figure("received"), 1.0, "a server skips its own");
}

#[test]
fn a_purge_without_the_store_fails_and_a_store_without_the_feed_empties_the_caches() {
    let Some(mut redis) = Redis::start() else { return };
    let (port, keys) = (redis.port, store(&redis));
    let (a, b) = (Server::start(&keys), Server::start(&keys));
    let paths = ["/a", "/b"];
    a.stored(&paths);
    b.stored(&paths);

    // Stopped: connections stay open, and nothing answers.
    redis.signal(Signal::STOP);
    let begun = Instant::now();
    let (code, out, err) = a.purge("http://example.org/a");
    assert!(begun.elapsed() < PURGE_MAX, "{:?}", begun.elapsed());
    let expected = format!(
        "hurtle: purged 1 here; other servers were not told: store redis://127.0.0.1:{port}: the \
         reply takes too long\n"
    );
    assert_eq!((code, out.as_str(), err), (Some(1), "", expected));
    assert_eq!((a.figure("failed"), a.figure("sent")), (1.0, 0.0));
    assert_eq!(b.stored(&["/a"]), ["/a"]);
    // The store executes the command after all.
    redis.signal(Signal::CONT);
    eventually("it is received", || b.figure("received") == 1.0);
    assert_eq!(b.stored(&paths), ["/b"]);
    assert_eq!(b.figure("resets"), 0.0);

    // Killed.
    drop(redis);
    eventually("both notice", || a.figure("subscribed") + b.figure("subscribed") == 0.0);
    let refused = format!("store redis://127.0.0.1:{port}: 127.0.0.1:{port}: Connection refused");
    eventually("the reason is the present one", || {
        let (code, _, err) = a.purge("http://example.org/a");
        assert_eq!(code, Some(1));
        assert!(err.starts_with("hurtle: purged "), "{err}");
        err.contains(&format!(" here; other servers were not told: {refused}"))
    });
    assert_eq!(b.stored(&paths), paths, "it serves its cache meanwhile");
    let warnings = b.child.stderr().matches("purges of other servers wait meanwhile").count();
    assert_eq!(warnings, 1, "{}", b.child.stderr());

    // Back, without the entries.
    redis = Redis::start_at(port).unwrap();
    [&a, &b].iter().for_each(|server| server.is_subscribed());
    assert_eq!(b.stored(&paths), [""; 0], "purges may have been missed");
    assert_eq!((b.figure("resets"), a.figure("resets")), (1.0, 1.0));
    a.stored(&paths);
    a.purges("http://example.org/*", 2);
    eventually("it is received", || b.figure("received") == 2.0);
    assert_eq!(b.stored(&paths), [""; 0]);
    drop(redis);
}

#[test]
fn a_server_that_was_cut_off_catches_up_or_empties_its_cache() {
    let Some(redis) = Redis::start() else { return };
    let keys = store(&redis);
    let (a, b) = (Server::start(&keys), Server::start(&keys));
    let many: Vec<String> = (0..30).map(|n| format!("/{n}")).collect();
    let paths: Vec<&str> = many.iter().map(String::as_str).chain(["/kept"]).collect();
    b.stored(&paths);

    b.child.signal(Signal::STOP);
    many.iter().for_each(|path| a.purges(&format!("http://example.org{path}"), 0));
    // About as long as a command may be.
    let long = format!("http://{}/{}", "a".repeat(8_000), "a".repeat(8_000));
    (0..20).for_each(|_| a.purges(&long, 0));
    b.child.signal(Signal::CONT);
    eventually("more purges than a reply has are received", || b.figure("received") == 50.0);
    assert_eq!(b.stored(&paths), ["/kept"]);

    // Its connection breaks.
    redis.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("it notices", || figure(&b.dir, "hurtle_store_failures_total") >= 2.0);
    [&a, &b].iter().for_each(|server| server.is_subscribed());
    assert_eq!(b.stored(&paths), paths);
    assert_eq!(b.figure("resets"), 0.0, "the position is in the store");

    // Entries that it has not read are trimmed.
    b.child.signal(Signal::STOP);
    eventually("the other one is connected", || a.purge("http://example.org/1").0 == Some(0));
    a.purges("http://example.org/2", 0);
    redis.ask(&["XTRIM", STREAM, "MAXLEN", "1"]);
    b.child.signal(Signal::CONT);
    eventually("it notices", || b.figure("resets") == 1.0);
    assert_eq!(b.stored(&paths), [""; 0]);
    b.is_subscribed();
    assert_eq!((b.figure("received"), a.figure("resets")), (50.0, 0.0));
    a.purges("http://example.org/3", 0);
    eventually("later purges are received", || b.figure("received") == 51.0);
    assert_eq!(b.stored(&paths).len(), paths.len() - 1);
}

#[test]
fn an_entry_that_a_server_cannot_read_empties_its_cache_once() {
    let Some(redis) = Redis::start() else { return };
    let keys = store(&redis);
    let (a, b) = (Server::start(&keys), Server::start(&keys));
    let large = "x".repeat(300 << 10);
    let url = "http://example.org/a";
    let fields = |more: &[&'static str]| [&["from", "later"][..], more].concat();
    let table: [(&str, Vec<&str>); 4] = [
        ("of another version", fields(&["tag", "news"])),
        ("a malformed target", fields(&["host", "example.org", "target", "news"])),
        ("of another program", vec!["a", "b"]),
        ("larger than a reply may be", vec!["from", "later", "host", &large]),
    ];
    for (at, (sentence, fields)) in table.iter().enumerate() {
        b.stored(&["/a", "/b"]);
        redis.ask(&[&["XADD", STREAM, "*"][..], fields].concat());
        eventually(sentence, || b.figure("resets") == (at + 1) as f64);
        [&a, &b].iter().for_each(|server| server.is_subscribed());
        assert_eq!(b.stored(&["/a", "/b"]), [""; 0], "{sentence}");
        eventually("the other one is connected", || a.purge(url).0 == Some(0));
        eventually(sentence, || b.figure("received") >= (at + 1) as f64);
        assert_eq!(b.stored(&["/a", "/b"]), ["/b"], "{sentence}");
    }
    assert_eq!((b.figure("resets"), b.figure("received")), (4.0, 4.0));
}

#[test]
fn a_reload_keeps_the_connections_and_the_position() {
    let Some(redis) = Redis::start() else { return };
    let keys = store(&redis);
    let (a, b) = (Server::start(&keys), Server::start(&keys));
    eventually("both are connected", || redis.connections().len() == 4);
    let before = redis.connections();
    let paths = ["/a", "/b"];
    b.stored(&paths);
    b.reload(&format!("{keys}drain = '7s'\n"));
    a.purges("http://example.org/a", 0);
    eventually("it is received", || b.figure("received") == 1.0);
    assert_eq!(b.stored(&paths), ["/b"]);
    assert_eq!(redis.connections(), before, "those of rate limits and of the feed");

    // Without the store for a while.
    b.reload("");
    eventually("the connections are closed", || redis.connections().len() == 2);
    let gauges = ["hurtle_store_connected_workers", "hurtle_store_purges_subscribed"];
    assert_eq!(gauges.map(|name| figure(&b.dir, name)), [0.0, 0.0]);
    b.purges("http://example.org/b", 1);
    b.stored(&paths);
    a.purges("http://example.org/a", 0);
    assert_eq!(b.stored(&paths), paths);
    b.reload(&keys);
    eventually("it catches up", || b.figure("received") == 2.0);
    assert_eq!(b.stored(&paths), ["/b"]);

    // Another database has another stream.
    b.reload(&format!("store = '{}/1'\n", redis.url()));
    eventually("the cache is emptied", || b.figure("resets") == 1.0);
    b.is_subscribed();
    assert_eq!(b.stored(&paths), [""; 0]);
    eventually("the connections before are closed", || redis.connections().len() == 4);
    assert_eq!(gauges.map(|name| figure(&b.dir, name)), [1.0, 1.0]);
}

#[test]
fn the_documented_commands_and_keys_are_enough_for_the_user_of_the_store() {
    let Some(redis) = Redis::start() else { return };
    let documented = include_str!("../../../../docs/fleet.md");
    let (_, rest) = documented.split_once("`ACL SETUSER ").unwrap();
    let (rules, _) = rest.split_once('`').unwrap();
    let rules: Vec<&str> = rules.split_whitespace().collect();
    redis.ask(&[&["ACL", "SETUSER"][..], &rules].concat());
    let dir = Dir::new(&[]);
    let password = dir.path("../password");
    fs::write(&password, "secret").unwrap();
    fs::set_permissions(&password, Permissions::from_mode(0o600)).unwrap();
    let url = redis.url().replace("redis://", "redis://web@");
    let keys = format!("store = '{url}/2'\nstore_password_file = {password:?}\n");
    let server = Server::in_dir(dir, &keys);
    server.is_subscribed();
    eventually("it is connected", || figure(&server.dir, "hurtle_store_connected_workers") == 1.0);
    server.stored(&["/a"]);
    assert_eq!(figure(&server.dir, "hurtle_store_decision_seconds_count"), 1.0);
    server.purges("http://example.org/a", 1);
    let client = redis.ask(&["ACL", "LOG"]);
    assert_eq!(client, "*0\r\n", "nothing was denied");
}
