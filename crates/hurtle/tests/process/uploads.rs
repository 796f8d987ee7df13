//! Uploads with faults: a full disk, a directory without permission, a limit on file sizes, a kill
//! in the middle; and the memory of many large ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::process::Signal;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::fuse::mounting::{MountFlags, UnmountFlags, mount, unmount};
use crate::support::{Client, Dir, Response};

/// Uploads from every client, without reserved disk space.
const CONFIG: &str = "[[site]]\nauth = \"none\"\n[[site.mount]]\nfiles = \"{root}\"\n\
                      [site.mount.uploads]\nfree_bytes = 0\n";

fn put(client: &mut Client, path: &str, body: &[u8]) -> Response {
    client
        .send(format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(body);
    client.answer("PUT")
}

/// Uploads without a length, in chunks of 64 KiB; returns the response.
fn put_chunked(client: &mut Client, path: &str, chunks: usize) -> Response {
    client.send(format!("PUT {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    let chunk = [b"10000\r\n", &[b'x'; 64 << 10][..], b"\r\n"].concat();
    for _ in 0..chunks {
        client.send(&chunk);
    }
    client.send("0\r\n\r\n");
    client.answer("PUT")
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

/// A small file system in memory, unmounted when dropped.
struct Small(PathBuf);

impl Small {
    /// Mounts it; `None`: mounting is not allowed.
    fn mount(path: PathBuf, options: &str) -> Option<Small> {
        let options = std::ffi::CString::new(options).unwrap();
        match mount("small", &path, "tmpfs", MountFlags::empty(), options.as_c_str()) {
            Ok(()) => Some(Small(path)),
            Err(e) => {
                eprintln!("skipped: no tmpfs here: {e}");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_left_on_it() {
    let dir = Dir::new(&[]);
    let Some(small) = Small::mount(dir.root(), "size=4m,mode=777") else { return };
    let child = Child::configured(&dir, CONFIG);
    let mut client = child.connect();
    assert_eq!(put(&mut client, "/kept", &[b'k'; 1 << 20]).status, 201);
    client.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n");
    assert_eq!(client.answer("PUT").status, 507, "told before a byte of it is sent");

    let response = put_chunked(&mut child.connect(), "/a", 128);
    assert_eq!(response.status, 507, "{response:?}");
    assert_eq!(names(&small.0), ["kept"]);
    let free = || {
        let stat = rustix::fs::statvfs(&small.0).unwrap();
        stat.f_bavail * stat.f_frsize
    };
    eventually("the room is given back", || free() > 2 << 20);
    assert_eq!(put(&mut child.connect(), "/kept", &[b'n'; 1 << 20]).status, 204, "it fits");
    assert_eq!(child.get("/kept").body, [b'n'; 1 << 20]);
}

#[test]
fn a_disk_without_room_for_another_name_is_full_too() {
    let dir = Dir::new(&[]);
    let Some(small) = Small::mount(dir.root(), "nr_inodes=2,mode=777") else { return };
    let child = Child::configured(&dir, CONFIG);
    assert_eq!(put(&mut child.connect(), "/a", b"x").status, 201);
    let response = put(&mut child.connect(), "/b", b"x");
    assert_eq!(response.status, 507, "{response:?}");
    eventually("it is logged", || child.stderr().contains("upload of b refused"));
    assert_eq!(names(&small.0), ["a"]);
}

#[test]
fn uploads_to_unwritable_directories_are_refused() {
    let dir = Dir::new(&[("closed/a", "old")]);
    fs::set_permissions(dir.path("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let child = Child::configured(&dir, CONFIG);
    for (method, path) in [("PUT", "/closed/new"), ("PUT", "/closed/a"), ("DELETE", "/closed/a")] {
        let response = child.connect().request(method, path);
        assert_eq!(response.status, 403, "{method} {path}: {response:?}");
        assert!(response.text().contains("no permission to write"), "{response:?}");
    }
    assert_eq!(child.get("/closed/a").text(), "old");
    fs::set_permissions(dir.path("closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_limit_on_file_sizes_does_not_end_the_server() {
    let dir = Dir::new(&[]);
    open_to_all(&dir.root());
    let config = write_config(&dir, CONFIG);
    // In blocks of 512 bytes: 102,400 bytes.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -f 200 && exec \"$0\" --config \"$1\""]);
    let child = Child::start(command.arg(hurtle().get_program()).arg(config));
    assert_eq!(put(&mut child.connect(), "/a", &[b'x'; 102_401]).status, 413);
    assert_eq!(put_chunked(&mut child.connect(), "/a", 4).status, 413);
    assert_eq!(names(&dir.root()), [""; 0]);
    assert_eq!(put(&mut child.connect(), "/a", &[b'x'; 102_400]).status, 201);
}

#[test]
fn a_kill_during_an_upload_leaves_the_old_file() {
    let dir = Dir::new(&[("a", "old")]);
    open_to_all(&dir.root());
    let mut child = Child::configured(&dir, CONFIG);
    let mut client = child.connect();
    client.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n");
    client.send([b'x'; 1_000_000]);
    let root = dir.root();
    eventually("its file is open", || {
        child.descriptors().iter().any(|to| to.starts_with(&root) && *to != root)
    });
    child.signal(Signal::KILL);
    child.wait();
    let _next = Child::configured(&dir, CONFIG);
    eventually("nothing but the old file is there", || names(&dir.root()) == ["a"]);
    assert_eq!(fs::read(dir.path("a")).unwrap(), b"old");
}

#[test]
fn many_large_uploads_at_once_use_little_memory() {
    const UPLOADS: usize = 8;
    const GROWTH_KIB_MAX: u64 = 20 << 10;
    let dir = Dir::new(&[]);
    open_to_all(&dir.root());
    let child = Child::configured(&dir, CONFIG);
    assert_eq!(put(&mut child.connect(), "/warm", b"x").status, 201);
    let before = child.resident_kib();
    let body = vec![b'x'; 20 << 20];
    let mut most = before;
    thread::scope(|scope| {
        let uploads: Vec<_> = (0..UPLOADS)
            .map(|n| {
                let (child, body) = (&child, &body);
                scope.spawn(move || put(&mut child.connect(), &format!("/{n}"), body).status)
            })
            .collect();
        while uploads.iter().any(|upload| !upload.is_finished()) {
            most = most.max(child.resident_kib());
            thread::yield_now();
        }
        for upload in uploads {
            assert_eq!(upload.join().unwrap(), 201);
        }
    });
    println!("{UPLOADS} uploads of 20 MiB: {before} KiB, {most} KiB at most");
    assert!(most - before < GROWTH_KIB_MAX, "{before} KiB grew to {most} KiB");
}
