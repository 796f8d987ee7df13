//! The checked configuration: every value in range, every path absolute, every name normalized.
//! Only `check` and `defaults` build these types from TOML and flags.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue, StatusCode};
use ipnet::IpNet;
use serde::Serialize;

use super::auth::Auth;
pub use super::config::Config;
use super::cookie_flag::CookieFlag;
use super::cors::Cors;
use super::defaults::HEADER_PATTERN;
use super::error_page::{self, ErrorPages};
use super::field::field_name;
use super::files::Files;
use super::gateway::{Cgi, FastCgi};
pub use super::host::HostName;
pub use super::limits::Limits;
pub use super::log::{AccessLog, ErrorLog, LogFormat, LogLevel, LogTarget};
pub use super::log_field::LogField;
use super::matcher::{self, Matcher};
use super::print;
use super::rate_limit::{MountLimits, SiteLimits};
use super::request_policy::RequestPolicy;
use super::schema::Kind::{Flag, List};
use super::settings::{ALWAYS, settings};
use super::tls::{MountClientAuth, Tls};
use super::upstream::{Proxy, Upstream};
use super::uwsgi::Uwsgi;
use super::wasm::Wasm;

/// One address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An IP address and a TCP port.
    Tcp(SocketAddr),
    /// A unix stream socket; an existing socket file is replaced if no server accepts on it.
    Unix(PathBuf),
}

impl Listen {
    /// Returns whether one of two addresses stands for all addresses of the other one's family, at
    /// the port of both.
    pub fn overlaps(&self, other: &Listen) -> bool {
        let (Listen::Tcp(one), Listen::Tcp(other)) = (self, other) else { return false };
        one.is_ipv4() == other.is_ipv4()
            && one.ip().is_unspecified() != other.ip().is_unspecified()
            && one.port() == other.port()
            && one.port() != 0
    }

    /// Port of a TCP address; `None` for a unix socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            Listen::Tcp(address) => Some(address.port()),
            Listen::Unix(_) => None,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(addr) => write!(f, "{addr}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// `--sendfile`: how file bodies are sent; all modes exist so that they can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sendfile {
    /// Chosen for each response: small files are written from memory together with the head, larger
    /// ones by `sendfile(2)`, and by copying where the connection is encrypted.
    #[default]
    Auto,
    /// Every file body by `sendfile(2)`, small ones too; over HTTPS like `Auto`.
    On,
    /// Copies file bodies: small ones from memory, larger ones through a buffer.
    Off,
}

/// `--schedule`: when a connection reads again after a response. In every mode a connection that
/// pipelines requests yields to the others (like Warp's "yield").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Read once the event loop reports the socket readable; no read returns empty.
    #[default]
    Wait,
    /// Read at once, whether data is there or not.
    Eager,
    /// Read at once, but after every other connection that is ready.
    Yield,
}

/// Content and rules for a set of host names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Site {
    /// Host names of the site: lower case, no port, no trailing dot.
    #[serde(serialize_with = "print::texts")]
    pub hosts: Vec<HostName>,
    /// Configured addresses of the listeners on which the site answers; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "print::texts")]
    pub listen: Vec<Listen>,
    /// `true`: the site also serves every name that no site has. At most one site of a listener;
    /// without one such names get 421.
    pub default: bool,
    /// Redirects and rewrites, tried in order before the mounts.
    #[serde(rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Header rules for responses, applied in order.
    #[serde(rename = "header", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderRule>,
    /// Replacements of errors, by their status.
    #[serde(
        rename = "errors",
        skip_serializing_if = "BTreeMap::is_empty",
        serialize_with = "error_page::print_pages"
    )]
    pub error_pages: ErrorPages,
    /// Client addresses admitted (403 otherwise).
    #[serde(flatten)]
    pub access: Access,
    /// Certificates and TLS settings; `None`: the site is served in clear only.
    pub tls: Option<Tls>,
    /// Authentication required of clients (401 otherwise); `None`: unset, so none is required.
    #[serde(flatten)]
    pub auth: Option<Auth>,
    /// Clients that get early hints.
    pub early_hints: EarlyHints,
    /// Limits on the rate of requests to all of its mounts.
    #[serde(flatten)]
    pub limits: SiteLimits,
    /// Settings of requests: the size of bodies, timeouts and the access log.
    #[serde(flatten)]
    pub policy: RequestPolicy,
    /// File during whose existence all requests get 503; `None`: none does.
    #[serde(serialize_with = "print::optional_path")]
    pub maintenance: Option<PathBuf>,
    /// Access by scripts of other origins; `None`: browsers' own rule.
    pub cors: Option<Cors>,
    /// `true`: the preset of security headers is added to responses.
    pub security_headers: bool,
    /// `true`: compress the responses of all mounts, `false`: of none, `None`: of files.
    pub compress: Option<bool>,
    /// Handlers by path; the longest matching path wins. Paths are unique.
    #[serde(rename = "mount", skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
}

