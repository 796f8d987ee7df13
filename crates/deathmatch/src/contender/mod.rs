//! Contenders as data: what each is, how it is found, prepared and started, and the reasons for its
//! settings. Each is a folder under arena/contenders, embedded in this program.
//!
//! `process` runs them; `verify` compares their responses with the files.

mod embedded;
mod install;
mod prepare;
mod probe;
mod template;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

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
    /// Settings chosen for speed, with reasons.
    pub tuned: Vec<Tuned>,
    /// Notes that a reader of its figures must know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// An executable given on the command line.
    #[serde(skip)]
    pub chosen: Option<PathBuf>,
}

/// A file to be written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its text, under arena/contenders.
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
    /// It discards uploads.
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

/// A setting and its reason.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// The setting, spelt as in its documentation.
    pub setting: String,
    /// Reason for the setting.
    pub why: String,
}

/// An argument of `--contender` that names no contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideError(pub String);

impl std::fmt::Display for OverrideError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OverrideError {}

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

    /// The contender of `NEW=NAME:/path/to/executable` or `NEW=NAME`: NAME with another name and,
    /// if given, another executable.
    pub fn overridden(words: &str) -> Result<Contender, OverrideError> {
        let bad = |why: &str| OverrideError(format!("--contender {words}: {why}"));
        let (new, rest) = words.split_once('=').ok_or_else(|| {
            bad("write NEW=NAME:/path/to/executable, such as old=nginx:/opt/nginx")
        })?;
        let (name, path) = match rest.split_once(':') {
            Some((name, path)) => (name, Some(path)),
            None => (rest, None),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if new.is_empty() || new.starts_with('.') || !new.chars().all(is_plain) {
            return Err(bad("a new name is letters, digits, `-`, `_` and `.`"));
        }
        let unknown = || {
            bad(&format!("no contender `{name}`; there are {}", embedded::CONTENDERS.join(", ")))
        };
        let mut contender = Contender::by_name(name).ok_or_else(unknown)?;
        if new != name {
            contender.title = format!("{} ({new})", contender.title);
            contender.name = new.to_owned();
        }
        if let Some(path) = path {
            let whole = std::path::absolute(path).map_err(|e| bad(&e.to_string()))?;
            contender.chosen = Some(whole);
        }
        Ok(contender)
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

    #[test]
    fn an_override_is_the_same_contender_under_another_name() {
        let old = Contender::overridden("old=nginx:/opt/nginx").unwrap();
        assert_eq!((&*old.name, &*old.title), ("old", "nginx (sendfile) (old)"));
        assert_eq!(old.chosen, Some("/opt/nginx".into()));
        let twin = Contender::overridden("twin=nginx").unwrap();
        assert_eq!((&*twin.name, twin.chosen), ("twin", None));
        let same = Contender::overridden("hurtle=hurtle:/opt/hurtle").unwrap();
        assert_eq!((&*same.name, &*same.title), ("hurtle", "Hurtle"));
        let rows: &[(&str, &str, &str)] = &[
            ("no name", "nginx:/opt/nginx", "write NEW=NAME"),
            ("a name that leaves its folder", "../x=nginx:/opt/nginx", "a new name is"),
            ("an unknown contender", "old=iis:/opt/iis", "no contender `iis`"),
        ];
        for (sentence, words, expected) in rows {
            let error = Contender::overridden(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{sentence}: {error}");
        }
    }
}
