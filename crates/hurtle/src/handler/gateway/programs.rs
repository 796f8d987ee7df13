//! CGI programs: one process per request, with a limit on simultaneous processes.

use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::super::body_buffer::OutgoingBody;
use super::exchange::{GatewayError, Sink, Timer};
use super::stderr_log::StderrLog;
use crate::config::{ProgramLimits, UpstreamTimeouts};
use crate::disk::{Disk, Lane};
use crate::rt::{self, First};
use crate::transport::Program;
use crate::transport::program::{Stderr, Stdin, Stdout};

/// Time after the end of a program's output to learn whether it was killed.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_millis(200);

/// Counts running programs of all workers.
#[derive(Clone, Debug)]
pub(crate) struct Slots(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    running: AtomicUsize,
    max: usize,
}

/// The count of one program; released when dropped.
struct Slot(Arc<Counted>);

impl Slots {
    /// Allows `max` simultaneous programs.
    pub(crate) fn new(max: usize) -> Slots {
        Slots(Arc::new(Counted { running: AtomicUsize::new(0), max }))
    }

    fn take(&self) -> Option<Slot> {
        let more = |running| (running < self.0.max).then_some(running + 1);
        let taken = self.0.running.fetch_update(Relaxed, Relaxed, more);
        taken.ok().map(|_| Slot(Arc::clone(&self.0)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

/// A program to run.
pub(super) struct Run {
    pub(super) slots: Slots,
    pub(super) timeouts: UpstreamTimeouts,
    /// The disk threads and the lane in which it is started.
    pub(super) disk_lane: (Disk, Lane),
    pub(super) file: PathBuf,
    pub(super) limits: ProgramLimits,
}

impl Run {
    /// Runs the program and passes the response to `sink` as it arrives.
    pub(super) async fn run(
        self,
        variables: Vec<(Vec<u8>, Vec<u8>)>,
        mut body: OutgoingBody,
        sink: &mut Sink,
    ) -> Result<(), GatewayError> {
        let slot = self.slots.take().ok_or(GatewayError::Full)?;
        let (disk, lane) = &self.disk_lane;
        let started = Program::start(&self.file, &self.limits, variables, disk, *lane).await;
        let started = started.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (program, mut stdin, mut stdout, mut stderr) = started.map_err(GatewayError::Start)?;
        let timer = Timer::new(&self.timeouts);
        let mut stderr_log = StderrLog::new(&self.file.display().to_string());
        let sending = async {
            let sent = send(&mut stdin, &mut body, &timer).await;
            // Signals the end of file.
            drop(stdin);
            timer.set_all_sent();
            match sent {
                Err(error) => error,
                Ok(()) => pending().await,
            }
        };
        let logging = async {
            log_stderr(&mut stderr, &mut stderr_log).await;
            pending().await
        };
        let beside = rt::race(sending, logging);
        match rt::race(read_response(&mut stdout, &timer, sink), beside).await {
            First::A(heard) => heard?,
            First::B(First::A(error) | First::B(error)) => return Err(error),
        }
        let mut program = program;
        let killed = match rt::timeout(EXIT_STATUS_TIMEOUT, program.wait()).await {
            Some(Ok(status)) => status.signal().is_some(),
            _ => false,
        };
        // The program may go on after its response for a while; no request waits for it.
        let within = if sink.has_head() { self.timeouts.read } else { EXIT_STATUS_TIMEOUT };
        let limits = self.limits;
        let finishing =
            FinishingProgram { program, stderr, stderr_log, limits, _slot: slot, within };
        rt::spawn(finishing.run());
        // The output of a killed program is incomplete.
        if killed { Err(GatewayError::Gone(None)) } else { Ok(()) }
    }
}

/// A program that has sent its response.
struct FinishingProgram {
    program: Program,
    stderr: Stderr,
    stderr_log: StderrLog,
    limits: ProgramLimits,
    _slot: Slot,
    within: Duration,
}

impl FinishingProgram {
    async fn run(mut self) {
        let ended = async {
            log_stderr(&mut self.stderr, &mut self.stderr_log).await;
            self.program.wait().await
        };
        let reason = match rt::timeout(self.within, ended).await {
            Some(Ok(status)) if status.success() => return,
            // It may have failed for lack of what a limit refuses.
            Some(Ok(status)) => format!("{status}; its limits are {}", self.limits),
            Some(Err(e)) => e.to_string(),
            None => "killed: it did not end after its response".to_owned(),
        };
        self.stderr_log.take(format!("{reason}\n").as_bytes());
    }
}

/// Sends the request's body to a program; stops when the program closes its input.
async fn send(
    stdin: &mut Stdin,
    body: &mut OutgoingBody,
    timer: &Timer<'_>,
) -> Result<(), GatewayError> {
    loop {
        let data = match body.next().await {
            None => return Ok(()),
            Some(Err(_)) => return Err(GatewayError::Abandoned),
            Some(Ok(data)) => data,
        };
        if timer.write(stdin.write(data)).await?.is_err() {
            return Ok(());
        }
    }
}

async fn read_response(
    stdout: &mut Stdout,
    timer: &Timer<'_>,
    sink: &mut Sink,
) -> Result<(), GatewayError> {
    loop {
        let read = timer.read(sink.has_head(), async || stdout.read().await).await?;
        let data = read.map_err(|e| GatewayError::Gone(Some(e)))?;
        if data.is_empty() {
            return Ok(());
        }
        sink.take(data).await?;
    }
}

/// Reads standard error until the program closes it.
async fn log_stderr(stderr: &mut Stderr, stderr_log: &mut StderrLog) {
    while let Ok(bytes) = stderr.read().await
        && !bytes.is_empty()
    {
        stderr_log.take(&bytes);
    }
}
