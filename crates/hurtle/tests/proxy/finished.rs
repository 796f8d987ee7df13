//! The fields that the server adds to each kind of response: header rules with and without
//! `always`, the preset of security headers, and those of CORS.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;

use crate::client::Client;
use crate::support::{NOBODY, Proxy};

/// Answers each connection's first request by its path.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut peer = Client::of(stream);
            let head = peer.head();
            let (status, fields) = match head.split_whitespace().nth(1).unwrap() {
                "/socket" => {
                    ("101 Switching Protocols", "Connection: Upgrade\r\nUpgrade: websocket\r\n")
                }
                "/missing" => ("404 Not Found", "Content-Length: 0\r\nConnection: close\r\n"),
                "/named" => (
                    "200 OK",
                    "X-Accel-Redirect: /a.txt\r\nContent-Length: 0\r\nConnection: close\r\n",
                ),
                "/named/none" => (
                    "200 OK",
                    "X-Accel-Redirect: /none\r\nContent-Length: 0\r\nConnection: close\r\n",
                ),
                "/verify" => {
                    ("302 Found", "Location: /login\r\nContent-Length: 0\r\nConnection: close\r\n")
                }
                _ => (
                    "200 OK",
                    "Content-Length: 2\r\nConnection: close\r\nCache-Control: max-age=60\r\n",
                ),
            };
            let body = if status == "200 OK" && !fields.contains("Length: 0") { "ok" } else { "" };
            peer.send(format!(
                "HTTP/1.1 {status}\r\nX-All: theirs\r\nX-Gone: 1\r\nX-Frame-Options: DENY\r\n\
                 Access-Control-Allow-Origin: *\r\n{fields}\r\n{body}"
            ));
        }
    });
    address
}

const SOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13";

/// A sentence, the method and target, more field lines, the status, and the fields that are added:
/// of the rule without `always` (some), of the one with it (all), of the preset, and of CORS.
const ROWS: &[(&str, &str, &str, u16, &str)] = &[
    ("a file", "GET /a.txt", "", 200, "some all preset cors"),
    ("a known file", "GET /a.txt", "", 200, "some all preset cors"),
    ("a file without CORS", "GET /plain/a.txt", "", 200, "some all preset"),
    ("a known file without CORS", "GET /plain/a.txt", "", 200, "some all preset"),
    ("a 304", "GET /a.txt", "If-None-Match: *", 304, "some all preset cors"),
    ("a range", "GET /a.txt", "Range: bytes=0-0", 206, "some all preset cors"),
    ("two ranges", "GET /a.txt", "Range: bytes=0-0,2-2", 206, "some all preset cors"),
    ("a failed precondition", "GET /a.txt", "If-Match: \"x\"", 412, "all preset cors"),
    ("a range beyond the file", "GET /a.txt", "Range: bytes=9-", 416, "all preset cors"),
    ("a listing", "GET /dir/", "", 200, "some all preset cors"),
    ("the slash of a directory", "GET /dir", "", 301, "some all preset cors"),
    ("a missing file", "GET /none", "", 404, "all preset cors"),
    ("an error page", "GET /paged", "", 410, "all preset cors"),
    ("a dot segment too many", "GET /../a.txt", "", 400, "all preset cors"),
    ("a method that files do not have", "POST /a.txt", "Content-Length: 0", 405, "all preset cors"),
    ("OPTIONS", "OPTIONS /a.txt", "", 204, "some all preset cors"),
    (
        "a preflight",
        "OPTIONS /a.txt",
        "Access-Control-Request-Method: GET",
        204,
        "some all preset cors",
    ),
    ("a fixed response", "GET /fixed", "", 200, "some all preset cors"),
    ("a fixed error", "GET /gone", "", 404, "all preset cors"),
    ("a redirect", "GET /moved/x", "", 302, "some all preset cors"),
    ("a redirect by a rule", "GET /old/x", "", 301, "some all preset cors"),
    ("an address that is not admitted", "GET /private", "", 403, "all preset cors"),
    ("a client without a password", "GET /secret", "", 401, "all preset cors"),
    ("a request beyond the rate", "GET /limited", "", 429, "all preset cors"),
    ("a server that refuses", "GET /forward", "", 302, "some all preset cors"),
    ("a body that is too large", "GET /a.txt", "Content-Length: 99", 413, "all preset cors"),
    ("an upstream's response", "GET /proxy/", "", 200, "some all preset cors"),
    ("an upstream's error", "GET /proxy/missing", "", 404, "all preset cors"),
    ("a stored response", "GET /stored/a", "", 200, "some all preset cors"),
    ("a hit", "GET /stored/a", "", 200, "some all preset cors"),
    ("a hit again", "GET /stored/a", "", 200, "some all preset cors"),
    ("a range of a hit", "GET /stored/a", "Range: bytes=9-", 416, "all preset cors"),
    ("nothing stored", "GET /stored/none", "Cache-Control: only-if-cached", 504, "all preset cors"),
    ("an upstream that is down", "GET /down", "", 502, "all preset cors"),
    (
        "a call of gRPC that fails",
        "POST /down",
        "Content-Type: application/grpc\r\nContent-Length: 0",
        200,
        "some all preset cors",
    ),
    (
        "a call of gRPC that a gate refuses",
        "POST /secret",
        "Content-Type: application/grpc\r\nContent-Length: 0",
        200,
        "some all preset cors",
    ),
    ("a file that an upstream names", "GET /proxy/named", "", 200, "some all preset cors"),
    ("a missing file that it names", "GET /proxy/named/none", "", 404, "all preset cors"),
    ("a program", "GET /cgi/ok", "", 200, "some all preset cors"),
    ("a program's error", "GET /cgi/bad", "", 404, "all preset cors"),
    ("a program that fails", "GET /cgi/broken", "", 502, "all preset cors"),
    ("no such program", "GET /cgi/none", "", 404, "all preset cors"),
    ("a FastCGI server that is down", "GET /php/x", "", 502, "all preset cors"),
    ("a tunnel", "GET /proxy/socket", SOCKET, 101, "some all preset cors"),
];

