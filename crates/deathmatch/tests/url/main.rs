//! `deathmatch URL` as a user sees it: figures, files, messages and exit codes, against a scripted
//! server.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod calls;
#[path = "../scripted/mod.rs"]
mod scripted;
mod server;
mod several;
mod visits;
mod ways;

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use deathmatch::tls::Identity;
use rustix::process::{Pid, Signal, kill_process};
use scripted::folder;
use serde_json::Value;
use server::{Server, serve_http2, serve_http2_leaving_a_stream, serve_http2_plainly, tls};

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

/// The generator needs a whole core: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn every_way_to_respond_is_counted_and_decides_the_exit_code() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    // Path, exit code, status, and whether every response ends its connection.
    let rows = [
        ("/ok", 0, "200", false),
        ("/chunked?x=1", 0, "200", false),
        ("/redirect", 0, "301", false),
        ("/close", 0, "200", true),
        ("/old", 0, "200", true),
        ("/missing", 1, "404", false),
        ("/failing", 1, "503", true),
    ];
    for (path, code, status, closes) in rows {
        for load in [&["-n", "40", "-c", "4"][..], &["-n", "40", "-c", "4", "-r", "400"]] {
            let (output, found) = json(&server, path, load);
            assert_eq!(output.status.code(), Some(code), "{path}: {}", said(&output));
            assert_eq!(found["requests"], 40, "{path} {load:?}: {found}");
            assert_eq!(found["responses"], 40, "{path}: {found}");
            assert_eq!(found["statuses"], serde_json::json!({ status: 40 }), "{path}");
            assert_eq!(found["failed"], if code == 0 { 0 } else { 40 }, "{path}");
            let course = found["course"].as_array().unwrap();
            let failed: u64 = course.iter().map(|part| part["failed"].as_u64().unwrap()).sum();
            assert_eq!(found["failed"], failed, "in the course, {path}: {found}");
            let (all, again) = (&found["connections"], found["reconnections"].as_u64().unwrap());
            match closes {
                true => assert!(again >= 35, "{path}: {all} connections, {again} again"),
                false => assert_eq!((all.as_u64(), again), (Some(4), 0), "{path}"),
            }
            assert!(found["latency"]["p50_ms"].as_f64().unwrap() > 0.0, "{path}: {found}");
            let names_redirects = found["warnings"].to_string().contains("40 responses are redir");
            assert_eq!(names_redirects, path == "/redirect", "{path}: {found}");
        }
    }
    let rows =
        [("/cut", "reset", "10s"), ("/garbage", "status", "10s"), ("/silent", "timeout", "100ms")];
    for (path, kind, timeout) in rows {
        let (output, found) = json(&server, path, &["-n", "3", "-c", "1", "--timeout", timeout]);
        assert_eq!(output.status.code(), Some(1), "{path}: {}", said(&output));
        assert_eq!(
            (&found["failed"], &found["errors"][kind]),
            (&3.into(), &3.into()),
            "{path}: {found}"
        );
    }
}

#[test]
fn a_late_response_that_states_a_failure_has_failed_once() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    // The connection is busy for 200 ms, so requests are sent long after their intended start.
    let load = ["-n", "20", "-c", "1", "-r", "50", "--timeout", "300ms"];
    let (_, found) = json(&server, "/failing-slowly", &load);
    assert_eq!((&found["requests"], &found["failed"]), (&20.into(), &20.into()), "{found}");
    let statuses = found["statuses"]["503"].as_u64().unwrap_or(0);
    assert_eq!(found["responses"], statuses, "{found}");
    assert!(found["errors"]["timeout"].as_u64() > Some(0), "some were late: {found}");
}

#[test]
fn a_request_is_as_given() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let file = folder("url-body").join("body");
    fs::write(&file, "from a file").unwrap();
    let file = format!("@{}", file.display());
    let port = server.address.port();
    let rows: [(&[&str], &str, &[&str]); 5] = [
        (&[], "GET /ok?a=b HTTP/1.1\r\n", &["accept: */*", "user-agent: deathmatch/"]),
        (
            &["-b", "some text"],
            "POST /ok?a=b HTTP/1.1\r\n",
            &["content-length: 9\r\n", "\r\n\r\nsome text"],
        ),
        (&["-m", "PUT", "-b", &file], "PUT /ok?a=b HTTP/1.1\r\n", &["\r\n\r\nfrom a file"]),
        (&["-m", "HEAD"], "HEAD /ok?a=b HTTP/1.1\r\n", &[]),
        (&["-H", "Host: other", "-H", "X-Y: z"], "GET ", &["host: other\r\n", "x-y: z\r\n"]),
    ];
    for (args, first, parts) in rows {
        let (output, found) = json(&server, "/ok?a=b", &[&["-n", "2", "-c", "1"], args].concat());
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        assert_eq!(found["responses"], 2, "{args:?}");
        let seen = server.seen.lock().unwrap().try_iter().last().unwrap();
        assert!(seen.starts_with(first), "{args:?}: {seen}");
        assert!(parts.iter().all(|part| seen.contains(part)), "{args:?}: {seen}");
        let host = format!("host: 127.0.0.1:{port}\r\n");
        assert_eq!(seen.contains(&host), !args.contains(&"-H"), "{args:?}: {seen}");
    }
}

