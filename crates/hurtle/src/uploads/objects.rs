//! Puts and deletes objects of a store. The bytes go to the store as they arrive, at its speed; an
//! object appears when all of them are there.

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use http_body::Body as _;
use hurtle_http::semantics::conditional::{self, Validators, Verdict};
use hurtle_http::semantics::etag::EntityTag;
use hurtle_http::semantics::media;
use hurtle_objects::{Change, Condition, Failure, Kind, Origin, Version};

use super::commit::Conditions;
use super::error::UploadError;
use super::name::Target;
use super::{PieceReader, Uploads, refuse_parts, with_tag};
use crate::answer::Answer;
use crate::body::RequestBody;
use crate::config::EtagSource;

impl Uploads {
    /// Handles a PUT, POST or DELETE.
    pub(super) async fn change_object(
        &self,
        head: &Parts,
        rest: &[u8],
        body: RequestBody,
    ) -> Result<Answer, UploadError> {
        let Some(origin) = &self.origin else { return Err(UploadError::DEFECT) };
        if head.method == Method::POST {
            return Err(UploadError::NO_FORM_HERE);
        }
        // Checks the name.
        Target::of(rest, self.sidecars)?;
        let key = std::str::from_utf8(rest).map_err(|_| UploadError::NAME)?;
        if head.method == Method::PUT {
            return self.put_object(origin, &head.headers, key, body).await;
        }
        let condition = condition(origin, key, &head.headers).await?;
        match origin.delete(key.to_owned(), condition).await? {
            Change::Missing => Err(UploadError::MISSING),
            Change::Refused => Err(UploadError::CONDITION),
            Change::Created | Change::Changed => {
                self.changed.note();
                Ok(Answer::empty(StatusCode::NO_CONTENT))
            }
        }
    }

    async fn put_object(
        &self,
        origin: &Origin,
        fields: &HeaderMap,
        key: &str,
        mut body: RequestBody,
    ) -> Result<Answer, UploadError> {
        refuse_parts(fields)?;
        // A directory and a file cannot have one name.
        if origin.has_prefix(format!("{key}/")).await? {
            return Err(UploadError::DIRECTORY);
        }
        let bytes_max = self.limits.file_bytes;
        if body.size_hint().exact().is_some_and(|len| len > bytes_max) {
            return Err(UploadError::TOO_LARGE);
        }
        let condition = condition(origin, key, fields).await?;
        let mut put = origin.put(key, condition, self.stored_type(key))?;
        let mut reader = PieceReader::new(self.limits.rate, false);
        loop {
            let piece = reader.next_piece(&mut body, bytes_max).await?;
            if piece.is_empty() {
                break;
            }
            for bytes in piece.into_iter().filter(|bytes| !bytes.is_empty()) {
                if put.send(bytes).await.is_err() {
                    // `finish` has the cause.
                    return Err(put
                        .finish()
                        .await
                        .err()
                        .map_or(UploadError::CONDITION, UploadError::from));
                }
            }
        }
        let (change, version) = put.finish().await?;
        self.changed.note();
        let status = match change {
            Change::Created => StatusCode::CREATED,
            Change::Changed => StatusCode::NO_CONTENT,
            Change::Refused | Change::Missing => return Err(UploadError::CONDITION),
        };
        let tag = version.filter(|_| self.root.etag != EtagSource::Off).map(|v| tag(&v));
        Ok(with_tag(Answer::empty(status), tag))
    }

    /// The media type that the store keeps for other readers of the object.
    fn stored_type(&self, key: &str) -> Option<String> {
        let extension = media::extension(key.as_bytes());
        let own = self.media_types.get(&extension).and_then(|own| own.to_str().ok());
        own.or(media::of_extension(&extension)).map(str::to_owned)
    }
}

/// Checks the preconditions. The change then depends on the object being as it was here.
async fn condition(
    origin: &Origin,
    key: &str,
    fields: &HeaderMap,
) -> Result<Condition, UploadError> {
    let conditions = Conditions::of(fields);
    if conditions == Conditions::default() {
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
