//! The order of the gates before a handler: of two that refuse a request, the earlier one answers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::{fs, thread};

use crate::secure::Authority;
use crate::support::{LAST_OK, NOBODY, Proxy, Upstream};
use crate::tokens::{Signer, set};

/// A gate that refuses a request with these fields, and admits one with those.
struct Gate {
    name: &'static str,
    /// Keys of the site.
    site: String,
    /// Tables of the site.
    table: String,
    /// Keys of the mount.
    mount: String,
    /// Tables of the mount.
    mount_table: &'static str,
    refused: &'static str,
    /// `None`: the gate admits nothing here.
    admitted: Option<&'static str>,
    /// The status line's end, and what else tells the refusal.
    status: u16,
    says: &'static str,
}

fn gate(name: &'static str, status: u16) -> Gate {
    Gate {
        name,
        site: String::new(),
        table: String::new(),
        mount: String::new(),
        mount_table: "",
        refused: "",
        admitted: Some(""),
        status,
        says: "",
    }
}

/// All gates that can refuse, in the order in which a request passes them. At most one of the three
/// kinds of `auth` stands at a place.
fn gates(authority: &Authority, auth: SocketAddr, gone: SocketAddr) -> Vec<Gate> {
    let certificate = authority.file("a.pem");
    let users = authority.file("users");
    vec![
        Gate {
            table: format!(
                "[site.tls]\ncertificate = {certificate}\nkey = {certificate}\nredirect = true"
            ),
            admitted: None,
            ..gate("channel", 308)
        },
        Gate {
            site: format!("maintenance = {users}"),
            admitted: None,
            says: "Retry-After: 60",
            ..gate("maintenance", 503)
        },
        Gate {
            mount_table: "[site.mount.cors]\norigins = [\"https://b.example\"]",
            refused: "Origin: https://b.example\r\nAccess-Control-Request-Method: GET\r\n",
            ..gate("cors", 204)
        },
        Gate { mount: "deny = \"192.0.2.1\"".to_owned(), ..gate("address", 403) },
        Gate {
            mount: "body_bytes = 0".to_owned(),
            refused: "Content-Length: 1\r\n",
            ..gate("body size", 413)
        },
        Gate { mount_table: "[[site.mount.rate_limit]]\nrequests = \"1/h\"", ..gate("rate", 429) },
        Gate {
            site: format!(
                "auth = \"jwt\"\njwks = {}\nalgorithms = [\"HS256\"]",
                authority.file("keys")
            ),
            admitted: None,
            says: "Bearer",
            ..gate("token", 401)
        },
        Gate {
            site: format!("auth = \"forward\"\nforward = \"http://{auth}/\""),
            admitted: Some("X-Pass: yes\r\n"),
            says: "Ours",
            ..gate("forward", 401)
        },
        Gate {
            site: format!("auth = \"basic\"\nusers = {users}\nrealm = \"r\""),
            admitted: Some("Authorization: Basic YW5uYTpzZWNyZXQ=\r\n"),
            says: "Basic",
            ..gate("basic", 401)
        },
        Gate {
            mount: format!("authorizer = \"{gone}\""),
            admitted: None,
            ..gate("authorizer", 502)
        },
        Gate {
            mount: "concurrency = 1\nqueue = 0".to_owned(),
            says: "Retry-After",
            ..gate("concurrency", 503)
        },
    ]
}

/// A server of authentication that accepts requests with X-Pass.
fn authentication() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let passes = String::from_utf8_lossy(&head).contains("X-Pass");
            let status = match passes {
                true => "204 No Content",
                false => "401 Unauthorized\r\nWWW-Authenticate: Ours",
            };
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            // A client that is gone needs none.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// Requests a path from behind a trusted proxy.
fn request(method: &str, client: &str, fields: &[&str]) -> String {
    let fields = fields.concat();
    format!(
        "{method} / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n{fields}Connection: close\r\n\r\n"
    )
}

