//! The few things of the runtime that code outside transport and server needs.

use std::future::Future;
use std::time::Duration;

/// Runs `task` beside the others on this worker.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    drop(tokio::task::spawn_local(task));
}

/// Lets every other connection that is ready have its turn first.
pub async fn give_way() {
    tokio::task::yield_now().await;
}

/// Waits at least this long.
pub async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// `None` if `task` took longer.
pub async fn timeout<T>(time: Duration, task: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, task).await.ok()
}

/// A bell one task waits for and others of the same worker ring.
#[derive(Debug, Default)]
pub struct Bell(tokio::sync::Notify);

impl Bell {
    /// Wakes who waits, or the next one who will.
    pub fn ring(&self) {
        self.0.notify_one();
    }

    /// Waits for the bell, at most this long (`None`: as long as it takes).
    pub async fn wait(&self, at_most: Option<Duration>) {
        match at_most {
            None => self.0.notified().await,
            Some(time) => drop(timeout(time, self.0.notified()).await),
        }
    }
}
