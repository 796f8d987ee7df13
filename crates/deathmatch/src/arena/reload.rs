//! Reloads a server's configuration again and again while load is generated.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::process::Reload;

/// Runs `generate`, and meanwhile reloads at this rate; the first reload follows after half an
/// interval.
pub(super) fn reloading<R>(reload: Option<(Reload, f64)>, generate: impl FnOnce() -> R) -> R {
    let Some((reload, per_s)) = reload else { return generate() };
    let interval = Duration::from_secs_f64(1.0 / per_s);
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut wait = interval / 2;
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                reload.send();
                wait = interval;
            }
        });
        let result = generate();
        drop(done);
        result
    })
}
