//! Tests of compression dictionaries (RFC 9842).

use std::fs;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hurtle::config::check;
use sha2::{Digest, Sha256};

use crate::support::coding::{decode, text};
use crate::support::rows::check as check_rows;
use crate::support::{Client, Dir, MODIFIED, Response, Server, eventually};

const CONFIG: &str = "[[site]]\n[[site.mount]]\nfiles = '{root}'\n\
                      dictionary = [{ match = 'app.*.js', id = 'the \"app\"' }]\n";

/// Begins a `dcz` body, before the hash (RFC 9842 section 5).
const MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];

fn server(dir: Dir, toml: &str) -> Server {
    let text = toml.replace("{root}", &dir.root().display().to_string());
    Server::of(dir, move |config| {
        let read = check(&text, std::path::Path::new("/nowhere/hurtle.toml")).expect(&text);
        config.sites = read.sites;
        config.compress = read.compress;
        config.proxy_protocol = read.proxy_protocol;
    })
}

/// The version of a file with this number: most of it is the same in all versions.
fn version(number: u32) -> String {
    text(40_000, 1) + &text(200, number + 100) + &text(20_000, 2)
}

/// The field of a client that has this file.
fn available(old: &str) -> String {
    format!("Available-Dictionary: :{}:", STANDARD.encode(Sha256::digest(old)))
}

/// Decodes a body in any coding, for a client that has `old`.
fn plain(response: &Response, old: &str) -> Vec<u8> {
    match response.field("Content-Encoding") {
        None => response.body.clone(),
        Some("dcz") => {
            let (magic, rest) = response.body.split_at(8);
            let (hash, coded) = rest.split_at(32);
            assert_eq!(magic, MAGIC);
            assert_eq!(hash, &Sha256::digest(old)[..], "the hash of the dictionary");
            let reader = zstd::stream::read::Decoder::with_ref_prefix(coded, old.as_bytes());
            let mut plain = Vec::new();
            reader.unwrap().read_to_end(&mut plain).unwrap();
            plain
        }
        Some(coding) => decode(coding, &response.body).unwrap(),
    }
}

/// Requests a file until it comes in a coding; every response is one of `new`.
#[track_caller]
fn made(server: &Server, target: &str, coding: &str, (old, new): (&str, &str)) -> Response {
    let mut client = server.connect();
    eventually(&format!("{target} in {coding}"), || {
        let response = client.request("GET", target);
        assert_eq!(response.status, 200);
        assert!(plain(&response, old) == new.as_bytes(), "{response:?}");
        // One that is encoded while it is sent has a weak tag.
        let is_made = response.field("ETag").is_some_and(|tag| tag.starts_with('"'));
        (is_made && response.field("Content-Encoding") == Some(coding)).then_some(response)
    })
}

/// Waits until all that was begun for earlier requests was done: the only thread encodes in order.
/// A listing may begin an encoding, so there are two files, which nobody has requested before.
fn settle(server: &Server, round: u32) {
    let page = text(4_000, 9);
    for name in [format!("{round}-1.css"), format!("{round}-2.css")] {
        server.dir.replace(&name, &page, MODIFIED.0);
        made(server, &format!("/{name}\nAccept-Encoding: gzip"), "gzip", ("", &page));
    }
}

