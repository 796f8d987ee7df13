//! Tests that clients receive the same bytes with every value of `sendfile`.

use hurtle::config::Sendfile;

use crate::support::{Dir, Server};

/// Files and their lengths, around the limits of the memory cache, of a piece and of a turn.
const FILES: [(&str, usize); 7] = [
    ("nothing", 0),
    ("byte", 1),
    ("1k", 1 << 10),
    ("32k", 32 << 10),
    ("64k", 64 << 10),
    ("1m-and-a-byte", (1 << 20) + 1),
    ("20m", 20_000_000),
];

/// Bytes of which no two stretches are equal, so that a missing or misplaced piece is noticed.
fn bytes(len: usize) -> Vec<u8> {
    (0..len.div_ceil(8))
        .flat_map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .take(len)
        .collect()
}

/// Has the kernel forget the pages of a file (posix_fadvise(2)), as far as it follows the advice.
#[cfg(target_os = "linux")]
fn put_out_of_memory(path: &std::path::Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn every_sendfile_setting_sends_the_same_bytes() {
    let (dir, longest) = (Dir::new(&[]), bytes(20_000_000));
    for (name, len) in FILES {
        dir.write(name, &longest[..len]);
    }
    let mut dir = Some(dir);
    for sendfile in [Sendfile::Auto, Sendfile::On, Sendfile::Off] {
        let server = Server::of(dir.take().unwrap(), |config| config.sendfile = sendfile);
        // On one connection a byte too many or too few breaks the next response.
        let mut client = server.connect();
        for turn in ["not yet known, on the disk", "known"] {
            for (name, len) in FILES {
                #[cfg(target_os = "linux")]
                if turn != "known" {
                    put_out_of_memory(&server.dir.path(name));
                }
                let got = client.request("GET", &format!("/{name}"));
                let told = format!("{sendfile:?}, {name}, {turn}");
                assert_eq!(got.status, 200, "{told}");
                assert_eq!(got.field("Content-Length"), Some(&*len.to_string()), "{told}");
                assert!(got.body == longest[..len], "{told}: other bytes");
            }
            let middle = client.request("GET", "/20m\nRange: bytes=1048575-1310721");
            assert_eq!(middle.status, 206, "{sendfile:?}");
            assert!(middle.body == longest[1_048_575..=1_310_721], "{sendfile:?}: a range");
        }
        client.expect_open();
        dir = Some(server.stop());
    }
}

/// A program with the server as a library may not ignore SIGPIPE, and would end when a client
/// disconnects. A signal blocked by a thread stays pending, so the test can observe it. This
/// concerns bytes sent from memory: `sendfile(2)` has no flag against the signal.
#[test]
#[cfg(target_os = "linux")]
fn a_client_that_leaves_before_its_answers_raises_no_signal() {
    let served = std::thread::spawn(move || {
        // The server's threads inherit this thread's signal mask.
        nix::sys::signal::SigSet::from(nix::sys::signal::SIGPIPE).thread_block().unwrap();
        let server = Server::start(&[("a.txt", "a")]);
        let mut other = server.connect();
        for _ in 0..20 {
            let mut leaving = server.connect();
            leaving.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10));
            drop(leaving);
            other.expect_open();
        }
        assert_eq!(signalled(rustix::process::Signal::PIPE), Vec::<String>::new());
    });
    assert!(served.join().is_ok());
}

/// The threads with this pending signal (proc_pid_status(5)).
#[cfg(target_os = "linux")]
fn signalled(signal: rustix::process::Signal) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end between the two calls.
    let statuses =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    let field = |status: &str, key| {
        let value = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        value.trim().to_owned()
    };
    let waits = statuses.filter(|status| {
        let pending = u64::from_str_radix(&field(status, "SigPnd:"), 16).unwrap();
        pending & (1 << (signal.as_raw() - 1)) != 0
    });
    waits.map(|status| field(&status, "Name:")).collect()
}
