//! The checked configuration: every value in range, every path absolute, every name normalized.
//! What was written (TOML, flags) is turned into these types by `check`; no other file does it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use ipnet::IpNet;

use super::acme::Acme;
use super::auth::Auth;
use super::gateway::{Cgi, FastCgi};
use super::proxied::ProxyProtocol;
use super::tls::Tls;
use super::uploads::Uploads;
use super::upstream::{Proxy, Upstream};

/// A whole server.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where it listens, in clear, in the order written.
    pub listen: Vec<Listen>,
    /// Where it listens with TLS; one address at least here or in `listen`.
    pub listen_tls: Vec<Listen>,
    /// Where connections begin with a header of the PROXY protocol; `None`: nowhere.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How certificates are got that are nobody else's business; `None`: none are.
    pub acme: Option<Acme>,
    /// Sites; at least one. Host names are unique among them.
    pub sites: Vec<Site>,
    /// Worker threads, one event loop each.
    pub workers: NonZeroUsize,
    /// Connections the kernel may queue for each listener (`listen(2)`), 1 to 65,535.
    pub backlog: u32,
    /// How file bodies leave.
    pub sendfile: Sendfile,
    /// When a connection that has answered reads again.
    pub schedule: Schedule,
    /// Threads that wait for disks, 1 to 256.
    pub disk_threads: NonZeroUsize,
    /// How long a cached file is trusted before its name is looked up again.
    pub revalidate: Duration,
    /// Memory for cached file contents and heads, for the whole process, in bytes.
    pub cache_bytes: usize,
    /// How long a stop waits for what is in flight.
    pub drain: Duration,
    /// User to become once the listeners are bound (only when started as root).
    pub user: Option<String>,
    /// Group to become; the user's own when absent.
    pub group: Option<String>,
    /// The directory of applications that the command starts and looks after; `None`: none. A
    /// program that uses the library starts none: it mounts its own.
    pub apps: Option<PathBuf>,
    /// Proxies in front of this server: whom they name as the client is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// A unix socket that takes orders; `None`: there is none.
    pub admin: Option<PathBuf>,
    /// Bounds on what a client may send, hold or delay.
    pub limits: Limits,
    /// Log of requests; `None`: off.
    pub access_log: Option<AccessLog>,
    /// Log of the server's own events.
    pub error_log: ErrorLog,
}

/// One address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A unix stream socket; the file is replaced if nobody answers on it.
    Unix(PathBuf),
}

impl Listen {
    /// The port, of a TCP address.
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

/// `--sendfile`, so that anyone can compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sendfile {
    /// Decided for each answer: small files from memory with their head in one write, larger ones
    /// by `sendfile(2)`; copied where the channel is encrypted.
    #[default]
    Auto,
    /// Every file body by `sendfile(2)`, small ones too; over HTTPS as `Auto`.
    On,
    /// No file body by `sendfile(2)`: small ones from memory, larger ones copied.
    Off,
}

/// `--schedule`: when a connection that has answered reads again. Whichever it is, one that sends
/// request after request lets the others have their turn (seed: Warp's "yield").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Once the event loop says that something has come; no read is tried in vain.
    #[default]
    Wait,
    /// At once, whether something has come or not.
    Eager,
    /// The same, but behind every other connection that is ready.
    Yield,
}

