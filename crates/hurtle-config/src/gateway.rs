//! Types and readers of FastCGI, CGI and authorizer settings. `hurtle::handler::gateway` connects
//! to the applications.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::bounds::{
    APP_FILES_MAX, APP_FILES_MIN, APP_PROCESSES_MAX, BYTES_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN,
};
use super::buffering::Buffer;
use super::check_mount::index;
use super::error::{ValueError, shown};
use super::print;
use super::reader::Reader;
use super::request_fields::{RequestFields, request_fields};
use super::schema::Kind::{Integer, Size, Time};
use super::schema_mount::{CGI, EXTERNAL};
use super::settings::settings;
use super::symlinks::{Symlinks, symlinks};
use super::table::Table;
use super::types::Files;
use super::units::{duration_text, size_text};
use super::upstream::{Upstream, address};
use super::value::Value;

/// Time limit of connecting to a FastCGI application unless `connect_timeout` is set.
pub const FASTCGI_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A FastCGI application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FastCgi {
    /// Its addresses, which get requests in turn.
    #[serde(rename = "fastcgi", serialize_with = "print::plain_upstreams")]
    pub upstreams: Vec<Upstream>,
    /// Directory of its scripts; other files in it are served. `None`: the application gets every
    /// path.
    #[serde(serialize_with = "print::optional_path")]
    pub root: Option<PathBuf>,
    /// Which symbolic links are followed, of scripts and of other files.
    pub symlinks: Symlinks,
    /// `true`: the application gets the real path of `root`, without links.
    pub real_path: bool,
    /// File names tried, in order, for a directory.
    pub index: Vec<String>,
    /// `true`: the first script of `index` in the root answers requests of missing files.
    pub front_controller: bool,
    /// `true`: it answers requests of missing scripts, too.
    pub front_for_scripts: bool,
    /// End of the names of scripts; begins with a dot.
    pub suffix: String,
    /// Idle connections that each worker keeps.
    #[serde(rename = "keep_connections")]
    pub keep: usize,
    /// Directory of files that it may name in X-Accel-Redirect or X-Sendfile; `None`: none.
    #[serde(serialize_with = "print::optional_path")]
    pub internal: Option<PathBuf>,
    /// Edits of the fields that it gets; `None`: as the client sent them.
    pub request_fields: Option<RequestFields>,
    /// Bodies that are kept for slow clients.
    #[serde(flatten)]
    pub buffer: Buffer,
    /// Time for which a request waits while no address accepts connections; 0: it fails at once.
    #[serde(serialize_with = "print::duration")]
    pub retry_for: Duration,
    /// Time limit of connecting to it.
    #[serde(serialize_with = "print::duration")]
    pub connect_timeout: Duration,
    /// Time limits of a request.
    #[serde(flatten)]
    pub timeouts: GatewayTimeouts,
    /// Variables added to the request's; they replace those of the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

/// A directory of CGI programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cgi {
    /// The directory: absolute.
    #[serde(rename = "cgi", serialize_with = "print::path")]
    pub root: PathBuf,
    /// Directory of files that programs may name in X-Accel-Redirect or X-Sendfile; `None`: none.
    #[serde(serialize_with = "print::optional_path")]
    pub internal: Option<PathBuf>,
    /// Time limits of a request.
    #[serde(flatten)]
    pub timeouts: GatewayTimeouts,
    /// Variables added to the request's; they replace those of the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Resource limits of each program.
    #[serde(flatten)]
    pub limits: ProgramLimits,
    /// Edits of the fields that they get; `None`: as the client sent them.
    pub request_fields: Option<RequestFields>,
}

settings! {
    /// Resource limits of a program; each process that it starts has the same limits.
    #[derive(Copy)]
    pub struct ProgramLimits: PROGRAM_LIMITS with CGI {
        /// Processor time of a program, and of each process it starts.
        #[serde(serialize_with = "print::duration")]
        cpu_time: Duration = Duration::from_secs(60), Time(1_000, TIME_MS_MAX), "\"5m\"";
        /// Memory of a program, and of each process it starts, without the files that it maps (on
        /// macOS and FreeBSD: its address space).
        #[serde(serialize_with = "print::size")]
        memory: u64 = 1 << 30, Size(1 << 20, BYTES_MAX), "\"256 MiB\"";
        /// Open file descriptors of a program, and of each process it starts.
        open_files: u64 = 1024, Integer(APP_FILES_MIN, APP_FILES_MAX), "64";
        /// Processes and threads of the server's user, all counted; at this limit a program cannot
        /// start another.
        processes: Option<u64> = None, Integer(1, APP_PROCESSES_MAX), "500", or "unlimited";
    }
}

impl fmt::Display for ProgramLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu_time, memory) = (duration_text(self.cpu_time), size_text(self.memory));
        write!(f, "cpu_time {cpu_time}, memory {memory}, open_files {}", self.open_files)?;
        self.processes.map_or(Ok(()), |processes| write!(f, ", processes {processes}"))
    }
}

settings! {
    /// Time limits of a request to an application.
    #[derive(Copy)]
    pub struct GatewayTimeouts: GATEWAY_TIMEOUTS with EXTERNAL {
        /// Longest time in which an upstream reads none of a request's bytes (504).
        #[serde(serialize_with = "print::duration")]
        send ("send_timeout"): Duration = Duration::from_secs(30), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"10s\"";
        /// Time from a request's last byte to the end of the response's head (504).
        #[serde(serialize_with = "print::duration")]
        first_byte ("first_byte_timeout"): Duration = Duration::from_secs(60), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"10s\"";
        /// Longest pause in a response's body (the connection is closed).
        #[serde(serialize_with = "print::duration")]
        read ("read_timeout"): Duration = Duration::from_secs(60), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"10m\"";
    }
}

