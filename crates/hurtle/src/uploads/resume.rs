//! Uploads that go on where they broke off (draft-ietf-httpbis-resumable-upload-12, interop version
//! 8), from fields to answer: creation by a PUT that says Upload-Complete, and an upload's own
//! resource, of which HEAD says how far it is, PATCH appends, DELETE cancels. `asked` reads and
//! writes the fields, `store` keeps the bytes, `claim` lets one request at a time have them; what
//! is complete takes the way of every PUT (`commit`).

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;

use super::asked::{self, Asked, UPLOAD_LENGTH, UPLOAD_LIMIT, UPLOAD_OFFSET, with_complete};
use super::claim::Claim;
use super::commit::{Conditions, Done};
use super::name::Target;
use super::record::{AGE_SECS_MAX, Record};
use super::refusal::Refusal;
use super::store::{self, DIRECTORY, now_secs};
use super::token::Token;
use super::unfinished::Unfinished;
use super::{Asker, Manner, Uploads, of_done, refuse_parts};
use crate::answer::Answer;
use crate::body::{Interim, RequestBody};
use crate::rt::{self, First};

/// What an upload's own resource answers to.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, PATCH, DELETE, OPTIONS");

/// Draft, Status Code 104.
pub(super) fn upload_resumption_supported() -> StatusCode {
    StatusCode::from_u16(104).unwrap_or(StatusCode::PROCESSING)
}

/// Whether a path beneath a mount that takes uploads is, or would be, an unfinished upload's.
pub fn is_upload(rest: &[u8]) -> bool {
    rest.strip_prefix(DIRECTORY.as_bytes()).is_some_and(|after| after.starts_with(b"/"))
}

/// What a request's content has led to.
enum Taken {
    /// The upload goes on, from this offset.
    Part(u64),
    /// It is complete, and this became of it.
    Whole(Result<Done, Refusal>),
}

impl Uploads {
    /// What a PUT says of how it may be resumed; `None`: nothing, or nothing is kept here.
    ///
    /// # Errors
    /// A part by a protocol that is not spoken here must not be taken for the whole.
    pub(super) fn resumable(&self, fields: &HeaderMap) -> Result<Option<Asked>, Refusal> {
        let asked = Asked::of(fields);
        match (asked.complete, asked.understands && self.limits.resumable > 0) {
            (Some(_), true) => Ok(Some(asked)),
            (Some(false), false) => Err(Refusal::INTEROP),
            (None | Some(true), _) => Ok(None),
        }
    }

    /// What uploads are held to.
    pub(super) fn upload_limit(&self) -> Option<HeaderValue> {
        (self.limits.resumable > 0).then(|| asked::limit(self.bytes_max(), AGE_SECS_MAX))
    }

    /// Answers a PUT of which a part is worth keeping.
    pub(super) async fn create(
        &self,
        asked: Asked,
        fields: &HeaderMap,
        rest: &[u8],
        body: RequestBody,
        asker: Asker,
    ) -> Result<Answer, Refusal> {
        refuse_parts(fields)?;
        Target::of(rest, self.sidecars)?;
        let (bytes_max, content) = (self.bytes_max(), body.size_hint().exact());
        let length = asked.length(None, 0, content)?;
        let limit = asked::limit(bytes_max, AGE_SECS_MAX);
        if length.max(content).is_some_and(|len| len > bytes_max) {
            return Ok(Refusal::TOO_LARGE.answer(rest).with(UPLOAD_LIMIT, limit));
        }
        let Asker { user, base } = asker;
        let conditions = Conditions::of(fields);
        let record = Record { created: now_secs(), user, rest: rest.to_vec(), length, conditions };
        let token = Token::random()?;
        let (place, disk) = (self.place.clone(), self.disk.clone());
        let (name, bounds) = (token.clone(), self.bounds());
        let begun = self.run(move || store::create(&place, disk, &name, record, bounds)).await?;
        let Some(file) = begun else {
            return match asked.complete {
                Some(true) => self.put(fields, rest, body).await,
                _ => Err(Refusal::CROWDED),
            };
        };
        let location = HeaderValue::try_from(format!("{base}{DIRECTORY}/{token}"))
            .map_err(|_| Refusal::DEFECT)?;
        body.tell(Interim {
            status: upload_resumption_supported(),
            fields: asked::announcement(&location, limit.clone()),
        });
        let taken = self.take_in(file, &token, asked, body).await?;
        Ok(match taken {
            Taken::Part(offset) => with_complete(Answer::empty(StatusCode::CREATED), false)
                .with(header::LOCATION, location)
                .with(UPLOAD_LIMIT, limit)
                .with(UPLOAD_OFFSET, HeaderValue::from(offset)),
            Taken::Whole(done) => of_whole(done, rest),
        })
    }

    /// Answers whatever is asked of an upload's own resource.
    pub(super) async fn upload(
        &self,
        head: &Parts,
        rest: &[u8],
        body: RequestBody,
        asker: Asker,
    ) -> Result<Answer, Refusal> {
        let name = rest.get(DIRECTORY.len() + 1..).unwrap_or_default();
        let token = Token::parse(name).ok_or(Refusal::NO_UPLOAD)?;
        match head.method {
            Method::HEAD | Method::GET => self.offset(&token, asker.user).await,
            Method::PATCH => self.append(&token, &head.headers, rest, body, asker.user).await,
            Method::DELETE => self.cancel(&token, asker.user).await,
            Method::OPTIONS => Ok(Answer::empty(StatusCode::NO_CONTENT).with(header::ALLOW, ALLOW)),
            _ => Ok(Answer::error(StatusCode::METHOD_NOT_ALLOWED, None).with(header::ALLOW, ALLOW)),
        }
    }

