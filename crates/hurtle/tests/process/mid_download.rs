//! A file that changes while a client downloads it.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::geteuid;

use crate::child::{Child, PATIENCE, eventually, hurtle};
use crate::support::Dir;

/// Larger than socket buffers, so that the server is still sending when the fault happens.
const LARGE: usize = 48 << 20;

/// Bytes of a response that have arrived when the fault happens.
const BEGINNING: usize = 64 << 10;

/// Outcome of a download.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    /// The declared length, all of the old file.
    Whole,
    /// Less than the declared length, all of the old file except for the edited bytes.
    Short,
}

#[test]
fn a_file_that_changes_mid_download_arrives_whole_or_visibly_short() {
    let old = pattern(LARGE);
    let rows: [(&str, fn(&Path), Received, u16); 7] = [
        ("replaced by a rename", replace, Received::Whole, 200),
        ("deleted", |path| fs::remove_file(path).unwrap(), Received::Whole, 404),
        ("made unreadable", forbid, Received::Whole, 403),
        ("truncated to nothing", |path| truncate(path, 0), Received::Short, 200),
        ("truncated by a byte", |path| truncate(path, LARGE as u64 - 1), Received::Short, 200),
        ("edited in place, near its end", edit_end, Received::Short, 200),
        ("appended to", append, Received::Whole, 200),
    ];
    for (fault, inject, expected, status_afterwards) in rows {
        for sendfile in ["auto", "off"] {
            let dir = Dir::new(&[]);
            dir.write("large.bin", &old);
            let config = format!("root = '{{root}}'\nrevalidate = 0\nsendfile = '{sendfile}'\n");
            let child = Child::configured(&dir, &config);
            let mut stream = child.connect_narrow();
            let mut got = begin(&mut stream, LARGE);
            inject(&dir.path("large.bin"));
            stream.read_to_end(&mut got).unwrap();
            let name = format!("{fault}, sendfile {sendfile}");
            check(&name, &got, &old, &expected);
            if status_afterwards != 403 || geteuid().is_root() {
                let afterwards = child.connect().request("HEAD", "/large.bin");
                assert_eq!(afterwards.status, status_afterwards, "{name}: was it injected?");
            }
        }
    }
}

/// Regression: a file that is sent in one turn was not checked again. A slow client got the
/// beginning of one file and the end of another under a valid head.
#[test]
fn a_small_file_edited_while_a_slow_client_reads_it_is_cut_short() {
    const LEN: usize = 900 << 10;
    let old = pattern(LEN);
    for sendfile in ["auto", "off"] {
        let dir = Dir::new(&[]);
        dir.write("small.bin", &old);
        let socket = dir.path("../socket");
        // A unix socket buffers 200 KiB; TCP over loopback buffers the whole file.
        let listen = format!("unix:{}", socket.display());
        let mut command = hurtle();
        command.arg(dir.root()).args(["--listen", &listen, "--sendfile", sendfile]);
        let child = Child::start(&mut command);
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(b"GET /small.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut got = first_piece(&mut stream, LEN);
        // Not while the server is in a call that the reader keeps going, because its bytes are not
        // checked.
        eventually("the server waits for its client", || child.sleeps());
        edit_end(&dir.path("small.bin"));
        stream.read_to_end(&mut got).unwrap();
        check(&format!("sendfile {sendfile}"), &got, &old, &Received::Short);
    }
}

/// Requests the file and reads the beginning of the response.
fn begin(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    first_piece(stream, len)
}

/// The first bytes of the body.
fn first_piece(stream: &mut impl Read, len: usize) -> Vec<u8> {
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    while got.len() < BEGINNING {
        let n = stream.read(&mut piece).unwrap();
        assert!(n > 0, "no answer");
        got.extend_from_slice(&piece[..n]);
    }
    let head_end = memchr::memmem::find(&got, b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(got.drain(..head_end).collect()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains(&format!("Content-Length: {len}\r\n")), "{head}");
    got
}

#[track_caller]
fn check(name: &str, got: &[u8], old: &[u8], expected: &Received) {
    let same = got.iter().zip(old).take_while(|(a, b)| a == b).count();
    match expected {
        Received::Whole => assert!(got == old, "{name}: {} bytes, {same} as they were", got.len()),
        Received::Short => {
            assert!(
                got.len() < old.len(),
                "{name}: {same} of {} bytes as they were pretend to be whole",
                got.len()
            );
            assert_eq!(same, got.len(), "{name}: something that never was in the file");
        }
    }
}

/// Bytes without a short period.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32 / 4).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect()
}

fn replace(path: &Path) {
    let new = path.with_extension("new");
    fs::write(&new, "new").unwrap();
    fs::rename(new, path).unwrap();
}

fn forbid(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
}

fn truncate(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn edit_end(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let len = file.metadata().unwrap().len();
    file.write_all_at(b"edited", len - 16).unwrap();
}

fn append(path: &Path) {
    File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
}
