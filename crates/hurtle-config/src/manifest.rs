//! The manifest of a deployed application (`app.toml`). `hurtle::apps` finds manifests and
//! starts the applications.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bounds::{
    APP_FILES_MAX, APP_FILES_MIN, APP_PROCESSES_MAX, BYTES_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN,
};
use super::check_mount::mount_path;
use super::error::{ConfigError, ValueError, shown};
use super::health_check::HealthCheck;
use super::host::{HostEntry, host_entry};
use super::names::names;
use super::reader::Reader;
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Choice, Integer, List, Map, Size, Text, Time};
use super::schema::{Key, Section};
use super::sources::Sources;
use super::table::Table;
use super::target::url_path;
use super::types::{Config, Site};
use super::upstream::{Proxy, Upstream, upstream};
use super::value::Value;

/// Keys that need `command`.
const COMMAND: &[&str] = &["command"];

/// Prefix of the variables that only the server sets.
const OWN_VARIABLES: &str = "HURTLE_";

#[rustfmt::skip] // One paragraph for each key.
static MANIFEST: Section = Section {
    header: "app.toml",
    doc: "The process of an application and its mount.",
    keys: &[&[
        Key::new("path", Text("an absolute path"), Required, "\"/blog\"",
            "Path of its mount."),
        Key::new("host", Text("a host name"), Words("the default site's, or the only one's"),
            "\"example.org\"", "Its site, by one of the site's `hosts`."),
        Key::new("command", List("a program and its arguments"), Words("see `upstream`"),
            "[\"python3\", \"app.py\"]", "Command to start, in the application's directory."),
        Key::new("socket", Choice(names::<SocketPassing>), Toml("\"stdin\""), "\"path\"",
            "Method of passing its listening socket.").with(COMMAND),
        Key::new("env", Map("a table of names and values"), Toml("{}"), "{ LANG = \"C.UTF-8\" }",
            "Environment variables, in addition to PATH and HURTLE_*.").with(COMMAND),
        Key::new("user", Text("a user's name"), Words("the server's"), "\"blog\"",
            "User that backend it; required where the server is root.").with(COMMAND),
        Key::new("start_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"30s\""), "\"2m\"",
            "Time limit until it listens.").with(COMMAND),
        Key::new("open_files", Integer(APP_FILES_MIN, APP_FILES_MAX), Toml("4096"), "65536",
            "Open file descriptors of each process.").with(COMMAND),
        Key::new("memory", Size(1 << 20, BYTES_MAX), Words("unlimited"), "\"2 GiB\"",
            "Address space of each process.").with(COMMAND),
        Key::new("processes", Integer(1, APP_PROCESSES_MAX), Words("unlimited"), "64",
            "Processes and threads of its user.").with(COMMAND),
        Key::new("upstream", Text("an upstream"), Words("see `command`"),
            "\"http://127.0.0.1:9000\"", "Address of an application that is started elsewhere."),
        Key::new("health", Text("an absolute path"), Words("off"), "\"/blog/healthz\"",
            "Path of health checks."),
    ]],
};

/// A manifest, checked against the configuration of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Name of its site ([`Site::name`](super::Site::name)).
    pub site: String,
    /// Path of its mount; the configuration has no mount there.
    pub path: String,
    /// The server process that handles its requests.
    pub backend: AppBackend,
    /// Path of its health checks; `None`: none are made.
    pub health: Option<String>,
}

/// The process that handles an application's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppBackend {
    /// A process that this server starts.
    Started(AppCommand),
    /// A process started elsewhere.
    External(Upstream),
}

/// Command, environment and limits of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCommand {
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    /// Method of passing the socket to it.
    pub socket: SocketPassing,
    /// Additional environment variables, in the order written.
    pub env: Vec<(String, String)>,
    /// User that runs it; `None`: the server's.
    pub user: Option<String>,
    /// Time limit until it accepts connections.
    pub start_timeout: Duration,
    /// Open file descriptors of a process.
    pub open_files: u64,
    /// Address space of a process, in bytes; `None`: unlimited.
    pub memory: Option<u64>,
    /// Processes and threads of its user; `None`: unlimited.
    pub processes: Option<u64>,
}

