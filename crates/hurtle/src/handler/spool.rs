//! The body of a response between its upstream or application and the client. What the client
//! cannot take yet is kept, in memory and then in a file without a name, so that a slow client
//! holds neither. A byte that the client can take is never delayed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;

use super::body_buffer::{
    BodyBuffer, BufferError, DropOnDiskThread, SLOW_PIECE_BYTES, leave_room, note_passed_on,
};
use super::file_bytes::Reserved;
use crate::body::{self, OpenFile, Unnamed};
use crate::rt::{self, Instant};

/// Bytes that wait in memory before a file is used, and of one read of the file for a client that
/// reads fast.
const MEMORY_BYTES_MAX: usize = 64 << 10;

/// Longest time in which a fast client takes what was read of the file.
const FAST_READ: Duration = Duration::from_millis(10);

/// Longest time for which the source of a response waits before a file is used: most clients that
/// cannot take something at once can take it soon, and a file costs more than a wait.
const PATIENCE: Duration = Duration::from_millis(20);

/// Pieces up to this size that wait are copied, in bytes: each may be in a buffer of 64 KiB.
const COPIED_BYTES_MAX: usize = 32 << 10;

/// Pieces up to this size are joined, in bytes.
const JOINED_BYTES_MAX: usize = 8 << 10;

/// The end of the source. Dropping it before [`Spool::end`] fails the body.
pub(super) struct Spool<E>(Arc<SharedSpool<E>>);

/// The end of the client.
pub(super) struct Spooled<E> {
    /// Dropped before the file, which a disk thread closes.
    reading: Option<Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>>,
    shared: Arc<SharedSpool<E>>,
    /// Time of the last read of the file.
    last_read: Option<Instant>,
}

/// The tasks of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tasks {
    /// One polls the source and then the client, and the source again while [`Spool::is_due`].
    One,
    /// Each has its own.
    Two,
}

/// The error of a body.
#[derive(Debug)]
pub(super) enum SpoolError<E> {
    Source(E),
    /// Its file cannot be read, or its source is gone.
    Lost(io::Error),
}

struct SharedSpool<E> {
    /// `None`: a piece waits for the one before.
    buffer: Option<BodyBuffer>,
    tasks: Tasks,
    state: Mutex<SpoolState<E>>,
}

/// The part that was put and not yet taken: first the bytes of the file, then the pieces.
struct SpoolState<E> {
    file: Option<DropOnDiskThread<Arc<OpenFile>>>,
    /// The part of the file that was written and not yet taken.
    written: std::ops::Range<u64>,
    reserved: Reserved,
    /// `true` while pieces are being written, which come next.
    is_writing: bool,
    /// `true`: nothing is written anymore.
    is_memory_only: bool,
    awaits: Awaits,
    /// Time for which the source has waited.
    waited: Duration,
    /// Most bytes in the file.
    file_bytes_max: u64,
    /// The source waits while this many bytes or more wait in memory.
    memory_bytes_max: usize,
    pieces: VecDeque<Bytes>,
    /// Small pieces behind `pieces`.
    joined: BytesMut,
    /// Bytes in `pieces` and `joined`.
    memory_bytes: usize,
    end: Option<Result<Option<HeaderMap>, SpoolError<E>>>,
    is_abandoned: bool,
    source: Option<Waker>,
    client: Option<Waker>,
}

/// The event that a source waits for, if one task polls both ends.
#[derive(Clone, Copy, Debug, Default)]
enum Awaits {
    #[default]
    Nothing,
    /// A poll of the client.
    Poll,
    /// The client takes something.
    Room,
}

/// The next step of the source.
enum Room {
    /// The source may put the next piece at once.
    Free,
    /// These pieces are written to the file, at the end of what is there.
    Write(Vec<Bytes>, Option<Arc<OpenFile>>, u64),
    /// It waits until the client takes something, at most for so long.
    None(Option<Duration>),
    /// The client is gone.
    Gone,
}

