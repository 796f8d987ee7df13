//! Applications that are asked by FastCGI or CGI, and authorizers: the types of their configuration,
//! and reading them. Speaking to them is the handler's.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::check_mount::index;
use super::problem::{Wrong, shown};
use super::reader::Reader;
use super::table::Table;
use super::types::Files;
use super::upstream::{Upstream, address};
use super::value::Value;

/// A FastCGI application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastCgi {
    /// Where it listens.
    pub upstream: Upstream,
    /// The directory of its scripts, whose other files are served; `None`: it has none, and is asked
    /// for every path.
    pub root: Option<PathBuf>,
    /// Names tried, in order, when a directory is asked for; the root's first script of them answers
    /// for what is not there.
    pub index: Vec<String>,
    /// What the names of scripts end with; begins with a dot.
    pub suffix: String,
    /// Idle connections kept, by each worker.
    pub keep: usize,
    /// Where the files are that it may have sent by naming them; `None`: it may not.
    pub internal: Option<PathBuf>,
    /// How long it is waited for.
    pub patience: Patience,
    /// Variables beside the request's, or in their place.
    pub params: BTreeMap<String, String>,
}

/// A directory of CGI programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgi {
    /// The directory: absolute.
    pub root: PathBuf,
    /// Where the files are that programs may have sent by naming them; `None`: they may not.
    pub internal: Option<PathBuf>,
    /// How long a program is waited for.
    pub patience: Patience,
    /// Variables beside the request's, or in their place.
    pub params: BTreeMap<String, String>,
    /// What each may use.
    pub limits: ProgramLimits,
}

/// What a program may use; the processes that it starts have the same limits, each for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Time of a processor.
    pub cpu_time: Duration,
    /// Address space, in bytes.
    pub memory: u64,
    /// Descriptors.
    pub open_files: u64,
    /// Processes and threads of the server's user; `None`: any.
    pub processes: Option<u64>,
}

impl Default for ProgramLimits {
    fn default() -> ProgramLimits {
        ProgramLimits {
            cpu_time: Duration::from_secs(60),
            memory: 1 << 30,
            open_files: 1024,
            processes: None,
        }
    }
}

/// How long an application is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until it takes a connection.
    pub connect: Duration,
    /// How long it may take none of a request's bytes.
    pub send: Duration,
    /// From the request's last byte to the end of the answer's head.
    pub first_byte: Duration,
    /// Between two reads of an answer's body.
    pub read: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connect: Duration::from_secs(5),
            send: Duration::from_secs(30),
            first_byte: Duration::from_secs(60),
            read: Duration::from_secs(60),
        }
    }
}

impl FastCgi {
    /// An application with every choice at its default.
    pub fn new(upstream: Upstream) -> FastCgi {
        FastCgi {
            upstream,
            root: None,
            index: vec!["index.php".to_owned()],
            suffix: ".php".to_owned(),
            keep: 0,
            internal: None,
            patience: Patience::default(),
            params: BTreeMap::new(),
        }
    }

    /// The files beside its scripts, if it has any: whatever is no script.
    pub fn files_beside(&self) -> Option<Files> {
        let index = self.index.iter().filter(|name| !name.ends_with(&self.suffix));
        let index = index.cloned().collect();
        self.root.clone().map(|root| Files { index, ..Files::new(root) })
    }
}

/// Reads the keys of a FastCGI mount; `written` is the value of `fastcgi`.
pub(super) fn fastcgi(
    table: &Table<'_>,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<FastCgi> {
    let upstream = upstream(written, reader);
    let mut made = FastCgi::new(Upstream::Unix(PathBuf::new()));
    let f = &mut made;
    table.set("root", reader, |v, r| v.directory(r).map(Some), &mut f.root);
    table.set("index", reader, index, &mut f.index);
    table.set("suffix", reader, |v, r| v.parse(r, suffix), &mut f.suffix);
    table.set("keep_connections", reader, Value::integer, &mut f.keep);
    f.internal = internal(table, reader);
    f.patience = patience(table, reader);
    table.set("params", reader, |v, r| Some(params(v, r)), &mut f.params);
    Some(FastCgi { upstream: upstream?, ..made })
}

/// Reads the keys of a mount of CGI programs; `written` is the value of `cgi`.
pub(super) fn cgi(table: &Table<'_>, written: &Value<'_>, reader: &mut Reader<'_>) -> Option<Cgi> {
    let root = written.directory(reader);
    let (internal, patience) = (internal(table, reader), patience(table, reader));
    let mut made = BTreeMap::new();
    table.set("params", reader, |v, r| Some(params(v, r)), &mut made);
    let mut limits = ProgramLimits::default();
    table.set("cpu_time", reader, Value::duration, &mut limits.cpu_time);
    table.set("memory", reader, Value::size, &mut limits.memory);
    table.set("open_files", reader, Value::integer, &mut limits.open_files);
    table.set("processes", reader, |v, r| v.integer(r).map(Some), &mut limits.processes);
    Some(Cgi { root: root?, internal, patience, params: made, limits })
}

/// Reads the key of an authorizer.
pub(super) fn authorizer(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Upstream> {
    upstream(&table.get("authorizer")?, reader)
}

fn upstream(written: &Value<'_>, reader: &mut Reader<'_>) -> Option<Upstream> {
    let text = written.text(reader)?;
    let read = address(text, |path| reader.absolute(path));
    read.map_err(|wrong| written.wrong(reader, wrong)).ok()
}

fn internal(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<PathBuf> {
    table.get("internal")?.directory(reader)
}

fn patience(table: &Table<'_>, reader: &mut Reader<'_>) -> Patience {
    let mut patience = Patience::default();
    table.set("connect_timeout", reader, Value::duration, &mut patience.connect);
    table.set("send_timeout", reader, Value::duration, &mut patience.send);
    table.set("first_byte_timeout", reader, Value::duration, &mut patience.first_byte);
    table.set("read_timeout", reader, Value::duration, &mut patience.read);
    patience
}

fn suffix(text: &str) -> Result<String, Wrong> {
    let name = text.strip_prefix('.').filter(|name| !name.is_empty());
    match name {
        Some(name) if !name.contains(['/', '\0']) => Ok(text.to_owned()),
        _ => Err(Wrong::new(format!("{} is not the end of a file's name", shown(text)))
            .hint("write it with its dot, as in \".php\"")),
    }
}

fn params(written: &Value<'_>, reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let mut params = BTreeMap::new();
    for (name, spot, value) in written.pairs(reader) {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            let wrong = Wrong::new("not the name of a variable");
            reader.report(&spot, wrong.hint("write letters, digits and _, as in APP_ENV"));
        }
        let Some(text) = value.text(reader) else { continue };
        if text.contains('\0') {
            value.wrong(reader, Wrong::new("holds a NUL").hint("remove it"));
        }
        params.insert(name.to_owned(), text.to_owned());
    }
    params
}