/// Method of passing the listening socket to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SocketPassing {
    /// Descriptor 0 is the listening socket.
    #[default]
    Stdin,
    /// The application binds the path in HURTLE_SOCKET.
    Path,
}

/// Parses a manifest for a server of this configuration. Relative paths are relative to the
/// directory of `file`.
///
/// # Errors
/// Every problem in the text.
pub fn manifest(text: &str, file: &Path, config: &Config) -> Result<Manifest, Vec<ConfigError>> {
    let sources = Sources::new(text, file);
    let mut reader = Reader::new(&sources);
    let document = reader.parse(sources.main());
    let table = Table::document(&document, &MANIFEST, &mut reader);
    let manifest = read(&table, config, &mut reader);
    match reader.finish(manifest)? {
        Some(manifest) => Ok(manifest),
        // The problems are reported already.
        None => Err(Vec::new()),
    }
}

fn read(table: &Table<'_>, config: &Config, reader: &mut Reader<'_>) -> Option<Manifest> {
    let site = site(table, config, reader);
    let written = table.get("path");
    if written.is_none() {
        let wrong = ValueError::new("path is missing").hint("write for example path = \"/blog\"");
        reader.report_missing(&table.spot, wrong);
    }
    let path = written.as_ref().and_then(|value| value.parse(reader, mount_path));
    if let (Some(written), Some(site), Some(path)) = (&written, site, &path)
        && config.sites[site].mounts.iter().any(|mount| mount.is_at(path))
    {
        let wrong = ValueError::new(format!("{} is a mount of the configuration", shown(path)));
        written.report(reader, wrong.hint("choose another path"));
    }
    let mut health = None;
    table.set("health", reader, |v, r| v.parse(r, url_path).map(Some), &mut health);
    let backend = backend(table, reader);
    let site = config.sites[site?].name();
    Some(Manifest { site, path: path?, backend: backend?, health })
}

/// Finds the index of its site.
fn site(table: &Table<'_>, config: &Config, reader: &mut Reader<'_>) -> Option<usize> {
    // A site of some listeners is seldom the public one: it may have the status page.
    let is_of_all = |site: &Site| site.listen.is_empty();
    let any = !config.sites.iter().any(is_of_all);
    let sites = || config.sites.iter().enumerate().filter(|(_, site)| any || is_of_all(site));
    let default = sites().find(|(_, site)| site.default).map(|(at, _)| at);
    let Some(written) = table.get("host") else {
        let only = sites().next().filter(|_| sites().count() == 1).map(|(at, _)| at);
        if default.or(only).is_none() {
            let wrong = ValueError::new("host is missing, and there is no default site");
            reader.report_missing(&table.spot, wrong.hint("write a host name of a site"));
        }
        return default.or(only);
    };
    let found = match written.parse(reader, host_entry)? {
        HostEntry::Any => default,
        HostEntry::Name(name) => config.sites.iter().position(|site| site.hosts.contains(&name)),
    };
    if found.is_none() {
        let wrong = ValueError::new("no site of the configuration has this name");
        written.report(reader, wrong.hint("write a name of `hosts` exactly"));
    }
    found
}

