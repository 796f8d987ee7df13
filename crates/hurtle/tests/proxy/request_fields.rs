//! Fields that the operator sets, adds and removes on requests to upstreams.

use std::path::Path;

use hurtle::config::check;

use crate::support::{OK, Proxy, Upstream};

/// The head that an upstream gets, without the first line and in lower case of names.
fn received(keys: &str, top: &str, request: &str) -> Vec<String> {
    let upstream = Upstream::new();
    let proxy = Proxy::of(
        top,
        &format!("proxy = \"http://{}\"\n[site.mount.request_fields]\n{keys}", upstream.address),
    );
    let port = proxy.address.port().to_string();
    let mut client = proxy.send(request);
    let (mut peer, head) = upstream.next_request();
    peer.send(OK);
    assert!(client.head().starts_with("HTTP/1.1 200 "), "{head}");
    let line = |line: &str| match line.split_once(": ") {
        Some((name, value)) => format!("{}: {}", name.to_lowercase(), value.replace(&port, "PORT")),
        None => line.to_owned(),
    };
    head.lines().skip(1).map(line).collect()
}

#[test]
fn fields_are_set_added_and_removed() {
    let get =
        |fields: &str| format!("GET /a%20b?q=1 HTTP/1.1\r\nHost: a.example:81\r\n{fields}\r\n");
    // The keys, the client's fields, and lines that the upstream gets or does not get.
    let rows: &[(&str, &str, &str, &[&str], &[&str])] = &[
        ("a constant", "set = { X-A = \"1\" }", "", &["x-a: 1"], &[]),
        (
            "in place of the client's, in each spelling",
            "set = { X-Real-User = \"{client}\" }",
            "X-Real-User: evil\r\nx_real_user: evil\r\nX-Real_User: evil\r\n",
            &["x-real-user: 127.0.0.1"],
            &["x-real-user: evil", "x_real_user: evil", "x-real_user: evil"],
        ),
        (
            "what is empty is not sent, and the client's is removed all the same",
            "set = { X-User = \"{request.X-Gone}\" }",
            "X-User: evil\r\n",
            &[],
            &["x-user: evil", "x-user: "],
        ),
        (
            "every variable",
            "set = { X-All = \"{scheme} {host} {path} {query} {server.port} {request.x-id} {{x}\" }",
            "X-Id: 7\r\nX-Id: 8\r\n",
            &["x-all: http a.example /a%20b q=1 PORT 7, 8 {x}", "x-id: 7"],
            &[],
        ),
        (
            "Host, while the client's own stays known",
            "set = { Host = \"app.internal\" }",
            "",
            &["host: app.internal", "x-forwarded-host: a.example:81"],
            &["host: a.example:81"],
        ),
        (
            "a field that hurtle adds",
            "set = { X-Forwarded-Proto = \"https\" }\nremove = [\"Via\", \"Forwarded\"]",
            "",
            &["x-forwarded-proto: https", "x-real-ip: 127.0.0.1"],
            &["x-forwarded-proto: http", "via: 1.1 hurtle"],
        ),
        (
            "beside the client's",
            "add = { X-Tag = \"ours\" }",
            "X-Tag: theirs\r\n",
            &["x-tag: ours", "x-tag: theirs"],
            &[],
        ),
        (
            "removed",
            "remove = [\"Cookie\", \"Accept-Encoding\"]",
            "Cookie: a=b\r\nAccept-Encoding: gzip\r\nX-Other: 1\r\n",
            &["x-other: 1"],
            &["cookie: a=b", "accept-encoding: gzip"],
        ),
    ];
    for (sentence, keys, fields, wanted, unwanted) in rows {
        for top in ["", "trusted_proxies = \"127.0.0.0/8\"\n"] {
            let lines = received(keys, top, &get(fields));
            let has = |line: &&&str| lines.iter().any(|other| other == *line);
            let lacking: Vec<_> = wanted.iter().filter(|line| !has(line)).collect();
            let surplus: Vec<_> = unwanted.iter().filter(has).collect();
            assert!(
                lacking.is_empty() && surplus.is_empty(),
                "{sentence}: {lacking:?} {surplus:?} {lines:#?}"
            );
        }
    }
}

#[test]
fn a_trusted_proxys_reports_are_continued_beside_a_field_that_is_set() {
    let lines = received(
        "set = { X-Forwarded-For = \"{client}\", X-Forwarded-Port = \"443\" }",
        "trusted_proxies = \"127.0.0.0/8\"\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Port: 80\r\n\
         X-Forwarded-Proto: https\r\n\r\n",
    );
    let named = |name: &str| lines.iter().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
    assert_eq!(named("x-forwarded-for: "), ["x-forwarded-for: 192.0.2.7"]);
    assert_eq!(named("x-forwarded-port: "), ["x-forwarded-port: 443"]);
    assert_eq!(named("x-forwarded-proto: "), ["x-forwarded-proto: https"]);
    let forwarded = "forwarded: for=192.0.2.7;host=\"a\";proto=https, for=127.0.0.1";
    assert_eq!(named("forwarded: "), [forwarded]);
}

#[test]
fn trailers_have_no_field_that_is_set_or_removed() {
    let upstream = Upstream::new();
    let keys = "[site.mount.request_fields]\nset = { X-User = \"anna\" }\nremove = [\"X-Secret\"]";
    let proxy = Proxy::of("", &format!("proxy = \"http://{}\"\n{keys}", upstream.address));
    let mut client = proxy.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\
         X-User: evil\r\nX_User: evil\r\nX-Secret: evil\r\nX-Sum: 5\r\n\r\n",
    );
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.take(13), b"5\r\nhello\r\n0\r\n");
    let mut trailers = vec![peer.line()];
    while trailers.last().is_some_and(|line| !line.is_empty()) {
        trailers.push(peer.line());
    }
    let trailers: Vec<String> = trailers.iter().map(|line| line.to_lowercase()).collect();
    assert_eq!(trailers, ["x-sum: 5", ""]);
    peer.send(OK);
    client.head();
}

#[test]
fn an_upstream_over_http2_gets_the_same_fields() {
    let upstream = Upstream::new();
    let keys = "[site.mount.request_fields]\nset = { Host = \"b\", X-A = \"{host}\" }";
    let behind = Proxy::with(&[upstream.address], "");
    let proxy = Proxy::of("", &format!("proxy = \"h2c://{}\"\n{keys}", behind.address));
    let mut client = proxy.send("GET / HTTP/1.1\r\nHost: a\r\nX-A: evil\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    peer.send(OK);
    assert!(client.head().starts_with("HTTP/1.1 200 "), "{head}");
    let head = head.to_lowercase();
    assert!(head.contains("\nhost: b\n") && head.contains("\nx-a: a\n"), "{head}");
    assert!(!head.contains("evil"), "{head}");
}

#[test]
fn stored_responses_depend_on_the_target_alone() {
    let file = Path::new("/nowhere/hurtle.toml");
    let cached = |keys: &str| {
        let mount = "[[site]]\n[[site.mount]]\nproxy = \"http://a\"\ncache = {}\n";
        check(&format!("{mount}[site.mount.request_fields]\n{keys}"), file)
    };
    assert!(cached("set = { X-A = \"{scheme} {host} {path} {query}\" }").is_ok());
    for variable in [
        "{client}",
        "{request.Cookie}",
        "{server.port}",
        "{tls.client.certificate}",
        "{tls.client.subject}",
    ] {
        let problems = cached(&format!("add = {{ X-A = \"{variable}\" }}")).unwrap_err();
        let said = problems[0].to_string();
        assert!(said.contains("differs between requests that share a stored response"), "{said}");
    }
}
