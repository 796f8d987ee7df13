//! Applications that are deployed or removed while a request is in flight.

use super::{Apps, ECHO, get_until, logged};
use crate::child::Child;
use crate::frames::*;

/// The response to a request for nothing on the disk, as HPACK's static table has it (RFC 7541 A).
const NOT_FOUND: u8 = 0x8d;

#[test]
fn a_request_keeps_its_route_when_an_application_is_deployed_before_its_body() {
    let proxy = "[[site]]\n[[site.mount]]\nfiles = \"{root}\"\n\
                 [[site.mount]]\npath = \"/proxy\"\nproxy = \"http://127.0.0.1:9\"\n";
    let rows = [
        ("no other mount reads bodies", "root = \"{root}\"\n"),
        ("another mount reads bodies", proxy),
    ];
    for (why, site) in rows {
        let apps = Apps::new(&[("app/page", "a file\n")]);
        let child = Child::configured(&apps.dir, &format!("apps = \"{{root}}/../apps\"\n{site}"));
        let begin = |target: &str| {
            let mut client = child.connect();
            client.send(format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\
                 Expect: 100-continue\r\n\r\n"
            ));
            assert_eq!(client.response().status, 100, "{why}: the server has read the head");
            client
        };
        let (mut none, mut file) = (begin("/app/none"), begin("/app/page"));
        apps.deploy_python("app", "/app", "", ECHO);
        get_until(&child, "/app/none", 200);
        none.send("hello");
        assert_eq!(none.response().status, 404, "{why}: there was no such file");
        file.send("hello");
        assert_eq!(file.response().text(), "a file\n", "{why}: there was such a file");
        assert!(none.request("GET", "/app/none").text().ends_with("GET /app/none "), "{why}");
    }
}

#[test]
fn a_stream_keeps_its_route_when_an_application_is_deployed_before_its_body() {
    let apps = Apps::new(&[]);
    let child = apps.serve();
    let mut wire = Wire::begin(child.address(), &[]);
    let fields = [request("GET", "/app/none"), field("expect", "100-continue")].concat();
    wire.send(&frame(HEADERS, END_HEADERS, 1, &fields));
    let interim = wire.next_of(HEADERS);
    assert_eq!(interim.flags & END_STREAM, 0, "the server has read the head: {interim:?}");
    apps.deploy_python("app", "/app", "", ECHO);
    get_until(&child, "/app/none", 200);
    wire.send(&frame(DATA, END_STREAM, 1, b"hello"));
    assert_eq!(wire.next_of(HEADERS).payload[0], NOT_FOUND);
}

#[test]
fn a_request_in_flight_is_answered_when_its_application_is_removed() {
    const ENDS_IN_ORDER: &str = r#"
import threading
bell = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: bell.set())
def tell(method, path, sent):
    if path.endswith("/waits"):
        print("asked", flush=True)
        bell.wait()
    return "whole"
serve()
"#;
    let ends_at_once = ENDS_IN_ORDER.replace("lambda *_: bell.set()", "signal.SIG_DFL");
    let never_listens = "print(\"asked\", flush=True)\ntime.sleep(1000)\n";
    let closed = "no other upstream is available (GET /app/waits: 502)";
    let stopped = "the application is not running (GET /app/waits: 503)";
    let rows = [
        ("it ends after its response", "", ENDS_IN_ORDER, 200, ""),
        ("it ends without a response", "", &ends_at_once, 502, closed),
        ("it does not listen yet", "socket = \"path\"", never_listens, 503, stopped),
    ];
    for (why, keys, program, status, said) in rows {
        let apps = Apps::new(&[("a.txt", "a\n")]);
        apps.deploy_python("app", "/app", keys, program);
        let child = apps.serve();
        if status != 503 {
            get_until(&child, "/app/ready", 200);
        }
        let mut client = child.connect();
        client.send("GET /app/waits HTTP/1.1\r\nHost: a\r\n\r\n");
        logged(&child, "app app: asked");
        // One worker serves both connections, so it has read the request before this one.
        assert_eq!(child.get("/a.txt").text(), "a\n", "{why}");
        apps.remove("app");
        let answer = client.response();
        assert_eq!(answer.status, status, "{why}: {}", child.stderr());
        if status == 200 {
            assert_eq!(answer.text(), "whole", "{why}");
        }
        logged(&child, said);
        get_until(&child, "/app/waits", 404);
        assert_eq!(child.get("/a.txt").text(), "a\n", "{why}");
    }
}
