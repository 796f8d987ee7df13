//! Certificates on demand: the first handshake for a name orders one, if the operator's server
//! allows it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Signal;

use crate::pebble::{Net, PebbleOptions};
use crate::subscriber::{Setup, Subscriber};

/// A server that allows names below `allowed.test`, until `refuse_all`.
struct Ask {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    refuses: Arc<Mutex<bool>>,
}

impl Ask {
    fn start() -> Ask {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, refuses) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<bool>>::default());
        let (names, refuses_all) = (Arc::clone(&asked), Arc::clone(&refuses));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let mut reader = BufReader::new(socket.try_clone().unwrap());
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                while reader.read_line(&mut String::new()).is_ok_and(|length| length > 2) {}
                let target = line.split(' ').nth(1).unwrap().to_owned();
                let is_allowed = target.ends_with(".allowed.test") && !*refuses_all.lock().unwrap();
                names.lock().unwrap().push(target);
                let status = if is_allowed { "200 OK" } else { "404 Not Found" };
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = socket.write_all(answer.as_bytes());
            }
        });
        Ask { address, asked, refuses }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn setup<'a>(&self, net: &Net, rate: &str) -> Setup<'a> {
        let on_demand =
            format!("{{ ask = \"http://{}/ok?key=1\", rate = {rate:?} }}", self.address);
        Setup { hosts: &[], on_demand, ..Setup::new(net) }
    }
}

fn stop(mut server: Subscriber) {
    server.child.signal(Signal::TERM);
    server.child.wait();
}

#[test]
fn the_first_handshake_for_a_name_waits_for_its_certificate() {
    for challenge in ["tls-alpn-01", "http-01"] {
        let Some(net) = Net::new() else { return };
        let pebble = net.pebble(0, &PebbleOptions::default());
        let ask = Ask::start();
        let setup = Setup { challenge, ..ask.setup(&net, "100/m") };
        let server = setup.start(&net, 0);
        let roots = pebble.roots();
        // At once: both handshakes wait for one order.
        let (first, second) = thread::scope(|scope| {
            let connect = || scope.spawn(|| server.connect("A.allowed.test", &roots));
            let (first, second) = (connect(), connect());
            (first.join().unwrap(), second.join().unwrap())
        });
        let (mut first, mut second) = (first.unwrap(), second.unwrap());
        assert_eq!(first.get_of("a.allowed.test", "/a.txt").body, b"hello\n");
        assert_eq!(first.certificate(), second.certificate());
        assert_eq!(second.get_of("a.allowed.test", "/a.txt").body, b"hello\n");
        let mut other = server.connect("b.allowed.test", &roots).unwrap();
        assert_ne!(other.certificate(), first.certificate(), "each name has its own");
        assert_eq!(other.get_of("b.allowed.test", "/a.txt").body, b"hello\n");
        assert_eq!(pebble.orders(), 2, "{challenge}");
        let expected = ["a", "b"].map(|name| format!("/ok?key=1&domain={name}.allowed.test"));
        assert_eq!(ask.asked(), expected);
        let log = server.child.stderr();
        assert!(
            log.contains("starts no program") || log.contains("no sandbox: the kernel"),
            "{log}"
        );
        // A certificate in the storage needs neither the authority nor permission.
        stop(server);
        drop(pebble);
        let server = setup.start(&net, 0);
        let again = server.connect("a.allowed.test", &roots).unwrap().certificate();
        assert_eq!(again, first.certificate());
        assert_eq!(ask.asked().len(), 2);
    }
}

#[test]
fn two_servers_with_one_storage_order_one_certificate_for_a_name() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let ask = Ask::start();
    // The authority connects to the first server, whichever server has ordered.
    let other = Setup { ports: (6002, 6001), ..ask.setup(&net, "100/m") };
    let (second, first) = (other.start(&net, 2), ask.setup(&net, "100/m").start(&net, 1));
    let roots = pebble.roots();
    let connect =
        |server: &Subscriber| server.connect("a.allowed.test", &roots).unwrap().certificate();
    let shown = thread::scope(|scope| {
        let other = scope.spawn(|| connect(&second));
        [connect(&first), other.join().unwrap()]
    });
    assert_eq!(shown[0], shown[1]);
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn refused_names_are_asked_once_and_not_ordered() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let ask = Ask::start();
    let server = ask.setup(&net, "100/m").start(&net, 0);
    for _ in 0..3 {
        let refusal = server.refusal("a.refused.test");
        assert!(refusal.contains("UnrecognisedName"), "{refusal}");
    }
    for name in ["127.0.0.1", "localhost", "_a.allowed.test"] {
        assert!(!server.refusal(name).is_empty(), "{name}");
    }
    assert_eq!(ask.asked(), ["/ok?key=1&domain=a.refused.test"]);
    assert_eq!(pebble.orders(), 0);
    let written = fs::read_dir(server.storage.join("on-demand")).unwrap().count();
    assert_eq!(written, 0, "nothing is stored for refused names");
}

#[test]
fn orders_beyond_the_rate_are_refused_and_certificates_that_exist_are_not() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let ask = Ask::start();
    let server = ask.setup(&net, "2/h").start(&net, 0);
    let roots = pebble.roots();
    for name in ["a.allowed.test", "b.allowed.test"] {
        server.connect(name, &roots).unwrap();
    }
    assert!(server.refusal("c.allowed.test").contains("UnrecognisedName"));
    server.eventually_says("c.allowed.test: no certificate: more orders than 2/h");
    server.connect("a.allowed.test", &roots).unwrap();
    assert_eq!((pebble.orders(), ask.asked().len()), (2, 2));
}

#[test]
fn a_failed_order_is_not_repeated_by_each_handshake() {
    let Some(net) = Net::new() else { return };
    let ask = Ask::start();
    // The authority is down.
    let server = ask.setup(&net, "100/m").start(&net, 0);
    for _ in 0..3 {
        let refusal = server.refusal("a.allowed.test");
        assert!(refusal.contains("UnrecognisedName"), "{refusal}");
    }
    server.eventually_says("a.allowed.test: ordering a certificate");
    let log = server.child.stderr();
    assert_eq!(log.matches("a.allowed.test: ordering a certificate").count(), 1, "{log}");
    assert_eq!(ask.asked().len(), 1);
}

#[test]
fn a_certificate_is_renewed_unless_its_name_is_refused() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let ask = Ask::start();
    let setup = ask.setup(&net, "100/m");
    let server = setup.start(&net, 0);
    let roots = pebble.roots();
    let name = "a.allowed.test";
    let before = server.connect(name, &roots).unwrap().certificate();
    let file = server.storage.join("on-demand").join(format!("{name}.pem"));
    pebble.advise_renewal(&fs::read_to_string(&file).unwrap());
    stop(server);
    let server = setup.start(&net, 0);
    let shown = || server.connect(name, &roots).unwrap().certificate();
    server.eventually("another", || shown() != before);
    assert_eq!((pebble.orders(), ask.asked().len()), (2, 2));
    pebble.advise_renewal(&fs::read_to_string(&file).unwrap());
    *ask.refuses.lock().unwrap() = true;
    // Renewing a certificate of less than a day counts as a failed attempt.
    server.forgive(&format!("on-demand/{name}"));
    stop(server);
    let server = setup.start(&net, 0);
    server.eventually("it is dropped", || !file.exists());
    assert!(server.refusal(name).contains("UnrecognisedName"));
    assert_eq!(pebble.orders(), 2);
}
