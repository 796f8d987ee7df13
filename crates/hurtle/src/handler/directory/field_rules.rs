//! The rules for the fields of a directory's files: their media types, and the edits that do not
//! depend on the request.

use http::{HeaderValue, StatusCode, header};

use super::Directory;
use super::media_types::MediaType;
use crate::compress::{FileFacts, Uncompressed};
use crate::config::EtagSource;
use crate::edits::ReadyEdits;
use crate::files::entry::FieldRules;
use crate::handler::request::MatchedPath;

impl Directory {
    /// Returns whether the file at `path` is compressed.
    ///
    /// # Errors
    /// The reason why it is not.
    pub(crate) fn compression(
        &self,
        matched: &MatchedPath<'_>,
        path: &[u8],
        len: u64,
    ) -> Result<(), Uncompressed> {
        self.compresses(&self.field_rules(matched, path, StatusCode::OK), len)
    }

    /// Returns Use-As-Dictionary of the file at `path`, if it is compressed; `None`: it is no
    /// dictionary.
    pub(crate) fn dictionary(&self, matched: &MatchedPath<'_>, path: &[u8]) -> Option<HeaderValue> {
        self.dictionaries.of(path)?.field(matched.base())
    }

    pub(super) fn compresses(&self, rules: &FieldRules, len: u64) -> Result<(), Uncompressed> {
        let FieldRules { is_compressed, edits, .. } = rules;
        let policy = self.policy.as_ref().ok_or(Uncompressed::Off)?;
        let (has_type, set, rate) = (*is_compressed, &edits.set[..], self.config.rate);
        policy.admit(&FileFacts { has_type, len, set, rate })
    }

    /// Returns the rules for the fields of the file at `path`, in responses with this status.
    pub(super) fn field_rules(
        &self,
        matched: &MatchedPath<'_>,
        path: &[u8],
        status: StatusCode,
    ) -> FieldRules {
        let media_type = self.media_type(path);
        let edits = self.file_edits(matched, &media_type.value, status);
        let failed = StatusCode::PRECONDITION_FAILED;
        let on_failure = self.file_edits(matched, &media_type.value, failed);
        let own_type = edits.set.iter().find(|(name, _)| *name == header::CONTENT_TYPE);
        let MediaType { value, is_compressed } = match own_type {
            Some((_, own)) => {
                MediaType { is_compressed: self.compresses_type(own), value: own.clone() }
            }
            None => media_type,
        };
        FieldRules {
            media_type: value,
            is_compressed,
            on_failure,
            edits,
            varies_by_accept: false,
            dictionary: None,
            settled: self.uploads.is_some(),
        }
    }

    /// Returns the edits of files' fields: the directory's own, then those of its site.
    fn file_edits(
        &self,
        matched: &MatchedPath<'_>,
        media_type: &HeaderValue,
        status: StatusCode,
    ) -> ReadyEdits {
        let media_type = Some(media_type.clone());
        let mut edits = ReadyEdits { media_type, ..ReadyEdits::default() };
        if self.uploads.is_some() {
            let no_sniff = HeaderValue::from_static("nosniff");
            edits.set.push((header::X_CONTENT_TYPE_OPTIONS, no_sniff));
        }
        if self.config.etag == EtagSource::Off {
            edits.remove.push(header::ETAG);
        }
        self.edits.edit(&mut edits, || matched.path.into(), status, true);
        edits
    }
}
