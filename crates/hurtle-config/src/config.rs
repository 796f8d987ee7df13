//! The keys at the top of a configuration, and the whole of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use hurtle_http::semantics::forwarded::Family;
use ipnet::IpNet;

use super::acme::Acme;
use super::bounds::{
    BACKLOG_MAX, BYTES_MAX, DISK_THREADS_MAX, SOCKET_PATH_BYTES_MAX, TIME_MS_MAX, WORKERS_MAX,
};
use super::compress::Compress;
use super::congestion::Congestion;
use super::defaults::workers;
use super::error::{ValueError, shown};
use super::limits::{LIMITS, Limits};
use super::local::LOCAL_AUTHORITY;
use super::log::{AccessLog, ErrorLog};
use super::monitoring::{METRICS, Metrics, TRACING, Tracing};
use super::names::{self, names};
use super::network::network;
use super::placeholder::Placeholders;
use super::print;
use super::proxied::ProxyProtocol;
use super::reader::{Account, Reader};
use super::rotation::{ACCESS_LOG, ERROR_LOG};
use super::sandbox::Sandbox;
use super::schema::DefaultValue::{Toml, Words};
use super::schema::Kind::{
    AutoOrInteger, Choice, Flag, Integer, List, Size, Table, Tables, Text, Time,
};
use super::schema::{Key, SITE, Section};
use super::schema_acme::ACME;
use super::schema_compress::COMPRESS;
use super::schema_tls::PROXY_PROTOCOL;
use super::settings::{ALWAYS, settings};
use super::site_defaults::DEFAULTS;
use super::store::{STORE, STORE_CA, STORE_PASSWORD_FILE, STORE_PREFIX, Store};
use super::types::{Listen, Schedule, Sendfile, Site};
use super::value::Value;

/// Port of the address that is used without `listen`; the command takes it for a directory, too.
const PORT: u16 = 8080;
/// Backlog of each listener, in connections.
const BACKLOG: u32 = 4_096;
/// Threads that wait for disks.
const DISK_THREADS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);
/// Memory for cached files, in bytes.
const CACHE_BYTES: usize = 64 << 20;

