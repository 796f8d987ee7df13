//! Finds the script for a path: an existing regular file beneath the root with the right suffix,
//! and the rest of the path after it. Handlers run it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hurtle_http::semantics::target::{ENCODED_SLASH, separate_slashes};

use super::changed::has_hidden_segment;
use super::lookup::{Lookup, LookupRules, Target, Try};
use super::root::Root;
use super::store::LookupError;
use crate::config::{EtagSource, Symlinks};
use crate::disk::{Disk, Lane};

/// Maximum number of segments of a path that may name a script.
const CANDIDATES_MAX: usize = 16;

/// A directory of scripts.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    rules: Arc<LookupRules>,
    /// Suffix of script names; empty if every file is a script.
    suffix: String,
    /// `true`: the application gets the real path of the root.
    real_path: bool,
    /// `true`: the first script of the index in the root answers paths that are none.
    has_front: bool,
    /// `true`: it answers paths of scripts that do not exist, too.
    fronts_scripts: bool,
    disk: Disk,
}

/// The script of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptTarget {
    /// The directory of scripts, as the application gets it; empty: it has no files.
    pub root: PathBuf,
    /// The script's file beneath the root; empty: the application has no files.
    pub file: Vec<u8>,
    /// The part of the path after the script's name (PATH_INFO): empty, or starting with `/`.
    pub info: Vec<u8>,
}

/// Result of finding a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Script(ScriptTarget),
    /// The path does not name a script; a file may be served.
    Other,
    /// The path of a directory with an index, without the slash at its end.
    SlashMissing,
    /// The path names a script that does not exist.
    Missing,
    /// A symbolic link leads elsewhere.
    Outside,
    /// The server has no permission.
    Denied,
}

impl Scripts {
    /// Finds scripts beneath `root`, in the lane of these scripts. `index` lists names that are
    /// tried in a directory. `suffix` is the suffix of script names; empty if every file is a
    /// script.
    pub(crate) fn new(root: PathBuf, index: &[String], suffix: &str, disk: &Disk) -> Scripts {
        let lane = disk.lane_of(format!("scripts {}", root.display()));
        let rules = LookupRules {
            root: Root::new(root),
            origin: None,
            index: index.to_vec(),
            finds_directories: true,
            symlinks: Symlinks::default(),
            sidecars: None,
            finds_variants_alone: false,
            etag: EtagSource::Off,
            hashes: None,
            lane,
            rate: 0,
            memory_bytes_max: 0,
        };
        Scripts {
            rules: Arc::new(rules),
            suffix: suffix.to_owned(),
            real_path: false,
            has_front: true,
            fronts_scripts: false,
            disk: disk.clone(),
        }
    }

    /// Follows these links, and gives the application the real path of the root where `real_path`
    /// is set: a link to another release is then another path for it.
    #[must_use]
    pub(crate) fn following(self, symlinks: &Symlinks, real_path: bool) -> Scripts {
        let rules = LookupRules { symlinks: symlinks.clone(), ..(*self.rules).clone() };
        Scripts { rules: Arc::new(rules), real_path, ..self }
    }

    /// Sets whether the first script of the index in the root answers paths that are none, and
    /// those of scripts that do not exist.
    #[must_use]
    pub(crate) fn with_front(self, has_front: bool, fronts_scripts: bool) -> Scripts {
        Scripts { has_front, fronts_scripts, ..self }
    }

    /// The directory of scripts.
    pub(crate) fn root(&self) -> &Path {
        &self.rules.root
    }

    /// The disk threads and the lane of look-ups.
    pub(crate) fn disk(&self) -> (&Disk, Lane) {
        (&self.disk, self.rules.lane)
    }

    /// Finds the script of a decoded path relative to the mount, without a leading `/`. A path with
    /// encoded slashes matches only if the result is the same whether they separate segments or
    /// not. They are plain slashes in the rest after the script.
    ///
    /// # Errors
    /// The disk failed, or its threads are busy.
    pub(crate) async fn find(&self, rest: &[u8]) -> Result<Found, LookupError> {
        let (this, rest) = (self.clone(), rest.to_vec());
        let job = move || this.find_now(&rest);
        let found: io::Result<_> =
            self.disk.run(self.rules.lane, job).await.map_err(LookupError::Pool)?;
        found.map_err(LookupError::Disk)
    }

