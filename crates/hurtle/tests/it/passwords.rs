//! Tests of Basic authentication of sites and mounts.

use std::fs;

use hurtle::config::{Auth, Basic, Config, ErrorPage, ErrorTarget, Listen, MountHandler, Uploads};
use hurtle::server::Server as Bound;

use crate::support::site::{files, files_of, mount};
use crate::support::{Dir, Server};

/// `anna:secret` with bcrypt's lowest cost.
fn user(name: &str, password: &str) -> String {
    let hash = bcrypt::hash_with_salt(password, 4, [7; 16]).unwrap();
    format!("{name}:{hash}\n")
}

/// `Authorization` for a name and a password.
fn shown(pair: &str) -> String {
    use base64::Engine as _;
    let coded = base64::engine::general_purpose::STANDARD.encode(pair);
    format!("Authorization: Basic {coded}")
}

/// A directory, with a file of users beside it.
fn dir(tree: &[(&str, &str)]) -> Dir {
    let dir = Dir::new(tree);
    dir.write("../users", user("anna", "secret") + &user("bo", "other"));
    dir
}

fn basic(dir: &Dir) -> Option<Auth> {
    let mut basic = Basic::new(dir.path("../users"));
    basic.space.realm = "staging".into();
    Some(Auth::Basic(basic))
}

#[test]
fn a_page_of_the_site_replaces_the_refusal() {
    let dir = dir(&[("a.txt", "hello"), ("help.html", "ask Bo")]);
    let auth = basic(&dir);
    let server = Server::of(dir, |config| {
        config.sites[0].auth = auth;
        let page = ErrorPage { to: ErrorTarget::Page("/help.html".into()), status: None };
        config.sites[0].error_pages.insert(http::StatusCode::UNAUTHORIZED, page);
    });
    let response = server.get("/a.txt");
    assert_eq!((response.status, response.text()), (401, "ask Bo"));
    assert_eq!(
        response.field("WWW-Authenticate").unwrap(),
        "Basic realm=\"staging\", charset=\"UTF-8\""
    );
    assert_eq!(server.get(&format!("/a.txt\n{}", shown("anna:secret"))).text(), "hello");
}

#[test]
fn a_site_requires_a_password() {
    let dir = dir(&[("a.txt", "hello")]);
    let auth = basic(&dir);
    let server = Server::of(dir, |config| config.sites[0].auth = auth);
    let rows = [
        ("nothing shown", String::new(), 401),
        ("right", shown("anna:secret"), 200),
        ("right again, from memory", shown("anna:secret"), 200),
        ("still nothing shown, though the file is known", String::new(), 401),
        ("wrong, though the file is known", shown("anna:Secret"), 401),
        ("another's password", shown("anna:other"), 401),
        ("an unknown name", shown("carl:secret"), 401),
        ("another scheme", "Authorization: Bearer x".into(), 401),
        ("two of them", format!("{0}\n{0}", shown("anna:secret")), 401),
        ("the other user", shown("bo:other"), 200),
    ];
    for (what, field, status) in rows {
        for path in ["/a.txt", "/"] {
            let response = server.get(&format!("{path}\n{field}"));
            // Without an index and a listing.
            let status = if path == "/" && status == 200 { 404 } else { status };
            assert_eq!(response.status, status, "{what}, {path}: {response:?}");
            let challenge = response.field("WWW-Authenticate");
            let want = "Basic realm=\"staging\", charset=\"UTF-8\"";
            assert_eq!(challenge, (status == 401).then_some(want), "{what}, {path}");
            assert_ne!(response.text(), if status == 401 { "hello" } else { "" }, "{what}");
        }
    }
    assert_eq!(server.head("/a.txt").status, 401);
    assert_eq!(server.request("OPTIONS", "/a.txt").status, 401);
}

#[test]
fn a_mount_and_its_site_may_differ_in_requiring_a_password() {
    for asked in [true, false] {
        let dir = dir(&[("a.txt", "open"), ("d/a.txt", "mount")]);
        let (auth, root) = (basic(&dir), dir.path("d"));
        let server = Server::of(dir, |config| {
            let mut inner = mount("/m", MountHandler::Files(Box::new(files_of(&root))));
            let (site, own) = if asked { (None, auth) } else { (auth, Some(Auth::None)) };
            inner.auth = own;
            config.sites[0].auth = site;
            config.sites[0].mounts.push(inner);
        });
        // Once uncached, once cached.
        for _ in 0..2 {
            let (open, closed) =
                if asked { ("/a.txt", "/m/a.txt") } else { ("/m/a.txt", "/a.txt") };
            assert_eq!(server.get(open).status, 200);
            assert_eq!(server.get(closed).status, 401);
            assert_eq!(server.get(&format!("{closed}\n{}", shown("bo:other"))).status, 200);
            assert_eq!(server.get(closed).status, 401);
        }
    }
}

#[test]
fn a_password_is_required_before_100_continue() {
    let dir = dir(&[]);
    let auth = basic(&dir);
    let server = Server::of(dir, |config| {
        config.sites[0].auth = auth;
        files(config).uploads = Some(Uploads { free_bytes: 0, ..Uploads::default() });
    });
    let put = |field: &str| {
        let mut client = server.connect();
        client.send(format!(
            "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n{field}\r\n"
        ));
        client
    };
    assert_eq!(put("").response().status, 401, "and no 100 before it");
    assert_eq!(put(&(shown("anna:wrong") + "\r\n")).response().status, 401);
    assert!(!server.dir.path("a").exists());
    let mut client = put(&(shown("anna:secret") + "\r\n"));
    assert_eq!(client.response().status, 100);
    client.send("hi");
    assert_eq!(client.response().status, 201);
    assert_eq!(fs::read(server.dir.path("a")).unwrap(), b"hi");
}

#[test]
fn passwords_over_plain_http_prevent_the_start() {
    let dir = dir(&[]);
    let config = |listen: &str, cleartext| {
        let mut config = Config::for_directory(dir.root());
        config.listen = vec![Listen::Tcp(listen.parse().unwrap())];
        let mut basic = Basic::new(dir.path("../users"));
        basic.space.cleartext = cleartext;
        config.sites[0].auth = Some(Auth::Basic(basic));
        config
    };
    let refused = Bound::bind(config("0.0.0.0:0", false)).unwrap_err().to_string();
    assert!(refused.contains("in clear"), "{refused}");
    Bound::bind(config("0.0.0.0:0", true)).unwrap();
    Bound::bind(config("127.0.0.1:0", false)).unwrap();

    dir.write("../users", "anna:secret\n");
    let refused = Bound::bind(config("127.0.0.1:0", false)).unwrap_err().to_string();
    assert!(refused.contains("users:1: not a bcrypt hash"), "{refused}");
}
