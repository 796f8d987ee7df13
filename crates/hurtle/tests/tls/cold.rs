//! Files on a disk that does not respond: no event loop waits for them, over TLS either.

use std::fs;

use crate::child::{Child, eventually, write_config};
use crate::frames::*;
use crate::fuse::{FOUND, Hanging};
use crate::peer::{Choices, Options, Peer};
use crate::server::Authority;
use crate::support::Dir;

/// Requests that are answered while another waits for the disk.
const HOT_REQUESTS: u32 = 100;

#[test]
fn a_hanging_disk_delays_no_other_request() {
    let dir = Dir::new(&[("hot.txt", "hot\n"), ("hanging/", "")]);
    let hanging = match Hanging::mount(&dir.path("hanging")) {
        Ok(hanging) => hanging,
        Err(e) => {
            println!("skipped: no FUSE mount here ({e}); needs root and /dev/fuse");
            return;
        }
    };
    let authority = Authority::new("the test's authority");
    let pair = authority.issue("a.test");
    fs::write(dir.path("../a.pem"), format!("{}{}", pair.chain, pair.key)).unwrap();
    let config = format!(
        "listen_tls = '127.0.0.1:0'\n[[site]]\nhosts = 'a.test'\n[site.tls]\ncertificate = '{}'\n\
         [[site.mount]]\nfiles = '{{root}}'\n[[site.mount]]\npath = '/cold'\n\
         files = '{{root}}/hanging'\n",
        dir.path("../a.pem").display()
    );
    let mut command = crate::child::hurtle();
    let child = Child::start(command.arg("--config").arg(write_config(&dir, &config)));
    let said = child.stdout();
    let address = said.lines().find_map(|line| line.trim().strip_prefix("https://"));
    let address = address.unwrap().trim_end_matches('/').parse().unwrap();
    let client = |alpn| {
        let choices = Choices { alpn, ..Choices::default() };
        Peer::connect(address, "a.test", &Options::of(authority.roots(), &choices)).unwrap()
    };

    let mut cold = client(&[]);
    cold.send(format!("GET /cold/{FOUND} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    eventually("its bytes are waited for", || hanging.reading() > 0);
    let mut hot = client(&[]);
    for _ in 0..HOT_REQUESTS {
        assert_eq!(hot.get("/hot.txt").body, b"hot\n");
    }
    // Also on the same connection, over HTTP/2.
    let mut wire = Wire::over(client(&["h2"]), &[]);
    let get = |stream: u32, path: &str| {
        let fields =
            [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", path)];
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields))
    };
    wire.send(&get(1, &format!("/cold/{FOUND}")));
    for n in 1..=HOT_REQUESTS {
        wire.send(&get(2 * n + 1, "/hot.txt"));
        let data = wire.next_of(DATA);
        assert_eq!((data.stream, &data.payload[..]), (2 * n + 1, &b"hot\n"[..]));
    }
    cold.socket.set_nonblocking(true).unwrap();
    let answered = cold.read(&mut [0]);
    assert!(answered.is_err(), "the disk gave something: {answered:?}");
    // Before the server ends: a thread that waits for the disk cannot be killed.
    drop(hanging);
}