settings! {
    /// The configuration of a whole server.
    pub struct Config: SERVER with ALWAYS {
        /// Serve HTTP/3 too, at the UDP ports of `listen_tls`. Responses over TCP then tell clients
        /// so (`Alt-Svc`). See [https.md](https.md).
        http3: bool = true, Flag, "false";
        /// Congestion control of HTTP/3. `"bbr"` is many times faster on paths with random losses,
        /// such as radio links; see [https.md](https.md#http3).
        http3_congestion: Congestion = Congestion::default(), Choice(names::<Congestion>), "\"bbr\"";
        /// Threads that serve connections. `"auto"`: one for each processor that the process may
        /// use, container quotas included.
        workers: NonZeroUsize = workers(), AutoOrInteger(1, WORKERS_MAX), "2",
            or "one for each processor", by worker_count;
        /// Connections the kernel may queue for each listener; the kernel's own limit
        /// (`net.core.somaxconn` on Linux) also applies.
        backlog: u32 = BACKLOG, Integer(1, BACKLOG_MAX), "1024";
        /// System call for file bodies: chosen for each response (`"auto"`), always by
        /// `sendfile(2)`, or never. `"auto"` is the fastest; the others exist for comparison.
        sendfile: Sendfile = Sendfile::default(), Choice(names::<Sendfile>), "\"off\"";
        /// Time of the next read after a response: once the socket is readable (`"wait"`), at once
        /// (`"eager"`), or at once but after every other connection that is ready (`"yield"`).
        /// `"wait"` makes no useless system call; the others exist for comparison.
        schedule: Schedule = Schedule::default(), Choice(names::<Schedule>), "\"yield\"";
        /// Threads for disk access, so that no event loop waits for a disk.
        disk_threads: NonZeroUsize = DISK_THREADS, Integer(1, DISK_THREADS_MAX), "8", by count;
        /// Age at which a cached file's name is looked up again. Files that are not cached share
        /// the open root for an eighth of it. A response under way keeps its length while the file
        /// grows; it is cut if the file becomes shorter or is edited in place. Replace files by
        /// renaming.
        #[serde(serialize_with = "print::duration")]
        revalidate: Duration = Duration::from_secs(1), Time(0, TIME_MS_MAX), "\"250ms\"";
        /// Memory for cached file contents and response heads, for the whole process.
        #[serde(serialize_with = "print::memory_size")]
        cache_bytes: usize = CACHE_BYTES, Size(0, BYTES_MAX), "\"256 MiB\"";
        /// Time that a stop waits for requests in flight.
        #[serde(serialize_with = "print::duration")]
        drain: Duration = Duration::from_secs(10), Time(0, TIME_MS_MAX), "\"30s\"";
        /// Time between a signal to stop and the begin of `drain`: the server accepts connections
        /// as before, and only `GET /ready` of `[metrics]` answers 503, so that load balancers send
        /// new requests to other servers. See [fleet.md](fleet.md).
        #[serde(serialize_with = "print::duration")]
        drain_delay: Duration = Duration::ZERO, Time(0, TIME_MS_MAX), "\"5s\"";
        /// User to switch to once the listeners are bound. Only root can switch: a start as another
        /// user than root and this one is an error.
        user: Option<String> = None, Text("a user's name"), "\"www-data\"",
            or "stay as started", by |v, r| account(v, Account::User, r);
        /// Group to switch to.
        group: Option<String> = None, Text("a group's name"), "\"www-data\"",
            or "the user's own", with &["user"], by |v, r| account(v, Account::Group, r);
        /// Confine the server to what this file names: it opens other files no more, and starts no
        /// program (Linux 6.2 or later). A server with `cgi` or `apps` is not confined.
        sandbox: Sandbox = Sandbox::default(), Choice(names::<Sandbox>), "\"off\"";
        /// Start and mount the applications in the subdirectories of this directory; each has an
        /// `app.toml`, see [apps.md](apps.md). They can be added and removed without a restart.
        #[serde(serialize_with = "print::optional_path")]
        apps: Option<PathBuf> = None, Text("a directory"), "\"/srv/apps\"",
            or "off", by |v, r| v.directory(r).map(Some);
        /// Addresses of the proxies in front of this server. Only for their connections,
        /// X-Forwarded-For or Forwarded gives the client address for logs, `allow`, `deny` and
        /// upstreams.
        #[serde(serialize_with = "print::texts")]
        trusted_proxies: Vec<IpNet> = Vec::new(), List("networks"), "[\"10.0.0.0/8\", \"::1\"]",
            or "none", by |v, r| v.parse_list(r, network);
        /// The fields in which the trusted proxies describe the client: X-Forwarded-For, -Proto,
        /// -Host and the like, or Forwarded (RFC 7239). The others are dropped, because most
        /// proxies forward them as the client sent them. Upstreams get both.
        #[serde(serialize_with = "names::serialize")]
        forwarded_family ("trusted_proxy_fields"): Family = Family::default(), Choice(names::<Family>), "\"forwarded\"",
            with &["trusted_proxies"];
        /// A unix socket for administration commands, accessible only to the user who starts the
        /// server. It serves `hurtle status`, `hurtle reload`, `hurtle upstream` and `hurtle
        /// purge`, and the metrics.
        #[serde(serialize_with = "print::optional_path")]
        admin: Option<PathBuf> = None, Text("a path"), "\"/run/hurtle-admin.sock\"",
            or "off", by |v, r| admin(v, r).map(Some);
    }
    beside {
        /// Addresses to listen on in clear, in the order written.
        #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "print::texts")]
        listen: Vec<Listen> = vec![Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))];
        /// Addresses to listen on with TLS; at least one address is here or in `listen`.
        #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "print::texts")]
        listen_tls: Vec<Listen> = Vec::new();
        /// Listeners whose connections begin with a PROXY protocol header; `None`: none.
        proxy_protocol: Option<ProxyProtocol> = None;
        /// Automatic certificates (ACME); `None`: no site has one.
        #[serde(serialize_with = "print::acme")]
        acme: Option<Acme> = None;
        /// Directory of the local certificate authority; `None`: no site has a certificate of it.
        #[serde(serialize_with = "print::optional_path")]
        local_authority: Option<PathBuf> = None;
        /// Directories of cached files are watched for changes. Only the command line sets it.
        #[serde(skip)]
        watches_files: bool = false;
        /// The store that several servers share; `None`: none.
        #[serde(flatten)]
        store: Option<Store> = None;
        /// The IDs that requests get; `None`: none.
        tracing: Option<Tracing> = None;
        /// Listeners for metrics; `None`: there are none.
        metrics: Option<Metrics> = None;
        /// Media types and sizes of what is compressed, and the cache of compressed files.
        compress: Compress = Compress::default();
        /// Limits on what a client may send, hold or delay.
        limits: Limits = Limits::default();
        /// Log of requests; `None`: off.
        access_log: Option<AccessLog> = None;
        /// Log of the server's own events.
        error_log: ErrorLog = ErrorLog::default();
        /// The files that the configuration includes, and the directories in which it looks for
        /// them.
        #[serde(skip)]
        included: Vec<PathBuf> = Vec::new();
        /// The placeholders of the file, whose values are in the other fields.
        #[serde(skip)]
        placeholders: Placeholders = Placeholders::default();
        /// Sites; at least one. Host names are unique among them.
        #[serde(rename = "site")]
        sites: Vec<Site> = Vec::new();
    }
}

