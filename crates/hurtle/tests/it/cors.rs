//! Tests of CORS and of the preset of security headers, on files, errors and preflights.

use std::time::Duration;

use hurtle::config::{Cors, CorsHeader, MountHandler, OriginPattern};

use crate::support::site::mount;
use crate::support::{Response, Server};

fn cors() -> Cors {
    let origins = vec![
        OriginPattern::Exact("https://a.example".into()),
        OriginPattern::Subdomains { scheme: "https://".into(), suffix: ".b.example".into() },
    ];
    Cors {
        methods: vec!["GET".into(), "PUT".into()],
        headers: vec![CorsHeader::Name(http::header::CONTENT_TYPE)],
        credentials: true,
        max_age: Duration::from_secs(60),
        expose: vec![http::HeaderName::from_static("x-total")],
        ..Cors::new(origins)
    }
}

/// The fields of CORS and Vary, sorted, one line each.
fn fields(response: &Response) -> String {
    let is_cors = |name: &str| name.starts_with("access-control-") || name == "vary";
    let line = |(name, value): &(String, String)| format!("{}: {value}", name.to_lowercase());
    let mut lines: Vec<String> = response.fields.iter().map(line).collect();
    lines.retain(|line| is_cors(line.split(':').next().unwrap()));
    lines.sort();
    lines.join("\n")
}

#[test]
fn responses_to_allowed_origins_have_the_fields_and_errors_too() {
    let server = Server::with(&[("a.txt", "hello")], |config| {
        config.sites[0].cors = Some(cors());
        // The server's fields replace those of a rule.
        config.sites[0].mounts.push(mount(
            "/fixed",
            MountHandler::Fixed {
                status: http::StatusCode::OK,
                body: "fixed".into(),
                content_type: http::HeaderValue::from_static("text/plain"),
            },
        ));
    });
    let allowed = |origin: &str| {
        format!(
            "access-control-allow-credentials: true\naccess-control-allow-origin: {origin}\n\
             access-control-expose-headers: x-total\nvary: Origin"
        )
    };
    let nothing = "vary: Origin".to_owned();
    let rows = [
        ("a file", "/a.txt", "\nOrigin: https://a.example", allowed("https://a.example")),
        ("a cached file", "/a.txt", "\nOrigin: https://a.example", allowed("https://a.example")),
        ("a subdomain", "/a.txt", "\nOrigin: https://x.b.example", allowed("https://x.b.example")),
        ("an error", "/none", "\nOrigin: https://a.example", allowed("https://a.example")),
        ("a fixed response", "/fixed", "\nOrigin: https://a.example", allowed("https://a.example")),
        ("another origin", "/a.txt", "\nOrigin: https://evil.example", nothing.clone()),
        ("null", "/a.txt", "\nOrigin: null", nothing.clone()),
        ("none", "/a.txt", "", nothing.clone()),
        ("two", "/a.txt", "\nOrigin: https://a.example\nOrigin: https://a.example", nothing),
    ];
    for (sentence, path, origin, want) in rows {
        let got = server.get(&format!("{path}{origin}"));
        assert_eq!(fields(&got), want, "{sentence}: {got:?}");
    }
    let not_modified = server.get("/a.txt\nOrigin: https://a.example\nIf-None-Match: *");
    assert_eq!(not_modified.status, 304);
    assert_eq!(fields(&not_modified), allowed("https://a.example"));
}

#[test]
fn preflights_are_answered_by_the_server() {
    let server = Server::with(&[("a.txt", "hello")], |config| {
        config.sites[0].cors = Some(cors());
        let mut open = mount("/open", config.sites[0].mounts[0].handler.clone());
        open.cors =
            Some(Cors { headers: vec![CorsHeader::Any], ..Cors::new(vec![OriginPattern::Any]) });
        config.sites[0].mounts.push(open);
    });
    let preflight = |path: &str, fields: &str| {
        server.request("OPTIONS", &format!("{path}\nAccess-Control-Request-Method: PUT\n{fields}"))
    };
    let answer = preflight("/none", "Origin: https://a.example");
    assert_eq!(answer.status, 204);
    assert_eq!(
        fields(&answer),
        "access-control-allow-credentials: true\naccess-control-allow-headers: content-type\n\
         access-control-allow-methods: GET, PUT\naccess-control-allow-origin: https://a.example\n\
         access-control-expose-headers: x-total\naccess-control-max-age: 60\n\
         vary: Access-Control-Request-Method, Access-Control-Request-Headers\nvary: Origin"
    );
    let refused = preflight("/a.txt", "Origin: https://evil.example");
    assert_eq!(refused.status, 204);
    assert_eq!(
        fields(&refused),
        "vary: Access-Control-Request-Method, Access-Control-Request-Headers\nvary: Origin"
    );
    let open = preflight("/open/a", "Origin: null\nAccess-Control-Request-Headers: x-a,x-b");
    assert_eq!(
        fields(&open),
        "access-control-allow-headers: x-a,x-b\naccess-control-allow-methods: GET, HEAD, POST\n\
         access-control-allow-origin: *\naccess-control-max-age: 600\n\
         vary: Access-Control-Request-Method, Access-Control-Request-Headers"
    );
    // An OPTIONS of another kind is the handler's.
    let plain = server.request("OPTIONS", "/a.txt\nOrigin: https://a.example");
    assert_eq!(plain.field("Allow"), Some("GET, HEAD, OPTIONS"));
}

#[test]
fn the_security_preset_is_on_every_response_but_overrides_nothing() {
    let server = Server::with(&[("a.txt", "hello")], |config| {
        config.sites[0].security_headers = true;
        config.sites[0].headers.push(hurtle::config::HeaderRule {
            matcher: hurtle::config::Matcher::of_pattern("*.txt"),
            set: vec![(http::header::X_FRAME_OPTIONS, http::HeaderValue::from_static("DENY"))],
            remove: Vec::new(),
            always: false,
            types: Vec::new(),
            if_absent: false,
            cookie_flags: Vec::new(),
        });
    });
    let preset = |frame_options| {
        [
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "strict-origin-when-cross-origin"),
            ("X-Frame-Options", frame_options),
            ("Cross-Origin-Opener-Policy", "same-origin"),
        ]
    };
    for (path, status, frame_options) in
        [("/a.txt", 200, "DENY"), ("/a.txt", 200, "DENY"), ("/none", 404, "SAMEORIGIN")]
    {
        let got = server.get(path);
        assert_eq!(got.status, status);
        for (name, value) in preset(frame_options) {
            let is = |(other, _): &&(String, String)| other.eq_ignore_ascii_case(name);
            let values: Vec<_> = got.fields.iter().filter(is).map(|(_, value)| &**value).collect();
            assert_eq!(values, [value], "{path} {name}");
        }
    }
}
