//! Tests of request limits over HTTP/2: each stream is a request.

use std::net::TcpListener;

use crate::bodies::RunningServer;
use crate::peer;

#[test]
fn streams_of_a_connection_share_a_rate_limit_with_other_connections() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let keys = "rate_limit = [{ requests = \"1/h\", burst = 3 }]\n\
                rule = [{ match = \"*\", redirect = \"/x\" }]";
    let server = RunningServer::proxy_with(upstream.local_addr().unwrap(), keys);
    let statuses = || {
        peer::talk(server.address, async |client| {
            let mut statuses = Vec::new();
            for _ in 0..2 {
                let mut client = client.clone().ready().await.unwrap();
                let (response, _) = client.send_request(peer::request("GET", "/"), true).unwrap();
                let head = response.await.unwrap();
                let policy = head.headers().get("ratelimit-policy").cloned();
                statuses.push((head.status().as_u16(), policy.is_some()));
            }
            statuses
        })
    };
    assert_eq!(statuses(), [(302, false), (302, false)]);
    assert_eq!(statuses(), [(302, false), (429, true)]);
}
