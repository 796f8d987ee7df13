//! Grants: directories, outbound requests, environment variables. A component asks for more than it
//! is granted, in every way that its interfaces offer.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::thread;

use super::Served;
use crate::support::Dir;

/// Numbers of errors in `wasi:filesystem`, as the component gives them.
const NO_ENTRY: &str = "error 20";
const NOT_PERMITTED: &str = "error 31";

/// `HTTP-request-denied` of `wasi:http`.
const DENIED: &str = "error 15";

#[test]
fn a_component_has_only_what_it_is_granted() {
    let served = Served::start("", "");
    assert_eq!(served.get("/app/dirs").text(), "0");
    assert_eq!(served.get("/app/vars").text(), "HURTLE_PATH=/app\n");
    assert_eq!(served.get("/app/o?h127.0.0.1:1/").text(), DENIED);

    let served = Served::start("match = { method = 'GET' }\n", "");
    assert_eq!(served.get("/app/vars").text(), "HURTLE_PATH=/app\n", "conditions are no path");

    let table = "dirs = { '/data' = '{root}' }\nwritable_dirs = { '/state' = '{root}' }\n\
                 env = { A = 'b', C = 'd' }\n";
    let served = Served::start("", table);
    assert_eq!(served.get("/app/dirs").text(), "2");
    let vars = served.get("/app/vars");
    let mut vars: Vec<&str> = vars.text().lines().collect();
    vars.sort_unstable();
    assert_eq!(vars, ["A=b", "C=d", "HURTLE_PATH=/app"]);
}

