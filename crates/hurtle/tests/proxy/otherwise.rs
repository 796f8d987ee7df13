//! `otherwise`: requests for which there is no file go to another mount, with its gates.

use std::fs;
use std::path::{Path, PathBuf};

use hurtle::config::check;

use crate::client::Client;
use crate::support::{NOBODY, OK, Proxy, Upstream};

/// A tree of files, removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let root =
            std::env::temp_dir().join(format!("hurtle-otherwise-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, content) in [
            ("a.txt", "a file"),
            ("docs/index.html", "docs"),
            ("bare/x.txt", "x"),
            (".env", "secret"),
            ("old/only.txt", "of the old release"),
        ] {
            let file = root.join("public").join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        Tree(root)
    }

    fn public(&self) -> String {
        self.0.join("public").display().to_string()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Files, and an application for all else; `files` and `app` are keys of the two mounts.
fn site(tree: &Tree, upstream: &Upstream, top: &str, files: &str, app: &str) -> Proxy {
    let (root, address) = (tree.public(), upstream.address);
    Proxy::written(
        1,
        &format!(
            "[[site]]\n{top}\n[[site.mount]]\nfiles = {root:?}\notherwise = \"app\"\n{files}\n\
             [[site.mount]]\nname = \"app\"\nproxy = \"http://{address}\"\n{app}\n"
        ),
    )
}

/// Regression: one user's page was stored, and sent to others.
#[test]
fn a_page_for_an_authenticated_user_is_not_stored() {
    let (tree, upstream, auth) = (Tree::new("cached"), Upstream::new(), Upstream::new());
    let address = auth.address;
    let files = format!(
        "auth = \"forward\"\nforward = \"http://{address}/\"\ncopy_headers = [\"Remote-User\"]"
    );
    let server = site(&tree, &upstream, "", &files, "cache = {}");
    for user in ["anna", "bob"] {
        let mut client = server.send(request("GET", "/page", ""));
        let (mut checker, _) = auth.next_request();
        checker.send(format!(
            "HTTP/1.1 200 OK\r\nRemote-User: {user}\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        ));
        let (mut peer, head) = upstream.next_request();
        assert!(head.to_lowercase().contains(&format!("remote-user: {user}")), "{head}");
        let (len, page) = (user.len(), user);
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {len}\r\n\
             Connection: close\r\n\r\n{page}"
        ));
        let (head, body) = client.answer();
        assert_eq!(body, user);
        assert!(head.contains("fwd=bypass; detail=authentication"), "{head}");
    }
}

fn request(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n")
}

/// Sends a request; the upstream answers it. Returns the request line that the upstream got.
fn passed_on(proxy: &Proxy, upstream: &Upstream, request: &str) -> (String, Client) {
    let mut client = proxy.send(request);
    let (mut peer, head) = upstream.next_request();
    peer.send(OK);
    assert!(client.head().starts_with("HTTP/1.1 200 "), "{request}");
    (head.lines().next().unwrap().to_owned(), peer)
}

#[test]
fn requests_without_a_file_reach_the_application() {
    let (tree, upstream) = (Tree::new("grid"), Upstream::new());
    let proxy = site(&tree, &upstream, "", "", "");
    let files = [
        ("a file", "GET", "/a.txt", "200"),
        ("its head", "HEAD", "/a.txt", "200"),
        ("the index file of a directory", "GET", "/docs/", "200"),
        ("its missing slash", "GET", "/docs", "301"),
        ("a file takes no POST", "POST", "/a.txt", "405"),
        ("a file has options", "OPTIONS", "/a.txt", "204"),
        ("a path that is none", "GET", "/%00", "400"),
    ];
    for (why, method, path, status) in files {
        let mut client = proxy.send(request(method, path, ""));
        let head = client.head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{why}: {head}");
        upstream.expect_no_connection();
    }
    let application = [
        ("a missing file", "GET", "/gone.txt"),
        ("with its query", "GET", "/gone.txt?a=b%20c"),
        ("in the bytes that were written", "GET", "/x/lib%2B%2B%3Bz"),
        ("the root without an index file", "GET", "/"),
        ("a directory without one", "GET", "/bare/"),
        ("a name beneath a file", "GET", "/a.txt/x"),
        ("a hidden name", "GET", "/.env"),
        ("HEAD", "HEAD", "/gone.txt"),
        ("every other method", "DELETE", "/items/7"),
        ("options of the application", "OPTIONS", "/items/7"),
        ("a method that nobody knows", "BREW", "/pot"),
    ];
    for (why, method, path) in application {
        let (line, _) = passed_on(&proxy, &upstream, &request(method, path, ""));
        assert_eq!(line, format!("{method} {path} HTTP/1.1"), "{why}");
    }
}

#[test]
fn a_body_goes_along() {
    let (tree, upstream) = (Tree::new("body"), Upstream::new());
    let proxy = site(&tree, &upstream, "", "", "");
    for fields in ["Content-Length: 5\r\n", "Content-Length: 5\r\nExpect: 100-continue\r\n"] {
        let mut client = proxy.send(request("POST", "/form", fields) + "hello");
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with("POST /form "), "{head}");
        assert_eq!(peer.take(5), b"hello");
        peer.send(OK);
        let head = client.head();
        assert!(head.contains(" 200 ") || head.contains(" 100 "), "{head}");
    }
    // A GET may have one, too.
    let mut client = proxy.send(request("GET", "/form", "Content-Length: 2\r\n") + "hi");
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.take(2), b"hi");
    peer.send(OK);
    assert!(client.head().contains(" 200 "));
}