/// Bounds on a client. Each has a status of its own when it is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request line and fields together, in bytes (431), 256 to 1 MiB.
    pub head_bytes: usize,
    /// Field lines in a request head or trailer section (431), 1 to 1,000.
    pub head_fields: usize,
    /// Request target, in bytes (414).
    pub target_bytes: usize,
    /// From a request's first byte to the end of its head (408).
    pub head_timeout: Duration,
    /// From a connection's first byte to the end of its TLS handshake (closed silently).
    pub handshake_timeout: Duration,
    /// Between requests on one connection (closed silently).
    pub idle_timeout: Duration,
    /// Request body read on behalf of a built-in handler, in bytes (413).
    pub body_bytes: u64,
    /// Slowest body accepted after `body_grace`, in bytes a second (408).
    pub body_rate: u64,
    /// How long a body may come slower than `body_rate`.
    pub body_grace: Duration,
    /// How long queued bytes may make no progress (closed).
    pub write_stall: Duration,
    /// Requests on one connection; `None`: unlimited.
    pub requests_per_connection: Option<u64>,
    /// Connections at once from one client address (503); `None`: unlimited.
    pub connections_per_address: Option<usize>,
    /// Connections at once (503); `None`: from RLIMIT_NOFILE.
    pub connections: Option<usize>,
    /// Bytes a second to one client address, all its connections together; 0: as fast as they are
    /// taken.
    pub address_rate: u64,
    /// CGI programs that run at once, in the whole server (503).
    pub programs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_bytes: 32 << 10,
            head_fields: 100,
            target_bytes: 8 << 10,
            head_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_bytes: 16 << 20,
            body_rate: 240,
            body_grace: Duration::from_secs(5),
            write_stall: Duration::from_secs(60),
            requests_per_connection: None,
            connections_per_address: None,
            connections: None,
            address_rate: 0,
            programs: 32,
        }
    }
}

/// Where and how requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// What a line looks like.
    pub format: LogFormat,
    /// Where lines go.
    pub to: LogTarget,
}

/// The shape of an access log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's and nginx's "combined".
    Combined,
    /// One JSON object a line with these fields, in this order.
    Json(Vec<LogField>),
    /// A short line for a person: method, path, status, bytes, milliseconds.
    Brief,
}

/// One field of a JSON access log line; its name in the log is its snake_case name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LogField {
    Time,
    Client,
    Method,
    Target,
    Protocol,
    Status,
    BodyBytes,
    DurationUs,
    Host,
    Referer,
    UserAgent,
    Cache,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, appended to, reopened on SIGUSR1.
    File(PathBuf),
}

/// The server's own events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLog {
    /// The least severe level written.
    pub level: LogLevel,
    /// Where they go.
    pub to: LogTarget,
}

/// Severity, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// What is served under a set of host names.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The names it answers to: lower case, no port, no trailing dot.
    pub hosts: Vec<HostName>,
    /// Whether it also answers every name no site has (at most one site; else 421).
    pub default: bool,
    /// Redirects and rewrites, tried in order before the mounts.
    pub rules: Vec<Rule>,
    /// What answers beneath which path; the longest matching path wins. Paths are unique.
    pub mounts: Vec<Mount>,
    /// Fields set on or removed from answers, applied in order.
    pub headers: Vec<HeaderRule>,
    /// Own pages for error statuses: a URL path in this site.
    pub error_pages: BTreeMap<StatusCode, String>,
    /// Which client addresses are let in (403 otherwise).
    pub access: Access,
    /// Its certificates; `None`: in clear only.
    pub tls: Option<Tls>,
    /// What clients must show (401 otherwise); `None`: nobody said, and so nothing.
    pub auth: Option<Auth>,
    /// To whom it tells what an answer will need.
    pub early_hints: EarlyHints,
}

/// Who is told what an answer will need, ahead of it (103 Early Hints, RFC 8297).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EarlyHints {
    /// Clients of HTTP/2: some others take the first answer for the last (RFC 8297 3).
    #[default]
    Http2,
    /// Those of HTTP/1.1, too.
    Always,
    /// Nobody; what upstreams tell stays here as well.
    Off,
}

/// A host name a site answers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostName {
    /// This name only; an IPv6 address in its brackets.
    Exact(String),
    /// Any name that ends in `.` and this suffix (`*.example.org` holds `example.org`).
    Wildcard(String),
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostName::Exact(name) => f.write_str(name),
            HostName::Wildcard(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

/// A redirect or rewrite by path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Matched against the whole decoded path.
    pub pattern: Glob,
    /// What happens on a match; `{1}`, `{2}` ... stand for what the pattern's wildcards matched.
    pub action: RuleAction,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Answer with this status (301, 302, 303, 307 or 308) and Location.
    Redirect(StatusCode, String),
    /// Go on as if this path had been asked for.
    Rewrite(String),
}

