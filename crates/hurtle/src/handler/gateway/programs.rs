//! CGI programs: one process for one request, of which only so many run at once.

use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::asking::{Fault, Sink, Watch};
use super::complaints::Complaints;
use super::input::Input;
use crate::config::{Patience, ProgramLimits};
use crate::disk::{Disk, Lane};
use crate::rt::{self, First};
use crate::transport::Program;
use crate::transport::program::{Stderr, Stdin, Stdout};

/// How long it is waited, at the end of what a program says, to learn whether it was killed.
const SETTLED_WITHIN: Duration = Duration::from_millis(200);

/// Places for programs, shared by all workers.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    running: AtomicUsize,
    max: usize,
}

/// A place, free again when dropped.
struct Slot(Arc<Counted>);

impl Slots {
    /// So many.
    pub fn new(max: usize) -> Slots {
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

/// A program to be run.
pub(super) struct Run {
    pub(super) slots: Slots,
    pub(super) patience: Patience,
    /// Where it is started.
    pub(super) place: (Disk, Lane),
    pub(super) file: PathBuf,
    pub(super) limits: ProgramLimits,
}

impl Run {
    /// Runs it, and hands on the answer as it comes.
    pub(super) async fn ask(
        self,
        variables: Vec<(Vec<u8>, Vec<u8>)>,
        mut body: Input,
        sink: &mut Sink,
    ) -> Result<(), Fault> {
        let slot = self.slots.take().ok_or(Fault::Full)?;
        let (disk, lane) = &self.place;
        let started = Program::start(&self.file, &self.limits, variables, disk, *lane).await;
        let started = started.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (program, mut stdin, mut stdout, mut stderr) = started.map_err(Fault::Start)?;
        let watch = Watch::new(&self.patience);
        let mut complaints = Complaints::of(&self.file.display().to_string());
        let sending = async {
            let sent = send(&mut stdin, &mut body, &watch).await;
            // Its end of file.
            drop(stdin);
            watch.all_sent();
            match sent {
                Err(fault) => fault,
                Ok(()) => pending().await,
            }
        };
        let listening = async {
            listen(&mut stderr, &mut complaints).await;
            pending().await
        };
        let beside = rt::race(sending, listening);
        match rt::race(hear(&mut stdout, &watch, sink), beside).await {
            First::A(heard) => heard?,
            First::B(First::A(fault) | First::B(fault)) => return Err(fault),
        }
        let mut program = program;
        let killed = match rt::timeout(SETTLED_WITHIN, program.wait()).await {
            Some(Ok(status)) => status.signal().is_some(),
            _ => false,
        };
        // What it does after its answer it may, for a while; nobody waits for that.
        let within = if sink.has_head() { self.patience.read } else { SETTLED_WITHIN };
        rt::spawn(After { program, stderr, complaints, _slot: slot, within }.run());
        // What it has said is then a part.
        if killed { Err(Fault::Gone(None)) } else { Ok(()) }
    }
}

/// A program that has answered.
struct After {
    program: Program,
    stderr: Stderr,
    complaints: Complaints,
    _slot: Slot,
    within: Duration,
}

impl After {
    async fn run(mut self) {
        let ended = async {
            listen(&mut self.stderr, &mut self.complaints).await;
            self.program.wait().await
        };
        let why = match rt::timeout(self.within, ended).await {
            Some(Ok(status)) if status.success() => return,
            Some(Ok(status)) => format!("{status}"),
            Some(Err(e)) => e.to_string(),
            None => "killed: it did not end after its answer".to_owned(),
        };
        self.complaints.take(format!("{why}\n").as_bytes());
    }
}

/// Gives a program the request's body; one that closes its end wants no more.
async fn send(stdin: &mut Stdin, body: &mut Input, watch: &Watch<'_>) -> Result<(), Fault> {
    loop {
        let data = match body.next().await {
            None => return Ok(()),
            Some(Err(_)) => return Err(Fault::Abandoned),
            Some(Ok(data)) => data,
        };
        if watch.write(stdin.write(&data)).await?.is_err() {
            return Ok(());
        }
    }
}

async fn hear(stdout: &mut Stdout, watch: &Watch<'_>, sink: &mut Sink) -> Result<(), Fault> {
    loop {
        let read = watch.read(sink.has_head(), async || stdout.read().await).await?;
        let data = read.map_err(|e| Fault::Gone(Some(e)))?;
        if data.is_empty() {
            return Ok(());
        }
        sink.take(data).await?;
    }
}

/// Until the program closes its end.
async fn listen(stderr: &mut Stderr, complaints: &mut Complaints) {
    while let Ok(bytes) = stderr.read().await
        && !bytes.is_empty()
    {
        complaints.take(&bytes);
    }
}
