//! Bodies over HTTP/3 that are kept, so that a slow client holds no upstream.

use bytes::{Buf as _, Bytes};

use crate::peer::{answer, ask, body, get, request};
use crate::server::Server;
use crate::support::one_worker::OneWorker;

/// More than the windows and sockets on the way hold.
const LARGE: usize = 24 << 20;

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn proxy(upstream: &OneWorker) -> Server {
    let text = "listen_tls = \"127.0.0.1:1\"\n[[site]]\n[site.tls]\ncertificate = \"a\"\nkey = \"b\"\n\
                [[site.mount]]\nproxy = \"http://";
    Server::configured(&[], &format!("{text}{}\"\n", upstream.address))
}

#[test]
fn a_client_that_sends_slowly_holds_no_upstream() {
    let mut upstream = OneWorker::start(Vec::new());
    let sent = Bytes::from(noise(300_000));
    proxy(&upstream).talk(async |mut client| {
        let asked = request("POST", "/slow\ncontent-length: 300000");
        let mut slow = client.send_request(asked).await.unwrap();
        slow.send_data(sent.slice(..200_000)).await.unwrap();
        assert_eq!(get(&mut client, "/fast").await.body, b"ok", "while it sends");
        assert_eq!(upstream.answered.recv().await.unwrap().0, "GET /fast HTTP/1.1");
        slow.send_data(sent.slice(200_000..)).await.unwrap();
        slow.finish().await.unwrap();
        assert_eq!(answer(&mut slow).await.1.body, b"ok");
        let (line, body) = upstream.answered.recv().await.unwrap();
        assert_eq!(line, "POST /slow HTTP/1.1");
        assert!(body == sent);
    });
}

#[test]
fn a_client_that_reads_slowly_holds_no_upstream() {
    let large = noise(LARGE);
    let mut upstream = OneWorker::start(large.clone());
    proxy(&upstream).talk(async |mut client| {
        let mut slow = ask(&mut client, "GET", "/large", Bytes::new()).await;
        slow.recv_response().await.unwrap();
        let mut begin = slow.recv_data().await.unwrap().unwrap();
        let mut read = begin.copy_to_bytes(begin.remaining()).to_vec();
        assert_eq!(upstream.answered.recv().await.unwrap().0, "GET /large HTTP/1.1");
        assert_eq!(get(&mut client, "/fast").await.body, b"ok", "while it reads");
        read.extend(body(&mut slow).await.unwrap().0);
        assert!(read == large, "{} bytes", read.len());
    });
}
