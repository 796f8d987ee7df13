//! Tests of a site's configuration: hosts, rules, fields, addresses, error pages.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue, StatusCode};
use hurtle::config::{
    Access, Config, HeaderRule, HostName, Matcher, MountHandler, Rule, RuleAction, Site,
};

use crate::support::Server;
use crate::support::rows::check;
use crate::support::site::{files, files_of, mount, site};

fn fixed(status: StatusCode, body: &str) -> MountHandler {
    let content_type = HeaderValue::from_static("text/plain");
    MountHandler::Fixed { status, body: body.to_owned(), content_type }
}

fn site_of(hosts: Vec<HostName>, mounts: Vec<hurtle::config::Mount>) -> Site {
    Site { hosts, default: false, ..site(mounts) }
}

#[test]
fn hosts() {
    let exact = |name: &str| HostName::Exact(name.to_owned());
    let wildcard = |name: &str| HostName::Wildcard(name.to_owned());
    let say = |text: &str| vec![mount("/", fixed(StatusCode::OK, text))];
    let server = Server::with(&[("a.txt", "a"), ("../b/a.txt", "b")], |config| {
        let other = files_of(&files(config).root.join("../b"));
        config.sites[0].default = false;
        config.sites[0].hosts = vec![exact("a.example"), exact("127.0.0.1"), exact("[::1]")];
        config.sites.extend([
            site_of(
                vec![exact("b.example")],
                vec![mount("/", MountHandler::Files(Box::new(other)))],
            ),
            site_of(vec![wildcard("wild.example")], say("wild")),
            site_of(vec![wildcard("deep.wild.example")], say("deep")),
            site_of(vec![exact("exact.wild.example")], say("exact")),
            site_of(vec![HostName::AnyDomain("mail".to_owned())], say("mail")),
            site_of(vec![HostName::AnyDomain("mail.deep".to_owned())], say("deep mail")),
        ]);
    });
    check(
        &server,
        &[
            ("by name", "/a.txt\nHost: a.example", 200, &[], Some("a")),
            ("the same path of another", "/a.txt\nHost: b.example", 200, &[], Some("b")),
            ("and back", "/a.txt\nHost: a.example:8080", 200, &[], Some("a")),
            ("in capitals, with the root's dot", "/a.txt\nHost: A.Example.", 200, &[], Some("a")),
            ("an address", "/a.txt\nHost: 127.0.0.1", 200, &[], Some("a")),
            ("an IPv6 address", "/a.txt\nHost: [::1]:80", 200, &[], Some("a")),
            ("a wildcard", "/\nHost: x.wild.example", 200, &[], Some("wild")),
            ("of any depth", "/\nHost: x.y.wild.example", 200, &[], Some("wild")),
            ("the longest wins", "/\nHost: x.deep.wild.example", 200, &[], Some("deep")),
            ("an exact name beats it", "/\nHost: exact.wild.example", 200, &[], Some("exact")),
            ("but not itself", "/\nHost: wild.example", 421, &[], None),
            ("nor what ends alike", "/\nHost: xwild.example", 421, &[], None),
            ("a name in any domain", "/\nHost: mail.example.org", 200, &[], Some("mail")),
            ("the longest of them", "/\nHost: mail.deep.org", 200, &[], Some("deep mail")),
            ("a wildcard in front beats it", "/\nHost: mail.wild.example", 200, &[], Some("wild")),
            ("without a domain", "/\nHost: mail", 421, &[], None),
            ("what begins alike", "/\nHost: mailx.org", 421, &[], None),
            ("unknown: misdirected", "/a.txt\nHost: c.example", 421, &[], None),
            ("no name", "/a.txt\nHost:", 421, &[], None),
            ("the target's name", "http://b.example/a.txt\nHost: c.example", 200, &[], Some("b")),
            ("and its unknown one", "http://c.example/a.txt\nHost: a.example", 421, &[], None),
        ],
    );
    let mut client = server.connect();
    assert_eq!(client.request("OPTIONS", "/\nHost: c.example").status, 421);
    let text = client.request("GET", "/\nHost: c.example").text().to_owned();
    assert!(text.contains("no site has this host name"), "{text}");
    assert!(text.contains("a.example"), "a client on this machine is told the names: {text}");
    for of_proxy in ["X-Forwarded-For: 203.0.113.9", "Via: 1.1 proxy", "X-Real-IP: 203.0.113.9"] {
        let refused = client.request("GET", &format!("/\nHost: c.example\n{of_proxy}"));
        assert!(!refused.text().contains("a.example"), "{of_proxy}: {}", refused.text());
    }
    client.expect_open();
}

