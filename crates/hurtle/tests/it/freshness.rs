//! Tests of changing files: cached look-ups are revalidated in time.

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hurtle::config::Config;

use crate::support::site::files;
use crate::support::{Dir, MODIFIED, Server};

fn always(config: &mut Config) {
    config.revalidate = Duration::ZERO;
}

/// Time for which a cached file counts as fresh in these tests.
const REVALIDATE: Duration = Duration::from_millis(150);

/// Resolution of the server's clock. A file may count as fresh for this much longer.
const CLOCK_GRAIN: Duration = Duration::from_millis(20);

/// Requests the path until the body is `wanted`. Every request begun `REVALIDATE` after `changed`
/// must get it.
#[track_caller]
fn sees(server: &Server, path: &str, wanted: &str, changed: Instant) {
    let mut client = server.connect();
    loop {
        let asked = Instant::now();
        let response = client.request("GET", path);
        if response.body == wanted.as_bytes() {
            break;
        }
        let age = asked - changed;
        assert!(age < REVALIDATE + CLOCK_GRAIN, "{age:?} later: {response:?}");
    }
    assert_eq!(client.request("GET", path).text(), wanted, "once seen, it stays");
}

#[test]
fn changes_are_seen_at_once_if_asked_for() {
    let server = Server::with(&[("a.txt", "one"), ("dir/index.html", "index")], always);
    let mut client = server.connect();
    let mut get = |path: &str| client.request("GET", path);
    assert_eq!(get("/a.txt").text(), "one");
    server.dir.write("a.txt", "two!");
    assert_eq!(get("/a.txt").text(), "two!", "edited in place, the size differs");
    server.dir.write("a.txt", "2wo!");
    assert_eq!(get("/a.txt").text(), "2wo!", "edited in place, size and time do not");
    server.dir.replace("a.txt", "3ree", MODIFIED.0);
    assert_eq!(get("/a.txt").text(), "3ree", "replaced, size and time the same");
    std::fs::remove_file(server.dir.path("a.txt")).unwrap();
    assert_eq!(get("/a.txt").status, 404, "removed");
    server.dir.write("a.txt/index.html", "dir");
    assert_eq!(get("/a.txt").status, 301, "a directory now");
    assert_eq!(get("/dir/").text(), "index");
    server.dir.write("dir/index.html", "new index");
    assert_eq!(get("/dir/").text(), "new index", "an index");
}

/// Regression: after a save, workers answered with the old and the new file by turns, and a page
/// that reloads itself got a mixture.
#[test]
#[cfg(target_os = "linux")]
fn changes_in_watched_directories_are_seen_by_all_workers_at_once() {
    const CLIENTS: usize = 12;
    let tree = [("index.html", "old"), ("js/a.js", "old"), ("js/deep/b.js", "old")];
    let paths = ["/", "/js/a.js", "/js/deep/b.js"];
    let server = Server::with(&tree, |config| {
        config.watches_files = true;
        config.workers = std::num::NonZeroUsize::new(3).unwrap();
        config.revalidate = Duration::from_secs(3_600);
    });
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let mut all_have = |content: &str| {
        clients.iter_mut().all(|client| {
            paths.iter().all(|path| client.request("GET", path).body == content.as_bytes())
        })
    };
    // The first look-ups have the directories watched.
    assert!(all_have("old"));
    let ways: [(&str, fn(&Server, &str, &str)); 4] = [
        ("edited", |server, name, content| server.dir.write(name, content)),
        ("replaced", |server, name, content| server.dir.replace(name, content, MODIFIED.0)),
        ("made again", |server, name, content| {
            std::fs::remove_file(server.dir.path(name)).unwrap();
            server.dir.write(name, content);
        }),
        ("with its directory", |server, name, content| {
            let parent = server.dir.path(name).parent().unwrap().to_owned();
            if parent != server.dir.root() {
                // The one above may have been removed with it.
                let _ = std::fs::remove_dir_all(parent);
            }
            server.dir.write(name, content);
        }),
    ];
    for (number, (why, change)) in ways.iter().enumerate() {
        let content = format!("new {number}");
        for (name, _) in tree {
            change(&server, name, &content);
        }
        let begun = Instant::now();
        while !all_have(&content) {
            assert!(begun.elapsed() < crate::support::client::PATIENCE, "{why}");
        }
        assert!(all_have(&content), "{why}: once seen, they stay");
    }
}

#[test]
fn added_and_removed_variants_are_noticed() {
    let server = Server::with(&[("a.txt", "identity")], always);
    let get = || server.get("/a.txt\nAccept-Encoding: gzip");
    assert_eq!(get().text(), "identity");
    server.dir.write("a.txt.gz", "gzip");
    assert_eq!(get().text(), "gzip", "one has come");
    server.dir.set_modified("a.txt", MODIFIED.0 + 5);
    assert_eq!(get().text(), "identity", "the original is newer");
    server.dir.set_modified("a.txt.gz", MODIFIED.0 + 5);
    assert_eq!(get().text(), "gzip", "made again");
    std::fs::remove_file(server.dir.path("a.txt.gz")).unwrap();
    assert_eq!(get().text(), "identity", "gone");
}

