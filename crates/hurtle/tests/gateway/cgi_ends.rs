//! CGI programs that end by themselves, are killed, or never end.

use std::fs;

use rustix::process::{Pid, test_kill_process};

use crate::cgi::{get, server};
use crate::dir::{Dir, eventually};
use crate::support::Proxy;

/// Writes down its own process id and that of a child, and never responds.
const HANGS: &str =
    "#!/bin/sh\nsleep 600 &\necho $$ $! > ../pids.new\nmv ../pids.new ../pids\nwait\n";

/// The process ids that a program has written down.
fn pids(dir: &Dir) -> Vec<Pid> {
    eventually("the program runs", || dir.path("pids").exists());
    let text = fs::read_to_string(dir.path("pids")).unwrap();
    text.split_whitespace().map(|id| Pid::from_raw(id.parse().unwrap()).unwrap()).collect()
}

/// `true` if a process runs; a zombie does not count.
fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let is_zombie =
        stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|s| s.starts_with('Z')));
    test_kill_process(pid).is_ok() && !is_zombie
}

#[test]
fn a_program_without_a_response_is_killed_with_its_children() {
    let dir = Dir::new(&[]);
    dir.program("bin/hangs.sh", HANGS);
    let server = server(&dir, "first_byte_timeout = \"500ms\"");
    // On a busy machine a program may be killed before it has written anything.
    eventually("one has come so far", || {
        let (head, _) = get(&mut server.connect(), "/cgi-bin/hangs.sh");
        assert!(head.starts_with("HTTP/1.1 504 "), "{head}");
        dir.path("pids").exists()
    });
    for pid in pids(&dir) {
        eventually("it is gone", || !runs(pid));
    }
}

#[test]
fn a_program_whose_client_has_disconnected_is_killed() {
    let dir = Dir::new(&[]);
    dir.program("bin/hangs.sh", HANGS);
    let server = server(&dir, "");
    let client = server.send("GET /cgi-bin/hangs.sh HTTP/1.1\r\nHost: a\r\n\r\n");
    let pids = pids(&dir);
    assert!(pids.iter().all(|pid| runs(*pid)));
    client.reset();
    for pid in pids {
        eventually("it is gone", || !runs(pid));
    }
}