/// A server whose component may read `granted`, or read and write it. Beside that directory is a
/// file, `outside.txt`, that it may not reach.
fn serve_directory(key: &str) -> Served {
    let dir = Dir::new(&[
        ("a.txt", "a file\n"),
        ("outside.txt", "outside\n"),
        ("granted/a.txt", "granted\n"),
        ("granted/sub/b.txt", "beneath\n"),
    ]);
    let granted = dir.path("granted");
    let outside = dir.path("outside.txt");
    // The server may run as another user.
    for writable in ["granted", "granted/sub"] {
        fs::set_permissions(dir.path(writable), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let link = |target: &Path, name: &str| symlink(target, granted.join(name)).unwrap();
    link(Path::new("sub/b.txt"), "in");
    link(Path::new("../outside.txt"), "out");
    link(&outside, "absolute");
    link(&granted.join("a.txt"), "absolute-in");
    link(Path::new(".."), "sub/up");
    link(Path::new("../.."), "sub/up-out");
    link(Path::new("/proc/self"), "proc");
    link(Path::new("proc"), "proc-in-two-steps");
    Served::of(dir, "", &format!("{key} = {{ '/data' = '{{root}}/granted' }}\n"))
}

/// Names that lead out of the directory.
fn escapes(served: &Served) -> Vec<String> {
    let outside = served.dir.path("outside.txt").display().to_string();
    let names = [
        "../outside.txt",
        "sub/../../outside.txt",
        "./../granted/../outside.txt",
        "out",
        "absolute",
        "absolute-in",
        "sub/up-out/outside.txt",
        "/outside.txt",
        "/data/a.txt",
        "/proc/self/environ",
        "../../../../../../../../proc/self/environ",
        "proc/environ",
        "proc/root/etc/passwd",
        "proc-in-two-steps/environ",
        "..",
        "/",
    ];
    names.into_iter().map(str::to_owned).chain([outside]).collect()
}

#[test]
fn a_granted_directory_is_read_and_nothing_else() {
    let served = serve_directory("dirs");
    for (name, expected) in [
        ("a.txt", "granted\n"),
        ("sub/b.txt", "beneath\n"),
        ("sub/../a.txt", "granted\n"),
        ("in", "beneath\n"),
        ("sub/up/a.txt", "granted\n"),
        ("none.txt", NO_ENTRY),
    ] {
        assert_eq!(served.get(&format!("/app/r?0{name}")).text(), expected, "{name}");
    }
    for name in escapes(&served) {
        assert_eq!(served.get(&format!("/app/r?0{name}")).text(), NOT_PERMITTED, "{name}");
    }
    // Nothing is written: not to a file, not to a new one, and no name is changed.
    for name in ["a.txt", "new.txt", "in", "out", "../outside.txt", "sub/up/a.txt"] {
        for operation in ["u", "k", "y", "z", "j"] {
            let said = served.get(&format!("/app/{operation}?0{name}"));
            assert_eq!(said.text(), NOT_PERMITTED, "{operation} {name}");
        }
    }
    expect_unchanged(&served);
    assert!(!served.dir.path("granted/new.txt").exists());
    assert!(fs::symlink_metadata(served.dir.path("granted/made")).is_err());
    served.expect_undisturbed();
}

#[test]
fn a_writable_directory_is_written_and_nothing_else() {
    let served = serve_directory("writable_dirs");
    let granted = served.dir.path("granted");
    let said = |operation: &str, name: &str| {
        served.get(&format!("/app/{operation}?0{name}")).text().to_owned()
    };
    for name in escapes(&served) {
        assert_eq!(said("r", &name), NOT_PERMITTED, "read {name}");
        assert_eq!(said("u", &name), NOT_PERMITTED, "write {name}");
    }
    // Operations on a link itself stay in the directory; those on names outside do not.
    for name in ["../outside.txt", "sub/up-out/outside.txt", "proc/environ", "/proc/self/environ"] {
        for operation in ["k", "z", "j"] {
            assert_eq!(said(operation, name), NOT_PERMITTED, "{operation} {name}");
        }
    }
    assert!(fs::symlink_metadata(granted.join("made")).is_err());
    expect_unchanged(&served);

    assert_eq!(said("y", "/proc/self"), NOT_PERMITTED, "a link to an absolute path");
    // A link of its own that leads out is of no use to it.
    assert_eq!(said("y", "../outside.txt"), "hello\n");
    assert_eq!(said("r", "made"), NOT_PERMITTED);
    assert_eq!(said("u", "made"), NOT_PERMITTED);
    assert_eq!(said("k", "made"), "hello\n");
    expect_unchanged(&served);

    assert_eq!(said("u", "sub/new.txt"), "hello\n");
    assert_eq!(fs::read_to_string(granted.join("sub/new.txt")).unwrap(), "hello\n");
    assert_eq!(said("r", "sub/new.txt"), "hello\n");
    assert_eq!(said("j", "sub/new.txt"), "hello\n", "`made` is another name");
    assert_eq!(said("k", "made"), "hello\n");
    assert_eq!(said("r", "made"), NO_ENTRY);
    assert_eq!(said("z", "sub/new.txt"), "hello\n", "renamed to `made`");
    assert_eq!(said("r", "made"), "hello\n");
    assert_eq!(said("r", "sub/new.txt"), NO_ENTRY);
    served.expect_undisturbed();
}

#[track_caller]
fn expect_unchanged(served: &Served) {
    let read = |name: &str| fs::read_to_string(served.dir.path(name)).unwrap();
    assert_eq!(read("outside.txt"), "outside\n");
    assert_eq!(read("granted/a.txt"), "granted\n");
    assert_eq!(read("granted/sub/b.txt"), "beneath\n");
}

/// A listener that nothing may connect to.
struct Forbidden(TcpListener);

impl Forbidden {
    fn listen() -> Forbidden {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Forbidden(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// A connection would be in the queue before the component had its response.
    #[track_caller]
    fn expect_no_connection(&self) {
        let accepted = self.0.accept();
        assert!(
            accepted.as_ref().is_err_and(|e| e.kind() == ErrorKind::WouldBlock),
            "{accepted:?}"
        );
    }
}

/// Starts a server that answers each request with these bytes; returns its port. Its thread ends
/// with the test program.
fn answering(response: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && peer.read(&mut byte).is_ok_and(|n| n == 1) {
                head.push(byte[0]);
            }
            let _ = peer.write_all(response.as_bytes());
        }
    });
    port
}

#[test]
fn only_granted_origins_are_reached() {
    let forbidden = Forbidden::listen();
    let other = forbidden.port();
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\n";
    let port = answering(format!("{head}reply\n"));
    let table = format!("outbound = ['http://localhost:{port}']\n");
    let served = Served::start("", &table);
    assert_eq!(served.get(&format!("/app/o?hlocalhost:{port}/x?y")).text(), "reply\n");
    assert_eq!(served.get(&format!("/app/o?hLocalHost:{port}/")).text(), "reply\n");
    let refused = [
        ("another port", format!("hlocalhost:{other}/")),
        ("an address of the granted host", format!("h127.0.0.1:{port}/")),
        ("the same for IPv6", format!("h[::1]:{port}/")),
        ("the address in another form", format!("h2130706433:{port}/")),
        ("a name that ends with a dot", format!("hlocalhost.:{port}/")),
        ("a name beneath it", format!("ha.localhost:{port}/")),
        ("another scheme", format!("slocalhost:{port}/")),
        ("the port of the scheme", "hlocalhost/".to_owned()),
        ("the granted origin as a user", format!("hlocalhost:{port}@127.0.0.1:{other}/")),
        ("a port outside the range", "hlocalhost:65537/".to_owned()),
        ("another host", format!("h127.0.0.1:{other}/")),
    ];
    for (sentence, target) in refused {
        let said = served.get(&format!("/app/o?{target}"));
        assert_eq!(said.text(), DENIED, "{sentence}: {target}");
    }
    forbidden.expect_no_connection();
    served.expect_undisturbed();
}

#[test]
fn a_redirect_leads_to_no_other_origin() {
    let forbidden = Forbidden::listen();
    let target = format!("127.0.0.1:{}/", forbidden.port());
    let port = answering(format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{target}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    ));
    let served = Served::start("", &format!("outbound = ['http://127.0.0.1:{port}']\n"));
    let response = served.get(&format!("/app/o?h127.0.0.1:{port}/"));
    assert_eq!(response.status, 302, "the component gets it, and it is not followed");
    forbidden.expect_no_connection();
    assert_eq!(served.get(&format!("/app/o?h{target}")).text(), DENIED, "nor may it follow it");
    forbidden.expect_no_connection();
}
