//! Puts and deletes objects. A small object is sent with one request, a larger one in parts of a
//! multipart upload, which the store joins at the end; an upload that is not finished is given up.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, MultipartUpload, ObjectStoreExt as _, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, UpdateVersion,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::error::failure_of;
use crate::origin::{Origin, Shared};
use crate::slot::Meta;
use crate::{Change, Condition, Failure, Kind, PART_BYTES, Version};

/// Pieces that wait for the store.
const PIECES_MAX: usize = 4;

/// Uploads at once; each holds a part in memory.
pub(crate) const UPLOADS_MAX: usize = 16;

type Done = Result<(Change, Option<Version>), Failure>;

/// An object that is being put. Dropping it gives it up.
#[derive(Debug)]
pub struct Put {
    pieces: mpsc::Sender<Bytes>,
    result: oneshot::Receiver<Done>,
}

impl Origin {
    /// `true` if an object can have this key.
    pub fn takes(&self, key: &str) -> bool {
        self.shared().location(key).is_some()
    }

    /// Begins to put an object with this media type.
    ///
    /// # Errors
    /// The key is not one of an object, or too many objects are put at once.
    pub fn put(
        &self,
        key: &str,
        condition: Condition,
        media_type: Option<String>,
    ) -> Result<Put, Failure> {
        let shared = Arc::clone(self.shared());
        let Some(location) = shared.location(key) else {
            return Err(Failure::new(Kind::Denied, "no object can have this name"));
        };
        let Ok(permit) = Arc::clone(&shared.uploads).try_acquire_owned() else {
            return Err(Failure::new(Kind::Busy, "too many uploads at once"));
        };
        let (pieces, received) = mpsc::channel(PIECES_MAX);
        let (sender, result) = oneshot::channel();
        let task = Arc::clone(&shared);
        shared.spawn(async move {
            let _permit = permit;
            let result = task.put(&location, condition, media_type, received).await;
            if let Err(failure) = &result {
                task.log(&location, failure);
            }
            // The client may be gone.
            let _ = sender.send(result);
        });
        Ok(Put { pieces, result })
    }

    /// Asks the store about an object, whatever is known of it. `None`: there is none.
    ///
    /// # Errors
    /// The store does not say.
    pub async fn describe(&self, key: String) -> Result<Option<Version>, Failure> {
        self.run(|shared| async move {
            let Some(location) = shared.location(&key) else { return Ok(None) };
            Ok(shared.head(&location).await?.map(|meta| meta.version))
        })
        .await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The store did not delete it.
    pub async fn delete(&self, key: String, condition: Condition) -> Result<Change, Failure> {
        self.run(|shared| async move { shared.delete(&key, condition).await }).await
    }
}

impl Put {
    /// Sends the next bytes, at least one; waits while the store is slower.
    ///
    /// # Errors
    /// The upload has ended; [`finish`](Put::finish) tells why.
    pub async fn send(&mut self, piece: Bytes) -> Result<(), Failure> {
        let ended = |_| Failure::new(Kind::Store, "the upload has ended");
        self.pieces.send(piece).await.map_err(ended)
    }

    /// Ends the object. Returns the change and the new version, if the store tells it.
    ///
    /// # Errors
    /// The store has not taken it.
    pub async fn finish(self) -> Done {
        let Put { pieces, result } = self;
        // An empty piece is the end; a channel that closes without it is a client that is gone.
        let _ = pieces.send(Bytes::new()).await;
        result.await.unwrap_or_else(|_| Err(Failure::new(Kind::Internal, "the upload was lost")))
    }
}

/// The next part of a body.
struct Part {
    bytes: Bytes,
    is_last: bool,
}

/// Receives up to `PART_BYTES`.
async fn next_part(pieces: &mut mpsc::Receiver<Bytes>, rest: &mut Bytes) -> Result<Part, Failure> {
    let mut part = BytesMut::from(&std::mem::take(rest)[..]);
    while part.len() <= PART_BYTES {
        let gone = || Failure::new(Kind::Changed, "the client has ended its upload early");
        let piece = pieces.recv().await.ok_or_else(gone)?;
        if piece.is_empty() {
            return Ok(Part { bytes: part.freeze(), is_last: true });
        }
        part.extend_from_slice(&piece);
    }
    *rest = part.split_off(PART_BYTES).freeze();
    Ok(Part { bytes: part.freeze(), is_last: false })
}

impl Shared {
    async fn put(
        self: &Arc<Self>,
        location: &Path,
        condition: Condition,
        media_type: Option<String>,
        mut pieces: mpsc::Receiver<Bytes>,
    ) -> Done {
        self.ready().await?;
        let old = self.head(location).await?;
        if !condition.holds(old.as_ref()) {
            return Ok((Change::Refused, None));
        }
        let change = if old.is_some() { Change::Changed } else { Change::Created };
        let mut attributes = Attributes::new();
        if let Some(media_type) = media_type {
            attributes.insert(Attribute::ContentType, media_type.into());
        }
        let mut rest = Bytes::new();
        let first = next_part(&mut pieces, &mut rest).await?;
        let put = if first.is_last {
            let mode = condition.mode(old.as_ref());
            let options = PutOptions { mode, attributes, ..PutOptions::default() };
            let payload = PutPayload::from(first.bytes);
            self.within(self.store()?.put_opts(location, payload, options)).await
        } else {
            self.put_parts(location, condition, attributes, first, pieces, rest).await
        };
        // A request that has failed may have had an effect.
        self.forget(location).await;
        let put = match put {
            Ok(put) => put,
            // Another client was faster.
            Err(failure) if failure.kind == Kind::Changed && condition != Condition::Always => {
                return Ok((Change::Refused, None));
            }
            Err(failure) => return Err(failure),
        };
        // The description tells the time, which is part of the version.
        let now = self.head(location).await.ok().flatten();
        Ok((change, now.filter(|now| now.etag == put.e_tag).map(|now| now.version)))
    }