#[test]
fn fixed_answers_and_redirects() {
    let redirect = |status, to: &str| MountHandler::Redirect { status, to: to.to_owned() };
    let server = Server::with(&[], |config| {
        config.sites[0].mounts.extend([
            mount("/gone", fixed(StatusCode::GONE, "It is gone.\n")),
            mount("/empty", fixed(StatusCode::NO_CONTENT, "not sent")),
            mount("/ok", fixed(StatusCode::OK, "")),
            mount("/wiki", redirect(StatusCode::MOVED_PERMANENTLY, "https://wiki.example/w/")),
            mount("/here", redirect(StatusCode::PERMANENT_REDIRECT, "/")),
            mount("/one", redirect(StatusCode::FOUND, "https://one.example/page")),
        ]);
    });
    #[rustfmt::skip]
    check(&server, &[
        ("a fixed answer", "/gone", 410, &["Content-Type: text/plain"], Some("It is gone.\n")),
        ("beneath it too", "/gone/with/all", 410, &[], None),
        ("not beside it", "/goner", 404, &[], None),
        ("a status without a body has none", "/empty", 204, &["!Content-Length"], Some("")),
        ("an empty body", "/ok", 200, &["Content-Length: 0"], Some("")),
        ("a redirect of a subtree", "/wiki/a/b?q=1", 301, &["Location: https://wiki.example/w/a/b?q=1"], None),
        ("its root", "/wiki", 301, &["Location: https://wiki.example/w/"], None),
        ("its names stay encoded", "/wiki/a%20%0D%0Ab", 301, &["Location: https://wiki.example/w/a%20%0D%0Ab"], None),
        ("an encoded slash", "/wiki/a%2Fb", 301, &["Location: https://wiki.example/w/a%2Fb"], None),
        ("and beneath a fixed answer", "/gone/a%2Fb", 410, &[], None),
        ("one that names the mount only if decoded", "/wiki%2Fa", 404, &[], None),
        ("one that leads out of it if decoded", "/wiki/..%2Fgone", 404, &[], None),
        ("to a path", "/here/a", 308, &["Location: /a"], None),
        ("never to another host", "/here//evil.example/", 308, &["Location: /evil.example/"], None),
        ("nor by a backslash", "/here/%5Cevil.example", 308, &["Location: /%5Cevil.example"], None),
        ("to one page", "/one/a?b", 302, &["Location: https://one.example/page"], None),
    ]);
    let mut client = server.connect();
    assert_eq!(client.request("GET", "/empty").status, 204);
    client.expect_open();
}