#[test]
fn of_two_gates_the_earlier_one_answers() {
    let authority = Authority::new("gates");
    authority.sign("a", |_| {});
    fs::write(authority.dir.join("keys"), set(&[Signer::hs256().jwk("k")])).unwrap();
    let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap();
    fs::write(authority.dir.join("users"), format!("anna:{hash}\n")).unwrap();
    let auth = authentication();
    let gates = gates(&authority, auth, NOBODY);
    let mut wrong = Vec::new();
    for (number, first) in gates.iter().enumerate() {
        for second in &gates[number..] {
            let is_auth = |gate: &Gate| gate.site.starts_with("auth");
            if is_auth(first) && is_auth(second) && first.name != second.name {
                continue;
            }
            let second_keys = if first.name == second.name { &gate("", 0) } else { second };
            let upstream = Upstream::new();
            let tls = if first.table.is_empty() { "" } else { "listen_tls = \"127.0.0.1:0\"\n" };
            let text = format!(
                "trusted_proxies = \"127.0.0.0/8\"\n{tls}[[site]]\nhosts = \"a\"\n{}\n{}\n{}\n[[site.mount]]\n\
                 proxy = \"http://{}\"\n{}\n{}\n{}\n{}\n",
                first.site,
                second_keys.site,
                first.table,
                upstream.address,
                first.mount,
                second_keys.mount,
                first.mount_table,
                second_keys.mount_table,
            );
            let server = Proxy::written(1, &text);
            let both = [first, second_keys];
            let mut held = None;
            if second.name == "concurrency" {
                let admitted: Option<Vec<&str>> = both.iter().map(|gate| gate.admitted).collect();
                let Some(fields) = admitted else { continue };
                let client = server.send(request("GET", "198.51.100.1", &fields));
                held = Some((client, upstream.next_request().0));
            }
            let method =
                if both.iter().any(|gate| gate.name == "cors") { "OPTIONS" } else { "GET" };
            let fields = [first.refused, second_keys.refused];
            let refused = request(method, "192.0.2.1", &fields);
            if first.name == "rate" || second.name == "rate" {
                // It uses the allowance up, if the other gate lets it.
                let mut client = server.send(&refused);
                if first.name == second.name {
                    upstream.next_request().0.send(LAST_OK);
                }
                client.head();
            }
            let head = server.send(&refused).head();
            if !head.starts_with(&format!("HTTP/1.1 {} ", first.status))
                || !head.contains(first.says)
            {
                wrong.push(format!("{} before {}: {head}", first.name, second.name));
            }
            drop(held);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The response to a request for a file, without what changes with time.
fn answer(server: &Proxy, host: usize, (path, fields): (&str, &str)) -> String {
    let request =
        format!("GET /{path} HTTP/1.1\r\nHost: h{host}\r\n{fields}Connection: close\r\n\r\n");
    let (head, body) = server.send(request).answer();
    let changes = |line: &&str| !line.starts_with("Date: ") && !line.starts_with("RateLimit");
    head.lines().filter(changes).chain([&*body]).collect::<Vec<_>>().join("\n")
}

#[test]
fn known_files_pass_the_gates_of_unknown_ones() {
    let authority = Authority::new("known");
    let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap();
    fs::write(authority.dir.join("users"), format!("anna:{hash}\n")).unwrap();
    fs::create_dir(authority.dir.join("root")).unwrap();
    let users = authority.file("users");
    // Keys of the site, then its tables.
    let gates = [
        ("deny = \"192.0.2.1\"".to_owned(), ""),
        (format!("auth = \"basic\"\nusers = {users}\nrealm = \"r\""), ""),
        (String::new(), "[site.cors]\norigins = [\"https://b.example\"]"),
        (String::new(), "[[site.rate_limit]]\nrequests = \"1000/h\""),
    ];
    // On the mount, behind those of the site.
    let of_mount = ["deny = \"198.51.100.2\"", "concurrency = 2"];
    let sets = 1 << (gates.len() + of_mount.len());
    let mut text = "trusted_proxies = \"127.0.0.0/8\"\n".to_owned();
    for set in 0..sets {
        let has = |number: usize| set >> number & 1 == 1;
        let chosen = |(number, _): &(usize, &(String, &str))| has(*number);
        let (keys, tables): (Vec<&str>, Vec<&str>) = gates
            .iter()
            .enumerate()
            .filter(chosen)
            .map(|(_, (keys, tables))| (&**keys, *tables))
            .unzip();
        let own = of_mount.iter().enumerate().filter(|(n, _)| has(gates.len() + n));
        let own: Vec<&str> = own.map(|(_, keys)| *keys).collect();
        text += &format!(
            "[[site]]\nhosts = \"h{set}\"\n{}\n{}\n[[site.mount]]\nfiles = {}\n{}\n",
            keys.join("\n"),
            tables.join("\n"),
            authority.file("root"),
            own.join("\n"),
        );
    }
    let mut requests = Vec::new();
    for client in ["203.0.113.9", "192.0.2.1", "198.51.100.2"] {
        for credentials in
            ["", "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n", "Authorization: Basic eA==\r\n"]
        {
            for origin in ["", "Origin: https://b.example\r\n"] {
                requests.push(format!("X-Forwarded-For: {client}\r\n{credentials}{origin}"));
            }
        }
    }
    for number in 0..=requests.len() {
        fs::write(authority.dir.join(format!("root/{number}.txt")), "hello").unwrap();
    }
    let server = Proxy::written(1, &text);
    let known = format!("{}.txt", requests.len());
    for set in 0..sets {
        // One of these is admitted, and makes the file known.
        for fields in &requests {
            answer(&server, set, (&known, fields));
        }
        for (number, fields) in requests.iter().enumerate() {
            let unknown = format!("{number}.txt");
            let first = answer(&server, set, (&unknown, fields));
            let is_dated =
                |line: &&str| !line.starts_with("Last-Modified") && !line.starts_with("ETag");
            let alike = |text: &str| text.lines().filter(is_dated).collect::<Vec<_>>().join("\n");
            let second = answer(&server, set, (&known, fields));
            assert_eq!(alike(&second), alike(&first), "gates {set:b}, {fields}");
        }
    }
}
