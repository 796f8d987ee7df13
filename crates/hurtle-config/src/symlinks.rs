//! The setting of symbolic links: which of them are followed. `hurtle::files::lookup` follows them.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::error::{ValueError, shown};
use super::reader::Reader;
use super::suggest::nearest;
use super::value::Value;

/// Symbolic links that are followed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Symlinks {
    /// Links, absolute ones included, whose target is beneath the root.
    #[default]
    WithinRoot,
    /// Links are not followed.
    Never,
    /// All links, wherever their targets are.
    Anywhere,
    /// Links whose target is beneath the root or one of these directories: absolute paths.
    Into(Arc<[PathBuf]>),
}

/// The settings that have a name.
const NAMES: [(&str, Symlinks); 3] = [
    ("within-root", Symlinks::WithinRoot),
    ("never", Symlinks::Never),
    ("anywhere", Symlinks::Anywhere),
];

impl Symlinks {
    /// Returns the directories outside of the root.
    pub fn directories(&self) -> &[PathBuf] {
        match self {
            Symlinks::Into(directories) => directories,
            Symlinks::WithinRoot | Symlinks::Never | Symlinks::Anywhere => &[],
        }
    }
}

impl Serialize for Symlinks {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match NAMES.iter().find(|(_, named)| named == self) {
            Some((name, _)) => out.serialize_str(name),
            None => out.collect_seq(self.directories().iter().map(|path| path.to_string_lossy())),
        }
    }
}

/// Reads a name, or directories.
pub(super) fn symlinks(written: &Value<'_>, reader: &mut Reader<'_>) -> Option<Symlinks> {
    let items = written.items(reader);
    if let [only] = &items[..] {
        let text = only.text(reader)?;
        if let Some((_, named)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Some(named.clone());
        }
        if !text.contains('/') {
            let names = NAMES.iter().map(|(name, _)| *name);
            let hint = match nearest(text, names) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => {
                    "write \"within-root\", \"never\", \"anywhere\", or directories that links \
                         may lead to"
                        .to_owned()
                }
            };
            let wrong = ValueError::new(format!("{} is not a known value", shown(text)));
            only.report(reader, wrong.hint(hint));
            return None;
        }
    }
    let directories = items.iter().map(|item| item.directory(reader));
    directories.collect::<Option<Arc<[PathBuf]>>>().map(Symlinks::Into)
}
