//! Tests of encoded variants beside a file (RFC 9110 8.4, 12.5.3).

use std::time::Duration;

use hurtle::config::HeaderRule;

use crate::support::rows::check;
use crate::support::site::files;
use crate::support::{MODIFIED, Server};

const TREE: &[(&str, &str)] = &[
    ("all.js", "identity"),
    ("all.js.br", "brotli"),
    ("all.js.zst", "zstandard"),
    ("all.js.gz", "gzip"),
    ("some.txt", "identity"),
    ("some.txt.gz", "gzip"),
    ("alone.txt", "identity"),
    ("index.html", "identity"),
    ("index.html.gz", "gzip"),
    ("only.txt.gz", "gzip"),
];

const PLAIN: &[&str] = &["!Content-Encoding", "Vary: Accept-Encoding"];
const BR: &[&str] = &["Content-Encoding: br", "Vary: Accept-Encoding", "Content-Length: 6"];
const ZSTD: &[&str] = &["Content-Encoding: zstd", "Vary: Accept-Encoding"];
const GZIP: &[&str] = &["Content-Encoding: gzip", "Vary: Accept-Encoding", "Content-Length: 4"];

#[test]
fn the_client_selects_the_variant() {
    let server = Server::start(TREE);
    let js = ["Content-Type: text/javascript; charset=utf-8", "Content-Encoding: br"];
    let rows: &[(&str, &str, &[&str], &str)] = &[
        ("all alike: the server's preference", "gzip, br, zstd", BR, "brotli"),
        ("only one", "gzip", GZIP, "gzip"),
        ("its old name", "x-gzip", GZIP, "gzip"),
        ("in capitals", "GZip", GZIP, "gzip"),
        ("zstd", "zstd", ZSTD, "zstandard"),
        ("by weight", "br;q=0.1, gzip;q=0.9, zstd;q=0.5", GZIP, "gzip"),
        ("a weight of 0 is a refusal", "br;q=0, gzip", GZIP, "gzip"),
        ("with spaces", "br ; q=0.000 , gzip", GZIP, "gzip"),
        ("anything", "*", BR, "brotli"),
        ("anything but", "*, br;q=0", ZSTD, "zstandard"),
        ("rather none", "identity, br;q=0.5", PLAIN, "identity"),
        ("none listed", "deflate, compress", PLAIN, "identity"),
        ("nothing", "", PLAIN, "identity"),
        ("nothing at all is acceptable, and a file is better", "*;q=0", PLAIN, "identity"),
        ("in two lines", "br;q=0\nAccept-Encoding: gzip", GZIP, "gzip"),
    ];
    for (why, accept, fields, body) in rows {
        let target = format!("/all.js\nAccept-Encoding: {accept}");
        check(&server, &[(why, &target, 200, fields, Some(body))]);
    }
    #[rustfmt::skip]
    check(&server, &[
        ("no field", "/all.js", 200, PLAIN, Some("identity")),
        ("the type is the original's", "/all.js\nAccept-Encoding: br", 200, &js, None),
        ("what there is", "/some.txt\nAccept-Encoding: br, gzip;q=0.1", 200, GZIP, Some("gzip")),
        ("what there is not", "/some.txt\nAccept-Encoding: br", 200, PLAIN, Some("identity")),
        ("nothing to vary", "/alone.txt\nAccept-Encoding: gzip", 200, &["!Vary"], Some("identity")),
        ("an index", "/\nAccept-Encoding: gzip", 200, GZIP, Some("gzip")),
        ("no original", "/only.txt\nAccept-Encoding: gzip", 404, &[], None),
        ("the variant by its own name", "/all.js.gz", 200, &["!Content-Encoding"], Some("gzip")),
    ]);
}

#[test]
fn variants_without_their_file_are_sent_if_the_mount_asks_for_it() {
    let tree = [
        ("only.css.gz", "gzip"),
        ("both.js.gz", "gzip"),
        ("both.js.br", "brotli"),
        ("index.html.gz", "gzip"),
        ("plain.txt", "identity"),
        ("plain.txt.gz", "gzip"),
        ("d/x.txt", "x"),
    ];
    let server = Server::with(&tree, |config| files(config).sidecars_alone = true);
    let css = ["Content-Type: text/css; charset=utf-8", "Content-Encoding: gzip", GZIP[1], GZIP[2]];
    #[rustfmt::skip]
    check(&server, &[
        ("a client that accepts it", "/only.css\nAccept-Encoding: gzip", 200, &css, Some("gzip")),
        ("one that names no coding", "/only.css", 200, &css, Some("gzip")),
        ("one that does not accept it", "/only.css\nAccept-Encoding: br", 200, &css, Some("gzip")),
        ("the better of two", "/both.js\nAccept-Encoding: gzip, br", 200, BR, Some("brotli")),
        ("the one that is accepted", "/both.js\nAccept-Encoding: gzip", 200, GZIP, Some("gzip")),
        ("an index", "/", 200, GZIP, Some("gzip")),
        ("a part", "/only.css\nAccept-Encoding: gzip\nRange: bytes=0-1", 206, &css[..2], Some("gz")),
        ("a file is preferred", "/plain.txt", 200, PLAIN, Some("identity")),
        ("a directory is none", "/d\nAccept-Encoding: gzip", 301, &[], None),
        ("nothing at all", "/none.css\nAccept-Encoding: gzip", 404, &[], None),
    ]);
    let tag = server.get("/only.css").field("ETag").unwrap().to_owned();
    let again = format!("/only.css\nIf-None-Match: {tag}");
    check(&server, &[("known", &again, 304, &["Vary: Accept-Encoding"], None)]);
}

