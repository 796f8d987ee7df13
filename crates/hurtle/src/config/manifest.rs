//! The manifest of an application that is deployed beside the configuration: what it may say, and
//! where that mounts it. Finding manifests, and starting what they name, is the server's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bounds::{
    APP_FILES_MAX, APP_FILES_MIN, APP_PROCESSES_MAX, BYTES_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN,
};
use super::check_mount::mount_path;
use super::host::{HostEntry, host_entry};
use super::names::names;
use super::problem::{Problem, Wrong, shown};
use super::reader::Reader;
use super::schema::Absent::{Is, Means, Required};
use super::schema::Kind::{Choice, Integer, List, Map, Size, Text, Time};
use super::schema::{Key, Section};
use super::table::Table;
use super::target::url_path;
use super::types::Config;
use super::upstream::{Proxy, Upstream, upstream};
use super::value::Value;

/// What goes with an application that is started here.
const COMMAND: &[&str] = &["command"];

/// What the names of variables begin with that the server sets itself.
const OWN_VARIABLES: &str = "HURTLE_";

#[rustfmt::skip] // A paragraph a key.
static MANIFEST: Section = Section {
    header: "app.toml",
    doc: "What to start, and where it answers.",
    keys: &[
        Key::new("path", Text("an absolute path"), Required, "\"/blog\"",
            "Where it is mounted."),
        Key::new("host", Text("a host name"), Means("the default site's, or the only one's"),
            "\"example.org\"", "The site it is mounted in, by one of its `hosts`."),
        Key::new("command", List("a program and its arguments"), Means("see `upstream`"),
            "[\"python3\", \"app.py\"]", "What to start, in the application's directory."),
        Key::new("socket", Choice(names::<SocketBy>), Is("\"stdin\""), "\"path\"",
            "How it is told where to listen.").with(COMMAND),
        Key::new("env", Map("a table of names and values"), Is("{}"), "{ LANG = \"C.UTF-8\" }",
            "Its environment, beside PATH and HURTLE_*.").with(COMMAND),
        Key::new("user", Text("a user's name"), Means("the server's"), "\"blog\"",
            "User it is started as; required where the server is root.").with(COMMAND),
        Key::new("start_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"30s\""), "\"2m\"",
            "How long it may take until it listens.").with(COMMAND),
        Key::new("open_files", Integer(APP_FILES_MIN, APP_FILES_MAX), Is("4096"), "65536",
            "Descriptors a process of it may have.").with(COMMAND),
        Key::new("memory", Size(1 << 20, BYTES_MAX), Means("unlimited"), "\"2 GiB\"",
            "Address space a process of it may have.").with(COMMAND),
        Key::new("processes", Integer(1, APP_PROCESSES_MAX), Means("unlimited"), "64",
            "Processes and threads its user may have.").with(COMMAND),
        Key::new("upstream", Text("an upstream"), Means("see `command`"),
            "\"http://127.0.0.1:9000\"", "Who answers, where somebody else starts it."),
        Key::new("health", Text("an absolute path"), Means("off"), "\"/blog/healthz\"",
            "The path asked to learn whether it is well."),
    ],
};

/// A manifest, checked against the server it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The number of its site.
    pub site: usize,
    /// Where it is mounted there; no mount of the configuration is.
    pub path: String,
    /// Who answers.
    pub runs: Runs,
    /// The path asked to learn whether it is well; `None`: nothing is asked.
    pub health: Option<String>,
}

/// Who answers for an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runs {
    /// What is started.
    Here(Start),
    /// What somebody else has started.
    Elsewhere(Upstream),
}

/// How an application is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    /// How it is told where to listen.
    pub socket: SocketBy,
    /// Its environment, in the order written.
    pub env: Vec<(String, String)>,
    /// The user it is started as; `None`: the server's.
    pub user: Option<String>,
    /// How long it may take until it listens.
    pub start_timeout: Duration,
    /// Descriptors a process may have.
    pub open_files: u64,
    /// Bytes of address space a process may have; `None`: any.
    pub memory: Option<u64>,
    /// Processes and threads its user may have; `None`: any.
    pub processes: Option<u64>,
}

/// How an application is told where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SocketBy {
    /// Its descriptor 0 is a socket that listens.
    #[default]
    Stdin,
    /// It listens on the path in HURTLE_SOCKET.
    Path,
}