impl FastCgi {
    /// An application with default settings.
    pub fn new(upstreams: Vec<Upstream>) -> FastCgi {
        FastCgi {
            upstreams,
            retry_for: Duration::ZERO,
            root: None,
            symlinks: Symlinks::default(),
            real_path: true,
            index: vec!["index.php".to_owned()],
            front_controller: true,
            front_for_scripts: false,
            suffix: ".php".to_owned(),
            keep: 0,
            internal: None,
            request_fields: None,
            buffer: Buffer::default(),
            connect_timeout: FASTCGI_CONNECT_TIMEOUT,
            timeouts: GatewayTimeouts::default(),
            params: BTreeMap::new(),
        }
    }

    /// Settings of the files beside its scripts: every file that is not a script.
    pub fn files_beside(&self) -> Option<Files> {
        let index = self.index.iter().filter(|name| !name.ends_with(&self.suffix));
        let index = index.cloned().collect();
        let symlinks = self.symlinks.clone();
        self.root.clone().map(|root| Files { index, symlinks, ..Files::new(root) })
    }
}

/// Reads the keys of a FastCGI mount; `written` is the value of `fastcgi`.
pub(super) fn fastcgi(
    table: &Table<'_>,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<FastCgi> {
    let mut fastcgi = FastCgi::new(upstreams(written, "unix:/run/php/php-fpm.sock", reader));
    let f = &mut fastcgi;
    table.set("root", reader, |v, r| v.directory(r).map(Some), &mut f.root);
    table.set("symlinks", reader, symlinks, &mut f.symlinks);
    table.set("real_path", reader, Value::flag, &mut f.real_path);
    table.set("index", reader, index, &mut f.index);
    table.set("front_controller", reader, Value::flag, &mut f.front_controller);
    table.set("front_for_scripts", reader, Value::flag, &mut f.front_for_scripts);
    table.set("suffix", reader, |v, r| v.parse(r, suffix), &mut f.suffix);
    table.set("keep_connections", reader, Value::integer, &mut f.keep);
    f.internal = internal(table, reader);
    f.request_fields = edits(table, reader);
    f.buffer = Buffer::read(table, reader);
    table.set("connect_timeout", reader, Value::duration, &mut f.connect_timeout);
    f.timeouts = GatewayTimeouts::read(table, reader);
    table.set("params", reader, |v, r| Some(params(v, r)), &mut f.params);
    table.set("retry_for", reader, Value::duration, &mut f.retry_for);
    Some(fastcgi).filter(|fastcgi| !fastcgi.upstreams.is_empty())
}

/// Reads the keys of a mount of CGI programs; `written` is the value of `cgi`.
pub(super) fn cgi(table: &Table<'_>, written: &Value<'_>, reader: &mut Reader<'_>) -> Option<Cgi> {
    let root = written.directory(reader);
    let (internal, timeouts) = (internal(table, reader), GatewayTimeouts::read(table, reader));
    let mut variables = BTreeMap::new();
    table.set("params", reader, |v, r| Some(params(v, r)), &mut variables);
    let limits = ProgramLimits::read(table, reader);
    let request_fields = edits(table, reader);
    Some(Cgi { root: root?, internal, timeouts, params: variables, limits, request_fields })
}

/// Reads the addresses of an application.
pub(super) fn upstreams(
    written: &Value<'_>,
    example: &str,
    reader: &mut Reader<'_>,
) -> Vec<Upstream> {
    if written.is_empty_list() {
        let wrong = ValueError::new("there is no address");
        written.report(reader, wrong.hint(format!("write one such as \"{example}\"")));
    }
    written.list(reader, upstream)
}

pub(super) fn edits(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<RequestFields> {
    let fields = table.get("request_fields")?.table(reader)?;
    Some(request_fields(&fields, false, reader))
}

/// Reads the key of an authorizer.
pub(super) fn authorizer(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Upstream> {
    upstream(&table.get("authorizer")?, reader)
}

fn upstream(written: &Value<'_>, reader: &mut Reader<'_>) -> Option<Upstream> {
    let text = written.text(reader)?;
    let read = address(text, |path| reader.absolute(path, written.spot.at));
    read.map_err(|wrong| written.report(reader, wrong)).ok()
}

pub(super) fn internal(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<PathBuf> {
    table.get("internal")?.directory(reader)
}

fn suffix(text: &str) -> Result<String, ValueError> {
    let name = text.strip_prefix('.').filter(|name| !name.is_empty());
    match name {
        Some(name) if !name.contains(['/', '\0']) => Ok(text.to_owned()),
        _ => Err(ValueError::new(format!("{} is not a file-name suffix", shown(text)))
            .hint("begin it with a dot, as in \".php\"")),
    }
}

pub(super) fn params(written: &Value<'_>, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let mut params = BTreeMap::new();
    for (name, spot, value) in written.pairs(reader) {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            let wrong = ValueError::new("not the name of a variable");
            reader.report(&spot, wrong.hint("write letters, digits and _, as in APP_ENV"));
        }
        let Some(text) = value.text(reader) else { continue };
        if text.contains('\0') {
            value.report(reader, ValueError::new("holds a NUL").hint("remove it"));
        }
        params.insert(name.to_owned(), text.to_owned());
    }
    params
}
