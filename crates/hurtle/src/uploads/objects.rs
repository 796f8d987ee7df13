//! Puts and deletes objects of a store. The bytes of a PUT go to the store as they arrive, at its
//! speed; an object appears when all of them are there. `publish` puts resumable uploads.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use hurtle_http::semantics::conditional::{self, Validators, Verdict};
use hurtle_http::semantics::etag::EntityTag;
use hurtle_http::semantics::media;
use hurtle_objects::{Change, Condition, Failure, Kind, OBJECT_BYTES_MAX, Origin, Put, Version};

use super::commit::{Committed, Conditions};
use super::error::UploadError;
use super::name::Target;
use super::{PieceReader, Uploads, of_done, refuse_parts};
use crate::answer::Answer;
use crate::body::RequestBody;
use crate::config::EtagSource;

impl Uploads {
    pub(super) async fn delete_object(
        &self,
        origin: &Origin,
        fields: &HeaderMap,
        rest: &[u8],
    ) -> Result<Answer, UploadError> {
        Target::of(rest, self.sidecars)?;
        let key = std::str::from_utf8(rest).map_err(|_| UploadError::NAME)?;
        let condition = condition(origin, key, &Conditions::of(fields)).await?;
        match origin.delete(key.to_owned(), condition).await? {
            Change::Missing => Err(UploadError::MISSING),
            Change::Refused => Err(UploadError::CONDITION),
            Change::Created | Change::Changed => {
                self.changed.note();
                Ok(Answer::empty(StatusCode::NO_CONTENT))
            }
        }
    }

    pub(super) async fn put_object(
        &self,
        origin: &Origin,
        fields: &HeaderMap,
        rest: &[u8],
        mut body: RequestBody,
    ) -> Result<Answer, UploadError> {
        refuse_parts(fields)?;
        Target::of(rest, self.sidecars)?;
        let bytes_max = self.limits.file_bytes.min(OBJECT_BYTES_MAX);
        if body.size_hint().exact().is_some_and(|len| len > bytes_max) {
            return Err(UploadError::TOO_LARGE);
        }
        let (key, condition) = admit(origin, rest, &Conditions::of(fields)).await?;
        let mut put = origin.put(key, condition, self.stored_type(key))?;
        let mut reader = PieceReader::new(self.limits.rate, false);
        loop {
            let piece = reader.next_piece(&mut body, bytes_max).await?;
            if piece.is_empty() {
                break;
            }
            for bytes in piece.into_iter().filter(|bytes| !bytes.is_empty()) {
                put = send(put, bytes).await?;
            }
        }
        Ok(of_done(self.finish(put).await?))
    }

    /// Completes the upload of an object; an error if its condition is false or the store fails.
    pub(super) async fn finish(&self, put: Put) -> Result<Committed, UploadError> {
        let (change, version) = put.finish().await?;
        self.changed.note();
        let created = match change {
            Change::Created => true,
            Change::Changed => false,
            Change::Refused | Change::Missing => return Err(UploadError::CONDITION),
        };
        let tag = version.filter(|_| self.root.etag != EtagSource::Off).map(|v| tag(&v));
        Ok(Committed { created, tag })
    }

    /// The media type that the store keeps for other readers of the object.
    pub(super) fn stored_type(&self, key: &str) -> Option<String> {
        let extension = media::extension(key.as_bytes());
        let own = self.media_types.get(&*extension).and_then(|own| own.to_str().ok());
        own.or(media::of_extension(&extension)).map(str::to_owned)
    }
}

/// Sends the next bytes of an object, at least one.
pub(super) async fn send(mut put: Put, bytes: Bytes) -> Result<Put, UploadError> {
    match put.send(bytes).await {
        Ok(()) => Ok(put),
        // `finish` has the cause.
        Err(_) => Err(put.finish().await.err().map_or(UploadError::CONDITION, UploadError::from)),
    }
}

/// Checks the name of an object and the preconditions of a PUT. Returns the key.
pub(super) async fn admit<'a>(
    origin: &Origin,
    rest: &'a [u8],
    conditions: &Conditions,
) -> Result<(&'a str, Condition), UploadError> {
    let key = std::str::from_utf8(rest).ok().filter(|key| origin.takes(key));
    let key = key.ok_or(UploadError::NAME)?;
    // A directory and a file cannot have one name.
    if origin.has_prefix(format!("{key}/")).await? {
        return Err(UploadError::DIRECTORY);
    }
    Ok((key, condition(origin, key, conditions).await?))
}

/// Checks the preconditions. The change then depends on the object being as it was here.
async fn condition(
    origin: &Origin,
    key: &str,
    conditions: &Conditions,
) -> Result<Condition, UploadError> {
    if *conditions == Conditions::default() {
        return Ok(Condition::Always);
    }
    let object = origin.describe(key.to_owned()).await?;
    let conditions = conditions.as_sent();
    let (verdict, condition) = match &object {
        None => (conditional::evaluate_absent(&conditions), Condition::Missing),
        Some(version) => {
            let opaque = tag(version);
            let etag = Some(EntityTag { weak: false, opaque: opaque.as_bytes() });
            let validators = Validators { etag, last_modified: Some(version.modified_secs) };
            let verdict = conditional::evaluate(false, &conditions, &validators);
            (verdict, Condition::Is(version.hash))
        }
    };
    if verdict == Verdict::Proceed { Ok(condition) } else { Err(UploadError::CONDITION) }
}

/// The opaque part of the entity-tag.
fn tag(version: &Version) -> String {
    format!("{:032x}", version.hash)
}

impl From<Failure> for UploadError {
    /// The failure is logged already.
    fn from(failure: Failure) -> UploadError {
        match failure.kind {
            Kind::Timeout => UploadError::STORE_TIMEOUT,
            Kind::Busy | Kind::Full => UploadError::BUSY,
            Kind::Denied => UploadError::DENIED,
            Kind::Store | Kind::Changed | Kind::Corrupt | Kind::Internal => UploadError::STORE,
        }
    }
}