#[test]
fn a_websocket_reaches_the_application() {
    let (tree, upstream) = (Tree::new("websocket"), Upstream::new());
    let proxy = site(&tree, &upstream, "", "", "");
    let mut client = proxy.send(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst",
    );
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("\nUpgrade: websocket\n"), "{head}");
    peer.send(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello",
    );
    assert!(client.head().starts_with("HTTP/1.1 101 "));
    assert_eq!(client.take(5), b"hello");
    assert_eq!(peer.take(5), b"first");
}

#[test]
fn without_index_names_a_directory_is_no_file() {
    let (tree, upstream) = (Tree::new("index"), Upstream::new());
    let proxy = site(&tree, &upstream, "", "index = []", "");
    for path in ["/docs", "/docs/", "/"] {
        let (line, _) = passed_on(&proxy, &upstream, &request("GET", path, ""));
        assert_eq!(line, format!("GET {path} HTTP/1.1"));
    }
    let proxy = site(&tree, &upstream, "", "try_files = [\"{path}.txt\", \"{path}\"]", "");
    let mut client = proxy.send(request("GET", "/a", ""));
    assert!(client.head().contains(" 200 "), "a candidate of try_files");
    let (line, _) = passed_on(&proxy, &upstream, &request("GET", "/b", ""));
    assert_eq!(line, "GET /b HTTP/1.1");
}

#[test]
fn a_file_that_appears_goes_before_the_application() {
    let (tree, upstream) = (Tree::new("appears"), Upstream::new());
    let cache = "[site.mount.cache]\nmemory = \"1 MiB\"\nheuristic_percent = 0";
    let proxy = site(&tree, &upstream, "", "", cache);
    let mut client = proxy.send(request("GET", "/new.txt", ""));
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 3\r\n\r\napp");
    assert!(client.head().contains(" 200 "));
    fs::write(tree.0.join("public/new.txt"), "file").unwrap();
    let mut client = proxy.send(request("GET", "/new.txt", ""));
    assert_eq!(client.answer().1, "file", "although a stored response is fresh");
}

#[test]
fn the_gates_of_both_mounts_are_passed() {
    let (tree, upstream) = (Tree::new("gates"), Upstream::new());
    let refused = |top: &str, files: &str, app: &str, path: &str| {
        let proxy = site(&tree, &upstream, top, files, app);
        let head = proxy.send(request("GET", path, "")).head();
        upstream.expect_no_connection();
        head.lines().next().unwrap()[9..12].to_owned()
    };
    assert_eq!(refused("", "", "deny = [\"127.0.0.1\"]", "/gone"), "403", "the application's");
    assert_eq!(refused("", "", "deny = [\"127.0.0.1\"]", "/a.txt"), "200", "not for a file");
    assert_eq!(refused("", "deny = [\"127.0.0.1\"]", "", "/gone"), "403", "the files' own");
    let users = tree.0.join("users");
    fs::write(&users, "u:$2y$04$CCCCCCCCCCCCCCCCCCCCC.vqxDkTwRzAGmLZwd8FLMgO5CA7dx6oK\n").unwrap();
    let auth = format!("auth = \"basic\"\nusers = {users:?}");
    assert_eq!(refused("", "", &auth, "/gone"), "401", "a password of the application");
    assert_eq!(refused("", "", &auth, "/a.txt"), "200", "not for a file");
    assert_eq!(refused(&auth, "auth = \"none\"", "", "/gone"), "401", "that of the site");
}

