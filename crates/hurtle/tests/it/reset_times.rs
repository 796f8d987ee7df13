//! Tests of files whose modification time a program has set: two versions of a file may have the
//! same one, and no validator of the first may ever select the second.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use hurtle::config::{Config, EtagSource};

use crate::support::site::files;
use crate::support::{Dir, Server, eventually};

/// The times of two versions, in seconds and nanoseconds since 1970.
type Times = [(u64, u32); 2];

/// Puts a version of a file at a path, with this time.
type Put = fn(&Dir, &str, &[u8], (u64, u32));

fn always(config: &mut Config) {
    config.revalidate = Duration::ZERO;
}

/// As tar and npm: the name is removed, and made again.
fn unpack(dir: &Dir, name: &str, content: &[u8], time: (u64, u32)) {
    let path = dir.path(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, content).unwrap();
    dir.set_time(name, Duration::new(time.0, time.1));
}

/// As `cp -p` and `rsync --inplace`.
fn overwrite(dir: &Dir, name: &str, content: &[u8], time: (u64, u32)) {
    fs::write(dir.path(name), content).unwrap();
    dir.set_time(name, Duration::new(time.0, time.1));
}

/// As `rsync -a`: another file is renamed to the name.
fn rename(dir: &Dir, name: &str, content: &[u8], time: (u64, u32)) {
    overwrite(dir, "../new", content, time);
    fs::rename(dir.path("../new"), dir.path(name)).unwrap();
}

/// As Nix and layers of containers: the name leads to another directory.
fn relink(dir: &Dir, name: &str, content: &[u8], time: (u64, u32)) {
    let store = format!("store-{}", content[0]);
    fs::create_dir_all(dir.path(&store)).unwrap();
    overwrite(dir, &format!("{store}/{name}"), content, time);
    let _ = fs::remove_file(dir.path("../link"));
    symlink(format!("{store}/{name}"), dir.path("../link")).unwrap();
    fs::rename(dir.path("../link"), dir.path(name)).unwrap();
}

const PUTS: [(&str, Put); 4] =
    [("unpack", unpack), ("overwrite", overwrite), ("rename", rename), ("relink", relink)];

const TIMES: [(&str, Times); 8] = [
    ("the epoch", [(0, 0); 2]),
    ("Nix", [(1, 0); 2]),
    ("zip", [(315_532_800, 0); 2]),
    ("npm", [(499_162_500, 0); 2]),
    ("a constant of a build", [(1_153_704_088, 0); 2]),
    ("two edits, newer", [(1_714_564_800, 250_000_000), (1_714_568_400, 0)]),
    ("two edits, older", [(1_714_568_400, 250_000_000), (1_714_564_800, 500_000_000)]),
    ("the future", [(4_000_000_000, 0); 2]),
];

/// Sizes of files in memory, sent by the kernel, and hashed in the background.
const SIZES: [usize; 3] = [100, 100_000, (1 << 20) + 1];

#[test]
fn no_condition_that_names_one_version_selects_another() {
    let server = Server::with(&[], always);
    let mut number = 0;
    for ((how, put), (which, times)) in PUTS.iter().flat_map(|put| TIMES.map(|times| (put, times)))
    {
        for size in SIZES {
            number += 1;
            let name = format!("{number}.bin");
            let why = format!("{how}, {which}, {size} bytes");
            let [first, second] = [vec![b'1'; size], vec![b'2'; size]];
            put(&server.dir, &name, &first, times[0]);
            let before = server.get(&format!("/{name}"));
            assert!(before.body == first, "{why}");
            put(&server.dir, &name, &second, times[1]);
            let dates = ["Last-Modified", "Date"].map(|field| before.field(field));
            let tag = before.field("ETag").unwrap();
            let mut asked = vec![format!("If-None-Match: {tag}"), with_range(tag)];
            for date in dates.into_iter().flatten() {
                asked.push(format!("If-Modified-Since: {date}"));
                asked.push(with_range(date));
            }
            for fields in asked {
                let response = server.get(&format!("/{name}\n{fields}"));
                assert_eq!(response.status, 200, "{why}: {fields}");
                assert!(response.body == second, "{why}: {fields}");
            }
        }
    }
}

fn with_range(validator: &str) -> String {
    format!("Range: bytes=5-\nIf-Range: {validator}")
}

/// Servers of a fleet have the same files with other times of change.
#[test]
fn the_tag_is_the_content_and_so_the_same_everywhere() {
    let tag = |put: Put, content: &[u8]| {
        let server = Server::with(&[], always);
        put(&server.dir, "a.bin", content, (1_714_564_800, 0));
        let tag = server.get("/a.bin").field("ETag").unwrap().to_owned();
        assert_eq!(server.get(&format!("/a.bin\nIf-None-Match: {tag}")).status, 304, "{tag}");
        assert_eq!(server.get(&format!("/a.bin\n{}", with_range(&tag))).status, 206, "{tag}");
        tag
    };
    for size in &SIZES[..2] {
        let content = vec![b'x'; *size];
        let tags = PUTS.map(|(_, put)| tag(put, &content));
        assert!(tags.iter().all(|other| other == &tags[0]), "{tags:?}");
        assert_ne!(tag(unpack, &vec![b'y'; *size]), tags[0]);
    }
}

#[test]
fn a_large_file_has_a_strong_tag_once_it_is_hashed() {
    let hashed = |server: &Server| {
        eventually("a strong tag", || {
            let tag = server.head("/a.bin").field("ETag").unwrap().to_owned();
            tag.starts_with('"').then_some(tag)
        })
    };
    let server = Server::with(&[], always);
    let content = vec![b'x'; 3 << 20];
    unpack(&server.dir, "a.bin", &content, (1_714_564_800, 0));
    let first = server.head("/a.bin").field("ETag").unwrap().to_owned();
    assert!(first.starts_with("W/"), "{first}");
    let tag = hashed(&server);
    assert_eq!(server.get(&format!("/a.bin\nIf-None-Match: {tag}")).status, 304);
    assert_eq!(server.get(&format!("/a.bin\n{}", with_range(&tag))).status, 206);
    overwrite(&server.dir, "a.bin", &vec![b'y'; 3 << 20], (1_714_564_800, 0));
    assert_eq!(server.get(&format!("/a.bin\nIf-None-Match: {tag}")).status, 200);

    let by_content = Server::with(&[], |config| {
        always(config);
        files(config).etag = EtagSource::Content;
    });
    fs::write(by_content.dir.path("a.bin"), &content).unwrap();
    by_content.dir.set_time("a.bin", Duration::from_secs(1_714_564_800));
    assert!(by_content.head("/a.bin").field("ETag").unwrap().starts_with("W/"));
    assert_eq!(hashed(&by_content), tag, "of the same content");
}

#[test]
fn times_that_no_edit_has_are_neither_sent_nor_honoured() {
    let server = Server::with(&[], always);
    let rows = [
        ("the epoch", 0, false),
        ("Nix", 1, false),
        ("zip", 315_532_800, false),
        ("npm", 499_162_500, false),
        ("1990", 631_152_000, true),
        ("the future", 4_000_000_000, false),
    ];
    for (why, secs, is_sent) in rows {
        unpack(&server.dir, "a.txt", b"aa", (secs, 0));
        let response = server.get("/a.txt");
        assert_eq!(response.field("Last-Modified").is_some(), is_sent, "{why}");
        let later = "If-Modified-Since: Thu, 31 Dec 2099 00:00:00 GMT";
        let status = server.get(&format!("/a.txt\n{later}")).status;
        assert_eq!(status, if is_sent { 304 } else { 200 }, "{why}");
    }
}
