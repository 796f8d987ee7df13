//! Resumable uploads (draft-ietf-httpbis-resumable-upload-12, interop version 8). A PUT with
//! Upload-Complete creates an upload. The upload has a resource of its own: HEAD returns its
//! offset, PATCH appends, DELETE cancels.
//!
//! `headers` parses and writes the fields, `store` keeps the bytes, and `lock` admits one request
//! at a time. `publish` ends a complete upload.

use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;

use super::commit::{Committed, Conditions};
use super::error::UploadError;
use super::headers::{
    self, UPLOAD_LENGTH, UPLOAD_LIMIT, UPLOAD_OFFSET, UploadFields, with_complete,
};
use super::lock::{Taken, UploadLock};
use super::name::Target;
use super::objects::admit;
use super::record::{AGE_SECS_MAX, Record};
use super::store::{self, DIRECTORY, now_secs};
use super::token::Token;
use super::unfinished::Unfinished;
use super::{ReceiveMode, UploadClient, Uploads, of_done, refuse_parts};
use crate::answer::Answer;
use crate::body::{Interim, RequestBody};
use crate::rt::{self, First};

/// The value of Allow for the resource of an upload.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, PATCH, DELETE, OPTIONS");

/// Status 104 (draft, Status Code 104).
pub(super) fn upload_resumption_supported() -> StatusCode {
    StatusCode::from_u16(104).unwrap_or(StatusCode::PROCESSING)
}

/// True if a path relative to a mount is in the directory of unfinished uploads.
pub(crate) fn is_upload(rest: &[u8]) -> bool {
    rest.strip_prefix(DIRECTORY.as_bytes()).is_some_and(|after| after.starts_with(b"/"))
}

/// An upload for the next request.
enum Resumed {
    Unfinished(Box<Unfinished>),
    /// Another request has published the upload of this length.
    Published(u64, Committed),
}

/// Result of receiving a request's content.
enum Received {
    /// The upload continues at this offset.
    Part(u64),
    /// The upload is complete; the result of publishing it.
    Whole(Result<Committed, UploadError>),
}

impl Uploads {
    /// The upload fields of a resumable PUT; `None` if it is not resumable, or the mount keeps no
    /// uploads.
    ///
    /// # Errors
    /// A part sent by an unsupported version must not be taken for the whole.
    pub(super) fn resumable(
        &self,
        fields: &HeaderMap,
    ) -> Result<Option<UploadFields>, UploadError> {
        let upload_fields = UploadFields::of(fields);
        match (upload_fields.complete, upload_fields.supports_interop && self.limits.resumable > 0)
        {
            (Some(_), true) => Ok(Some(upload_fields)),
            (Some(false), false) => Err(UploadError::INTEROP),
            (None | Some(true), _) => Ok(None),
        }
    }

    /// The value of Upload-Limit for new uploads.
    pub(super) fn upload_limit(&self) -> Option<HeaderValue> {
        (self.limits.resumable > 0).then(|| headers::limit(self.bytes_max(), AGE_SECS_MAX))
    }

    /// Answers a PUT that creates a resumable upload.
    pub(super) async fn create(
        &self,
        upload_fields: UploadFields,
        fields: &HeaderMap,
        rest: &[u8],
        body: RequestBody,
        client: UploadClient,
    ) -> Result<Answer, UploadError> {
        refuse_parts(fields)?;
        Target::of(rest, self.sidecars)?;
        let (bytes_max, content) = (self.bytes_max(), body.size_hint().exact());
        let length = upload_fields.length(None, 0, content)?;
        let limit = headers::limit(bytes_max, AGE_SECS_MAX);
        if length.max(content).is_some_and(|len| len > bytes_max) {
            return Ok(UploadError::TOO_LARGE.answer(rest).with(UPLOAD_LIMIT, limit));
        }
        let UploadClient { user, base, .. } = client;
        let conditions = Conditions::of(fields);
        if let Some(origin) = &self.origin {
            admit(origin, rest, &conditions).await?;
        }
        let record = Record { created: now_secs(), user, rest: rest.to_vec(), length, conditions };
        let token = Token::random()?;
        let (root, disk) = (self.root.clone(), self.disk.clone());
        let (name, bounds) = (token.clone(), self.bounds());
        let begun = self.run(move || store::create(&root, disk, &name, record, bounds)).await?;
        let Some(file) = begun else {
            return match upload_fields.complete {
                Some(true) => self.put(fields, rest, body).await,
                _ => Err(UploadError::CROWDED),
            };
        };
        let location = HeaderValue::try_from(format!("{base}{DIRECTORY}/{token}"))
            .map_err(|_| UploadError::DEFECT)?;
        body.send_interim(Interim {
            status: upload_resumption_supported(),
            fields: headers::announcement(&location, limit.clone()),
        });
        let received = self.receive_part(file, &token, upload_fields, body).await?;
        Ok(match received {
            Received::Part(offset) => with_complete(Answer::empty(StatusCode::CREATED), false)
                .with(header::LOCATION, location)
                .with(UPLOAD_LIMIT, limit)
                .with(UPLOAD_OFFSET, HeaderValue::from(offset)),
            Received::Whole(done) => of_whole(done, rest),
        })
    }

