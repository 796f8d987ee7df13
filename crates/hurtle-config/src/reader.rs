//! Collects the problems of the texts with their positions, sorts them and drops those that only
//! repeat another. `document` joins the texts, `table` and `value` walk the result.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use toml::de::DeTable;

use super::bounds::PROBLEMS_MAX;
use super::error::{ConfigError, ValueError, shown};
use super::placeholder::{Placeholder, Placeholders, Resolve, resolve_empty};
use super::site_listen::SiteListen;
use super::sources::{Source, Sources, SyntaxError};
use super::types::Listen;

/// The texts being read, and the problems found in them.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    sources: &'t Sources,
    found: Vec<Finding>,
    /// `true`: the TOML has syntax errors, so a missing key may only have been lost.
    broken: bool,
    resolve: Resolve,
    /// The placeholders that have been replaced.
    pub(super) placeholders: Placeholders,
    /// Directories that must exist; `load` checks them.
    pub(super) directories: Vec<(KeyPosition, PathBuf)>,
    /// Certificates, keys and authorities; `load` checks that they exist.
    pub(super) files: Vec<(KeyPosition, PathBuf)>,
    /// Files that the server creates; `load` checks their directories.
    pub(super) logs: Vec<(KeyPosition, PathBuf)>,
    /// Names of accounts; `load` looks them up.
    pub(super) accounts: Vec<(KeyPosition, Account)>,
    /// Automatic certificates for names that no public authority signs; `acme` reports them.
    pub(super) private_names: Vec<(KeyPosition, ValueError)>,
    /// Automatic certificates for wildcard names; `acme` reports them without a hook.
    pub(super) wildcard_names: Vec<(KeyPosition, ValueError)>,
    /// Automatic certificates for addresses; `acme` reports them where names are validated by DNS.
    pub(super) addresses: Vec<(KeyPosition, ValueError)>,
    /// Programs that the server starts; `load` checks them.
    pub(super) programs: Vec<(KeyPosition, PathBuf)>,
    /// Files of users; `load` checks them.
    pub(super) users: Vec<(KeyPosition, PathBuf)>,
    /// Files of keys that verify tokens; `load` checks them.
    pub(super) jwks: Vec<(KeyPosition, PathBuf)>,
    /// Files of WebAssembly components; `load` checks them.
    pub(super) components: Vec<(KeyPosition, PathBuf)>,
    /// Files with secrets; `load` checks them.
    pub(super) secrets: Vec<(KeyPosition, PathBuf)>,
    /// Settings that require passwords or tokens and must not be exposed to a network in clear,
    /// with the listeners of their site.
    pub(super) needs_privacy: Vec<(KeyPosition, Vec<Listen>)>,
    /// The addresses of sites; `site_listen` compares them with the listeners.
    pub(super) site_listens: Vec<SiteListen>,
    /// Positions of the keys and values in `[defaults.site]` and `[defaults.mount]`, with "site" or
    /// "mount".
    pub(super) inherited: HashMap<usize, &'static str>,
    /// Status pages that everybody may see, with the listeners of their site.
    pub(super) status_pages: Vec<(KeyPosition, Vec<Listen>)>,
}

/// A problem and its position in bytes.
#[derive(Debug)]
struct Finding {
    spot: KeyPosition,
    wrong: ValueError,
    /// `true`: other problems of the line are consequences of it.
    is_alone: bool,
}

/// A key and the byte offset of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPosition {
    pub(super) key: String,
    pub(super) at: usize,
}

/// The name of an account that the system must know.
#[derive(Clone, Debug)]
pub(super) enum Account {
    User(String),
    Group(String),
}

impl<'t> Reader<'t> {
    /// Reads texts; relative paths are relative to the directory of the file in which they stand.
    pub(super) fn new(sources: &'t Sources) -> Reader<'t> {
        Reader {
            sources,
            found: Vec::new(),
            broken: false,
            resolve: resolve_empty,
            placeholders: Placeholders::default(),
            directories: Vec::new(),
            files: Vec::new(),
            logs: Vec::new(),
            accounts: Vec::new(),
            private_names: Vec::new(),
            wildcard_names: Vec::new(),
            addresses: Vec::new(),
            programs: Vec::new(),
            users: Vec::new(),
            jwks: Vec::new(),
            components: Vec::new(),
            secrets: Vec::new(),
            needs_privacy: Vec::new(),
            site_listens: Vec::new(),
            inherited: HashMap::new(),
            status_pages: Vec::new(),
        }
    }

    /// Resolves placeholders by this function.
    pub(super) fn resolving_by(self, resolve: Resolve) -> Reader<'t> {
        Reader { resolve, ..self }
    }

    /// Returns the value of a placeholder in a string at `at`.
    pub(super) fn resolve(
        &self,
        placeholder: Placeholder<'_>,
        at: usize,
    ) -> Result<String, ValueError> {
        (self.resolve)(placeholder, &self.sources.source(at).base)
    }

