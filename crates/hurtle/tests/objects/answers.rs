//! Responses with objects are those with files of a directory.

use crate::store::{Bucket, content};
use crate::support::Response;

/// The fields that must be the same.
const FIELDS: [&str; 9] = [
    "Content-Type",
    "Content-Length",
    "Content-Range",
    "Content-Encoding",
    "Content-Security-Policy",
    "Accept-Ranges",
    "Vary",
    "Location",
    "Allow",
];

/// Status, fields, and the body without what names the boundary of parts.
fn compared(response: &Response) -> (u16, Vec<Option<String>>, String) {
    let mut fields: Vec<_> =
        FIELDS.iter().map(|name| response.field(name).map(str::to_owned)).collect();
    let mut body = response.body.escape_ascii().to_string();
    if let Some((kind, boundary)) = fields[0].clone().unwrap_or_default().split_once("; boundary=")
    {
        fields[0] = Some(kind.to_owned());
        body = body.replace(boundary, "");
    }
    (response.status, fields, body)
}

#[test]
fn responses_are_those_of_a_directory() {
    let text = "text\n".repeat(200);
    let objects: Vec<(&str, Vec<u8>)> = vec![
        ("index.html", b"<p>start".to_vec()),
        ("a.txt", b"0123456789".to_vec()),
        ("empty", Vec::new()),
        ("docs/index.html", b"<p>docs".to_vec()),
        ("docs/deep/b.bin", content(70_000)),
        ("style.css", text.clone().into_bytes()),
        ("style.css.br", b"brotli".to_vec()),
        ("style.css.gz", b"gzip".to_vec()),
        ("errors/404.html", b"<p>not here".to_vec()),
        ("tried.html", b"<p>tried".to_vec()),
        ("a b&c.txt", b"name".to_vec()),
        (".hidden", b"secret".to_vec()),
    ];
    let borrowed: Vec<(&str, &[u8])> =
        objects.iter().map(|(key, content)| (*key, &content[..])).collect();
    let encoded: Vec<(String, &[u8])> =
        borrowed.iter().map(|(key, content)| (key.replace(' ', "%20"), *content)).collect();
    let put: Vec<(&str, &[u8])> = encoded.iter().map(|(key, content)| (&**key, *content)).collect();
    let Some(bucket) = Bucket::new(&put) else { return };
    for (key, content) in &borrowed {
        bucket.dir.write(format!("site/{key}"), content);
    }
    let keys = "try_files = [\"{path}\", \"{path}.html\"]\ncompress = false";
    let site = "[site.errors]\n404 = \"/errors/404.html\"\n";
    let objects = bucket.start(&format!("[[site]]\n{site}{}", bucket.mount("", keys)));
    let root = bucket.dir.path("site").display().to_string();
    let directory = "../directory.toml";
    let _ = directory;
    let files = crate::child::Child::configured(
        &bucket.dir,
        &format!("[[site]]\n{site}[[site.mount]]\nfiles = \"{root}\"\n{keys}\n"),
    );
    let targets = [
        "/",
        "/a.txt",
        "/a.txt\nRange: bytes=2-5",
        "/a.txt\nRange: bytes=-3",
        "/a.txt\nRange: bytes=0-1,4-5",
        "/a.txt\nRange: bytes=20-",
        "/a.txt\nIf-Match: \"other\"",
        "/a.txt\nIf-None-Match: *",
        "/a.txt/",
        "/empty",
        "/docs",
        "/docs/",
        "/docs/deep/",
        "/docs/deep/b.bin",
        "/docs/deep/b.bin\nRange: bytes=100-69000",
        "/style.css",
        "/style.css\nAccept-Encoding: br",
        "/style.css\nAccept-Encoding: gzip",
        "/style.css\nAccept-Encoding: gzip\nRange: bytes=1-2",
        "/tried",
        "/a%20b&c.txt",
        "/.hidden",
        "/nothing",
        "/nothing/here/",
        "/%FF",
        "/a.txt%2Fb",
    ];
    // The second time, they are from the cache.
    for turn in ["cold", "warm"] {
        for target in targets {
            for method in ["GET", "HEAD", "OPTIONS", "PUT"] {
                let one = objects.connect().request(method, target);
                let other = files.connect().request(method, target);
                assert_eq!(compared(&one), compared(&other), "{turn} {method} {target}");
            }
        }
    }
}

