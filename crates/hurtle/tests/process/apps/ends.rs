//! The end of a server or an application leaves none of its processes behind.

use std::net::TcpStream;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::{Apps, FAMILY, get_until, lives, logged, numbers, socket_dir};
use crate::child::eventually;

#[test]
fn a_stop_ends_every_process_and_removes_the_sockets() {
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "", &format!("{FAMILY}serve()\n"));
    let mut child = apps.serve();
    let family = numbers(&get_until(&child, "/a", 200));
    assert_eq!(family.len(), 4);
    assert!(family.iter().all(|pid| lives(*pid)), "{family:?}");
    let server: u32 = child.proc("stat").split(' ').next().unwrap().parse().unwrap();
    let sockets = socket_dir(server);
    let begun = Instant::now();
    child.signal(Signal::TERM);
    assert_eq!(child.wait().code(), Some(0), "{}", child.stderr());
    let left: Vec<_> = family.iter().filter(|pid| lives(**pid)).collect();
    assert!(left.is_empty(), "{left:?} of {family:?}");
    assert!(!sockets.exists());
    assert!(begun.elapsed().as_secs() < 4, "nobody held it up, and it took {:?}", begun.elapsed());
}

#[test]
fn a_request_in_flight_is_answered_before_its_application_ends() {
    const SLOW: &str = r#"
def tell(method, path, sent):
    print("asked", flush=True)
    while not os.path.exists("../go"):
        time.sleep(0.005)
    return "whole"
serve()
"#;
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "", SLOW);
    let mut child = apps.serve();
    let mut client = child.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    logged(&child, "app a: asked");
    child.signal(Signal::TERM);
    eventually("nobody is let in", || TcpStream::connect(child.address()).is_err());
    apps.dir.write("../apps/go", "");
    assert_eq!(client.response().text(), "whole");
    assert_eq!(child.wait().code(), Some(0));
}

#[test]
fn a_killed_server_leaves_no_process_behind() {
    // The second one ignores SIGTERM.
    let deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n";
    for (sentence, program) in [("willing", ""), ("unwilling", deaf)] {
        let apps = Apps::new(&[]);
        apps.deploy_python("a", "/a", "", &format!("{program}{FAMILY}serve()\n"));
        let mut child = apps.serve();
        let family = numbers(&get_until(&child, "/a", 200));
        assert_eq!(family.len(), 4);
        assert!(family.iter().all(|pid| lives(*pid)), "{family:?}");
        let server: u32 = child.proc("stat").split(' ').next().unwrap().parse().unwrap();
        let sockets = socket_dir(server);
        child.signal(Signal::KILL);
        eventually(&format!("the {sentence} are gone"), || !family.iter().any(|pid| lives(*pid)));
        eventually("so are their sockets", || !sockets.exists());
        child.wait();
    }
}

/// `systemctl kill --signal=SIGUSR1` signals every process of a service.
#[test]
fn a_keeper_outlives_signals_and_ends_its_application_with_the_server() {
    let ignored = "for s in ['USR1', 'USR2', 'QUIT', 'ALRM', 'HUP', 'INT', 'TERM']:\n    \
                   signal.signal(getattr(signal, 'SIG' + s), signal.SIG_IGN)\n";
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "", &format!("{ignored}{FAMILY}serve()\n"));
    let mut child = apps.serve();
    let family = numbers(&get_until(&child, "/a", 200));
    let keeper = Pid::from_raw(family[1].cast_signed()).unwrap();
    let signals = [
        Signal::USR1,
        Signal::USR2,
        Signal::QUIT,
        Signal::ALARM,
        Signal::HUP,
        Signal::INT,
        Signal::TERM,
    ];
    for signal in signals {
        kill_process(keeper, signal).unwrap();
        assert_eq!(numbers(&child.get("/a")), family, "{signal:?}");
    }
    child.signal(Signal::KILL);
    eventually("all are gone", || !family.iter().any(|pid| lives(*pid)));
    child.wait();
}

#[test]
fn a_crash_ends_the_processes_of_the_application() {
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "", &format!("{FAMILY}serve()\n"));
    let child = apps.serve();
    let before = numbers(&get_until(&child, "/a", 200));
    let mut client = child.connect();
    client.send("POST /a/crash HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().status, 502);
    let mut after = Vec::new();
    eventually("it is started again", || {
        after = Some(child.get("/a")).filter(|a| a.status == 200).map_or(vec![], |a| numbers(&a));
        after.len() == 4
    });
    assert!(before.iter().all(|pid| !lives(*pid)), "{before:?}");
    assert!(after.iter().all(|pid| lives(*pid)), "{after:?}");
}