#[test]
fn a_later_version_comes_as_the_difference() {
    let (old, new, other) = (version(1), version(2), text(60_000, 3));
    let server =
        server(Dir::new(&[("app.1.js", &old), ("app.2.js", &new), ("other.js", &other)]), CONFIG);
    let first = server.get("/app.1.js\nAccept-Encoding: gzip, br, zstd");
    let field = r#"match="/app.*.js", id="the \"app\"""#;
    assert_eq!(first.field("Use-As-Dictionary"), Some(field));
    assert_eq!(first.field("Vary"), Some("Accept-Encoding, Available-Dictionary"));
    let has = available(&old);
    let browser = "Accept-Encoding: gzip, deflate, br, zstd, dcb, dcz";
    let target = format!("/app.2.js\n{browser}\n{has}\nDictionary-ID: \"the \\\"app\\\"\"");
    let dcz = made(&server, &target, "dcz", (&old, &new));
    assert_eq!(dcz.field("Use-As-Dictionary"), Some(field));
    assert_eq!(dcz.field("Vary"), Some("Accept-Encoding, Available-Dictionary"));
    assert_eq!(dcz.field("Content-Length"), Some(&*dcz.body.len().to_string()));
    assert!(dcz.field("Content-Type").unwrap().starts_with("text/javascript"));
    let br = made(&server, &format!("/app.2.js\n{browser}"), "br", ("", &new));
    assert!(dcz.body.len() * 10 < br.body.len(), "{} of {}", dcz.body.len(), br.body.len());
    assert_eq!(server.head(&target).stable_fields(), dcz.stable_fields(), "HEAD");

    let tag = dcz.field("ETag").unwrap();
    assert!(tag.starts_with('"') && tag.ends_with("-dcz\""), "{tag}");
    let with = |fields: &str| format!("/app.2.js\n{fields}");
    made(&server, &with("Accept-Encoding: zstd"), "zstd", ("", &new));
    let (is_dcz, is_br) = ("Content-Encoding: dcz", "Content-Encoding: br");
    let is_zstd = "Content-Encoding: zstd";
    let unknown = available("something else");
    // HEAD and GET are compared, so the encoding must not be made between them.
    made(&server, &format!("/other.js\n{browser}"), "br", ("", &other));
    #[rustfmt::skip]
    check_rows(&server, &[
        ("its own tag", &with(&format!("{browser}\n{has}\nIf-None-Match: {tag}")), 304, &[&format!("ETag: {tag}")], Some("")),
        ("the tag of another coding", &with(&format!("{browser}\n{has}\nIf-None-Match: {}", br.field("ETag").unwrap())), 200, &[is_dcz], None),
        ("a part is one of the original", &with(&format!("{browser}\n{has}\nRange: bytes=0-9")), 206, &["!Content-Encoding"], Some(&new[..10])),
        ("no such part", &with(&format!("{browser}\n{has}\nRange: bytes=999999-")), 416, &[], None),
        ("an unknown dictionary", &with(&format!("{browser}\n{unknown}")), 200, &[is_br], None),
        ("no dictionary", &with(browser), 200, &[is_br], None),
        ("no hash", &with(&format!("{browser}\nAvailable-Dictionary: :AAAA:")), 200, &[is_br], None),
        ("dcz alone", &with(&format!("Accept-Encoding: dcz\n{has}")), 200, &[is_dcz], None),
        ("dcb alone", &with(&format!("Accept-Encoding: dcb\n{has}")), 200, &["!Content-Encoding"], Some(&new)),
        ("dcz refused", &with(&format!("Accept-Encoding: br, dcz;q=0\n{has}")), 200, &[is_br], None),
        ("dcz less wanted", &with(&format!("Accept-Encoding: zstd, dcz;q=0.9\n{has}")), 200, &[is_zstd], None),
        ("dcz more wanted", &with(&format!("Accept-Encoding: br;q=0.5, dcz;q=0.9\n{has}")), 200, &[is_dcz], None),
        ("an unknown one and weights", &with(&format!("Accept-Encoding: br;q=0.5, zstd;q=0.6, dcz\n{unknown}")), 200, &[is_zstd], None),
        ("dcz is not listed", &with(&format!("Accept-Encoding: *\n{has}")), 200, &[is_br], None),
        ("another file", &format!("/other.js\n{browser}\n{has}"), 200, &["!Use-As-Dictionary", "Vary: Accept-Encoding"], None),
    ]);
    // The client still has what the difference refers to.
    fs::remove_file(server.dir.path("app.1.js")).unwrap();
    assert_eq!(server.get(&target).body, dcz.body);
}