#[test]
fn no_reading_of_a_path_leads_to_a_mount_whose_gates_were_not_passed() {
    let (tree, upstream) = (Tree::new("readings"), Upstream::new());
    let (root, address) = (tree.public(), upstream.address);
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\n[[site.mount]]\nfiles = {root:?}\notherwise = \"app\"\n\
             [[site.mount]]\nname = \"app\"\nproxy = \"http://{address}\"\n\
             [[site.mount]]\npath = \"/admin\"\nproxy = \"http://{address}\"\ndeny = \"127.0.0.1\"\n"
        ),
    );
    for path in [
        "/admin/x",
        "/x/..;/admin/x",
        "/admin;a=b/x",
        "/x/%2e%2e%3b/admin",
        "/x/..%5cadmin",
        "/admin%2Fx",
        "/x/..%2Fadmin",
    ] {
        let head = proxy.send(request("GET", path, "")).head();
        assert!(!head.contains(" 200 "), "{path}: {head}");
        upstream.expect_no_connection();
    }
    let (line, _) = passed_on(&proxy, &upstream, &request("GET", "/gone;a=b/x", ""));
    assert_eq!(line, "GET /gone;a=b/x HTTP/1.1", "parameters of other paths go along");
    // Regression: 404, while the pages promised that the application gets it.
    let (line, _) = passed_on(&proxy, &upstream, &request("POST", "/api/group%2Fname", ""));
    assert_eq!(line, "POST /api/group%2Fname HTTP/1.1", "no file has such a name");
}

/// Regression: an error was handed to a mount with a name whatever the path.
#[test]
fn no_reading_of_a_path_with_an_error_leads_to_a_mount_whose_gates_were_not_passed() {
    let (tree, upstream) = (Tree::new("error-readings"), Upstream::new());
    let (root, address) = (tree.public(), upstream.address);
    for first in [format!("files = {root:?}"), format!("proxy = \"http://{NOBODY}\"")] {
        let proxy = Proxy::written(
            1,
            &format!(
                "[[site]]\nerrors = {{ 404 = \"@app\", 502 = \"@app\" }}\n[[site.mount]]\n{first}\n\
                 [[site.mount]]\nname = \"app\"\nproxy = \"http://{address}\"\n\
                 [[site.mount]]\npath = \"/admin\"\nproxy = \"http://{address}\"\n\
                 deny = \"127.0.0.1\"\n"
            ),
        );
        for path in [
            "/admin;a=b/x",
            "/x/..;/admin/x",
            "/x/%2e%2e%3b/admin",
            "/x/..%5cadmin",
            "/admin%2Fx",
            "/x/..%2Fadmin",
        ] {
            let head = proxy.send(request("GET", path, "")).head();
            assert!(!head.contains(" 200 "), "{first}: {path}: {head}");
            upstream.expect_no_connection();
        }
        let (line, _) = passed_on(&proxy, &upstream, &request("GET", "/gone;a=b/x", ""));
        assert_eq!(line, "GET /gone;a=b/x HTTP/1.1", "{first}: parameters of other paths go along");
    }
}

#[test]
fn rates_of_the_site_count_once_and_those_of_the_application_too() {
    let (tree, upstream) = (Tree::new("rates"), Upstream::new());
    let limit = "[[site.rate_limit]]\nrequests = \"1/h\"\nburst = 3\n";
    let proxy = site(&tree, &upstream, limit, "", "");
    for _ in 0..3 {
        passed_on(&proxy, &upstream, &request("GET", "/gone", ""));
    }
    assert!(proxy.send(request("GET", "/gone", "")).head().contains(" 429 "));
    let limit = "[[site.mount.rate_limit]]\nrequests = \"1/h\"\nburst = 1\n";
    let proxy = site(&tree, &upstream, "", "", limit);
    passed_on(&proxy, &upstream, &request("GET", "/gone", ""));
    assert!(proxy.send(request("GET", "/gone", "")).head().contains(" 429 "));
    assert!(proxy.send(request("GET", "/a.txt", "")).head().contains(" 200 "), "files go on");
    // Regression: what the application's limit refused used up that of the site.
    let of_site = "[[site.rate_limit]]\nrequests = \"1/h\"\nburst = 3\n";
    let proxy = site(&tree, &upstream, of_site, "", limit);
    passed_on(&proxy, &upstream, &request("GET", "/gone", ""));
    for _ in 0..5 {
        assert!(proxy.send(request("GET", "/gone", "")).head().contains(" 429 "));
    }
    for status in [" 200 ", " 200 ", " 429 "] {
        let head = proxy.send(request("GET", "/a.txt", "")).head();
        assert!(head.contains(status), "{status}: {head}");
    }
}

