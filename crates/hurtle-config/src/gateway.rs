//! Types and readers of FastCGI, CGI and authorizer settings. `hurtle::handler::gateway` connects
//! to the applications.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::bounds::{
    APP_FILES_MAX, APP_FILES_MIN, APP_PROCESSES_MAX, BYTES_MAX, KEPT_MAX, TIME_MS_MAX,
};
use super::buffering::Buffer;
use super::check_mount::index;
use super::error::{ValueError, shown};
use super::files::Files;
use super::print;
use super::reader::Reader;
use super::request_fields::{RequestFields, request_fields};
use super::schema::Kind::{Flag, Integer, Map, Size, Text, Time};
use super::schema_mount::{CGI, EXTERNAL, FASTCGI};
use super::settings::settings;
use super::symlinks::{Symlinks, symlinks};
use super::table::Table;
use super::units::{duration_text, size_text};
use super::upstream::{Upstream, address};
use super::upstream_timeouts::{Connecting, UpstreamTimeouts};
use super::value::Value;

/// A socket of PHP-FPM, as an example.
const PHP_SOCKET: &str = "unix:/run/php/php-fpm.sock";

settings! {
    /// Settings of requests to an application, whatever its protocol.
    #[derive(Eq)]
    pub struct GatewayCall: GATEWAY_CALL with EXTERNAL {
        /// Directory of internal files. The upstream or application names one in X-Accel-Redirect
        /// or X-Sendfile, and it is sent in place of the response's body.
        #[serde(serialize_with = "print::optional_path")]
        internal: Option<PathBuf> = None, Text("a directory"), "\"/srv/private\"",
            or "off", by |v, r| v.directory(r).map(Some);
        /// Variables for the application; they replace request variables of the same name.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        params: BTreeMap<String, String> = BTreeMap::new(), Map("a table of names and strings"),
            "{ APP_ENV = \"prod\" }", or "none", with &["fastcgi", "uwsgi", "cgi"], by |v, r| Some(params(v, r));
    }
    beside {
        /// Time limits of sending a request and of receiving its response.
        #[serde(flatten)]
        timeouts: UpstreamTimeouts = UpstreamTimeouts::default();
        /// Edits of the fields that it gets; `None`: as the client sent them.
        request_fields: Option<RequestFields> = None;
    }
}

settings! {
    /// A FastCGI application, the handler of a mount.
    #[derive(Eq)]
    pub struct FastCgi: FASTCGI_KEYS with FASTCGI {
        /// Directory of its scripts. Other files in it are served. Without it the application
        /// handles every path.
        #[serde(serialize_with = "print::optional_path")]
        root: Option<PathBuf> = None, Text("a directory"), "\"/srv/app/public\"",
            or "the application has no files", by |v, r| v.directory(r).map(Some);
        /// End of the names of scripts. Only existing files of such names are run, and they are
        /// never served.
        suffix: String = ".php".to_owned(), Text("the end of a file's name"), "\".phtml\"",
            by |v, r| v.parse(r, suffix);
        /// Run the first script of `index` in `root` for every path that is neither a file nor a
        /// script. `false`: such a path is not found (404).
        front_controller: bool = true, Flag, "false";
        /// Run that script for the paths of scripts that do not exist, too, as Caddy's
        /// `php_fastcgi` does. `false`: such a path is not found (404).
        front_for_scripts: bool = false, Flag, "true";
        /// Give the application the real path of `root` in `SCRIPT_FILENAME` and `DOCUMENT_ROOT`,
        /// so that a link to a new release is a new path for it. `false`: the path as written.
        real_path: bool = true, Flag, "false";
        /// Idle connections that each worker keeps. Each occupies a PHP-FPM child, which then
        /// serves no other connection.
        keep ("keep_connections"): usize = 0, Integer(0, KEPT_MAX), "4";
    }
    beside {
        /// Its addresses, which get requests in turn.
        #[serde(rename = "fastcgi", serialize_with = "print::plain_upstreams")]
        upstreams: Vec<Upstream> = Vec::new();
        /// Which symbolic links are followed, of scripts and of other files.
        symlinks: Symlinks = Symlinks::default();
        /// File names tried, in order, for a directory.
        index: Vec<String> = vec!["index.php".to_owned()];
        /// Bodies that are kept for slow clients.
        #[serde(flatten)]
        buffer: Buffer = Buffer::default();
        /// Time limits of connecting to it.
        #[serde(flatten)]
        connecting: Connecting = Connecting::default();
        /// Settings of its requests.
        #[serde(flatten)]
        call: GatewayCall = GatewayCall::default();
    }
}

/// A directory of CGI programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cgi {
    /// Directory of the programs: absolute path.
    #[serde(rename = "cgi", serialize_with = "print::path")]
    pub root: PathBuf,
    /// Resource limits of each program.
    #[serde(flatten)]
    pub limits: ProgramLimits,
    /// Settings of their requests.
    #[serde(flatten)]
    pub call: GatewayCall,
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

impl FastCgi {
    /// An application with default settings.
    pub fn new(upstreams: Vec<Upstream>) -> FastCgi {
        FastCgi { upstreams, ..FastCgi::default() }
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
    let mut fastcgi = FastCgi {
        upstreams: upstreams(written, PHP_SOCKET, reader),
        buffer: Buffer::read(table, reader),
        connecting: Connecting::read(table, reader),
        call: call(table, reader),
        ..FastCgi::read(table, reader)
    };
    table.set("symlinks", reader, symlinks, &mut fastcgi.symlinks);
    table.set("index", reader, index, &mut fastcgi.index);
    Some(fastcgi).filter(|fastcgi| !fastcgi.upstreams.is_empty())
}

/// Reads the keys of a mount of CGI programs; `written` is the value of `cgi`.
pub(super) fn cgi(table: &Table<'_>, written: &Value<'_>, reader: &mut Reader<'_>) -> Option<Cgi> {
    let (root, limits) = (written.directory(reader), ProgramLimits::read(table, reader));
    let call = call(table, reader);
    Some(Cgi { root: root?, limits, call })
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
    written.list(reader, |item, reader| upstream(item, example, reader))
}

/// Reads the keys that applications of every protocol have.
pub(super) fn call(table: &Table<'_>, reader: &mut Reader<'_>) -> GatewayCall {
    let fields = table.get("request_fields").and_then(|written| written.table(reader));
    GatewayCall {
        timeouts: UpstreamTimeouts::read(table, reader),
        request_fields: fields.map(|fields| request_fields(&fields, false, reader)),
        ..GatewayCall::read(table, reader)
    }
}

/// Reads the key of an authorizer.
pub(super) fn authorizer(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Upstream> {
    upstream(&table.get("authorizer")?, PHP_SOCKET, reader)
}

fn upstream(written: &Value<'_>, example: &str, reader: &mut Reader<'_>) -> Option<Upstream> {
    let text = written.text(reader)?;
    let read = address(text, example, |path| reader.absolute(path, written.spot.at));
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
