//! A running server: its threads, and what the process needs of them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;

use super::acme::AcmeHandle;
use super::listening::OpenAddresses;
use super::updating::Update;
use crate::monitoring::admin::Request;
use crate::observe::Writer;
use crate::services::Services;
use crate::services::orders::Stop;

/// A server whose threads run, until it is stopped.
#[derive(Debug)]
pub struct Running {
    pub(crate) threads: Vec<thread::JoinHandle<io::Result<()>>>,
    pub(crate) stop: Stop,
    pub(crate) services: Arc<Services>,
    pub(crate) addresses: OpenAddresses,
    /// The way of other configurations to each worker.
    pub(crate) updates: Vec<mpsc::UnboundedSender<Update>>,
    pub(crate) certificates: CertificateTasks,
    /// Commands from the admin socket for the process.
    pub(crate) requested: mpsc::UnboundedReceiver<Request>,
    /// Messages of the workers.
    pub(crate) accepting: mpsc::UnboundedReceiver<WorkerMessage>,
}

/// A message of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerMessage {
    /// The worker accepts connections on all its listeners.
    Accepts,
    /// The worker has closed its listeners.
    Closed,
    /// The worker has ended with an error.
    Failed,
}

/// The threads that keep certificates new; each ends when its handle is dropped.
#[derive(Debug)]
pub(crate) struct CertificateTasks {
    /// Reads the files again that have changed.
    pub(crate) watching: Option<Sender<()>>,
    /// Orders certificates from authorities.
    pub(crate) ordering: Option<AcmeHandle>,
}

/// A handle that reopens the access log of a running server.
#[derive(Clone, Debug)]
pub struct AccessLogHandle(Option<Arc<Writer>>);

impl AccessLogHandle {
    /// Reopens the log after its file was renamed.
    pub fn reopen(&self) {
        if let Some(log) = &self.0 {
            log.reopen();
        }
    }
}

/// Longest wait at a stop for a log that cannot be written.
const LOG_CLOSE_MAX: Duration = Duration::from_secs(2);

impl Running {
    /// A handle to its access log.
    pub fn logs(&self) -> AccessLogHandle {
        AccessLogHandle(self.services.access_log.clone())
    }

    /// A handle that stops it from any thread.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits until every worker accepts connections.
    ///
    /// # Errors
    /// A worker has failed; the others are ended.
    pub(crate) fn wait_until_accepting(&mut self) -> io::Result<()> {
        for _ in 0..self.threads.len() {
            if self.accepting.blocking_recv() != Some(WorkerMessage::Accepts) {
                self.stop.end();
                join(std::mem::take(&mut self.threads), None)?;
                return Err(io::Error::other("a worker cannot accept connections"));
            }
        }
        Ok(())
    }

    /// Waits until every worker has ended.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub fn join(self) -> io::Result<()> {
        join(self.threads, self.services.access_log.as_deref())
    }
}

/// Waits until every worker has ended, then closes the access log.
pub(crate) fn join(
    threads: Vec<thread::JoinHandle<io::Result<()>>>,
    access_log: Option<&Writer>,
) -> io::Result<()> {
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a worker panicked"))??;
    }
    if let Some(log) = access_log
        && !log.close(LOG_CLOSE_MAX)
    {
        let lines = log.dropped();
        tracing::warn!(
            "the access log cannot be written: {lines} lines were dropped, the last are lost"
        );
    }
    Ok(())
}
