//! One contender's turn at one work in one round: it is started, its bytes are checked, its work is
//! sampled, its bytes are checked again, and it is stopped. Samples in the journal are not measured
//! again; if all are there, the contender is not started.

use std::fs;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::cold::{Disk, ReadLimit, cool};
use super::entrant::Server;
use super::herd::herds;
use super::observe::{Observed, foreign_mark, observe};
use super::record::Record;
use super::reload::reloading;
use super::{Arena, Entrant, Event};
use crate::load::saturation::{self, RateVerdict};
use crate::load::{self, Job};
use crate::network::LossyLink;
use crate::plan::{File, Plan, Shape, Work};
use crate::sample::{
    Beside, Cooling, IdleUse, Load, MachineUse, Mark, Offered, Sample, plan_round,
};
use crate::stats::fit;
use crate::verify::{Fault, VerifyError, upload, verify, verify_http2, verify_http3, verify_once};

/// Share of the cold files' bytes sent that must have been read from the disk.
const COLD_SHARE_MIN: f64 = 0.9;

/// Rate of an overload, as a multiple of the rate carried.
const OVERLOAD: f64 = 1.5;

/// Largest number of samples of one rate in a search, or of one work that other programs disturb.
const TRIALS: u32 = 3;

/// Number of files of one kind whose bytes are checked.
const CHECKED_MAX: usize = 32;

/// Name of an upload that is only checked.
const CHECKED_UPLOAD: &str = "checked.bin";

/// Reason for which a turn ended early.
pub(super) enum TurnError {
    /// A fault of the contender: the others continue.
    Contender(String),
    /// Likewise: its bytes were not those of the file.
    WrongBytes(String),
    /// The whole run cannot continue.
    Run(io::Error),
}

impl From<io::Error> for TurnError {
    fn from(e: io::Error) -> TurnError {
        TurnError::Run(e)
    }
}

pub(super) struct Turn<'a, T> {
    pub(super) arena: &'a Arena,
    pub(super) plan: &'a Plan,
    pub(super) entrant: &'a Entrant,
    pub(super) round: u32,
    pub(super) attempt: u32,
    pub(super) record: &'a mut Record,
    pub(super) tell: &'a mut T,
    /// The network of this work; `None`: loopback.
    pub(super) link: Option<LossyLink>,
    /// Set once it had to be started.
    pub(super) server: Option<Server>,
    /// Index in the journal of the first sample of this turn.
    pub(super) first: usize,
}

