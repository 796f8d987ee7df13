//! Tests of `open_beneath` and of the walk that replaces it: both open the same files and have the
//! same errors.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hurtle::sys;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Scratch;

type Opener = fn(BorrowedFd<'_>, &[u8], OFlags, bool) -> rustix::io::Result<OwnedFd>;

/// The system's own call, and the walk that replaces it on systems without one.
const OPENERS: [(&str, Opener); 2] =
    [("open_beneath", sys::open_beneath), ("the walk", sys::beneath::open)];

const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Result of opening a path: `Is` names the file or directory by its path without symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome<'a> {
    Is(&'a str),
    Fails(Errno),
}
use Outcome::{Fails, Is};

/// A root with every kind of link that may lead out of it.
fn tree(scratch: &Scratch) -> OwnedFd {
    let outer = &scratch.0;
    let root = outer.join("root");
    fs::create_dir_all(root.join("d/e")).unwrap();
    fs::create_dir_all(root.join("a/b/c/d/e/f/g/h")).unwrap();
    for file in ["secret", "root/f", "root/d/f", "root/d/e/g", "root/a/b/c/d/e/f/g/h/i"] {
        fs::write(outer.join(file), file).unwrap();
    }
    let links = [
        ("to_f", "f"),
        ("to_d", "d"),
        ("to_d_slash", "d/"),
        ("to_f_slash", "f/"),
        ("to_g", "d/./e//g"),
        ("to_h", "a/b/c/d/e/f/g/h"),
        ("dot", "."),
        ("d/up", ".."),
        ("d/up_f", "../f"),
        ("d/e/over", "../../a/b/../../d/f"),
        ("d/e/twice", "over"),
        ("out", ".."),
        ("out_secret", "../secret"),
        ("d/out_secret", "../../secret"),
        ("out_and_in", "d/../../root/f"),
        ("absolute", "/"),
        ("self", "self"),
        ("ping", "pong"),
        ("pong", "ping"),
        ("grows", "grows/x"),
        ("dangling", "missing"),
        ("dangling_deep", "missing/../f"),
        ("through_file", "f/../d"),
    ];
    for (name, target) in links {
        symlink(target, root.join(name)).unwrap();
    }
    symlink(root.join("f"), root.join("absolute_f")).unwrap();
    symlink("f", root.join("chain_1")).unwrap();
    for i in 2..=41 {
        symlink(format!("chain_{}", i - 1), root.join(format!("chain_{i}"))).unwrap();
    }
    rustix::fs::open(&root, sys::PROBE | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .unwrap()
}

struct Row {
    why: &'static str,
    path: &'static str,
    followed: Outcome<'static>,
    refused: Outcome<'static>,
}

/// A path without links.
const fn plain(why: &'static str, path: &'static str, outcome: Outcome<'static>) -> Row {
    Row { why, path, followed: outcome, refused: outcome }
}

/// A path with a link: the outcome if links are followed.
const fn linked(why: &'static str, path: &'static str, followed: Outcome<'static>) -> Row {
    Row { why, path, followed, refused: Fails(Errno::LOOP) }
}

const PATHS: &[Row] = &[
    plain("a file", "f", Is("f")),
    plain("a directory", "d", Is("d")),
    plain("the root itself", ".", Is(".")),
    plain("a file in a directory", "d/e/g", Is("d/e/g")),
    plain("far down", "a/b/c/d/e/f/g/h/i", Is("a/b/c/d/e/f/g/h/i")),
    plain("slashes and dots mean nothing", ".//d/././/f", Is("d/f")),
    plain("no path", "", Fails(Errno::NOENT)),
    plain("NUL", "f\0", Fails(Errno::INVAL)),
    plain("nothing there", "missing", Fails(Errno::NOENT)),
    plain("nothing there to go back from", "missing/../f", Fails(Errno::NOENT)),
    plain("nothing there, further down", "d/e/missing", Fails(Errno::NOENT)),
    plain("a directory with its slash", "d/", Is("d")),
    plain("a directory with its dot", "d/e/.", Is("d/e")),
    plain("a file with a slash", "f/", Fails(Errno::NOTDIR)),
    plain("a file with a dot", "f/.", Fails(Errno::NOTDIR)),
    plain("back from a file", "f/..", Fails(Errno::NOTDIR)),
    plain("through a file", "f/d/f", Fails(Errno::NOTDIR)),
    plain("up and down again", "d/../f", Is("f")),
    plain("up to the root", "d/e/../..", Is(".")),
    plain("up to the root, with a slash", "d/e/../../", Is(".")),
    plain("up to a directory", "d/e/..", Is("d")),
    plain("above", "..", Fails(Errno::XDEV)),
    plain("above and back", "../root/f", Fails(Errno::XDEV)),
    plain("above from further down", "d/../../secret", Fails(Errno::XDEV)),
    plain("an absolute path", "/", Fails(Errno::XDEV)),
    plain("an absolute path to something", "/etc/passwd", Fails(Errno::XDEV)),
    linked("a link", "to_f", Is("f")),
    linked("a link to a file, with a slash", "to_f/", Fails(Errno::NOTDIR)),
    linked("a link that ends in a slash", "to_d_slash", Is("d")),
    linked("a link to a file that ends in a slash", "to_f_slash", Fails(Errno::NOTDIR)),
    linked("through a link", "to_d/f", Is("d/f")),
    linked("through a link that ends in a slash", "to_d_slash/e/g", Is("d/e/g")),
    linked("a link of many names", "to_g", Is("d/e/g")),
    linked("back from where a link led, not from the link", "to_h/..", Is("a/b/c/d/e/f/g")),
    linked("a link to where it is", "dot/dot/dot/f", Is("f")),
    linked("a link up to the root", "d/up", Is(".")),
    linked("through a link up to the root", "d/up/d/up/f", Is("f")),
    linked("a link up and down", "d/up_f", Is("f")),
    linked("a link to a link across the tree", "d/e/twice", Is("d/f")),
    linked("a link out", "out", Fails(Errno::XDEV)),
    linked("through a link out", "out/root/f", Fails(Errno::XDEV)),
    linked("a link to a file outside", "out_secret", Fails(Errno::XDEV)),
    linked("a link to a file outside, from below", "d/out_secret", Fails(Errno::XDEV)),
    linked("a link that leaves and returns", "out_and_in", Fails(Errno::XDEV)),
    linked("an absolute link", "absolute/etc", Fails(Errno::XDEV)),
    linked("an absolute link that stays inside", "absolute_f", Fails(Errno::XDEV)),
    linked("a link to itself", "self", Fails(Errno::LOOP)),
    linked("two links to each other", "ping/f", Fails(Errno::LOOP)),
    linked("a link that grows", "grows", Fails(Errno::LOOP)),
    linked("links one after the other", "chain_20", Is("f")),
    linked("too many links", "chain_41", Fails(Errno::LOOP)),
    linked("a link to nothing", "dangling", Fails(Errno::NOENT)),
    linked("a link back from nothing", "dangling_deep", Fails(Errno::NOENT)),
    linked("a link through a file", "through_file", Fails(Errno::NOTDIR)),
    plain("a link after nothing", "missing/to_f", Fails(Errno::NOENT)),
    plain("a link after a file", "f/to_f", Fails(Errno::NOTDIR)),
    plain("a link after going above", "../to_f", Fails(Errno::XDEV)),
];

#[test]
fn a_path_opens_only_what_is_beneath() {
    let scratch = Scratch::new("beneath");
    let root = tree(&scratch);
    for row in PATHS {
        for (opener, open) in OPENERS {
            for (follow, expected) in [(true, row.followed), (false, row.refused)] {
                for flags in [sys::PROBE | OFlags::CLOEXEC, READ] {
                    let what =
                        format!("{}: {opener}({:?}, {flags:?}, {follow})", row.why, row.path);
                    let path = row.path.as_bytes();
                    let opened = open(root.as_fd(), path, flags, follow);
                    check(&opened, expected, &scratch, &what);
                    // With O_DIRECTORY.
                    let opened = open(root.as_fd(), path, flags | OFlags::DIRECTORY, follow);
                    check(&opened, expected.as_directory(&scratch), &scratch, &what);
                }
            }
        }
    }
}

#[test]
fn paths_have_a_maximum_length() {
    let scratch = Scratch::new("longest");
    let root = tree(&scratch);
    let dots = |len: usize| format!("{}f", "./".repeat(len / 2));
    let rows = [
        ("the longest name that some file systems have", "n".repeat(255), Fails(Errno::NOENT)),
        ("a longer one", "n".repeat(256), Fails(Errno::NAMETOOLONG)),
        ("the longest path that every system takes", dots(1_023), Is("f")),
        ("one that none takes", dots(4_097), Fails(Errno::NAMETOOLONG)),
    ];
    for (why, path, expected) in rows {
        for (opener, open) in OPENERS {
            let opened = open(root.as_fd(), path.as_bytes(), READ, true);
            check(&opened, expected, &scratch, &format!("{why}: {opener}"));
        }
    }
}

#[test]
fn the_walk_follows_forty_links() {
    let scratch = Scratch::new("forty");
    let root = tree(&scratch);
    let open = |path: &str| sys::beneath::open(root.as_fd(), path.as_bytes(), READ, true);
    check(&open("chain_40"), Is("f"), &scratch, "as many as Linux");
    check(&open("chain_41"), Fails(Errno::LOOP), &scratch, "one more");
}

impl<'a> Outcome<'a> {
    /// The result with O_DIRECTORY.
    fn as_directory(self, scratch: &Scratch) -> Outcome<'a> {
        match self {
            Is(name) if scratch.0.join("root").join(name).is_file() => Fails(Errno::NOTDIR),
            other => other,
        }
    }
}

fn check(
    opened: &rustix::io::Result<OwnedFd>,
    expected: Outcome<'_>,
    scratch: &Scratch,
    what: &str,
) {
    match (opened, expected) {
        (Ok(fd), Is(name)) => {
            let is = rustix::fs::fstat(fd).unwrap();
            let ought = rustix::fs::stat(scratch.0.join("root").join(name)).unwrap();
            assert_eq!((is.st_dev, is.st_ino), (ought.st_dev, ought.st_ino), "{what}: not {name}");
        }
        (Err(e), Fails(expected)) => assert_eq!(*e, expected, "{what}"),
        (opened, expected) => panic!("{what}: {opened:?}, not {expected:?}"),
    }
}

#[test]
fn a_probe_opens_no_fifo() {
    let scratch = Scratch::new("fifo");
    let root = tree(&scratch);
    let path = scratch.0.join("root/fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (opener, open) in OPENERS {
        let flags = sys::PROBE | OFlags::CLOEXEC;
        let probed = open(root.as_fd(), b"fifo", flags, true);
        match &probed {
            Ok(fd) => {
                let mode = rustix::fs::fstat(fd).unwrap().st_mode;
                assert_eq!(FileType::from_raw_mode(mode), FileType::Fifo, "{opener}");
            }
            Err(e) => assert_eq!(*e, Errno::NXIO, "{opener}"),
        }
        let writer = rustix::fs::open(&path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
        assert_eq!(writer.unwrap_err(), Errno::NXIO, "{opener}: the FIFO has got a reader");
    }
}

/// Number of attempts, enough to detect a walk that does not check a name again.
const ROUNDS: usize = 3_000;

#[test]
fn a_tree_that_changes_never_leads_out() {
    let scratch = Scratch::new("race");
    let root = tree(&scratch);
    let at = |name: &str| scratch.0.join("root").join(name);
    fs::copy(at("f"), at("swap")).unwrap();
    let is_over = AtomicBool::new(false);
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        // `swap` is alternately a file and a link out of the root, and always exists.
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                symlink("../secret", at("next")).unwrap();
                fs::rename(at("next"), at("swap")).unwrap();
                fs::hard_link(at("f"), at("next")).unwrap();
                fs::rename(at("next"), at("swap")).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            for (opener, open) in OPENERS {
                for (follow, of_link) in [(true, Errno::XDEV), (false, Errno::LOOP)] {
                    let opened = open(root.as_fd(), b"swap", READ, follow);
                    let content = opened.map(|fd| io::read_to_string(File::from(fd)).unwrap());
                    if content.as_deref() != Ok("root/f") && content != Err(of_link) {
                        wrong.push((opener, follow, content));
                    }
                }
            }
        }
        is_over.store(true, Relaxed);
    });
    assert!(wrong.is_empty(), "{} times, at first {:?}", wrong.len(), wrong[0]);
}
