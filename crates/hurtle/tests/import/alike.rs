//! Sends the same requests to nginx and to hurtle with the imported configuration, and compares
//! status, Location, fields and body.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hurtle::config;
use hurtle::import::nginx_file;

/// Longest wait for a response, or for nginx's start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of the largest response.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;

/// A configuration, and requests whose answers are compared.
struct Row {
    sentence: &'static str,
    /// Inside of `http`; `{port}`, `{root}` and `{upstream}` are replaced.
    http: &'static str,
    /// Requests: method, target and, after a space each, field lines with `=`.
    requests: &'static [&'static str],
}

const FILES: &[(&str, &str)] = &[
    ("index.html", "home\n"),
    ("a.txt", "text\n"),
    ("about.html", "about\n"),
    ("style.css", "css\n"),
    ("dir/index.html", "dir\n"),
    ("bare/x.txt", "x\n"),
    ("404.html", "no such page\n"),
    ("docs/guide.txt", "guide\n"),
    (".hidden", "hidden\n"),
];

const ROWS: &[Row] = &[
    Row {
        sentence: "a static site",
        http: "server { listen 127.0.0.1:{port}; root {root}; }",
        requests: &[
            "GET /",
            "GET /a.txt",
            "HEAD /a.txt",
            "GET /dir",
            "GET /dir/",
            "GET /none",
            "GET /a.txt Range=bytes=1-2",
            "GET /a.txt Range=bytes=9-",
            "GET /dir?x=1",
        ],
    },
    Row {
        sentence: "names without their ending",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { try_files $uri $uri.html $uri/ =404; } }",
        requests: &["GET /about", "GET /about.html", "GET /none", "GET /"],
    },
    Row {
        sentence: "a single-page application",
        http: "server { listen 127.0.0.1:{port}; root {root}; index index.html;
               location / { try_files $uri $uri/ /index.html; } }",
        requests: &["GET /route/deep", "GET /a.txt", "GET /dir/", "GET /"],
    },
    Row {
        sentence: "root and alias",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /docs/ { root {root}; }
               location /d/ { alias {root}/docs/; } }",
        requests: &["GET /docs/guide.txt", "GET /d/guide.txt", "GET /d/none"],
    },
    Row {
        sentence: "redirects",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /old { return 301 /about.html; }
               location /moved/ { return 302 https://example.org$request_uri; }
               location = /home { return 307 https://example.org/; }
               rewrite ^/blog/(.*)$ /news/$1 permanent;
               rewrite ^/short\\.html$ /about.html redirect;
               rewrite ^/hidden/(.*)$ /docs/$1 last; }",
        requests: &[
            "GET /old",
            "GET /moved/a/b?c=d",
            "GET /home",
            "GET /blog/x/y",
            "GET /short.html",
            "GET /hidden/guide.txt",
        ],
    },
    Row {
        sentence: "fixed answers",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location = /healthz { return 200 \"ok\\n\"; }
               location /gone { return 410; }
               location /secret { deny all; } }",
        requests: &["GET /healthz", "GET /gone", "GET /secret", "GET /secret/x"],
    },
    Row {
        sentence: "fields by path and ending",
        http: "add_header X-All yes; server { listen 127.0.0.1:{port}; root {root};
               location / { }
               location /docs/ { add_header X-Docs yes; expires 1h; }
               location ~* \\.(css|png)$ { expires 30d; add_header Cache-Control \"public\"; } }",
        requests: &["GET /a.txt", "GET /docs/guide.txt", "GET /style.css"],
    },
    Row {
        sentence: "an error page, and addresses",
        http: "server { listen 127.0.0.1:{port}; root {root}; error_page 404 /404.html;
               location /docs/ { allow 127.0.0.0/8; deny all; }
               location /bare/ { deny 127.0.0.1; } }",
        requests: &["GET /none", "GET /docs/guide.txt", "GET /bare/x.txt"],
    },
    Row {
        sentence: "fields of errors",
        http: "server { listen 127.0.0.1:{port}; root {root}; add_header X-All yes always;
               location / { }
               location /docs/ { add_header X-Docs yes; } }",
        requests: &["GET /a.txt", "GET /none", "GET /docs/guide.txt", "GET /docs/none"],
    },
    Row {
        sentence: "a server that decides about requests",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location = /auth { internal; proxy_pass http://{upstream}/verify;
                                  proxy_pass_request_body off;
                                  proxy_set_header Content-Length \"\"; }
               location /docs/ { auth_request /auth; }
               location /app/ { auth_request /auth; proxy_pass http://{upstream};
                                proxy_set_header Host $http_host; } }",
        requests: &["GET /docs/guide.txt", "GET /docs/none", "GET /app/x", "GET /a.txt"],
    },
    Row {
        sentence: "weights, a limit of connections and a backup",
        http: "upstream app { server {upstream} weight=3 max_conns=50; server 127.0.0.1:1 backup;
                              keepalive 4; }
               limit_req_zone $binary_remote_addr zone=a:1m rate=100r/s;
               server { listen 127.0.0.1:{port}; root {root};
               limit_req zone=a burst=50 nodelay;
               location /app/ { proxy_pass http://app; proxy_set_header Host $http_host; } }",
        requests: &["GET /app/x", "GET /app/y?a=b", "GET /a.txt"],
    },
    Row {
        sentence: "sites by name",
        http: "server { listen 127.0.0.1:{port}; server_name a.example; root {root}; }
               server { listen 127.0.0.1:{port}; server_name b.example *.c.example;
                        return 302 https://a.example$request_uri; }
               server { listen 127.0.0.1:{port} default_server; server_name _; return 404; }",
        requests: &[
            "GET /a.txt Host=a.example",
            "GET /x?y Host=b.example",
            "GET / Host=w.c.example",
            "GET / Host=unknown.example",
        ],
    },
    Row {
        sentence: "an upstream",
        http: "upstream app { server {upstream}; keepalive 4; }
               server { listen 127.0.0.1:{port}; root {root};
               location /api/ { proxy_pass http://app; proxy_set_header Host $host;
                                proxy_http_version 1.1; proxy_set_header Connection \"\"; }
               location /app { proxy_pass http://{upstream}; proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /api/a?b=c Host=a.example",
            "GET /app Host=a.example",
            "GET /a.txt",
            "GET /app/%41%20b Host=a.example",
        ],
    },
];

#[test]
fn both_servers_answer_alike() {
    let Some(nginx) = program() else {
        panic!("nginx is missing; `cargo xtask test --only packages` installs it");
    };
    let upstream = upstream();
    let mut faults = Vec::new();
    for row in ROWS {
        let dir = Dir::new();
        let port = free_port();
        let text = row.http.replace("{root}", &dir.0.join("www").display().to_string());
        let text = text.replace("{upstream}", &upstream.to_string());
        let file = dir.0.join("nginx.conf");
        fs::write(
            &file,
            format!("events {{}}\nhttp {{ {}\n}}\n", text.replace("{port}", &port.to_string())),
        )
        .expect("the configuration is written");
        let theirs = Nginx::start(&nginx, &file, &dir.0, port);
        let ours = Ours::start(&file, port);
        for request in row.requests {
            let (a, b) = (ask(port, request), ask(ours.port, request));
            if a != b {
                faults.push(format!("{}: {request}\n  nginx  {a:?}\n  hurtle {b:?}", row.sentence));
            }
        }
        drop((theirs, ours));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// A response's parts that are compared.
#[derive(Debug, PartialEq)]
struct Seen {
    status: String,
    location: Option<String>,
    fields: Vec<String>,
    /// Empty for errors: the error pages of the two servers differ.
    body: String,
}

fn ask(port: u16, request: &str) -> Seen {
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let mut head = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
    let mut host = "localhost";
    for field in words {
        let (name, value) = field.split_once('=').expect("a field");
        match name {
            "Host" => host = value,
            _ => head += &format!("{name}: {value}\r\n"),
        }
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    write!(stream, "{head}Host: {host}\r\n\r\n").expect("the request is sent");
    let mut bytes = Vec::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut bytes).expect("a response");
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("").to_owned();
    let mut seen = Seen { status, location: None, fields: Vec::new(), body: String::new() };
    let own = format!("http://{host}:{port}/");
    let other = format!("http://{host}/");
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            // nginx makes its own paths absolute.
            "location" => {
                let value = value.replacen(&own, "/", 1).replacen(&other, "/", 1);
                // An empty path is `/` (RFC 3986 section 6.2.3).
                let is_origin = value.matches('/').count() == 2;
                seen.location = Some(if is_origin { value + "/" } else { value });
            }
            "cache-control" | "content-range" | "x-all" | "x-docs" | "x-seen" => {
                seen.fields.push(format!("{name}: {value}"));
            }
            _ => {}
        }
    }
    // nginx writes the two values of Cache-Control on two lines.
    let controls: Vec<String> =
        seen.fields.extract_if(.., |field| field.starts_with("cache-control")).collect();
    if !controls.is_empty() {
        let values: Vec<&str> =
            controls.iter().filter_map(|c| c.split_once(": ")).map(|c| c.1).collect();
        seen.fields.push(format!("cache-control: {}", values.join(", ")));
    }
    seen.fields.sort();
    let is_error_page = seen.status.starts_with(['3', '4', '5']) && body != "no such page\n";
    if !is_error_page {
        seen.body = body.to_owned();
    }
    seen
}

/// An application that tells what it got.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

/// Answers one request; the connection then closes.
fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let line = head.lines().next().unwrap_or("").split(" HTTP").next().unwrap_or("").to_owned();
    let host = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(String::from));
    let body = format!("{line} at {}\n", host.unwrap_or_default());
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nX-Seen: yes\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// hurtle in this process, with the imported configuration.
struct Ours {
    running: Option<hurtle::Running>,
    port: u16,
}

impl Ours {
    fn start(file: &Path, theirs: u16) -> Ours {
        let prefix = file.parent().expect("a directory");
        let text =
            nginx_file(file, prefix).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
        // Any free port, in place of nginx's.
        let text = text.replace(&format!("127.0.0.1:{theirs}\""), "127.0.0.1:0\"");
        let config = config::check(&text, Path::new("/hurtle.toml"))
            .unwrap_or_else(|problems| panic!("{text}\n{problems:?}"));
        let server = hurtle::Server::bind(config).expect("it binds");
        let port = server.addresses()[0].port().expect("a port");
        Ours { running: Some(server.start().expect("it starts")), port }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().end();
            let _ = running.join();
        }
    }
}

struct Nginx(Child);

impl Nginx {
    fn start(program: &Path, file: &Path, dir: &Path, port: u16) -> Nginx {
        let dir = dir.display();
        // Workers of the user who runs the test may read its directory.
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let globals = format!("{user} daemon off; master_process off; pid {dir}/pid;");
        let child = Command::new(program)
            .args(["-p", &dir.to_string(), "-e", "stderr", "-g", &globals, "-c"])
            .arg(file)
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "nginx does not listen");
            thread::yield_now();
        }
        Nginx(child)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Option<PathBuf> {
    let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
    places.iter().map(PathBuf::from).find(|path| path.is_file())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A directory with the files of the site, removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("hurtle-import-{}-{number}", std::process::id()));
        for (name, content) in FILES {
            let file = dir.join("www").join(name);
            fs::create_dir_all(file.parent().expect("a directory")).expect("it is made");
            fs::write(file, content).expect("it is written");
        }
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