/// The manifest that a text says for a server of this configuration, or every problem in it;
/// relative paths are relative to the directory of `file`.
pub fn manifest(text: &str, file: &Path, config: &Config) -> Result<Manifest, Vec<Problem>> {
    let mut reader = Reader::new(text, file);
    let document = reader.parse();
    let table = Table::top(&document, &MANIFEST, &mut reader);
    let manifest = read(&table, config, &mut reader);
    match reader.finish(manifest)? {
        Some(manifest) => Ok(manifest),
        // Whatever kept it from being read has been told.
        None => Err(Vec::new()),
    }
}

fn read(table: &Table<'_>, config: &Config, reader: &mut Reader<'_>) -> Option<Manifest> {
    let site = site(table, config, reader);
    let written = table.get("path");
    if written.is_none() {
        let wrong = Wrong::new("path is missing").hint("write for example path = \"/blog\"");
        reader.report_missing(&table.spot, wrong);
    }
    let path = written.as_ref().and_then(|value| value.parse(reader, mount_path));
    if let (Some(written), Some(site), Some(path)) = (&written, site, &path)
        && config.sites[site].mounts.iter().any(|mount| mount.path == *path)
    {
        let wrong = Wrong::new(format!("{} is a mount of the configuration", shown(path)));
        written.wrong(reader, wrong.hint("choose another path"));
    }
    let mut health = None;
    table.set("health", reader, |v, r| v.parse(r, url_path).map(Some), &mut health);
    let runs = runs(table, reader);
    Some(Manifest { site: site?, path: path?, runs: runs?, health })
}

/// The site it is for.
fn site(table: &Table<'_>, config: &Config, reader: &mut Reader<'_>) -> Option<usize> {
    let default = config.sites.iter().position(|site| site.default);
    let Some(written) = table.get("host") else {
        let only = (config.sites.len() == 1).then_some(0);
        if default.or(only).is_none() {
            let wrong = Wrong::new("host is missing, and no site is the default");
            reader.report_missing(&table.spot, wrong.hint("write a host name of a site"));
        }
        return default.or(only);
    };
    let found = match written.parse(reader, host_entry)? {
        HostEntry::Any => default,
        HostEntry::Name(name) => config.sites.iter().position(|site| site.hosts.contains(&name)),
    };
    if found.is_none() {
        let wrong = Wrong::new("no site of the configuration has this name");
        written.wrong(reader, wrong.hint("write one of hosts, as it stands there"));
    }
    found
}

fn runs(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Runs> {
    match (table.get("command"), table.get("upstream")) {
        (Some(command), None) => start(table, &command, reader).map(Runs::Here),
        (None, Some(written)) => {
            table.check_companions(reader);
            let text = written.text(reader)?;
            let read = upstream(text, |path| reader.absolute(path));
            read.map(Runs::Elsewhere).map_err(|wrong| written.wrong(reader, wrong)).ok()
        }
        (Some(_), Some(second)) => {
            let wrong = Wrong::new("an application is started or runs elsewhere, not both");
            second.wrong(reader, wrong.hint("remove command or upstream"));
            None
        }
        (None, None) => {
            let wrong = Wrong::new("there is nothing to start");
            reader.report_missing(&table.spot, wrong.hint("write command =, or upstream ="));
            None
        }
    }
}

fn start(table: &Table<'_>, written: &Value<'_>, reader: &mut Reader<'_>) -> Option<Start> {
    let command = written.list(reader, |item, reader| item.parse(reader, without_nul));
    if command.first().is_none_or(String::is_empty) {
        let wrong = Wrong::new("there is no program");
        written.wrong(reader, wrong.hint("write for example command = [\"python3\", \"app.py\"]"));
        return None;
    }
    let mut start = Start {
        command,
        socket: SocketBy::default(),
        env: Vec::new(),
        user: None,
        start_timeout: Duration::from_secs(30),
        open_files: 4_096,
        memory: None,
        processes: None,
    };
    let s = &mut start;
    table.set("socket", reader, Value::choice, &mut s.socket);
    table.set("env", reader, |v, r| Some(variables(v, r)), &mut s.env);
    table.set("user", reader, |v, r| v.parse(r, without_nul).map(Some), &mut s.user);
    table.set("start_timeout", reader, Value::duration, &mut s.start_timeout);
    table.set("open_files", reader, Value::integer, &mut s.open_files);
    table.set("memory", reader, |v, r| v.size(r).map(Some), &mut s.memory);
    table.set("processes", reader, |v, r| v.integer(r).map(Some), &mut s.processes);
    Some(start)
}

fn variables(written: &Value<'_>, reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (name, spot, value) in written.pairs(reader) {
        if name.is_empty() || name.contains(['=', '\0']) || name.starts_with(OWN_VARIABLES) {
            let wrong = Wrong::new(format!("{} is no name for a variable", shown(name)));
            let hint = format!("no =, and not {OWN_VARIABLES} in front, which the server sets");
            reader.report(&spot, wrong.hint(hint));
        }
        variables.extend(value.parse(reader, without_nul).map(|value| (name.to_owned(), value)));
    }
    variables
}

