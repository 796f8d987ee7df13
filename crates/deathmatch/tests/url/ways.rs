//! Ways to the server, ways of waiting, and conditions of failure.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use deathmatch::tls::Identity;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::scripted::folder;
use crate::server::{Server, tls};
use crate::{DEATHMATCH, ONE_AT_A_TIME, json, said};

#[test]
fn a_request_goes_the_way_it_is_told() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("url-ways");
    let server = Server::start(None);
    let socket = root.join("server.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || crate::server::converse_plainly(stream.unwrap()));
        }
    });
    let port = server.address.port();
    let socket = socket.to_str().unwrap();
    // The URL, the options, the Host field that the server sees.
    let rows: [(&str, Vec<&str>); 4] = [
        ("http://shop.example/ok", vec!["--unix-socket", socket]),
        ("http://shop.example/ok", vec!["--connect-to", &*format!("::127.0.0.1:{port}").leak()]),
        (
            &*format!("http://shop.example:{port}/ok").leak(),
            vec!["--resolve", &*format!("shop.example:{port}:127.0.0.1").leak()],
        ),
        (&*format!("http://127.0.0.1:{port}/ok").leak(), vec!["--sleep", "--cores", "0"]),
    ];
    for (url, options) in rows {
        for load in [&["-n", "20", "-c", "2"][..], &["-n", "20", "-c", "2", "-r", "200"]] {
            let output = Command::new(DEATHMATCH)
                .args(load)
                .args(&options)
                .args([url, "--json"])
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{options:?}: {}", said(&output));
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(found["responses"], 20, "{options:?}: {found}");
            if options[0].starts_with("--unix") {
                assert_eq!(found["address"], socket, "{found}");
            } else {
                let seen: Vec<String> = server.seen.lock().unwrap().try_iter().collect();
                let host = url.split('/').nth(2).unwrap();
                let field = format!("\r\nhost: {host}\r\n");
                assert!(!seen.is_empty() && seen.iter().all(|r| r.contains(&field)), "{seen:?}");
            }
        }
    }
    let gone = root.join("gone.sock");
    let rows: [(&[&str], &str); 5] = [
        (&["http://a/", "--unix-socket", gone.to_str().unwrap()], "cannot connect to http://a/ at"),
        (&["http://a/", "--resolve", "b:80:127.0.0.1"], "the URL has a and port 80"),
        (&["http://a/", "--connect-to", "x"], "HOST:PORT:OTHER:PORT"),
        (&["https://a/", "--h2", "--unix-socket", "x"], "cannot be used with"),
        (&["http://127.0.0.1:1/", "--fail-if", "p98 > 1ms"], "is no figure"),
    ];
    for (words, expected) in rows {
        let output = Command::new(DEATHMATCH).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words:?}: {}", said(&output));
    }
}

#[test]
fn a_certificate_marked_as_an_authoritys_is_taken_if_it_is_named_itself() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("url-own-authority");
    let [own, other] = ["own", "other"].map(|name| authority(&root.join(name)));
    let server = Server::start(Some(tls(&own, b"http/1.1")));
    let port = server.address.port();
    // The certificates that are named, the host, whether it is accepted.
    for (named, host, is_taken) in
        [(&own, "localhost", true), (&own, "127.0.0.1", false), (&other, "localhost", false)]
    {
        let output = Command::new(DEATHMATCH)
            .args(["-n", "4", "-c", "2", &format!("https://{host}:{port}/ok")])
            .env("SSL_CERT_FILE", &named.certificate)
            .output()
            .unwrap();
        let code = if is_taken { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{host}: {}", said(&output));
        assert!(!said(&output).contains("CaUsed"), "{host}: {}", said(&output));
    }
    let output = Command::new(DEATHMATCH)
        .args(["--h3", "--insecure", &format!("https://localhost:{port}/ok")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("no HTTP/3"), "{}", said(&output));
}

/// A certificate as `openssl req -x509` makes it.
fn authority(folder: &Path) -> Identity {
    fs::create_dir(folder).unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let (certificate, key_file) = Identity::files(folder);
    fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    Identity::within(folder).unwrap()
}

#[test]
fn without_keep_alive_each_request_has_a_connection() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let load = ["-n", "20", "-c", "2", "--disable-keepalive"];
    let (output, found) = json(&server, "/close", &load);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(found["connections"], 20, "{found}");
    assert_eq!(found["reconnections"], 0, "none is in place of another: {found}");
    assert_eq!(found["warnings"], serde_json::json!([]), "{found}");
    let seen: Vec<String> = server.seen.lock().unwrap().try_iter().collect();
    assert!(seen.iter().all(|r| r.contains("\r\nconnection: close\r\n")), "{seen:?}");
    // Regression: with a rate, connections were opened in advance.
    let load = ["-n", "20", "-c", "50", "-r", "200", "--disable-keepalive"];
    let (output, found) = json(&server, "/close", &load);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(found["connections"], 20, "{found}");
    assert_eq!(found["reconnections"], 0, "{found}");
}

