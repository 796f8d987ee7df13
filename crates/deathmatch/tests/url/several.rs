//! Several requests of one load, and requests with bodies over every protocol.

use std::fs;
use std::process::{Command, Output};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use deathmatch::tls::Identity;
use serde_json::{Value, json};

use crate::scripted::folder;
use crate::server::{Server, serve_http2, serve_http2_plainly, tls};
use crate::{DEATHMATCH, ONE_AT_A_TIME, said};

fn load(args: &[&str]) -> (Output, Value) {
    let output = Command::new(DEATHMATCH).arg("--json").args(args).output().unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, found)
}

/// Request, responses and failures of each request.
fn by_request(found: &Value) -> Value {
    let all = found["by_request"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| json!([one["request"], one["responses"], one["failed"]])).collect()
}

#[test]
fn several_urls_are_requested_by_their_weights_and_counted_apart() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let url = |path: &str| format!("http://{}{path}", server.address);
    let (ok, missing, chunked) = (url("/ok"), url("/missing"), url("/chunked"));
    for rate in [&[][..], &["-r", "500"]] {
        let urls = [&ok[..], &missing, &chunked];
        let args = [&["-n", "60", "-c", "1", "--weights", "4,1,1"], rate, &urls].concat();
        let (output, found) = load(&args);
        assert_eq!(output.status.code(), Some(1), "a request fails: {}", said(&output));
        let want = json!([["GET /ok", 40, 0], ["GET /missing", 10, 10], ["GET /chunked", 10, 0]]);
        assert_eq!(by_request(&found), want, "{found}");
        assert!(found["by_request"][0]["latency"]["p99_ms"].as_f64().unwrap() > 0.0, "{found}");
        let first: Vec<String> = server.seen.lock().unwrap().try_iter().take(6).collect();
        let paths: Vec<_> = first.iter().map(|one| one.split(' ').nth(1).unwrap()).collect();
        assert_eq!(paths, ["/ok", "/ok", "/missing", "/ok", "/chunked", "/ok"]);
    }
    let text = Command::new(DEATHMATCH).args(["-n", "4", &ok, &missing]).output().unwrap();
    assert!(said(&text).contains("GET 2 requests of http://"), "{}", said(&text));
    assert!(said(&text).contains("  GET /missing\n"), "{}", said(&text));
    // One alone has no figures apart.
    assert_eq!(load(&["-n", "1", &ok]).1.get("by_request"), None);
    for (args, why) in [
        (&[&ok[..], "https://127.0.0.1:1/"][..], "two servers"),
        (&[&ok, "--weights", "1,2"], "one for each"),
        (&[&ok, "--weights", "0"], "sum"),
        (&["--targets", "/no/such/file"], "/no/such/file"),
        (&["--har", "/etc/hostname"], "HAR"),
        (&["--targets", "/etc/hostname", &ok], "cannot be used with"),
    ] {
        let (output, _) = load(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{args:?}: {}", said(&output));
    }
}

/// Regression: requests that waited for a connection until their timeout were those of none.
#[test]
fn requests_that_wait_in_vain_are_counted_apart_too() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let [one, other] =
        ["/silent?1", "/silent?2"].map(|path| format!("http://{}{path}", server.address));
    let load_args = ["-n", "10", "-c", "1", "-r", "100", "--timeout", "300ms"];
    let (_, found) = load(&[&load_args[..], &[&one, &other]].concat());
    assert_eq!(found["errors"]["timeout"], 10, "{found}");
    let want = json!([["GET /silent?1", 0, 5], ["GET /silent?2", 0, 5]]);
    assert_eq!(by_request(&found), want, "{found}");
}

