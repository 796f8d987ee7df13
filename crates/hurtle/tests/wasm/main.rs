//! WebAssembly applications, served by the process. One component in text form does what the path
//! says: it responds, loops, traps, grows, floods, stalls. Each test states what its client sees,
//! and that other requests go on meanwhile.

// A helper that fails fails its test.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../process/child.rs"]
mod child;
mod faults;
mod grants;
mod reload;
#[path = "../it/support/mod.rs"]
mod support;

use child::{Child, eventually, hurtle, write_config};
use support::{Client, Dir, Response};

/// The component in the text format of WebAssembly.
const COMPONENT: &str = include_str!("component.wat");

/// Limits that faults reach soon.
const LIMITS: &str = "memory = '4 MiB'\ncpu_time = '300ms'\ninstances = 4\n";

/// The component in the binary format. `text` is what it responds.
fn component(text: &str) -> Vec<u8> {
    let length = (text.len() + 1).to_string();
    wat::parse_str(COMPONENT.replace("TEXT_LEN", &length).replace("TEXT", text)).unwrap()
}

/// A server with files and, at `/app`, the component.
struct Served {
    dir: Dir,
    child: Child,
}

impl Served {
    /// `mount` are more keys of the mount, `table` those of its `wasm` table.
    #[track_caller]
    fn start(mount: &str, table: &str) -> Served {
        let dir = Dir::new(&[("a.txt", "a file\n"), ("secret.txt", "a secret file\n")]);
        Served::of(dir, mount, table)
    }

    /// Likewise, with the files of this directory.
    #[track_caller]
    fn of(dir: Dir, mount: &str, table: &str) -> Served {
        dir.write("app.wasm", component("hello"));
        let file = write_config(&dir, &config(mount, table));
        let child = Child::start(hurtle().arg("--config").arg(&file));
        Served { dir, child }
    }

    /// Changes the configuration and runs `hurtle reload`; returns the exit code and all it
    /// printed.
    fn reload(&self, mount: &str, table: &str) -> (Option<i32>, String) {
        write_config(&self.dir, &config(mount, table));
        let admin = self.dir.path("../admin.sock");
        let output = hurtle().arg("reload").arg("--admin").arg(admin).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }

    #[track_caller]
    fn get(&self, target: &str) -> Response {
        self.child.get(target)
    }

    #[track_caller]
    fn connect(&self) -> Client {
        self.child.connect()
    }

    /// The other requests: files and the application itself are answered.
    #[track_caller]
    fn expect_undisturbed(&self) {
        assert_eq!(self.get("/a.txt").text(), "a file\n");
        assert_eq!(self.get("/app/hello").text(), "hello\n");
    }
}

fn config(mount: &str, table: &str) -> String {
    format!(
        "admin = '{{root}}/../admin.sock'\nerror_log = {{ level = 'info' }}\n[[site]]\n\
         hosts = '*'\n[[site.mount]]\nfiles = '{{root}}'\n[[site.mount]]\npath = '/app'\n{mount}\
         [site.mount.wasm]\nfile = '{{root}}/app.wasm'\n{table}"
    )
}

#[test]
fn a_component_answers_beside_files() {
    let served = Served::start("", "");
    // On a busy machine a turn of the component may end between the head and the body.
    let has_length = (0..20).any(|_| {
        let response = served.get("/app/hello");
        assert_eq!((response.status, response.text()), (200, "hello\n"));
        response.field("Content-Length") == Some("6")
    });
    assert!(has_length, "a short body has its length");
    assert_eq!(served.get("/a.txt").text(), "a file\n");
    let head = served.connect().request("HEAD", "/app/hello");
    assert_eq!((head.status, head.text()), (200, ""));
    let mut client = served.connect();
    for _ in 0..100 {
        assert_eq!(client.request("GET", "/app/").text(), "hello\n", "on one connection");
    }
}

#[test]
fn a_component_gets_the_request() {
    let served = Served::start("", "");
    assert_eq!(served.get("/app/path?x=1&y=%2F").text(), "/path?x=1&y=%2F");
    let mut client = served.connect();
    client.send("GET /app/authority HTTP/1.1\r\nHost: example.org:81\r\n\r\n");
    assert_eq!(client.response().text(), "example.org:81");
    let body = "0123456789".repeat(30_000);
    let length = body.len();
    client.send(format!("POST /app/body HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
    client.send(&body);
    let response = client.response();
    assert_eq!((response.status, response.text()), (200, body.as_str()));
}

/// Regression: the component was dropped with its work, at the end of a declared length and for
/// HEAD.
#[test]
fn a_component_goes_on_after_its_response() {
    let served = Served::start("", "");
    let lines = || served.child.stderr().matches("hello").count();
    for (count, method) in ["GET", "HEAD", "GET"].iter().enumerate() {
        let response = served.connect().request(method, "/app/queue");
        let length = if *method == "HEAD" { 0 } else { 100_000 };
        assert_eq!((response.status, response.body.len()), (200, length), "{method}");
        assert_eq!(response.field("Content-Length"), Some("100000"), "{method}");
        eventually("its line after the response", || lines() == count + 1);
    }
}

/// Regression: the component was dropped with the body that the client does not get.
#[test]
fn a_component_goes_on_after_a_response_that_is_replaced() {
    let keys = "internal = '{root}'\nintercept_errors = true\nerrors = { 500 = '/a.txt' }\n";
    let served = Served::start(keys, "");
    let lines = || served.child.stderr().matches("hello").count();
    let table = [("/app/qx", 200, "a secret file\n"), ("/app/qe", 500, "a file\n")];
    for (count, (target, status, text)) in table.into_iter().enumerate() {
        let response = served.get(target);
        assert_eq!((response.status, response.text()), (status, text), "{target}");
        eventually("its line after the response", || lines() == count + 1);
    }
}

#[test]
fn a_component_names_a_file() {
    let served = Served::start("internal = '{root}'\n", "");
    let response = served.get("/app/x");
    assert_eq!((response.status, response.text()), (200, "a secret file\n"));
    assert!(response.field("ETag").is_some(), "it is sent like any file");
    let mut client = served.connect();
    client.send("GET /app/x HTTP/1.1\r\nHost: a\r\nRange: bytes=2-7\r\n\r\n");
    let part = client.response();
    assert_eq!((part.status, part.text()), (206, "secret"));

    let plain = Served::start("", "");
    let response = plain.get("/app/x");
    assert_eq!((response.status, response.text()), (200, ""), "without `internal`");
}
