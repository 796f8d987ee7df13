//! Who is at work on which unfinished upload: one request at a time. A newer request ends the older
//! one, whose client has most likely given it up (draft-ietf-httpbis-resumable-upload-12,
//! Concurrency). Between processes the lock of the file itself decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::token::Token;
use crate::rt::Bell;

/// How often it is looked whether the older one has gone, and how long one look waits: as long as a
/// disk may take (`disk`).
const LOOKS_MAX: usize = 20;
const LOOK_TIME_MAX: Duration = Duration::from_millis(500);

/// Uploads at work in this process; their number is bounded by the connections.
static HELD: Mutex<BTreeMap<Token, Arc<Holder>>> = Mutex::new(BTreeMap::new());

/// The request that is at work on an upload.
#[derive(Debug, Default)]
pub(super) struct Holder {
    /// It is to end.
    ended: Bell,
    /// It has ended.
    gone: Bell,
}

/// The right to work on an upload; dropped, it is the next one's.
#[derive(Debug)]
pub(super) struct Claim {
    token: Token,
    holder: Arc<Holder>,
}

impl Claim {
    /// Ends whoever is at work on it, and takes its place; `None`: it does not go.
    pub(super) async fn take(token: &Token) -> Option<Claim> {
        for _ in 0..LOOKS_MAX {
            match Claim::try_take(token) {
                Ok(claim) => return Some(claim),
                Err(holder) => {
                    holder.ended.ring();
                    holder.gone.wait(Some(LOOK_TIME_MAX)).await;
                }
            }
        }
        None
    }

    /// Takes it if nobody has it; `Err`: who does.
    pub(super) fn try_take(token: &Token) -> Result<Claim, Arc<Holder>> {
        let mut held = held();
        if let Some(holder) = held.get(token) {
            return Err(Arc::clone(holder));
        }
        let holder = Arc::<Holder>::default();
        held.insert(token.clone(), Arc::clone(&holder));
        Ok(Claim { token: token.clone(), holder })
    }

    /// For the request to know when it is to end.
    pub(super) fn holder(&self) -> Arc<Holder> {
        Arc::clone(&self.holder)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        held().remove(&self.token);
        self.holder.gone.ring();
    }
}

impl Holder {
    /// Waits until another request takes its place.
    pub(super) async fn superseded(&self) {
        self.ended.wait(None).await;
    }
}

/// Nothing that can panic runs while the lock is held, so a poisoned one is as good.
fn held() -> MutexGuard<'static, BTreeMap<Token, Arc<Holder>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn the_newer_one_has_it_once_the_older_one_is_gone() {
        run(async {
            let token = Token::random().unwrap();
            let older = Claim::take(&token).await.unwrap();
            assert!(
                Claim::try_take(&token).is_err()
                    && Claim::try_take(&Token::random().unwrap()).is_ok()
            );
            let holder = older.holder();
            let work = async {
                match race(std::future::pending::<()>(), holder.superseded()).await {
                    First::A(()) => panic!("it is never done"),
                    First::B(()) => drop(older),
                }
            };
            let (newer, ()) = both(Claim::take(&token), work).await;
            assert!(newer.is_some());
            drop(newer);
            assert!(Claim::try_take(&token).is_ok());
        });
    }
}
