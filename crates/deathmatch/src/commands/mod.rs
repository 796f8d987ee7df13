//! The commands and their output.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use deathmatch::arena;
use deathmatch::cli::CompareArgs;
use deathmatch::compare::{Comparison, Figure, Outcome, Row};
use deathmatch::contender::{self, Catalogue, Contender};
use deathmatch::figures::Check;
use deathmatch::machine::doctor;
use deathmatch::plan::{BUILT_IN, Plan};
use deathmatch::report::{self, Measure, Run};
use deathmatch::sample::Sample;
use deathmatch::stats::percent;
use deathmatch::{compare as comparing, summary};
use serde_json::json;

mod calls;
mod duel;
mod interrupt;
mod job;
mod load;
mod merge;
mod output;
mod progress;
mod resume;
mod run;
mod targets;
mod url;
mod vs;
mod watch;

pub(crate) use calls::calls;
pub(crate) use duel::duel;
pub(crate) use load::load;
pub(crate) use merge::merge;
pub(crate) use run::run;
pub(crate) use url::url;
pub(crate) use vs::vs;
pub(crate) use watch::watch;

use output::Output;

/// File with the facts of a run that a report needs besides the samples.
const RUN: &str = "run.json";

/// File with the ratios of the works that were done in slices, and their intervals.
const DUEL: &str = "duel.json";

/// Longest time that is shown in seconds.
const SECONDS_SHOWN_MAX: f64 = 100.0;

/// Exit code for bad arguments or a bad plan, and where an error leaves a command without verdict.
const EXIT_USAGE: u8 = 2;

pub(crate) fn report(
    dir: &Path,
    plot: Option<(&Path, Measure)>,
    as_json: bool,
) -> io::Result<ExitCode> {
    let (run, samples) = match read_run(dir).and_then(|run| Ok((run, read_samples(dir)?))) {
        Ok(read) => read,
        Err(why) => return usage(&why.to_string()),
    };
    if let Some((file, measure)) = plot {
        report::plot(file, &run, &samples, measure)?;
    }
    draw(dir, &run, &samples, as_json)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the facts of a run from its directory.
fn read_run(dir: &Path) -> io::Result<Run> {
    let text = fs::read(dir.join(RUN)).map_err(|e| {
        io::Error::new(e.kind(), format!("{} is not the directory of a run: {e}", dir.display()))
    })?;
    serde_json::from_slice(&text).map_err(|e| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", dir.join(RUN).display()))
    })
}

