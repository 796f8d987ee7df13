//! Carries a plan out: one contender alive at a time, everybody doing the same work in every round,
//! every sample written down the moment it is over. What is there already is not measured again, so
//! a run that was cut goes on where it stood.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::contender::{Contender, Prepared, Site};
use crate::load::{self, Expected, Job};
use crate::machine::Look;
use crate::plan::{Plan, Work};
use crate::process::Running;
use crate::sample::journal;
use crate::sample::{Mark, Sample};
use crate::verify::verify;

/// Every sample of a run, a JSON line each.
pub const SAMPLES: &str = "samples.jsonl";

/// An answer that takes longer is an error.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Others may use this share of the machine before a sample is marked.
const FOREIGN_MAX: f64 = 0.01;

/// Where and how a plan is carried out.
#[derive(Clone, Debug)]
pub struct Arena {
    /// Everything the run leaves, and the contenders' own folders.
    pub out: PathBuf,
    /// What the order of contenders is drawn from.
    pub seed: u64,
    /// Where contenders listen, one at a time, on 127.0.0.1.
    pub port: u16,
    /// The contender's processor.
    pub server_core: usize,
    /// The generator's processor.
    pub load_core: usize,
}

/// What happens, for whoever shows it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A contender begins its turn.
    Turn { round: u32, contender: &'a str },
    /// A sample is being taken.
    Work { work: &'a str },
    /// One sample is over, or was there already.
    Done,
    /// A contender's turn ended early, and why.
    Failed { contender: &'a str, why: &'a str },
}

/// A contender that takes part.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// Which.
    pub contender: Contender,
    /// As it says itself.
    pub version: String,
    prepared: Prepared,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All samples, those of an earlier part of the run too.
    pub samples: Vec<Sample>,
    /// Contenders that failed, and why.
    pub failed: BTreeMap<String, String>,
}

impl Arena {
    /// Makes the files to be served; the same bytes for the same plan.
    ///
    /// # Errors
    /// The file system's.
    pub fn lay_out(&self, plan: &Plan) -> io::Result<()> {
        let docroot = self.docroot();
        fs::create_dir_all(&docroot)?;
        for file in &plan.files {
            let path = docroot.join(&file.name);
            if fs::metadata(&path).is_ok_and(|m| m.len() == file.bytes) {
                continue;
            }
            fs::write(path, noise(file.bytes))?;
        }
        Ok(())
    }

    /// Gets a contender ready to be started.
    ///
    /// # Errors
    /// Why it cannot take part.
    pub fn prepare(&self, contender: &Contender) -> Result<Entrant, String> {
        let site = Site {
            work: self.out.join("work"),
            docroot: self.docroot(),
            port: self.port,
            cores: vec![self.server_core],
            workers: 1,
        };
        let version = match contender.probe() {
            Ok(version) => version,
            Err(missing) => return Err(missing.to_string()),
        };
        let prepared = contender.prepare(&site).map_err(|e| e.to_string())?;
        Ok(Entrant { contender: contender.clone(), version, prepared })
    }

    /// Runs the plan with these entrants.
    ///
    /// # Errors
    /// What keeps the whole run from going on: a full disk, a processor that is not there. A
    /// contender that fails is in the outcome.
    pub fn run(
        &self,
        plan: &Plan,
        entrants: &[Entrant],
        mut tell: impl FnMut(Event<'_>),
    ) -> io::Result<Outcome> {
        load::pin(self.load_core)?;
        let path = self.out.join(SAMPLES);
        let mut journal = journal::open(&path).map_err(io::Error::other)?;
        let mut outcome = Outcome { samples: recorded(&self.out)?, ..Outcome::default() };
        let names: Vec<String> = entrants.iter().map(|e| e.contender.name.clone()).collect();
        for round in 0..plan.rounds {
            for name in plan.order(&names, round, self.seed) {
                let Some(entrant) = entrants.iter().find(|e| e.contender.name == name) else {
                    continue;
                };
                let done = done(&outcome.samples, round, &name);
                let left: Vec<&Work> =
                    plan.works.iter().filter(|work| !done.contains(&work.name)).collect();
                (left.len()..plan.works.len()).for_each(|_| tell(Event::Done));
                if left.is_empty() {
                    continue;
                }
                tell(Event::Turn { round, contender: &name });
                let turn = Turn { arena: self, plan, entrant, round };
                if let Err(why) = turn.run(&left, &mut journal, &mut outcome.samples, &mut tell)? {
                    tell(Event::Failed { contender: &name, why: &why });
                    outcome.failed.insert(name, why);
                }
            }
        }
        Ok(outcome)
    }

    fn docroot(&self) -> PathBuf {
        self.out.join("docroot")
    }
}

impl Entrant {
    /// Exactly what it is started with: the command and every file written for it.
    pub fn config(&self) -> String {
        let mut text = format!("$ {}\n", self.prepared.shown());
        for (name, contents) in &self.prepared.files {
            text.push_str(&format!("\n# {name}\n{contents}"));
        }
        text
    }

