//! Tests of `match`, `exact` and `final`: which mount and which rule a request gets.

use std::path::Path;

use hurtle::config::{Config, check as check_config};

use crate::support::rows::check;
use crate::support::{Dir, Server};

/// Serves a site with these mounts and rules; `files` are relative to the tree.
fn server(tree: &[(&str, &str)], site: &str) -> Server {
    server_of(tree, site, |_| ())
}

/// Likewise, with other settings of the whole server.
fn server_of(tree: &[(&str, &str)], site: &str, change: impl FnOnce(&mut Config)) -> Server {
    let dir = Dir::new(tree);
    let file = dir.root().join("hurtle.toml");
    let text = format!("[[site]]\n{site}");
    Server::of(dir, |config| {
        let checked = check_config(&text, &file).map_err(|problems| format!("{problems:?}"));
        config.sites = checked.unwrap().sites;
        change(config);
    })
}

/// A mount that responds with a text.
fn says(place: &str, text: &str) -> String {
    format!("[[site.mount]]\n{place}\nrespond = \"{text}\"\n")
}

#[test]
fn exact_paths_then_conditions_in_order_then_the_longest_path() {
    let site = [
        says("path = \"/\"", "root"),
        says("path = \"/a\"", "prefix a"),
        says("path = \"/a/b\"", "prefix a/b"),
        says("path = \"/static/\"\nfinal = true", "final"),
        says("path = \"/static/deeper\"", "not final"),
        says("match = \"*.php\"", "php"),
        says("match = \"*.ph*\"", "later"),
        says("path = \"/a\"\nmatch = { regex = \"^/a/[0-9]+$\" }", "number beneath a"),
        says("path = \"/a/7\"\nexact = true", "exact"),
        says("path = \"/a/\"\nexact = true", "exact with a slash"),
        says("path = \"/\"\nexact = true", "exact root"),
    ];
    let server = server(&[], &site.concat());
    check(
        &server,
        &[
            ("one path", "/a/7", 200, &[], Some("exact")),
            ("with a query", "/a/7?x", 200, &[], Some("exact")),
            ("in another spelling", "/%61/./7", 200, &[], Some("exact")),
            ("a slash behind it is another path", "/a/7/", 200, &[], Some("prefix a")),
            ("a path with a slash", "/a/", 200, &[], Some("exact with a slash")),
            ("and without", "/a", 200, &[], Some("prefix a")),
            ("the root alone", "/", 200, &[], Some("exact root")),
            ("what is beneath the root", "/x", 200, &[], Some("root")),
            ("an expression in a mount's path", "/a/12", 200, &[], Some("number beneath a")),
            ("not beyond its path", "/b/12", 200, &[], Some("root")),
            ("a pattern before the longest path", "/a/b/x.php", 200, &[], Some("php")),
            ("the first of two", "/x.php", 200, &[], Some("php")),
            ("the second", "/x.phtml", 200, &[], Some("later")),
            ("a final path", "/static/x.php", 200, &[], Some("final")),
            ("a longer one is not final", "/static/deeper/x.php", 200, &[], Some("php")),
            ("nor what begins alike", "/statics/x.php", 200, &[], Some("php")),
            ("the longest path", "/a/b/x", 200, &[], Some("prefix a/b")),
        ],
    );
}

