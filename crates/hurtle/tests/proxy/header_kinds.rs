//! Header rules on every kind of response: of files, handlers, gates, upstreams, and of the site
//! itself.

use std::fs;
use std::net::TcpListener;
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
            let path = head.split_whitespace().nth(1).unwrap().to_owned();
            peer.send(match path.as_str() {
                "/proxy/socket" => {
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                     Upgrade: websocket\r\nX-Rule: theirs\r\n\r\n"
                }
                "/proxy/missing" => {
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\
                     X-Rule: theirs\r\n\r\n"
                }
                "/verify" => {
                    "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\
                     Connection: close\r\n\r\n"
                }
                _ => {
                    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\
                     Cache-Control: max-age=60\r\n\
                     X-Rule: theirs\r\n\r\nok"
                }
            });
        }
    });
    address
}

/// A sentence, the request line's method and target, more field lines, the body, and the status.
const ROWS: &[(&str, &str, &str, &str, u16)] = &[
    ("a file", "GET /a.txt", "", "", 200),
    ("a known file", "GET /a.txt", "", "", 200),
    ("a file that was not modified", "GET /a.txt", "If-None-Match: *", "", 304),
    ("a failed precondition", "GET /a.txt", "If-Match: \"x\"", "", 412),
    ("a range beyond the file", "GET /a.txt", "Range: bytes=9-", "", 416),
    ("a listing", "GET /dir/", "", "", 200),
    ("the slash of a directory", "GET /dir", "", "", 301),
    ("a missing file", "GET /none", "", "", 404),
    ("an error page", "GET /paged/none", "", "", 404),
    ("a path with a dot segment too many", "GET /../a.txt", "", "", 400),
    ("a method that files do not have", "POST /a.txt", "Content-Length: 0", "", 405),
    ("OPTIONS of a file", "OPTIONS /a.txt", "", "", 204),
    ("OPTIONS of the server", "OPTIONS *", "", "", 204),
    (
        "a preflight",
        "OPTIONS /a.txt",
        "Origin: https://a.example\r\nAccess-Control-Request-Method: GET",
        "",
        204,
    ),
    ("a fixed response", "GET /fixed", "", "", 200),
    ("a fixed error", "GET /gone", "", "", 410),
    ("a redirect", "GET /moved/x", "", "", 302),
    ("a redirect by a rule", "GET /old/x", "", "", 301),
    ("a redirect by a rule, of another method", "DELETE /old/x", "", "", 301),
    ("a client that is not admitted", "GET /private", "", "", 403),
    ("a client without a password", "GET /secret", "", "", 401),
    ("a request beyond the rate", "GET /limited", "", "", 429),
    ("a redirect by the server that authenticates", "GET /forward", "", "", 302),
    ("an upload", "PUT /up/x", "Content-Length: 1", "x", 201),
    ("an upload that is too large", "PUT /up/y", "Content-Length: 12", "0123456789ab", 413),
    ("a body that is too large", "GET /a.txt", "Content-Length: 99", "", 413),
    ("a body that is malformed", "GET /a.txt", "Transfer-Encoding: chunked", "x\r\n", 400),
    ("an upstream's response", "GET /proxy/", "", "", 200),
    ("an upstream's error", "GET /proxy/missing", "", "", 404),
    ("a stored response", "GET /stored/a", "", "", 200),
    ("a response of the cache", "GET /stored/a", "", "", 200),
    ("an upstream that is down", "GET /down", "", "", 502),
    (
        "a tunnel",
        "GET /proxy/socket",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Version: 13",
        "",
        101,
    ),
];

#[test]
fn every_kind_of_response_gets_the_rules_that_always_apply() {
    let dir = std::env::temp_dir().join(format!("hurtle-kinds-{}", std::process::id()));
    for (path, text) in [("a.txt", "a"), ("dir/b", "b"), ("404.html", "<p>Not here"), ("up/z", "")]
    {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), text).unwrap();
    }
    // A bcrypt hash of "secret", with the least cost.
    let hash = "user:$2b$04$W3ewwpX4bQTnrxhYHG1kHOP9zDDtZkA8.o2I8DHBAk3TNYeqKXg3m\n";
    fs::write(dir.join("users"), hash).unwrap();
    let (root, upstream) = (dir.display(), upstream());
    let mount = format!(
        "files = '{root}'\nlisting = true\n\
         [[site.mount]]\npath = '/paged'\nfiles = '{root}/dir'\n\
         [[site.mount]]\npath = '/fixed'\nrespond = 'fixed'\n\
         [[site.mount]]\npath = '/gone'\nrespond = 'gone'\nstatus = 410\n\
         [[site.mount]]\npath = '/moved'\nredirect = '/to/'\n\
         [[site.mount]]\npath = '/private'\nrespond = ''\ndeny = ['127.0.0.0/8']\n\
         [[site.mount]]\npath = '/secret'\nrespond = ''\nauth = 'basic'\nusers = '{root}/users'\n\
         [[site.mount]]\npath = '/limited'\nrespond = ''\nrate_limit = [{{ requests = '1/m' }}]\n\
         [[site.mount]]\npath = '/forward'\nrespond = ''\nauth = 'forward'\n\
         forward = 'http://{upstream}/verify'\n\
         [[site.mount]]\npath = '/up'\nfiles = '{root}/up'\nauth = 'none'\n\
         uploads = {{ file_bytes = '10 B' }}\n\
         [[site.mount]]\npath = '/proxy'\nproxy = 'http://{upstream}'\nupgrades = ['websocket']\n\
         [[site.mount]]\npath = '/stored'\nproxy = 'http://{upstream}'\n\
         cache = {{ memory = '1 MiB' }}\n\
         [[site.mount]]\npath = '/down'\nproxy = 'http://{NOBODY}'\n\
         [[site.rule]]\nmatch = '/old/**'\nredirect = '/new/{{1}}'\nstatus = 301\n\
         [[site.header]]\nset = {{ X-Rule = 'ours' }}\nalways = true\n"
    );
    let site = "cors = { origins = 'https://a.example' }\nerrors = { 404 = '/404.html' }";
    let proxy = Proxy::of_sites("[limits]\nbody_bytes = '50 B'\n", site, &mount);
    // The limit admits one request.
    proxy.send("GET /limited HTTP/1.1\r\nHost: a\r\n\r\n").head();
    let mut failures = Vec::new();
    for (sentence, request, fields, body, status) in ROWS {
        let lines = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
        let head = proxy.send(format!("{request} HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}")).head();
        let rules: Vec<&str> = head.lines().filter(|line| line.starts_with("X-Rule:")).collect();
        let rules: Vec<String> = rules.iter().map(|line| line.to_lowercase()).collect();
        if !head.starts_with(&format!("HTTP/1.1 {status} ")) || rules != ["x-rule: ours"] {
            failures.push(format!("{sentence}: {head}"));
        }
    }
    fs::remove_dir_all(&dir).unwrap();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}