#[test]
fn files_of_targets_and_archives_of_browsers_have_the_requests() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let (folder, address) = (folder("url-several"), server.address);
    let (body, targets, archive) =
        (folder.join("body"), folder.join("targets"), folder.join("page.har"));
    fs::write(&body, "content").unwrap();
    let text = format!(
        "# A load as vegeta has it.\nHEAD http://{address}/ok\n\nGET http://{address}/ok\nX-Own: a\n\nPUT http://{address}/typed\n@{}\n",
        body.display()
    );
    fs::write(&targets, text).unwrap();
    let (targets, archive) = (targets.to_str().unwrap(), archive.to_str().unwrap());
    // HEAD and GET have the same head of their responses, but only one a body.
    let (output, found) =
        load(&["-n", "30", "-c", "1", "-H", "X-Own: b", "-H", "X-All: c", "--targets", targets]);
    assert!(output.status.success(), "{}", said(&output));
    let want = json!([["HEAD /ok", 10, 0], ["GET /ok", 10, 0], ["PUT /typed", 10, 0]]);
    assert_eq!(by_request(&found), want, "{found}");
    assert_eq!((&found["method"], &found["reconnections"]), (&"GET, HEAD, PUT".into(), &0.into()));
    let seen: Vec<String> = server.seen.lock().unwrap().try_iter().take(3).collect();
    assert!(seen[0].starts_with("HEAD /ok ") && seen[0].contains("x-own: b\r\n"), "{seen:?}");
    assert!(seen[1].contains("x-own: a\r\n") && !seen[1].contains("x-own: b"), "{seen:?}");
    assert!(seen[1].contains("x-all: c\r\n"), "{seen:?}");
    assert!(seen[2].starts_with("PUT /typed ") && seen[2].ends_with("\r\n\r\ncontent"), "{seen:?}");

    let request = |method: &str, url: &str| {
        json!({ "method": method, "url": url, "headers": [
        { "name": ":authority", "value": "x" }, { "name": "Accept", "value": "image/avif" } ] })
    };
    let mut posted = request("POST", &format!("http://{address}/chunked?a=b"));
    posted["postData"] = json!({ "mimeType": "text/plain", "text": "typed in" });
    let entries = [
        request("GET", &format!("http://{address}/ok#top")),
        request("GET", "https://elsewhere.test/x.js"),
        // Regression: these were counted as requests to other servers.
        request("GET", "data:image/png;base64,AAAA"),
        request("GET", &format!("ws://{address}/chat")),
        posted,
    ];
    let entries: Vec<Value> = entries.map(|request| json!({ "request": request })).to_vec();
    let text = json!({ "log": { "version": "1.2", "entries": entries } }).to_string();
    fs::write(archive, text).unwrap();
    server.seen.lock().unwrap().try_iter().for_each(drop);
    let (output, found) = load(&["-n", "2", "-c", "1", "--har", archive]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("1 requests of"), "{}", said(&output));
    assert_eq!(by_request(&found), json!([["GET /ok", 1, 0], ["POST /chunked?a=b", 1, 0]]));
    let seen: Vec<String> = server.seen.lock().unwrap().try_iter().collect();
    assert!(seen[0].contains("accept: image/avif\r\n"), "{seen:?}");
    assert!(seen[1].ends_with("\r\n\r\ntyped in"), "{seen:?}");
}

#[test]
fn bodies_are_sent_over_http2_as_its_windows_allow() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder("url-h2-bodies");
    let identity = Identity::within(&folder).unwrap();
    let (address, requests) = serve_http2(tls(&identity, b"h2"));
    let (clear, clear_requests) = serve_http2_plainly();
    let body = folder.join("body");
    // Larger than every window of the server, which are the first ones.
    fs::write(&body, vec![b'x'; 300_000]).unwrap();
    let body = format!("@{}", body.display());
    for (url, requests) in [
        (format!("https://{address}/echo"), &requests),
        (format!("http://{clear}/echo"), &clear_requests),
    ] {
        for streams in ["1", "4"] {
            requests.store(0, Ordering::SeqCst);
            let args = ["--h2", "--insecure", "-n", "20", "-c", "2", "--streams", streams];
            let (output, found) = load(&[&args[..], &["-b", &body, &url]].concat());
            assert!(output.status.success(), "{url}: {}", said(&output));
            assert_eq!((&found["responses"], &found["failed"]), (&20.into(), &0.into()), "{found}");
            // Each response has the body that arrived.
            assert!(found["bytes"].as_u64().unwrap() >= 20 * 300_000, "{found}");
            assert_eq!(requests.load(Ordering::SeqCst), 20);
        }
        // A server that refuses a body early, and goes on with the next one.
        let (output, found) = load(&[
            "--h2",
            "--insecure",
            "-n",
            "20",
            "-c",
            "1",
            "-b",
            &body,
            &url.replace("echo", "refused"),
        ]);
        assert_eq!(output.status.code(), Some(1), "{url}: {}", said(&output));
        assert_eq!(found["statuses"], json!({ "413": 20 }), "{found}");
        assert_eq!(found["reconnections"], 0, "{found}");
    }
    let (output, _) = load(&["--h3", "-n", "1", &format!("http://{clear}/")]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
