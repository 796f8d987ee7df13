//! Tests of the contract of `hurtle::sys` (documented in its module), the same for every system.
//! Run them on a system whose file was changed.

// A test fails if its set-up fails.
#![allow(clippy::unwrap_used)]

#[path = "sys_contract/beneath.rs"]
mod beneath;
#[path = "sys_contract/ktls.rs"]
mod ktls;
#[path = "sys_contract/listening.rs"]
mod listening;
#[path = "sys_contract/sending.rs"]
mod sending;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hurtle::sys;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Regression: the nice value was set instead of increased, which had no effect, or the opposite
/// one, if the program itself was started with `nice`.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_that_gives_precedence_is_nicer_than_the_program_and_no_other_is() {
    const NICE_MAX: i32 = 19;
    // proc_pid_stat(5), the 19th field: 16 after the name's closing bracket.
    let nice = || {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap()
    };
    let set = |nice| rustix::process::setpriority_process(Some(rustix::thread::gettid()), nice);
    let started_with = nice();
    for before in started_with..=NICE_MAX {
        // A thread inherits the nice value of its creator.
        let starting = std::thread::spawn(move || {
            set(before).unwrap();
            let behind = std::thread::spawn(move || {
                sys::give_precedence();
                nice()
            });
            (behind.join().unwrap(), nice())
        });
        let (behind, starting) = starting.join().unwrap();
        assert_eq!(behind, (before + 10).min(NICE_MAX), "it is served after those of {before}");
        assert_eq!(starting, before, "the thread that started it is not");
    }
    assert_eq!(nice(), started_with, "nor is any other");
}

#[test]
fn a_timer_can_be_read_once_its_time_has_passed_and_the_last_one_set_counts() {
    let timer = match sys::timer() {
        Ok(timer) => timer,
        Err(e) => return assert_eq!(e.kind(), ErrorKind::Unsupported),
    };
    let read = || rustix::io::read(&timer, &mut [0; 8]);
    assert_eq!(read(), Err(Errno::AGAIN), "it is not set");
    let begun = Instant::now();
    let time = Duration::from_millis(30);
    for time in [Duration::ZERO, Duration::from_secs(3_600), time] {
        sys::set_timer(&timer, time).unwrap();
    }
    rustix::event::poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).unwrap();
    assert!(begun.elapsed() >= time, "{:?}", begun.elapsed());
    assert_eq!((read(), read()), (Ok(8), Err(Errno::AGAIN)), "it passes once");
    // A time of 0 fires at once, not never.
    sys::set_timer(&timer, Duration::ZERO).unwrap();
    rustix::event::poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).unwrap();
}

#[test]
fn resident_reads_return_the_files_bytes() {
    let scratch = Scratch::new("resident");
    let len = 10_000;
    let file = scratch.file("f", len);
    let rows = [
        ("all of it", 0, 10_000),
        ("the middle", 4_000, 3_000),
        ("across the end", 9_990, 100),
        ("the end", 10_000, 100),
        ("beyond the end", 99_999, 100),
    ];
    for (why, offset, asked) in rows {
        let mut buf = vec![0; asked];
        let expected = &pattern(len)[offset.min(len)..(offset + asked).min(len)];
        match sys::read_resident(file.as_fd(), &mut buf, offset as u64) {
            Ok(0) => assert!(expected.is_empty(), "{why}: 0 is the end and nothing else"),
            Ok(n) => assert!(expected.starts_with(&buf[..n]), "{why}: other bytes"),
            Err(e) => {
                let is_known = matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Unsupported);
                assert!(is_known, "{why}: {e}");
            }
        }
    }
}

/// tmpfs, on which such a file is, has no reads that do not wait.
#[cfg(target_os = "linux")]
#[test]
fn bytes_of_a_file_system_in_memory_are_resident() {
    let file = rustix::fs::memfd_create("resident", rustix::fs::MemfdFlags::empty()).unwrap();
    rustix::io::write(&file, b"in memory").unwrap();
    let mut buf = [0; 9];
    assert_eq!(sys::read_resident(file.as_fd(), &mut buf, 3).unwrap(), 6);
    assert_eq!(&buf[..6], b"memory");
    assert_eq!(sys::read_resident(file.as_fd(), &mut buf, 9).unwrap(), 0, "the end");
}

#[test]
fn paged_in_bytes_are_read_without_waiting() {
    let scratch = Scratch::new("paged");
    let len = 300_000;
    let file = scratch.file("f", len);
    rustix::fs::fsync(&file).unwrap();
    for (why, offset, asked) in [
        ("all of it, from the beginning", 0, len),
        ("less than a page", 10, 20),
        ("across the end", len - 10, 1 << 20),
    ] {
        // posix_fadvise(2) drops the file from the page cache, if the kernel follows the advice.
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        let mut at = offset;
        while at < len.min(offset + asked) {
            let n = sys::page_in(file.as_fd(), at as u64, offset + asked - at).unwrap();
            assert!((1..=offset + asked - at).contains(&n), "{why}: {n}");
            let mut buf = vec![0; n];
            match sys::read_resident(file.as_fd(), &mut buf, at as u64) {
                Ok(read) => assert_eq!(read, n, "{why}"),
                // The system cannot tell if the bytes are resident.
                Err(e) => assert_eq!(
                    (cfg!(target_os = "linux"), e.kind()),
                    (false, ErrorKind::Unsupported)
                ),
            }
            at += n;
        }
        assert_eq!(at, len.min(offset + asked), "{why}");
    }
    for (why, offset, asked) in [("the end", len, 9), ("beyond it", 2 * len, 9), ("nothing", 0, 0)]
    {
        assert_eq!(sys::page_in(file.as_fd(), offset as u64, asked).unwrap(), 0, "{why}");
    }
}