fn backend(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<AppBackend> {
    match (table.get("command"), table.get("upstream")) {
        (Some(command), None) => start(table, &command, reader).map(AppBackend::Started),
        (None, Some(written)) => {
            table.check_companions(reader);
            let text = written.text(reader)?;
            let read = upstream(text, |path| reader.absolute(path, written.spot.at));
            read.map(AppBackend::External).map_err(|wrong| written.report(reader, wrong)).ok()
        }
        (Some(_), Some(second)) => {
            let wrong = ValueError::new("an application has a command or an upstream, not both");
            second.report(reader, wrong.hint("remove command or upstream"));
            None
        }
        (None, None) => {
            let wrong = ValueError::new("there is no command and no upstream");
            reader.report_missing(&table.spot, wrong.hint("write command =, or upstream ="));
            None
        }
    }
}

fn start(table: &Table<'_>, written: &Value<'_>, reader: &mut Reader<'_>) -> Option<AppCommand> {
    let command = written.list(reader, |item, reader| item.parse(reader, without_nul));
    if command.first().is_none_or(String::is_empty) {
        let wrong = ValueError::new("there is no program");
        written.report(reader, wrong.hint("write for example command = [\"python3\", \"app.py\"]"));
        return None;
    }
    let mut start = AppCommand {
        command,
        socket: SocketPassing::default(),
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
            let wrong = ValueError::new(format!("{} is not a variable name", shown(name)));
            let hint = format!(
                "a name has no = and does not begin with {OWN_VARIABLES}, which the server sets"
            );
            reader.report(&spot, wrong.hint(hint));
        }
        variables.extend(value.parse(reader, without_nul).map(|value| (name.to_owned(), value)));
    }
    variables
}

fn without_nul(text: &str) -> Result<String, ValueError> {
    match text.contains('\0') {
        true => Err(ValueError::new(format!("{} holds a NUL", shown(text))).hint("remove it")),
        false => Ok(text.to_owned()),
    }
}

impl Manifest {
    /// The proxy settings for its requests. `socket` is its address if it is started here.
    pub fn proxy(&self, socket: &Path) -> Proxy {
        let upstream = match &self.backend {
            AppBackend::Started(_) => Upstream::Unix(PathBuf::from(socket)),
            AppBackend::External(upstream) => upstream.clone(),
        };
        Proxy {
            health: self.health.clone().map(HealthCheck::new),
            ..Proxy::new(vec![upstream.into()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

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
            let message: Vec<String> =
                problems.iter().map(|problem| problem.what.clone()).collect();
            message.join("; ")
        })
    }

    #[test]
    fn a_manifest_is_parsed_with_defaults() {
        let short = read("path = \"/a/\"\ncommand = \"./run\"").expect("it is right");
        assert_eq!((short.site.as_str(), short.path.as_str()), ("*", "/a"));
        let AppBackend::Started(start) = short.backend else { panic!("it is started") };
        assert_eq!(
            (start.socket, start.open_files, start.memory),
            (SocketPassing::Stdin, 4_096, None)
        );
        let long = "path = \"/\"\nhost = \"b.example\"\ncommand = [\"a\", \"b c\"]\n\
                    socket = \"path\"\nenv = { X = \"1\" }\nuser = \"u\"\nmemory = \"1 GiB\"\n\
                    start_timeout = \"2s\"\nopen_files = 100\nprocesses = 3\nhealth = \"/ok\"";
        let long = read(long).expect("it is right");
        assert_eq!((long.site.as_str(), long.health.as_deref()), ("b.example", Some("/ok")));
        let AppBackend::Started(start) = long.backend else { panic!("it is started") };
        assert_eq!(start.command, ["a", "b c"]);
        assert_eq!(start.env, [("X".to_owned(), "1".to_owned())]);
        assert_eq!((start.memory, start.processes), (Some(1 << 30), Some(3)));
    }

    #[test]
    fn a_wrong_manifest_is_refused() {
        let table = [
            ("nothing", "", "path is missing; there is no command and no upstream"),
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
                "an application has a command or an upstream, not both",
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
                "\"HURTLE_X\" is not a variable name",
            ),
            ("a slip", "path = \"/a\"\ncomand = \"a\"\ncommand = \"a\"", "unknown key"),
            ("no TOML", "path", "key with no value"),
        ];
        for (sentence, text, what) in table {
            let message = read(text).expect_err(sentence);
            assert!(message.starts_with(what), "{sentence}: {message}");
        }
    }
}