#[test]
fn a_program_that_pauses_within_its_response_is_killed() {
    let dir = Dir::new(&[]);
    let text = HANGS.replace("wait", "printf 'Content-Type: a/b\\n\\npart'\nwait");
    dir.program("bin/pauses.sh", &text);
    let server = server(&dir, "read_timeout = \"300ms\"");
    let mut client = server.send("GET /cgi-bin/pauses.sh HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert_eq!(client.chunk(), "part");
    client.expect_early_end(1, "a pause");
    for pid in pids(&dir) {
        eventually("it is gone", || !runs(pid));
    }
}

/// Regression: a program that wrote a byte now and then kept its place for days after a HEAD.
#[test]
fn a_program_without_end_is_killed_after_a_head() {
    let dir = Dir::new(&[]);
    let text = "#!/bin/sh\necho $$ > ../pids.new\nmv ../pids.new ../pids\n\
                printf 'Content-Type: a/b\\n\\n'\nwhile :; do printf x; sleep 0.05; done\n";
    dir.program("bin/endless.sh", text);
    let server = server(&dir, "read_timeout = \"500ms\"");
    let mut client = server.send("HEAD /cgi-bin/endless.sh HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    for pid in pids(&dir) {
        eventually("it is gone", || !runs(pid));
    }
}

#[test]
fn a_program_that_ends_without_a_response_is_a_bad_gateway() {
    let dir = Dir::new(&[]);
    dir.program("bin/mute.sh", "#!/bin/sh\nexit 0\n");
    dir.program("bin/half.sh", "#!/bin/sh\nprintf 'Content-Type: a/b\\n'\n");
    dir.program("bin/killed.sh", "#!/bin/sh\nkill -9 $$\n");
    let server = server(&dir, "");
    let mut client = server.connect();
    for name in ["mute.sh", "half.sh", "killed.sh"] {
        let (head, _) = get(&mut client, &format!("/cgi-bin/{name}"));
        assert!(head.starts_with("HTTP/1.1 502 "), "{name}: {head}");
    }
}

#[test]
fn a_program_may_go_on_after_a_response_of_known_length() {
    let dir = Dir::new(&[]);
    let text = "#!/bin/sh\nprintf 'Content-Type: a/b\\nContent-Length: 2\\n\\nok'\n\
                while [ ! -e ../go ]; do :; done\necho > ../done\n";
    dir.program("bin/after.sh", text);
    let server = server(&dir, "");
    assert_eq!(get(&mut server.connect(), "/cgi-bin/after.sh").1, "ok");
    assert!(!dir.path("done").exists());
    dir.write("go", "");
    eventually("it comes to its end", || dir.path("done").exists());
}

/// Regression: it was killed as soon as its head was read.
#[test]
fn a_program_may_go_on_after_it_has_named_a_file() {
    let dir = Dir::new(&[]);
    let text = "#!/bin/sh\nprintf 'X-Accel-Redirect: /f.txt\\n\\n'\n\
                while [ ! -e ../go ]; do :; done\necho > ../done\n";
    dir.program("bin/after.sh", text);
    dir.write("files/f.txt", "the file");
    let server = server(&dir, &format!("internal = {:?}", dir.path("files")));
    assert_eq!(get(&mut server.connect(), "/cgi-bin/after.sh").1, "the file");
    assert!(!dir.path("done").exists());
    dir.write("go", "");
    eventually("it comes to its end", || dir.path("done").exists());
}

#[test]
fn programs_at_once_are_limited() {
    let dir = Dir::new(&[]);
    dir.program("bin/hangs.sh", HANGS);
    dir.program("bin/ok.sh", "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\nok'\n");
    let mount = format!("path = \"/cgi-bin\"\ncgi = {:?}", dir.path("bin"));
    let server = Proxy::of("[limits]\nprograms = 1\n", &mount);
    let first = server.send("GET /cgi-bin/hangs.sh HTTP/1.1\r\nHost: a\r\n\r\n");
    pids(&dir);
    let mut client = server.connect();
    let (head, _) = get(&mut client, "/cgi-bin/ok.sh");
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    first.reset();
    eventually("its place is free", || {
        get(&mut client, "/cgi-bin/ok.sh").0.starts_with("HTTP/1.1 200 ")
    });
}

/// `git` maps packs of any size; the limit is for what a program allocates.
#[test]
fn a_program_may_map_files_beyond_its_memory_and_the_log_names_the_limit() {
    crate::log::begin();
    let dir = Dir::new(&[]);
    let large = dir.path("large");
    fs::File::create(&large).unwrap().set_len(2 << 30).unwrap();
    let maps = "import mmap; f = open({large}, 'rb')\nm = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n\
                print('Content-Type: text/plain\\n\\n', len(m))\n";
    let maps = maps.replace("{large}", &format!("{large:?}"));
    dir.program("bin/maps.py", &format!("#!/usr/bin/env python3\n{maps}"));
    let takes = "x = bytearray(900 << 20)\nprint('Content-Type: text/plain\\n\\n', len(x))\n";
    dir.program("bin/takes.py", &format!("#!/usr/bin/env python3\n{takes}"));
    let server = server(&dir, "memory = \"500 MiB\"");
    let mut client = server.connect();
    let (head, body) = get(&mut client, "/cgi-bin/maps.py");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.contains("2147483648"), "{head}{body}");
    let (head, _) = get(&mut client, "/cgi-bin/takes.py");
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    eventually("the limit is named", || {
        !crate::log::lines_with(
            "takes.py: exit status: 1; its limits are cpu_time 1m, memory 500 MiB",
        )
        .is_empty()
    });
}

/// Regression: a program that had sent its head was killed while it waited for a slow upload.
#[test]
fn a_program_with_a_head_waits_for_a_slow_upload() {
    let dir = Dir::new(&[]);
    dir.program("bin/echo.sh", "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\n'\nexec cat\n");
    let text = HANGS.replace("wait", "printf 'Content-Type: a/b\\n\\npart'\nwait");
    dir.program("bin/pauses.sh", &text);
    let server = server(&dir, "read_timeout = \"300ms\"");
    let mut client =
        server.send("POST /cgi-bin/echo.sh HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none");
    client.head();
    assert_eq!(client.chunk(), "one");
    // The time limit of another program passes.
    let mut other = server.send("GET /cgi-bin/pauses.sh HTTP/1.1\r\nHost: a\r\n\r\n");
    other.head();
    assert_eq!(other.chunk(), "part");
    other.expect_early_end(1, "a pause");
    client.send("two");
    assert_eq!(client.chunks(), b"two");
}