#[test]
fn an_unnamed_file_is_linked_to_a_free_name() {
    use rustix::fs::Mode;
    let scratch = Scratch::new("unnamed");
    fs::write(scratch.0.join("taken"), "old").unwrap();
    let dir = File::open(&scratch.0).unwrap();
    let unnamed = match sys::create_unnamed(dir.as_fd(), Mode::from_raw_mode(0o600)) {
        Ok(unnamed) => unnamed,
        Err(e) => return assert_eq!(e, Errno::OPNOTSUPP, "there are none here"),
    };
    rustix::io::write(&unnamed, b"new").unwrap();
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "it cannot be seen");
    let linked = sys::link_unnamed(unnamed.as_fd(), dir.as_fd(), b"taken");
    assert_eq!(linked, Err(Errno::EXIST));
    assert_eq!(fs::read(scratch.0.join("taken")).unwrap(), b"old");
    sys::link_unnamed(unnamed.as_fd(), dir.as_fd(), b"free").unwrap();
    assert_eq!(fs::read(scratch.0.join("free")).unwrap(), b"new");
    drop(sys::create_unnamed(dir.as_fd(), Mode::from_raw_mode(0o600)));
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2, "closed, it is gone");
}

#[test]
fn the_coarse_clock_goes_on_in_milliseconds() {
    let before = Instant::now();
    let start_ms = sys::coarse_ms();
    let after = Instant::now();
    let mut last = start_ms;
    while after.elapsed() < Duration::from_millis(100) {
        let now_ms = sys::coarse_ms();
        assert!(now_ms >= last, "it went back");
        last = now_ms;
        std::thread::sleep(Duration::from_millis(1));
    }
    let least = after.elapsed();
    let told = Duration::from_millis(sys::coarse_ms() - start_ms);
    let most = before.elapsed();
    // The clock may be a few ms behind at either end.
    let behind = Duration::from_millis(20);
    assert!(told + behind >= least && told <= most + behind, "{told:?} of {least:?} to {most:?}");
}

/// Any free port on loopback.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Time limit of a wait, after which the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A temporary directory, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("hurtle-sys-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    /// A file of `len` bytes, open for reading.
    fn file(&self, name: &str, len: usize) -> File {
        let path = self.0.join(name);
        fs::write(&path, pattern(len)).unwrap();
        File::open(path).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes of which no two nearby stretches are equal, so that a misplaced one is noticed.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 * 7 + i / 65_521) as u8).collect()
}

/// Waits until one of them is ready.
fn wait_for<T: AsFd>(fds: &[&T], flags: PollFlags) {
    let mut fds: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(*fd, flags)).collect();
    let timeout = Timespec::try_from(PATIENCE).unwrap();
    assert_ne!(rustix::event::poll(&mut fds, Some(&timeout)).unwrap(), 0, "nothing came");
}

#[test]
fn an_orphan_becomes_a_child_of_the_subreaper() {
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
    use std::process::{Command, Stdio};
    if sys::adopt_orphans().is_err() {
        println!("skipped: this system has no such call");
        return;
    }
    // The process is in another session, and its parent ends before this statement does.
    let left = Command::new("sh")
        .args(["-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let orphan: i32 = String::from_utf8(left.stdout).unwrap().trim().parse().unwrap();
    let orphan = Pid::from_raw(orphan).unwrap();
    assert!(sys::children().unwrap().contains(&orphan));
    kill_process(orphan, Signal::KILL).unwrap();
    assert!(waitpid(Some(orphan), WaitOptions::empty()).unwrap().is_some());
    assert!(!sys::children().unwrap().contains(&orphan));
}

/// A directory that is watched has changes; others have none.
#[test]
fn changes_of_watched_directories_are_reported() {
    let watch = match sys::watch() {
        Err(e) if e.kind() == ErrorKind::Unsupported => return,
        watch => watch.unwrap(),
    };
    let base = std::env::temp_dir().join(format!("watched-{}", std::process::id()));
    let [inside, outside] = ["in", "out"].map(|name| base.join(name));
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir_all(&outside).unwrap();
    sys::watch_directory(&watch, &inside).unwrap();
    sys::watch_directory(&watch, &inside).unwrap();
    let is_ready = || {
        let mut fds = [PollFd::new(&watch, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    };
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change, bool); 5] = [
        ("a file is written", |directory| fs::write(directory.join("a"), "a").unwrap(), true),
        (
            "a file is renamed",
            |directory| fs::rename(directory.join("a"), directory.join("b")).unwrap(),
            true,
        ),
        ("a file is removed", |directory| fs::remove_file(directory.join("b")).unwrap(), true),
        ("a directory is made", |directory| fs::create_dir(directory.join("c")).unwrap(), true),
        ("it is removed itself", |directory| fs::remove_dir_all(directory).unwrap(), false),
    ];
    for (why, change, is_complete) in changes {
        change(&outside);
        assert!(!is_ready(), "{why}, elsewhere");
        change(&inside);
        assert!(is_ready(), "{why}");
        assert_eq!(sys::take_changes(&watch).unwrap(), is_complete, "{why}");
        assert!(!is_ready(), "{why}: all are taken");
    }
    fs::remove_dir_all(&base).unwrap();
}
