//! Herds: many connections request the same object at once, which is in no cache; once all have it,
//! the next herd requests another one. The upstream counts the requests that reach it.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::request::request;
use crate::load::{Job, Kept};
use crate::sample::{HerdUse, Load, Offered};

/// Herds of a sample, at most; one is before the sample, and opens the connections.
const HERDS_MAX: u32 = 200;

/// Time of a herd in which connections begin requests: each begins one at once, and no other.
const AT_ONCE: Duration = Duration::from_nanos(1);

/// Path on which an upstream of herds returns the number of its requests for files.
const REQUESTS: &str = "/requests";

/// Time within which it does.
const COUNTED_WITHIN: Duration = Duration::from_secs(5);

/// The requests of all herds, and their order: each has a path of its own, also among other
/// samples, and every connection requests it once.
pub(super) fn herd_requests(host: &str, path: &str, offered: &Offered) -> (Vec<Vec<u8>>, Vec<u32>) {
    let connections = match *offered {
        Offered::Closed { connections } | Offered::Open { connections, .. } => connections,
        Offered::Sessions { .. } => 1,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let requests = (0..HERDS_MAX).map(|herd| request(host, &format!("{path}?herd={now}-{herd}")));
    let order = (0..HERDS_MAX).flat_map(|herd| (0..connections).map(move |_| herd));
    (requests.collect(), order.collect())
}

/// Herds until the job's time is over.
pub(super) fn herds(job: &Job, upstream: Option<SocketAddr>) -> io::Result<(Load, HerdUse)> {
    let upstream = upstream.ok_or_else(|| io::Error::other("a herd needs an upstream"))?;
    let mut kept = Kept::new(job)?;
    kept.slice(AT_ONCE)?;
    let (mut load, mut herd) = (Load::default(), HerdUse::default());
    let before = requests(upstream)?;
    let begun = Instant::now();
    for _ in 1..HERDS_MAX {
        let one = kept.slice(AT_ONCE)?;
        herd.herds += 1;
        herd.complete.record((one.seconds * 1e9) as u64);
        load.add(&one);
        if begun.elapsed() >= job.duration {
            break;
        }
    }
    herd.upstream_requests = requests(upstream)? - before;
    Ok((load, herd))
}

/// Number of requests for files that an upstream has had.
fn requests(upstream: SocketAddr) -> io::Result<u64> {
    let mut socket = TcpStream::connect_timeout(&upstream, COUNTED_WITHIN)?;
    socket.set_read_timeout(Some(COUNTED_WITHIN))?;
    socket.write_all(&request("upstream", REQUESTS))?;
    let mut response = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let text = String::from_utf8_lossy(&response);
        // The number is the last line of the response.
        if let Some(number) = text.split_once("\r\n\r\n").and_then(|(_, b)| b.strip_suffix('\n')) {
            return number.parse().map_err(|_| io::Error::other("it counts no requests"));
        }
        match socket.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => response.extend_from_slice(&piece[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;
    use crate::load::Expected;

    /// Paths in the order of the requests.
    type Seen = Arc<Mutex<Vec<String>>>;

    /// A server that is its own upstream: of requests with the same path one is counted, or all.
    fn server(collapses: bool) -> (SocketAddr, Seen) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
        let its = seen.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (socket, seen) = (socket.unwrap(), its.clone());
                thread::spawn(move || converse(&socket, collapses, &seen));
            }
        });
        (address, seen)
    }

    fn converse(mut socket: &TcpStream, collapses: bool, seen: &Seen) -> Option<()> {
        for line in BufReader::new(socket).lines() {
            let line = line.ok()?;
            let Some(path) = line.strip_prefix("GET ") else { continue };
            let path = path.split(' ').next()?.to_owned();
            let body = if path == REQUESTS {
                let seen = seen.lock().unwrap();
                let distinct = seen.iter().collect::<BTreeSet<_>>().len();
                format!("{}\n", if collapses { distinct } else { seen.len() })
            } else {
                seen.lock().unwrap().push(path);
                "hello".to_owned()
            };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            socket.write_all((head + &body).as_bytes()).ok()?;
        }
        Some(())
    }

    #[test]
    fn all_connections_have_an_object_before_the_next_is_requested() {
        const CONNECTIONS: u32 = 5;
        for (collapses, each) in [(true, 1), (false, u64::from(CONNECTIONS))] {
            let (target, seen) = server(collapses);
            let offered = Offered::Closed { connections: CONNECTIONS };
            let (requests, order) = herd_requests("h", "/object", &offered);
            let job = Job {
                target,
                client: crate::load::Client::default(),
                requests,
                bodies: Vec::new(),
                order,
                expected: Expected { status: 200, body_bytes: 5, body: None },
                offered,
                tls: None,
                over: None,
                beside: None,
                draw: 0,
                warm_up: Duration::ZERO,
                duration: Duration::from_millis(100),
                timeout: Duration::from_secs(20),
                stop: Arc::default(),
            };
            let (load, herd) = herds(&job, Some(target)).unwrap();
            assert_eq!(load.errors.total(), 0, "{load:?}");
            assert_eq!(load.replies, herd.herds * u64::from(CONNECTIONS), "{herd:?}");
            assert_eq!(herd.upstream_requests, herd.herds * each, "{herd:?}");
            assert_eq!(herd.complete.count(), herd.herds, "{herd:?}");
            assert!(herd.complete.max() >= load.response.quantile(0.5), "{herd:?}");
            // The first opened the connections.
            let seen = seen.lock().unwrap();
            assert_eq!(seen.len() as u64, (herd.herds + 1) * u64::from(CONNECTIONS));
            let herds: Vec<BTreeSet<&String>> =
                seen.chunks(CONNECTIONS as usize).map(|herd| herd.iter().collect()).collect();
            assert!(herds.iter().all(|herd| herd.len() == 1), "one object at a time: {seen:?}");
        }
    }
}