#[test]
fn conditions_on_more_than_the_path() {
    let site = [
        says("path = \"/\"", "other"),
        says("match = { header = { X-Api = [\"1\", \"2*\"] } }", "field"),
        says("match = { header = { X-Here = true, X-Gone = false } }", "present and absent"),
        says("match = { cookie = { beta = \"y*\" } }", "cookie"),
        says("match = { query = { \"a b\" = \"1/2\" } }", "query"),
        says("match = { path = \"/q\", query = true }", "a query"),
        says("match = { path = [\"/q\", \"/r\"], query = false }", "no query"),
        says("match = { host = \"*.wild.example\" }", "host"),
        says("path = \"/c\"\nmatch = { client = \"127.0.0.0/8\" }", "client"),
        says("path = \"/d\"\nmatch = { client = \"10.0.0.0/8\" }", "no client"),
        says("path = \"/n\"\nmatch = { not = { header = { Accept = \"*html*\" } } }", "not html"),
        says(
            "path = \"/n\"\nmatch = { path = \"/n/*\", not = { path = \"*.css\", query = { v = true } } }",
            "not both",
        ),
        says("path = \"/m\"\nmatch = { method = [\"PUT\", \"HEAD\"] }\nstatus = 410", "method"),
    ];
    let server = server(&[], &site.concat());
    check(
        &server,
        &[
            ("none", "/", 200, &[], Some("other")),
            ("a field", "/\nX-Api: 1", 200, &[], Some("field")),
            ("in another case of its name", "/\nx-aPI: 1", 200, &[], Some("field")),
            ("by its beginning", "/\nX-Api: 23", 200, &[], Some("field")),
            ("one of several lines", "/\nX-Api: 3\nX-Api: 1", 200, &[], Some("field")),
            ("another value", "/\nX-Api: 12", 200, &[], Some("other")),
            ("a field that is there", "/\nX-Here:", 200, &[], Some("present and absent")),
            ("beside one that must not be", "/\nX-Here: 1\nX-Gone: 1", 200, &[], Some("other")),
            ("a cookie", "/\nCookie: a=b; beta=yes", 200, &[], Some("cookie")),
            ("a cookie of a similar name", "/\nCookie: xbeta=yes", 200, &[], Some("other")),
            ("a parameter, decoded", "/?x&a+b=1%2F2", 200, &[], Some("query")),
            ("another value of it", "/?a+b=1", 200, &[], Some("other")),
            ("any query", "/q?x", 200, &[], Some("a query")),
            ("none", "/q", 200, &[], Some("no query")),
            ("an empty one is none", "/r?", 200, &[], Some("no query")),
            ("another path", "/r?x", 200, &[], Some("other")),
            ("a host", "/\nHost: A.Wild.Example:81", 200, &[], Some("host")),
            ("not the domain itself", "/\nHost: wild.example", 200, &[], Some("other")),
            ("this machine", "/c", 200, &[], Some("client")),
            ("another network", "/d", 200, &[], Some("other")),
            ("a condition that is not met", "/n/x\nAccept: a/b", 200, &[], Some("not html")),
            (
                "of two that must not both be met, one is",
                "/n/x.css\nAccept: text/html",
                200,
                &[],
                Some("not both"),
            ),
            ("both are", "/n/x.css?v=1\nAccept: text/html", 200, &[], Some("other")),
        ],
    );
    assert_eq!(server.head("/m").status, 410);
    assert_eq!(server.get("/m").text(), "other");
}