impl Site {
    /// Returns a name for logs, which no other site has: its first host name, or `*`, and its first
    /// address if it has one.
    pub fn name(&self) -> String {
        let host = self.hosts.first().map_or_else(|| "*".to_owned(), ToString::to_string);
        match self.listen.first() {
            Some(listen) => format!("{host}@{listen}"),
            None => host,
        }
    }
}

/// Clients that get 103 Early Hints (RFC 8297) ahead of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EarlyHints {
    /// HTTP/2 clients only: some HTTP/1.1 clients take an interim response for the final one (RFC
    /// 8297 section 3).
    #[default]
    Http2,
    /// HTTP/1.1 clients too.
    Always,
    /// Sends none, and drops the hints of upstreams.
    Off,
}

/// A redirect or rewrite by path pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Requests that it applies to.
    #[serde(rename = "match", serialize_with = "matcher::print")]
    pub matcher: Matcher,
    /// Action on a match; `{1}`, `{2}` ... stand for the text that the matcher's wildcards or
    /// groups matched, and the names of groups for theirs.
    #[serde(flatten)]
    pub action: RuleAction,
}

/// The action of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Answer with this status (301, 302, 303, 307 or 308) and Location.
    Redirect(StatusCode, String),
    /// Continue as if this path had been requested; and this query, in place of that of the
    /// request.
    Rewrite(String, Option<String>),
}

/// A path pattern: `*` matches any run of characters except `/`, `**` any run, and every other
/// character itself. A pattern without `/` is compared with the last segment only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Glob(pub String);

/// A handler at a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mount {
    /// Path prefix: begins with `/` and ends without one unless it is `/`. It matches itself and
    /// every path beneath it. Where `exact` is `true`, it matches only itself. Empty: the mount has
    /// a name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The name by which `otherwise` of other mounts leads to it. Such a mount has no path.
    #[serde(rename = "name", skip_serializing_if = "Option::is_none")]
    pub given_name: Option<String>,
    /// `true`: the mount has only this one path.
    pub exact: bool,
    /// Conditions on its requests, besides the path.
    #[serde(
        rename = "match",
        skip_serializing_if = "Option::is_none",
        serialize_with = "matcher::print_optional"
    )]
    pub matcher: Option<Matcher>,
    /// `true`: mounts with conditions take no requests from this one.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// Client addresses admitted, in addition to the site's rule.
    #[serde(flatten)]
    pub access: Access,
    /// Authentication required of clients, in place of the site's.
    #[serde(flatten)]
    pub auth: Option<Auth>,
    /// Client certificates, in addition to the site's requirement.
    #[serde(skip_serializing_if = "MountClientAuth::is_none")]
    pub client_auth: MountClientAuth,
    /// The FastCGI application in the authorizer role that decides on each request.
    #[serde(serialize_with = "print::authorizer")]
    pub authorizer: Option<Upstream>,
    /// Limits on the rate of its requests, and on those at once.
    #[serde(flatten)]
    pub limits: MountLimits,
    /// Settings of requests, in place of the site's.
    #[serde(flatten)]
    pub policy: RequestPolicy,
    /// Replacements of errors, by their status, before those of the site.
    #[serde(
        rename = "errors",
        skip_serializing_if = "BTreeMap::is_empty",
        serialize_with = "error_page::print_pages"
    )]
    pub error_pages: ErrorPages,
    /// `true`: they replace errors of the upstream or application, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub intercept_errors: bool,
    /// Access by scripts of other origins, in place of the site's.
    pub cors: Option<Cors>,
    /// Compression of responses, in place of the site's.
    pub compress: Option<bool>,
    /// Header rules for its responses, applied after those of the site.
    #[serde(rename = "header", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderRule>,
    /// The handler that responds to its requests.
    #[serde(flatten)]
    pub handler: MountHandler,
}