/// Creates both ends. Without a buffer the source waits until the client has taken each piece.
pub(super) fn spool<E>(buffer: Option<BodyBuffer>, tasks: Tasks) -> (Spool<E>, Spooled<E>) {
    let state = SpoolState {
        file: None,
        written: 0..0,
        reserved: buffer.as_ref().map_or_else(Reserved::default, |of| Reserved::new(&of.mount)),
        is_writing: false,
        is_memory_only: buffer.is_none(),
        awaits: Awaits::Nothing,
        waited: Duration::ZERO,
        file_bytes_max: buffer.as_ref().map_or(0, |buffer| buffer.bytes_max),
        memory_bytes_max: if buffer.is_some() { MEMORY_BYTES_MAX } else { 1 },
        pieces: VecDeque::new(),
        joined: BytesMut::new(),
        memory_bytes: 0,
        end: None,
        is_abandoned: false,
        source: None,
        client: None,
    };
    let shared = Arc::new(SharedSpool { buffer, tasks, state: Mutex::new(state) });
    (Spool(Arc::clone(&shared)), Spooled { reading: None, shared, last_read: None })
}

impl<E> Spool<E> {
    /// Adds a piece, and waits while no more is kept. `false`: the client is gone.
    pub(super) async fn put(&self, data: Bytes) -> bool {
        match &mut *self.0.lock() {
            SpoolState { is_abandoned: true, .. } => return false,
            state => state.push(data),
        }
        if self.0.tasks == Tasks::One && self.0.lock().is_full() {
            // Usually the client takes it now, so no timer is set.
            let mut was_polled = false;
            poll_fn(|_| self.0.lock().poll_client(&mut was_polled)).await;
        }
        loop {
            let room = self.0.lock().room();
            match room {
                Room::Free => return true,
                Room::Gone => return false,
                Room::Write(pieces, file, offset) => self.write(pieces, file, offset).await,
                Room::None(within) => {
                    let begun = Instant::now();
                    let taken = poll_fn(|cx| self.0.lock().poll_taken(self.0.tasks, cx));
                    match within {
                        None => taken.await,
                        Some(time) => drop(rt::timeout(time, taken).await),
                    }
                    self.0.lock().waited += begun.elapsed();
                }
            }
        }
    }

    /// `true`: the source has waited for what the client has now done, and is polled again.
    pub(super) fn is_due(&self) -> bool {
        let mut state = self.0.lock();
        match std::mem::take(&mut state.awaits) {
            Awaits::Nothing => false,
            Awaits::Poll => true,
            Awaits::Room => !state.is_full(),
        }
    }

    pub(super) fn end(&self, end: Result<Option<HeaderMap>, E>) {
        self.0.lock().finish(end.map_err(SpoolError::Source));
    }

    /// `true` while a piece is being written, so that the end would not be seen.
    pub(super) fn is_writing(&self) -> bool {
        self.0.lock().is_writing
    }

    /// Keeps no more than the last piece from now on.
    pub(super) fn pass_on(&self) {
        let mut state = self.0.lock();
        (state.is_memory_only, state.memory_bytes_max) = (true, 1);
    }

    /// Appends pieces to the file. If that fails, they stay in memory and no more are written.
    async fn write(&self, pieces: Vec<Bytes>, file: Option<Arc<OpenFile>>, mut offset: u64) {
        let Some(buffer) = &self.0.buffer else { return };
        let (kept, lane, directory) = (pieces.clone(), buffer.lane, buffer.directory());
        let written = buffer.disk.run(lane, move || {
            let file = match file {
                Some(file) => file,
                None => Arc::new(Unnamed::create(&directory)?.finish(lane)?),
            };
            leave_room(&*file)?;
            for piece in &pieces {
                body::write_at(&file, piece, offset)?;
                offset += piece.len() as u64;
            }
            io::Result::Ok(file)
        });
        // A job that was given up may still write behind all that is read.
        let written = written.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        self.0.lock().note_written(buffer, kept, written);
    }
}

