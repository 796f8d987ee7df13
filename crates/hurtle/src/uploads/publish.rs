//! Publishes complete resumable uploads: a directory's as every PUT (`commit`), an object store's
//! by sending the received bytes on. The object appears when the store has all of them. If the
//! store fails, the upload stays and the client may complete it again.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use hurtle_objects::Origin;
use rustix::io::retry_on_intr;

use super::commit::{Committed, Conditions};
use super::error::UploadError;
use super::objects::{admit, send};
use super::unfinished::Unfinished;
use super::{PIECE_BYTES, Uploads};
use crate::rt::{self, oneshot};

impl Uploads {
    /// Publishes a complete upload.
    pub(super) async fn publish(
        &self,
        mut file: Unfinished,
        conditions: Conditions,
    ) -> Result<Committed, UploadError> {
        let Some(origin) = self.origin.clone() else {
            let changed = self.changed.clone();
            return self.run(move || file.commit(&conditions, &changed)).await;
        };
        // A store may take longer than the client waits. So this goes on without the client, and a
        // later request for the upload gets the result.
        let len = file.len;
        file.stored().ok_or(UploadError::DEFECT)?.lock.holder().begin_publishing(len);
        let (sender, receiver) = oneshot::channel();
        let uploads = self.clone();
        rt::spawn(async move {
            sender.send(uploads.publish_object(&origin, file, &conditions).await);
        });
        receiver.recv().await.unwrap_or(Err(UploadError::DEFECT))
    }

    async fn publish_object(
        &self,
        origin: &Origin,
        mut file: Unfinished,
        conditions: &Conditions,
    ) -> Result<Committed, UploadError> {
        let len = file.len;
        let stored = file.stored().ok_or(UploadError::DEFECT)?;
        let (holder, rest) = (stored.lock.holder(), stored.record.rest.clone());
        let content = Arc::new(file.content()?);
        let done = self.put_content(origin, &rest, conditions, content, len).await;
        if let Ok(done) = &done {
            holder.publish(done.clone());
        }
        let is_over = !done.as_ref().is_err_and(UploadError::is_temporary);
        // A record that cannot be removed now expires.
        let _ = self
            .run(move || {
                file.release(is_over);
                Ok(())
            })
            .await;
        done
    }

    async fn put_content(
        &self,
        origin: &Origin,
        rest: &[u8],
        conditions: &Conditions,
        content: Arc<OwnedFd>,
        len: u64,
    ) -> Result<Committed, UploadError> {
        let keep = UploadError::keeping_upload;
        let (key, condition) = admit(origin, rest, conditions).await.map_err(keep)?;
        let put = origin.put(key, condition, self.stored_type(key));
        let mut put = put.map_err(|failure| keep(failure.into()))?;
        let mut at = 0;
        while at < len {
            let content = Arc::clone(&content);
            let piece = self.run(move || read_piece(&content, at, len)).await?;
            at += piece.len() as u64;
            put = send(put, piece).await.map_err(keep)?;
        }
        self.finish(put).await.map_err(keep)
    }
}

fn read_piece(content: &OwnedFd, at: u64, len: u64) -> Result<Bytes, UploadError> {
    let left = usize::try_from(len - at).unwrap_or(PIECE_BYTES);
    let mut piece = vec![0; left.min(PIECE_BYTES)];
    match retry_on_intr(|| rustix::io::pread(content, &mut piece[..], at))? {
        // Another process has cut the file.
        0 => Err(UploadError::DEFECT),
        n => {
            piece.truncate(n);
            Ok(piece.into())
        }
    }
}