pub(crate) fn list(folder: Option<&Path>, as_json: bool) -> io::Result<ExitCode> {
    let known = match catalogue(folder) {
        Ok(known) => known,
        Err(why) => return usage(&why),
    };
    let all = known.all();
    let mut out = Output;
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

pub(crate) fn plan(name: &str) -> io::Result<ExitCode> {
    let plan = match chosen_plan(name) {
        Ok(plan) => plan,
        Err(why) => return usage(&why),
    };
    let mut out = Output;
    writeln!(out, "{}: {}", plan.name, plan.description)?;
    let longest = about(plan.duration(plan.contenders.len()));
    writeln!(out, "{}, {longest} if every contender can run", course(&plan))?;
    writeln!(out, "compared with {}: {}", plan.reference, plan.contenders.join(", "))?;
    for work in &plan.works {
        writeln!(out, "  {}", work.name())?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn install(names: &[String], all: bool) -> io::Result<ExitCode> {
    let wanted: Vec<Contender> =
        Contender::all().into_iter().filter(|c| all || names.contains(&c.name)).collect();
    if let Some(unknown) = names.iter().find(|name| !wanted.iter().any(|c| c.name == **name)) {
        return usage(&format!("there is no contender {unknown:?}; see `deathmatch list`"));
    }
    let mut out = Output;
    let steps = contender::install(&wanted);
    if steps.is_empty() {
        writeln!(out, "nothing to do: they can all run here")?;
    }
    for step in steps {
        writeln!(out, "{step}")?;
        step.run()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `deathmatch doctor`.
pub(crate) fn examine(as_json: bool) -> io::Result<ExitCode> {
    let findings = doctor::examine();
    let mut out = Output;
    if as_json {
        writeln!(out, "{}", serde_json::to_string_pretty(&findings)?)?;
    } else {
        for finding in findings {
            writeln!(out, "{finding}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `deathmatch compare`: two runs, or two contenders of one.
pub(crate) fn compare(args: &CompareArgs) -> io::Result<ExitCode> {
    if !(0.0..1.0).contains(&args.tolerance) {
        return usage("--tolerance: write a share from 0 to 1, such as 0.05");
    }
    let (a, b) = (args.a.as_str(), args.b.as_str());
    let dirs: Vec<&Path> = match &args.run {
        Some(dir) => vec![dir],
        None => vec![a.as_ref(), b.as_ref()],
    };
    let read: io::Result<Vec<_>> = dirs.into_iter().map(read_samples).collect();
    let compared = match read.as_deref() {
        Err(why) => return usage(&why.to_string()),
        Ok([run]) => comparing::contenders(run, a, b, args.tolerance),
        Ok([first, second, ..]) => comparing::compare(first, second, args.tolerance),
        Ok([]) => return usage("name two runs"),
    };
    let compared = match compared {
        Ok(compared) => compared,
        Err(why) => return usage(&why.to_string()),
    };
    let written = args.outcomes.write(&format!("{a} and {b}"), &checks(&compared));
    let mut out = Output;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&compared)?)?;
    } else {
        writeln!(out, "{compared}")?;
    }
    written?;
    Ok(ExitCode::from(compared.exit_code()))
}

/// The rows as outcomes; one that shows nothing is not passed.
fn checks(compared: &Comparison) -> Vec<Check> {
    let check = |row: &Row| Check {
        name: format!(
            "{}, {}: {}",
            row.work,
            row.contender,
            row.figure.map_or("requests", Figure::name)
        ),
        is_asked: true,
        is_passed: matches!(row.outcome, Outcome::Fine | Outcome::Improved),
        found: row.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    };
    compared.rows.iter().map(check).collect()
}

/// The samples of a run; an error if there are none.
fn read_samples(dir: &Path) -> io::Result<Vec<Sample>> {
    let samples = arena::recorded(dir)?;
    if samples.is_empty() {
        let text = format!(
            "{} holds no samples: name the directory of a run with its samples.jsonl, decompressed",
            dir.display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(samples)
}

/// The built-in contenders, and those of a folder.
fn catalogue(folder: Option<&Path>) -> Result<Catalogue, String> {
    let Some(folder) = folder else { return Ok(Catalogue::built_in()) };
    Catalogue::with_folder(folder).map_err(|e| format!("--contender-dir: {e}"))
}

/// As in `1 round` and `6 rounds`.
fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A command line that a POSIX shell reads as these words.
fn quoted(words: impl Iterator<Item = String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    let word = |word: String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.map(word).collect::<Vec<String>>().join(" ")
}

/// Outcome of a command whose exit code 1 is a verdict: after an error there is none, so the code
/// is that of bad arguments.
pub(crate) fn with_verdict(outcome: io::Result<ExitCode>) -> io::Result<ExitCode> {
    outcome.or_else(|e| usage(&e.to_string()))
}

fn usage(why: &str) -> io::Result<ExitCode> {
    // A failure here could not be reported.
    let _ = writeln!(io::stderr(), "deathmatch: {why}");
    Ok(ExitCode::from(EXIT_USAGE))
}

fn chosen_plan(name: &str) -> Result<Plan, String> {
    if let Some(plan) = Plan::built_in(name) {
        return Ok(plan);
    }
    let text = fs::read_to_string(name).map_err(|e| {
        let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        format!("{name} is neither a built-in plan ({}) nor a readable file: {e}", known.join(", "))
    })?;
    Plan::read(&text).map_err(|e| format!("{name}: {e}"))
}

/// Writes the report; returns the comparisons in it.
fn write_report(dir: &Path, run: &Run, samples: &[Sample]) -> io::Result<Vec<report::Ranking>> {
    let rankings = summary::rankings(samples, &run.reference, &run.floor);
    report::write(dir, run, samples, &rankings)?;
    Ok(rankings)
}

/// Writes the report; prints its summary, or all of it as JSON.
fn draw(dir: &Path, run: &Run, samples: &[Sample], as_json: bool) -> io::Result<()> {
    let rankings = write_report(dir, run, samples)?;
    if as_json {
        let summary = summary::summary(run, samples);
        return writeln!(Output, "{}", serde_json::to_string_pretty(&summary)?);
    }
    print_report(dir, run, samples, &rankings)
}

/// Prints the summary of a report that is written.
fn print_report(
    dir: &Path,
    run: &Run,
    samples: &[Sample],
    rankings: &[report::Ranking],
) -> io::Result<()> {
    writeln!(Output, "{}", report::terminal(run, samples, rankings))?;
    writeln!(Output, "{}", dir.join(report::PAGE).display())
}

/// A plan's course: slices, rounds of turns, or both.
fn course(plan: &Plan) -> String {
    let slices = plan.works.iter().filter(|work| plan.slices(work)).count();
    let until = format!("slices until +-{}", percent(plan.precision));
    let rounds = counted(plan.rounds, "round");
    match plan.works.len() - slices {
        0 => until,
        _ if slices == 0 => format!("{rounds} of turns"),
        turns => {
            format!("{until} for {slices} of the works, {rounds} of turns for {turns}")
        }
    }
}

/// A time in the unit that suits it.
fn about(time: Duration) -> String {
    match time.as_secs_f64().ceil() {
        seconds if seconds <= SECONDS_SHOWN_MAX => format!("about {seconds} s"),
        seconds => format!("about {} min", (seconds / 60.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_where_the_shell_would_change_it() {
        for (word, shown) in [
            ("new=nginx:/b", "new=nginx:/b"),
            ("10%", "10%"),
            ("", "''"),
            ("$HOME", "'$HOME'"),
            ("./a -p {port}", "'./a -p {port}'"),
            ("it's", r"'it'\''s'"),
        ] {
            let words = ["vs".to_owned(), word.to_owned()].into_iter();
            assert_eq!(quoted(words), format!("vs {shown}"));
        }
    }
}
