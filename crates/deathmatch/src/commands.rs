//! What each command does, and what it says about it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deathmatch::arena::{self, Arena, Entrant, Event};
use deathmatch::cli::RunArgs;
use deathmatch::contender::{self, Contender};
use deathmatch::machine::congestion::{Congestion, PREFERRED};
use deathmatch::machine::doctor;
use deathmatch::machine::fingerprint::Fingerprint;
use deathmatch::plan::Plan;
use deathmatch::report::{self, Fact, Run};
use deathmatch::sample::Sample;
use deathmatch::{compare as comparing, summary};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

/// What a report needs beside the samples.
const RUN: &str = "run.json";

/// The contender that is only a yardstick.
const FLOOR: &str = "floor";

/// Bad arguments or a plan that is none.
const EXIT_USAGE: u8 = 2;

/// `deathmatch run`.
pub(crate) fn run(args: &RunArgs) -> io::Result<ExitCode> {
    let plan = match chosen_plan(if args.quick { "quick" } else { &args.plan }) {
        Ok(plan) => with_choices(plan, args),
        Err(why) => return usage(&why),
    };
    let contenders = match contenders(&plan, args) {
        Ok(contenders) => contenders,
        Err(why) => return usage(&why),
    };
    let [server_core, load_core] = args.cores[..] else {
        return usage("--cores: write two processors, such as 0,1");
    };
    let out =
        args.out.clone().unwrap_or_else(|| PathBuf::from(format!("deathmatch-{}", plan.name)));
    if out.join(arena::SAMPLES).exists() && !args.resume {
        let out = out.display();
        return usage(&format!(
            "{out} holds a run: go on with it (--resume), or use another --out"
        ));
    }
    fs::create_dir_all(&out)?;
    let seed = args.seed.unwrap_or_else(now_s);
    let arena = Arena { out, seed, port: args.port, server_core, load_core };
    let congestion = Congestion::choose(&PREFERRED)?;
    arena.lay_out(&plan)?;
    let (mut entrants, mut shown) = (Vec::new(), Vec::new());
    for contender in contenders {
        match arena.prepare(&contender) {
            Ok(entrant) => {
                shown.push(shown_entrant(&entrant));
                entrants.push(entrant);
            }
            Err(why) => shown.push(report::Contender {
                name: contender.name,
                title: contender.title,
                absent: Some(why),
                ..report::Contender::default()
            }),
        }
    }
    announce(&plan, &arena, &shown, entrants.len())?;
    let outcome = fight(&arena, &plan, &entrants)?;
    for contender in &mut shown {
        if let Some(why) = outcome.failed.get(&contender.name) {
            contender.absent = Some(why.clone());
        }
    }
    let run = Run {
        plan: plan.name.clone(),
        description: plan.description.clone(),
        seed,
        rounds: plan.rounds,
        command: std::env::args().collect::<Vec<_>>().join(" "),
        fingerprint: facts(&congestion),
        contenders: shown,
        limits: limits(),
        reference: plan.reference.clone(),
        floor: FLOOR.to_owned(),
        twin: None,
    };
    fs::write(arena.out.join(RUN), serde_json::to_vec_pretty(&run)?)?;
    draw(&arena.out, &run, &outcome.samples)?;
    Ok(ExitCode::SUCCESS)
}

/// `deathmatch report`.
pub(crate) fn report(dir: &Path) -> io::Result<ExitCode> {
    let run: Run = serde_json::from_slice(&fs::read(dir.join(RUN)).map_err(|e| {
        io::Error::new(e.kind(), format!("{} is no run's directory: {e}", dir.display()))
    })?)?;
    draw(dir, &run, &arena::recorded(dir)?)?;
    Ok(ExitCode::SUCCESS)
}

