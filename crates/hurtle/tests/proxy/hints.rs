//! Tests of 103 Early Hints over HTTP/1.1, from the server and from an upstream.

use crate::support::{GET, OK, Proxy, Upstream};

const LINK: &str = "[[site.header]]\nset = { Link = \"</a.css>; rel=preload\" }\n";
const OWN: &str = "HTTP/1.1 103 Early Hints\nLink: </a.css>; rel=preload\n";
const UPSTREAMS: &str = "HTTP/1.1 103 Early Hints\nLink: </b.css>; rel=preload\n";

#[test]
fn the_site_selects_the_clients_of_an_upstreams_hints() {
    let upstream = Upstream::new();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let old = "GET / HTTP/1.0\r\n\r\n";
    let table: [(&str, &str, &str, &[&str]); 7] = [
        ("some clients take the first answer for the last", "", GET, &[UPSTREAMS]),
        ("the same, said", "early_hints = \"h2\"", GET, &[UPSTREAMS]),
        ("always", "early_hints = \"always\"", GET, &[OWN, UPSTREAMS]),
        ("an answer to something else", "early_hints = \"always\"", post, &[UPSTREAMS]),
        ("HTTP/1.0 does not know them", "early_hints = \"always\"", old, &[]),
        ("never", "early_hints = \"off\"", GET, &[]),
        ("nor for something else", "early_hints = \"off\"", post, &[]),
    ];
    for (sentence, key, request, expected) in table {
        let mount = format!("proxy = \"http://{}\"", upstream.address);
        let server = Proxy::of_site(&format!("{key}\n{LINK}"), &mount);
        let mut client = server.send(request);
        let (mut peer, _) = upstream.next_request();
        if expected.contains(&OWN) {
            assert_eq!(client.head(), OWN, "{sentence}: before the upstream says a word");
        }
        peer.send(UPSTREAMS.replace('\n', "\r\n") + "\r\n");
        if expected.contains(&UPSTREAMS) {
            assert_eq!(client.head(), UPSTREAMS, "{sentence}");
        }
        peer.send(OK);
        let (head, body) = client.answer();
        assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{sentence}: {head}");
        assert!(head.contains("Link: </a.css>; rel=preload\n"), "{sentence}: {head}");
        assert_eq!(body, "ok", "{sentence}");
    }
}
