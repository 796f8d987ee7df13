//! `hurtle upstream drain` and `restore`: an upstream gets no new requests for a while.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use rustix::process::Signal;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::support::Dir;

/// An upstream that answers every request with its name.
fn upstream(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for peer in listener.incoming() {
            let (mut peer, mut head) = (peer.unwrap(), [0; 1024]);
            if peer.read(&mut head).unwrap_or(0) > 0 {
                let length = name.len();
                let text = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{name}"
                );
                let _ = peer.write_all(text.as_bytes());
            }
        }
    });
    address
}

#[test]
fn a_drained_upstream_gets_no_new_requests_until_it_is_restored() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let (one, two) = (upstream("one"), upstream("two"));
    let socket = dir.path("../admin.sock");
    let config = write_config(
        &dir,
        &format!(
            "admin = {socket:?}\n[[site]]\n[[site.mount]]\n\
             proxy = ['http://{one}', 'http://{two}']\n"
        ),
    );
    let child = Child::start(hurtle().arg("--config").arg(&config));
    let command = |action: &str, name: &str| {
        let mut command = hurtle();
        command.args(["upstream", action, name, "--admin"]).arg(&socket);
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let answers = || {
        let mut answers: Vec<String> = (0..6).map(|_| child.get("/").text().to_owned()).collect();
        answers.sort();
        answers.dedup();
        answers
    };
    assert_eq!(answers(), ["one", "two"]);

    let name = format!("http://{one}");
    let drained = format!("{name} is drained and gets no new requests\n");
    assert_eq!(command("drain", &name), (Some(0), drained.clone()));
    assert_eq!(answers(), ["two"]);
    assert_eq!(command("drain", &name), (Some(0), drained), "again is no error");
    child.signal(Signal::HUP);
    eventually("the reload is done", || child.stderr().contains("reloaded"));
    assert_eq!(answers(), ["two"], "a reload keeps it");
    assert_eq!(command("drain", &format!("http://{two}")).0, Some(0));
    assert_eq!(child.get("/").status, 503, "no upstream is left");

    for at in [one, two] {
        let name = format!("http://{at}");
        assert_eq!(command("restore", &name), (Some(0), format!("{name} gets requests\n")));
    }
    assert_eq!(answers(), ["one", "two"]);
    let (code, said) = command("drain", "http://127.0.0.1:9");
    let known = "no mount has the upstream http://127.0.0.1:9; there are: ";
    assert!(code == Some(1) && said.contains(known) && said.contains(&name), "{code:?} {said}");
}
