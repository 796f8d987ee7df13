//! Tests of files that this server compresses.

use std::fs;
use std::time::{Duration, Instant};

use hurtle::config::{Config, HeaderRule, check};

use crate::support::coding::{decode, text};
use crate::support::rows::check as check_rows;
use crate::support::waiting::RESULT_PATIENCE;
use crate::support::{Dir, MODIFIED, Response, Server, eventually};

const CODINGS: [&str; 3] = ["br", "zstd", "gzip"];

/// Returns whether a response was encoded while it was sent.
fn is_live(response: &Response) -> bool {
    response.field("ETag").is_some_and(|tag| tag.ends_with("-live\""))
}

/// Requests a file until the encoding that was made of it comes.
#[track_caller]
fn made(server: &Server, path: &str, coding: &str) -> Response {
    let target = format!("{path}\nAccept-Encoding: {coding}");
    let mut client = server.connect();
    eventually(&format!("{path} in {coding}"), || {
        // Unlike GET it does not encode the file anew, beside the thread that is waited for.
        let head = client.request("HEAD", &target);
        assert_eq!(head.status, 200);
        let is_made = head.field("Content-Encoding") == Some(coding) && !is_live(&head);
        is_made.then(|| client.request("GET", &target))
    })
}

/// The content of a response.
fn decoded(response: &Response) -> Vec<u8> {
    match response.field("Content-Encoding") {
        Some(coding) => decode(coding, &response.body).unwrap(),
        None => response.body.clone(),
    }
}

/// A configuration with these lines of TOML; the files of `root` are served.
fn written(dir: &Dir, toml: &str) -> impl FnOnce(&mut Config) + use<> {
    let text = toml.replace("{root}", &dir.root().display().to_string());
    move |config| {
        let read = check(&text, std::path::Path::new("/nowhere/hurtle.toml")).expect(&text);
        config.sites = read.sites;
        config.compress = read.compress;
    }
}

