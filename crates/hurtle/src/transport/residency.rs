//! Has the bytes of a file in memory before they are sent, because a disk read would block the
//! event loop. Disk threads read those that are missing, and from then on the next ones while those
//! before them are sent, so that the disk and the socket work at the same time.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::Taken;
use crate::body::{OpenFile, WINDOW_BYTES};
use crate::disk::{self, Disk, Queued};
use crate::{clock, sys};

/// Bytes that are read while those before them are sent.
const AHEAD_BYTES: u64 = 1 << 20;

/// The bytes of a file that are about to be sent.
pub(super) struct Residency<'a> {
    disk: &'a Disk,
    file: &'a Arc<OpenFile>,
    /// The end of what will be sent.
    end: u64,
    ahead: &'a mut ReadingAhead,
    /// `true`: the head of the response is sent.
    has_begun: bool,
}

/// Bytes that are read ahead between the turns of a response; `None`: there are none.
pub(super) type ReadingAhead = Option<Box<Ahead>>;

/// Bytes that a disk thread reads ahead.
pub(super) struct Ahead {
    range: Range<u64>,
    reading: Queued<io::Result<()>>,
}

impl<'a> Residency<'a> {
    /// Nothing is known of the file's bytes. They will be sent up to `end`.
    pub(super) fn new(
        disk: &'a Disk,
        file: &'a Arc<OpenFile>,
        end: u64,
        ahead: &'a mut ReadingAhead,
    ) -> Residency<'a> {
        Residency { disk, file, end, ahead, has_begun: true }
    }

    /// For a response whose head is not sent, so that it can be an error.
    pub(super) fn before_head(self) -> Residency<'a> {
        Residency { has_begun: false, ..self }
    }

    /// Waits for the bytes at `offset` if they are being read ahead, and has the next ones read.
    ///
    /// # Errors
    /// Errors of the disk; `TimedOut` if it did not answer.
    pub(super) async fn follow(&mut self, offset: u64) -> io::Result<()> {
        match self.ahead.take_if(|ahead| ahead.range.contains(&offset)) {
            Some(ahead) => {
                let range = ahead.range.clone();
                match Box::pin(self.finish(*ahead)).await {
                    Err(e) if self.goes_on(&e).await => Box::pin(self.page_in(range)).await,
                    done => done,
                }
            }
            None => Ok(()),
        }
    }

    /// Waits until `offset..end` is in memory.
    ///
    /// # Errors
    /// See `follow`.
    pub(super) async fn ensure(&mut self, offset: u64, end: u64) -> io::Result<()> {
        let now_ms = clock::now_ms();
        let mut at = offset;
        while at < end {
            // Windows are aligned to the file, so that responses with different ranges share them.
            let window_end = end.min((at / WINDOW_BYTES + 1) * WINDOW_BYTES);
            if !self.file.is_warm(at, now_ms) {
                let follows = at >= WINDOW_BYTES && self.file.is_warm(at - WINDOW_BYTES, now_ms);
                if !self.file.is_resident(at..window_end, follows)? {
                    // The rest of the turn is likely to be missing, too.
                    return Box::pin(self.page_in(at..end)).await;
                }
                self.file.set_warm(at, now_ms);
            }
            at = window_end;
        }
        Ok(())
    }

    /// Reads a piece of at most `room` bytes. If it is not in memory, the disk threads read up to
    /// `end`, and at most `AHEAD_BYTES`: a response must not wait for a whole file.
    ///
    /// # Errors
    /// See `follow`; `UnexpectedEof` if the file ends early.
    pub(super) async fn read(&mut self, offset: u64, end: u64, room: usize) -> io::Result<Taken> {
        let len = room.min(usize::try_from(end - offset).unwrap_or(usize::MAX));
        let mut piece = Taken::lend();
        let into = &mut piece.room()[..len];
        let read = match sys::read_resident(self.file.as_fd(), into, offset) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                Box::pin(self.read_untold(into, offset, end)).await?
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                Box::pin(self.page_in(offset..end.min(offset + AHEAD_BYTES))).await?;
                rustix::io::retry_on_intr(|| rustix::io::pread(self.file, &mut *into, offset))?
            }
            read => read?,
        };
        match read {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                piece.fill(read);
                Ok(piece)
            }
        }
    }

    /// Reads bytes before `end`, at most to the end of their window, where nothing tells whether
    /// they are in memory: those of a window that was read lately are.
    async fn read_untold(&self, into: &mut [u8], offset: u64, end: u64) -> io::Result<usize> {
        let window_end = end.min((offset / WINDOW_BYTES + 1) * WINDOW_BYTES);
        let len = into.len().min(usize::try_from(window_end - offset).unwrap_or(usize::MAX));
        if !self.file.is_warm(offset, clock::now_ms()) {
            let begins = offset.is_multiple_of(WINDOW_BYTES);
            let range = offset..if begins { window_end } else { offset + len as u64 };
            self.read_ahead(&range).await?;
            let ends = window_end.is_multiple_of(WINDOW_BYTES) || window_end == self.file.stamp.len;
            if begins && ends {
                self.file.set_warm(offset, clock::now_ms());
            }
        }
        let into = &mut into[..len];
        Ok(rustix::io::retry_on_intr(|| rustix::io::pread(self.file, &mut *into, offset))?)
    }

    /// Reads a range on the disk threads, and nothing after it.
    async fn read_ahead(&self, range: &Range<u64>) -> io::Result<()> {
        loop {
            let read = match self.queue(range.clone()) {
                Some(reading) => reading.result().await.map_err(|_| io::ErrorKind::TimedOut.into()),
                None => Err(io::Error::from(io::ErrorKind::TimedOut)),
            };
            match read.flatten() {
                Err(e) if self.goes_on(&e).await => {}
                done => return done,
            }
        }
    }

    /// Reads a range on the disk threads, which brings it into the page cache.
    async fn page_in(&mut self, range: Range<u64>) -> io::Result<()> {
        loop {
            let paged = match self.queue(range.clone()) {
                Some(reading) => self.finish(Ahead { range: range.clone(), reading }).await,
                None => Err(io::ErrorKind::TimedOut.into()),
            };
            match paged {
                Err(e) if self.goes_on(&e).await => {}
                done => return done,
            }
        }
    }

    /// Returns whether a response waits on for a slow disk: one that has begun does, and ends when
    /// its client has got nothing for `write_stall`.
    async fn goes_on(&self, e: &io::Error) -> bool {
        let goes_on = self.has_begun && e.kind() == io::ErrorKind::TimedOut;
        if goes_on {
            disk::pause().await;
        }
        goes_on
    }

    /// Waits for bytes that are being read, then has the next ones read.
    async fn finish(&mut self, Ahead { range, reading }: Ahead) -> io::Result<()> {
        reading.result().await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let now_ms = clock::now_ms();
        let next = range.end..self.end.min(range.end + AHEAD_BYTES);
        // Another response may have brought them in. Without room in the lane they are read when
        // they are needed.
        if !next.is_empty()
            && !self.file.is_warm(next.start, now_ms)
            && let Some(reading) = self.queue(next.clone())
        {
            *self.ahead = Some(Box::new(Ahead { range: next, reading }));
        }
        let len = self.file.stamp.len;
        let mut at = range.start.next_multiple_of(WINDOW_BYTES);
        while at < range.end && range.end >= len.min(at + WINDOW_BYTES) {
            self.file.set_warm(at, now_ms);
            at += WINDOW_BYTES;
        }
        Ok(())
    }

    fn queue(&self, range: Range<u64>) -> Option<Queued<io::Result<()>>> {
        let file = Arc::clone(self.file);
        self.disk.queue(file.lane, move || file.read_ahead(range.start, range.end)).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::num::NonZeroUsize;

    use super::*;
    use crate::body::Stamp;

    /// A response over HTTP/2 waited until all the rest of its file was read.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_piece_of_a_cold_file_waits_for_the_next_bytes_only() {
        const BYTES: u64 = 64 << 20;
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let path = std::env::temp_dir().join(format!("hurtle-residency-{}", std::process::id()));
        fs::write(&path, vec![7; BYTES as usize]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let stamp = Stamp::of(&rustix::fs::fstat(&file).unwrap());
        let file = Arc::new(OpenFile::new(file.into(), stamp, disk.lane()));
        rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let is_cold = |at| sys::read_resident(file.as_fd(), &mut [0; 16], at).is_err();
        if is_cold(BYTES / 2) {
            let mut ahead = None;
            let mut residency = Residency::new(&disk, &file, BYTES, &mut ahead);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let piece = runtime.unwrap().block_on(residency.read(0, BYTES, 100)).unwrap();
            assert_eq!(piece.into_bytes(), [7; 100][..]);
            assert!(is_cold(BYTES - 16), "the end of the file is read, too");
        }
        fs::remove_file(&path).unwrap();
    }

    /// As on file systems without reads that do not wait.
    #[test]
    fn a_file_is_read_in_pieces_where_nothing_tells_what_is_in_memory() {
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let path = std::env::temp_dir().join(format!("hurtle-untold-{}", std::process::id()));
        let content: Vec<u8> = (0..3 * WINDOW_BYTES + 77).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        let file = File::open(&path).unwrap();
        let stamp = Stamp::of(&rustix::fs::fstat(&file).unwrap());
        let file = Arc::new(OpenFile::new(file.into(), stamp, disk.lane()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let end = content.len() as u64;
        for (start, piece) in [(0, 64 << 10), (0, 100_001), (5, 64 << 10)] {
            let mut ahead = None;
            let residency = Residency::new(&disk, &file, end, &mut ahead);
            let (mut read, mut into) = (Vec::new(), vec![0; piece]);
            while start + (read.len() as u64) < end {
                let at = start + read.len() as u64;
                let len = runtime.block_on(residency.read_untold(&mut into, at, end)).unwrap();
                read.extend_from_slice(&into[..len]);
            }
            assert!(read == content[start as usize..], "pieces of {piece} from {start}");
        }
        assert!(![0, WINDOW_BYTES, 3 * WINDOW_BYTES].iter().any(|at| file.is_unseen(*at)));
        fs::remove_file(&path).unwrap();
    }
}
