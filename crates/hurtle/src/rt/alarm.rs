//! A timer of the system's own. While one of the runtime's is set, the event loop reads the clock and
//! sets a kernel timer anew each time it waits for anything: here that is done once.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;

use super::sleep;
use crate::sys;

/// For what waits long, or again and again, beside a worker's requests.
#[derive(Debug)]
pub struct Alarm(Option<Receiver>);

impl Alarm {
    /// One that is not set. Where the system has none, the runtime's do.
    pub fn unset() -> Alarm {
        // Not a pipe, but read like one.
        Alarm(sys::timer().and_then(Receiver::from_owned_fd_unchecked).ok())
    }

    /// Waits at least this long.
    pub async fn wait(&mut self, time: Duration) {
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
            // One that was set before, and for which nobody waited, made it ready.
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            read => return read.map(drop),
        }
    }
}
