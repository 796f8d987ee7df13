//! Tests of uploads by forms.

use std::fs;

use hurtle::config::Matcher;

use super::{limits, names, pattern, send, start, with};
use crate::support::site::files;

/// A body of a form; a part with a file name is a file.
fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file_name, content) in parts {
        body.extend_from_slice(b"--xyz\r\nContent-Disposition: form-data; name=\"");
        body.extend_from_slice(name.as_bytes());
        if let Some(file_name) = file_name {
            body.extend_from_slice(b"\"; filename=\"");
            body.extend_from_slice(file_name.as_bytes());
        }
        body.extend_from_slice(b"\"\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--xyz--\r\n");
    body
}

const TYPE: &str = "Content-Type: multipart/form-data; boundary=xyz";

#[test]
fn a_form_stores_its_files_and_leads_back_to_the_listing() {
    let server = with(&[("d/", "")], |config| files(config).listing = true);
    let page = server.get("/d/");
    assert!(page.text().contains("<form class=\"upload\" method=\"post\""));
    let large = pattern(3 << 20);
    let body = form(&[
        ("file", Some("a.bin"), &large),
        ("file", Some("C:\\temp\\%22b%22.txt"), b"two"),
        ("file", Some("empty"), b""),
        ("file", Some(""), b""),
    ]);
    let response = send(&server, "POST", &format!("/d/\n{TYPE}"), &body);
    assert_eq!((response.status, response.field("Location")), (303, Some("./")));
    assert_eq!(names(&server.dir, "d"), ["\"b\".txt", "a.bin", "empty"]);
    assert!(fs::read(server.dir.path("d/a.bin")).unwrap() == large);
    assert_eq!(server.get("/d/%22b%22.txt").text(), "two");
}

/// Regression: they were stored, and run or sent by the other mount.
#[test]
fn a_form_stores_no_names_of_other_mounts() {
    let server = with(&[("d/", "")], |config| {
        let mounts = &mut config.sites[0].mounts;
        let [mut other, mut exact] = [mounts[0].clone(), mounts[0].clone()];
        other.matcher = Some(Matcher::of_pattern("*.x"));
        (exact.exact, exact.path) = (true, "/a.z".to_owned());
        mounts.extend([other, exact]);
    });
    let post = |directory: &str, name: &str| {
        let body = form(&[("file", Some(name), b"text")]);
        send(&server, "POST", &format!("{directory}\n{TYPE}"), &body).status
    };
    assert_eq!((post("/d/", "a.x"), post("/d/", "a.y"), post("/d/", "a.z")), (403, 303, 303));
    assert_eq!((post("/", "a.z"), post("/", "b.z")), (403, 303));
    assert_eq!(names(&server.dir, "d"), ["a.y", "a.z"]);
}

/// Regression: each chunk cost as much as all before it.
#[test]
fn a_form_in_single_bytes_costs_no_more_for_each_than_for_the_first() {
    let server = start(&[]);
    let content = pattern(200_000);
    let body = form(&[("file", Some("a"), &content)]);
    let chunks: Vec<u8> =
        body.iter().flat_map(|byte| [b'1', b'\r', b'\n', *byte, b'\r', b'\n']).collect();
    let head =
        format!("POST / HTTP/1.1\r\nHost: a\r\n{TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut client = server.connect();
    client.send([head.as_bytes(), &chunks, b"0\r\n\r\n"].concat());
    assert_eq!(client.response().status, 303);
    assert!(fs::read(server.dir.path("a")).unwrap() == content);
}

#[test]
fn a_form_replaces_files_only_if_it_says_so() {
    let server = start(&[("a", "old")]);
    let body = form(&[("file", Some("a"), b"new")]);
    let response = send(&server, "POST", &format!("/\n{TYPE}"), &body);
    assert_eq!(response.status, 412);
    assert!(response.text().contains("a file of this name exists"), "{}", response.text());
    assert_eq!(server.get("/a").text(), "old");
    let body = form(&[("replace", None, b"1"), ("file", Some("a"), b"new")]);
    assert_eq!(send(&server, "POST", &format!("/\n{TYPE}"), &body).status, 303);
    assert_eq!(server.get("/a").text(), "new");
}

#[test]
fn refused_forms() {
    let server = with(&[("d/", ""), ("f", "")], |config| {
        let uploads = limits(config);
        uploads.file_bytes = 10;
    });
    let file = |name, content| form(&[("file", Some(name), content)]);
    let small = file("new", b"small");
    let whole = |fields: &str| format!("{TYPE}\n{fields}");
    let rows: [(&str, String, &[u8], u16); 12] = [
        ("/", whole("Origin: http://other.example"), &small, 403),
        ("/", whole("Sec-Fetch-Site: cross-site"), &small, 403),
        ("/", "Content-Type: text/plain".into(), &small, 415),
        ("/", "Content-Type: multipart/form-data".into(), &small, 415),
        ("/", TYPE.into(), b"--xyz\r\nnonsense\r\n\r\n", 400),
        ("/", TYPE.into(), &small[..small.len() - 12], 400),
        ("/", TYPE.into(), &file(".hidden", b""), 403),
        ("/", TYPE.into(), &file("d", b""), 409),
        ("/", TYPE.into(), &file("new", b"12345678901"), 413),
        ("/", TYPE.into(), &form(&[("x", None, &[b'x'; 5_000])]), 413),
        ("/gone/", TYPE.into(), &small, 409),
        ("/f", TYPE.into(), &small, 405),
    ];
    for (path, fields, body, status) in rows {
        let response = send(&server, "POST", &format!("{path}\n{fields}"), body);
        assert_eq!(response.status, status, "{path} {fields}: {}", response.text());
        assert_eq!(names(&server.dir, ""), ["d", "f"], "{path} {fields}");
    }
    let own = format!("/\n{TYPE}\nOrigin: http://a");
    assert_eq!(send(&server, "POST", &own, &small).status, 303, "the origin is the host's");
}

#[test]
fn the_page_has_a_form_only_where_uploads_are_accepted() {
    let server = with(&[(".well-known/x", "")], |config| files(config).listing = true);
    assert!(server.get("/").text().contains("multipart/form-data"));
    assert!(!server.get("/.well-known/").text().contains("multipart/form-data"));
    let server = crate::support::Server::with(&[], |config| files(config).listing = true);
    assert!(!server.get("/").text().contains("multipart/form-data"));
}