#[test]
fn rules() {
    let rule = |pattern: &str, action| Rule { matcher: Matcher::of_pattern(pattern), action };
    let moved = |to: &str| RuleAction::Redirect(StatusCode::MOVED_PERMANENTLY, to.to_owned());
    let rewrite = |to: &str| RuleAction::Rewrite(to.to_owned(), None);
    let tree = [("api/7.json", "seven"), ("new/a.txt", "a"), (".hid/b.json", "hidden")];
    let server = Server::with(&tree, |config| {
        config.sites[0].rules = vec![
            rule("/old/**", moved("/new/{1}")),
            rule("/out/**", moved("https://out.example/{1}?from=here")),
            rule("/bare/**", moved("/{1}")),
            rule("/ask/*", moved("/new/{1}?from={1}&{query}")),
            rule("/plain", moved("/new/?")),
            rule("/part/*", moved("/new/#{1}")),
            rule("/query-part/*", moved("/new/?a={1}#{1}")),
            rule("*.php", moved("/new/a.txt")),
            rule("/v1/*", rewrite("/api/{1}.json")),
            rule("/v2/**", rewrite("/{1}")),
            rule("/twice/*", rewrite("/first/{1}")),
            rule("/first/*", rewrite("/api/{1}.json")),
        ];
    });
    #[rustfmt::skip]
    check(&server, &[
        ("a redirect", "/old/a.txt", 301, &["Location: /new/a.txt"], None),
        ("the query is kept", "/old/a?b=c", 301, &["Location: /new/a?b=c"], None),
        ("unless it has its own", "/out/a?b=c", 301, &["Location: https://out.example/a?from=here"], None),
        ("which may have that of the request", "/ask/a?b=c&d", 301, &["Location: /new/a?from=a&b=c&d"], None),
        ("or nothing in its place", "/ask/a", 301, &["Location: /new/a?from=a"], None),
        ("what was matched adds no parameter", "/ask/a%26b=c%23+", 301, &["Location: /new/a&b=c%23+?from=a%26b%3Dc%23%2B"], None),
        ("nor a query", "/plain?b=c", 301, &["Location: /new/"], None),
        ("it stands before a fragment", "/part/a?b=c", 301, &["Location: /new/?b=c#a"], None),
        ("the own one, too", "/query-part/a?b=c", 301, &["Location: /new/?a=a#a"], None),
        ("what was matched is encoded again", "/old/a%20b%3Fc", 301, &["Location: /new/a%20b%3Fc"], None),
        ("line breaks above all", "/old/%0d%0aX:%20y", 301, &["Location: /new/%0D%0AX:%20y"], None),
        ("never another host", "/bare//evil.example", 301, &["Location: /evil.example"], None),
        ("by the last segment", "/deep/er/x.php", 301, &["Location: /new/a.txt"], None),
        ("a rewrite", "/v1/7", 200, &["Content-Type: application/json"], Some("seven")),
        ("of one segment only", "/v1/7/8", 404, &[], None),
        ("one after the other", "/twice/7", 200, &[], Some("seven")),
        ("a rewrite shows nothing hidden", "/v2/.hid/b.json", 404, &[], None),
        ("nor leads above the root", "/v2/../../etc/passwd", 400, &[], None),
        ("an encoded percent sign stays one", "/v2/%252e%252e/etc", 404, &[], None),
    ]);
}

fn set(pattern: &str, name: &'static str, value: &'static str) -> HeaderRule {
    let field = (HeaderName::from_static(name), HeaderValue::from_static(value));
    HeaderRule {
        matcher: Matcher::of_pattern(pattern),
        set: vec![field],
        remove: vec![],
        always: false,
        types: Vec::new(),
        if_absent: false,
        cookie_flags: Vec::new(),
    }
}

#[test]
fn header_rules() {
    let tree = [("a.css", "css"), ("a.txt", "a"), ("dir/b.css", "b"), ("dir/index.html", "i")];
    let server = Server::with(&tree, |config| {
        let mut bare = set("/a.txt", "x-own", "later rules win");
        bare.remove = vec![http::header::ETAG, http::header::SERVER];
        config.sites[0].headers = vec![
            set("/**", "x-frame-options", "DENY"),
            set("*.css", "cache-control", "max-age=60"),
            set("/dir/**", "cache-control", "no-store"),
            set("/a.txt", "x-own", "first"),
            bare,
            set("/fixed", "content-length", "7"),
            set("/a.css", "content-type", "text/x-own"),
        ];
        config.sites[0].mounts.push(mount("/fixed", fixed(StatusCode::OK, "fixed")));
    });
    let deny = "X-Frame-Options: DENY";
    #[rustfmt::skip]
    check(&server, &[
        ("by extension", "/a.css", 200, &[deny, "Cache-Control: max-age=60", "Content-Type: text/x-own"], Some("css")),
        ("by path, the later wins", "/dir/b.css", 200, &[deny, "Cache-Control: no-store"], None),
        ("an index", "/dir/", 200, &["Cache-Control: no-store"], None),
        ("not elsewhere", "/a.txt", 200, &["!Cache-Control", "!ETag", "!Server", "X-Own: later rules win"], None),
        ("on 304", "/a.css\nIf-None-Match: *", 304, &[deny, "Cache-Control: max-age=60"], None),
        ("on 206", "/a.css\nRange: bytes=0-0", 206, &[deny, "Cache-Control: max-age=60"], Some("c")),
        ("on a redirect", "/dir", 301, &[deny], None),
        ("on a fixed answer, but for what frames it", "/fixed", 200, &[deny, "Content-Length: 5"], Some("fixed")),
        ("not on an error: it is not what was asked for", "/none.css", 404, &["!Cache-Control"], None),
    ]);
}

