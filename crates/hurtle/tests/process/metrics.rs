//! Metrics and `hurtle status` as a monitoring system and an operator see them, and the names in
//! the dashboard, the alert rules and the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use hurtle::metrics::exposition::{FAMILIES, Family, Kind};
use serde_json::Value;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::support::Dir;

/// Sends a request to a unix socket; returns the head and the body of the response.
pub(crate) fn ask(socket: &Path, head: &str) -> (String, String) {
    let mut peer = UnixStream::connect(socket).unwrap();
    write!(peer, "{head}\r\nHost: a\r\n\r\n").unwrap();
    let mut reply = String::new();
    peer.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

pub(crate) fn scrape(socket: &Path) -> String {
    ask(socket, "GET /metrics HTTP/1.1").1
}

/// The value of a sample, which is named with its labels.
pub(crate) fn value(text: &str, sample: &str) -> Option<f64> {
    let lines = text.lines();
    let mut found = lines.filter_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.next().map(|value| value.parse().unwrap())
}

/// Checks the structure of a text: every sample follows the TYPE of its metric, and the buckets of
/// a histogram grow up to its count.
#[track_caller]
fn check_format(text: &str) -> BTreeSet<String> {
    let (mut types, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let mut bucket = 0.0;
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            let before = types.insert(name.to_owned(), kind.to_owned());
            assert_eq!(before, None, "{name} is declared twice");
        }
        if line.starts_with('#') {
            continue;
        }
        let (sample, number) = line.rsplit_once(' ').unwrap();
        let number: f64 = number.parse().unwrap_or_else(|_| panic!("{line}"));
        let name = sample.split('{').next().unwrap();
        assert!(seen.insert(sample.to_owned()), "{sample} is there twice");
        let family = ["", "_total", "_info", "_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| types.get_key_value(name.strip_suffix(suffix)?));
        let (_, kind) = family.unwrap_or_else(|| panic!("{name} has no TYPE"));
        if kind == "histogram" && name.ends_with("_bucket") {
            assert!(number >= bucket, "{line}: buckets are cumulative");
            bucket = number;
        } else if kind == "histogram" && name.ends_with("_count") {
            assert_eq!(number, bucket, "{line}: the last bucket is the count");
            bucket = 0.0;
        }
    }
    types.into_keys().collect()
}

pub(crate) const CONFIG: &str = "admin = '{root}/../admin.sock'\n\
    [metrics]\nlisten = 'unix:{root}/../metrics.sock'\n\
    [[site]]\nhosts = 'a'\n[[site.mount]]\nfiles = '{root}'\n\
    [[site.mount]]\npath = '/gone'\nstatus = 410\nrespond = 'gone'\n";

pub(crate) fn get(child: &Child, path: &str, times: usize) {
    let mut client = child.connect();
    for _ in 0..times {
        client.request("GET", &format!("{path}\nHost: a"));
    }
}

#[test]
fn requests_are_counted_by_site_mount_protocol_and_status() {
    let dir = Dir::new(&[("x.txt", "0123456789")]);
    let child = Child::configured(&dir, CONFIG);
    let (admin, metrics) = (dir.path("../admin.sock"), dir.path("../metrics.sock"));
    get(&child, "/x.txt", 20);
    get(&child, "/gone", 3);
    get(&child, "/nothing", 2);
    child.connect().request("GET", "/x.txt\nHost: unknown");
    let text = scrape(&metrics);
    let of = |mount: &str, status: &str| {
        let labels = format!("site=\"a\",mount=\"{mount}\",protocol=\"http/1.1\"");
        value(&text, &format!("hurtle_http_requests_total{{{labels},status=\"{status}\"}}"))
    };
    assert_eq!(of("/", "2xx"), Some(20.0), "{text}");
    assert_eq!(of("/", "4xx"), Some(2.0), "{text}");
    assert_eq!(of("/gone", "4xx"), Some(3.0), "{text}");
    let none = "{site=\"\",mount=\"\",protocol=\"http/1.1\",status=\"4xx\"}";
    assert_eq!(value(&text, &format!("hurtle_http_requests_total{none}")), Some(1.0), "{text}");
    let labels = "{site=\"a\",mount=\"/gone\"}";
    assert_eq!(value(&text, &format!("hurtle_http_response_size_bytes_sum{labels}")), Some(12.0));
    let count = format!("hurtle_http_request_duration_seconds_count{labels}");
    assert_eq!(value(&text, &count), Some(3.0), "each response has a time");
    let root = "hurtle_http_request_duration_seconds_count{site=\"a\",mount=\"/\"}";
    assert_eq!(value(&text, root), Some(22.0), "also those that are not timed: {text}");
    assert_eq!(value(&text, "hurtle_file_cache_hits_total"), Some(19.0), "{text}");
    assert_eq!(value(&text, "hurtle_connections_accepted_total"), Some(4.0), "{text}");
    eventually("no connection is open", || {
        value(&scrape(&admin), "hurtle_worker_connections{worker=\"0\"}") == Some(0.0)
    });
    let _idle = child.connect();
    let idle = "hurtle_connections{protocol=\"http/1.1\",state=\"idle\"}";
    eventually("one is idle", || value(&scrape(&admin), idle) == Some(1.0));
}

/// Files that are requested once displace none from a full cache, and one that is requested again
/// gets in.
#[test]
fn a_full_cache_admits_files_that_are_requested_again() {
    let names: Vec<String> = (0..100).map(|n| format!("{n}.txt")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let small = "cache_bytes = '16 KiB'\nrevalidate = '1h'\n[metrics]";
    let config = CONFIG.replacen("[metrics]", small, 1);
    let dir = Dir::new(&files);
    let child = Child::configured(&dir, &config);
    let total = |what: &str| {
        let text = scrape(&dir.path("../metrics.sock"));
        value(&text, &format!("hurtle_file_cache_{what}_total"))
    };
    names.iter().for_each(|name| get(&child, &format!("/{name}"), 1));
    assert_eq!(total("hits"), Some(0.0), "each was requested once");
    get(&child, "/0.txt", 1);
    assert_eq!(total("hits"), Some(1.0), "the first was not displaced");
    get(&child, "/99.txt", 2);
    assert_eq!(total("hits"), Some(2.0), "the last got in by its second request");
    eventually("another made room", || total("evictions") > Some(0.0));
}

#[test]
fn limits_that_clients_hit_are_counted() {
    let dir = Dir::new(&[("x", "x")]);
    let config = "admin = '{root}/../admin.sock'\n[limits]\nbody_bytes = 100\ntarget_bytes = 50\n\
                  [[site]]\n[[site.mount]]\nfiles = '{root}'\n[[site.mount]]\npath = '/once'\n\
                  respond = 'x'\nrate_limit = [{ requests = '1/h', burst = 1 }]\n\
                  [[site.mount]]\npath = '/drop'\nfiles = '{root}'\nauth = 'none'\n\
                  [site.mount.uploads]\nfile_bytes = 5\n";
    let child = Child::configured(&dir, config);
    let send = |head: &str, status| {
        let mut client = child.connect();
        client.send(format!("{head}\r\n\r\n"));
        assert_eq!(client.answer("GET").status, status, "{head}");
    };
    send("GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000", 413);
    send(&format!("GET /{} HTTP/1.1\r\nHost: a", "x".repeat(100)), 414);
    send("GET /once HTTP/1.1\r\nHost: a", 200);
    send("GET /once HTTP/1.1\r\nHost: a", 429);
    send("PUT /drop/large HTTP/1.1\r\nHost: a\r\nContent-Length: 9", 413);
    let text = scrape(&dir.path("../admin.sock"));
    let of = |limit| value(&text, &format!("hurtle_limit_hits_total{{limit=\"{limit}\"}}"));
    assert_eq!(of("body_size"), Some(2.0), "{text}");
    assert_eq!(of("head_size"), Some(1.0), "{text}");
    assert_eq!(of("request_rate"), Some(1.0), "{text}");
    let answered = "hurtle_http_request_duration_seconds_count{site=\"\",mount=\"\"}";
    assert_eq!(value(&text, answered), Some(1.0), "the malformed head has no mount: {text}");
    let refused =
        "hurtle_http_requests_total{site=\"*\",mount=\"/\",protocol=\"http/1.1\",status=\"4xx\"}";
    assert_eq!(value(&text, refused), Some(1.0), "a refused body has that of its request: {text}");
}

#[test]
fn the_listener_for_metrics_serves_nothing_else() {
    let dir = Dir::new(&[]);
    let _child = Child::configured(&dir, CONFIG);
    let metrics = dir.path("../metrics.sock");
    let rows = [
        ("GET /metrics HTTP/1.1", "200 OK", "text/plain; version=0.0.4; charset=utf-8"),
        ("HEAD /metrics HTTP/1.1", "200 OK", "text/plain; version=0.0.4; charset=utf-8"),
        ("GET /metrics?a HTTP/1.1", "200 OK", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1",
            "200 OK",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        ("GET /ready HTTP/1.1", "200 OK", "text/plain"),
        ("HEAD /ready HTTP/1.1", "200 OK", "text/plain"),
        ("GET /live HTTP/1.1", "200 OK", "text/plain"),
        ("POST /ready HTTP/1.1", "405 Method Not Allowed", "text/plain"),
        ("GET / HTTP/1.1", "404 Not Found", "text/plain"),
        ("GET /status HTTP/1.1", "404 Not Found", "text/plain"),
        ("POST /reload HTTP/1.1", "405 Method Not Allowed", "text/plain"),
        ("PURGE http://a/ HTTP/1.1", "405 Method Not Allowed", "text/plain"),
    ];
    for (request, status, content_type) in rows {
        let (head, body) = ask(&metrics, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {head}");
        assert!(head.contains(&format!("Content-Type: {content_type}\r\n")), "{request}: {head}");
        assert_eq!(body.is_empty(), request.starts_with("HEAD"), "{request}");
        let is_open = content_type.contains("openmetrics");
        assert_eq!(body.ends_with("# EOF\n"), is_open, "{request}");
    }
    // Connections that send nothing hold nobody up.
    let silent: Vec<_> = (0..20).map(|_| UnixStream::connect(&metrics).unwrap()).collect();
    assert!(ask(&metrics, "GET /live HTTP/1.1").0.starts_with("HTTP/1.1 200 OK"));
    for mut peer in silent {
        peer.set_nonblocking(true).unwrap();
        let read = peer.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(read, Err(ErrorKind::WouldBlock), "the response came after its time limit");
    }
}

#[test]
fn both_formats_declare_every_metric() {
    let dir = Dir::new(&[("x", "x")]);
    let child = Child::configured(&dir, CONFIG);
    get(&child, "/x", 2);
    let metrics = dir.path("../metrics.sock");
    let declared = check_format(&scrape(&metrics));
    let names: BTreeSet<String> = families().map(Family::sample_name).collect();
    assert_eq!(declared, names);
    let open = "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text";
    let text = ask(&metrics, open).1;
    let names: BTreeSet<String> = families().map(|family| family.name.to_owned()).collect();
    assert_eq!(check_format(&text), names);
    for family in families().filter(|family| !family.unit.is_empty()) {
        assert!(family.name.ends_with(&format!("_{}", family.unit)), "{}", family.name);
    }
}

#[test]
fn counters_survive_a_reload_which_is_counted() {
    let dir = Dir::new(&[("x", "x")]);
    let child = Child::configured(&dir, CONFIG);
    let admin = dir.path("../admin.sock");
    get(&child, "/x", 5);
    let reload = |config: &str| {
        write_config(&dir, config);
        let reload = hurtle().arg("reload").arg("--admin").arg(&admin).output().unwrap();
        reload.status.code()
    };
    let total =
        "hurtle_http_requests_total{site=\"a\",mount=\"/\",protocol=\"http/1.1\",status=\"2xx\"}";
    let gone = "hurtle_http_requests_total{site=\"a\",mount=\"/gone\",protocol=\"http/1.1\",status=\"4xx\"}";
    get(&child, "/gone", 1);
    assert_eq!(value(&scrape(&admin), gone), Some(1.0));
    let sent = |text: &str| value(text, "hurtle_sent_bytes_total").unwrap();
    let before = sent(&scrape(&admin));
    let changed =
        CONFIG.replace("[[site.mount]]\npath = '/gone'\nstatus = 410\nrespond = 'gone'\n", "");
    assert_eq!(reload(&changed), Some(0));
    get(&child, "/x", 5);
    let text = scrape(&admin);
    assert_eq!(value(&text, total), Some(10.0), "{text}");
    assert_eq!(value(&text, gone), None, "a mount that is gone: {text}");
    assert!(sent(&text) >= before + 5.0, "a counter without labels only grows: {text}");
    assert_eq!(reload("nonsense = 1\n"), Some(2));
    let text = scrape(&admin);
    assert_eq!(value(&text, "hurtle_config_reloads_total{result=\"success\"}"), Some(1.0));
    assert_eq!(value(&text, "hurtle_config_reloads_total{result=\"failure\"}"), Some(1.0));
    assert_eq!(value(&text, "hurtle_config_last_reload_successful"), Some(0.0));

    // The server is asked although the file has a problem, so that it knows of the failure.
    let file = write_config(&dir, &format!("nonsense = 1\n{CONFIG}"));
    let output = hurtle().arg("reload").arg("--config").arg(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.contains("nonsense")), (Some(2), true), "{said}");
    let text = scrape(&admin);
    assert_eq!(value(&text, "hurtle_config_reloads_total{result=\"failure\"}"), Some(2.0));

    // As curl does, the body comes with the head.
    write_config(&dir, CONFIG);
    let mut socket = UnixStream::connect(&admin).unwrap();
    let posted = b"POST /reload HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
    socket.write_all(posted).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
}

#[test]
fn upstreams_and_the_response_cache_are_counted() {
    let dir = Dir::new(&[("x", "of the upstream")]);
    let upstream = Child::serve(&dir, &[]);
    let proxied = Dir::new(&[]);
    let to = upstream.address();
    let stuck = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = stuck.local_addr().unwrap();
    let config = format!(
        "admin = '{{root}}/../admin.sock'\n[[site]]\nhosts = 'a'\n\
         [[site.header]]\nset = {{ Cache-Control = 'max-age=60' }}\n\
         [[site.mount]]\nproxy = ['http://{to}', 'http://127.0.0.1:1']\n\
         [[site.mount]]\npath = '/cached'\nproxy = 'http://{to}'\ncache = {{ heuristic_percent = 100 }}\n\
         [[site.mount]]\npath = '/busy'\n\
         proxy = {{ url = 'http://{busy}', max_connections = 1 }}\nupstream_queue = 0\n"
    );
    let child = Child::configured(&proxied, &config);
    let admin = proxied.path("../admin.sock");
    get(&child, "/x", 4);
    get(&child, "/cached", 2);
    let mut clients = [(); 2].map(|()| TcpStream::connect(child.address()).unwrap());
    let request = b"GET /busy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    clients[0].write_all(request).unwrap();
    let _running = stuck.accept().unwrap();
    clients[1].write_all(request).unwrap();
    let mut refusal = String::new();
    clients[1].read_to_string(&mut refusal).unwrap();
    assert!(refusal.starts_with("HTTP/1.1 503 "), "{refusal}");
    let text = scrape(&admin);
    let refused = format!(
        "hurtle_upstream_refused_total{{site=\"a\",mount=\"/busy\",upstream=\"http://{busy}\"}}"
    );
    assert_eq!(value(&text, &refused), Some(1.0), "{text}");
    let of = |upstream: &str, outcome: &str| {
        let labels =
            format!("site=\"a\",mount=\"/\",upstream=\"{upstream}\",outcome=\"{outcome}\"");
        value(&text, &format!("hurtle_upstream_requests_total{{{labels}}}"))
    };
    assert_eq!(of(&format!("http://{to}"), "answered"), Some(4.0), "{text}");
    assert!(of("http://127.0.0.1:1", "failed") > Some(0.0), "{text}");
    let count = format!(
        "hurtle_upstream_response_seconds_count{{site=\"a\",mount=\"/\",upstream=\"http://{to}\"}}"
    );
    assert_eq!(value(&text, &count), Some(4.0), "{text}");
    assert!(
        text.contains("hurtle_http_cache_results_total{site=\"a\",mount=\"/cached\""),
        "{text}"
    );
}

#[test]
fn status_is_printed_for_a_person_and_as_json() {
    let dir = Dir::new(&[("x", "0123456789")]);
    let child = Child::configured(&dir, CONFIG);
    get(&child, "/x", 5);
    get(&child, "/gone", 2);
    let status = |arguments: &[&str]| {
        let config = dir.path("../hurtle.toml");
        let output = hurtle().arg("status").args(arguments).arg("--config").arg(config).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let json: Value = serde_json::from_str(&status(&["--json"])).unwrap();
    let routes = json["routes"].as_array().unwrap();
    let root = routes.iter().find(|route| route["mount"] == "/").unwrap();
    assert_eq!(root["requests"][0]["count"], 5, "{json:#}");
    assert_eq!(root["response_bytes"]["sum"], 50.0, "{json:#}");
    assert_eq!(json["workers"].as_array().unwrap().len(), 1);
    let text = status(&[]);
    let row = text.lines().find(|line| line.contains("/gone")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..6], ["a", "/gone", "0", "0", "2", "0"], "{text}");
    let documented = fs::read_to_string(repository("docs/monitoring.md")).unwrap();
    for key in json.as_object().unwrap().keys() {
        assert!(documented.contains(&format!("| `{key}` |")), "docs/monitoring.md lacks {key}");
    }
}

fn families() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().flat_map(|group| group.iter())
}

fn repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

/// The names of all samples.
fn samples() -> BTreeSet<String> {
    let of = |family: &Family| match family.kind {
        Kind::Histogram => {
            ["_bucket", "_sum", "_count"].map(|s| family.name.to_owned() + s).to_vec()
        }
        _ => vec![family.sample_name()],
    };
    families().flat_map(of).collect()
}

/// The words of a text that look like names of metrics.
fn metric_words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| word.starts_with("hurtle_") || word.starts_with("process_"));
    words.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let dashboard = fs::read_to_string(repository("examples/monitoring/dashboard.json")).unwrap();
    let parsed: Value = serde_json::from_str(&dashboard).expect("the dashboard is JSON");
    assert!(parsed["panels"].as_array().unwrap().len() > 10);
    let alerts = fs::read_to_string(repository("examples/monitoring/alerts.yaml")).unwrap();
    for text in [dashboard, alerts] {
        let words = metric_words(&text);
        assert!(words.len() > 5, "{words:?}");
        for word in words {
            assert!(samples().contains(&word), "no metric is named {word}");
        }
    }
}

#[test]
fn the_documentation_has_the_table_of_metrics() {
    let mut table = String::from("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n");
    for family in families() {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind) = (family.sample_name(), family.kind_name());
        let labels = labels.join(", ");
        table.push_str(&format!("| `{name}` | {kind} | {labels} | {} |\n", family.help));
    }
    let path = repository("docs/monitoring.md");
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- metrics -->\n", "<!-- end of metrics -->");
    let (before, rest) = text.split_once(begin).expect("the table's begin");
    let (found, after) = rest.split_once(end).expect("the table's end");
    if std::env::var_os("HURTLE_BLESS").is_some() {
        fs::write(&path, [before, begin, &table, end, after].concat()).unwrap();
        return;
    }
    assert_eq!(found, table, "run the test with HURTLE_BLESS=1 and commit the result");
}
