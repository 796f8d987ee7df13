//! Visits: pages with what they need, and pauses, as a scenario's file names them.

use std::fs;
use std::process::Command;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use deathmatch::tls::Identity;
use serde_json::{Value, json};

use crate::scripted::folder;
use crate::server::{
    Server, serve_http2, serve_http2_leaving, serve_http2_leaving_an_asset, serve_http2_of_streams,
    tls,
};
use crate::{DEATHMATCH, ONE_AT_A_TIME, said};

/// Runs the steps against a server; returns the exit code and the figures.
fn visit(server: &str, steps: &str, options: &[&str]) -> (Option<i32>, Value) {
    let file = folder("url-visits").join("visit.toml");
    fs::write(&file, format!("server = \"{server}\"\n{steps}")).unwrap();
    let output = Command::new(DEATHMATCH)
        .arg("--scenario")
        .arg(&file)
        .args(options)
        .arg("--json")
        .output()
        .unwrap();
    let found = serde_json::from_slice(&output.stdout);
    (output.status.code(), found.unwrap_or_else(|_| panic!("{}", said(&output))))
}

const SHOP: &str = r#"
    [[step]]
    request = "GET /ok?page"
    assets = ["/ok?1", "/ok?2", "/chunked?3", "/old?4", "/close?5", "/ok?6", "/ok?7", "/ok?8"]
    pause = "50ms"
    [[step]]
    name = "buy"
    request = "POST /ok?buy"
    fields = ["X-Shop: 1"]
    body = "item"
"#;

#[test]
fn a_visitor_requests_a_page_then_its_assets_and_pauses() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let url = format!("http://{}", server.address);
    for load in [&["-n", "8", "-c", "1"][..], &["-d", "500ms", "-c", "1", "-r", "4", "--sleep"]] {
        let (code, found) = visit(&url, SHOP, load);
        assert_eq!(code, Some(0), "{found}");
        let steps = found["responses"].as_u64().unwrap();
        assert!((4..=8).contains(&steps), "{load:?}: {found}");
        assert_eq!(found["statuses"], json!({ "200": steps }), "{found}");
        assert!(found["seconds"].as_f64() > Some(0.05), "{found}");
        let names: Vec<&str> = found["by_request"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["request"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["GET /ok?page", "buy"]);
        let seen: Vec<String> = server.seen.lock().unwrap().try_iter().collect();
        let pages = seen.iter().filter(|request| request.contains("?page")).count() as u64;
        let bought = seen.iter().filter(|r| r.starts_with("POST /ok?buy ")).count() as u64;
        assert_eq!((pages + bought, seen.len() as u64), (steps, pages * 9 + bought), "{seen:?}");
        let buy = seen.iter().find(|request| request.starts_with("POST ")).unwrap();
        assert!(buy.contains("\r\nx-shop: 1\r\n") && buy.ends_with("\r\n\r\nitem"), "{buy}");
        // One visitor: the assets follow their page.
        for visit in seen.split(|request| request.contains("?buy")).filter(|v| !v.is_empty()) {
            assert!(visit[0].contains("?page") && visit.len() == 9, "{visit:?}");
        }
        // A browser's six connections, and one in place of that which the server closed.
        let connections = found["connections"].as_u64().unwrap();
        assert!((pages..=8 * pages).contains(&connections), "{found}");
        assert!(connections > 2 * pages, "assets are requested at once: {found}");
    }
}

#[test]
fn visits_that_wait_for_a_visitor_are_told() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let steps = "[[step]]\nrequest = \"/ok\"\npause = \"400ms\"";
    for (visitors, waits) in [("1", true), ("20", false)] {
        let load = ["-n", "8", "-r", "10", "-c", visitors];
        let (_, found) = visit(&format!("http://{}", server.address), steps, &load);
        let notes = found["warnings"].to_string();
        assert_eq!(notes.contains("one of 1 visitors had left"), waits, "{found}");
        assert_eq!(found["latency"]["max_ms"].as_f64() > Some(1_000.0), waits, "{found}");
    }
}

#[test]
fn a_step_fails_with_a_request_of_it() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let url = format!("http://{}", server.address);
    // The page, its asset, statuses of four steps, an error's kind.
    let rows: [(&str, &str, Value, &str); 5] = [
        ("/ok", "/missing", json!({ "404": 4 }), ""),
        ("/failing", "/ok", json!({ "503": 4 }), ""),
        ("/redirect", "/ok", json!({ "301": 4 }), ""),
        ("/ok", "/cut", json!({}), "reset"),
        ("/silent", "/ok", json!({}), "timeout"),
    ];
    for (page, asset, statuses, kind) in rows {
        let steps = format!("[[step]]\nrequest = \"{page}\"\nassets = [\"{asset}\"]");
        let (code, found) = visit(&url, &steps, &["-n", "4", "-c", "2", "--timeout", "200ms"]);
        let has_failed = page != "/redirect";
        assert_eq!(code, Some(i32::from(has_failed)), "{page}: {found}");
        assert_eq!(found["statuses"], statuses, "{page}: {found}");
        assert_eq!(found["failed"], if has_failed { 4 } else { 0 }, "{page}: {found}");
        if !kind.is_empty() {
            assert_eq!(found["errors"][kind], 4, "{page}: {found}");
        }
        let seen: Vec<String> = server.seen.lock().unwrap().try_iter().collect();
        if page == "/failing" {
            assert!(seen.iter().all(|r| r.starts_with("GET /failing ")), "no asset: {seen:?}");
        }
    }
}

