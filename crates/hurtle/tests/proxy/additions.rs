//! Tests of CORS and of the security preset on responses of upstreams.

use crate::support::{Proxy, Upstream};

#[test]
fn the_servers_cors_replaces_the_upstreams_and_the_preset_overrides_nothing() {
    let upstream = Upstream::new();
    let site = "security_headers = true\ncors = { origins = \"https://a.example\" }\n\
                header = [{ set = { Referrer-Policy = \"no-referrer\" } }]";
    let proxy = Proxy::of_site(site, &format!("proxy = \"http://{}\"", upstream.address));
    for (status, policy) in [("200 OK", "no-referrer"), ("404 Not Found", "origin")] {
        let mut client =
            proxy.send("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n\r\n");
        let (mut peer, _) = upstream.next_request();
        peer.send(format!(
            "HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\
             Access-Control-Allow-Origin: *\r\naccess-control-allow-credentials: true\r\n\
             x-frame-options: DENY\r\nReferrer-Policy: origin\r\nVary: Accept\r\n\r\nok"
        ));
        let (head, body) = client.answer();
        assert_eq!(body, "ok");
        let mut lines: Vec<String> = head.lines().map(str::to_lowercase).collect();
        lines.sort();
        let policy = format!("referrer-policy: {policy}");
        let expected = [
            "access-control-allow-origin: https://a.example",
            "content-length: 2",
            "cross-origin-opener-policy: same-origin",
            &format!("http/1.1 {}", status.to_lowercase()),
            &policy,
            "server: hurtle",
            "vary: accept",
            "vary: origin",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
        ];
        assert_eq!(lines, expected, "{head}");
    }
}
