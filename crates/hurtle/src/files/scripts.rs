//! From a path to the script that answers it: an existing regular file beneath the root, of the
//! right name, and what of the path is behind it. Running it is the handlers' business.

use std::io;
use std::path::{Path, PathBuf};

use super::changed::has_hidden_segment;
use super::lookup::{Lookup, Target, Try};
use super::store::Trouble;
use crate::config::{EtagSource, Symlinks};
use crate::disk::{Disk, Lane};
use crate::semantics::target::{ENCODED_SLASH, separate_slashes};

/// Segments of one path that may name a script; who asks for more asks for nothing there is.
const CANDIDATES_MAX: usize = 16;

/// A directory of scripts.
#[derive(Clone, Debug)]
pub struct Scripts {
    lookup: Lookup,
    /// What their names end with; empty: every file is one.
    suffix: String,
    disk: Disk,
}

/// What a path stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A script.
    Script {
        /// Its file beneath the root.
        file: Vec<u8>,
        /// What of the path is behind its name: empty, or from a `/` on.
        info: Vec<u8>,
    },
    /// No script's name: whatever serves files may look.
    Other,
    /// A script's name, but there is none.
    Missing,
    /// There, but not for this user.
    Denied,
}

impl Scripts {
    /// Scripts beneath `root`, found on the pool in a lane of their own. `index`: names tried in a
    /// directory; `suffix`: what scripts' names end with, or empty where every file is one.
    pub fn new(root: PathBuf, index: &[String], suffix: &str, disk: &Disk) -> Scripts {
        let lookup = Lookup {
            root,
            tries: Vec::new(),
            index: index.into(),
            symlinks: Symlinks::WithinRoot,
            sidecars: false,
            etag: EtagSource::Off,
            lane: disk.lane(),
            rate: 0,
            memory_bytes_max: 0,
        };
        Scripts { lookup, suffix: suffix.to_owned(), disk: disk.clone() }
    }

    /// Their directory.
    pub fn root(&self) -> &Path {
        &self.lookup.root
    }

    /// Where they are looked up.
    pub fn disk(&self) -> (&Disk, Lane) {
        (&self.disk, self.lookup.lane)
    }

    /// What a decoded path beneath the mount, without a leading `/`, stands for. Where it holds encoded
    /// slashes, a script only if that is the same whether they separate segments or not; what is behind
    /// its name has them plain.
    ///
    /// # Errors
    /// Of the disk, or the pool.
    pub async fn find(&self, rest: &[u8]) -> Result<Found, Trouble> {
        let (this, rest) = (self.clone(), rest.to_vec());
        let job = move || this.find_now(&rest);
        let found: io::Result<_> =
            self.disk.run(self.lookup.lane, job).await.map_err(Trouble::Pool)?;
        found.map_err(Trouble::Disk)
    }

    /// The same, waiting for the disk.
    ///
    /// # Errors
    /// Of the disk.
    pub fn find_now(&self, rest: &[u8]) -> io::Result<Found> {
        if !rest.contains(&ENCODED_SLASH) {
            return self.find_plain(rest);
        }
        let Ok(separated) = separate_slashes(rest) else { return Ok(Found::Missing) };
        Ok(match (self.find_plain(rest)?, self.find_plain(&separated[1..])?) {
            (Found::Script { file, .. }, Found::Script { file: other, info }) if file == other => {
                Found::Script { file, info }
            }
            _ => Found::Missing,
        })
    }

    fn find_plain(&self, rest: &[u8]) -> io::Result<Found> {
        if self.suffix.is_empty() || self.names_a_script(rest) {
            return self.named(rest);
        }
        if has_hidden_segment(rest, false) {
            return Ok(Found::Other);
        }
        match self.probe(rest)? {
            Target::File { path, .. } if path.ends_with(self.suffix.as_bytes()) => {
                Ok(Found::Script { file: path, info: Vec::new() })
            }
            // A file, or a directory that an index answers for once its slash is there.
            Target::File { .. } => Ok(Found::Other),
            Target::SlashMissing if self.has_index(rest)? => Ok(Found::Other),
            Target::Denied => Ok(Found::Denied),
            _ => self.front(),
        }
    }

    /// Whether a path holds what could be a script's name, on a file system that knows no case too:
    /// what it names is never served as a file.
    fn names_a_script(&self, rest: &[u8]) -> bool {
        let suffix = self.suffix.as_bytes();
        rest.split(|&b| b == b'/').any(|segment| {
            let from = segment.len().checked_sub(suffix.len());
            from.is_some_and(|from| segment[from..].eq_ignore_ascii_case(suffix))
        })
    }

    /// The script that the path names, up to the end of one of its segments.
    fn named(&self, rest: &[u8]) -> io::Result<Found> {
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
                Target::File { path, .. } => {
                    return Ok(Found::Script { file: path, info: rest[end..].to_vec() });
                }
                Target::Denied => return Ok(Found::Denied),
                _ => {}
            }
        }
        Ok(Found::Missing)
    }

    /// The root's own script, which answers for what is not there.
    fn front(&self) -> io::Result<Found> {
        let suffix = &self.suffix;
        let Some(front) = self.lookup.index.iter().find(|name| name.ends_with(suffix)) else {
            return Ok(Found::Other);
        };
        match self.probe(front.as_bytes())? {
            Target::File { path, .. } => Ok(Found::Script { file: path, info: Vec::new() }),
            _ => Ok(Found::Other),
        }
    }

    fn has_index(&self, rest: &[u8]) -> io::Result<bool> {
        Ok(matches!(self.probe(&[rest, b"/"].concat())?, Target::File { .. }))
    }

    fn probe(&self, path: &[u8]) -> io::Result<Target> {
        if path.contains(&ENCODED_SLASH) {
            // No file has such a name.
            return Ok(Target::Missing);
        }
        Lookup { tries: vec![Try::Path(path.to_vec())], ..self.lookup.clone() }.probe()
    }
}