impl<E> Drop for Spool<E> {
    fn drop(&mut self) {
        self.0.lock().finish(Err(SpoolError::Lost(io::ErrorKind::BrokenPipe.into())));
    }
}

impl<E> Spooled<E> {
    /// Polls for the next frame, which is the last one if it has trailers.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SpoolError<E>>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = ready!(reading.as_mut().poll(cx));
                self.reading = None;
                let taken = read.inspect(|bytes| self.shared.lock().note_read(bytes.len()));
                return Poll::Ready(Some(taken.map(Frame::data).map_err(SpoolError::Lost)));
            }
            let mut state = self.shared.lock();
            if let (Some(buffer), Some(DropOnDiskThread { value: Some(file), .. })) =
                (&self.shared.buffer, &state.file)
                && !state.written.is_empty()
            {
                let now = Instant::now();
                let before = self.last_read.replace(now);
                let is_fast = before.is_some_and(|before| now - before < FAST_READ);
                let most = if is_fast { MEMORY_BYTES_MAX } else { SLOW_PIECE_BYTES };
                let len = (state.written.end - state.written.start).min(most as u64);
                let (disk, offset) = (buffer.disk.clone(), state.written.start);
                let read =
                    body::read_next_piece(disk, Arc::clone(file), offset, len as usize, false);
                self.reading = Some(Box::pin(read));
                continue;
            }
            if !state.is_writing {
                if let Some(piece) = state.pop() {
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                if let Some(end) = state.end.take() {
                    state.end = Some(Ok(None));
                    let frame = end.map(|trailers| trailers.map(Frame::trailers));
                    return Poll::Ready(frame.transpose());
                }
            }
            if self.shared.tasks == Tasks::Two {
                state.client = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
    }

    /// `true` if nothing follows, not even trailers.
    pub(super) fn is_end(&self) -> bool {
        let state = self.shared.lock();
        let is_empty = state.memory_bytes == 0 && state.written.is_empty() && !state.is_writing;
        is_empty && self.reading.is_none() && matches!(state.end, Some(Ok(None)))
    }
}

impl<E> Drop for Spooled<E> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_abandoned = true;
        state.wake_source();
    }
}