#[rustfmt::skip] // One paragraph for each key.
pub(super) static TOP: Section = Section {
    header: "",
    doc: "Keys of the whole server stand at the top of the file, before the first `[table]`.",
    keys: &[&[
        Key::new("listen", List("addresses"), Toml("\"127.0.0.1:8080\""),
            "[\"0.0.0.0:80\", \"[::]:80\", \"unix:/run/hurtle.sock\"]",
            "Addresses to listen on: `address:port`, `:port` for every IPv4 address, or `unix:` and \
             the path of a socket. Port 0 takes any free port."),
        Key::new("listen_tls", List("addresses"), Words("none"), "[\"0.0.0.0:443\", \"[::]:443\"]",
            "Addresses to listen on with TLS, for sites with certificates (`[site.tls]`). \
             `listen` then has no default."),
        Key::new("root", Text("a directory"), Words("see `[[site]]`"), "\"public\"",
            "Shorthand for one site that serves one directory to every host name; \
             cannot be combined with `[[site]]`."),
        Key::new("listing", Flag, Toml("false"), "true",
            "List directories that have no index file.").with(&["root"]),
    ], SERVER, &[
        STORE,
        STORE_PASSWORD_FILE,
        STORE_CA,
        STORE_PREFIX,
        Key::new("metrics", Table(&METRICS), Words("off"), "{ listen = \"127.0.0.1:9100\" }",
            "Listeners for a monitoring system and for health checks."),
        Key::new("tracing", Table(&TRACING), Words("off"), "{ request_id = true }", "Request IDs."),
        Key::new("proxy_protocol", Table(&PROXY_PROTOCOL), Words("off"),
            "{ from = \"10.0.0.0/24\" }",
            "Settings of listeners behind a load balancer that sends the PROXY protocol."),
        Key::new("acme", Table(&ACME), Words("required where a certificate is `\"auto\"`"),
            "{ accept_terms = true }", "Automatic certificates."),
        LOCAL_AUTHORITY,
        Key::new("compress", Table(&COMPRESS), Words("see `[compress]`"), "{}",
            "What is compressed, and the cache of compressed files."),
        Key::new("limits", Table(&LIMITS), Words("see `[limits]`"), "{}",
            "Limits on what a client may send, hold or delay."),
        Key::new("access_log", Table(&ACCESS_LOG), Words("off"), "{}", "Log of requests."),
        Key::new("error_log", Table(&ERROR_LOG), Words("`info` and above, to stderr"), "{}",
            "Log of the server's own events."),
        Key::new("include", List("files or patterns"), Words("see below"), "[\"sites/*.toml\"]",
            "Files that are parts of this configuration, relative to the file that names them; see \
             [Several files](#several-files)."),
        Key::new("defaults", Table(&DEFAULTS), Words("see `[defaults]`"), "{}",
            "Keys of every site and every mount that does not set them.").with(&["site", "include"]),
        Key::new("site", Tables(&SITE), Words("see `root`"), "[]",
            "Content for host names."),
    ]],
};

fn admin(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<PathBuf> {
    let path = value.path(reader)?;
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let hint = format!("a socket's path has at most {SOCKET_PATH_BYTES_MAX} bytes");
        value.report(reader, ValueError::new("the path is too long").hint(hint));
    }
    Some(path)
}

fn worker_count(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<NonZeroUsize> {
    if value.as_text() == Some("auto") { Some(workers()) } else { count(value, reader) }
}

fn count(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<NonZeroUsize> {
    value.integer(reader).and_then(NonZeroUsize::new)
}

/// The name of a user or group; `load` looks it up.
fn account(
    value: &Value<'_>,
    kind: fn(String) -> Account,
    reader: &mut Reader<'_>,
) -> Option<Option<String>> {
    let name = value.parse(reader, |text| {
        let odd = |c: char| c.is_control() || matches!(c, ':' | '/');
        if text.is_empty() || text.contains(odd) {
            return Err(ValueError::new(format!("{} is not a name", shown(text)))
                .hint("write one that the system knows, such as \"www-data\""));
        }
        Ok(text.to_owned())
    });
    let known = name.iter().map(|name| (value.spot.clone(), kind(name.clone())));
    reader.accounts.extend(known);
    name.map(Some)
}