/// The names of variants in a directory are read only if it has not changed for two seconds, by the
/// time of its last change, which only the system sets.
#[test]
fn variants_in_a_directory_whose_names_are_known_are_noticed() {
    let server = Server::with(&[("a.txt", "identity"), ("sub/b.txt", "identity")], always);
    for path in ["", "sub"] {
        let changed = std::fs::metadata(server.dir.path(path)).unwrap().ctime();
        let since = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        // More than two seconds, because the time is cut to whole ones.
        while since() <= changed.cast_unsigned() + 2 {
            std::thread::sleep(CLOCK_GRAIN);
        }
    }
    let mut client = server.connect();
    for path in ["a.txt", "sub/b.txt"] {
        let mut get = || client.request("GET", &format!("/{path}\nAccept-Encoding: gzip"));
        for _ in 0..40 {
            assert_eq!(get().text(), "identity");
        }
        let variant = format!("{path}.gz");
        server.dir.write(&variant, "gzip");
        assert_eq!(get().text(), "gzip", "one has come");
        std::fs::remove_file(server.dir.path(&variant)).unwrap();
        assert_eq!(get().text(), "identity", "gone");
    }
}

#[test]
fn changes_are_seen_in_time() {
    let tree = [("a.txt", "old"), ("b.txt", "old"), ("c.txt", "old"), ("d.txt", "old")];
    let server = Server::with(&tree, |config| config.revalidate = REVALIDATE);
    for path in ["/a.txt", "/b.txt", "/c.txt", "/d.txt"] {
        assert_eq!(server.get(path).text(), "old");
    }
    server.dir.write("a.txt", "edited");
    sees(&server, "/a.txt", "edited", Instant::now());
    server.dir.replace("b.txt", "replaced", MODIFIED.0 + 1);
    sees(&server, "/b.txt", "replaced", Instant::now());
    std::fs::remove_file(server.dir.path("c.txt")).unwrap();
    sees(&server, "/c.txt", "404 Not Found\n", Instant::now());
}

#[test]
fn a_deploy_is_seen_at_once() {
    let dir = Dir::new(&[("../releases/42/a.txt", "old"), ("../releases/43/a.txt", "new")]);
    dir.link("../current", "releases/42");
    let server = Server::of(dir, |config| {
        config.revalidate = REVALIDATE;
        let files = files(config);
        files.root = files.root.join("../current");
    });
    assert_eq!(server.get("/a.txt").text(), "old");
    server.dir.link("../next", "releases/43");
    std::fs::rename(server.dir.path("../next"), server.dir.path("../current")).unwrap();
    sees(&server, "/a.txt", "new", Instant::now());
}

#[test]
fn a_root_that_is_missing_for_a_while() {
    let server = Server::with(&[("a.txt", "a")], always);
    assert_eq!(server.get("/a.txt").status, 200);
    std::fs::rename(server.dir.root(), server.dir.path("../away")).unwrap();
    let status = server.get("/a.txt").status;
    assert!(status == 404 || status == 500, "{status}");
    std::fs::rename(server.dir.root().with_file_name("away"), server.dir.root()).unwrap();
    assert_eq!(server.get("/a.txt").text(), "a", "back again");
}

#[test]
fn a_file_replaced_by_rename_is_old_or_new_but_whole() {
    let version = |n: usize| vec![b'a' + (n % 26) as u8; 100_000 + n];
    let server = Server::with(&[], always);
    server.dir.write("a.bin", version(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut client = server.connect();
            for _ in 0..150 {
                let response = client.request("GET", "/a.bin");
                assert_eq!(response.status, 200);
                let n = response.body.len() - 100_000;
                assert!(response.body == version(n), "a mixture at version {n}");
            }
        });
        let mut n = 0;
        while !reader.is_finished() {
            n += 1;
            server.dir.replace("a.bin", version(n), MODIFIED.0 + n as u64);
        }
        reader.join().unwrap();
    });
}

/// Regression: for up to `revalidate` a cached head was sent with the file's new bytes. The
/// entity-tag was the old one, so If-Range combined parts of two versions.
#[test]
fn a_large_file_edited_in_place_does_not_go_under_its_old_tag() {
    const NOTICED: Duration = Duration::from_millis(10);
    let (old, new) = ("o".repeat(64 << 10), "n".repeat(64 << 10));
    let server = Server::with(&[("a.bin", &old)], |config| {
        config.revalidate = Duration::from_secs(3_600);
    });
    let mut client = server.connect();
    let tag = client.request("GET", "/a.bin").field("etag").map(str::to_owned);
    assert!(tag.is_some());
    server.dir.write("a.bin", &new);
    server.dir.set_modified("a.bin", MODIFIED.0 + 5);
    let changed = Instant::now();
    loop {
        let asked = Instant::now();
        let response = client.request("GET", "/a.bin");
        if response.field("etag") != tag.as_deref() {
            assert_eq!(response.text(), new);
            return;
        }
        assert!(asked - changed < NOTICED + CLOCK_GRAIN, "{:?} later", asked - changed);
    }
}