#[test]
fn conditions_decide_the_exit_code_and_every_output() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("url-conditions");
    let server = Server::start(None);
    // Path, conditions, exit code, tests and failures in JUnit's file.
    let rows: [(&str, &[&str], i32, &str); 5] = [
        ("/ok", &["p99 > 60s", "rate < 0.001"], 0, "tests=\"3\" failures=\"0\""),
        ("/ok", &["p50 > 0us"], 1, "tests=\"2\" failures=\"1\""),
        ("/missing", &["p99 > 60s"], 1, "tests=\"2\" failures=\"1\""),
        ("/missing", &["error_rate > 100%"], 0, "tests=\"1\" failures=\"0\""),
        ("/missing", &["errors >= 10", "p99 > 60s"], 1, "tests=\"2\" failures=\"1\""),
    ];
    for (path, conditions, code, counts) in rows {
        let (junit, summary) = (root.join("junit.xml"), root.join("summary.md"));
        let page = root.join("page.html");
        let _ = fs::remove_file(&summary);
        let url = format!("http://{}{path}", server.address);
        let output = Command::new(DEATHMATCH)
            .args(["-n", "10", "-c", "1", &url])
            .args(conditions.iter().flat_map(|one| ["--fail-if", one]))
            .args(["--junit".as_ref(), junit.as_os_str()])
            .args(["--step-summary".as_ref(), summary.as_os_str()])
            .args(["--html".as_ref(), page.as_os_str()])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{conditions:?}: {}", said(&output));
        let xml = fs::read_to_string(&junit).unwrap();
        assert!(xml.contains(counts), "{conditions:?}: {xml}");
        let table = fs::read_to_string(&summary).unwrap();
        let page = fs::read_to_string(&page).unwrap();
        for condition in conditions {
            assert!(table.contains(&format!("| fails if {condition} | ")), "{table}");
            assert!(said(&output).contains(condition), "{}", said(&output));
        }
        let failures = usize::from(code == 1);
        assert_eq!(table.matches("**failed**").count(), failures, "{table}");
        assert_eq!(said(&output).matches("FAILED").count(), failures, "{}", said(&output));
        assert_eq!(page.matches("<b>Failed</b>").count(), failures, "{conditions:?}");
    }
}

#[test]
fn missing_responses_are_in_the_percentiles_or_beside_them() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let (_, found) = json(&server, "/silent", &["-n", "4", "-c", "2", "--timeout", "200ms"]);
    assert_eq!((&found["responses"], &found["errors"]["timeout"]), (&0.into(), &4.into()));
    assert!(found["latency"]["p50_ms"].as_f64() >= Some(198.0), "{found}");
    let notes = found["warnings"].to_string();
    assert!(notes.contains("4 requests without a response in time are in the perc"), "{notes}");

    // A server that dies refuses: nothing waits for a connection, and none is opened again.
    let url = format!("http://{}/", dying_after(20));
    let output = Command::new(DEATHMATCH)
        .args(["-n", "250", "-c", "2", "-r", "100", &url, "--json"])
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["failed"].as_u64() >= Some(200), "{found}");
    let notes = found["warnings"].to_string();
    assert!(notes.contains("that failed have no response time"), "{notes}");
    for untrue in ["did not carry", "in place of closed"] {
        assert!(!notes.contains(untrue), "{untrue}: {notes}");
    }
    let last = found["course"].as_array().unwrap().last().unwrap();
    assert_eq!(last["p99_ms"], Value::Null, "a second without a response: {last}");
}

/// A server that answers so many requests and then is gone.
fn dying_after(requests: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, left) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(requests)));
    thread::spawn(move || {
        for socket in listener.incoming() {
            if left.load(Ordering::SeqCst) == 0 {
                return;
            }
            let (mut socket, left): (TcpStream, _) = (socket.unwrap(), left.clone());
            thread::spawn(move || {
                let mut piece = [0; 4096];
                // A request is one piece; the requests of the load are bounded.
                while matches!(socket.read(&mut piece), Ok(count) if count > 0) {
                    if left
                        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                        .is_err()
                    {
                        return;
                    }
                    if left.load(Ordering::SeqCst) == 0 {
                        // Wakes the thread that accepts.
                        drop(TcpStream::connect(address));
                    }
                    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                }
            });
        }
    });
    address
}