    /// Says how far an upload is (draft, Offset Retrieval).
    async fn offset(&self, token: &Token, user: Option<String>) -> Result<Answer, Refusal> {
        let mut file = self.resume(token, user).await?;
        let offset = file.len;
        let record = &file.kept().ok_or(Refusal::DEFECT)?.record;
        let limit = asked::limit(self.bytes_max(), record.left_secs(now_secs()));
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
    ) -> Result<Answer, Refusal> {
        refuse_parts(fields)?;
        if !asked::is_part(fields) {
            return Err(Refusal::NO_PART);
        }
        let asked = Asked::of(fields);
        let (Some(offset), Some(_)) = (asked.offset, asked.complete) else {
            return Err(Refusal::UNPLACED);
        };
        let mut file = self.resume(token, user).await?;
        if file.len != offset {
            return Ok(asked::mismatch(file.len, offset));
        }
        let kept = file.kept().ok_or(Refusal::DEFECT)?;
        let (bytes_max, content) = (self.bytes_max(), body.size_hint().exact());
        let length = asked.length(kept.record.length, offset, content)?;
        let reached = content.map(|len| offset.saturating_add(len));
        if length.max(reached).is_some_and(|len| len > bytes_max) {
            let limit = asked::limit(bytes_max, kept.record.left_secs(now_secs()));
            let answer = Refusal::TOO_LARGE.answer(rest).with(UPLOAD_LIMIT, limit);
            return Ok(with_complete(answer, false));
        }
        if length != kept.record.length {
            kept.record.length = length;
            file = self.run(move || file.record_anew()).await?;
        }
        Ok(match self.take_in(file, token, asked, body).await? {
            Taken::Part(offset) => with_complete(Answer::empty(StatusCode::NO_CONTENT), false)
                .with(UPLOAD_OFFSET, HeaderValue::from(offset)),
            Taken::Whole(done) => of_whole(done, rest),
        })
    }

    /// Forgets an upload (draft, Upload Cancellation).
    async fn cancel(&self, token: &Token, user: Option<String>) -> Result<Answer, Refusal> {
        let mut file = self.resume(token, user).await?;
        let forget = move || {
            if let Some(kept) = file.kept() {
                kept.remove();
            }
            Ok(())
        };
        self.run(forget).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }

    /// Opens an upload, for this user, and ends whoever is at work on it. Whether it is this user's
    /// is asked first.
    async fn resume(&self, token: &Token, user: Option<String>) -> Result<Unfinished, Refusal> {
        let (place, name, who) = (self.place.clone(), token.clone(), user.clone());
        self.run(move || store::look(&place, &name, who.as_deref())).await?;
        let claim = Claim::take(token).await.ok_or(Refusal::ELSEWHERE)?;
        let (place, disk) = (self.place.clone(), self.disk.clone());
        let (name, bounds) = (token.clone(), self.bounds());
        let resume =
            move || store::resume(&place, disk, &name, user.as_deref(), claim, bounds.sidecars);
        self.run(resume).await
    }

    /// Appends a request's content to an upload, and gives it its name if that was all.
    async fn take_in(
        &self,
        mut file: Unfinished,
        token: &Token,
        asked: Asked,
        body: RequestBody,
    ) -> Result<Taken, Refusal> {
        let kept = file.kept().ok_or(Refusal::DEFECT)?;
        let (holder, length) = (kept.claim.holder(), kept.record.length);
        let conditions = kept.record.conditions.clone();
        let bytes_max = self.bytes_max().min(length.unwrap_or(u64::MAX)).saturating_sub(file.len);
        let receiving = self.receive(file, body, bytes_max, Manner::kept(asked.understands));
        let file = match rt::race(receiving, holder.superseded()).await {
            First::A(Ok(file)) => file,
            First::A(Err(refusal)) if refusal.may_pass() => return Err(refusal),
            First::A(Err(refusal)) => {
                // Draft, Upload Append: one that has become larger than it may be is at its end.
                let (place, name) = (self.place.clone(), token.clone());
                self.run(move || store::forget(&place, &name)).await?;
                return Err(if length.is_some() { Refusal::LENGTHS } else { refusal });
            }
            First::B(()) => return Err(Refusal::SUPERSEDED),
        };
        if asked.complete != Some(true) {
            return Ok(Taken::Part(self.run(move || file.settle()).await?));
        }
        if length.is_some_and(|length| length != file.len) {
            return Err(Refusal::LENGTHS);
        }
        let changed = self.changed.clone();
        Ok(Taken::Whole(self.run(move || file.commit(&conditions, &changed)).await))
    }
}

/// The answer that the PUT would have had that began it.
fn of_whole(done: Result<Done, Refusal>, rest: &[u8]) -> Answer {
    match done {
        Ok(done) => with_complete(of_done(done), true),
        // Draft, Completeness: with `?0` the client may come again.
        Err(refusal) => {
            let ended = !refusal.may_pass();
            with_complete(refusal.answer(rest), ended)
        }
    }
}
