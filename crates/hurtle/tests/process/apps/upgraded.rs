//! Applications while another process replaces the server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use super::{Apps, ECHO, get_until};
use crate::child::eventually;
use crate::support::Client;
use crate::upgrade::{Upgraded, said};

const CONFIG: &str = "apps = \"{root}/../apps\"\nroot = \"{root}\"\n";

/// Answers only if no other process of it runs.
const ALONE: &str = r#"
import fcntl
lock = open("lock")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit("another one runs")
def tell(method, path, sent):
    return "alone"
serve()
"#;

#[test]
fn an_application_answers_every_request() {
    let apps = Apps::new(&[]);
    apps.deploy_python("app", "/app", "", ECHO);
    let mut server = Upgraded::of(apps.dir, CONFIG, |_| {});
    let before = get_until(&server.child, "/app/", 200);
    let address = server.child.address();
    let (done, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        let answer = Client::connect(address).request("GET", "/app/");
                        assert_eq!(answer.status, 200);
                        served.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            let enough = served.load(SeqCst) + 50;
            eventually("requests are served", || {
                served.load(SeqCst) > enough
                    || clients.iter().any(thread::ScopedJoinHandle::is_finished)
            });
            server.upgrade();
        }
        done.store(true, SeqCst);
    });
    let pid = |text: &str| text.split(' ').next().unwrap().to_owned();
    let after = server.child.get("/app/");
    assert_ne!(pid(before.text()), pid(after.text()), "the new server has its own process");
}

#[test]
fn an_application_that_cannot_run_twice_keeps_the_server() {
    let program = format!("{}{ALONE}", super::SERVE);
    // Regression: of a socket that the server passes nothing was asked.
    for socket in ["socket = \"path\"\n", ""] {
        let apps = Apps::new(&[]);
        let manifest = format!("path = \"/app\"\ncommand = [\"python3\", \"app.py\"]\n{socket}");
        apps.deploy("app", &[("app.toml", &manifest), ("app.py", &program), ("lock", "")]);
        let server = Upgraded::of(apps.dir, CONFIG, |_| {});
        get_until(&server.child, "/app/", 200);
        let output = server.command("upgrade").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{socket}: {}", said(&output));
        for part in ["the application at /app does not start", "another one runs"] {
            assert!(said(&output).contains(part), "{socket}: {}", said(&output));
        }
        assert_eq!(server.child.get("/app/").text(), "alone", "{socket}");
    }
}