#[test]
fn a_stall_is_in_the_time_of_every_request_it_delays() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // The first request takes 500 ms; at 100 requests a second 39 are due meanwhile.
    let server = Server::start(None);
    let (_, open) = json(&server, "/stall", &["-n", "40", "-c", "1", "-r", "100"]);
    assert!(open["latency"]["p50_ms"].as_f64().unwrap() >= 100.0, "{open}");
    assert!(open["generator"]["lateness_max_ms"].is_number(), "{open}");
    let server = Server::start(None);
    let (_, closed) = json(&server, "/stall", &["-n", "40", "-c", "1", "--latency-correction"]);
    let mean = |which: &str| closed[which]["mean_ms"].as_f64().unwrap();
    assert!(mean("corrected_latency") > mean("latency"), "{closed}");
    assert!(closed["latency"]["max_ms"].as_f64().unwrap() >= 490.0, "{closed}");
}

#[test]
fn usage_and_dead_targets_are_told_with_exit_code_2() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}/", dead.local_addr().unwrap());
    drop(dead);
    let rows: [(&[&str], &str); 15] = [
        (&[&nobody], "nothing listens there"),
        (&["http://no-such-host.invalid/"], "no such host"),
        (&["localhost:80"], "http://"),
        (&["nginx"], "http://"),
        (&["--h3", &nobody], "HTTP/3"),
        (&["--h2", &nobody], "nothing listens there"),
        (&["-c", "0", &nobody], "0"),
        (&["-d", "soon", &nobody], "10s"),
        (&["-r", "-5", &nobody], "-r"),
        (&["-r", "1e9", &nobody], "1000000"),
        (&["-n", "0", &nobody], "0"),
        (&["-H", "nonsense", &nobody], "-H"),
        (&["-b", "@/no/such/file", &nobody], "/no/such/file"),
        (&["--latency-correction", "-r", "5", &nobody], "leave it out"),
        (&["-m", "CONNECT", &nobody], "-m"),
    ];
    for (args, words) in rows {
        let output = Command::new(DEATHMATCH).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(words),
            "{args:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn a_signal_ends_it_with_the_figures_so_far() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for path in ["/ok", "/silent"] {
        let server = Server::start(None);
        let url = format!("http://{}{path}", server.address);
        let child = Command::new(DEATHMATCH)
            .args(["-d", "1h", "-c", "2", "--timeout", "2m", "--json", &url])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        server.seen.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&found["is_interrupted"], &found["failed"]),
            (&true.into(), &0.into()),
            "{found}"
        );
        if path == "/silent" {
            assert_eq!(
                (&found["unfinished"], &found["responses"]),
                (&2.into(), &0.into()),
                "{found}"
            );
        }
    }
}

#[test]
fn the_summary_and_the_files_have_the_figures() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let folder = folder("url-files");
    let [table, page] = ["table.csv", "page.html"].map(|name| folder.join(name));
    let output = Command::new(DEATHMATCH)
        .args(["-n", "60", "-c", "3", "-r", "33", "--csv"])
        .arg(&table)
        .arg("--html")
        .arg(&page)
        .arg(format!("http://{}/close?<script>", server.address).replace(['<', '>'], "%3C"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["60 responses, 0 failed", "p99", "200: 60", "#", "generator: busy", "note:"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(progress.contains("responses/s"), "a line a second: {progress}");
    let table = fs::read_to_string(table).unwrap();
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(names[..3], ["from_s", "seconds", "responses"]);
    let responses: u64 =
        lines.map(|row| row.split(',').nth(2).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(responses, 60, "{table}");
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("<script") && !page.contains("http-equiv"), "no JavaScript");
    for part in
        ["<title>", "prefers-color-scheme: dark", "status 200", "Responses a second", "p99.9"]
    {
        assert!(page.contains(part), "{part}");
    }
    for shape in ["rect", "path", "circle"] {
        let [begun, ended] =
            [format!("<{shape} "), format!("</{shape}>")].map(|tag| page.matches(&tag).count());
        assert!(begun > 0 && begun == ended, "an open {shape} hides the rest: {begun}, {ended}");
    }
    assert!(page.matches("<title>").count() > 10, "bars say their numbers");
}

/// Regression: once the reader of its standard output was gone, a load with failures ended with 0
/// and wrote no file of its figures.
#[test]
fn without_a_reader_of_its_output_it_has_its_exit_code_and_its_files() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let folder = folder("url-unread");
    let [junit, table] = ["out.xml", "out.csv"].map(|name| folder.join(name));
    for (path, code, more) in
        [("/missing", 1, &["--json"][..]), ("/missing", 1, &[]), ("/ok", 0, &[])]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(DEATHMATCH)
            .args(["-n", "4", "-c", "1", &format!("http://{}{path}", server.address)])
            .args(["--junit".as_ref(), junit.as_os_str(), "--csv".as_ref(), table.as_os_str()])
            .args(more)
            .stdout(writer)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{path} {more:?}");
        for file in [&junit, &table] {
            fs::remove_file(file).unwrap_or_else(|e| panic!("{path} {more:?}: {e}"));
        }
    }
}