/// A trusted proxy names the client; `peer` is the proxy all the same.
#[test]
fn the_peer_is_the_proxy_that_names_the_client() {
    let site = [
        "[[site.rule]]\nmatch = { path = \"/old\", peer = \"127.0.0.1\", client = \"192.0.2.7\" }\n\
         redirect = \"/new\"\n"
            .to_owned(),
        "[[site.mount]]\nfiles = \".\"\n".to_owned(),
        says("match = { path = \"/p\", peer = \"127.0.0.0/8\" }", "peer"),
        says("match = { path = \"/q\", peer = [\"192.0.2.0/24\", \"::/0\"] }", "other peer"),
        says("match = { path = \"/c\", client = \"192.0.2.7\" }", "client"),
        says("match = { path = \"/n*\", not = { peer = \"127.0.0.0/8\" } }", "not the peer"),
        says("match = { path = \"/*.key\", not = { peer = \"192.0.2.0/24\" } }\nstatus = 403", "no"),
    ];
    let tree = [("a.txt", "text"), ("a.key", "secret")];
    let server = server_of(&tree, &site.concat(), |config| {
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let by = |path: &str| format!("{path}\nX-Forwarded-For: 192.0.2.7");
    // Twice: the second time the files are known.
    for _ in 0..2 {
        for (path, status, text) in [
            ("/p", 200, "peer"),
            ("/q", 404, ""),
            ("/c", 200, "client"),
            ("/n1", 404, ""),
            ("/a.key", 403, "no"),
            ("/a.txt", 200, "text"),
        ] {
            let response = server.get(&by(path));
            assert_eq!(response.status, status, "{path}");
            if status != 404 {
                assert_eq!(response.text(), text, "{path}");
            }
        }
    }
    assert_eq!(server.get("/c").status, 404, "without a field the proxy is the client");
    assert_eq!(server.get(&by("/old")).status, 302);
    assert_eq!(server.get("/old").status, 404);
}

#[test]
fn an_empty_list_of_addresses_is_no_condition() {
    let file = Path::new("/nowhere/hurtle.toml");
    for (condition, key) in [
        ("path = \"/x\", peer = []", "site[0].mount[0].match.peer"),
        ("client = []", "site[0].mount[0].match.client"),
        ("path = \"/x\", not = { method = \"GET\", peer = [] }", "site[0].mount[0].match.not.peer"),
    ] {
        let text = format!("[[site]]\n[[site.mount]]\nmatch = {{ {condition} }}\nabort = true\n");
        let problems = format!("{:?}", check_config(&text, file).expect_err(condition));
        assert!(problems.contains(key) && problems.contains("empty list"), "{problems}");
    }
}

#[test]
fn files_of_mounts_that_share_a_path_are_never_confused() {
    let tree = [("old/a.txt", "old"), ("new/a.txt", "new"), ("one/icon.ico", "icon")];
    let site = "[[site.mount]]\nfiles = \"old\"\n\
                [[site.mount]]\nfiles = \"new\"\nmatch = { cookie = { beta = true } }\n\
                [[site.mount]]\nfiles = \"one\"\npath = \"/deep/icon.ico\"\nexact = true\n";
    let server = server(&tree, site);
    // The second round has both files in the cache.
    for _ in 0..3 {
        assert_eq!(server.get("/a.txt").text(), "old");
        assert_eq!(server.get("/a.txt\nCookie: beta=1").text(), "new");
        assert_eq!(server.get("/deep/icon.ico").text(), "icon");
    }
    assert_eq!(server.get("/deep/icon.ico/x").status, 404);
    assert_eq!(server.get("/deep/other.ico").status, 404);
}

#[test]
fn a_gate_holds_for_the_mount_that_a_request_gets() {
    let site = "[[site.mount]]\nfiles = \".\"\n\
                [[site.mount]]\nfiles = \".\"\nmatch = \"*.key\"\ndeny = \"0.0.0.0/0\"\n\
                [[site.mount]]\nfiles = \".\"\nmatch = { header = { X-No = true } }\n\
                deny = \"0.0.0.0/0\"\n";
    let server = server(&[("a.key", "secret"), ("a.txt", "text")], site);
    for _ in 0..3 {
        assert_eq!(server.get("/a.key").status, 403);
        assert_eq!(server.get("/%61.k%65y").status, 403);
        assert_eq!(server.get("/a.txt").text(), "text");
        assert_eq!(server.get("/a.txt\nX-No: 1").status, 403);
    }
}

#[test]
fn rules_by_expressions_and_by_requests() {
    let tree = [("new/7.html", "seven"), ("mobile/a.txt", "mobile"), ("a.txt", "plain")];
    let site = "[[site.rule]]\nmatch = { regex = '^/(?<lang>[a-z]{2})/page/([0-9]+)$' }\n\
                redirect = \"/{lang}-{2}\"\nstatus = 301\n\
                [[site.rule]]\nmatch = { regex = '^/page/([0-9]+)(\\.htm)?$' }\nrewrite = \"/new/{1}.html{2}\"\n\
                [[site.rule]]\nmatch = { regex = '^/odd/(.*)$' }\nredirect = \"/to/{1}\"\n\
                [[site.rule]]\nmatch = { path = \"/**\", header = { User-Agent = \"*Phone*\" } }\n\
                rewrite = \"/mobile/{1}\"\n\
                [[site.mount]]\nfiles = \".\"\n";
    let server = server(&tree, site);
    check(
        &server,
        &[
            ("names and numbers", "/de/page/12?q", 301, &["Location: /de-12?q"], None),
            ("no match", "/deu/page/12", 404, &[], None),
            ("a group that took no part is empty", "/page/7", 200, &[], Some("seven")),
            (
                "what is captured is encoded",
                "/odd/a%0d%0ab",
                302,
                &["Location: /to/a%0D%0Ab"],
                None,
            ),
            ("by a field", "/a.txt\nUser-Agent: My Phone 7", 200, &[], Some("mobile")),
            ("and not", "/a.txt\nUser-Agent: Desk", 200, &[], Some("plain")),
        ],
    );
}

/// Regression: it was the query that the client sent.
#[test]
fn listings_and_redirects_have_the_query_of_a_rewrite() {
    let tree = [("pub/a.txt", "a"), ("pub/b.txt", "longer")];
    let site = "[[site.rule]]\nmatch = \"/largest\"\nrewrite = \"/pub/?sort=size&order=desc\"\n\
                [[site.rule]]\nmatch = \"/bare/*\"\nrewrite = \"/{1}?sort=size\"\n\
                [[site.mount]]\nfiles = \".\"\nlisting = true\n";
    let server = server(&tree, site);
    for (target, expected) in [
        ("/largest", ["b.txt", "a.txt"]),
        ("/largest?sort=name", ["b.txt", "a.txt"]),
        ("/pub/", ["a.txt", "b.txt"]),
    ] {
        let listed = server.get(&format!("{target}\nAccept: application/json"));
        let listed: serde_json::Value = serde_json::from_slice(&listed.body).unwrap();
        let entries = listed["entries"].as_array().unwrap().iter();
        let names: Vec<_> = entries.map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{target}");
    }
    let slash = &["Location: /pub/?sort=size"];
    check(&server, &[("a directory without its slash", "/bare/pub?x", 301, slash, None)]);
}

#[test]
fn header_rules_of_a_mount_come_after_those_of_its_site() {
    let tree = [("a.js", "js"), ("a.css", "css"), ("sub/a.js", "sub"), ("e/404.html", "gone")];
    let site = "[[site.header]]\nset = { X-Site = \"1\", X-Both = \"site\" }\n\
                [[site.header]]\nmatch = { regex = '\\.js$', not = { path = \"/sub/**\" } }\nset = { X-Js = \"1\" }\n\
                [site.errors]\n404 = \"/e/404.html\"\n\
                [[site.mount]]\nfiles = \".\"\n\
                [[site.mount]]\npath = \"/sub\"\nfiles = \"sub\"\n\
                [[site.mount.header]]\nset = { X-Both = \"mount\" }\nremove = \"X-Site\"\n\
                [[site.mount.header]]\nset = { X-Both = \"late\", X-New = \"1\", Content-Type = \"a/b\" }\n\
                if_absent = true\n\
                [[site.mount.header]]\nmatch = \"/sub/gone\"\nset = { X-Error = \"1\" }\nalways = true\n";
    let server = server(&tree, site);
    let plain = &["X-Site: 1", "X-Both: site", "X-Js: 1"][..];
    check(
        &server,
        &[
            ("the site's", "/a.js", 200, plain, Some("js")),
            ("by an expression", "/a.css", 200, &["X-Site: 1", "!X-Js"], Some("css")),
            ("the mount's", "/sub/a.js", 200, &["X-Both: mount", "!X-Site", "!X-Js"], Some("sub")),
            ("what is absent", "/sub/a.js", 200, &["X-New: 1"], Some("sub")),
            (
                "what is there",
                "/sub/a.js",
                200,
                &["Content-Type: text/javascript; charset=utf-8"],
                Some("sub"),
            ),
            ("an error of the mount", "/sub/gone", 404, &["X-Error: 1"], Some("gone")),
            ("and of another", "/gone", 404, &["!X-Error"], Some("gone")),
        ],
    );
}

#[test]
fn header_rules_may_be_for_media_types() {
    let tree =
        [("index.html", "i"), ("a.js", "js"), ("a.json", "{}"), ("i.png", "png"), ("none", "n")];
    let site = "[[site.header]]\nset = { X-Any = \"1\", Cache-Control = \"max-age=60\" }\n\
                [[site.header]]\ntypes = [\"text/HTML\", \"image/*\", \"*+json\"]\n\
                set = { Cache-Control = \"no-cache\" }\nremove = \"X-Any\"\n\
                [[site.header]]\ntypes = \"text/html\"\nset = { X-Error = \"1\" }\nalways = true\n\
                [[site.header]]\nmatch = \"*.json\"\nset = { Content-Type = \"application/a+json\" }\n\
                [[site.header]]\ntypes = \"*+json\"\nset = { X-Json = \"1\" }\n\
                [site.errors]\n404 = \"/index.html\"\n\
                [[site.mount]]\nfiles = \".\"\n\
                [[site.mount]]\npath = \"/app\"\nfiles = \".\"\ntry_files = [\"{path}\", \"/index.html\"]\n\
                [[site.mount]]\npath = \"/text\"\nrespond = \"t\"\n\
                [[site.mount]]\npath = \"/void\"\nrespond = \"\"\n\
                [[site.mount]]\npath = \"/typed\"\nrespond = \"\"\ncontent_type = \"text/html\"\n\
                [[site.mount]]\npath = \"/page\"\nrespond = \"p\"\ncontent_type = \"text/html; charset=latin1\"\n";
    let server = server(&tree, site);
    let html = &["Cache-Control: no-cache", "X-Error: 1", "!X-Any"][..];
    let other = &["Cache-Control: max-age=60", "X-Any: 1", "!X-Error"][..];
    // Twice: the second time the files are known.
    for _ in 0..2 {
        check(
            &server,
            &[
                ("a directory", "/", 200, html, Some("i")),
                ("its file", "/index.html", 200, html, Some("i")),
                ("a page in place of a missing file", "/app/deep/route", 200, html, Some("i")),
                ("a script", "/a.js", 200, other, Some("js")),
                ("a group of types", "/i.png", 200, &["Cache-Control: no-cache"], Some("png")),
                ("a type by its ending", "/none", 200, other, Some("n")),
                ("a type that a rule sets", "/a.json", 200, &["X-Json: 1"], Some("{}")),
                ("a fixed text", "/text", 200, other, Some("t")),
                ("nothing has no type", "/void", 200, &["!Content-Type", "!X-Error"], Some("")),
                ("unless it is written", "/typed", 200, &["Content-Type: text/html"], Some("")),
                ("with a parameter", "/page", 200, html, Some("p")),
                ("an error", "/gone", 404, &["X-Error: 1", "!X-Any"], Some("i")),
            ],
        );
    }
}

/// Regression: sites know an address in any spelling, and conditions knew it in one.
#[test]
fn an_address_is_a_host_in_every_spelling() {
    let closed = says("match = { host = \"[2001:db8::1]\" }", "the address");
    let server = server(&[], &(closed + &says("path = \"/\"", "all others")));
    for (host, text) in [
        ("[2001:db8::1]", "the address"),
        ("[2001:0DB8:0:0:0:0:0:1]:8080", "the address"),
        ("[2001:db8::2]", "all others"),
    ] {
        let answer = server.connect().request("GET", &format!("/\nHost: {host}"));
        assert_eq!(answer.text(), text, "{host}");
    }
}