    /// The number of problems found so far.
    pub(super) fn problem_count(&self) -> usize {
        self.found.len()
    }

    /// The texts, in order.
    pub(super) fn sources(&self) -> &'t Sources {
        self.sources
    }

    /// Parses one of the texts.
    pub(super) fn parse(&mut self, source: &'t Source) -> DeTable<'t> {
        let (document, errors) = source.parse();
        self.broken |= !errors.is_empty();
        for SyntaxError { at, wrong } in errors {
            self.report_alone(&KeyPosition { key: String::new(), at }, wrong);
        }
        document
    }

    /// `true`: the texts have syntax errors.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn report(&mut self, spot: &KeyPosition, wrong: ValueError) {
        self.found.push(Finding { spot: spot.clone(), wrong, is_alone: false });
    }

    /// Records a problem of which others in its line are consequences.
    pub(super) fn report_alone(&mut self, spot: &KeyPosition, wrong: ValueError) {
        self.found.push(Finding { spot: spot.clone(), wrong, is_alone: true });
    }

    /// Records that a key is missing, unless the text has syntax errors and it may only be lost.
    pub(super) fn report_missing(&mut self, spot: &KeyPosition, wrong: ValueError) {
        if !self.broken {
            self.report(spot, wrong);
        }
    }

    /// Makes a path absolute that stands at `at`.
    pub(super) fn absolute(&self, path: &str, at: usize) -> Result<PathBuf, ValueError> {
        if path.is_empty() {
            return Err(ValueError::new("the path is empty").hint("\".\" is this file's directory"));
        }
        if path.contains('\0') {
            return Err(ValueError::new(format!("{} holds a NUL", shown(path))).hint("remove it"));
        }
        let joined = self.sources.source(at).base.join(path);
        Ok(std::path::absolute(&joined).unwrap_or(joined))
    }

    /// Returns the file and the line of a position.
    pub(super) fn line(&self, at: usize) -> String {
        let (file, position) = self.sources.position(at);
        format!("{}:{}", file.display(), position.line)
    }

    /// Returns the name of what another problem is about, for a message at `from`: its key, and the
    /// file and line if it stands in another file.
    pub(super) fn named(&self, other: &KeyPosition, from: &KeyPosition) -> String {
        match std::ptr::eq(self.sources.source(other.at), self.sources.source(from.at)) {
            true => other.key.clone(),
            false => format!("{} ({})", other.key, self.line(other.at)),
        }
    }

    /// Returns the configuration, or every problem in the order of the texts.
    pub(super) fn finish<T>(mut self, config: T) -> Result<T, Vec<ConfigError>> {
        if self.found.is_empty() {
            return Ok(config);
        }
        let sources = self.sources;
        let inherited = std::mem::take(&mut self.inherited);
        for Finding { spot, .. } in &mut self.found {
            if let Some(of) = inherited.get(&spot.at) {
                spot.key = default_key(&spot.key, of);
            }
        }
        let line = |finding: &Finding| sources.line_start(finding.spot.at);
        // A syntax error, or a placeholder without a value.
        let broken: HashSet<usize> = self.found.iter().filter(|f| f.is_alone).map(line).collect();
        self.found.retain(|f| f.is_alone || !broken.contains(&line(f)));
        self.found.sort_by(|a, b| (a.spot.at, &a.spot.key).cmp(&(b.spot.at, &b.spot.key)));
        self.found.dedup_by(|a, b| a.spot == b.spot && a.wrong == b.wrong);

        let surplus = self.found.len().saturating_sub(PROBLEMS_MAX);
        self.found.truncate(PROBLEMS_MAX);
        let problem = |found: Finding| {
            let (file, position) = sources.position(found.spot.at);
            ConfigError {
                file: file.to_owned(),
                position: Some(position),
                key: found.spot.key,
                what: self.placeholders.conceal(&found.wrong.what),
                hint: found.wrong.hint.map(|hint| self.placeholders.conceal(&hint)),
            }
        };
        let mut problems: Vec<ConfigError> = self.found.into_iter().map(problem).collect();
        if surplus > 0 {
            let what = format!("{surplus} more problems");
            let file = sources.main().file.clone();
            problems.push(ConfigError {
                file,
                position: None,
                key: String::new(),
                what,
                hint: None,
            });
        }
        Err(problems)
    }
}

/// Returns the key of a default, `defaults.mount.spa`, by the key that took it,
/// `site[0].mount[1].spa`.
fn default_key(taker: &str, of: &str) -> String {
    let of_site = taker.starts_with("site[").then(|| taker.split_once('.')).flatten();
    let rest = match (of_site, of) {
        (Some((_, rest)), "mount") => rest.split_once('.').map(|(_, rest)| rest),
        (of_site, _) => of_site.map(|(_, rest)| rest),
    };
    rest.map_or_else(|| taker.to_owned(), |rest| format!("defaults.{of}.{rest}"))
}
