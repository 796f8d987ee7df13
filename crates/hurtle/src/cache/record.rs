//! Stored responses as records, for the process that replaces this one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use hurtle_http::semantics::caching::Freshness;
use serde::{Deserialize, Serialize};

use super::{Cache, Content, Head, Kept, Room, SLOT_BYTES, Stored, lock};
use crate::body::{OpenFile, Stamp};

/// A stored response without its body. Octets are characters of the same number, so that the record
/// can be written as text.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    key: String,
    status: u16,
    lines: String,
    lifetime: u64,
    while_revalidating: u64,
    if_error: u64,
    strict: bool,
    age_ms: u64,
    /// All processes of a machine have the same clock.
    received_ms: u64,
    selected: Vec<(String, Option<String>)>,
    /// Length of the body, in bytes.
    pub len: u64,
    /// `true`: the body is in a file without a name.
    pub in_file: bool,
}

/// A body that another process has handed over.
#[derive(Debug)]
pub(crate) enum ReceivedBody {
    Bytes(Bytes),
    /// A file that has only this body.
    File(OwnedFd),
}

impl Record {
    fn new(key: &[u8], stored: &Stored) -> Record {
        let Head { status, lines, freshness, age_ms, received_ms, selected } = &stored.head;
        let selected =
            selected.iter().map(|(name, value)| (text(name), value.as_deref().map(text)));
        Record {
            key: text(key),
            status: status.as_u16(),
            lines: text(lines),
            lifetime: freshness.lifetime,
            while_revalidating: freshness.while_revalidating,
            if_error: freshness.if_error,
            strict: freshness.strict,
            age_ms: *age_ms,
            received_ms: *received_ms,
            selected: selected.collect(),
            len: stored.content.kept.len(),
            in_file: stored.is_on_disk(),
        }
    }

    fn head(&self) -> Option<Head> {
        let selected = self.selected.iter().map(|(name, value)| {
            let value = match value {
                Some(value) => Some(octets(value)?),
                None => None,
            };
            Some((octets(name)?.into(), value))
        });
        Some(Head {
            status: StatusCode::from_u16(self.status).ok()?,
            lines: octets(&self.lines)?.into(),
            freshness: Freshness {
                lifetime: self.lifetime,
                while_revalidating: self.while_revalidating,
                if_error: self.if_error,
                strict: self.strict,
            },
            age_ms: self.age_ms,
            received_ms: self.received_ms,
            selected: selected.collect::<Option<_>>()?,
        })
    }
}

fn text(octets: &[u8]) -> String {
    octets.iter().map(|octet| char::from(*octet)).collect()
}

fn octets(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

impl Cache {
    /// Passes every complete response to `pass`, until it fails. No lock is held meanwhile.
    ///
    /// # Errors
    /// Those of `pass`.
    pub(crate) fn for_each<E>(
        &self,
        mut pass: impl FnMut(Record, &Kept) -> Result<(), E>,
    ) -> Result<(), E> {
        for shard in &self.shards {
            let stored = lock(shard).complete();
            for (key, stored) in stored {
                pass(Record::new(&key, &stored), &stored.content.kept)?;
            }
        }
        Ok(())
    }

    /// Stores a response of another process, unless there is one for the same request or no room.
    /// Returns `true` if it is stored.
    pub(crate) fn restore(&self, record: &Record, body: ReceivedBody) -> bool {
        self.try_restore(record, body).is_some()
    }

    fn try_restore(&self, record: &Record, body: ReceivedBody) -> Option<()> {
        let key: Arc<[u8]> = octets(&record.key)?.into();
        let head = record.head()?;
        let content = Content::new(self.received(record.len, body)?, None);
        let room = self.reserve(head.cost())?;
        let charge = self.reserve(SLOT_BYTES + key.len() as u64)?;
        let stored = Arc::new(Stored::new(head, content, room));
        let mut shard = self.shard(&key);
        if shard.variant(&key, &stored.head.selected).is_some() {
            return None;
        }
        let removed = shard.insert(&key, stored, charge);
        drop(shard);
        drop(removed);
        Some(())
    }

    fn received(&self, len: u64, body: ReceivedBody) -> Option<Kept> {
        match body {
            ReceivedBody::Bytes(bytes) => Some(Kept::Bytes(self.reserve(len)?.of(bytes))),
            ReceivedBody::File(fd) => {
                let stamp = Stamp::of(&rustix::fs::fstat(&fd).ok()?);
                let room = (self.room(Room::Disk, len)?, self.room(Room::Files, 1)?);
                let open = OpenFile::new(fd, stamp, self.lane).holding(room);
                (open.stamp.len == len).then(|| Kept::File(Arc::new(open)))
            }
        }
    }
}