    /// Answers a request for the resource of an upload.
    pub(super) async fn upload(
        &self,
        head: &Parts,
        rest: &[u8],
        body: RequestBody,
        client: UploadClient,
    ) -> Result<Answer, UploadError> {
        let name = rest.get(DIRECTORY.len() + 1..).unwrap_or_default();
        let token = Token::parse(name).ok_or(UploadError::NO_UPLOAD)?;
        match head.method {
            Method::HEAD | Method::GET => self.offset(&token, client.user).await,
            Method::PATCH => self.append(&token, &head.headers, rest, body, client.user).await,
            Method::DELETE => self.cancel(&token, client.user).await,
            Method::OPTIONS => Ok(Answer::empty(StatusCode::NO_CONTENT).with(header::ALLOW, ALLOW)),
            _ => Ok(Answer::error(StatusCode::METHOD_NOT_ALLOWED, None).with(header::ALLOW, ALLOW)),
        }
    }

    /// Returns the offset of an upload (draft, Offset Retrieval).
    async fn offset(&self, token: &Token, user: Option<String>) -> Result<Answer, UploadError> {
        let (offset, record) = match UploadLock::publishing(token) {
            // The offset of a complete upload does not change, so its publishing goes on.
            Some(len) => (len, self.find_record(token, user).await?),
            None => {
                let mut file = self.resume(token, user).await?.unfinished()?;
                let stored = file.stored().ok_or(UploadError::DEFECT)?;
                let record = stored.record.clone();
                (self.run(move || file.settle()).await?, record)
            }
        };
        let limit = headers::limit(self.bytes_max(), record.left_secs(now_secs()));
        let answer = with_complete(Answer::empty(StatusCode::NO_CONTENT), false)
            .with(UPLOAD_OFFSET, HeaderValue::from(offset))
            .with(UPLOAD_LIMIT, limit)
            .with(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(match record.length {
            Some(length) => answer.with(UPLOAD_LENGTH, HeaderValue::from(length)),
            None => answer,
        })
    }

    /// Appends a part (draft, Upload Append).
    async fn append(
        &self,
        token: &Token,
        fields: &HeaderMap,
        rest: &[u8],
        body: RequestBody,
        user: Option<String>,
    ) -> Result<Answer, UploadError> {
        refuse_parts(fields)?;
        if !headers::is_part(fields) {
            return Err(UploadError::NO_PART);
        }
        let upload_fields = UploadFields::of(fields);
        let (Some(offset), Some(_)) = (upload_fields.offset, upload_fields.complete) else {
            return Err(UploadError::UNPLACED);
        };
        let mut file = match self.resume(token, user).await? {
            Resumed::Unfinished(file) => *file,
            // The request that has published it may have lost its client.
            Resumed::Published(len, done)
                if upload_fields.ends_at(len, body.size_hint().exact()) =>
            {
                return Ok(of_whole(Ok(done), rest));
            }
            Resumed::Published(..) => return Err(UploadError::NO_UPLOAD),
        };
        if file.len != offset {
            return Ok(headers::mismatch(file.len, offset));
        }
        let stored = file.stored().ok_or(UploadError::DEFECT)?;
        let (bytes_max, content) = (self.bytes_max(), body.size_hint().exact());
        let length = upload_fields.length(stored.record.length, offset, content)?;
        let reached = content.map(|len| offset.saturating_add(len));
        if length.max(reached).is_some_and(|len| len > bytes_max) {
            let limit = headers::limit(bytes_max, stored.record.left_secs(now_secs()));
            let answer = UploadError::TOO_LARGE.answer(rest).with(UPLOAD_LIMIT, limit);
            return Ok(with_complete(answer, false));
        }
        if length != stored.record.length {
            stored.record.length = length;
            file = self.run(move || file.record_anew()).await?;
        }
        Ok(match self.receive_part(file, token, upload_fields, body).await? {
            Received::Part(offset) => with_complete(Answer::empty(StatusCode::NO_CONTENT), false)
                .with(UPLOAD_OFFSET, HeaderValue::from(offset)),
            Received::Whole(done) => of_whole(done, rest),
        })
    }

    /// Deletes an upload (draft, Upload Cancellation).
    async fn cancel(&self, token: &Token, user: Option<String>) -> Result<Answer, UploadError> {
        let file = self.resume(token, user).await?.unfinished()?;
        let cancel = move || {
            file.release(true);
            Ok(())
        };
        self.run(cancel).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }

    /// Opens an upload and ends the request that is working on it. It checks first that the upload
    /// belongs to this user.
    async fn resume(&self, token: &Token, user: Option<String>) -> Result<Resumed, UploadError> {
        self.find_record(token, user.clone()).await?;
        let lock = match UploadLock::take(token).await.ok_or(UploadError::ELSEWHERE)? {
            Taken::Lock(lock) => lock,
            Taken::Published(len, done) => return Ok(Resumed::Published(len, done)),
        };
        let (root, disk) = (self.root.clone(), self.disk.clone());
        let (name, bounds) = (token.clone(), self.bounds());
        let resume =
            move || store::resume(&root, disk, &name, user.as_deref(), lock, bounds.sidecars);
        self.run(resume).await.map(|file| Resumed::Unfinished(Box::new(file)))
    }

    async fn find_record(
        &self,
        token: &Token,
        user: Option<String>,
    ) -> Result<Record, UploadError> {
        let (root, name) = (self.root.clone(), token.clone());
        self.run(move || store::find_record(&root, &name, user.as_deref())).await
    }

    async fn forget(&self, token: &Token) -> Result<(), UploadError> {
        let (root, name) = (self.root.clone(), token.clone());
        self.run(move || store::forget(&root, &name)).await
    }

    /// Appends a request's content to an upload, and publishes the file if it is complete.
    async fn receive_part(
        &self,
        mut file: Unfinished,
        token: &Token,
        upload_fields: UploadFields,
        body: RequestBody,
    ) -> Result<Received, UploadError> {
        let stored = file.stored().ok_or(UploadError::DEFECT)?;
        let (holder, length) = (stored.lock.holder(), stored.record.length);
        let left = Duration::from_secs(stored.record.left_secs(now_secs()));
        let conditions = stored.record.conditions.clone();
        let bytes_max = self.bytes_max().min(length.unwrap_or(u64::MAX)).saturating_sub(file.len);
        let receiving = self.receive(
            file,
            body,
            bytes_max,
            ReceiveMode::resumable(upload_fields.supports_interop),
        );
        let received = rt::timeout(left, rt::race(receiving, holder.wait_until_superseded()));
        let file = match received.await {
            Some(First::A(Ok(file))) => file,
            Some(First::A(Err(error))) if error.is_temporary() => return Err(error),
            Some(First::A(Err(error))) => {
                // Draft, Upload Append: an upload that has exceeded its length is deleted.
                self.forget(token).await?;
                return Err(if length.is_some() { UploadError::LENGTHS } else { error });
            }
            Some(First::B(())) => return Err(UploadError::SUPERSEDED),
            // Its time has passed.
            None => {
                self.forget(token).await?;
                return Err(UploadError::NO_UPLOAD);
            }
        };
        if upload_fields.complete != Some(true) {
            return Ok(Received::Part(self.run(move || file.settle()).await?));
        }
        if length.is_some_and(|length| length != file.len) {
            return Err(UploadError::LENGTHS);
        }
        Ok(Received::Whole(self.publish(file, conditions).await))
    }
}

impl Resumed {
    /// The upload; an error if it has ended.
    fn unfinished(self) -> Result<Unfinished, UploadError> {
        match self {
            Resumed::Unfinished(file) => Ok(*file),
            Resumed::Published(..) => Err(UploadError::NO_UPLOAD),
        }
    }
}

/// The response that the creating PUT would have had.
fn of_whole(done: Result<Committed, UploadError>, rest: &[u8]) -> Answer {
    match done {
        Ok(done) => with_complete(of_done(done), true),
        // Draft, Completeness: `?0` tells the client that it may try again.
        Err(error) => {
            let ended = !error.is_temporary();
            with_complete(error.answer(rest), ended)
        }
    }
}