#[test]
fn a_step_after_the_end_of_a_connection_has_a_new_one() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let leaving = serve_http2_leaving();
    for (address, options) in [(leaving, &["--h2"][..]), (server.address, &[])] {
        for path in ["/close", "/old"] {
            let steps =
                format!("[[step]]\nrequest = \"{path}?1\"\n[[step]]\nrequest = \"{path}?2\"");
            let load = [&["-n", "6", "-c", "1", "--timeout", "2s"], options].concat();
            let (code, found) = visit(&format!("http://{address}"), &steps, &load);
            assert_eq!((code, &found["responses"]), (Some(0), &6.into()), "{options:?}: {found}");
            assert_eq!(found["connections"], 6, "{options:?}: {found}");
        }
    }
}

#[test]
fn requests_that_a_server_leaves_have_a_new_connection_at_once() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let url = format!("http://{}", serve_http2_leaving_an_asset());
    let steps = "[[step]]\nrequest = \"/page\"\nassets = [\"/1\", \"/2\"]";
    let load = ["--h2", "-n", "1", "-c", "1", "--timeout", "2s"];
    let (code, found) = visit(&url, steps, &load);
    assert_eq!((code, &found["responses"]), (Some(0), &1.into()), "{found}");
    assert_eq!(found["connections"], 2, "{found}");
}

#[test]
fn a_response_to_head_has_no_body() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let steps = "[[step]]\nrequest = \"HEAD /ok\"\n[[step]]\nrequest = \"GET /ok\"\n\
                 [[step]]\nrequest = \"HEAD /ok?2\"";
    let load = ["-n", "9", "-c", "1", "--timeout", "2s"];
    let (code, found) = visit(&format!("http://{}", server.address), steps, &load);
    assert_eq!((code, &found["responses"]), (Some(0), &9.into()), "{found}");
    assert_eq!(found["connections"], 3, "one for each visit: {found}");
}

#[test]
fn over_http2_a_visitor_has_one_connection() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let identity = Identity::within(&folder("url-visits-tls")).unwrap();
    let (address, requests) = serve_http2(tls(&identity, b"h2"));
    let url = format!("https://localhost:{}", address.port());
    let steps = "[[step]]\nrequest = \"/a\"\nassets = [\"/b\", \"/c\", \"/d\"]\n\
                 [[step]]\nrequest = \"/e\"";
    let (code, found) = visit(&url, steps, &["--h2", "--insecure", "-n", "12", "-c", "2"]);
    assert_eq!((code, &found["responses"]), (Some(0), &12.into()), "{found}");
    assert_eq!(found["statuses"], json!({ "200": 12 }), "{found}");
    let [pages, others] = [0, 1].map(|at| found["by_request"][at]["responses"].as_u64().unwrap());
    assert_eq!(requests.load(Ordering::SeqCst), 4 * pages + others, "{found}");
    assert_eq!(found["connections"], pages, "one for each visit: {found}");
    let server = Server::start(Some(tls(&identity, b"http/1.1")));
    let url = format!("https://localhost:{}", server.address.port());
    let (code, found) = visit(&url, SHOP, &["--insecure", "-n", "8", "-c", "2"]);
    assert_eq!((code, &found["responses"]), (Some(0), &8.into()), "{found}");
}

/// Regression: a visitor sent all assets of a page at once, so a server that allows fewer streams
/// refused the surplus, and the visit failed.
#[test]
fn over_http2_a_visitor_has_no_more_streams_than_the_server_allows() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let url = format!("http://{}", serve_http2_of_streams(3));
    let assets: Vec<String> = (1..=8).map(|number| format!("/{number}")).collect();
    let steps = format!("[[step]]\nrequest = \"/page\"\nassets = {assets:?}");
    let load = ["--h2", "-n", "6", "-c", "2", "--timeout", "2s"];
    let (code, found) = visit(&url, &steps, &load);
    assert_eq!((code, &found["statuses"]), (Some(0), &json!({ "200": 6 })), "{found}");
    assert_eq!(found["errors"]["http2"], 0, "{found}");
    assert_eq!(found["connections"], 6, "one for each visit: {found}");
}

#[test]
fn a_scenario_is_explained_where_it_is_wrong() {
    let file = folder("url-visits-wrong").join("visit.toml");
    let rows: [(&str, &[&str], &str); 5] = [
        ("server = \"http://127.0.0.1:1\"\nstep = []", &[], "it has no step"),
        ("[[step]]", &[], "missing field"),
        ("", &["http://a/"], "cannot be used with"),
        // Regression: it took the pauses of visitors for stalls, and made requests up for them.
        ("", &["--latency-correction"], "cannot be used with"),
        ("{}", &[], "HAR"),
    ];
    for (text, options, expected) in rows {
        fs::write(&file, text).unwrap();
        let output =
            Command::new(DEATHMATCH).arg("--scenario").arg(&file).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}: {}", said(&output));
        assert!(said(&output).contains(expected), "{text}: {}", said(&output));
    }
    let output = Command::new(DEATHMATCH).args(["--scenario", "/no/such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--scenario /no/such: "), "{}", said(&output));
}
