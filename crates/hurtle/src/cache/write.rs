//! Stores bodies: complete ones in memory or on the disk, parts in memory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::parts::PART_BYTES;
use super::{Cache, Content, DISK_FROM_BYTES, Kept, Parts, Room};
use crate::body::{OpenFile, Unnamed};
use crate::disk::Lane;

impl Cache {
    /// Stores a complete body, whose memory is charged: on the disk if it is large and there is
    /// room, otherwise in memory.
    pub(crate) async fn keep(&self, body: Bytes) -> Arc<Content> {
        let in_memory = |body| Content::new(Kept::Bytes(body), None);
        let Some(directory) = self.directory.as_ref().filter(|_| body.len() > DISK_FROM_BYTES)
        else {
            return in_memory(body);
        };
        let room = self.room(Room::Disk, body.len() as u64).zip(self.room(Room::Files, 1));
        let Some(room) = room else { return in_memory(body) };
        let (directory, written, lane) = (directory.clone(), body.clone(), self.lane);
        let job = move || write(&directory, &written, lane);
        match self.disk.run(lane, job).await {
            Ok(Ok(open)) => Content::new(Kept::File(Arc::new(open.holding(room))), None),
            Ok(Err(e)) => {
                tracing::error!("cache: cannot write a body: {e}");
                in_memory(body)
            }
            Err(_) => in_memory(body),
        }
    }
}

/// Bytes of an incomplete response that have arrived.
#[derive(Debug)]
pub(crate) struct ArrivedPart {
    /// The position of the first byte.
    pub start: u64,
    /// The length of the whole representation, in bytes.
    pub len: u64,
    bytes: Bytes,
}

impl ArrivedPart {
    /// The memory of the bytes is charged.
    pub(crate) fn new(start: u64, len: u64, bytes: Bytes) -> ArrivedPart {
        ArrivedPart { start, len, bytes }
    }
}

impl Cache {
    /// Adds a part to stored parts of the same representation, or to none. The result is complete
    /// if the parts are whole. `None`: there is no memory, or there are too many parts.
    pub(crate) async fn combine(
        &self,
        stored: Option<&Parts>,
        part: &ArrivedPart,
    ) -> Option<Arc<Content>> {
        let none = Parts::new(part.len);
        let parts =
            stored.unwrap_or(&none).with(part.start, &part.bytes, |len| self.reserve(len))?;
        if parts.is_whole() {
            return Some(self.keep(parts.join(|len| self.reserve(len))?).await);
        }
        let charge = self.reserve(PART_BYTES * parts.count())?;
        Some(Content::new(Kept::Parts(parts), Some(charge)))
    }
}

/// Runs on a disk thread.
fn write(directory: &Path, body: &[u8], lane: Lane) -> io::Result<OpenFile> {
    let mut file = Unnamed::create(directory)?;
    file.append(body)?;
    file.finish(lane)
}