#[test]
fn https_is_verified_unless_told_otherwise() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let identity = Identity::within(&folder("url-tls")).unwrap();
    let server = Server::start(Some(tls(&identity, b"http/1.1")));
    let url = format!("https://localhost:{}/close", server.address.port());
    let run = |args: &[&str], url: &str| {
        let mut command = Command::new(DEATHMATCH);
        command.args(["-n", "12", "-c", "3", "--json"]).args(args).arg(url);
        command
    };
    let output = run(&[], &url).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--insecure"), "{}", said(&output));
    for output in [
        run(&["--insecure"], &url).output().unwrap(),
        run(&[], &url).env("SSL_CERT_FILE", &identity.certificate).output().unwrap(),
        run(&["--insecure"], &url.replace("/close", "/ok")).output().unwrap(),
    ] {
        assert!(output.status.success(), "{}", said(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&found["responses"], &found["failed"]), (&12.into(), &0.into()), "{found}");
    }
    let other_name = run(&[], &url.replace("localhost", "127.0.0.1"))
        .env("SSL_CERT_FILE", &identity.certificate)
        .output()
        .unwrap();
    assert_eq!(other_name.status.code(), Some(2), "{}", said(&other_name));
    let no_http2 = run(&["--h2", "--insecure"], &url).output().unwrap();
    assert!(
        String::from_utf8_lossy(&no_http2.stderr).contains("does not speak HTTP/2"),
        "{}",
        said(&no_http2)
    );
    let clear = Server::start(None);
    let no_tls =
        run(&["--insecure"], &format!("https://{}/garbage", clear.address)).output().unwrap();
    assert_eq!(no_tls.status.code(), Some(2), "{}", said(&no_tls));
}

#[test]
fn http2_carries_streams_on_each_connection() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let identity = Identity::within(&folder("url-h2")).unwrap();
    let (address, requests) = serve_http2(tls(&identity, b"h2"));
    for (path, code, load) in [
        ("/ok", 0, &["-c", "2", "--streams", "5"][..]),
        ("/failing", 1, &["-c", "2", "--streams", "5", "-r", "500"]),
        ("/leaving", 0, &["-c", "2", "--streams", "5"]),
        ("/leaving", 0, &["-c", "1", "-r", "500"]),
        ("/ok", 0, &["-c", "9", "-m", "DELETE", "-H", "X-Y: z", "-H", "Connection: close"]),
    ] {
        requests.store(0, Ordering::SeqCst);
        let output = Command::new(DEATHMATCH)
            .args(["--h2", "--insecure", "--json", "-n", "50"])
            .args(load)
            .arg(format!("https://{address}{path}"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&found["requests"], &found["responses"]), (&50.into(), &50.into()), "{found}");
        assert_eq!(requests.load(Ordering::SeqCst), 50, "no more than were asked for");
        assert_eq!(found["protocol"], "HTTP/2");
        let again = found["reconnections"].as_u64().unwrap();
        assert_eq!(again > 0, path == "/leaving", "{path}: {again} reconnections");
        assert_eq!(found["failed"], if code == 0 { 0 } else { 50 }, "{found}");
    }
}

#[test]
fn http2_carries_fields_of_more_than_a_frame() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (address, requests) = serve_http2_plainly();
    let field = format!("X-Long: {}", "a".repeat(40_000));
    let output = Command::new(DEATHMATCH)
        .args(["--h2", "--json", "-n", "6", "-c", "2", "-H", &field])
        .arg(format!("http://{address}/ok"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["statuses"], serde_json::json!({ "200": 6 }), "{found}");
    assert_eq!(requests.load(Ordering::SeqCst), 6);
}

#[test]
fn a_stream_of_a_connection_that_the_server_leaves_holds_up_no_other() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new(DEATHMATCH)
        .args(["--h2", "--json", "-n", "6", "-c", "1", "--streams", "2", "--timeout", "2s"])
        .arg(format!("http://{}/", serve_http2_leaving_a_stream()))
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["statuses"], serde_json::json!({ "200": 6 }), "{found}");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(found["connections"], 2, "{found}");
}

fn json(server: &Server, path: &str, args: &[&str]) -> (Output, Value) {
    let url = format!("http://{}{path}", server.address);
    let output = Command::new(DEATHMATCH).args(args).args(["--json", &url]).output().unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    assert!(found.is_object(), "{args:?}: {}", said(&output));
    (output, found)
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}
