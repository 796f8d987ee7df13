//! The schema of a mount, its archives and its uploads.

use super::archive::ARCHIVE;
use super::auth::{FORWARD_KEYS, SPACE};
use super::balance::Balance;
use super::balance::EJECTION;
use super::bounds::{BYTES_MAX, CONCURRENCY_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::buffering::BUFFER;
use super::check_matcher::MATCH;
use super::client_timeouts::CLIENT_TIMEOUTS;
use super::cors::MOUNT_CORS;
use super::dictionary::DICTIONARY;
use super::error_page::MOUNT_ERRORS;
use super::files::FILES_KEYS;
use super::gateway::{FASTCGI_KEYS, GATEWAY_CALL, PROGRAM_LIMITS};
use super::health_check::HEALTH_KEYS;
use super::jwt::TOKEN_KEYS;
use super::names::names;
use super::objects::OBJECT_STORE;
use super::request_fields::REQUEST_FIELDS;
use super::response_cache::CACHE;
use super::schema::DefaultValue::{Toml, Words};
use super::schema::Kind::{
    Choice, Flag, Integer, List, Size, Table, Tables, Text, Time, TrueOrInteger,
};
use super::schema::{HEADER, Key, Section};
use super::schema_access::{FORWARD, FORWARD_TLS, JWKS, USERS, auth_key};
use super::schema_rates::MOUNT_RATE_LIMIT;
use super::schema_tls::{MOUNT_CLIENT_AUTH, UPSTREAM_TLS};
use super::send_proxy::ProxyProtocolVersion;
use super::uploads::UPLOADS;
use super::upstream::PROXY_KEYS;
use super::upstream_queue::UPSTREAM_QUEUE;
use super::upstream_timeouts::{CONNECTING, UPSTREAM_TIMEOUTS};
use super::uwsgi::UWSGI;
use super::wasm::WASM;

/// The key of health checks.
pub(super) const HEALTH: &[&str] = &["health"];

/// The key that limits requests at once.
const CONCURRENCY: &[&str] = &["concurrency"];

/// The handler key of files.
pub(super) const FILES: &[&str] = &["files"];

/// The handler key of a proxy.
pub(super) const PROXY: &[&str] = &["proxy"];

/// The handler key of a FastCGI application.
pub(super) const FASTCGI: &[&str] = &["fastcgi"];
const FILES_OR_FASTCGI: &[&str] = &["files", "fastcgi"];

/// The handler key of CGI programs.
pub(super) const CGI: &[&str] = &["cgi"];

/// The handler keys that connect to an upstream.
pub(super) const CONNECTED: &[&str] = &["proxy", "fastcgi", "uwsgi"];
/// The handler keys that pass the fields of requests on.
const CALLED: &[&str] = &["proxy", "fastcgi", "uwsgi", "cgi"];
/// The handler keys whose response comes from another process, or from a component.
pub(super) const EXTERNAL: &[&str] = &["proxy", "fastcgi", "uwsgi", "cgi", "wasm"];

#[rustfmt::skip] // One paragraph for each key.
pub(super) static MOUNT: Section = Section {
    header: "[[site.mount]]",
    doc: "The handler of a path and everything beneath it: exactly one of `files`, `proxy`, \
          `fastcgi`, `uwsgi`, `cgi`, `wasm`, `redirect`, `respond`, `abort = true` and `status = true`.",
    keys: &[&[
        Key::new("path", Text("an absolute path"), Toml("\"/\""), "\"/docs\"",
            "Path of the mount. The longest matching path wins; see [routing.md](routing.md)."),
        Key::new("name", Text("a name"), Words("none"), "\"app\"",
            "Name of a mount without a path: it handles the requests that mounts of files hand on to it, see \
             `otherwise`. Metrics and logs call it `@NAME`."),
        Key::new("exact", Flag, Toml("false"), "true",
            "Handle this path only, and none beneath it; such a mount goes before all others. Its `files` \
             and `root` are the directory of the last name in `path`."),
        Key::new("match", Table(&MATCH), Words("every request"), "\"*.php\"",
            "Handle only requests that meet these conditions: a pattern of paths, such as `\"*.php\"`, or a \
             table, see `[site.mount.match]`. Such mounts go before those without, in the order written."),
        Key::new("final", Flag, Toml("false"), "true",
            "Where this is the longest matching path, mounts with `match` are not tried (nginx's `^~`)."),
        Key::new("allow", List("networks"), Words("all"), "\"10.0.0.0/8\"",
            "Client addresses admitted, in addition to the site's rule."),
        Key::new("deny", List("networks"), Words("none"), "\"10.6.6.0/24\"",
            "Client addresses refused, in addition to the site's rule."),
        Key::new("rate_limit", Tables(&MOUNT_RATE_LIMIT), Words("the site's only"), "[]",
            "Limits on the rate of requests (429), in addition to the site's."),
        Key::new("cors", Table(&MOUNT_CORS), Words("the site's"), "{ origins = \"*\" }",
            "Access by scripts of other origins, in place of the site's."),
        Key::new("header", Tables(&HEADER), Words("the site's only"), "[]",
            "Header rules for the mount's responses, in addition to the site's."),
        Key::new("concurrency", Integer(1, CONCURRENCY_MAX), Words("unlimited"), "100",
            "Requests handled at once, over all workers; a request counts until its response is \
             sent. More wait in a queue, or get 503; see [limits.md](limits.md)."),
        Key::new("queue", Integer(0, CONCURRENCY_MAX), Toml("0"), "50",
            "Requests that may wait for one of `concurrency`, first come, first served.")
            .with(CONCURRENCY),
        Key::new("queue_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"5s\""), "\"30s\"",
            "Longest wait in the queue (503).").with(CONCURRENCY),
        auth_key(Words("the site's")),
    ], USERS, SPACE, &[MOUNT_CLIENT_AUTH], FORWARD, FORWARD_KEYS, FORWARD_TLS, JWKS, TOKEN_KEYS, &[
        Key::new("body_bytes", Size(0, BYTES_MAX), Words("the site's"), "\"1 MiB\"",
            "Size of a request body to any handler, proxies and programs included (413). A body without a \
             length is cut there; its upstream sees an incomplete request."),
    ], CLIENT_TIMEOUTS, &[
        Key::new("access_log", Flag, Words("the site's"), "false",
            "Log these requests in the access log, if there is one."),
        Key::new("errors", Table(&MOUNT_ERRORS), Words("the site's"), "{}",
            "Error pages of the mount; statuses without one have that of the site."),
        Key::new("intercept_errors", Flag, Toml("false"), "true",
            "Replace errors of the upstream or application by error pages, too, not only this server's own \
             (nginx's `proxy_intercept_errors`).").with(EXTERNAL),
        Key::new("compress", Flag, Words("the site's; else true for `files` without `uploads` and false for all others"), "true",
            "Compress responses; see [compression.md](compression.md). Responses that depend on \
             secrets and on what an attacker sends should not be compressed (BREACH)."),
        Key::new("files", Text("a directory"), Words("see `proxy`, `redirect`, `respond`"),
            "\"public\"",
            "Serve this directory. It may be a symbolic link whose target changes. Or serve the objects \
             of a store: `\"s3://bucket/prefix\"`, `\"gs://...\"` or `\"az://...\"`, see \
             `object_store`."),
        Key::new("object_store", Table(&OBJECT_STORE), Words("required with such `files`"),
            "{ cache_dir = \"/var/cache/hurtle\" }",
            "The store of `files = \"s3://...\"`, and its cache.").with(FILES),
        Key::new("index", List("file names"), Toml("[\"index.html\"]"),
            "[\"index.html\", \"index.htm\"]",
            "File names tried, in order, for a request of a directory; `[]`: none. With `fastcgi` \
             the default is `[\"index.php\"]`, and the first script among them handles every path \
             without a file.").with(FILES_OR_FASTCGI),
    ], FILES_KEYS, &[
        Key::new("otherwise", Text("the name of a mount"), Words("404"), "\"app\"",
            "Hand requests for which there is no file on to the mount with this `name`, whatever their method \
             and with their body (nginx's `try_files $uri @app`). With `index = []` a directory is no file. The \
             gates of both mounts apply; see [files.md](files.md#files-and-an-application).").with(FILES),
        Key::new("archive", Table(&ARCHIVE), Words("off"), "{}",
            "Offer a listed directory as a zip or tar file; the table may be empty (`archive = \
             {}`). Requires `listing = true`.").with(FILES),
        Key::new("dictionary", Tables(&DICTIONARY), Words("none"), "[]",
            "Versioned files whose former versions are compression dictionaries for later ones (RFC \
             9842); see [compression.md](compression.md#dictionaries).").with(FILES),
        Key::new("symlinks", List("directories, or \"within-root\", \"never\" or \"anywhere\""),
            Toml("\"within-root\""), "[\"/usr/share/javascript\"]",
            "Symbolic links to follow: those that stay beneath the directory, none, or all. A list: \
             those that stay beneath it or lead into one of these directories. The path of another \
             link is not found (404), and the log says where it leads.").with(FILES_OR_FASTCGI),
        Key::new("uploads", Table(&UPLOADS), Words("off"), "{}",
            "Allow clients to upload and delete files; the table may be empty (`uploads = {}`). \
             Requires `auth` here or in the site.").with(FILES),
        Key::new("proxy", List("upstreams"), Words("see `files`, `redirect`, `respond`"),
            "[\"http://127.0.0.1:9000\", \"unix:/run/app.sock\"]",
            "Forward requests to these servers: by HTTP/1.1 with `http://` or `https://` and a host \
             with its port, or `unix:` and the path of a socket; a path behind them takes the place of the \
             mount's; by HTTP/2, as gRPC needs it, with \
             `h2c://` in clear, `h2://` over TLS, or `unix+h2c:`. A table in place of a URL gives it a \
             weight, a limit of requests at once, or makes it a backup, see `[[site.mount.proxy]]`."),
        Key::new("balance", Choice(names::<Balance>), Toml("\"round-robin\""),
            "\"least-connections\"",
            "Load balancing: each upstream in turn, the one with the fewest requests in flight \
             (from this worker), by a hash of the client's address, of the path or of a header \
             field, or the one that a cookie names.")
            .with(PROXY),
        Key::new("hash_header", Text("a field name"), Words("see `balance`"), "\"X-Tenant\"",
            "Field that `balance = \"hash-header\"` hashes. Requests without it go to each upstream \
             in turn.").with(PROXY),
        Key::new("cookie", Text("a cookie's name"), Words("see `balance`; hurtle_upstream"),
            "\"server\"",
            "Cookie of `balance = \"cookie\"`. Its value names the upstream of the client's first \
             request without disclosing its address.").with(PROXY),
        Key::new("cookie_secret", Text("16 characters or more"),
            Words("see `balance`; random, so that a restart distributes clients anew"),
            "\"f06b6ec2d8b04ee8ad9ef8e6f4f41dd5\"",
            "Key of the cookie's values: equal on servers that share their upstreams.").with(PROXY),
        Key::new("slow_start", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Words("off"), "\"30s\"",
            "Time in which the share of an upstream that is available again grows from a tenth to \
             the whole.").with(PROXY),
        Key::new("ejection", Table(&EJECTION), Words("three failures eject for 10 seconds"),
            "{ failures = 10 }", "Ejection of upstreams that fail.").with(PROXY),
    ], UPSTREAM_QUEUE, PROXY_KEYS, BUFFER, CONNECTING, UPSTREAM_TIMEOUTS, &[
        Key::new("health", Text("an absolute path"), Words("off"), "\"/healthz\"",
            "Path of health checks. An upstream that fails `health_fails` in a row \
             gets no requests until it passes `health_passes` (503 where no other is left).").with(PROXY),
    ], HEALTH_KEYS, &[
        Key::new("send_proxy_protocol", Choice(names::<ProxyProtocolVersion>), Words("none"), "\"v2\"",
            "Version of the PROXY protocol's header, with the client's address, at the beginning of each \
             connection to the upstreams, before TLS. Each request then has a connection of its own.").with(PROXY),
        Key::new("strip_prefix", Flag, Toml("false"), "true",
            "Take the path of the mount off: the upstream gets `/x` for `/api/x`. With `uwsgi` that path is \
             `SCRIPT_NAME` then, and the rest `PATH_INFO`.").with(&["proxy", "uwsgi"]),
        Key::new("request_fields", Table(&REQUEST_FIELDS), Words("as the client sent them"),
            "{ set = { X-Forwarded-Port = \"{server.port}\" } }",
            "Fields of requests that the upstream gets, or does not get. See \
             [proxy.md](proxy.md#request-fields).").with(CALLED),
        Key::new("fastcgi", List("addresses"), Words("see `files`, `proxy`, `cgi`"),
            "\"unix:/run/php/php-fpm.sock\"",
            "Forward requests to this FastCGI application, such as PHP-FPM: a host with its port, \
             or `unix:` and the path of a socket. Several get requests in turn; see [fastcgi.md](fastcgi.md)."),
    ], FASTCGI_KEYS, &[
        UWSGI,
        Key::new("cgi", Text("a directory"), Words("see `files`, `proxy`, `fastcgi`"),
            "\"/usr/lib/cgi-bin\"",
            "Run the executable file in this directory that the path names, once for each request \
             (CGI/1.1); see [fastcgi.md](fastcgi.md)."),
    ], PROGRAM_LIMITS, GATEWAY_CALL, &[
        Key::new("wasm", Table(&WASM), Words("see `files`, `proxy`, `fastcgi`"), "\"app.wasm\"",
            "Run this WebAssembly component: its file, or a table with its grants and \
             limits."),
        Key::new("authorizer", Text("an address"), Words("none"), "\"127.0.0.1:9001\"",
            "FastCGI application that authorizes each request (authorizer role). If its status is \
             not 200, its response is sent to the client."),
        Key::new("upstream_tls", Table(&UPSTREAM_TLS), Words("verified by the system's authorities"),
            "{ ca = \"ca.pem\" }",
            "TLS settings of `https://` upstreams.").with(PROXY),
        Key::new("cache", Table(&CACHE), Words("off"), "{}",
            "Cache upstream responses as RFC 9111 allows; the table may be empty (`cache = \
             {}`).").with(PROXY),
        Key::new("redirect", Text("a URL or an absolute path"),
            Words("see `files`, `proxy`, `respond`"),
            "\"https://example.org/\"",
            "Redirect every request of the mount. If the value ends with `/`, the rest of the path \
             and the query are appended. `{scheme}`, `{host}`, `{request.host}` (with the port) and `{uri}` (the path \
             and the query as sent) are parts of the request. With `name` and `match` it has the parts of the \
             path as in a rule, such as `{1}`."),
        Key::new("respond", Text("a string"), Words("see `files`, `proxy`, `redirect`"), "\"ok\"",
            "Send this body to every request."),
        Key::new("abort", Flag, Words("see `respond`"), "true",
            "`true` as the mount's handler: close the connection, or reset the stream, without a response \
             (nginx's `return 444`)."),
        Key::new("status", TrueOrInteger(200, 599), Words("302 with redirect, 200 with respond"),
            "301",
            "`true` as the mount's handler: a page with the figures of the running server; see \
             [monitoring.md](monitoring.md#status-page). With `redirect` or `respond`: status of \
             the response; 301, 302, 303, 307 or 308 for `redirect`.")
            .with(&["redirect", "respond"]),
        Key::new("content_type", Text("a media type"), Toml("\"text/plain; charset=utf-8\""),
            "\"application/json\"", "Content-Type of the response; without a body the default is none.").with(&["respond"]),
    ]],
};