#[test]
fn every_request_gets_the_file_and_a_later_one_the_coding() {
    let page = text(20_000, 1);
    for coding in CODINGS {
        let server = Server::start(&[("a.html", &page)]);
        let first = server.get(&format!("/a.html\nAccept-Encoding: {coding}"));
        assert!(decoded(&first) == page.as_bytes(), "{coding}");
        assert_eq!(first.field("Vary"), Some("Accept-Encoding"));
        let later = made(&server, "/a.html", coding);
        assert_eq!(decode(coding, &later.body).unwrap(), page.as_bytes());
        assert!(later.body.len() < page.len() / 2, "{coding}: {}", later.body.len());
        assert_eq!(later.field("Content-Length"), Some(&*later.body.len().to_string()));
        assert_eq!(later.field("Vary"), Some("Accept-Encoding"));
        assert_eq!(later.field("Last-Modified"), Some(MODIFIED.1));
        assert_eq!(later.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!(server.get("/a.html").text(), page, "{coding} is not for everybody");
    }
}

#[test]
fn the_first_response_is_encoded_while_it_is_sent() {
    let sizes = [2_000, 16_385, 100_000, 300_000];
    let pages = sizes.map(|len| text(len, 12));
    for coding in CODINGS {
        let server = Server::start(&[]);
        for (size, page) in sizes.iter().zip(&pages) {
            let (path, why) = (format!("/{size}.html"), format!("{coding}, {size} bytes"));
            let ask = |fields: &str| format!("{path}\nAccept-Encoding: {coding}\n{fields}");
            server.dir.write(&path[1..], page);
            let [head, first] = ["HEAD", "GET"].map(|method| server.request(method, &ask("X: 1")));
            for response in [&head, &first] {
                let fields = ["Content-Encoding", "Vary", "Accept-Ranges", "Transfer-Encoding"];
                let found = fields.map(|name| response.field(name));
                // A fast machine may have made it by then.
                if is_live(response) {
                    // One that is encoded at once has a length.
                    let has_length = response.field("Content-Length").is_some();
                    let chunked = (!has_length).then_some("chunked");
                    let expected = [Some(coding), Some("Accept-Encoding"), None, chunked];
                    assert_eq!(found, expected, "{why}");
                    assert!(response.field("ETag").unwrap().starts_with("W/"), "{why}");
                }
            }
            assert!(head.body.is_empty() && decoded(&first) == page.as_bytes(), "{why}");
            assert!(first.body.len() < page.len() / 2, "{why}");
            assert_eq!(first.field("Last-Modified"), Some(MODIFIED.1));

            let later = made(&server, &path, coding);
            let [tag, later_tag] = [&first, &later].map(|r| r.field("ETag").unwrap().to_owned());
            assert!(later_tag.starts_with('"') && decoded(&later) == page.as_bytes(), "{why}");
            if !is_live(&first) {
                continue;
            }
            let own = format!("ETag: {tag}");
            let stored = format!("ETag: {later_tag}");
            #[rustfmt::skip]
            check_rows(&server, &[
                ("the same content", &ask(&format!("If-None-Match: {tag}")), 304, &[&own, "!Content-Encoding"], Some("")),
                ("any", &ask("If-None-Match: *"), 304, &[&stored], Some("")),
                ("a weak tag joins no parts", &ask(&format!("Range: bytes=0-1\nIf-Range: {tag}")), 200, &[&stored], None),
                ("nor is it strong", &ask(&format!("If-Match: {tag}")), 412, &[], Some("")),
            ]);
        }
    }
}

#[test]
fn a_client_of_http_1_0_gets_the_first_response_unencoded() {
    let page = text(100_000, 13);
    let server = Server::start(&[("a.html", &page)]);
    let mut client = server.connect();
    client.send("GET /a.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
    let response = client.response();
    assert_eq!(response.field("Transfer-Encoding"), None);
    assert_eq!(response.field("Content-Length"), Some(&*response.body.len().to_string()));
    assert!(decoded(&response) == page.as_bytes());
}

#[test]
fn every_size_decodes_to_the_original() {
    let sizes = [1_024, 1_025, 16_384, 16_385, 200_000];
    let files: Vec<(String, String)> =
        sizes.iter().map(|len| (format!("{len}.txt"), text(*len, 7))).collect();
    let tree: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let server = Server::start(&tree);
    for (name, content) in &files {
        for coding in CODINGS {
            let response = made(&server, &format!("/{name}"), coding);
            let decoded = decode(coding, &response.body).unwrap();
            assert!(decoded == content.as_bytes(), "{name} in {coding}");
        }
    }
}

#[test]
fn the_client_selects_the_coding() {
    let page = text(5_000, 2);
    let server = Server::start(&[("a.css", &page)]);
    CODINGS.iter().for_each(|coding| drop(made(&server, "/a.css", coding)));
    let plain = &["!Content-Encoding", "Vary: Accept-Encoding"][..];
    let rows: &[(&str, &str, &[&str])] = &[
        ("a browser: the smallest", "gzip, deflate, br, zstd", &["Content-Encoding: br"]),
        ("zstd before gzip", "gzip, zstd", &["Content-Encoding: zstd"]),
        ("the only one", "gzip", &["Content-Encoding: gzip"]),
        ("by weight", "br;q=0.1, gzip;q=0.9, zstd;q=0.5", &["Content-Encoding: gzip"]),
        ("a refusal", "br;q=0, *", &["Content-Encoding: zstd"]),
        ("identity refused", "identity;q=0, gzip", &["Content-Encoding: gzip"]),
        ("identity preferred", "identity, br;q=0.5", plain),
        ("nothing listed", "", plain),
        ("nothing known", "deflate", plain),
    ];
    for (why, accept, fields) in rows {
        let target = format!("/a.css\nAccept-Encoding: {accept}");
        check_rows(&server, &[(why, &target, 200, fields, None)]);
    }
    check_rows(&server, &[("no field", "/a.css", 200, plain, Some(&page))]);
}

#[test]
fn each_coding_has_its_own_tag_conditions_and_ranges() {
    let page = text(30_000, 3);
    let server = Server::start(&[("a.js", &page)]);
    let plain = server.get("/a.js").field("ETag").unwrap().to_owned();
    let responses = CODINGS.map(|coding| made(&server, "/a.js", coding));
    let mut tags: Vec<&str> = responses.iter().map(|r| r.field("ETag").unwrap()).collect();
    assert!(tags.iter().all(|tag| tag.starts_with('"')), "they are strong: {tags:?}");
    tags.push(&plain);
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4, "{tags:?}");
    for (coding, whole) in CODINGS.iter().zip(&responses) {
        let tag = whole.field("ETag").unwrap();
        let ask = |fields: &str| format!("/a.js\nAccept-Encoding: {coding}\n{fields}");
        let own = format!("ETag: {tag}");
        let part = format!("Content-Range: bytes 5-9/{}", page.len());
        let part_of_encoded = format!("Content-Range: bytes 5-9/{}", whole.body.len());
        let end = format!("Content-Range: bytes */{}", page.len());
        let encoded = format!("Content-Encoding: {coding}");
        #[rustfmt::skip]
        check_rows(&server, &[
            ("its own tag", &ask(&format!("If-None-Match: {tag}")), 304, &[&own, "Vary: Accept-Encoding"], Some("")),
            ("the original's tag", &ask(&format!("If-None-Match: {plain}")), 200, &[&encoded], None),
            ("not this one", &ask(&format!("If-Match: {plain}")), 412, &[], Some("")),
            ("its date", &ask(&format!("If-Modified-Since: {}", MODIFIED.1)), 304, &[&own], Some("")),
            ("a part is one of the original", &ask("Range: bytes=5-9"), 206, &[&part, "!Content-Encoding"], Some(&page[5..10])),
            ("behind its end", &ask("Range: bytes=30000-"), 416, &[&end, "!Content-Encoding"], None),
            ("the encoded one goes on", &ask(&format!("Range: bytes=5-9\nIf-Range: {tag}")), 206, &[&part_of_encoded, &encoded, &own], None),
            ("so does the original", &ask(&format!("Range: bytes=5-9\nIf-Range: {plain}")), 206, &[&part, "!Content-Encoding"], None),
            ("another does not", &ask("Range: bytes=5-9\nIf-Range: \"x\""), 200, &[&encoded], None),
        ]);
        let part = server.get(&ask(&format!("Range: bytes=5-9\nIf-Range: {tag}")));
        assert_eq!(part.body, whole.body[5..10]);
    }
}

#[test]
fn files_that_do_not_gain_are_sent_as_they_are() {
    let page = text(4_000, 4);
    let tree = [
        ("small.txt", &page[..1_023]),
        ("large.txt", &page),
        ("image.png", &page),
        ("unknown", &page),
        ("style.css", &page[..2_000]),
        ("coded.txt", &page[..2_000]),
    ];
    let server = Server::with(&tree, |config| {
        config.compress.max_bytes = 3_000;
        config.compress.types.push("image/x-none".to_owned());
        let rule = |pattern: &str, name: &'static str, value: &'static str| HeaderRule {
            matcher: hurtle::config::Matcher::of_pattern(pattern),
            set: vec![(http::HeaderName::from_static(name), http::HeaderValue::from_static(value))],
            always: false,
            types: Vec::new(),
            if_absent: false,
            cookie_flags: Vec::new(),
            remove: vec![],
        };
        config.sites[0].headers = vec![
            rule("*.css", "cache-control", "public, No-Transform"),
            rule("coded.txt", "content-encoding", "x-own"),
        ];
    });
    let rows = [
        ("too small", "/small.txt"),
        ("too large", "/large.txt"),
        ("an image", "/image.png"),
        ("no known type", "/unknown"),
        ("no-transform", "/style.css"),
    ];
    let plain = &["!Content-Encoding", "!Vary"][..];
    for (why, path) in rows {
        check_rows(&server, &[(why, &format!("{path}\nAccept-Encoding: br"), 200, plain, None)]);
    }
    let coded = server.get("/coded.txt\nAccept-Encoding: br");
    assert_eq!(coded.field("Content-Encoding"), Some("x-own"), "a rule says what it is");

    // It varies, because the gain is known only after the attempt.
    let server = Server::start(&[("page.txt", &page)]);
    let mut state = 9_u64;
    let mut noise = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let noise: Vec<u8> = (0..4_000).map(|_| noise()).collect();
    server.dir.write("noise.txt", &noise);
    let target = "/noise.txt\nAccept-Encoding: br";
    assert!(decoded(&server.get(target)) == noise);
    // The only thread encodes in order: once the page is there, the noise was tried.
    made(&server, "/page.txt", "br");
    let again = server.get(target);
    assert!(again.field("Content-Encoding").is_none() && again.body == noise);
}

#[test]
fn it_can_be_switched_off() {
    let page = text(4_000, 5);
    let tree = [("a.txt", page.as_str()), ("in/b.txt", &page)];
    let rows = [
        (
            "in the site",
            "[[site]]\ncompress = false\n[[site.mount]]\nfiles = '{root}'",
            false,
            false,
        ),
        (
            "in a mount",
            "[[site]]\n[[site.mount]]\nfiles = '{root}'\n[[site.mount]]\npath = '/in'\nfiles = '{root}/in'\ncompress = false",
            true,
            false,
        ),
        (
            "for others",
            "[[site]]\ncompress = false\n[[site.mount]]\nfiles = '{root}'\n[[site.mount]]\npath = '/in'\nfiles = '{root}/in'\ncompress = true",
            false,
            true,
        ),
        (
            "with its memory",
            "[compress]\ncache_bytes = 0\n[[site]]\n[[site.mount]]\nfiles = '{root}'",
            false,
            false,
        ),
    ];
    for (why, toml, outside, inside) in rows {
        let dir = Dir::new(&tree);
        let change = written(&dir, toml);
        let server = Server::of(dir, change);
        for (path, is_on) in [("/a.txt", outside), ("/in/b.txt", inside)] {
            if is_on {
                made(&server, path, "gzip");
                continue;
            }
            let response = server.get(&format!("{path}\nAccept-Encoding: gzip"));
            assert_eq!(response.field("Vary"), None, "{why}: {path}");
        }
    }
}

#[test]
fn the_operators_own_variants_are_preferred() {
    let page = text(4_000, 6);
    let server = Server::start(&[("a.txt", &page), ("a.txt.gz", "own gzip")]);
    let browser = "/a.txt\nAccept-Encoding: gzip, br";
    assert_eq!(server.get(browser).text(), "own gzip");
    let response = made(&server, "/a.txt", "br");
    assert_eq!(decode("br", &response.body).unwrap(), page.as_bytes());
    assert_eq!(server.get(browser).text(), "own gzip", "also when another one is there");
    assert_eq!(
        server.get("/a.txt\nAccept-Encoding: gzip;q=0.5, br").field("Content-Encoding"),
        Some("br")
    );
}

#[test]
fn a_changed_file_drops_what_was_made_of_it() {
    let (old, new) = (text(9_000, 7), text(9_500, 8));
    let server = Server::with(&[("a.txt", &old)], |config| config.revalidate = Duration::ZERO);
    let before = made(&server, "/a.txt", "br");
    server.dir.replace("a.txt", &new, MODIFIED.0 + 1);
    let at_once = server.get("/a.txt\nAccept-Encoding: br");
    assert!(decoded(&at_once) == new.as_bytes(), "the next response is of the new file");
    let after = made(&server, "/a.txt", "br");
    assert_ne!(before.field("ETag"), after.field("ETag"));
    assert!(decode("br", &after.body).unwrap() == new.as_bytes());
}

#[test]
fn a_file_that_changes_under_load_is_never_mixed() {
    const LAST: u32 = 12;
    let version = |n: u32| text(20_000 + n as usize, n + 100);
    let server =
        Server::with(&[("a.txt", &version(0))], |config| config.revalidate = Duration::ZERO);
    let last = version(LAST).len();
    let (coded, seen) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut client = server.connect();
            let (mut coded, mut seen) = (Vec::new(), Vec::new());
            let end = Instant::now() + RESULT_PATIENCE;
            // Until the last version has come in every coding.
            for coding in CODINGS.iter().cycle() {
                let response = client.request("GET", &format!("/a.txt\nAccept-Encoding: {coding}"));
                let found = response.field("Content-Encoding");
                let plain = match found {
                    Some(found) => decode(found, &response.body).expect("a whole body"),
                    None => response.body.clone(),
                };
                if found.is_some() && plain.len() == last && !coded.contains(coding) {
                    coded.push(*coding);
                }
                if seen.last() != Some(&plain) {
                    seen.push(plain);
                }
                if coded.len() == CODINGS.len() || Instant::now() > end {
                    break;
                }
            }
            (coded, seen)
        });
        for n in 1..=LAST {
            // Each version is there for some requests.
            (0..20).for_each(|_| drop(server.get("/a.txt\nAccept-Encoding: gzip")));
            server.dir.replace("a.txt", version(n), MODIFIED.0 + u64::from(n));
        }
        reader.join().unwrap()
    });
    let is_version = |plain: &Vec<u8>| (0..=LAST).any(|n| version(n).as_bytes() == plain);
    assert!(seen.iter().all(is_version), "each body is of one version");
    assert_eq!(coded.len(), CODINGS.len(), "the last version came only in {coded:?}");
}