/// Names the additions that a head has, and what it should not have.
fn additions(head: &str) -> String {
    let head = head.to_lowercase();
    let count = |line: &str| head.lines().filter(|other| *other == line).count();
    let names = |name: &str| head.lines().filter(|line| line.starts_with(name)).count();
    let preset = [
        ("x-content-type-options:", "nosniff"),
        ("referrer-policy:", "strict-origin-when-cross-origin"),
        ("cross-origin-opener-policy:", "same-origin"),
    ];
    let has =
        |(name, value): &(&str, &str)| names(name) == 1 && count(&format!("{name} {value}")) == 1;
    let is_alone = |name: &str, line: &str| names(name) == 1 && count(line) == 1;
    let cors =
        is_alone("access-control-allow-origin:", "access-control-allow-origin: https://a.example")
            && count("vary: origin") == 1;
    let facts = [
        ("some", is_alone("x-some:", "x-some: 1")),
        ("all", is_alone("x-all:", "x-all: ours")),
        ("preset", preset.iter().all(has) && names("x-frame-options:") == 1),
        ("cors", cors),
        ("X-Gone", names("x-gone:") > 0),
    ];
    facts.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_kind_of_response_is_finished_alike() {
    let dir = std::env::temp_dir().join(format!("hurtle-finished-{}", std::process::id()));
    for (path, text) in [
        ("a.txt", "abc"),
        ("dir/b", "b"),
        ("410.html", "<p>Gone"),
        (
            "cgi/ok",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\nX-All: theirs\\nX-Gone: 1\\n\\nok'\n",
        ),
        (
            "cgi/bad",
            "#!/bin/sh\nprintf 'Status: 404\\nContent-Type: text/plain\\nX-All: theirs\\nX-Gone: 1\\n\\nok'\n",
        ),
        ("cgi/broken", "#!/bin/sh\nexit 1\n"),
    ] {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), text).unwrap();
        let mode = if path.starts_with("cgi") { 0o755 } else { 0o644 };
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    // A bcrypt hash of "secret", with the least cost.
    let hash = "user:$2b$04$W3ewwpX4bQTnrxhYHG1kHOP9zDDtZkA8.o2I8DHBAk3TNYeqKXg3m\n";
    fs::write(dir.join("users"), hash).unwrap();
    let (root, upstream) = (dir.display(), upstream());
    let mount = format!(
        "files = '{root}'\nlisting = true\n\
         [[site.mount]]\npath = '/fixed'\nrespond = 'fixed'\n\
         [[site.mount]]\npath = '/gone'\nrespond = 'gone'\nstatus = 404\n\
         [[site.mount]]\npath = '/paged'\nrespond = 'gone'\nstatus = 410\n\
         [[site.mount]]\npath = '/moved'\nredirect = '/to/'\n\
         [[site.mount]]\npath = '/private'\nrespond = ''\ndeny = ['127.0.0.0/8']\n\
         [[site.mount]]\npath = '/secret'\nrespond = ''\nauth = 'basic'\nusers = '{root}/users'\n\
         [[site.mount]]\npath = '/limited'\nrespond = ''\nrate_limit = [{{ requests = '1/m' }}]\n\
         [[site.mount]]\npath = '/forward'\nrespond = ''\nauth = 'forward'\n\
         forward = 'http://{upstream}/verify'\n\
         [[site.mount]]\npath = '/proxy'\nproxy = 'http://{upstream}'\nupgrades = ['websocket']\n\
         strip_prefix = true\ninternal = '{root}'\n\
         [[site.mount]]\npath = '/stored'\nproxy = 'http://{upstream}'\n\
         cache = {{ memory = '1 MiB' }}\n\
         [[site.mount]]\npath = '/down'\nproxy = 'http://{NOBODY}'\n\
         [[site.mount]]\npath = '/cgi'\ncgi = '{root}/cgi'\n\
         [[site.mount]]\npath = '/php'\nfastcgi = '{NOBODY}'\n\
         [[site.rule]]\nmatch = '/old/**'\nredirect = '/new/{{1}}'\nstatus = 301\n\
         [[site.header]]\nset = {{ X-Some = '1' }}\n\
         [[site.header]]\nset = {{ X-All = 'ours' }}\nremove = ['X-Gone']\nalways = true\n"
    );
    let keys = "security_headers = true\nerrors = { 410 = '/410.html' }\n";
    let site = format!("{keys}cors = {{ origins = 'https://a.example' }}");
    let proxy = Proxy::of_sites("[limits]\nbody_bytes = '50 B'\n", &site, &mount);
    let plain = Proxy::of_sites("", keys, &mount);
    // The limit admits one request.
    proxy.send("GET /limited HTTP/1.1\r\nHost: a\r\n\r\n").head();
    let mut failures = Vec::new();
    for (sentence, request, fields, status, expected) in ROWS {
        let lines = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
        let server = if request.contains("/plain/") { &plain } else { &proxy };
        let request = request.replace("/plain/", "/");
        let head = format!("{request} HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n{lines}");
        let head = server.send(format!("{head}\r\n")).head();
        let got = additions(&head);
        if !head.starts_with(&format!("HTTP/1.1 {status} ")) || got != *expected {
            failures.push(format!("{sentence}: {got:?}, not {expected:?}: {head}"));
        }
    }
    fs::remove_dir_all(&dir).unwrap();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn rules_remove_fields_of_the_cache_and_of_upstreams_but_no_cookie_of_the_balance() {
    let (upstream, other) = (upstream(), upstream());
    let mounts = format!(
        "proxy = ['http://{upstream}', 'http://{other}']\nbalance = 'cookie'\ncookie = 'server'\n\
         [[site.mount]]\npath = '/stored'\nproxy = 'http://{upstream}'\n\
         cache = {{ memory = '1 MiB' }}\n\
         [[site.header]]\nremove = ['Age', 'Cache-Status', 'Set-Cookie', 'X-Gone', 'Server']\n"
    );
    let proxy = Proxy::of_sites("", "", &mounts);
    // A sentence, the path, and the cookies.
    for (sentence, path, cookies) in [
        ("a response of one of two upstreams", "/", 1),
        ("a miss", "/stored/a", 0),
        ("a hit", "/stored/a", 0),
        ("a repeated hit", "/stored/a", 0),
    ] {
        let head = proxy.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).head();
        let count = |name: &str| head.lines().filter(|line| line.starts_with(name)).count();
        assert!(head.starts_with("HTTP/1.1 200 "), "{sentence}: {head}");
        assert_eq!(count("Set-Cookie: server="), cookies, "{sentence}: {head}");
        for name in ["Age", "Cache-Status", "X-Gone", "Server"] {
            assert_eq!(count(name), 0, "{sentence}: {head}");
        }
    }
}
