//! The media types of a directory's files by their extension. Each is determined once: to search
//! the table of types and the patterns of `compress.types` takes as long as to serve a file from
//! memory.

use std::cell::RefCell;

use hashbrown::HashMap;
use http::HeaderValue;
use hurtle_http::semantics::media;

use super::Directory;

/// Extensions that are remembered. Beyond this number all are forgotten.
const EXTENSIONS_MAX: usize = 1_024;

/// The media type of files with an extension.
#[derive(Clone, Debug)]
pub(super) struct MediaType {
    pub(super) value: HeaderValue,
    /// `true` if `compress.types` has it.
    pub(super) is_compressed: bool,
}

/// The media types that were determined.
#[derive(Debug, Default)]
pub(super) struct MediaTypes(RefCell<HashMap<Box<str>, MediaType>>);

impl Directory {
    /// Returns the media type of the file at `path`.
    pub(super) fn media_type(&self, path: &[u8]) -> MediaType {
        let extension = media::extension(path);
        if let Some(known) = self.media_types.0.borrow().get(&*extension) {
            return known.clone();
        }
        let value = match self.config.media_types.get(&*extension) {
            Some(own) => own.clone(),
            None => {
                HeaderValue::from_static(media::of_extension(&extension).unwrap_or(media::DEFAULT))
            }
        };
        let found = MediaType { is_compressed: self.compresses_type(&value), value };
        let mut known = self.media_types.0.borrow_mut();
        if known.len() >= EXTENSIONS_MAX {
            known.clear();
        }
        known.insert((&*extension).into(), found.clone());
        found
    }

    /// Returns whether `compress.types` has this media type.
    pub(super) fn compresses_type(&self, media_type: &HeaderValue) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.covers(media_type.as_bytes()))
    }
}