#[test]
fn each_variant_has_its_own_tag_and_conditions() {
    let server = Server::start(TREE);
    let tag = |coding: &str| {
        let response = server.get(&format!("/all.js\nAccept-Encoding: {coding}"));
        response.field("ETag").unwrap().to_owned()
    };
    let tags = ["identity", "br", "zstd", "gzip"].map(tag);
    for (n, one) in tags.iter().enumerate() {
        assert!(!tags[..n].contains(one), "{tags:?}");
    }
    let [plain, br, _, gzip] = tags;
    let own = [format!("ETag: {br}"), "Vary: Accept-Encoding".to_owned()];
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let ask = |coding: &str, field: &str| format!("/all.js\nAccept-Encoding: {coding}\n{field}");
    let range = "Range: bytes=0-1\nIf-Range:";
    #[rustfmt::skip]
    check(&server, &[
        ("its own tag", &ask("br", &format!("If-None-Match: {br}")), 304, &own, Some("")),
        ("without a coding", &ask("br", &format!("If-None-Match: {br}")), 304, &["!Content-Encoding"], Some("")),
        ("another variant's", &ask("br", &format!("If-None-Match: {gzip}")), 200, BR, None),
        ("the original's", &ask("br", &format!("If-Match: {plain}")), 412, &[], Some("")),
        ("304 varies too", &ask("identity", &format!("If-None-Match: {plain}")), 304, PLAIN, Some("")),
        ("a part is one of the original", &ask("gzip", "Range: bytes=1-2"), 206, &["Content-Range: bytes 1-2/8", "!Content-Encoding", "Vary: Accept-Encoding"], Some("de")),
        ("behind its end", &ask("gzip", "Range: bytes=9-"), 416, &["Content-Range: bytes */8", "!Content-Encoding"], None),
        ("unless the original is refused", &ask("gzip, identity;q=0", "Range: bytes=1-2"), 200, GZIP, Some("gzip")),
        ("a malformed range is none", &ask("gzip", "Range: bytes=2-1"), 200, GZIP, Some("gzip")),
        ("412 has no coding", &ask("gzip", "If-Match: \"x\""), 412, &["!Content-Encoding"], Some("")),
        ("the same variant goes on", &ask("br", &format!("{range} {br}")), 206, &[], Some("br")),
        ("another does not", &ask("br", &format!("{range} {gzip}")), 200, BR, Some("brotli")),
    ]);
}

#[test]
fn a_variant_older_than_its_original_is_ignored_but_for_a_rounding() {
    let second = Duration::from_secs(1);
    // The original's time is 1,001.25 s.
    let rows = [
        ("as old", Duration::from_millis(1_001_250), true),
        ("newer", second * 1_002, true),
        ("rounded to a second", second * 1_001, true),
        ("rounded to two seconds", second * 1_000, true),
        ("older than a rounding", second * 999, false),
        ("made from something else, just before", Duration::from_millis(1_001_249), false),
    ];
    let base = Duration::from_secs(MODIFIED.0);
    for (why, time, is_used) in rows {
        let server = Server::start(TREE);
        server.dir.set_time("some.txt", base + Duration::from_millis(1_001_250));
        server.dir.set_time("some.txt.gz", base + time);
        let response = server.get("/some.txt\nAccept-Encoding: gzip");
        assert_eq!(response.text(), if is_used { "gzip" } else { "identity" }, "{why}");
    }
}

#[test]
fn a_variant_is_a_regular_file() {
    let server = Server::start(&[("a.txt", "identity"), ("a.txt.gz/", ""), ("../b.gz", "beside")]);
    server.dir.write("b", "identity");
    server.dir.link("b.gz", "../b.gz");
    for path in ["/a.txt", "/b"] {
        let response = server.get(&format!("{path}\nAccept-Encoding: gzip"));
        assert_eq!(response.text(), "identity", "{path}");
    }
}

#[test]
fn switched_off() {
    let server = Server::with(TREE, |config| files(config).sidecars = false);
    let fields = ["!Content-Encoding", "!Vary"];
    let target = "/all.js\nAccept-Encoding: br";
    check(&server, &[("off", target, 200, &fields, Some("identity"))]);
}

/// Regression: a rule's Vary took the place of the file's own, so a shared cache could give an
/// encoding to clients that do not know it.
#[test]
fn a_rules_vary_stands_beside_that_of_the_file() {
    let server = Server::with(TREE, |config| {
        let set = vec![(http::header::VARY, "Origin".parse().unwrap())];
        let rule = HeaderRule { set, if_absent: true, ..HeaderRule::default() };
        config.sites[0].headers = vec![rule];
    });
    for accepted in ["br", ""] {
        let target = format!("/all.js\nAccept-Encoding: {accepted}");
        let answer = server.connect().request("GET", &target);
        let fields = answer.fields.iter().filter(|(name, _)| name == "Vary");
        let vary: Vec<&str> = fields.map(|(_, value)| &**value).collect();
        assert_eq!(vary, ["Accept-Encoding", "Origin"], "{accepted:?}");
    }
}

/// Regression: a rule's Vary took the place of that of a listing, which is HTML or JSON.
#[test]
fn a_rules_vary_stands_beside_that_of_a_listing() {
    let server = Server::with(&[("dir/a.txt", "a")], |config| {
        files(config).listing = true;
        let set = vec![(http::header::VARY, "Cookie".parse().unwrap())];
        config.sites[0].headers = vec![HeaderRule { set, ..HeaderRule::default() }];
    });
    for accepted in ["application/json", "text/html"] {
        let listed = server.get(&format!("/dir/\nAccept: {accepted}"));
        let fields = listed.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("vary"));
        let vary: Vec<&str> = fields.map(|(_, value)| &**value).collect();
        assert_eq!(vary, ["Accept", "Cookie"], "{accepted}");
    }
}