#[test]
fn the_memory_is_bounded_and_goes_to_files_in_use() {
    let content = text(30_000, 9);
    let names: Vec<String> = (0..8).map(|n| format!("{n}.txt")).collect();
    let tree: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), content.as_str())).collect();
    // Room for about three of them.
    let one = made(&Server::start(&tree[..1]), "/0.txt", "gzip").body.len() as u64;
    let server = Server::with(&tree, |config| config.compress.cache_bytes = one * 3 + 3_000);
    // Each file in turn gets room, because those before it are not used any more.
    for name in &names {
        made(&server, &format!("/{name}"), "gzip");
    }
}

#[test]
fn a_directory_keeps_what_was_made() {
    let content = text(50_000, 10);
    let dir = Dir::new(&[("a.txt", &content)]);
    let cache = dir.path("../compressed");
    let toml = format!(
        "[compress]\ndirectory = '{}'\n[[site]]\n[[site.mount]]\nfiles = '{{root}}'",
        cache.display()
    );
    let change = written(&dir, &toml);
    let server = Server::of(dir, change);
    let before = made(&server, "/a.txt", "br");
    let kept = || -> Vec<_> { fs::read_dir(&cache).unwrap().map(|e| e.unwrap().path()).collect() };
    let file = eventually("one file", || (kept().len() == 1).then(|| kept().remove(0)));
    let written_at = fs::metadata(&file).unwrap().modified().unwrap();
    let dir = server.stop();
    let change = written(&dir, &toml);
    let server = Server::of(dir, change);
    let after = made(&server, "/a.txt", "br");
    assert_eq!((&before.body, before.field("ETag")), (&after.body, after.field("ETag")));
    assert_eq!(
        fs::metadata(&file).unwrap().modified().unwrap(),
        written_at,
        "it was not made again"
    );
}