fn without_nul(text: &str) -> Result<String, Wrong> {
    match text.contains('\0') {
        true => Err(Wrong::new(format!("{} holds a NUL", shown(text))).hint("remove it")),
        false => Ok(text.to_owned()),
    }
}

impl Manifest {
    /// What passes requests on to it; `socket`: where it listens if it is started here.
    pub fn proxy(&self, socket: &Path) -> Proxy {
        let upstream = match &self.runs {
            Runs::Here(_) => Upstream::Unix(PathBuf::from(socket)),
            Runs::Elsewhere(upstream) => upstream.clone(),
        };
        Proxy { health: self.health.clone(), ..Proxy::new(vec![upstream]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check;

    const CONFIG: &str = r#"
        apps = "apps"
        [[site]]
        default = true
        mount = [{ path = "/files", files = "public" }]
        [[site]]
        hosts = "b.example"
    "#;

    fn read(text: &str) -> Result<Manifest, String> {
        let config = check(CONFIG, Path::new("/etc/hurtle.toml")).expect("it is right");
        let read = manifest(text, Path::new("/srv/apps/a/app.toml"), &config);
        read.map_err(|problems| {
            let told: Vec<String> = problems.iter().map(|problem| problem.what.clone()).collect();
            told.join("; ")
        })
    }

    #[test]
    fn what_is_said_is_read_and_what_is_not_has_its_default() {
        let short = read("path = \"/a/\"\ncommand = \"./run\"").expect("it is right");
        assert_eq!((short.site, short.path.as_str()), (0, "/a"));
        let Runs::Here(start) = short.runs else { panic!("it is started") };
        assert_eq!((start.socket, start.open_files, start.memory), (SocketBy::Stdin, 4_096, None));
        let long = "path = \"/\"\nhost = \"b.example\"\ncommand = [\"a\", \"b c\"]\n\
                    socket = \"path\"\nenv = { X = \"1\" }\nuser = \"u\"\nmemory = \"1 GiB\"\n\
                    start_timeout = \"2s\"\nopen_files = 100\nprocesses = 3\nhealth = \"/ok\"";
        let long = read(long).expect("it is right");
        assert_eq!((long.site, long.health.as_deref()), (1, Some("/ok")));
        let Runs::Here(start) = long.runs else { panic!("it is started") };
        assert_eq!(start.command, ["a", "b c"]);
        assert_eq!(start.env, [("X".to_owned(), "1".to_owned())]);
        assert_eq!((start.memory, start.processes), (Some(1 << 30), Some(3)));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let table = [
            ("nothing", "", "path is missing; there is nothing to start"),
            (
                "a mount's path",
                "path = \"/files\"\ncommand = \"a\"",
                "\"/files\" is a mount of the configuration",
            ),
            (
                "no such site",
                "path = \"/a\"\nhost = \"c.example\"\ncommand = \"a\"",
                "no site of the configuration has this name",
            ),
            (
                "both",
                "path = \"/a\"\ncommand = \"a\"\nupstream = \"http://a\"",
                "an application is started or runs elsewhere, not both",
            ),
            (
                "a key of the other",
                "path = \"/a\"\nuser = \"u\"\nupstream = \"http://a\"",
                "goes with \"command\" only",
            ),
            ("no program", "path = \"/a\"\ncommand = []", "there is no program"),
            (
                "the server's variable",
                "path = \"/a\"\ncommand = \"a\"\nenv = { HURTLE_X = \"\" }",
                "\"HURTLE_X\" is no name for a variable",
            ),
            ("a slip", "path = \"/a\"\ncomand = \"a\"\ncommand = \"a\"", "unknown key"),
            ("no TOML", "path", "key with no value"),
        ];
        for (sentence, text, what) in table {
            let told = read(text).expect_err(sentence);
            assert!(told.starts_with(what), "{sentence}: {told}");
        }
    }
}
