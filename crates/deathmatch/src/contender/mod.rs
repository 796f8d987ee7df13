//! Contenders as data: what each is, how it is found, prepared and started, and the reasons for its
//! settings. Each is a folder under arena/contenders, embedded in this program, or in a folder that
//! the user names.
//!
//! `process` runs them; `verify` compares their responses with the files.

mod catalogue;
mod embedded;
mod install;
mod prepare;
mod probe;
mod template;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

pub use catalogue::{Catalogue, CatalogueError};
pub use install::{Step, install};
pub use prepare::{Prepared, Site};
pub use probe::ProbeError;

/// One web server and how it is run. Texts may contain `{BIN}` (the executable), `{WORK}` (its own
/// folder), `{DOCROOT}`, `{PORT}`, `{NEXT_PORT}`, `{CERTIFICATE}`, `{KEY}`, `{CORES}`, `{WORKERS}`,
/// `{TITLE}`, `{USER}` and `{GROUP}` (which a server started by root becomes) and the names under
/// `vars`. A line that begins with `{ROOT}` counts only if started by root, one that begins with
/// `{UPLOADS}` only if the work uploads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contender {
    /// Its name on the command line and in samples.
    pub name: String,
    /// Its name in the report.
    pub title: String,
    /// Debian packages that contain it and the tools that build it.
    pub packages: Vec<String>,
    /// Commands that install it in addition to its packages.
    #[serde(default)]
    pub install: Vec<Vec<String>>,
    /// Installation instructions, for a server that no package provides.
    #[serde(default)]
    pub hint: Option<String>,
    /// Programs (in PATH) or files it needs in addition to its executable.
    #[serde(default)]
    pub needs: Vec<String>,
    /// `true` if only root can run it.
    #[serde(default)]
    pub root: bool,
    /// `{BIN}`: a program in PATH, or the file that `build` makes.
    pub executable: String,
    /// `true` if it is searched beside this program first.
    #[serde(default)]
    pub sibling: bool,
    /// Files that are written into its folder.
    #[serde(default)]
    pub files: Vec<File>,
    /// Commands that build its executable from them.
    #[serde(default)]
    pub build: Vec<Vec<String>>,
    /// Command that starts it in the foreground.
    pub start: Vec<String>,
    /// Environment variables, in addition to this program's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The path of a file, with `{FILE}` for its name.
    pub url: String,
    /// `true` if it speaks TLS only, with the run's certificate: `{CERTIFICATE}` and `{KEY}`.
    #[serde(default)]
    pub tls: bool,
    /// `true` if it also speaks HTTP/2 over TLS.
    #[serde(default)]
    pub http2: bool,
    /// `true` if it speaks HTTP/3 on the same port over UDP.
    #[serde(default)]
    pub http3: bool,
    /// `true` if it runs an application, which answers `hello` with a text.
    #[serde(default)]
    pub app: bool,
    /// Its settings for uploads; `None` if it takes none.
    #[serde(default)]
    pub uploads: Option<Uploads>,
    /// Seconds until it must answer a file with 200.
    pub ready_s: u64,
    /// Logs it writes in addition to its standard output and error.
    #[serde(default)]
    pub logs: Vec<String>,
    /// Its upstream contender, at 127.0.0.1:`{NEXT_PORT}`: started with it, on the same processors,
    /// and not counted.
    #[serde(default)]
    pub upstream: Option<String>,
    /// Another program of this project that it starts itself: `{HELPER}`.
    #[serde(default)]
    pub helper: Option<String>,
    /// Additional names for the texts.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// The command that prints its version.
    pub version: Version,
    /// The signal that stops it, and a time limit.
    pub stop: Stop,
    /// The signal that makes it reload its configuration; `None` if it cannot, or only otherwise.
    #[serde(default)]
    pub reload: Option<ReloadSignal>,
    /// Settings chosen for speed, with reasons.
    pub tuned: Vec<Tuned>,
    /// Notes that a reader of its figures must know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// An executable given on the command line.
    #[serde(skip)]
    pub chosen: Option<PathBuf>,
    /// Directory in which it is started; `None`: its own folder.
    #[serde(skip)]
    pub dir: Option<PathBuf>,
    /// Texts of `files` that are not built in, by `from`.
    #[serde(skip)]
    pub texts: BTreeMap<String, String>,
}

/// A file to be written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its text, under arena/contenders or the user's folder.
    pub from: String,
    /// Its name in the contender's folder.
    pub to: String,
}

/// Configuration for uploads by PUT. The server stores them in `{WORK}/up`. When it starts, that
/// directory exists, is empty and belongs to the server's user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uploads {
    /// The path of an upload, with `{FILE}` for its name.
    pub url: String,
    /// Files without which it takes no uploads.
    #[serde(default)]
    pub needs: Vec<String>,
    /// `true`: it discards the bodies of uploads.
    #[serde(default)]
    pub drops: bool,
}

/// A command that prints a version, and the position of the version in its output.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Prints the version, on standard output or error.
    pub command: Vec<String>,
    /// Text in front of the version.
    pub after: String,
    /// Text behind the version; default: the end of the line.
    #[serde(default)]
    pub until: Option<String>,
}

/// The signal that stops a server, and a time limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Signal for its first process.
    pub signal: StopSignal,
    /// `true` if all its processes get the signal, as those of a shell do at a terminal.
    #[serde(default)]
    pub all: bool,
    /// Seconds until it is killed.
    pub grace_s: u64,
}

/// Signals that servers take as a request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
}

/// Signals that servers take as a request to reload their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ReloadSignal {
    /// SIGHUP.
    Hup,
    /// SIGUSR1.
    Usr1,
}

/// A setting and its reason.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// The setting, spelt as in its documentation.
    pub setting: String,
    /// Reason for the setting.
    pub why: String,
}

impl Contender {
    /// All contenders, in the order of the deck, then today's.
    pub fn all() -> Vec<Contender> {
        // The files are part of this program, and a test reads them all.
        embedded::CONTENDERS.iter().filter_map(|name| Contender::by_name(name)).collect()
    }

    /// The contender of this name.
    pub fn by_name(name: &str) -> Option<Contender> {
        let text = embedded::text(&format!("{name}/contender.toml"))?;
        toml::from_str(text).ok()
    }

    /// The text of one of its files.
    fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str).or_else(|| embedded::text(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_built_in_and_can_be_read() {
        for name in embedded::CONTENDERS {
            let text = embedded::text(&format!("{name}/contender.toml")).unwrap();
            let contender: Contender =
                toml::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(contender.name, *name);
            assert!(contender.url.contains("{FILE}"), "{name}: a path needs a file");
            assert!(!contender.tuned.is_empty(), "{name}: how it is set must be said");
            let no_way = contender.packages.is_empty() && contender.hint.is_none();
            assert!(!no_way, "{name}: how it is installed must be said");
            let upstream = contender.upstream.as_deref();
            assert!(upstream.is_none_or(|name| embedded::CONTENDERS.contains(&name)), "{name}");
            for file in &contender.files {
                assert!(
                    embedded::text(&file.from).is_some(),
                    "{name}: {} is not built in",
                    file.from
                );
            }
        }
        assert_eq!(Contender::all().len(), embedded::CONTENDERS.len());
    }
}
