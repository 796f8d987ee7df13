//! A body on its way to the disk: a file without a name, so that nothing is left behind when the
//! server ends, however it does.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::{Cache, Charge, Content, DISK_FROM_BYTES, Kept, Room};
use crate::body::{OpenFile, Stamp};
use crate::disk::Lane;

impl Cache {
    /// A whole body as it is kept: on the disk if it is large and there is room, else in memory, where
    /// it has room already; that room, if it is not needed for it any more.
    pub async fn keep(&self, body: Bytes, charge: Charge) -> (Arc<Content>, Option<Charge>) {
        let in_memory = |body, charge| (Content::new(Kept::Bytes(body), vec![charge]), None);
        let Some(directory) = self.directory.as_ref().filter(|_| body.len() > DISK_FROM_BYTES)
        else {
            return in_memory(body, charge);
        };
        let room = self.room(Room::Disk, body.len() as u64).zip(self.room(Room::Files, 1));
        let Some((bytes, file)) = room else { return in_memory(body, charge) };
        let (directory, written, lane) = (directory.clone(), body.clone(), self.lane);
        let job = move || write(&directory, &written, lane);
        match self.disk.run(lane, job).await {
            Ok(Ok(open)) => {
                let kept = Kept::File(Arc::new(open));
                (Content::new(kept, vec![bytes, file]), Some(charge))
            }
            Ok(Err(e)) => {
                tracing::error!("cache: cannot write a body: {e}");
                in_memory(body, charge)
            }
            Err(_) => in_memory(body, charge),
        }
    }
}

/// Runs on the pool.
fn write(directory: &Path, body: &[u8], lane: Lane) -> io::Result<OpenFile> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let name = directory.join(format!(".hurtle-cache-{}-{number}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, &name, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::unlinkat(CWD, &name, AtFlags::empty())?;
    let mut written = 0;
    while written < body.len() {
        let len = rustix::io::retry_on_intr(|| {
            rustix::io::pwrite(&fd, &body[written..], written as u64)
        })?;
        if len == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        written += len;
    }
    let stamp = Stamp::of(&rustix::fs::fstat(&fd)?);
    Ok(OpenFile::new(fd, stamp, lane))
}