impl<T: FnMut(Event<'_>)> Turn<'_, T> {
    pub(super) fn run(mut self, work: &Work) -> Result<(), TurnError> {
        self.first = self.record.samples.len();
        let work = self.possible(work);
        let name = work.name();
        let (round, contender) = (self.round, &self.entrant.name);
        (self.tell)(Event::Turn { round: plan_round(round), contender, work: &name });
        let link = work.network.map(|network| self.arena.link(network, round)).transpose()?;
        // The server is started and checked at its side of the network, without its losses.
        let _inside = link.as_ref().map(LossyLink::enter_server).transpose()?;
        self.link = link;
        match work.shape {
            Shape::Steady(offered) => self.undisturbed(&name, &work, offered)?,
            Shape::Upward { from, connections } => self.search(&work, from, connections)?,
        }
        (self.tell)(Event::Done);
        self.close()
    }

    /// Takes a sample, and another if other programs disturbed it. That is known without looking at
    /// the figures.
    fn undisturbed(&mut self, name: &str, work: &Work, offered: Offered) -> Result<(), TurnError> {
        for trial in 0..TRIALS {
            let at = self.sampled(name, work, offered, trial)?;
            if !self.record.samples[at].marks.contains(&Mark::ForeignCpu) {
                break;
            }
        }
        Ok(())
    }

    /// The part of a work that can be done with this contender on this machine.
    fn possible(&self, work: &Work) -> Work {
        let mut work = work.clone();
        if !self.entrant.takes_uploads() {
            work = work.without_uploads();
        }
        let disk = || Disk::of(&self.arena.docroot());
        if work.reads_per_s().is_some() && !disk().is_ok_and(|disk| disk.can_be_slowed()) {
            work = work.without_reads_per_s();
        }
        work
    }

    /// Takes one short sample of the floor.
    pub(super) fn probe(
        mut self,
        name: &str,
        work: &Work,
        offered: Offered,
    ) -> Result<(), TurnError> {
        self.first = self.record.samples.len();
        let alone = Work { over: None, network: None, beside: None, ..work.clone() };
        self.sampled(name, &alone, offered, 0)?;
        self.close()
    }

    /// Searches the rate the contender carries, and takes a sample of overload.
    fn search(&mut self, work: &Work, from: f64, connections: u32) -> Result<(), TurnError> {
        let file = &work.file;
        let open = |rate| Offered::Open { rate, poisson: false, connections };
        let start = self.start_rate(file, from);
        let bracket = saturation::search(start, |rate| {
            self.measure_rate(&Work::open_name(file, rate, connections), work, open(rate))
        })?;
        if bracket.low > 0.0 && bracket.high.is_finite() {
            let name = format!("{file} at {OVERLOAD}{}", fit::OVERLOAD);
            self.undisturbed(&name, work, open(bracket.low * OVERLOAD))?;
        }
        Ok(())
    }

    /// Judges a rate by two of three samples if the first is bad and the server is not overwhelmed:
    /// a pause of the machine is no fault of the server. A bad one beside which other programs ran
    /// decides nothing, and another is taken.
    fn measure_rate(
        &mut self,
        name: &str,
        work: &Work,
        offered: Offered,
    ) -> Result<RateVerdict, TurnError> {
        let (mut carried, mut missed) = (0, 0);
        for trial in 0..2 * TRIALS {
            let at = self.sampled(name, work, offered, trial)?;
            let sample = &self.record.samples[at];
            if fit::is_missed_by_others(sample) {
                continue;
            }
            match saturation::verdict(sample) {
                RateVerdict::Carried => carried += 1,
                RateVerdict::Overloaded => missed += 1,
                RateVerdict::Unknown => return Ok(RateVerdict::Unknown),
            }
            let is_first = carried + missed == 1;
            let is_clear = is_first && (carried == 1 || saturation::is_overwhelmed(&sample.load));
            if is_clear || carried == 2 || missed == 2 {
                break;
            }
        }
        // As in the report, a tie is against the server.
        Ok(match (carried, missed) {
            (0, 0) => RateVerdict::Unknown,
            _ if carried > missed => RateVerdict::Carried,
            _ => RateVerdict::Overloaded,
        })
    }

    /// The plan's first rate, halved as often as was needed in this round: a far slower server
    /// would only be shown in overload.
    fn start_rate(&self, file: &str, from: f64) -> f64 {
        let of_round = |s: &&Sample| self.is_of_round(s) && s.file == file;
        let overwhelmed =
            self.record.samples.iter().filter(of_round).filter_map(|s| match s.offered {
                Offered::Sessions { rate, calls } if saturation::is_overwhelmed(&s.load) => {
                    Some(rate * f64::from(calls))
                }
                _ => None,
            });
        let lowest = overwhelmed.fold(f64::INFINITY, f64::min);
        let mut start = from;
        while start >= lowest {
            start = saturation::tidy(start / 2.0);
        }
        start
    }

    fn is_of_round(&self, s: &Sample) -> bool {
        s.round == self.round && s.attempt == self.attempt && s.contender == self.entrant.name
    }

    /// A sample, taken now unless the journal has it; returns its index.
    fn sampled(
        &mut self,
        name: &str,
        work: &Work,
        offered: Offered,
        trial: u32,
    ) -> Result<usize, TurnError> {
        let known = |s: &Sample| self.is_of_round(s) && s.work == name && s.trial == trial;
        if let Some(at) = self.record.samples.iter().position(known) {
            return Ok(at);
        }
        if self.arena.stop.load(Ordering::Relaxed) {
            return Err(TurnError::Run(io::ErrorKind::Interrupted.into()));
        }
        if work.is_cold() || work.idle().or(work.slow()).is_some() {
            // Files that the server has cached are not cold, and memory of connections that ended
            // is used again.
            self.close()?;
        }
        let warm_up = if self.server.is_some() { self.plan.settle() } else { self.plan.warm_up };
        let mut server = match self.server.take() {
            Some(server) => server,
            None => self.start()?,
        };
        if work.is_cold() && server.pids().is_none() {
            return Err(TurnError::Contender("files elsewhere cannot be made cold".to_owned()));
        }
        if self.link.is_some() && matches!(server, Server::Elsewhere(_)) {
            return Err(TurnError::Contender("it runs already, outside the network".to_owned()));
        }
        if work.is_herd() && server.upstream_addr().is_none() {
            return Err(TurnError::Contender("its upstream counts no requests".to_owned()));
        }
        if work.reloads_per_s().is_some() && server.reload().is_none() {
            return Err(TurnError::Contender("it cannot be reloaded from here".to_owned()));
        }
        let idle = work.idle().map(|count| self.open_idle(&server, work, count)).transpose()?;
        let sample = Sample { trial, ..self.sample(&server, name, work, offered, warm_up)? };
        server.check_alive().map_err(TurnError::Contender)?;
        if let Some(idle) = &idle {
            idle.check_open().map_err(TurnError::Contender)?;
        }
        let sample = Sample { idle: idle.map(|idle| idle.used).or(sample.idle), ..sample };
        self.server = Some(server);
        self.record.add(sample)?;
        Ok(self.record.samples.len() - 1)
    }

    pub(super) fn start(&self) -> Result<Server, TurnError> {
        let server = self.entrant.start().map_err(TurnError::Contender)?;
        self.check(&server)?;
        Ok(server)
    }

    /// Checks the bytes again and stops the server, if it runs.
    fn close(&mut self) -> Result<(), TurnError> {
        let Some(server) = self.server.take() else { return Ok(()) };
        let checked = self.check(&server);
        if let Err(TurnError::WrongBytes(_)) = checked {
            // Its samples of this turn cannot be trusted either.
            self.record.mark(self.first.., Mark::WrongBytes)?;
        }
        let stopped = server.stop();
        self.entrant.discard_uploads()?;
        checked?;
        stopped.map_err(|e| TurnError::Contender(format!("it did not stop: {e}")))
    }

    /// Compares every file byte by byte with the one on the disk; of many files a selection from
    /// the whole list.
    pub(super) fn check(&self, server: &Server) -> Result<(), TurnError> {
        for file in &self.plan.files {
            let every = (file.count as usize).div_ceil(CHECKED_MAX);
            for name in file.names().step_by(every) {
                let bytes = fs::read(self.arena.docroot().join(&name))?;
                let (addr, path) = (server.addr(), server.url_path(&name));
                let wrong = |w: VerifyError| match w.fault {
                    Fault::Unreachable(..) | Fault::Io(_) => TurnError::Contender(w.to_string()),
                    _ => TurnError::WrongBytes(format!("wrong response: {w}")),
                };
                if server.may_close() {
                    let host = server.authority();
                    verify_once(addr, server.trust(), &host, &path, &bytes).map_err(wrong)?;
                } else {
                    verify(addr, server.trust(), &path, &bytes).map_err(wrong)?;
                }
                if let Some(trust) = server.trust().filter(|_| self.plan.needs_http2()) {
                    verify_http2(addr, trust, &path, &bytes).map_err(wrong)?;
                }
                if let Some(trust) = server.trust().filter(|_| self.plan.needs_http3()) {
                    verify_http3(addr, trust, &path, &bytes).map_err(wrong)?;
                }
            }
        }
        let mut beside = self.plan.works.iter().filter_map(|work| work.beside.as_ref());
        beside.find(|b| b.uploads > 0).map_or(Ok(()), |beside| self.check_upload(server, beside))
    }

    /// Checks that an upload is stored unchanged, if this contender takes uploads and stores them.
    fn check_upload(&self, server: &Server, beside: &Beside) -> Result<(), TurnError> {
        let Some(path) = server.upload_path(CHECKED_UPLOAD) else { return Ok(()) };
        let bytes = fs::read(self.arena.docroot().join(&beside.file))?;
        upload(server.addr(), &path, &bytes)
            .map_err(|wrong| TurnError::Contender(format!("an upload failed: {wrong}")))?;
        let Some(stored) = self.entrant.stored(CHECKED_UPLOAD) else { return Ok(()) };
        match fs::read(&stored) {
            Ok(there) if there == bytes => Ok(()),
            Ok(_) => {
                Err(TurnError::WrongBytes("the stored file differs from the upload".to_owned()))
            }
            Err(e) => Err(TurnError::Contender(format!("the upload was not stored: {e}"))),
        }
    }

    fn sample(
        &self,
        server: &Server,
        name: &str,
        work: &Work,
        offered: Offered,
        warm_up: Duration,
    ) -> Result<Sample, TurnError> {
        let mut job = self.job(server, work, offered)?;
        let cooling = self.cool(work)?;
        // Cold files are for measured requests; the other file is in memory again.
        let cold = job.beside.take_if(|_| cooling.is_some());
        job.duration = warm_up;
        // A warm-up would request the objects of herds before their time.
        if !job.duration.is_zero() && !work.is_herd() {
            self.generate(&job)?;
        }
        job.beside = cold.or(job.beside);
        let slowed = self.slow(work, server)?;
        let is_probe = name.starts_with(super::PROBE);
        let sample = work.sample.unwrap_or(self.plan.sample);
        job.duration = if is_probe { super::PROBE_FOR } else { sample };
        let reload = server.reload().zip(work.reloads_per_s());
        let sent = self.link.as_ref().map(LossyLink::counts);
        let (clients, idle) = self.open_slow(server, work)?.unzip();
        let mut herd = None;
        let observed = observe(server, self.link.as_ref(), || {
            if work.is_herd() {
                let (load, its) = herds(&job, server.upstream_addr())?;
                herd = Some(its);
                return Ok(load);
            }
            if let Some(clients) = &clients {
                return load::run_beside(&job, clients);
            }
            let load = reloading(reload, || self.generate(&job));
            drop(slowed);
            load
        });
        let Observed { began_unix_s, load, server, machine, .. } = observed?;
        let idle = idle.map(|idle: IdleUse| IdleUse {
            after_bytes: server.as_ref().map_or(0, |server| server.resident_bytes),
            ..idle
        });
        let network = self.link.as_ref().zip(sent).map(|(link, sent)| link.used_since(sent));
        let mut marks = load::marks(&job, &load);
        marks.extend(foreign_mark(machine.as_ref()));
        marks.extend(
            cooling.as_ref().zip(machine.as_ref()).and_then(|(c, m)| cold_mark(c, m, &load)),
        );
        Ok(Sample {
            plan: self.plan.name.clone(),
            round: self.round,
            attempt: self.attempt,
            trial: 0,
            probe: is_probe,
            contender: self.entrant.name.clone(),
            work: name.to_owned(),
            file: work.file.clone(),
            offered,
            over: work.over,
            beside: work.beside.clone(),
            cooling,
            idle,
            network,
            herd,
            slice: None,
            began_unix_s,
            load,
            server,
            machine,
            marks,
        })
    }
}

impl<T> Turn<'_, T> {
    /// Carries a job out, at the generator's side of the network.
    fn generate(&self, job: &Job) -> io::Result<Load> {
        let _inside = self.link.as_ref().map(LossyLink::enter_client).transpose()?;
        load::run(job)
    }

    /// Makes the cold files of a work cold.
    fn cool(&self, work: &Work) -> io::Result<Option<Cooling>> {
        if !work.is_cold() {
            return Ok(None);
        }
        let docroot = self.arena.docroot();
        let disk = Disk::of(&docroot)?;
        let names = self.plan.files.iter().flat_map(File::names);
        let inodes = cool(names.map(|name| docroot.join(name)))?;
        Ok(Some(Cooling { disk: disk.name, inodes }))
    }

    /// Limits the server's reads as the work says.
    fn slow(&self, work: &Work, server: &Server) -> io::Result<Option<ReadLimit>> {
        let Some(reads) = work.reads_per_s() else { return Ok(None) };
        let disk = Disk::of(&self.arena.docroot())?;
        ReadLimit::begin(&disk, reads, &server.pids().unwrap_or_default()).map(Some)
    }
}

/// Mark for files made cold that are no measure of the disk; `None` if they are.
fn cold_mark(cooling: &Cooling, machine: &MachineUse, load: &Load) -> Option<Mark> {
    let bulk = load.bulk.as_ref()?;
    let read = machine.disks.get(&cooling.disk).map_or(0, |disk| disk.read_bytes);
    if (read as f64) < COLD_SHARE_MIN * bulk.down_bytes as f64 {
        return Some(Mark::NotCold);
    }
    bulk.over_ns.map(|_| Mark::ColdOver)
}
