//! A disk that hangs under one site must not affect another site.

use std::fs;
use std::time::{Duration, Instant};

use crate::child::{Child, eventually};
use crate::fuse::Hanging;
use crate::support::{Client, Dir};

/// Clients of the hanging disk: more than its share of the disk threads and of its queue (1,024).
const HUNG_CLIENTS: usize = 1_100;

/// Files that are not cached.
const COLD_FILES: usize = 100;

/// Requests of a cached file.
const HOT_REQUESTS: usize = 100;

/// Time limit of an uncached file, in an unoptimised build.
const COLD_WAIT_MAX: Duration = Duration::from_secs(1);

#[test]
fn a_hanging_root_affects_no_other_and_its_clients_get_503() {
    let dir = Dir::new(&[("hanging/", "")]);
    for number in 0..COLD_FILES {
        dir.write(format!("good/{number}.txt"), number.to_string());
    }
    let hanging = match Hanging::mount(&dir.path("hanging")) {
        Ok(hanging) => hanging,
        Err(e) => {
            println!("skipped: no FUSE mount here ({e}); needs root and /dev/fuse");
            return;
        }
    };
    assert!(fs::metadata(dir.path("hanging")).unwrap().is_dir());
    let config = "[[site]]\n[[site.mount]]\npath = '/hanging'\nfiles = '{root}/hanging'\n\
        [[site.mount]]\npath = '/good'\nfiles = '{root}/good'\nlisting = true\n";
    let child = Child::configured(&dir, config);
    let begun = Instant::now();
    let mut hung: Vec<_> = (0..HUNG_CLIENTS).map(|_| ask(&child)).collect();
    eventually("somebody hangs", || hanging.waiting() > 0);
    let busy = |hung: &[Client]| hung.iter().filter(|client| has_answer(client)).count();
    eventually("those beyond the queue are answered at once", || busy(&hung) > 0);
    assert!(begun.elapsed() < Duration::from_secs(8), "not at once: {:?}", begun.elapsed());

    let mut client = child.connect();
    let mut slowest = Duration::ZERO;
    for number in 0..COLD_FILES {
        let begun = Instant::now();
        assert_eq!(
            client.request("GET", &format!("/good/{number}.txt")).text(),
            number.to_string()
        );
        slowest = slowest.max(begun.elapsed());
    }
    assert_eq!(client.request("GET", "/good/").status, 200, "a listing");
    for number in 0..HOT_REQUESTS {
        let answer = client.request("GET", "/good/0.txt");
        assert_eq!(answer.text(), "0", "hot request {number}");
    }
    println!("{} of {HUNG_CLIENTS} turned away, cold files in {slowest:?} at most", busy(&hung));
    assert!(slowest < COLD_WAIT_MAX, "a cold file of the other root took {slowest:?}");
    assert!(busy(&hung) < HUNG_CLIENTS, "nobody waits any more: it does not hang");

    for client in &mut hung {
        client.stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        let answer = client.response();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.field("Retry-After").is_some(), "{answer:?}");
    }
    assert_eq!(client.request("GET", "/good/1.txt").status, 200, "afterwards");
    // Unmounted before the server is killed: a thread that waits in it cannot be killed.
    drop(hanging);
}

fn ask(child: &Child) -> Client {
    let mut client = child.connect();
    client.send("GET /hanging/file HTTP/1.1\r\nHost: a\r\n\r\n");
    client
}

fn has_answer(client: &Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let has = client.stream.peek(&mut [0]).is_ok();
    client.stream.set_nonblocking(false).unwrap();
    has
}