impl<E> SharedSpool<E> {
    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, SpoolState<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> SpoolState<E> {
    fn push(&mut self, data: Bytes) {
        let is_first = self.memory_bytes == 0;
        self.memory_bytes += data.len();
        if self.joined.len() + data.len() > JOINED_BYTES_MAX && !self.joined.is_empty() {
            self.pieces.push_back(self.joined.split().freeze());
        }
        match data.len() {
            0 => {}
            // One piece alone is not copied.
            len if is_first || len > COPIED_BYTES_MAX => self.pieces.push_back(data),
            len if len > JOINED_BYTES_MAX => self.pieces.push_back(Bytes::copy_from_slice(&data)),
            _ => self.joined.extend_from_slice(&data),
        }
        self.wake_client();
    }

    fn is_full(&self) -> bool {
        self.memory_bytes >= self.memory_bytes_max
    }

    fn pop(&mut self) -> Option<Bytes> {
        let piece = self.pieces.pop_front().unwrap_or_else(|| self.joined.split().freeze());
        self.memory_bytes -= piece.len();
        self.wake_source();
        Some(piece).filter(|piece| !piece.is_empty())
    }

    fn room(&mut self) -> Room {
        // This comes first: a client that has taken all leaves, and is not gone too early.
        if !self.is_full() {
            return Room::Free;
        }
        if self.is_abandoned {
            return Room::Gone;
        }
        if self.is_memory_only {
            return Room::None(None);
        }
        if self.waited < PATIENCE {
            return Room::None(Some(PATIENCE - self.waited));
        }
        let file_bytes = self.written.end + self.memory_bytes as u64;
        let refused = match () {
            () if file_bytes > self.file_bytes_max => BufferError::TooLarge,
            () if !self.reserved.grow_to(file_bytes) => BufferError::Busy,
            () => return self.begin_writing(),
        };
        self.stop_writing(&refused);
        Room::None(None)
    }

    fn poll_client(&mut self, was_polled: &mut bool) -> Poll<()> {
        if std::mem::replace(was_polled, true) {
            return Poll::Ready(());
        }
        self.awaits = Awaits::Poll;
        Poll::Pending
    }

    fn poll_taken(&mut self, tasks: Tasks, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_full() || self.is_abandoned {
            return Poll::Ready(());
        }
        match tasks {
            Tasks::One => self.awaits = Awaits::Room,
            Tasks::Two => self.source = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn begin_writing(&mut self) -> Room {
        self.is_writing = true;
        self.memory_bytes = 0;
        // Besides the file, little waits in memory from now on.
        self.memory_bytes_max = self.memory_bytes_max.min(SLOW_PIECE_BYTES);
        let mut pieces = Vec::from(std::mem::take(&mut self.pieces));
        pieces.push(self.joined.split().freeze());
        let file = self.file.as_ref().and_then(|file| file.value.clone());
        Room::Write(pieces, file, self.written.end)
    }

    /// Writes no more: the source waits for the client.
    fn stop_writing(&mut self, why: &BufferError) {
        self.is_memory_only = true;
        note_passed_on(why, || "the rest of a response".to_owned());
    }

    fn note_written(
        &mut self,
        buffer: &BodyBuffer,
        pieces: Vec<Bytes>,
        written: io::Result<Arc<OpenFile>>,
    ) {
        self.is_writing = false;
        let len: usize = pieces.iter().map(Bytes::len).sum();
        match written {
            Ok(file) => {
                self.file.get_or_insert_with(|| buffer.drop_later(Some(file)));
                self.written.end += len as u64;
                buffer.count_response(len as u64);
            }
            Err(e) => {
                self.stop_writing(&BufferError::Disk(e, buffer.directory()));
                self.memory_bytes += len;
                self.pieces.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
            }
        }
        self.wake_client();
    }

    /// Counts bytes of the file as taken. A file of which all is taken is written from its begin
    /// again.
    fn note_read(&mut self, len: usize) {
        self.written.start += len as u64;
        if self.written.is_empty() && !self.is_writing {
            self.written = 0..0;
        }
        self.wake_source();
    }

    fn finish(&mut self, end: Result<Option<HeaderMap>, SpoolError<E>>) {
        if self.end.is_none() {
            self.end = Some(end);
            self.wake_client();
        }
    }

    fn wake_source(&mut self) {
        self.source.take().into_iter().for_each(Waker::wake);
    }

    fn wake_client(&mut self) {
        self.client.take().into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::pin::pin;

    use proptest::prelude::*;

    use super::*;
    use crate::config;
    use crate::disk::Disk;

    fn run<T>(task: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(task)
    }

    /// Puts pieces of these lengths while a client takes a frame after so many of its turns;
    /// returns the bytes that were put and those that were taken.
    async fn passed(
        buffer: Option<BodyBuffer>,
        tasks: Tasks,
        waited: Duration,
        pieces: Vec<usize>,
        turns: Vec<u8>,
    ) -> (Vec<u8>, Vec<u8>) {
        let (spool, mut spooled) = spool::<()>(buffer, tasks);
        spool.0.lock().waited = waited;
        let put = async {
            let mut all = Vec::new();
            for (n, len) in pieces.iter().enumerate() {
                let piece = vec![n as u8; *len];
                all.extend_from_slice(&piece);
                assert!(spool.put(piece.into()).await, "the client is there");
            }
            spool.end(Ok(None));
            all
        };
        let take = async {
            let (mut all, mut turns) = (Vec::new(), turns.iter().cycle());
            loop {
                for _ in 0..*turns.next().unwrap_or(&0) {
                    rt::give_way().await;
                }
                let frame = poll_fn(|cx| spooled.poll_frame(cx)).await;
                let Some(frame) = frame else { break };
                all.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
            assert!(spooled.is_end());
            all
        };
        let (mut put, mut take) = (pin!(put), pin!(take));
        let (mut sent, mut taken) = (None, None);
        poll_fn(|cx| {
            loop {
                if sent.is_none()
                    && let Poll::Ready(all) = put.as_mut().poll(cx)
                {
                    sent = Some(all);
                }
                if taken.is_none()
                    && let Poll::Ready(all) = take.as_mut().poll(cx)
                {
                    taken = Some(all);
                }
                if tasks == Tasks::Two || sent.is_some() || !spool.is_due() {
                    break;
                }
            }
            match (&mut sent, &mut taken) {
                (Some(sent), Some(taken)) => {
                    Poll::Ready((std::mem::take(sent), std::mem::take(taken)))
                }
                _ => Poll::Pending,
            }
        })
        .await
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_pieces_pass_in_order_whenever_they_are_taken(
            pieces in prop::collection::vec(0_usize..90_000, 0..40),
            turns in prop::collection::vec(0_u8..20, 1..6),
            is_buffered: bool,
            is_one: bool,
            is_patient: bool,
        ) {
            let tasks = if is_one { Tasks::One } else { Tasks::Two };
            let waited = if is_patient { Duration::ZERO } else { PATIENCE };
            let disk = Disk::start(NonZeroUsize::MIN).unwrap();
            let buffer = is_buffered.then(|| BodyBuffer::new(&disk, &config::Buffer::default()));
            let (put, taken) = run(passed(buffer, tasks, waited, pieces, turns));
            prop_assert!(put == taken);
        }
    }

    fn poll<E>(spooled: &mut Spooled<E>) -> Poll<Option<Result<Frame<Bytes>, SpoolError<E>>>> {
        spooled.poll_frame(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn pieces_that_the_disk_does_not_take_stay_in_memory() {
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let buffer = BodyBuffer::new(&disk, &config::Buffer::default());
        let (spool, mut spooled) = spool::<()>(Some(buffer.clone()), Tasks::Two);
        spool.0.lock().push(vec![1; MEMORY_BYTES_MAX].into());
        spool.0.lock().push(vec![2; 10].into());
        assert!(matches!(spool.0.lock().room(), Room::None(Some(_))), "the client comes first");
        spool.0.lock().waited = PATIENCE;
        let Room::Write(pieces, None, 0) = spool.0.lock().room() else {
            panic!("they are written");
        };
        assert!(poll(&mut spooled).is_pending(), "meanwhile nothing is taken");
        spool.0.lock().note_written(&buffer, pieces, Err(io::ErrorKind::StorageFull.into()));
        let room = spool.0.lock().room();
        assert!(matches!(room, Room::None(None)), "the source waits for the client");
        spool.end(Ok(None));
        let mut taken = Vec::new();
        while let Poll::Ready(Some(frame)) = poll(&mut spooled) {
            taken.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        assert!(taken == [vec![1; MEMORY_BYTES_MAX], vec![2; 10]].concat());
    }

    #[test]
    fn each_side_learns_that_the_other_is_gone() {
        let (spool_, mut spooled) = spool::<()>(None, Tasks::Two);
        run(async {
            tokio::join!(spool_.put(Bytes::from_static(b"last")), async {
                assert!(poll(&mut spooled).is_ready());
            })
        });
        drop(spool_);
        let failed = poll(&mut spooled);
        assert!(matches!(failed, Poll::Ready(Some(Err(SpoolError::Lost(_))))), "no end was put");
        let (spool, spooled) = spool::<()>(None, Tasks::Two);
        drop(spooled);
        assert!(!run(spool.put(Bytes::from_static(b"more"))));
    }
}
