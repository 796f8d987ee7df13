//! Hot replacement: a reload compiles a changed component, requests in flight finish on the former
//! one, and a broken one changes nothing.

use super::{Served, component};
use crate::child::{hurtle, write_config};

#[test]
fn a_reload_replaces_the_component() {
    let served = Served::start("", "instances = 4\n");
    let body = "0123456789";
    let mut under_way = served.connect();
    under_way.send("POST /app/body HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n");
    under_way.send(body);
    let mut open = served.connect();
    assert_eq!(open.request("GET", "/app/hello").text(), "hello\n");

    served.dir.write("app.wasm", component("another text"));
    let (code, said) = served.reload("", "instances = 4\n");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(open.request("GET", "/app/hello").text(), "another text\n", "on an open connection");
    assert_eq!(served.get("/app/hello").text(), "another text\n");
    under_way.send(body);
    assert_eq!(under_way.response().text(), body.repeat(2), "a request in flight");

    let (code, said) = served.reload("", "instances = 4\nenv = { A = 'b' }\n");
    assert_eq!(code, Some(0), "{said}");
    let vars = open.request("GET", "/app/vars");
    assert!(vars.text().contains("A=b\n"), "other settings: {}", vars.text());
}

#[test]
fn a_broken_component_leaves_the_former_one_in_place() {
    let served = Served::start("", "");
    let table = [
        (&b"garbage"[..], "it is not WebAssembly in the binary format"),
        (b"\0asm\x01\0\0\0", "it is a core module, not a component"),
        (b"\0asm\x0d\0\x01\0", "it is no component of the world wasi:http/proxy"),
        (b"\0asm\x0d\0\x01\0\xff", "it cannot be compiled"),
    ];
    for (bytes, problem) in table {
        served.dir.write("app.wasm", bytes);
        let (code, said) = served.reload("", "");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("*, mount /app: ") && said.contains(problem), "{said}");
        let file = served.dir.path("../hurtle.toml");
        let checked = hurtle().arg("check").arg(&file).output().unwrap();
        assert_eq!(checked.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&checked.stderr).contains(problem), "{checked:?}");
        served.expect_undisturbed();
    }
    std::fs::remove_file(served.dir.path("app.wasm")).unwrap();
    let (code, said) = served.reload("", "");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("No such file"), "{said}");
    served.expect_undisturbed();
}

#[test]
fn a_component_that_needs_more_memory_than_its_limit_is_refused() {
    let served = Served::start("", "");
    let large = "(component (core module $m (memory 100)) (core instance (instantiate $m)))";
    served.dir.write("app.wasm", wat::parse_str(large).unwrap());
    let file = write_config(&served.dir, &super::config("", "memory = '1 MiB'\n"));
    let checked = hurtle().arg("check").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(2), "{said}");
    assert!(said.contains("memory"), "{said}");
}