    /// Like [`find`](Self::find), but blocks on the disk.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) fn find_now(&self, rest: &[u8]) -> io::Result<Found> {
        if !rest.contains(&ENCODED_SLASH) {
            return self.find_plain(rest);
        }
        let Ok(separated) = separate_slashes(rest) else { return Ok(Found::Missing) };
        Ok(match (self.find_plain(rest)?, self.find_plain(&separated[1..])?) {
            (Found::Script(plain), Found::Script(separated)) if plain.file == separated.file => {
                Found::Script(separated)
            }
            _ => Found::Missing,
        })
    }

    fn find_plain(&self, rest: &[u8]) -> io::Result<Found> {
        if self.suffix.is_empty() || self.names_a_script(rest) {
            return self.find_named(rest);
        }
        if has_hidden_segment(rest, false) {
            return Ok(Found::Other);
        }
        match self.probe(rest)? {
            Target::File { path, .. } if path.ends_with(self.suffix.as_bytes()) => {
                self.script(path, b"")
            }
            // A file, or a directory with an index that a trailing slash would select.
            Target::File { .. } => Ok(Found::Other),
            Target::SlashMissing if self.has_index(rest)? => Ok(Found::SlashMissing),
            Target::Denied => Ok(Found::Denied),
            Target::Outside => Ok(Found::Outside),
            _ => self.find_front(),
        }
    }

    /// True if a segment could name a script, in any case: some file systems are case-insensitive.
    /// Such a path is never served as a file.
    fn names_a_script(&self, rest: &[u8]) -> bool {
        let suffix = self.suffix.as_bytes();
        rest.split(|&b| b == b'/').any(|segment| {
            let from = segment.len().checked_sub(suffix.len());
            from.is_some_and(|from| segment[from..].eq_ignore_ascii_case(suffix))
        })
    }

    /// Finds the script named by the path up to the end of one of its segments.
    fn find_named(&self, rest: &[u8]) -> io::Result<Found> {
        let ends = memchr::memchr_iter(b'/', rest).chain([rest.len()]);
        let ends = ends.filter(|&end| {
            let name = rest[..end].rsplit(|&b| b == b'/').next().unwrap_or_default();
            !name.is_empty() && name.ends_with(self.suffix.as_bytes())
        });
        for end in ends.take(CANDIDATES_MAX) {
            let file = &rest[..end];
            if has_hidden_segment(file, false) {
                return Ok(Found::Missing);
            }
            match self.probe(file)? {
                Target::File { path, .. } => return self.script(path, &rest[end..]),
                Target::Denied => return Ok(Found::Denied),
                Target::Outside => return Ok(Found::Outside),
                _ => {}
            }
        }
        if !self.fronts_scripts {
            return Ok(Found::Missing);
        }
        match self.find_front()? {
            Found::Script(script) => Ok(Found::Script(script)),
            // The path is never served as a file.
            _ => Ok(Found::Missing),
        }
    }

    /// Finds the index script of the root, which handles paths that do not exist.
    fn find_front(&self) -> io::Result<Found> {
        let suffix = &self.suffix;
        let front = self.rules.index.iter().find(|name| name.ends_with(suffix));
        let Some(front) = front.filter(|_| self.has_front) else {
            return Ok(Found::Other);
        };
        match self.probe(front.as_bytes())? {
            Target::File { path, .. } => self.script(path, b""),
            _ => Ok(Found::Other),
        }
    }

    /// Returns a script that was found.
    fn script(&self, file: Vec<u8>, info: &[u8]) -> io::Result<Found> {
        let root = match self.real_path {
            true => self.rules.root.canonicalize()?,
            false => self.rules.root.to_path_buf(),
        };
        Ok(Found::Script(ScriptTarget { root, file, info: info.to_vec() }))
    }

    fn has_index(&self, rest: &[u8]) -> io::Result<bool> {
        Ok(matches!(self.probe(&[rest, b"/"].concat())?, Target::File { .. }))
    }

    fn probe(&self, path: &[u8]) -> io::Result<Target> {
        if path.contains(&ENCODED_SLASH) {
            // Names of files cannot contain a slash.
            return Ok(Target::Missing);
        }
        let tries = vec![Try::Path(path.to_vec())];
        Lookup { rules: Arc::clone(&self.rules), tries }.probe()
    }
}
