//! Contenders as data: what each is, how it is found, prepared and started, and why it is set as it
//! is. One folder each under arena/contenders, built into this program so that it works alone.
//!
//! Processes are `process`'s business; what a server answers is held against the files by `verify`.

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
pub use probe::Missing;

/// One web server and how it is run. Texts may hold `{BIN}` (the executable), `{WORK}` (its own
/// folder), `{DOCROOT}`, `{PORT}`, `{NEXT_PORT}`, `{CERTIFICATE}`, `{KEY}`, `{CORES}`, `{WORKERS}`, `{TITLE}`, `{USER}` and `{GROUP}` (whom
/// a server started by root becomes) and the names under `vars`; a line that begins with `{ROOT}`
/// counts only when started by root, one that begins with `{UPLOADS}` only where the work uploads.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contender {
    /// As it is called on the command line and in samples.
    pub name: String,
    /// As it is called in the report.
    pub title: String,
    /// Debian packages that hold it and what builds it.
    pub packages: Vec<String>,
    /// What it is installed by beside its packages; each a command.
    #[serde(default)]
    pub install: Vec<Vec<String>>,
    /// How it is installed where no package holds it.
    #[serde(default)]
    pub hint: Option<String>,
    /// Programs (in PATH) or files it needs beside its executable.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whether only root can run it.
    #[serde(default)]
    pub root: bool,
    /// `{BIN}`: a program in PATH, or the file that `build` makes.
    pub executable: String,
    /// Whether it is looked for beside this program first.
    #[serde(default)]
    pub sibling: bool,
    /// What is written into its folder.
    #[serde(default)]
    pub files: Vec<File>,
    /// What makes its executable out of them; each a command.
    #[serde(default)]
    pub build: Vec<Vec<String>>,
    /// What starts it in the foreground.
    pub start: Vec<String>,
    /// Set for it beside this program's own environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The path of a file, with `{FILE}` for its name.
    pub url: String,
    /// Whether it speaks TLS, and nothing in clear, with the run's certificate: `{CERTIFICATE}` and `{KEY}`.
    #[serde(default)]
    pub tls: bool,
    /// Whether it speaks HTTP/2 over TLS, too.
    #[serde(default)]
    pub http2: bool,
    /// Whether it runs an application, which answers `hello` with a text.
    #[serde(default)]
    pub app: bool,
    /// How it takes files, if it does.
    #[serde(default)]
    pub uploads: Option<Uploads>,
    /// It is ready when it answers a file with 200; seconds this may take.
    pub ready_s: u64,
    /// Logs it writes beside its standard output and error.
    #[serde(default)]
    pub logs: Vec<String>,
    /// The contender it passes all requests on to, at 127.0.0.1:`{NEXT_PORT}`: started with it, on the same
    /// processors, and not counted.
    #[serde(default)]
    pub upstream: Option<String>,
    /// Another program of this project that it starts itself: `{HELPER}`.
    #[serde(default)]
    pub helper: Option<String>,
    /// Names of its own for the texts.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// How its version is found out.
    pub version: Version,
    /// How it is stopped.
    pub stop: Stop,
    /// What was set for speed, and why.
    pub tuned: Vec<Tuned>,
    /// What a reader of its figures must know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Another executable, given on the command line.
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

/// How a server takes files by PUT. Where it stores them is `{WORK}/up`, which is there, empty and
/// its own when it starts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uploads {
    /// The path of an upload, with `{FILE}` for its name.
    pub url: String,
    /// Files without which it takes none.
    #[serde(default)]
    pub needs: Vec<String>,
    /// It drops what it takes.
    #[serde(default)]
    pub drops: bool,
}

/// How a version is found out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Prints it, on standard output or error.
    pub command: Vec<String>,
    /// What stands before it.
    pub after: String,
    /// What stands behind it; the end of the line, if nothing is said.
    #[serde(default)]
    pub until: Option<String>,
}

/// How a server is stopped.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// What its first process is told.
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
    /// As its own documentation spells it.
    pub setting: String,
    /// What it is for.
    pub why: String,
}

/// Words after `--contender` that name none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOverride(pub String);

impl std::fmt::Display for BadOverride {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadOverride {}

impl Contender {
    /// Every contender there is, in the order of the deck, then those of today.
    pub fn all() -> Vec<Contender> {
        // The texts are part of this program, and a test reads them all.
        embedded::CONTENDERS.iter().filter_map(|name| Contender::named(name)).collect()
    }

    /// The contender of this name.
    pub fn named(name: &str) -> Option<Contender> {
        let text = embedded::text(&format!("{name}/contender.toml"))?;
        toml::from_str(text).ok()
    }

    /// The contender that `NEW=NAME:/path/to/executable` or `NEW=NAME` means: as NAME in all but
    /// its own name and, where one is given, its executable.
    pub fn overridden(words: &str) -> Result<Contender, BadOverride> {
        let bad = |why: &str| BadOverride(format!("--contender {words}: {why}"));
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
        let mut contender = Contender::named(name).ok_or_else(unknown)?;
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
            ("nobody known", "old=iis:/opt/iis", "no contender `iis`"),
        ];
        for (sentence, words, expected) in rows {
            let error = Contender::overridden(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{sentence}: {error}");
        }
    }
}