#[test]
fn validators_are_those_of_the_object() {
    let Some(bucket) = Bucket::new(&[("a.txt", b"hello\n")]) else { return };
    let server = bucket.serve("", "");
    let first = server.get("/a.txt");
    let (tag, time) = (first.field("ETag").unwrap(), first.field("Last-Modified").unwrap());
    assert!(tag.starts_with('"'), "strong: {tag}");
    assert_eq!(time, bucket.stored("a.txt").field("Last-Modified").unwrap());
    for field in [format!("If-None-Match: {tag}"), format!("If-Modified-Since: {time}")] {
        assert_eq!(server.get(&format!("/a.txt\n{field}")).status, 304, "{field}");
    }
    let part = server.get(&format!("/a.txt\nIf-Range: {tag}\nRange: bytes=1-2"));
    assert_eq!((part.status, part.text()), (206, "el"));
}

#[test]
fn prefixes_are_listed_in_pages() {
    let Some(bucket) = Bucket::new(&[("a.txt", b"hello\n"), ("d/one", b"1"), ("d/two/x", b"2")])
    else {
        return;
    };
    let server = bucket.serve("", "listing = true");
    let listed = server.get("/\nAccept: application/json");
    let listed: serde_json::Value = serde_json::from_slice(&listed.body).unwrap();
    let names: Vec<_> = (listed["entries"].as_array().unwrap().iter())
        .map(|entry| {
            (
                entry["name"].as_str().unwrap(),
                entry["type"].as_str().unwrap(),
                entry["size"].as_u64(),
            )
        })
        .collect();
    assert_eq!(names, [("d", "directory", None), ("a.txt", "file", Some(6))]);
    let page = server.get("/d/\nAccept: text/html");
    assert!(page.text().contains("href=\"./two/\"") && page.text().contains("href=\"./one\""));
    assert_eq!(server.get("/d").field("Location"), Some("/d/"));
    // More than one response of the store: those have 1,000 names.
    for number in 0..1_100 {
        bucket.put(&format!("many/{number:04}"), b"");
    }
    bucket.proxy.requests();
    let listed = server.get("/many/\nAccept: application/json");
    let listed: serde_json::Value = serde_json::from_slice(&listed.body).unwrap();
    assert_eq!((&listed["total"], &listed["truncated"]), (&1_100.into(), &false.into()));
    let requests = bucket.proxy.requests();
    let lists = requests.iter().filter(|line| line.contains("delimiter")).count();
    assert_eq!(lists, 2, "{requests:?}");
}

/// Regression: one such key made the whole directory 502.
#[test]
fn keys_that_no_url_reaches_are_not_listed() {
    let objects: [(&str, &[u8]); 7] = [
        ("d//b", b"1"),
        ("d/./b", b"2"),
        ("d/../b", b"3"),
        ("d/a.txt", b"4"),
        ("d/e/..", b"5"),
        ("d/e/f", b"6"),
        ("g//h", b"7"),
    ];
    let Some(bucket) = Bucket::new(&objects) else { return };
    let server = bucket.serve("", "listing = true");
    let expect = |target: &str, names: &[&str]| {
        let listed = server.get(&format!("{target}\nAccept: application/json"));
        let listed: serde_json::Value = serde_json::from_slice(&listed.body).unwrap();
        let found = listed["entries"].as_array().unwrap().iter();
        let found: Vec<_> = found.map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(found, names, "{target}");
    };
    expect("/", &["d", "g"]);
    expect("/d/", &["e", "a.txt"]);
    expect("/d/e/", &["f"]);
    assert_eq!(server.get("/d").field("Location"), Some("/d/"));
    assert_eq!(server.get("/d/a.txt").text(), "4");
    // All of its keys are such that a URL reaches none.
    assert_eq!(server.get("/g/").status, 404);
}
