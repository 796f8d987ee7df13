//! Bodies over HTTP/2 that are kept, so that a slow client holds no upstream.

use bytes::Bytes;

use crate::bodies::RunningServer;
use crate::peer::{answer, ask, body, request, talk};
use crate::support::one_worker::OneWorker;

/// More than the windows and sockets on the way hold.
const LARGE: usize = 24 << 20;

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn a_client_that_sends_slowly_holds_no_upstream() {
    let mut upstream = OneWorker::start(Vec::new());
    let sent = Bytes::from(noise(300_000));
    talk(RunningServer::proxy(upstream.address).address, async |mut client| {
        let mut ready = client.clone().ready().await.unwrap();
        let asked = request("POST", "/slow\ncontent-length: 300000");
        let (slow, mut stream) = ready.send_request(asked, false).unwrap();
        stream.send_data(sent.slice(..200_000), false).unwrap();
        let fast = answer(ask(&mut client, "GET", "/fast").await).await;
        assert_eq!(fast.body, b"ok", "while it sends");
        assert_eq!(upstream.answered.recv().await.unwrap().0, "GET /fast HTTP/1.1");
        stream.send_data(sent.slice(200_000..), true).unwrap();
        assert_eq!(answer(slow).await.body, b"ok");
        let (line, body) = upstream.answered.recv().await.unwrap();
        assert_eq!(line, "POST /slow HTTP/1.1");
        assert!(body == sent);
    });
}

#[test]
fn a_client_that_reads_slowly_holds_no_upstream() {
    let large = noise(LARGE);
    let mut upstream = OneWorker::start(large.clone());
    talk(RunningServer::proxy(upstream.address).address, async |mut client| {
        let slow = ask(&mut client, "GET", "/large").await.await.unwrap();
        assert_eq!(upstream.answered.recv().await.unwrap().0, "GET /large HTTP/1.1");
        let fast = answer(ask(&mut client, "GET", "/fast").await).await;
        assert_eq!(fast.body, b"ok", "while it reads");
        let (read, _) = body(&mut slow.into_body()).await.unwrap();
        assert!(read == large, "{} bytes", read.len());
    });
}