#[test]
fn mounts_of_files_hand_on_to_each_other() {
    let (tree, upstream) = (Tree::new("chain"), Upstream::new());
    let (root, address) = (tree.public(), upstream.address);
    let old = tree.0.join("public/old").display().to_string();
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\n[[site.mount]]\nfiles = {root:?}\notherwise = \"old\"\n\
             [[site.mount]]\nname = \"old\"\nfiles = {old:?}\notherwise = \"app\"\n\
             [[site.mount]]\nname = \"app\"\nproxy = \"http://{address}\"\n"
        ),
    );
    for _ in 0..2 {
        let mut client = proxy.send(request("GET", "/only.txt", ""));
        assert_eq!(client.answer().1, "of the old release");
    }
    passed_on(&proxy, &upstream, &request("GET", "/neither.txt", ""));
    fs::write(tree.0.join("public/only.txt"), "of the new one").unwrap();
    let mut client = proxy.send(request("GET", "/only.txt", ""));
    assert_eq!(client.answer().1, "of the new one", "the old file was not kept for the path");
}

#[test]
fn mistakes_are_reported() {
    let rows = [
        (
            "no such name",
            "files = \".\"\notherwise = \"ap\"",
            "name = \"app\"\nrespond = \"\"",
            "has the name",
        ),
        (
            "a circle",
            "files = \".\"\notherwise = \"app\"",
            "name = \"app\"\nfiles = \".\"\notherwise = \"app\"",
            "would come back",
        ),
        (
            "nothing leads to it",
            "files = \".\"",
            "name = \"app\"\nrespond = \"\"",
            "no mount hands requests on",
        ),
        (
            "a name and a path",
            "files = \".\"\notherwise = \"app\"",
            "name = \"app\"\npath = \"/x\"\nrespond = \"\"",
            "remove path or name",
        ),
        (
            "beside spa",
            "files = \".\"\nspa = \"/i.html\"\notherwise = \"app\"",
            "name = \"app\"\nrespond = \"\"",
            "spa has a page",
        ),
        (
            "beside a final status",
            "files = \".\"\ntry_files = [\"=404\"]\notherwise = \"app\"",
            "name = \"app\"\nrespond = \"\"",
            "ends with a status",
        ),
        (
            "not of files",
            "respond = \"\"\notherwise = \"app\"",
            "name = \"app\"\nrespond = \"\"",
            "otherwise",
        ),
        (
            "a name that is none",
            "files = \".\"\notherwise = \"a b\"",
            "name = \"a b\"\nrespond = \"\"",
            "not a name of a mount",
        ),
    ];
    for (why, files, app, expected) in rows {
        let text = format!("[[site]]\n[[site.mount]]\n{files}\n[[site.mount]]\n{app}\n");
        let problems =
            format!("{:?}", check(&text, Path::new("/nowhere/hurtle.toml")).unwrap_err());
        assert!(problems.contains(expected), "{why}: {problems}");
    }
}

#[test]
fn a_path_without_a_file_is_redirected_with_its_parts() {
    let tree = Tree::new("redirect");
    let root = tree.public();
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\n[[site.mount]]\nfiles = {root:?}\notherwise = \"old\"\n[[site.mount]]\nname = \"old\"\n\
             match = {{ regex = '/(.*)[.](html|txt)' }}\nredirect = \"/posts/{{1}}\"\nstatus = 302\n"
        ),
    );
    let table = [
        ("no file", "GET", "/one.html", "302", Some("/posts/one")),
        ("with its query", "GET", "/a/one.html?b=c", "302", Some("/posts/a/one?b=c")),
        ("encoded anew", "GET", "/%C3%A9%20a.html", "302", Some("/posts/%C3%A9%20a")),
        ("another method", "POST", "/one.html", "302", Some("/posts/one")),
        ("its head", "HEAD", "/one.html", "302", Some("/posts/one")),
        ("no other host", "GET", "/posts/..//evil.html", "302", Some("/posts/evil")),
        ("a file", "GET", "/a.txt", "200", None),
        ("a file beneath", "GET", "/docs/index.html", "200", None),
        ("a path that the match does not have", "GET", "/one.png", "404", None),
        ("a directory without an index file", "GET", "/bare/", "404", None),
    ];
    for (sentence, method, path, status, location) in table {
        let head = proxy.send(request(method, path, "")).head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{sentence}: {head}");
        let found = head.lines().find_map(|line| line.strip_prefix("Location: "));
        assert_eq!(found, location, "{sentence}: {head}");
    }
}
