//! Finds the encoded variants of a file, beside it or in its place. It blocks on the disk.

use std::io;

use hurtle_http::semantics::accept::Coding;
use rustix::fs::OFlags;

use super::lookup::{Lookup, SIDECARS, State, Target, base_name};
use super::root::OpenRoot;
use super::sidecars::{Names, Sidecars, is_variant_of};
use crate::body::Stamp;
use crate::sys;

impl Lookup {
    /// A file that was found, with its variants.
    pub(super) fn file_target(
        &self,
        root: &OpenRoot,
        path: Vec<u8>,
        stamp: Stamp,
    ) -> io::Result<Target> {
        let mut states = vec![(Coding::Identity, stamp)];
        if let Some(sidecars) = &self.sidecars {
            let names = self.sidecar_names(sidecars, root, &path)?;
            let suffixes =
                if names.as_ref().is_some_and(Names::is_empty) { &[] } else { &SIDECARS[..] };
            for (coding, suffix) in suffixes {
                let name = [&path[..], suffix].concat();
                if names.as_ref().is_some_and(|names| !names.may_have(base_name(&name))) {
                    continue;
                }
                if let State::File(side) = self.state(root, &name)?
                    && is_variant_of(&side, &stamp)
                {
                    states.push((*coding, side));
                }
            }
        }
        Ok(Target::File { path, states })
    }

    /// The variants of a file that is missing, if they are wanted without it.
    pub(super) fn variants_alone(&self, root: &OpenRoot, path: &[u8]) -> io::Result<Target> {
        let mut states = Vec::new();
        let suffixes = if self.finds_variants_alone { &SIDECARS[..] } else { &[] };
        for (coding, suffix) in suffixes {
            if let State::File(stamp) = self.state(root, &[path, suffix].concat())? {
                states.push((*coding, stamp));
            }
        }
        Ok(match states.is_empty() {
            true => Target::Missing,
            false => Target::File { path: path.to_vec(), states },
        })
    }

    /// The names of variants in a file's directory, if they are known.
    fn sidecar_names(
        &self,
        sidecars: &Sidecars,
        root: &OpenRoot,
        path: &[u8],
    ) -> io::Result<Option<Names>> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = &path[..path.len() - base_name(path).len()];
        if let Some(names) = root.names(parent) {
            return Ok(Some(names));
        }
        let open = || Ok(self.open(root, parent, OFlags::RDONLY | flags)?);
        // A directory that was renamed meanwhile, for example: searching tells.
        let Ok(directory) = self.open(root, parent, flags | sys::PROBE) else { return Ok(None) };
        let names = sidecars.names(directory, open)?;
        names.iter().for_each(|names| root.remember(parent, names));
        Ok(names)
    }
}
