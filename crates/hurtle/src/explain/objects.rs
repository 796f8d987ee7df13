//! Describes an object of a store that answers a request.

use std::fmt::Write as _;

use hurtle_objects::{Origin, Version};

use crate::files::store::LookupError;
use crate::files::{Lookup, Target, objects};

/// Describes the object, and which of its variants are in the cache.
pub(super) async fn describe(lookup: &Lookup, origin: &Origin) -> String {
    let url = &origin.settings().url;
    let (path, states) = match objects::probe(lookup, origin).await {
        Ok(Target::File { path, states }) => (path, states),
        Ok(Target::Directory(path, _)) => {
            let path = String::from_utf8_lossy(&path);
            return format!("from {url}{path}, a prefix of keys, without an index file");
        }
        Ok(Target::SlashMissing) => return "a prefix of keys, requested without its slash".into(),
        Ok(Target::Missing | Target::Outside) => return format!("no such object in {url}"),
        Ok(Target::Denied) => return "an object that the credentials do not open".into(),
        Ok(Target::Status(status)) => return format!("nothing; try_files ends with {status}"),
        Err(LookupError::Origin(failure)) => return format!("{url}: {failure}"),
        Err(_) => return format!("{url}: the look-up failed"),
    };
    let path = String::from_utf8_lossy(&path);
    let mut text = String::new();
    for (number, (coding, state)) in states.iter().enumerate() {
        let suffix = objects::suffix(*coding);
        let key = format!("{path}{suffix}");
        let is_cached = |version: Version| version.len == state.len;
        let cached = match origin.cached(key.clone()).await.is_some_and(is_cached) {
            true => "cached",
            false => "not cached",
        };
        // Writing into a String cannot fail.
        let _ = match number {
            0 => write!(text, "from {url}{key}, {} bytes, {cached}", state.len),
            _ => write!(text, "; {coding:?} variant, {} bytes, {cached}", state.len),
        };
    }
    text
}