#[test]
fn a_target_of_https_does_a_plans_work_unless_that_is_in_clear_text() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("url-target");
    let identity = Identity::within(&root.join("tls")).unwrap();
    let [secure, plain] =
        [Some(tls(&identity, b"http/1.1")), None].map(Server::start).map(|s| s.address.port());
    let work = "[[file]]\nname = \"typed\"\nbytes = 5\napp = \"hello\"\n[[work]]\nfile = \"typed\"\n\
                open = { requests = [100], connections = 2 }\n";
    let run = |target: &str, more: &str| {
        let plan = root.join("plan.toml");
        let head = "name = \"short\"\ntitle = \"T\"\ndescription = \"D\"\nreference = \"mine\"\n\
                    rounds = 1\nturns = true\nwarm_up_s = 0.1\nsample_s = 1\ncontenders = [\"mine\"]\n";
        fs::write(&plan, format!("{head}{work}{more}")).unwrap();
        let _ = fs::remove_dir_all(root.join("out"));
        let mut command = Command::new(DEATHMATCH);
        command.arg("run").arg(&plan).args(["--target", &format!("mine={target}"), "--out"]);
        command.arg(root.join("out")).env("SSL_CERT_FILE", &identity.certificate);
        command.output().unwrap()
    };
    let secure = format!("https://localhost:{secure}/");
    let output = run(&secure, "");
    assert!(output.status.success(), "{}", said(&output));
    let samples = deathmatch::arena::recorded(&root.join("out")).unwrap();
    let load = &samples.iter().find(|sample| sample.contender == "mine").unwrap().load;
    assert!(load.replies > 0 && load.errors.total() == 0, "{load:?}");
    assert!(load.handshakes.full > 0, "{load:?}");
    let rows = [
        (&*secure, "beside = { idle = 5 }\n", "are in clear text: write a URL of http"),
        (
            &*format!("http://localhost:{plain}/"),
            "[[work]]\nfile = \"typed\"\nhandshakes = \"full\"\nclosed = { connections = [1] }\n",
            "this plan measures TLS: write a URL of https",
        ),
    ];
    for (target, more, words) in rows {
        let output = run(target, more);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn vs_compares_urls_of_https_and_no_server_of_tls_with_one_without() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("url-vs");
    let identity = Identity::within(&root.join("tls")).unwrap();
    let [one, two] = [(), ()].map(|()| Server::start(Some(tls(&identity, b"http/1.1"))));
    let urls = [&one, &two].map(|s| format!("https://localhost:{}/typed", s.address.port()));
    let vs = |first: &str, second: &str, more: &[&str]| {
        let _ = fs::remove_dir_all(root.join("out"));
        let mut command = Command::new(DEATHMATCH);
        command.args(["vs", first, second, "-c", "2", "--budget", "1s", "--json", "--out"]);
        command.arg(root.join("out")).args(more);
        command
    };
    for output in [
        vs(&urls[0], &urls[1], &["--insecure"]).output().unwrap(),
        vs(&urls[0], &urls[1], &[]).env("SSL_CERT_FILE", &identity.certificate).output().unwrap(),
    ] {
        // Few cycles show nothing.
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let contenders = found["duels"][0]["contenders"].as_object().unwrap();
        assert_eq!(contenders.len(), 2, "{found}");
        let is_measured =
            |its: &Value| its["replies_per_s"].as_f64() > Some(0.0) && its["errors"] == 0;
        assert!(contenders.values().all(is_measured), "{found}");
    }
    let rows: [(&str, &str, &[&str], &str); 3] = [
        (&urls[0], &urls[1], &[], "its certificate is not accepted"),
        (&urls[0], "floor", &["--insecure"], "speaks TLS and floor does not"),
        ("floor", "floor", &["--h2"], "--h2 and --h3 are spoken over TLS"),
    ];
    for (first, second, more, words) in rows {
        let output = vs(first, second, more).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
    }
}

/// Regression: all figures were lost.
#[test]
fn a_generator_that_can_open_no_more_connections_ends_with_its_figures() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(None);
    let url = format!("http://{}/close", server.address);
    let child = Command::new(DEATHMATCH)
        .args(["-d", "1h", "-c", "2", "--json", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..20 {
        server.seen.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let none = Rlimit { current: Some(3), maximum: Some(3) };
    prlimit(Some(Pid::from_child(&child)), Resource::Nofile, none).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("cannot open a connection"), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["responses"].as_u64() > Some(10), "{found}");
    assert_eq!(found["is_interrupted"], true, "{found}");
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("The load ended early: cannot open a connection"), "{found}");
}
