//! `deathmatch run`: its participants, and its output before, during and after the run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use deathmatch::arena::{Arena, Entrant, Outcome, Ports};
use deathmatch::cli::RunArgs;
use deathmatch::contender::{Catalogue, Contender};
use deathmatch::machine::congestion::{Congestion, PREFERRED};
use deathmatch::machine::fingerprint::Fingerprint;
use deathmatch::plan::Plan;
use deathmatch::report::{self, Fact, Measured, Run};
use deathmatch::sample::Sample;
use deathmatch::stats::duels;
use deathmatch::stats::interval::ROUNDS_MIN;

use super::interrupt::{interrupted, on_signal};
use super::progress::Progress;
use super::resume::{other_contenders, seed};
use super::{DUEL, Output, RUN, about, chosen_plan, course, draw, targets, usage};

/// From so many bytes on, writing the files takes a while and is announced.
const BYTES_ANNOUNCED_MIN: u64 = 500_000_000;

/// Contenders beside the plan's: the reference again, and idle ones.
const PLACES_SPARE: usize = 4;

/// The contender that is not ranked.
const FLOOR: &str = "floor";

/// Carries a plan out.
pub(crate) fn run(args: &RunArgs) -> io::Result<ExitCode> {
    let known = match super::catalogue(args.contender_dir.as_deref()) {
        Ok(known) => known,
        Err(why) => return usage(&why),
    };
    let named = args.plan.as_deref();
    let plan = match chosen_plan(named.unwrap_or(if args.quick { "quick" } else { "deck" })) {
        Ok(plan) => with_choices(plan, args, &known),
        Err(why) => return usage(&why),
    };
    let field = |arena: &Arena| Participants::gather(arena, &plan, args, &known);
    match execute(&plan, args, field)? {
        Executed::Stopped(code) => Ok(code),
        Executed::Finished(whole) => {
            let FinishedRun { arena, run, samples, .. } = *whole;
            draw(&arena.out, &run, &samples, args.json)?;
            let has_result = samples.iter().any(|sample| !sample.probe);
            Ok(if has_result { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// End of carrying a plan out.
pub(super) enum Executed {
    /// Before its end: the reason has been printed.
    Stopped(ExitCode),
    Finished(Box<FinishedRun>),
}

/// A plan that has been carried out.
pub(super) struct FinishedRun {
    pub(super) arena: Arena,
    pub(super) run: Run,
    pub(super) samples: Vec<Sample>,
    /// Contenders that had turns where others had slices, with reasons.
    pub(super) apart: BTreeMap<String, String>,
}

/// Carries a plan out with the participants that `field` gathers, and writes all but the report.
pub(super) fn execute(
    plan: &Plan,
    args: &RunArgs,
    field: impl FnOnce(&Arena) -> Result<Participants, String>,
) -> io::Result<Executed> {
    let failed = |why: String| usage(&why).map(Executed::Stopped);
    let [server_core, load_core] = args.cores[..] else {
        return failed("--cores: write two processors, such as 0,1".to_owned());
    };
    let out =
        args.out.clone().unwrap_or_else(|| PathBuf::from(format!("deathmatch-{}", plan.name)));
    let seed = match seed(args, &out, plan)? {
        Ok(seed) => seed,
        Err(why) => return failed(why),
    };
    if let Err(e) = fs::create_dir_all(&out) {
        return failed(format!("--out {}: {e}", out.display()));
    }
    let Some(ports) = Ports::reserve(args.port, plan.contenders.len() + PLACES_SPARE) else {
        return failed(format!("--port {}: too few ports above it are free", args.port));
    };
    if ports.first != args.port && !args.json {
        let (wanted, first) = (args.port, ports.first);
        writeln!(Output, "ports from {first} on: some from {wanted} on are in use")?;
    }
    let arena = Arena { out, seed, port: ports.first, server_core, load_core, stop: on_signal()? };
    if let Err(why) = arena.check_network(plan) {
        return failed(why);
    }
    if !args.json {
        announce_files(plan)?;
    }
    arena.lay_out(plan)?;
    let field = match field(&arena) {
        Ok(field) => field,
        Err(why) => return failed(why),
    };
    if let Some(why) = other_contenders(&arena.out, plan, &field.shown)? {
        return failed(why);
    }
    let congestion = Congestion::choose(&PREFERRED)?;
    let mut run = Run {
        plan: plan.name.clone(),
        description: plan.description.clone(),
        seed,
        rounds: plan.rounds,
        measured: Some(Measured::of(plan)),
        command: super::quoted(std::env::args()),
        fingerprint: facts(&congestion),
        contenders: field.shown.clone(),
        limits: limits(args),
        reference: plan.reference.clone(),
        floor: FLOOR.to_owned(),
        twin: field.twin.clone(),
        again: field.again.clone(),
        judged: None,
    };
    write_run(&arena, &run)?;
    if !args.json {
        announce(plan, &arena, &field)?;
    }
    let outcome = match carry_out(&arena, plan, &field) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => {
            return interrupted(&arena, args.can_resume).map(Executed::Stopped);
        }
        outcome => outcome?,
    };
    note_failures(&mut run, &outcome.failed);
    for (name, why) in outcome.apart.iter().filter(|_| !plan.needs_slices) {
        let text = format!("{name} was measured in turns: {why}.");
        if !args.json {
            writeln!(Output, "{text}")?;
        }
        run.limits.push(text);
    }
    write_run(&arena, &run)?;
    let duels = duels(&outcome.samples, &plan.reference, plan.precision);
    if !duels.is_empty() {
        fs::write(arena.out.join(DUEL), serde_json::to_vec_pretty(&duels)?)?;
    }
    Ok(Executed::Finished(Box::new(FinishedRun {
        arena,
        run,
        samples: outcome.samples,
        apart: outcome.apart,
    })))
}

/// The participants of a run.
pub(super) struct Participants {
    entrants: Vec<Entrant>,
    /// Measured beside every round, also if it takes no part.
    floor: Option<Entrant>,
    /// Name of the reference's second turn.
    pub(super) twin: Option<String>,
    /// Name under which the reference takes part a second time, compared like any other.
    pub(super) again: Option<String>,
    /// All requested contenders, including those that cannot take part.
    shown: Vec<report::Contender>,
}

impl Participants {
    fn gather(
        arena: &Arena,
        plan: &Plan,
        args: &RunArgs,
        known: &Catalogue,
    ) -> Result<Participants, String> {
        let targets = targets::targets(args)?;
        let is_alone = !targets.is_empty() && args.only.is_empty() && args.contenders.is_empty();
        let contenders = contenders(plan, args, known)?;
        let mut field = match is_alone {
            true => Participants::none(),
            false => Participants::of(arena, plan, contenders)?,
        };
        for (name, remote) in targets {
            remote.check(plan).map_err(|why| format!("--target {name}: {why}"))?;
            field.add(Entrant::elsewhere(&name, remote));
        }
        if is_alone {
            return Ok(field);
        }
        field.floor =
            Contender::by_name(FLOOR).and_then(|floor| arena.prepare_floor(plan, &floor).ok());
        // With fewer rounds there is no interval for the difference of the two.
        if plan.rounds as usize >= ROUNDS_MIN {
            field.twin = field.add_twin(arena, plan, known);
        }
        Ok(field)
    }

    /// Those of these contenders that can take part.
    pub(super) fn of(
        arena: &Arena,
        plan: &Plan,
        contenders: Vec<Contender>,
    ) -> Result<Participants, String> {
        let mut field = Participants::none();
        for contender in contenders {
            match arena.prepare_at(plan, &contender, field.entrants.len()) {
                Ok(entrant) => field.add(entrant),
                Err(why) => field.shown.push(report::Contender {
                    name: contender.name,
                    title: contender.title,
                    absent: Some(why),
                    ..report::Contender::default()
                }),
            }
        }
        if field.entrants.is_empty() {
            return Err(none_can_run(&field.shown));
        }
        Ok(field)
    }

    /// Creates an empty list.
    pub(super) fn none() -> Participants {
        Participants {
            entrants: Vec::new(),
            floor: None,
            twin: None,
            again: None,
            shown: Vec::new(),
        }
    }

    /// Adds a participant. Its title is no other's.
    pub(super) fn add(&mut self, mut entrant: Entrant) {
        if self.shown.iter().any(|other| other.title == entrant.title) {
            entrant.title.clone_from(&entrant.name);
        }
        let tuned = entrant.tuned().iter().map(|(setting, reason)| report::Tuned {
            setting: setting.clone(),
            reason: reason.clone(),
        });
        self.shown.push(report::Contender {
            name: entrant.name.clone(),
            title: entrant.title.clone(),
            version: entrant.version.clone(),
            config: entrant.config(),
            tuned: tuned.collect(),
            absent: None,
            program: entrant.program.clone(),
        });
        self.entrants.push(entrant);
    }

    /// Lets the reference take part a second time.
    fn add_twin(&mut self, arena: &Arena, plan: &Plan, known: &Catalogue) -> Option<String> {
        let reference = &plan.reference;
        self.entrants.iter().find(|e| e.name == *reference)?;
        let name = format!("{reference}-again");
        let twin = known.overridden(&format!("{name}={reference}")).ok()?;
        let entrant = arena.prepare_at(plan, &twin, self.entrants.len()).ok()?;
        self.add(entrant);
        Some(name)
    }
}

/// Sentence on contenders of which none can take part, with each reason once.
fn none_can_run(shown: &[report::Contender]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for contender in shown {
        let why = contender.absent.as_deref().unwrap_or_default();
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&contender.name),
            None => reasons.push((why, vec![&contender.name])),
        }
    }
    let line = |(why, names): &(&str, Vec<&str>)| format!("\n  {}: {why}", names.join(", "));
    format!("no contender can run here:{}", reasons.iter().map(line).collect::<String>())
}

fn with_choices(mut plan: Plan, args: &RunArgs, known: &Catalogue) -> Plan {
    if args.quick {
        plan = plan.quick();
    }
    plan.turns |= args.turns;
    if let Some(rounds) = args.rounds {
        plan.rounds = rounds.max(1);
    }
    if !args.only.is_empty() {
        plan.contenders.clone_from(&args.only);
    } else {
        let more = known.added().iter().filter(|name| !plan.contenders.contains(name)).cloned();
        plan.contenders.extend(more.collect::<Vec<_>>());
    }
    if !args.targets.is_empty() {
        if args.only.is_empty() {
            plan.contenders.clear();
        }
        plan.contenders.extend(args.targets.iter().map(|words| targets::named(words).0.to_owned()));
    }
    if !plan.contenders.contains(&plan.reference)
        && let Some(first) = plan.contenders.first()
    {
        plan.reference.clone_from(first);
    }
    plan
}

fn contenders(plan: &Plan, args: &RunArgs, known: &Catalogue) -> Result<Vec<Contender>, String> {
    let named = |name: &String| {
        let found = known.by_name(name).cloned();
        found.ok_or_else(|| format!("there is no contender {name:?}; see `deathmatch list`"))
    };
    let overrides = args.contenders.iter().map(|words| known.overridden(words));
    let overrides = overrides.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    // A contender with an existing name replaces the other.
    let is_target = |name: &str| args.targets.iter().any(|words| targets::named(words).0 == name);
    let listed = plan.contenders.iter().filter(|name| !is_target(name));
    let listed = listed.filter(|name| overrides.iter().all(|c| c.name != **name));
    let mut all = listed.map(named).collect::<Result<Vec<_>, _>>()?;
    all.extend(overrides);
    Ok(all)
}

/// Announces that files are written, if that takes time.
fn announce_files(plan: &Plan) -> io::Result<()> {
    let sizes = plan.files.iter().flat_map(|file| (0..file.count).map(|number| file.size(number)));
    let bytes: u64 = sizes.sum();
    if bytes < BYTES_ANNOUNCED_MIN {
        return Ok(());
    }
    writeln!(Output, "writing up to {} MB of files to serve", bytes / 1_000_000)
}

fn announce(plan: &Plan, arena: &Arena, field: &Participants) -> io::Result<()> {
    let mut out = Output;
    writeln!(out, "{}: {}", plan.name, plan.description)?;
    for contender in &field.shown {
        match &contender.absent {
            None => writeln!(out, "  {:<15} {}", contender.name, contender.version)?,
            Some(why) => writeln!(out, "  {:<15} cannot take part: {why}", contender.name)?,
        }
    }
    let time = about(plan.duration(field.entrants.len()));
    writeln!(out, "{}, seed {}, {time}; in {}", course(plan), arena.seed, arena.out.display())
}

fn carry_out(arena: &Arena, plan: &Plan, field: &Participants) -> io::Result<Outcome> {
    let mut progress = Progress::new(plan, field.entrants.len());
    let outcome =
        arena.run(plan, &field.entrants, field.floor.as_ref(), |event| progress.show(event));
    progress.finish();
    outcome
}

fn note_failures(run: &mut Run, failed: &BTreeMap<String, String>) {
    for contender in &mut run.contenders {
        if let Some(why) = failed.get(&contender.name) {
            contender.absent = Some(why.clone());
        }
    }
}

pub(super) fn write_run(arena: &Arena, run: &Run) -> io::Result<()> {
    fs::write(arena.out.join(RUN), serde_json::to_vec_pretty(run)?)
}

fn facts(congestion: &Congestion) -> Vec<Fact> {
    let machine = Fingerprint::take();
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let mut facts = vec![
        fact("processor", format!("{}, {} of them", machine.cpu, machine.cpus)),
        fact("memory", format!("{} GiB", machine.memory_bytes >> 30)),
        fact("kernel", machine.kernel),
        fact("congestion control", congestion.used().to_owned()),
    ];
    let limit = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |n| n.to_string());
    let (soft, hard) = machine.open_files;
    facts.push(fact("open descriptors", format!("{}, at most {}", limit(soft), limit(hard))));
    if let Some(hint) = machine.virtualisation {
        facts.push(fact("virtual machine", hint));
    }
    facts.extend(machine.sysctls.into_iter().map(|(name, value)| Fact { name, value }));
    facts
}

/// Limits of a run with such arguments, a sentence each.
fn limits(args: &RunArgs) -> Vec<String> {
    let texts: &[&str] = if args.targets.is_empty() {
        &[
            "Over loopback the kernel does much of the client's receiving in the server's sending, \
             so processor time is compared only at equal offered load; the floor beside the \
             contenders shows what that costs.",
            "Every server has one worker on one processor; how they scale over many is not shown.",
        ]
    } else {
        &[
            "Targets run already, as somebody else configured them: only those with --pid have processor \
             time and memory, and the facts above are of the machine that made the load.",
            "The network between is part of a target's every figure.",
        ]
    };
    texts.iter().map(|text| (*text).to_owned()).collect()
}
