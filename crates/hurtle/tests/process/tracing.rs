//! Request IDs and trace context as upstreams and the log get them, and the level of the log.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use serde_json::Value;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::support::Dir;

/// An upstream that returns the head of each request.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for peer in listener.incoming() {
            let (mut peer, mut head) = (peer.unwrap(), Vec::new());
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if peer.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let begin = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                head.len()
            );
            let _ = peer.write_all(&[begin.as_bytes(), &head].concat());
        }
    });
    address
}

/// The values of a field of a request's head.
fn values(head: &str, name: &str) -> Vec<String> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let same = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    same.map(|(_, value)| value.to_owned()).collect()
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn config(more: &str) -> String {
    let to = echo();
    format!(
        "admin = '{{root}}/../admin.sock'\n{more}\n\
         [tracing]\nrequest_id = true\ntraceparent = true\n\
         [access_log]\nformat = 'json'\npath = '{{root}}/../access.log'\n\
         fields = ['target', 'request_id', 'trace_id', 'site', 'mount', 'upstream', 'upstream_head_us']\n\
         [[site]]\nhosts = 'a'\n[[site.mount]]\nfiles = '{{root}}'\n\
         [[site.mount]]\npath = '/up'\nproxy = 'http://{to}'\n"
    )
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn upstreams_get_a_request_id_and_a_trace() {
    let dir = Dir::new(&[("x", "x")]);
    let child = Child::configured(&dir, &config(""));
    let ask = |fields: &str| {
        let mut client = child.connect();
        client.request("GET", &format!("/up\nHost: a{fields}")).text().to_owned()
    };
    let head = ask("");
    let (ids, traces) = (values(&head, "x-request-id"), values(&head, "traceparent"));
    assert!(ids.len() == 1 && is_hex(&ids[0], 32), "{head}");
    let parts: Vec<&str> = traces[0].split('-').collect();
    assert!(traces.len() == 1 && parts.len() == 4, "{head}");
    assert!(is_hex(parts[1], 32) && is_hex(parts[2], 16), "{head}");
    assert_eq!((parts[0], parts[3]), ("00", "01"), "{head}");
    assert_ne!(values(&ask(""), "x-request-id"), ids, "each request has its own");

    let head = ask("\nConnection: X-Request-Id, traceparent");
    let kept = (values(&head, "x-request-id").len(), values(&head, "traceparent").len());
    assert_eq!(kept, (1, 1), "no client has them removed: {head}");

    let head = ask("\nX-Request-Id: forged\nX_Request_Id: forged");
    assert!(!head.contains("forged"), "not from a client: {head}");
    let head = ask(&format!("\nTraceparent: {GIVEN}\nTracestate: a=1"));
    assert_eq!(values(&head, "traceparent"), [GIVEN], "{head}");
    assert_eq!(values(&head, "tracestate"), ["a=1"], "{head}");
    let head = ask("\nTraceparent: nonsense\nTracestate: a=1");
    let made = values(&head, "traceparent");
    assert!(made.len() == 1 && made[0].starts_with("00-"), "{head}");
    assert_eq!(values(&head, "tracestate"), [""; 0], "of another trace: {head}");
}

#[test]
fn a_trusted_proxy_gives_the_request_id_and_the_log_has_it() {
    let dir = Dir::new(&[("x", "x")]);
    let child = Child::configured(&dir, &config("trusted_proxies = '127.0.0.1'"));
    let mut client = child.connect();
    let given = format!("Host: a\nX-Request-Id: id-1\nTraceparent: {GIVEN}");
    let head = client.request("GET", &format!("/up\n{given}")).text().to_owned();
    assert_eq!(values(&head, "x-request-id"), ["id-1"], "{head}");
    let head = client.request("GET", "/up\nHost: a\nX-Request-Id: not \"plain\"").text().to_owned();
    assert!(is_hex(&values(&head, "x-request-id")[0], 32), "{head}");
    for _ in 0..2 {
        client.request("GET", &format!("/x\n{given}"));
    }
    client.request("GET", "/x\nHost: a");
    let text = || fs::read_to_string(dir.path("../access.log")).unwrap_or_default();
    eventually("five lines are written", || text().lines().count() == 5);
    let text = text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["request_id"], &lines[0]["trace_id"]), (&"id-1".into(), &TRACE.into()));
    assert_eq!((&lines[0]["site"], &lines[0]["mount"]), (&"a".into(), &"/up".into()));
    assert!(lines[0]["upstream"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{text}");
    assert!(lines[0]["upstream_head_us"].as_u64() > Some(0), "{text}");
    assert_eq!(lines[1]["request_id"], values(&head, "x-request-id")[0], "{text}");
    for line in &lines[2..4] {
        assert_eq!(line["request_id"], "id-1", "a file, known or not: {text}");
        assert_eq!(line["upstream"], Value::Null, "{text}");
    }
    assert!(is_hex(lines[4]["request_id"].as_str().unwrap(), 32), "{text}");
}

#[test]
fn the_log_level_changes_by_command_and_by_reload() {
    let dir = Dir::new(&[]);
    let quiet = "admin = '{root}/../admin.sock'\nroot = '{root}'\n[error_log]\nlevel = 'warn'\n";
    let child = Child::configured(&dir, quiet);
    let command = |arguments: &[&str]| {
        let admin = dir.path("../admin.sock");
        let output = hurtle().args(arguments).arg("--admin").arg(admin).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let purged = || {
        command(&["purge", "http://a/x"]);
        child.stderr().matches("purged 0").count()
    };
    assert_eq!(purged(), 0, "below the level");
    assert_eq!(command(&["log-level", "info"]), (Some(0), "the log level is info\n".to_owned()));
    eventually("events of the level are written", || purged() > 0);
    assert_eq!(command(&["log-level", "loud"]).0, Some(2));
    write_config(&dir, &quiet.replace("'warn'", "'debug'"));
    assert_eq!(command(&["reload"]).0, Some(0));
    write_config(&dir, &quiet.replace("'warn'", "'error'"));
    assert_eq!(command(&["reload"]).0, Some(0));
    let before = purged();
    assert_eq!(purged(), before, "the reload has set the level: {}", child.stderr());
}