/// A path pattern: `*` matches any run of bytes but `/`, `**` any run, all else itself.
/// A pattern without `/` is matched against the last segment only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(pub String);

/// A handler beneath a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Mount {
    /// Begins with `/`, ends without one unless it is `/`; matches itself and what is beneath it.
    pub path: String,
    /// Who answers.
    pub handler: MountHandler,
    /// Which client addresses are let in, beside the site's rule.
    pub access: Access,
    /// What clients must show, in place of the site's rule.
    pub auth: Option<Auth>,
    /// The FastCGI application that is asked whether a request may be answered.
    pub authorizer: Option<Upstream>,
}

/// Who answers beneath a path.
#[derive(Clone, Debug, PartialEq)]
pub enum MountHandler {
    /// Files of a directory.
    Files(Files),
    /// A redirect of everything beneath the path; the rest of the path and the query are appended
    /// when `to` ends with `/`.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: StatusCode,
        /// An absolute URL or an absolute path.
        to: String,
    },
    /// Servers behind this one.
    Proxy(Box<Proxy>),
    /// A FastCGI application.
    FastCgi(Box<FastCgi>),
    /// CGI programs.
    Cgi(Box<Cgi>),
    /// The same answer to every request.
    Fixed {
        /// Any final status.
        status: StatusCode,
        /// The body, sent as it is.
        body: String,
        /// Content-Type of the body.
        content_type: HeaderValue,
    },
}

/// A directory served as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The directory: absolute. Looked up anew at each revalidation, so it may be a link that moves.
    pub root: PathBuf,
    /// Names tried, in order, when a directory is asked for.
    pub index: Vec<String>,
    /// Paths tried in order where `{path}` stands for the path asked for; empty: the path alone.
    /// A last element `=404` (any status) answers with that status.
    pub try_files: Vec<TryFile>,
    /// Single-page-app fallback: the path answered (200) for a GET that accepts text/html.
    pub spa: Option<String>,
    /// Whether directories without an index are listed.
    pub listing: bool,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Whether names that begin with a dot are served (`.well-known` always is).
    pub dotfiles: bool,
    /// Whether `.br`, `.zst` and `.gz` beside a file are offered by Accept-Encoding.
    pub sidecars: bool,
    /// Where entity-tags come from.
    pub etag: EtagSource,
    /// Media types by file-name extension (lower case, no dot), before the built-in ones.
    pub media_types: BTreeMap<String, HeaderValue>,
    /// How fast one answer may send a file, in bytes a second; 0: as fast as it is taken.
    pub rate: u64,
    /// What may be uploaded; `None`: nothing.
    pub uploads: Option<Uploads>,
}

/// One element of `try_files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryFile {
    /// A path; `{path}` stands for the path asked for.
    Path(String),
    /// End with this status.
    Status(StatusCode),
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Symlinks {
    /// Links, absolute ones too, whose target is beneath the root.
    #[default]
    WithinRoot,
    /// None.
    Never,
    /// All.
    Anywhere,
}

/// Where entity-tags come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EtagSource {
    /// Size and modification time; the contents where that time is a constant of reproducible
    /// builds (the epoch's first day, 1980-01-01).
    #[default]
    Auto,
    /// The contents.
    Content,
    /// None is sent.
    Off,
}

/// Fields set on answers by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// Matched against the decoded path of the request.
    pub pattern: Glob,
    /// Set, replacing what the answer had.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Removed.
    pub remove: Vec<HeaderName>,
}

/// Client addresses let in: refused if any `deny` holds it; else let in if `allow` is empty or
/// one of it holds it. The more specific network wins where both hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Networks let in; empty: all.
    pub allow: Vec<IpNet>,
    /// Networks refused.
    pub deny: Vec<IpNet>,
}