    async fn put_parts(
        &self,
        location: &Path,
        condition: Condition,
        attributes: Attributes,
        first: Part,
        mut pieces: mpsc::Receiver<Bytes>,
        mut rest: Bytes,
    ) -> Result<PutResult, Failure> {
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let mut upload = self.within(self.store()?.put_multipart_opts(location, options)).await?;
        let mut part = first;
        let sent = loop {
            let is_last = part.is_last;
            if let Err(failure) = self.within(upload.put_part(part.bytes.into())).await {
                break Err(failure);
            }
            if is_last {
                break Ok(());
            }
            part = match next_part(&mut pieces, &mut rest).await {
                Ok(part) => part,
                Err(failure) => break Err(failure),
            };
        };
        let holds = match sent {
            Ok(()) => self.check(location, condition).await,
            failed => failed,
        };
        let done = match holds {
            Ok(()) => self.within(upload.complete()).await,
            Err(failure) => Err(failure),
        };
        if done.is_err() {
            // The parts would be kept, and paid for. A second failure has the cause of the first.
            let _ = self.within(upload.abort()).await;
        }
        done
    }

    /// Checks the condition again, because the parts may have taken long. The stores' clients
    /// complete an upload without a condition.
    async fn check(&self, location: &Path, condition: Condition) -> Result<(), Failure> {
        if condition == Condition::Always || condition.holds(self.head(location).await?.as_ref()) {
            return Ok(());
        }
        Err(Failure::new(Kind::Changed, "the object has changed during its upload"))
    }

    async fn delete(self: &Arc<Self>, key: &str, condition: Condition) -> Result<Change, Failure> {
        let Some(location) = self.location(key) else { return Ok(Change::Missing) };
        let old = self.head(&location).await?;
        if !condition.holds(old.as_ref()) {
            return Ok(Change::Refused);
        }
        if old.is_none() {
            return Ok(Change::Missing);
        }
        let store = self.store()?;
        let delete = async {
            match store.delete(&location).await {
                // Another client was faster.
                Err(Error::NotFound { .. }) => Ok(()),
                deleted => deleted,
            }
        };
        let deleted = self.within(delete).await;
        // A request that has failed may have had an effect.
        self.forget(&location).await;
        if let Err(failure) = deleted {
            self.log(&location, &failure);
            return Err(failure);
        }
        Ok(Change::Changed)
    }

    async fn head(&self, location: &Path) -> Result<Option<Meta>, Failure> {
        let _permit = self.permit().await?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        Ok(self.get(location, options).await?.map(|(meta, _)| meta))
    }

    /// Has the store asked again about an object and its directories, because they have changed.
    async fn forget(self: &Arc<Self>, location: &Path) {
        self.forget_listings();
        if let Some(slot) = self.index.find(self.id(location)) {
            self.remove(self.index.expire(&slot)).await;
        }
    }

    async fn within<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        match timeout(self.upload_timeout(), request).await {
            Err(_) => Err(Failure::new(Kind::Timeout, "the store does not respond")),
            Ok(Err(Error::AlreadyExists { .. })) => {
                Err(Failure::new(Kind::Changed, "an object of this name exists by now"))
            }
            // The bucket, or the upload in parts.
            Ok(Err(error @ Error::NotFound { .. })) => {
                Err(Failure { kind: Kind::Store, ..failure_of(&error) })
            }
            Ok(result) => result.map_err(|error| failure_of(&error)),
        }
    }
}

impl Condition {
    fn holds(self, object: Option<&Meta>) -> bool {
        match self {
            Condition::Always => true,
            Condition::Missing => object.is_none(),
            Condition::Is(hash) => object.is_some_and(|object| object.version.hash == hash),
        }
    }

    /// The mode by which the store checks the condition again.
    fn mode(self, object: Option<&Meta>) -> PutMode {
        match (self, object) {
            (Condition::Missing, _) => PutMode::Create,
            (Condition::Is(_), Some(Meta { etag: Some(etag), generation, .. })) => {
                // S3 and Azure compare the entity-tag, Google the generation.
                let (e_tag, version) = (Some(etag.clone()), generation.clone());
                PutMode::Update(UpdateVersion { e_tag, version })
            }
            _ => PutMode::Overwrite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_gets_the_validator_that_it_compares() {
        let version = Version { hash: 7, len: 1, modified_secs: 0 };
        let etag = Some("tag".to_owned());
        let meta = |generation: Option<&str>| Meta {
            version,
            etag: etag.clone(),
            generation: generation.map(str::to_owned),
            md5: None,
        };
        let update = |generation: Option<&str>| {
            let version = generation.map(str::to_owned);
            PutMode::Update(UpdateVersion { e_tag: etag.clone(), version })
        };
        let rows = [
            ("no condition", Condition::Always, Some(meta(Some("5"))), PutMode::Overwrite),
            ("it must not exist", Condition::Missing, None, PutMode::Create),
            ("S3 and Azure", Condition::Is(7), Some(meta(None)), update(None)),
            ("Google", Condition::Is(7), Some(meta(Some("5"))), update(Some("5"))),
        ];
        for (sentence, condition, object, mode) in rows {
            assert!(condition.holds(object.as_ref()), "{sentence}");
            assert_eq!(condition.mode(object.as_ref()), mode, "{sentence}");
        }
    }
}