/// `deathmatch list`.
pub(crate) fn list(as_json: bool) -> io::Result<ExitCode> {
    let all = Contender::all();
    let mut out = io::stdout();
    if as_json {
        let rows: Vec<_> = all
            .iter()
            .map(|c| {
                let probe = c.probe();
                json!({
                    "name": c.name,
                    "title": c.title,
                    "version": probe.as_ref().ok(),
                    "missing": probe.err().map(|missing| missing.to_string()),
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for contender in all {
        match contender.probe() {
            Ok(version) => writeln!(out, "{:<15} {version}", contender.name)?,
            Err(missing) => {
                writeln!(
                    out,
                    "{:<15} not here: {}; {}",
                    contender.name, missing.reason, missing.remedy
                )?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `deathmatch plan`.
pub(crate) fn plan(name: &str) -> io::Result<ExitCode> {
    let plan = match chosen_plan(name) {
        Ok(plan) => plan,
        Err(why) => return usage(&why),
    };
    let mut out = io::stdout();
    writeln!(out, "{}: {}", plan.name, plan.description)?;
    let longest = minutes(plan.duration(plan.contenders.len()));
    writeln!(out, "{} rounds, {longest} if every contender can run", plan.rounds)?;
    writeln!(out, "compared with {}: {}", plan.reference, plan.contenders.join(", "))?;
    for work in &plan.works {
        writeln!(out, "  {}", work.name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `deathmatch install`.
pub(crate) fn install(names: &[String], all: bool) -> io::Result<ExitCode> {
    let wanted: Vec<Contender> =
        Contender::all().into_iter().filter(|c| all || names.contains(&c.name)).collect();
    if let Some(unknown) = names.iter().find(|name| !wanted.iter().any(|c| c.name == **name)) {
        return usage(&format!("there is no contender {unknown:?}; see `deathmatch list`"));
    }
    let mut out = io::stdout();
    for step in contender::install(&wanted) {
        writeln!(out, "{step}")?;
        step.run()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `deathmatch doctor`.
pub(crate) fn examine(as_json: bool) -> io::Result<ExitCode> {
    let findings = doctor::examine();
    let mut out = io::stdout();
    if as_json {
        writeln!(out, "{}", serde_json::to_string_pretty(&findings)?)?;
    } else {
        for finding in findings {
            writeln!(out, "{finding}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `deathmatch compare`.
pub(crate) fn compare(a: &Path, b: &Path, tolerance: f64, as_json: bool) -> io::Result<ExitCode> {
    let compared = comparing::compare(&arena::recorded(a)?, &arena::recorded(b)?, tolerance);
    let mut out = io::stdout();
    if as_json {
        writeln!(out, "{}", serde_json::to_string_pretty(&compared)?)?;
    } else {
        writeln!(out, "{compared}")?;
    }
    Ok(ExitCode::from(compared.exit_code()))
}

fn usage(why: &str) -> io::Result<ExitCode> {
    writeln!(io::stderr(), "deathmatch: {why}")?;
    Ok(ExitCode::from(EXIT_USAGE))
}

fn chosen_plan(name: &str) -> Result<Plan, String> {
    if let Some(plan) = Plan::built_in(name) {
        return Ok(plan);
    }
    let text = fs::read_to_string(name)
        .map_err(|e| format!("{name} is no built-in plan (deck, quick), and as a file: {e}"))?;
    Plan::read(&text).map_err(|e| format!("{name}: {e}"))
}

fn with_choices(mut plan: Plan, args: &RunArgs) -> Plan {
    if let Some(rounds) = args.rounds {
        plan.rounds = rounds.max(1);
    }
    if !args.only.is_empty() {
        plan.contenders.clone_from(&args.only);
        if !plan.contenders.contains(&plan.reference) {
            plan.reference.clone_from(&plan.contenders[0]);
        }
    }
    plan
}

fn contenders(plan: &Plan, args: &RunArgs) -> Result<Vec<Contender>, String> {
    let named = |name: &String| {
        Contender::named(name)
            .ok_or_else(|| format!("there is no contender {name:?}; see `deathmatch list`"))
    };
    let mut all = plan.contenders.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    for words in &args.contenders {
        all.push(Contender::overridden(words).map_err(|e| e.to_string())?);
    }
    Ok(all)
}

fn shown_entrant(entrant: &Entrant) -> report::Contender {
    let tuned = entrant.tuned().iter().map(|(setting, reason)| report::Tuned {
        setting: setting.clone(),
        reason: reason.clone(),
    });
    report::Contender {
        name: entrant.contender.name.clone(),
        title: entrant.contender.title.clone(),
        version: entrant.version.clone(),
        config: entrant.config(),
        tuned: tuned.collect(),
        absent: None,
    }
}

fn announce(
    plan: &Plan,
    arena: &Arena,
    shown: &[report::Contender],
    entrants: usize,
) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}: {}", plan.name, plan.description)?;
    for contender in shown {
        match &contender.absent {
            None => writeln!(out, "  {:<15} {}", contender.name, contender.version)?,
            Some(why) => writeln!(out, "  {:<15} left out: {why}", contender.name)?,
        }
    }
    let time = minutes(plan.duration(entrants));
    writeln!(out, "{} rounds, seed {}, {time}; in {}", plan.rounds, arena.seed, arena.out.display())
}

fn fight(arena: &Arena, plan: &Plan, entrants: &[Entrant]) -> io::Result<arena::Outcome> {
    let samples = plan.works.len() * entrants.len() * plan.rounds as usize;
    let bar = ProgressBar::new(samples as u64);
    let style = "{bar:30} {pos}/{len}, {eta} left  {msg}";
    bar.set_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut turn = String::new();
    let outcome = arena.run(plan, entrants, |event| match event {
        Event::Turn { round, contender } => turn = format!("round {}, {contender}", round + 1),
        Event::Work { work } => bar.set_message(format!("{turn}: {work}")),
        Event::Done => bar.inc(1),
        Event::Failed { contender, why } => bar.println(format!("{contender} failed: {why}")),
    });
    bar.finish_and_clear();
    outcome
}

fn draw(dir: &Path, run: &Run, samples: &[Sample]) -> io::Result<()> {
    let rankings = summary::rankings(samples, &run.reference, &run.floor);
    report::write(dir, run, samples, &rankings)?;
    let mut out = io::stdout();
    writeln!(out, "{}", report::terminal(run, samples, &rankings))?;
    writeln!(out, "{}", dir.join(report::PAGE).display())
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
    if let Some(hint) = machine.virtualisation {
        facts.push(fact("virtual machine", hint));
    }
    facts.extend(machine.sysctls.into_iter().map(|(name, value)| Fact { name, value }));
    facts
}

/// What loopback on few processors cannot show.
fn limits() -> Vec<String> {
    vec![
        "Over loopback the kernel does much of the client's receiving in the server's sending, so \
         processor time is compared only at equal offered load; the floor beside the contenders \
         shows what that costs."
            .to_owned(),
        "Every server has one worker on one processor; how they scale over many is not shown."
            .to_owned(),
    ]
}

fn minutes(time: Duration) -> String {
    format!("about {} min", time.as_secs().div_ceil(60))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
