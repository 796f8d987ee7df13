//! Finds out if a contender is installed, and its version.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use rustix::process::geteuid;

use super::Contender;
use super::template::{self, Names};

/// Timeout for printing a version, in seconds.
const VERSION_WITHIN_S: &str = "20";
/// Prefix of the name of an executable that has yet to be built.
pub(super) const BUILT: &str = "{WORK}/";
/// Folders of servers that are not in every user's PATH.
const MORE_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Reason for which a contender cannot take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeError {
    /// The fault, in a sentence.
    pub reason: String,
    /// The remedy, in a sentence.
    pub remedy: String,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.remedy)
    }
}

impl std::error::Error for ProbeError {}

impl Contender {
    /// Path, size and time of change of its executable.
    pub fn program(&self) -> Option<String> {
        let path = self.executable().ok()??;
        let metadata = path.metadata().ok()?;
        let changed = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let (bytes, seconds) = (metadata.len(), changed.as_secs_f64());
        Some(format!("{}, {bytes} bytes, changed at {seconds:.3}", path.display()))
    }

    /// Its version, if it is installed.
    pub fn probe(&self) -> Result<String, ProbeError> {
        if self.root && !is_root() {
            return Err(self.missing("only root can run it", "run deathmatch as root"));
        }
        for need in self.needs.iter().filter(|_| self.chosen.is_none()) {
            let need = template::fill(need, &self.vars).unwrap_or_default();
            if find(&need).is_none() {
                return Err(self.missing(&format!("{need} was not found"), ""));
            }
        }
        if let Some(helper) = &self.helper {
            self.helper(helper)?;
        }
        if let Some(upstream) = self.upstream.as_ref().and_then(|name| Contender::by_name(name)) {
            upstream.probe().map_err(|missing| ProbeError {
                reason: format!("its upstream {}: {}", upstream.name, missing.reason),
                ..missing
            })?;
        }
        let mut names = self.vars.clone();
        if let Some(bin) = self.executable()? {
            names.insert("BIN".to_owned(), bin.display().to_string());
        }
        self.version(&names).map_err(|reason| self.missing(&reason, ""))
    }

    /// Its executable; `None` if it has yet to be built.
    pub(super) fn executable(&self) -> Result<Option<PathBuf>, ProbeError> {
        if let Some(chosen) = &self.chosen {
            let remedy = "check the path given with --contender";
            let reason = format!("{} is not a file", chosen.display());
            let found = chosen.is_file().then(|| Some(chosen.clone()));
            return found.ok_or_else(|| self.missing(&reason, remedy));
        }
        if self.executable.starts_with(BUILT) {
            return Ok(None);
        }
        let beside = if self.sibling { find_sibling(&self.executable) } else { None };
        match beside.or_else(|| find(&self.executable)) {
            Some(path) => Ok(Some(path)),
            None => Err(self.missing(&format!("{} was not found in PATH", self.executable), "")),
        }
    }

    /// The program of this project that it starts.
    pub(super) fn helper(&self, name: &str) -> Result<PathBuf, ProbeError> {
        let remedy = "it is installed with deathmatch: cargo install --path crates/deathmatch";
        let missing = || self.missing(&format!("{name} was not found"), remedy);
        find_sibling(name).or_else(|| find(name)).ok_or_else(missing)
    }

    /// A missing part; without a remedy, the contender's own.
    fn missing(&self, reason: &str, remedy: &str) -> ProbeError {
        let remedy = match (remedy, &self.hint) {
            ("", Some(hint)) => hint.clone(),
            ("", None) => format!("`deathmatch install {}` sets it up", self.name),
            (remedy, _) => remedy.to_owned(),
        };
        ProbeError { reason: reason.to_owned(), remedy }
    }

    fn version(&self, names: &Names) -> Result<String, String> {
        let filled = self.version.command.iter().map(|word| template::fill(word, names));
        let command: Vec<String> = filled.collect::<Result<_, _>>()?;
        let shown = command.join(" ");
        let output = Command::new("timeout")
            .arg(VERSION_WITHIN_S)
            .args(&command)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("`{shown}` could not be started: {e}"))?;
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        if !output.status.success() {
            let last = printed.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(format!("`{shown}` failed ({}): {last}", output.status));
        }
        read_version(&printed, &self.version.after, self.version.until.as_deref())
            .ok_or_else(|| format!("`{shown}` does not say `{}`", self.version.after))
    }
}

/// The text between these words, at most to the end of the line.
fn read_version(output: &str, after: &str, until: Option<&str>) -> Option<String> {
    let (_, behind) = output.split_once(after)?;
    let line = behind.lines().next()?.trim();
    let version = until.and_then(|until| line.split(until).next()).unwrap_or(line);
    (!version.is_empty()).then(|| version.to_owned())
}

/// `true` if this program runs as root.
pub(super) fn is_root() -> bool {
    geteuid().is_root()
}

/// A program in PATH, or a file by its whole name.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| name.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(MORE_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A program beside this one; tests run one folder deeper, in `deps`.
fn find_sibling(name: &str) -> Option<PathBuf> {
    let this = env::current_exe().ok()?;
    let folder = this.parent()?;
    let above = folder.parent().filter(|_| folder.ends_with("deps"));
    let folders = [Some(folder), above];
    folders.into_iter().flatten().map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_text_after_the_marker() {
        let rows: &[(&str, &str, &str, Option<&str>, Option<&str>)] = &[
            ("nginx", "nginx version: nginx/1.22.1\n", "nginx/", None, Some("1.22.1")),
            ("only a version", "2.6.2\n", "", None, Some("2.6.2")),
            (
                "more lines",
                "x\nh2o version 2.2.5\nOpenSSL: 3\n",
                "h2o version ",
                None,
                Some("2.2.5"),
            ),
            ("something else", "usage: nginx\n", "nginx/", None, None),
            ("a word of a line", "lighttpd/1.4.69 (ssl)\n", "lighttpd/", Some(" "), Some("1.4.69")),
            ("nothing behind", "nginx/\n", "nginx/", None, None),
        ];
        for (sentence, output, after, until, expected) in rows {
            assert_eq!(read_version(output, after, *until).as_deref(), *expected, "{sentence}");
        }
    }

    #[test]
    fn a_missing_requirement_is_reported_with_a_remedy() {
        let mut gone = Contender::by_name("nginx").unwrap();
        gone.chosen = Some("/nowhere/nginx".into());
        let missing = gone.probe().unwrap_err();
        assert!(missing.reason.contains("/nowhere/nginx is not a file"), "{missing}");
        assert!(missing.remedy.contains("--contender"), "{missing}");
        let mut nobody = Contender::by_name("nginx").unwrap();
        nobody.executable = "no-such-server".to_owned();
        let missing = nobody.probe().unwrap_err();
        assert!(missing.remedy.contains("deathmatch install nginx"), "{missing}");
        assert!(missing.to_string().starts_with("no-such-server was not found"), "{missing}");
    }
}
