//! grpc-go on both sides: the program in `peer.go`, built once, is the upstream and the client.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::go;
use crate::support::Proxy;

const GO: &str = include_str!("peer.go");

/// Results of the calls of `peer.go`, as without a proxy.
const CALLS: &str = "\
unary hello <nil> [word] [end] [\"\\x00\\xff\"]
fail FailedPrecondition no: hello
none Unimplemented
large 3000000 <nil>
collect 290 true
count 200
chat true
together <nil>
flood 12000000
deadline DeadlineExceeded
cancel Canceled
";

/// A process of the program.
struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(program: &Path, arguments: &[&str]) -> Peer {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Peer { child, input, lines }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        self.lines.next().expect("the program has ended").unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn all_kinds_of_calls() {
    let Some(program) = built_with_go() else {
        println!("skipped: there is no Go, or grpc-go cannot be fetched");
        return;
    };
    let mut server = Peer::start(&program, &["serve"]);
    let proxy = Proxy::of("", &format!("proxy = \"h2c://127.0.0.1:{}\"", server.line()));
    let client = Command::new(&program).args(["call", &proxy.address.to_string()]).output();
    let client = client.unwrap();
    let errors = String::from_utf8_lossy(&client.stderr);
    assert_eq!(String::from_utf8_lossy(&client.stdout), CALLS, "{errors}");
    // The deadline and the cancellation have reached the upstream, whose own clock may be the
    // first.
    let late = server.line();
    let ends =
        ["late context canceled deadline=true", "late context deadline exceeded deadline=true"];
    assert!(ends.contains(&&*late), "{late}");
    assert_eq!(server.line(), "left context canceled deadline=true");
}

#[test]
fn an_upstream_that_dies_or_leaves() {
    let Some(program) = built_with_go() else { return };
    let mut server = Peer::start(&program, &["serve"]);
    let proxy = Proxy::of("", &format!("proxy = \"h2c://127.0.0.1:{}\"", server.line()));
    let target = proxy.address.to_string();
    let mut client = Peer::start(&program, &["hang", &target]);
    assert_eq!(client.line(), "open");
    // It sends GOAWAY and answers what it has; the call goes on.
    drop(server.input.take());
    let mut late = Peer::start(&program, &["hang", &target]);
    assert_eq!(late.line(), "ended Unavailable", "a new connection is refused");
    server.child.kill().unwrap();
    assert_eq!(client.line(), "ended Unavailable");
}

fn built_with_go() -> Option<PathBuf> {
    go::built("grpc-go", "google.golang.org/grpc@v1.72.0", GO)
}
