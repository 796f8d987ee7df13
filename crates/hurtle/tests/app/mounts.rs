//! Tests of the paths at which applications are mounted, and of the paths they receive.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hurtle::config::{AccessLog, HeaderRule, LogTarget, Matcher, Rule, RuleAction, Site};
use hurtle::{Arrival, Config, RequestBody, Server};

use crate::support::{App, Folder};

/// Responds with the site, the mount, both paths of the request and the client.
async fn describe(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let arrival = request.extensions().get::<Arrival>().unwrap();
    let client = arrival.client.unwrap();
    let (site, mount, original) = (arrival.site(), arrival.mount(), &arrival.original);
    let text = format!("{site} {mount} {} {original} {client}", request.uri());
    Ok(Response::new(text.into()))
}

#[test]
fn paths_begin_at_the_mount() {
    let app = App::mounted(
        |_| (),
        |server| {
            let server = server.mount("*", "/api", tower::service_fn(describe)).unwrap();
            let server = server.mount("*", "/api/v2/", tower::service_fn(describe)).unwrap();
            server.mount("*.example.org", "/", tower::service_fn(describe)).unwrap()
        },
    );
    let rows = [
        ("beneath it", "/api/a/b?q=1", "* /api /a/b?q=1 /api/a/b?q=1 127.0.0.1"),
        ("the mount itself", "/api", "* /api / /api 127.0.0.1"),
        ("the longest", "/api/v2/x", "* /api/v2 /x /api/v2/x 127.0.0.1"),
        ("escapes stay", "/api/a%20b?%41", "* /api /a%20b?%41 /api/a%20b?%41 127.0.0.1"),
        ("an escaped mount is the mount", "/%61pi/x", "* /api /x /%61pi/x 127.0.0.1"),
        ("dots lead where they lead", "/x/../api/./y", "* /api /y /x/../api/./y 127.0.0.1"),
        ("another site", "http://b.example.org/z?", "*.example.org / /z? /z? 127.0.0.1"),
    ];
    for (what, target, want) in rows {
        let (_, body) = app.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(body, want, "{what}");
    }
    let (head, _) = app.ask("GET /apix HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404"), "beside it: {head}");
    let (head, _) = app.ask("POST /other HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404"), "nobody has it: {head}");
}

#[test]
fn an_encoded_slash_reaches_an_application_that_both_readings_select() {
    let app = App::mounted(
        |config| {
            let mut site = Site { default: true, ..Site::new() };
            let matcher = Matcher::of_pattern("/app/old/**");
            site.rules
                .push(Rule { matcher, action: RuleAction::Rewrite("/app/new".to_owned(), None) });
            config.sites.push(site);
        },
        |server| {
            let server = server.mount("*", "/app", tower::service_fn(describe)).unwrap();
            let server = server.mount_isolated("*", "/own", tower::service_fn(describe)).unwrap();
            server.mount("*", "/app/other", tower::service_fn(describe)).unwrap()
        },
    );
    let rows = [
        ("a part of a name", "/app/a%2Fb?%2F", "* /app /a%2Fb?%2F /app/a%2Fb?%2F"),
        ("in small letters", "/app/a%2fb", "* /app /a%2Fb /app/a%2fb"),
        ("a URL", "/app/http:%2F%2Fa", "* /app /http:%2F%2Fa /app/http:%2F%2Fa"),
        ("on threads of its own", "/own/a%2Fb", "* /own /a%2Fb /own/a%2Fb"),
        ("up, but not out", "/app/a%2F..%2Fb", "* /app /a%2F..%2Fb /app/a%2F..%2Fb"),
    ];
    for (what, target, want) in rows {
        for method in ["GET", "POST"] {
            let (_, body) = app.ask(&format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(body, format!("{want} 127.0.0.1"), "{what}");
        }
    }
    let refused = [
        ("another application if decoded", "/app/other%2Fa"),
        ("this one in one reading only", "/app%2Fa"),
        ("out of it", "/app/..%2Fx"),
        ("into another", "/app/x%2F..%2F..%2Fown"),
        ("above the root", "/app/..%2F..%2F..%2Fx"),
        ("what a rule would change if it were decoded", "/app/old%2Fx"),
    ];
    for (what, target) in refused {
        let (head, _) = app.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(head.starts_with("HTTP/1.1 404 "), "{what}: {head}");
    }
}

#[test]
fn a_sites_rules_apply_to_its_applications() {
    let app = App::mounted(
        |config| {
            let mut site = Site { default: true, ..Site::new() };
            let matcher = Matcher::of_pattern("/old/**");
            let action =
                RuleAction::Redirect(StatusCode::PERMANENT_REDIRECT, "/new/{1}".to_owned());
            site.rules.push(Rule { matcher, action });
            let matcher = Matcher::of_pattern("/wiki/*");
            let query = Some("title={1}&{query}".to_owned());
            let action = RuleAction::Rewrite("/app/page".to_owned(), query);
            site.rules.push(Rule { matcher, action });
            let set = vec![(header::VIA, HeaderValue::from_static("here"))];
            let matcher = Matcher::of_pattern("/app/**");
            site.headers.push(HeaderRule::setting(matcher, set));
            config.sites.push(site);
        },
        |server| server.mount("*", "/app", tower::service_fn(describe)).unwrap(),
    );
    let (_, body) = app.ask("GET /wiki/A%20b?c=d HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(body, "* /app /page?title=A%20b&c=d /wiki/A%20b?c=d 127.0.0.1", "a query of a rule");
    let (head, _) = app.ask("POST /old/x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 308") && head.contains("Location: /new/x\n"), "{head}");
    let (head, _) = app.ask("POST /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.contains("Via: here\n"), "{head}");
}

/// The log of the configuration was written by the command alone.
#[test]
fn requests_to_an_embedded_server_are_in_its_access_log() {
    let folder = Folder::new();
    let file = folder.root().join("access.log");
    let to = LogTarget::File(file.clone());
    let app = App::mounted(
        |config| config.access_log = Some(AccessLog { to, ..AccessLog::default() }),
        |server| server.mount("*", "/app", tower::service_fn(describe)).unwrap(),
    );
    app.ask("GET /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
    // The lines are written at the latest when the server ends.
    drop(app);
    let lines = std::fs::read_to_string(file).unwrap();
    assert!(lines.contains("\"GET /app/x HTTP/1.1\" 200 "), "{lines}");
}

#[test]
fn impossible_mounts_are_refused() {
    let rows = [
        ("*", "api", "\"api\" does not begin with /"),
        ("a:80", "/", "\"a:80\" has a port"),
        ("*", "/taken", "\"/taken\" is taken by another application"),
    ];
    for (host, path, want) in rows {
        let mut config = Config::new(vec![]);
        config.listen.clear();
        let server = Server::bind(config).unwrap();
        let server = server.mount("*", "/taken", tower::service_fn(describe)).unwrap();
        let error = server.mount(host, path, tower::service_fn(describe)).unwrap_err();
        assert!(error.to_string().starts_with(want), "{error}");
    }
}