/// The handler of a mount.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MountHandler {
    /// Serves files of a directory.
    Files(Box<Files>),
    /// Redirects every path of the mount; the rest of the path and the query are appended when `to`
    /// ends with `/`.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        #[serde(serialize_with = "print::status")]
        status: StatusCode,
        /// An absolute URL or an absolute path.
        #[serde(rename = "redirect")]
        to: String,
    },
    /// Forwards requests to upstream servers.
    Proxy(Box<Proxy>),
    /// Forwards requests to a FastCGI application.
    FastCgi(Box<FastCgi>),
    /// Forwards requests to a uWSGI application.
    Uwsgi(Box<Uwsgi>),
    /// Runs a CGI program for each request.
    Cgi(Box<Cgi>),
    /// Runs a WebAssembly application.
    Wasm(Box<Wasm>),
    /// Shows the status of the server.
    #[serde(serialize_with = "print::status_page")]
    Status,
    /// Closes the connection, or resets the stream, without a response.
    #[serde(serialize_with = "print::abort")]
    Abort,
    /// Gives the same response to every request.
    Fixed {
        /// Any final status.
        #[serde(serialize_with = "print::status")]
        status: StatusCode,
        /// The body, sent unchanged.
        #[serde(rename = "respond")]
        body: String,
        /// Content-Type of the body. An empty body with the default one has none.
        #[serde(serialize_with = "print::field_value")]
        content_type: HeaderValue,
    },
}

impl MountHandler {
    /// The directory of files that the upstream or application may name in place of a body.
    pub fn internal(&self) -> Option<&PathBuf> {
        match self {
            MountHandler::Proxy(proxy) => proxy.internal.as_ref(),
            MountHandler::FastCgi(app) => app.call.internal.as_ref(),
            MountHandler::Uwsgi(app) => app.call.internal.as_ref(),
            MountHandler::Cgi(cgi) => cgi.call.internal.as_ref(),
            MountHandler::Wasm(wasm) => wasm.internal.as_ref(),
            _ => None,
        }
    }
}

settings! {
    /// Fields set on or removed from responses, by path.
    #[derive(Eq)]
    pub struct HeaderRule: HEADER_KEYS with ALWAYS {
        /// Fields to remove from the responses, by name.
        #[serde(serialize_with = "print::field_names")]
        remove: Vec<HeaderName> = Vec::new(), List("field names"), "[\"Server\"]",
            by |v, r| v.parse_list(r, field_name);
        /// Apply to errors too (400 to 599): the server's own, error pages, and those of upstreams
        /// and applications. Not to errors before a site is chosen: a malformed
        /// request, an unknown host.
        always: bool = false, Flag, "true";
        /// Set only fields that the response does not have, such as a default for an application
        /// that may send its own.
        if_absent: bool = false, Flag, "true";
        /// Attributes that each cookie of a response gets: `Secure`, `HttpOnly`, `Partitioned`, and
        /// `SameSite` with `Strict`, `Lax` or `None`, which replaces the cookie's own.
        #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "print::texts")]
        cookie_flags: Vec<CookieFlag> = Vec::new(), List("attributes of cookies"),
            "[\"Secure\", \"SameSite=Lax\"]", by |v, r| v.parse_list(r, CookieFlag::parse);
    }
    beside {
        /// Conditions on the path of the request, and on nothing else.
        #[serde(rename = "match", serialize_with = "matcher::print")]
        matcher: Matcher = Matcher::of_pattern(HEADER_PATTERN);
        /// Media types of responses: `type/subtype`, `type/*` or `*+suffix`; empty: all responses,
        /// those without a media type too.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        types: Vec<String> = Vec::new();
        /// Fields to set; they replace those of the response.
        #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "print::fields")]
        set: Vec<(HeaderName, HeaderValue)> = Vec::new();
    }
}

impl HeaderRule {
    /// A rule that sets fields of responses below 400.
    pub fn setting(matcher: Matcher, set: Vec<(HeaderName, HeaderValue)>) -> HeaderRule {
        HeaderRule { matcher, set, ..HeaderRule::default() }
    }

    /// Returns whether the rule applies to responses with this status.
    pub fn applies_to(&self, status: StatusCode) -> bool {
        self.always || status.as_u16() < 400
    }
}

/// Client addresses admitted. An address in `deny` is refused; otherwise it is admitted if `allow`
/// is empty or contains it. Where both contain it, the more specific network wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Networks admitted; empty: all.
    #[serde(serialize_with = "print::texts")]
    pub allow: Vec<IpNet>,
    /// Networks whose clients are refused.
    #[serde(serialize_with = "print::texts")]
    pub deny: Vec<IpNet>,
}
