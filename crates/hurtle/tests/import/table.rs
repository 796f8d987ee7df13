//! Each directive of the importer's table, in each kind of location, is translated, named by a
//! remark, or refused with its line: none vanishes.

use hurtle::import::kind::{
    FilesKind, GuardKind, HandlerKind, Kind, PathKind, ResponseKind, StructureKind, UpstreamKind,
    WholeKind,
};
use hurtle::import::nginx;
use hurtle::import::syntax::parse;
use hurtle::import::tuning::TUNING;

/// Kinds of locations and servers: the inside of a server, with `FED` in place of the directive.
const PLACES: &[(&str, &str)] = &[
    ("the server", "root /srv; FED"),
    (
        "a server of applications",
        "proxy_set_header Host $host; location / { proxy_pass http://a; } FED",
    ),
    ("the location of /", "location / { root /srv; FED }"),
    ("a prefix", "root /srv; location /x/ { FED }"),
    ("a prefix without /", "root /srv; location /x { FED }"),
    ("a final prefix", "root /srv; location ^~ /x/ { FED }"),
    ("an alias", "root /srv; location /x/ { alias /y/; FED }"),
    ("a page", "root /srv; location = /x.html { FED }"),
    ("the page of /", "root /srv; location = / { FED }"),
    ("an error page", "root /srv; error_page 404 /x.html; location = /x.html { FED }"),
    (
        "a page beside scripts",
        "root /srv; location / { } location ~ \\.php$ { fastcgi_pass a:9; } location = /x.html { FED }",
    ),
    ("extensions", "root /srv; location ~* \\.(css|js)$ { FED }"),
    ("extensions without a root", "location ~* \\.(css|js)$ { FED }"),
    (
        "extensions beside a password",
        "root /srv; location ~ \\.css$ { FED } location /x/ { auth_basic s; auth_basic_user_file /ht; }",
    ),
    ("names with a dot", "root /srv; location ~ /\\.ht { deny all; FED }"),
    ("names with a dot, by return", "root /srv; location ~ /\\.ht { return 404; FED }"),
    ("scripts", "root /srv; location / { } location ~ \\.php$ { fastcgi_pass a:9; FED }"),
    (
        "files beside scripts",
        "root /srv; location / { FED } location ~ \\.php$ { fastcgi_pass a:9; }",
    ),
    ("another expression", "root /srv; location ~ ^/(a|b)/ { FED }"),
    ("a proxy", "location /x/ { proxy_pass http://a; proxy_set_header Host $host; FED }"),
    ("a proxy by TLS", "location / { proxy_pass https://a; proxy_set_header Host $host; FED }"),
    ("gRPC", "location /x/ { grpc_pass grpc://a; proxy_set_header Host $host; FED }"),
    (
        "an exact proxy",
        "location / { proxy_pass http://a; proxy_set_header Host $host; } location = /x { proxy_pass http://a; proxy_set_header Host $host; FED }",
    ),
    ("an application", "location /x/ { fastcgi_pass a:9; FED }"),
    ("an application behind uWSGI", "location /x/ { uwsgi_pass a:9; FED }"),
    ("a fixed answer", "root /srv; location /x/ { return 204; FED }"),
    ("a fixed answer of one path", "root /srv; location = /x { return 200 text; FED }"),
    ("a redirect", "root /srv; location /x/ { return 301 https://b.example/y; FED }"),
    ("a server that redirects", "return 301 https://b.example$request_uri; FED"),
    ("a closed location", "root /srv; location /x/ { deny all; FED }"),
    ("a closed page", "root /srv; location = /x.html { deny all; FED }"),
    ("rules only", "root /srv; location /x/ { rewrite ^/x/(.*)$ /y/$1 permanent; FED }"),
    ("a rule that stays", "root /srv; location /x/ { rewrite ^/x/(.*)$ /y/$1 break; FED }"),
    ("a rule of a part", "root /srv; location /x/ { rewrite ^/x/a$ /y; FED }"),
    (
        "a server that decides",
        "root /srv; location /x/ { auth_request /y; } location = /y { internal; proxy_pass http://b/; FED }",
    ),
    (
        "a redirect to HTTPS",
        "server_name a.example; return 301 https://$host$request_uri; FED }
      server { listen 443 ssl; server_name a.example; ssl_certificate /c; ssl_certificate_key /k;
      root /srv;",
    ),
    (
        "a location that redirects to HTTPS",
        "server_name a.example; location / { return 301 https://$host$request_uri; FED } }
      server { listen 443 ssl; server_name a.example; ssl_certificate /c; ssl_certificate_key /k;
      root /srv;",
    ),
    ("a named location", "root /srv; location / { try_files $uri @x; } location @x { FED }"),
    ("a nested location", "root /srv; location /x/ { location /x/y/ { FED } }"),
];

/// Places that are refused without a directive in them, too.
const REFUSED: &[&str] = &["extensions without a root", "another expression", "a nested location"];

#[test]
fn each_directive_is_translated_or_refused_everywhere() {
    let mut faults = Vec::new();
    for (place, server) in PLACES {
        let without = import(server, "");
        if let Err(problems) = &without
            && !REFUSED.contains(place)
        {
            faults.push(format!("{place}: {}", problems.join("\n")));
        }
        let own = Kind::ALL.iter().map(|&kind| sample(kind).to_owned());
        let tuning = TUNING.iter().map(|name| format!("{name} on;"));
        for fed in own.chain(tuning) {
            match (import(server, &fed), &without) {
                // It changes the configuration, or a comment in it names the difference.
                (Ok(with), Ok(without)) if with != *without => {}
                (Ok(_), Err(_)) => {}
                (Ok(_), Ok(_)) if is_repetition(server, &fed) => {}
                (Ok(_), Ok(_)) => faults.push(format!("{place}: {fed} vanishes")),
                (Err(problems), _) => {
                    let is_own = |line: &String| line.starts_with("nginx.conf:");
                    if !problems.iter().all(is_own) {
                        faults.push(format!("{place}: {fed} {}", problems.join("\n")));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// `true` for directives that the place has anyway.
fn is_repetition(server: &str, fed: &str) -> bool {
    let is_closed = server.contains("deny all") || server.contains("return 404");
    server.contains("internal;") && fed == "internal;" || is_closed && fed.contains("deny ")
}

/// A configuration of nginx, imported with a directive in it.
/// Regression: they were left out without a word.
#[test]
fn settings_that_change_no_response_but_with_some_arguments_are_named() {
    let table = [
        ("gzip_static on;", None),
        (
            "gzip_static always;",
            Some("# - nginx.conf:2: GET /a.css is 404 if there is a.css.gz only"),
        ),
        (
            "ignore_invalid_headers off;",
            Some("a field name that is no token (RFC 9110) is refused"),
        ),
    ];
    let plain = import("root /srv; FED", "").expect("it is imported");
    for (directive, expected) in table {
        let text = import("root /srv; FED", directive).expect(directive).replace("\n#   ", " ");
        let remarks = |text: &str| text.matches("# - nginx.conf").count();
        match expected {
            Some(expected) => assert!(text.contains(expected), "{directive}: {text}"),
            None => assert_eq!(remarks(&text), remarks(&plain), "{directive}: {text}"),
        }
    }
}

fn import(server: &str, fed: &str) -> Result<String, Vec<String>> {
    let zones = "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/s;
        proxy_cache_path /cache keys_zone=c:1m; limit_conn_zone $server_name zone=c:1m;";
    let auth = match fed.contains("/auth") {
        true => "location = /auth { internal; proxy_pass http://d/; }",
        false => "",
    };
    let server = server.replace("FED", fed);
    let text = format!("http {{ {zones} server {{ {server} {auth} }} }}");
    nginx(&parse(&text, "nginx.conf").expect(&text))
}

/// A use of a directive. Its value is none that the places or hurtle have anyway.
fn sample(kind: Kind) -> &'static str {
    match kind {
        Kind::Handler(kind) => handler(kind),
        Kind::Path(kind) => path(kind),
        Kind::Structure(kind) => structure(kind),
        Kind::Guard(kind) => guard(kind),
        Kind::Files(kind) => files(kind),
        Kind::Upstream(kind) => upstream(kind),
        Kind::Response(kind) => response(kind),
        Kind::Whole(kind) => whole(kind),
    }
}

fn handler(kind: HandlerKind) -> &'static str {
    match kind {
        HandlerKind::Alias => "alias /y/;",
        HandlerKind::TryFiles => "try_files $uri /x/a.html;",
        HandlerKind::Return => "return 410;",
        HandlerKind::ProxyPass => "proxy_pass http://b;",
        HandlerKind::GrpcPass => "grpc_pass grpc://b;",
        HandlerKind::FastcgiPass => "fastcgi_pass b:9;",
        HandlerKind::UwsgiPass => "uwsgi_pass b:9;",
        HandlerKind::StubStatus => "stub_status on;",
    }
}

fn path(kind: PathKind) -> &'static str {
    match kind {
        PathKind::Rewrite => "rewrite ^/x/b$ /c;",
        PathKind::Internal => "internal;",
        PathKind::Set => "set $a $b;",
        PathKind::If => "if ($a) { return 404; }",
    }
}

fn structure(kind: StructureKind) -> &'static str {
    match kind {
        StructureKind::Http => "http { }",
        StructureKind::Server => "server { }",
        StructureKind::Location => "location /x/z/ { }",
        StructureKind::Upstream => "upstream u { server a; }",
        StructureKind::Map => "map $a $b { }",
        StructureKind::Geo => "geo $g { default 0; }",
        StructureKind::ProxyCachePath => "proxy_cache_path /d keys_zone=d:1m;",
        StructureKind::Listen => "listen 8080;",
        StructureKind::ServerName => "server_name b.example;",
        StructureKind::Ssl => "ssl on;",
        StructureKind::SslCertificate => "ssl_certificate /c;",
        StructureKind::SslCertificateKey => "ssl_certificate_key /k;",
        StructureKind::SslClientCertificate => "ssl_client_certificate /a;",
        StructureKind::SslVerifyClient => "ssl_verify_client on;",
        StructureKind::SslCrl => "ssl_crl /r;",
        StructureKind::SslRejectHandshake => "ssl_reject_handshake on;",
        StructureKind::SetRealIpFrom => "set_real_ip_from 10.0.0.0/8;",
        StructureKind::RealIpHeader => "real_ip_header X-Forwarded-For;",
        StructureKind::RealIpRecursive => "real_ip_recursive on;",
        StructureKind::User => "user www;",
        StructureKind::WorkerProcesses => "worker_processes 2;",
        StructureKind::LimitReqZone => "limit_req_zone $uri zone=y:1m rate=1r/s;",
        StructureKind::LimitConnZone => "limit_conn_zone $server_name zone=c:1m;",
    }
}

fn guard(kind: GuardKind) -> &'static str {
    match kind {
        GuardKind::AuthBasic => "auth_basic s; auth_basic_user_file /ht;",
        GuardKind::AuthBasicUserFile => "auth_basic t; auth_basic_user_file /other;",
        GuardKind::Allow => "allow 192.0.2.1; deny all;",
        GuardKind::Deny => "deny 192.0.2.1;",
        GuardKind::Satisfy => {
            "satisfy any; allow 192.0.2.1; deny all; auth_basic s; auth_basic_user_file /ht;"
        }
        GuardKind::AuthRequest => "auth_request /auth;",
        GuardKind::AuthRequestSet => "auth_request_set $u $upstream_http_x_u;",
        GuardKind::LimitReq => "limit_req zone=z;",
    }
}

fn files(kind: FilesKind) -> &'static str {
    match kind {
        FilesKind::Root => "root /r;",
        FilesKind::Index => "index i.html;",
        FilesKind::Autoindex => "autoindex on;",
        FilesKind::DefaultType => "default_type text/css;",
        FilesKind::Types => "types { text/x a; }",
        FilesKind::DavMethods => "dav_methods PUT DELETE;",
        FilesKind::CreateFullPutPath => "create_full_put_path on;",
        FilesKind::MinDeleteDepth => "min_delete_depth 2;",
    }
}

fn upstream(kind: UpstreamKind) -> &'static str {
    match kind {
        UpstreamKind::ProxyNextUpstream => "proxy_next_upstream http_502;",
        UpstreamKind::ProxyInterceptErrors => "proxy_intercept_errors on;",
        UpstreamKind::FastcgiInterceptErrors => "fastcgi_intercept_errors on;",
        UpstreamKind::ProxyBuffering => "proxy_buffering off;",
        UpstreamKind::FastcgiBuffering => "fastcgi_buffering off;",
        UpstreamKind::ProxyRequestBuffering => "proxy_request_buffering off;",
        UpstreamKind::FastcgiRequestBuffering => "fastcgi_request_buffering off;",
        UpstreamKind::ProxyConnectTimeout => "proxy_connect_timeout 7s;",
        UpstreamKind::ProxySendTimeout => "proxy_send_timeout 7s;",
        UpstreamKind::ProxyReadTimeout => "proxy_read_timeout 7s;",
        UpstreamKind::ProxySetHeader => "proxy_set_header Host $proxy_host;",
        UpstreamKind::ProxyHideHeader => "proxy_hide_header X-B;",
        UpstreamKind::FastcgiHideHeader => "fastcgi_hide_header X-B;",
        UpstreamKind::ProxyCookieFlags => "proxy_cookie_flags ~ secure;",
        UpstreamKind::ProxyRedirect => "proxy_redirect off;",
        UpstreamKind::ProxyCache => "proxy_cache c;",
        UpstreamKind::ProxyCacheValid => "proxy_cache c; proxy_cache_valid 1h;",
        UpstreamKind::ProxyCacheUseStale => "proxy_cache c; proxy_cache_use_stale error;",
        UpstreamKind::ProxySslVerify => "proxy_ssl_verify on;",
        UpstreamKind::ProxySslTrustedCertificate => {
            "proxy_ssl_verify on; proxy_ssl_trusted_certificate /a;"
        }
        UpstreamKind::ProxySslCertificate => "proxy_ssl_certificate /c;",
        UpstreamKind::ProxySslCertificateKey => {
            "proxy_ssl_certificate /c; proxy_ssl_certificate_key /k;"
        }
        UpstreamKind::ProxySslName => "proxy_ssl_name n;",
        UpstreamKind::FastcgiConnectTimeout => "fastcgi_connect_timeout 7s;",
        UpstreamKind::FastcgiSendTimeout => "fastcgi_send_timeout 7s;",
        UpstreamKind::FastcgiReadTimeout => "fastcgi_read_timeout 7s;",
        UpstreamKind::FastcgiParam => "fastcgi_param A b;",
        UpstreamKind::UwsgiConnectTimeout => "uwsgi_connect_timeout 7s;",
        UpstreamKind::UwsgiSendTimeout => "uwsgi_send_timeout 7s;",
        UpstreamKind::UwsgiReadTimeout => "uwsgi_read_timeout 7s;",
        UpstreamKind::UwsgiBuffering => "uwsgi_buffering off;",
        UpstreamKind::UwsgiRequestBuffering => "uwsgi_request_buffering off;",
        UpstreamKind::UwsgiInterceptErrors => "uwsgi_intercept_errors on;",
        UpstreamKind::UwsgiParam => "uwsgi_param A b;",
        UpstreamKind::UwsgiHideHeader => "uwsgi_hide_header X-B;",
    }
}

fn response(kind: ResponseKind) -> &'static str {
    match kind {
        ResponseKind::AddHeader => "add_header X-A b;",
        ResponseKind::Expires => "expires 1h;",
        ResponseKind::ErrorPage => "error_page 410 /g;",
        ResponseKind::LimitRate => "limit_rate 1k;",
        ResponseKind::LimitConn => "limit_conn c 7;",
        ResponseKind::LimitConnStatus => "limit_conn_status 429;",
        ResponseKind::ClientMaxBodySize => "client_max_body_size 7m;",
        ResponseKind::SendTimeout => "send_timeout 7s;",
        ResponseKind::Gzip => "gzip off;",
        ResponseKind::Brotli => "brotli on;",
    }
}

fn whole(kind: WholeKind) -> &'static str {
    match kind {
        WholeKind::Charset => "charset utf-8;",
        WholeKind::MergeSlashes => "merge_slashes on;",
        WholeKind::IfModifiedSince => "if_modified_since exact;",
        WholeKind::ClientHeaderTimeout => "client_header_timeout 7s;",
        WholeKind::KeepaliveTime => "keepalive_time 7s;",
        WholeKind::KeepaliveTimeout => "keepalive_timeout 7s;",
        WholeKind::KeepaliveRequests => "keepalive_requests 7;",
        WholeKind::GzipTypes => "gzip_types text/a;",
        WholeKind::BrotliTypes => "brotli_types text/a;",
        WholeKind::GzipMinLength => "gzip_min_length 7;",
        WholeKind::BrotliMinLength => "brotli_min_length 7;",
        WholeKind::AccessLog => "access_log /l;",
        WholeKind::LogFormat => "log_format a b;",
        WholeKind::ErrorLog => "error_log /e;",
    }
}
