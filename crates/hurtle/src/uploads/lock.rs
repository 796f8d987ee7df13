//! Locks an unfinished upload for one request at a time. A newer request ends the older one, whose
//! client has most likely given up (draft-ietf-httpbis-resumable-upload-12, Concurrency). A
//! complete upload on its way to an object store is not ended: newer requests wait for the result.
//! Between processes the lock of the file decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::commit::Committed;
use super::token::Token;
use crate::rt::Bell;

/// Maximum number of attempts to get a lock, and the maximum wait of each. Together they allow as
/// long as a disk job may take (`disk`).
const LOOKS_MAX: usize = 20;
const LOOK_TIME_MAX: Duration = Duration::from_millis(500);

/// The locks of this process. Each belongs to a request, so connections bound their number.
static HOLDERS: Mutex<BTreeMap<Token, Arc<LockHolder>>> = Mutex::new(BTreeMap::new());

/// State shared with the request that holds a lock.
#[derive(Debug, Default)]
pub(super) struct LockHolder {
    /// Rung when the holder should end.
    ended: Bell,
    /// Rung when the holder has ended.
    gone: Bell,
    /// Length of a complete upload that an object store is given, in bytes.
    publishing: OnceLock<u64>,
    /// Set when the store has the object.
    published: OnceLock<Committed>,
}

/// Result of waiting for a lock.
#[derive(Debug)]
pub(super) enum Taken {
    Lock(UploadLock),
    /// The upload of this length was published meanwhile.
    Published(u64, Committed),
}

/// The exclusive right to work on an upload; dropping it releases it.
#[derive(Debug)]
pub(super) struct UploadLock {
    token: Token,
    holder: Arc<LockHolder>,
}

impl UploadLock {
    /// Ends the current holder and takes the lock; `None` if the holder does not end in time.
    pub(super) async fn take(token: &Token) -> Option<Taken> {
        let mut looks = 0;
        while looks < LOOKS_MAX {
            let holder = match UploadLock::try_take(token) {
                Ok(lock) => return Some(Taken::Lock(lock)),
                Err(holder) => holder,
            };
            holder.ended.ring();
            holder.gone.wait(Some(LOOK_TIME_MAX)).await;
            match (holder.publishing.get(), holder.published.get()) {
                (Some(len), Some(done)) => return Some(Taken::Published(*len, done.clone())),
                // Each request to a store has a time limit.
                (Some(_), None) => {}
                (None, _) => looks += 1,
            }
        }
        None
    }

    /// Returns the length of an upload that an object store is being given.
    pub(super) fn publishing(token: &Token) -> Option<u64> {
        holders().get(token).and_then(|holder| holder.publishing.get().copied())
    }

    /// Takes the lock if it is free; `Err` returns the current holder.
    pub(super) fn try_take(token: &Token) -> Result<UploadLock, Arc<LockHolder>> {
        let mut holders = holders();
        if let Some(holder) = holders.get(token) {
            return Err(Arc::clone(holder));
        }
        let holder = Arc::<LockHolder>::default();
        holders.insert(token.clone(), Arc::clone(&holder));
        Ok(UploadLock { token: token.clone(), holder })
    }

    /// Returns the shared state, on which the request waits for its end.
    pub(super) fn holder(&self) -> Arc<LockHolder> {
        Arc::clone(&self.holder)
    }
}

impl Drop for UploadLock {
    fn drop(&mut self) {
        holders().remove(&self.token);
        self.holder.gone.ring();
    }
}

impl LockHolder {
    /// The upload of `len` bytes is complete, and an object store is given it.
    pub(super) fn begin_publishing(&self, len: u64) {
        let _ = self.publishing.set(len);
    }

    /// The object store has the upload.
    pub(super) fn publish(&self, done: Committed) {
        let _ = self.published.set(done);
    }

    /// Waits until another request wants the lock.
    pub(super) async fn wait_until_superseded(&self) {
        self.ended.wait(None).await;
    }
}

/// Nothing can panic while the lock is held, so a poisoned one is valid.
fn holders() -> MutexGuard<'static, BTreeMap<Token, Arc<LockHolder>>> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::{First, both, race};

    fn run<T>(task: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(task)
    }

    #[test]
    fn a_newer_request_gets_the_lock_once_the_older_has_ended() {
        run(async {
            let token = Token::random().unwrap();
            let older = UploadLock::try_take(&token).unwrap();
            assert!(
                UploadLock::try_take(&token).is_err()
                    && UploadLock::try_take(&Token::random().unwrap()).is_ok()
            );
            let holder = older.holder();
            let work = async {
                match race(std::future::pending::<()>(), holder.wait_until_superseded()).await {
                    First::A(()) => panic!("it is never done"),
                    First::B(()) => drop(older),
                }
            };
            let (newer, ()) = both(UploadLock::take(&token), work).await;
            assert!(matches!(newer, Some(Taken::Lock(_))));
            drop(newer);
            assert!(UploadLock::try_take(&token).is_ok());
        });
    }

    #[test]
    fn newer_requests_wait_for_the_result_of_publishing() {
        run(async {
            let token = Token::random().unwrap();
            let lock = UploadLock::try_take(&token).unwrap();
            assert_eq!(UploadLock::publishing(&token), None);
            lock.holder().begin_publishing(7);
            assert_eq!(UploadLock::publishing(&token), Some(7));
            let publish = async {
                lock.holder().publish(Committed { created: true, tag: None });
                drop(lock);
            };
            let waiting = both(UploadLock::take(&token), UploadLock::take(&token));
            let ((one, other), ()) = both(waiting, publish).await;
            for taken in [one, other] {
                assert!(matches!(taken, Some(Taken::Published(7, done)) if done.created));
            }
        });
    }
}
