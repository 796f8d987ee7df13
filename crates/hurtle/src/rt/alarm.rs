//! A timer descriptor (`timerfd`). While a timer of the runtime is set, the event loop reads the
//! clock and sets a kernel timer each time it waits; an alarm does so once.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;

use super::sleep;
use crate::sys;

/// A timer for long or repeated waits beside a worker's requests.
#[derive(Debug)]
pub(crate) struct Alarm(Option<Receiver>);

impl Alarm {
    /// Creates an alarm that is not set. Where the system has no timer descriptors, the runtime's
    /// timers are used.
    pub(crate) fn unset() -> Alarm {
        #[cfg(test)]
        if super::simulated::now_ms().is_some() {
            return Alarm(None);
        }
        // The descriptor is no pipe, but is read like one.
        Alarm(sys::timer().and_then(Receiver::from_owned_fd_unchecked).ok())
    }

    /// Waits at least `time`.
    pub(crate) async fn wait(&mut self, time: Duration) {
        let waited = match &self.0 {
            Some(timer) => waited(timer, time).await.is_ok(),
            None => false,
        };
        if !waited {
            sleep(time).await;
        }
    }
}

async fn waited(timer: &Receiver, time: Duration) -> io::Result<()> {
    sys::set_timer(timer, time)?;
    loop {
        timer.readable().await?;
        match timer.try_read(&mut [0; 8]) {
            // An earlier setting that was not awaited made it ready.
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            read => return read.map(drop),
        }
    }
}