    /// Each setting as it is here, and why.
    pub fn tuned(&self) -> &[(String, String)] {
        &self.prepared.tuned
    }
}

/// The samples of a run's directory; of a work measured again, or marked later, the last.
///
/// # Errors
/// When the file is damaged; one that is not there has none.
pub fn recorded(out: &Path) -> io::Result<Vec<Sample>> {
    let path = out.join(SAMPLES);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut latest: BTreeMap<(u32, String, String), usize> = BTreeMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    for sample in journal::read(&path).map_err(io::Error::other)?.samples {
        let key = (sample.round, sample.contender.clone(), sample.work.clone());
        match latest.get(&key) {
            Some(&at) => samples[at] = sample,
            None => {
                latest.insert(key, samples.len());
                samples.push(sample);
            }
        }
    }
    Ok(samples)
}

/// The work of a round that a contender has done.
fn done(samples: &[Sample], round: u32, contender: &str) -> BTreeSet<String> {
    let of = samples.iter().filter(|s| s.round == round && s.contender == contender);
    of.map(|s| s.work.clone()).collect()
}

/// One contender's turn in one round.
struct Turn<'a> {
    arena: &'a Arena,
    plan: &'a Plan,
    entrant: &'a Entrant,
    round: u32,
}

impl Turn<'_> {
    /// The inner error is the contender's; the outer one ends the run.
    fn run(
        &self,
        works: &[&Work],
        journal: &mut fs::File,
        samples: &mut Vec<Sample>,
        tell: &mut impl FnMut(Event<'_>),
    ) -> io::Result<Result<(), String>> {
        let mut running = match self.entrant.prepared.start() {
            Ok(running) => running,
            Err(e) => return Ok(Err(e.to_string())),
        };
        if let Err(wrong) = self.check(&running)? {
            return Ok(Err(wrong));
        }
        let first = samples.len();
        for work in works {
            tell(Event::Work { work: &work.name });
            let sample = self.sample(&running, work)?;
            if !running.is_alive() {
                return Ok(Err(format!("it died; its log ends:\n{}", running.log_tail())));
            }
            journal::append(journal, &sample)?;
            samples.push(sample);
            tell(Event::Done);
        }
        let checked = self.check(&running)?;
        if checked.is_err() {
            // What it sent meanwhile cannot be trusted either.
            for sample in &mut samples[first..] {
                sample.marks.push(Mark::WrongBytes);
                journal::append(journal, sample)?;
            }
        }
        let stopped = running.stop().map_err(|e| format!("it did not stop: {e}"));
        Ok(checked.and(stopped))
    }

    /// Whether every file comes back as it is on the disk.
    fn check(&self, running: &Running) -> io::Result<Result<(), String>> {
        for file in &self.plan.files {
            let bytes = fs::read(self.arena.docroot().join(&file.name))?;
            if let Err(wrong) = verify(running.addr(), &running.url_path(&file.name), &bytes) {
                return Ok(Err(format!("its answer is wrong: {wrong}")));
            }
        }
        Ok(Ok(()))
    }

    fn sample(&self, running: &Running, work: &Work) -> io::Result<Sample> {
        let target = running.addr();
        let bytes = self.plan.files.iter().find(|f| f.name == work.file).map_or(0, |f| f.bytes);
        let mut job = Job {
            target,
            request: request(target, &running.url_path(&work.file)),
            expected: Expected { status: 200, body_bytes: bytes, body: None },
            offered: work.offered,
            warm_up: Duration::ZERO,
            duration: self.plan.warm_up,
            timeout: ANSWER_WITHIN,
        };
        if !job.duration.is_zero() {
            load::run(&job)?;
        }
        job.duration = self.plan.sample;
        let began_unix_s =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        let before = Look::take(&running.pids());
        let begun = Instant::now();
        let load = load::run(&job)?;
        // The generator spins: its processor is its own for all of that time.
        let generator_cpu_s = begun.elapsed().as_secs_f64();
        let (server, machine) = before.until(&Look::take(&running.pids()), generator_cpu_s);
        let mut marks = load::marks(&job, &load);
        if machine.foreign > FOREIGN_MAX {
            marks.push(Mark::ForeignCpu);
        }
        Ok(Sample {
            plan: self.plan.name.clone(),
            round: self.round,
            attempt: 0,
            probe: false,
            contender: self.entrant.contender.name.clone(),
            work: work.name.clone(),
            file: work.file.clone(),
            offered: work.offered,
            began_unix_s,
            load,
            server: Some(server),
            machine: Some(machine),
            marks,
        })
    }
}

fn request(target: SocketAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: deathmatch\r\n\r\n").into_bytes()
}

/// Bytes that no compression makes shorter, the same every time (xorshift64*, Vigna 2016).
fn noise(bytes: u64) -> Vec<u8> {
    let mut state: u64 = 0x2009;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
    });
    words.take(usize::try_from(bytes).unwrap_or(usize::MAX)).collect()
}
