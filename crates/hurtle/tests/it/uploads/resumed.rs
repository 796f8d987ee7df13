//! Tests of resumable uploads (draft-ietf-httpbis-resumable-upload-12, interop version 8).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hurtle::config::{Auth, Basic, Config, EtagSource, Uploads};
use rustix::fs::{FlockOperation, flock};

use super::{limits, names, pattern, send, send_on, start, wait_until, with};
use crate::support::site::files;
use crate::support::{Client, Dir, Response, Server};

/// Directory of unfinished uploads.
const STORE: &str = ".hurtle-upload-resumable";

const SPEAKS: &str = "Upload-Draft-Interop-Version: 8";

/// Begins an incomplete upload; returns its path.
#[track_caller]
fn begin(server: &Server, target: &str, body: &[u8]) -> String {
    let mut client = server.connect();
    client.send(head("PUT", &format!("{target}\n{SPEAKS}\nUpload-Complete: ?0"), body.len()));
    client.send(body);
    let created = last_answer(&mut client);
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.field("Upload-Complete"), Some("?0"));
    assert_eq!(created.field("Upload-Offset"), Some(&*body.len().to_string()));
    created.field("Location").unwrap().to_owned()
}

fn head(method: &str, target: &str, len: usize) -> String {
    let (path, fields) = target.split_once('\n').unwrap_or((target, ""));
    let fields: String = fields.lines().map(|field| format!("{field}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {len}\r\n\r\n")
}

/// Reads the final response.
#[track_caller]
fn last_answer(client: &mut Client) -> Response {
    loop {
        let answer = client.answer("PUT");
        if answer.status >= 200 {
            return answer;
        }
    }
}

/// The fields of a part.
fn part(path: &str, offset: usize, complete: bool) -> String {
    let complete = u8::from(complete);
    format!(
        "{path}\nUpload-Offset: {offset}\nUpload-Complete: ?{complete}\nContent-Type: \
         application/partial-upload"
    )
}

#[track_caller]
fn append(server: &Server, path: &str, offset: usize, complete: bool, body: &[u8]) -> Response {
    send(server, "PATCH", &part(path, offset, complete), body)
}

/// The offset of an unfinished upload, in bytes, as HEAD reports it.
#[track_caller]
fn offset(server: &Server, path: &str) -> usize {
    let answer = server.head(path);
    assert_eq!(answer.status, 204, "{answer:?}");
    assert_eq!(answer.field("Upload-Complete"), Some("?0"), "{answer:?}");
    assert_eq!(answer.field("Cache-Control"), Some("no-store"), "{answer:?}");
    assert!(answer.field("Upload-Limit").unwrap().contains("max-age="), "{answer:?}");
    answer.field("Upload-Offset").unwrap().parse().unwrap()
}

/// The file that holds an upload's bytes.
fn data(dir: &Dir, path: &str) -> PathBuf {
    dir.path(path.rsplit_once(STORE).map(|(_, name)| format!("{STORE}{name}")).unwrap())
}

/// Names of the files kept for unfinished uploads.
fn kept(dir: &Dir) -> Vec<String> {
    if dir.path(STORE).exists() { names(dir, STORE) } else { vec![] }
}

#[test]
fn a_resumable_upload_is_announced_and_completed() {
    let server = start(&[("d/", "")]);
    let mut client = server.connect();
    let body = pattern(700_000);
    let target = format!("/d/a\n{SPEAKS}\nUpload-Complete: ?1\nExpect: 100-continue");
    client.send(head("PUT", &target, body.len()));
    let announced = client.answer("PUT");
    assert_eq!(announced.status, 104, "{announced:?}");
    assert_eq!(announced.field("Upload-Draft-Interop-Version"), Some("8"));
    assert_eq!(announced.field("Upload-Limit"), Some("max-size=1073741824, max-age=86400"));
    let path = announced.field("Location").unwrap();
    assert!(path.starts_with(&format!("/{STORE}/")) && path.len() > STORE.len() + 30, "{path}");
    assert_eq!(client.answer("PUT").status, 100, "asked for all the same");
    client.send(&body);
    let created = last_answer(&mut client);
    assert_eq!((created.status, created.field("Upload-Complete")), (201, Some("?1")));
    let got = client.request("GET", "/d/a");
    assert!(got.body == body && got.field("ETag") == created.field("ETag"), "{created:?}");
    assert_eq!(server.head(path).status, 404, "it is over");
    assert_eq!(kept(&server.dir), [""; 0]);
    let mode = fs::metadata(server.dir.path("d/a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "{mode:o}");
}

#[test]
fn an_interrupted_upload_is_resumed_even_after_a_restart() {
    for (etag, restart) in [(EtagSource::Auto, false), (EtagSource::Content, true)] {
        let configure = |config: &mut Config| {
            *config = taking(config, etag);
            limits(config).fsync = restart;
        };
        let mut server = Server::with(&[("a", "old")], configure);
        let body = pattern(3 << 20);
        let mut client = server.connect();
        client.send(head("PUT", &format!("/a\n{SPEAKS}\nUpload-Complete: ?1"), body.len()));
        let path = client.answer("PUT").field("Location").unwrap().to_owned();
        client.send(&body[..2 << 20]);
        let len = || fs::metadata(data(&server.dir, &path)).map_or(0, |data| data.len());
        wait_until("some of it is on the disk", || len() >= 1 << 20);
        drop(client);
        if restart {
            server = Server::of(server.stop(), configure);
        }
        let from = offset(&server, &path);
        assert!((1 << 20..=2 << 20).contains(&from), "{from}");
        assert_eq!(server.head(&path).field("Upload-Length"), Some("3145728"));
        assert_eq!(server.get("/a").text(), "old", "nothing is seen of it");
        // The upload arrives in two parts.
        let middle = from + 100_000;
        let more = append(&server, &path, from, false, &body[from..middle]);
        assert_eq!((more.status, more.field("Upload-Complete")), (204, Some("?0")), "{more:?}");
        let done = append(&server, &path, middle, true, &body[middle..]);
        assert_eq!((done.status, done.field("Upload-Complete")), (204, Some("?1")), "{done:?}");
        let got = server.get("/a");
        assert!(got.body == body, "{restart}");
        assert_eq!(got.field("ETag"), done.field("ETag"));
        assert_eq!(kept(&server.dir), [""; 0]);
    }
}

fn taking(config: &Config, etag: EtagSource) -> Config {
    let mut config = config.clone();
    config.sites[0].auth = Some(Auth::None);
    files(&mut config).uploads = Some(Uploads { free_bytes: 0, ..Default::default() });
    files(&mut config).etag = etag;
    config
}

#[test]
fn invalid_parts_are_refused_and_change_nothing() {
    let server = start(&[]);
    let path = begin(&server, "/a\nUpload-Length: 10", b"01234");
    let at = |offset: usize, more: &str| format!("{}{more}", part(&path, offset, false));
    let rows: [(&str, String, &[u8], u16); 9] = [
        ("before the end", at(4, ""), b"45", 409),
        ("beyond it", at(6, ""), b"67", 409),
        ("more than there is to be", at(5, ""), b"567890", 400),
        ("less than all, as the last", part(&path, 5, true), b"5678", 400),
        ("another length", at(5, "\nUpload-Length: 11"), b"5", 400),
        ("coded", at(5, "\nContent-Encoding: gzip"), b"5", 415),
        ("nowhere", at(5, "").replace("Upload-Offset", "X-Offset"), b"5", 400),
        ("neither last nor not", at(5, "").replace("?0", "1"), b"5", 400),
        ("something else", at(5, "").replace("application", "text"), b"5", 415),
    ];
    for (what, target, body, status) in rows {
        let answer = send(&server, "PATCH", &target, body);
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert_ne!(answer.field("Upload-Complete"), Some("?1"), "{what}");
        if status == 409 {
            assert_eq!(answer.field("Upload-Offset"), Some("5"), "{what}");
            assert!(answer.text().contains("\"expected-offset\":5"), "{what}: {answer:?}");
        }
        assert_eq!(offset(&server, &path), 5, "{what}");
    }
    let done = append(&server, &path, 5, true, b"56789");
    assert_eq!(done.status, 201, "{done:?}");
    assert_eq!(server.get("/a").text(), "0123456789");

    // A chunked body's excess length is noticed only once it has arrived.
    let path = begin(&server, "/b\nUpload-Length: 3", b"ab");
    let mut client = server.connect();
    let target = part(&path, 2, true).replace('\n', "\r\n");
    client.send(format!("PATCH {}", target.replacen("\r\n", " HTTP/1.1\r\nHost: a\r\n", 1)));
    client.send("\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ncd\r\n0\r\n\r\n");
    assert_eq!(client.answer("PATCH").status, 400);
    assert_eq!(server.head(&path).status, 404, "it is at its end");
    assert_eq!((server.get("/b").status, kept(&server.dir)), (404, vec![]));
}

#[test]
fn an_upload_belongs_to_its_user() {
    let dir = Dir::new(&[]);
    let user = |name: &str| {
        let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap();
        format!("{name}:{hash}\n")
    };
    dir.write("../users", user("anna") + &user("bo"));
    let auth = Some(Auth::Basic(Basic::new(dir.path("../users"))));
    let server = Server::of(dir, |config| {
        config.sites[0].auth = auth;
        files(config).uploads = Some(Uploads { free_bytes: 0, ..Default::default() });
    });
    let shown = |name: &str| {
        use base64::Engine as _;
        let coded = base64::engine::general_purpose::STANDARD.encode(format!("{name}:secret"));
        format!("Authorization: Basic {coded}")
    };
    let (anna, bo) = (shown("anna"), shown("bo"));
    let path = begin(&server, &format!("/a\n{anna}"), b"hello");
    for (who, status) in [("".to_owned(), 401), (bo, 404)] {
        for method in ["HEAD", "GET", "DELETE"] {
            let answer = server.request(method, &format!("{path}\n{who}"));
            assert_eq!(answer.status, status, "{method} {who}");
            assert_eq!(answer.field("Upload-Offset"), None, "{method} {who}");
        }
        let target = format!("{}\n{who}", part(&path, 5, true));
        assert_eq!(send(&server, "PATCH", &target, b"x").status, status, "{who}");
    }
    let target = format!("{}\n{anna}", part(&path, 5, true));
    assert_eq!(send(&server, "PATCH", &target, b" anna").status, 201);
    assert_eq!(server.get(&format!("/a\n{anna}")).text(), "hello anna");
}

#[test]
fn a_newer_request_ends_the_older_one() {
    // On any worker.
    let server = with(&[], |config| config.workers = 4.try_into().unwrap());
    let path = begin(&server, "/a", b"");
    let mut older = server.connect();
    older.send(head("PATCH", &part(&path, 0, true), 1_000_000));
    older.send(pattern(400_000));
    let len = || fs::metadata(data(&server.dir, &path)).map_or(0, |data| data.len());
    wait_until("some of it is on the disk", || len() > 0);
    let from = offset(&server, &path);
    assert_eq!(older.answer("PATCH").status, 409, "another request goes on");
    older.send(pattern(600_000));
    assert_eq!(offset(&server, &path), from, "what it still sends is lost");
    let done = append(&server, &path, from, true, &pattern(1_000_000)[from..]);
    assert_eq!(done.status, 201, "{done:?}");
    assert!(fs::read(server.dir.path("a")).unwrap() == pattern(1_000_000));

    // DELETE ends the request in progress as well.
    let path = begin(&server, "/b", b"");
    let mut older = server.connect();
    older.send(head("PATCH", &part(&path, 0, true), 1_000_000));
    older.send(pattern(400_000));
    let len = || fs::metadata(data(&server.dir, &path)).map_or(0, |data| data.len());
    wait_until("some of it is on the disk", || len() > 0);
    assert_eq!(server.request("DELETE", &path).status, 204);
    assert_eq!(older.answer("PATCH").status, 409);
    assert_eq!(server.head(&path).status, 404);
    assert_eq!((kept(&server.dir), names(&server.dir, "").len()), (vec![], 2));
}

#[test]
fn conditions_are_evaluated_at_completion() {
    let server = start(&[]);
    let path = begin(&server, "/a\nIf-None-Match: *", b"late");
    assert_eq!(send(&server, "PUT", "/a", b"first").status, 201);
    let late = append(&server, &path, 4, true, b"");
    assert_eq!((late.status, late.field("Upload-Complete")), (412, Some("?1")), "{late:?}");
    assert_eq!((server.get("/a").text(), kept(&server.dir)), ("first", vec![]));
    let target = format!("/a\n{SPEAKS}\nUpload-Complete: ?0\nIf-None-Match: *");
    assert_eq!(send(&server, "PUT", &target, b"x").status, 412, "nor is one begun");
    assert_eq!(kept(&server.dir), [""; 0]);
}

#[test]
fn the_store_is_bounded_and_private_and_never_served() {
    let server = with(&[], |config| {
        files(config).dotfiles = true;
        files(config).listing = true;
        limits(config).resumable = 2;
        limits(config).resumable_bytes = 1_000;
        limits(config).file_bytes = 1_000;
    });
    let target = format!("/a\n{SPEAKS}\nUpload-Complete: ?0");
    let path = begin(&server, "/a\nUpload-Length: 600", b"hello");
    let one = fs::metadata(server.dir.path(STORE)).unwrap().permissions().mode();
    assert_eq!(one & 0o777, 0o700, "{one:o}");
    for target in [format!("/{STORE}"), format!("/{STORE}/"), format!("{path}.json")] {
        assert_eq!(server.get(&target).status, 404, "{target}");
        assert!([403, 404, 405].contains(&send(&server, "PUT", &target, b"x").status), "{target}");
    }
    assert_eq!(send(&server, "PUT", &path, b"x").status, 405);
    assert!(!server.get("/").text().contains("hurtle-upload"));

    // The limit leaves no room for another 600 bytes, nor for an upload of unknown length.
    for more in ["", "\nUpload-Length: 600"] {
        assert_eq!(send(&server, "PUT", &format!("{target}{more}"), b"x").status, 507, "{more}");
    }
    begin(&server, "/a\nUpload-Length: 300", b"");
    let answer = send(&server, "PUT", &format!("{target}\nUpload-Length: 1"), b"x");
    assert_eq!(answer.status, 507, "two are two: {answer:?}");
    // A complete upload needs no place in the store and is accepted.
    let whole = target.replace("?0", "?1");
    assert_eq!(send(&server, "PUT", &whole, b"whole").status, 201, "without an interim answer");
    assert_eq!(server.get("/a").text(), "whole");
    let large = send(&server, "PUT", &format!("{target}\nUpload-Length: 1001"), b"x");
    assert_eq!(large.status, 413);
    assert!(large.field("Upload-Limit").unwrap().starts_with("max-size=1000,"), "{large:?}");
    assert_eq!(server.request("DELETE", &path).status, 204);
    begin(&server, "/a\nUpload-Length: 600", b"");
}

#[test]
fn an_upload_is_unlocked_once_its_part_is_answered() {
    let server = start(&[]);
    let is_free = |path: &str| {
        let file = fs::File::open(data(&server.dir, path)).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    };
    // A lock released slightly too late is rarely observed, so this is tried often.
    for _ in 0..20 {
        let path = begin(&server, "/a", b"one");
        assert!(is_free(&path), "by 201");
        assert_eq!(append(&server, &path, 3, false, b"two").status, 204);
        assert!(is_free(&path), "by 204");
        assert_eq!(server.request("DELETE", &path).status, 204);
    }
}

#[test]
fn an_unfinished_upload_expires_after_a_day() {
    let server = start(&[]);
    let (path, other) = (begin(&server, "/a", b"old"), begin(&server, "/b", b"new"));
    make_a_day_older(&server.dir, &path);
    assert_eq!(server.head(&path).status, 404);
    assert!(!data(&server.dir, &path).exists());
    let third = begin(&server, "/c", b"old");
    make_a_day_older(&server.dir, &third);
    begin(&server, "/d", b"");
    assert!(!data(&server.dir, &third).exists(), "another one needs its room");
    let fourth = begin(&server, "/d", b"old");
    make_a_day_older(&server.dir, &fourth);
    let server = Server::of(server.stop(), |config| {
        *config = taking(config, EtagSource::Auto);
    });
    wait_until("the sweep at the start", || !data(&server.dir, &fourth).exists());
    assert_eq!(offset(&server, &other), 3, "which leaves the others");
}

/// Sets an upload's creation time back.
fn make_a_day_older(dir: &Dir, path: &str) {
    let record = data(dir, path).with_extension("json");
    let text = fs::read_to_string(&record).unwrap();
    let (before, rest) = text.split_once("\"created\": ").unwrap();
    let (created, after) = rest.split_once(',').unwrap();
    let created = created.parse::<u64>().unwrap() - 24 * 60 * 60;
    fs::write(&record, format!("{before}\"created\": {created},{after}")).unwrap();
}

#[test]
fn a_completed_upload_accepts_no_more_parts() {
    // As after a crash between linking the file and removing the upload.
    let server = start(&[]);
    let path = begin(&server, "/a", b"whole");
    fs::hard_link(data(&server.dir, &path), server.dir.path("a")).unwrap();
    assert_eq!(append(&server, &path, 5, true, b" and more").status, 404);
    assert_eq!(server.get("/a").text(), "whole");
    assert_eq!(kept(&server.dir), [""; 0]);
}

#[test]
fn a_client_without_this_version_uploads_plainly() {
    let server = start(&[]);
    for (what, fields) in [
        ("no version", "Upload-Complete: ?1"),
        ("another", "Upload-Complete: ?1\nUpload-Draft-Interop-Version: 6"),
        ("nonsense", "Upload-Complete: yes\nUpload-Draft-Interop-Version: 8"),
    ] {
        let answer = send(&server, "PUT", &format!("/{}\n{fields}", what.len()), b"x");
        assert_eq!((answer.status, answer.field("Upload-Complete")), (201, None), "{what}");
    }
    // A part is not served as a file.
    assert_eq!(send(&server, "PUT", "/part\nUpload-Complete: ?0", b"x").status, 400);
    assert_eq!(server.get("/part").status, 404);
    let mut old = server.connect();
    let request = head("PUT", &format!("/old\n{SPEAKS}\nUpload-Complete: ?1"), 1);
    old.send(request.replace("HTTP/1.1", "HTTP/1.0"));
    old.send("x");
    assert_eq!(old.answer("PUT").status, 201, "HTTP/1.0 knows no interim answers");

    let none = with(&[], |config| limits(config).resumable = 0);
    let target = format!("/a\n{SPEAKS}\nUpload-Complete: ?1");
    assert_eq!(send(&none, "PUT", &target, b"x").status, 201);
    assert_eq!(none.request("OPTIONS", "/a").field("Upload-Limit"), None);
    assert_eq!(
        server.request("OPTIONS", "/a").field("Upload-Limit"),
        Some("max-size=1073741824, max-age=86400")
    );
}

#[test]
fn a_long_upload_gets_progress_responses() {
    let server = with(&[], |config| limits(config).rate = 200_000);
    let mut client = server.connect();
    client.send(head("PUT", &format!("/a\n{SPEAKS}\nUpload-Complete: ?1"), 400_000));
    client.send(pattern(400_000));
    let announced = client.answer("PUT");
    assert!(announced.field("Location").is_some(), "{announced:?}");
    let told = client.answer("PUT");
    let offset: u64 = told.field("Upload-Offset").unwrap().parse().unwrap();
    assert_eq!((told.status, told.field("Location")), (104, None), "{told:?}");
    assert!((1..=400_000).contains(&offset), "{offset}");
    assert_eq!(last_answer(&mut client).status, 201);
    let mut client = server.connect();
    assert_eq!(send_on(&mut client, "PUT", "/b", b"x").status, 201);
}