#[test]
fn header_rules_apply_to_options_so_that_other_origins_can_be_allowed() {
    let server = Server::with(&[("a.json", "{}")], |config| {
        config.sites[0].headers = vec![
            set("/**", "access-control-allow-origin", "https://app.example"),
            set("/**", "access-control-allow-headers", "content-type"),
        ];
    });
    let mut client = server.connect();
    // The request by which a browser asks (Fetch, "CORS-preflight request").
    client.send(
        "OPTIONS /a.json HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\
         Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: content-type\r\n\r\n",
    );
    let answer = client.response();
    assert!((200..300).contains(&answer.status), "{}", answer.status);
    assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("https://app.example"));
    assert_eq!(answer.field("Access-Control-Allow-Headers"), Some("content-type"));
    let answer = client.request("GET", "/a.json");
    assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("https://app.example"));
}

#[test]
fn error_pages() {
    let tree = [("404.html", "<p>Not here"), ("dir/x", "x"), ("403.html", "<p>Not you")];
    let server = Server::with(&tree, |config| {
        let site = &mut config.sites[0];
        site.error_pages = BTreeMap::from([
            (StatusCode::NOT_FOUND, "/404.html".into()),
            (StatusCode::FORBIDDEN, "/403.html".into()),
            (StatusCode::GONE, "/none.html".into()),
            (StatusCode::RANGE_NOT_SATISFIABLE, "/404.html".into()),
            (StatusCode::PRECONDITION_FAILED, "/404.html".into()),
        ]);
        let mut private = mount("/private", fixed(StatusCode::OK, "private"));
        private.access.deny = vec!["127.0.0.0/8".parse().unwrap()];
        site.mounts.extend([private, mount("/gone", fixed(StatusCode::GONE, "plain"))]);
    });
    let html = "Content-Type: text/html; charset=utf-8";
    #[rustfmt::skip]
    check(&server, &[
        ("its own page", "/none", 404, &[html, "Content-Length: 11"], Some("<p>Not here")),
        ("of another status", "/private", 403, &[html], Some("<p>Not you")),
        ("conditions are not the page's", "/none\nIf-None-Match: *", 404, &[], Some("<p>Not here")),
        ("nor ranges", "/none\nRange: bytes=0-1", 404, &["!Content-Range"], Some("<p>Not here")),
        ("what a file says of itself is no page's", "/dir/x\nRange: bytes=9-", 416, &["Content-Range: bytes */1"], Some("")),
        ("nor is its 412", "/404.html\nIf-Match: \"x\"", 412, &[], Some("")),
        ("a page that is missing itself", "/gone", 410, &[], Some("plain")),
        ("asked for by name it is a file", "/404.html", 200, &[html], Some("<p>Not here")),
    ]);
}

#[test]
fn addresses() {
    let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect::<Vec<_>>();
    let access = |allow: &[&str], deny: &[&str]| Access { allow: nets(allow), deny: nets(deny) };
    #[rustfmt::skip]
    let rows: &[(&str, Access, u16)] = &[
        ("nothing said", access(&[], &[]), 200),
        ("refused", access(&[], &["127.0.0.0/8"]), 403),
        ("others refused", access(&[], &["10.0.0.0/8", "::1/128"]), 200),
        ("let in", access(&["127.0.0.1/32"], &[]), 200),
        ("others let in", access(&["10.0.0.0/8"], &[]), 403),
        ("let in by the narrower", access(&["127.0.0.1/32"], &["127.0.0.0/8"]), 200),
        ("refused by the narrower", access(&["127.0.0.0/8"], &["127.0.0.1/32"]), 403),
        ("refused where both are as narrow", access(&["127.0.0.1/32"], &["127.0.0.1/32"]), 403),
    ];
    for (why, access, status) in rows {
        let on_site = |config: &mut Config| config.sites[0].access = access.clone();
        let on_mount = |config: &mut Config| config.sites[0].mounts[0].access = access.clone();
        let tree = [("a.txt", "a")];
        for server in [Server::with(&tree, on_site), Server::with(&tree, on_mount)] {
            check(&server, &[(why, "/a.txt", *status, &[], None)]);
        }
    }
}