#[test]
fn a_dictionary_that_is_gone_changed_or_old_is_not_used() {
    let (old, new) = (version(1), version(2));
    let dir = Dir::new(&[("app.1.js", &old), ("app.2.js", &new)]);
    fs::remove_file(dir.path("app.1.js")).unwrap();
    let gone = server(dir, CONFIG);
    let target = |old: &str| format!("/app.2.js\nAccept-Encoding: dcz, gzip\n{}", available(old));
    gone.get(&target(&old));
    settle(&gone, 1);
    made(&gone, &target(&old), "gzip", (&old, &new));

    let changed = server(Dir::new(&[("app.1.js", &old), ("app.2.js", &new)]), CONFIG);
    // The versions are listed before one of them changes.
    changed.get(&target("unknown"));
    settle(&changed, 2);
    changed.dir.replace("app.1.js", version(3), MODIFIED.0 + 1);
    changed.get(&target(&old));
    settle(&changed, 3);
    made(&changed, &target(&old), "gzip", (&old, &new));

    let dir = Dir::new(&[("app.2.js", &new)]);
    for n in 0..9 {
        dir.replace(&format!("app.{n}9.js"), version(n + 9), MODIFIED.0 + u64::from(n));
    }
    fs::remove_file(dir.path("app.2.js")).unwrap();
    dir.replace("app.2.js", &new, MODIFIED.0 - 1);
    let many = server(dir, CONFIG);
    made(&many, &target(&version(10)), "dcz", (&version(10), &new));
    many.get(&target(&version(9)));
    settle(&many, 4);
    made(&many, &target(&version(9)), "gzip", ("", &new));
}

#[test]
fn a_client_in_clear_gets_no_difference() {
    let (old, new) = (version(1), version(2));
    let tree = [("app.1.js", old.as_str()), ("app.2.js", &new)];
    let toml = format!("{CONFIG}[proxy_protocol]\nfrom = '127.0.0.1'\n");
    let server = server(Dir::new(&tree), &toml);
    let target = format!("/app.2.js\nAccept-Encoding: dcz, gzip\n{}", available(&old));
    let from = |address: &str| {
        let mut client = Client::connect(server.address);
        client.send(format!("PROXY TCP4 {address} 192.0.2.1 4711 80\r\n"));
        client
    };
    eventually("dcz for the proxy itself", || {
        let response = from("127.0.0.1").request("GET", &target);
        (response.field("Content-Encoding") == Some("dcz")).then_some(())
    });
    let response = from("203.0.113.9").request("GET", &target);
    assert_ne!(response.field("Content-Encoding"), Some("dcz"));
    assert!(plain(&response, "") == new.as_bytes());
}

#[test]
fn a_difference_survives_a_restart_in_the_directory() {
    let (old, new) = (version(1), version(2));
    let dir = Dir::new(&[("js/app.1.js", &old), ("js/app.2.js", &new)]);
    let cache = dir.path("../compressed");
    let toml = format!(
        "[compress]\ndirectory = '{}'\n[[site]]\n[[site.mount]]\npath = '/a b'\n\
         files = '{{root}}'\n[[site.mount.dictionary]]\nmatch = 'js/app.*.js'\n",
        cache.display()
    );
    let target = format!("/a%20b/js/app.2.js\nAccept-Encoding: dcz\n{}", available(&old));
    let running = server(dir, &toml);
    let before = made(&running, &target, "dcz", (&old, &new));
    assert_eq!(before.field("Use-As-Dictionary"), Some(r#"match="/a%20b/js/app.*.js""#));
    let kept = || {
        let names = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_string_lossy().contains(".dcz-")).collect::<Vec<_>>()
    };
    eventually("one file", || (kept().len() == 1).then_some(()));
    let written_at = || fs::metadata(&kept()[0]).unwrap().modified().unwrap();
    let at_first = written_at();
    let again = server(running.stop(), &toml);
    let after = made(&again, &target, "dcz", (&old, &new));
    assert_eq!((&before.body, before.field("ETag")), (&after.body, after.field("ETag")));
    assert_eq!(written_at(), at_first, "it was not made again");
}
