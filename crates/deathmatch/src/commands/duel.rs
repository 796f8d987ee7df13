//! `deathmatch duel`: its contenders and work, and its table.

use std::io::{self, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use deathmatch::arena::Arena;
use deathmatch::calls::check_hardware;
use deathmatch::cli::{DuelArgs, RunArgs};
use deathmatch::contender::{Catalogue, Contender, Site};
use deathmatch::machine::Snapshot;
use deathmatch::plan::Plan;
use deathmatch::process::Running;
use deathmatch::stats::{Duel, Ratio, Standing, duels, percent};

use serde::Serialize;
use serde_json::json;

use super::run::{Executed, FinishedRun, Participants, execute};
use super::{Output, chosen_plan, print_report, usage, write_report};

/// Work if none is named.
const WORK: &str = "10k:50";

/// Open connections of a contender that is never loaded.
const IDLE_CONNECTIONS: usize = 50;

/// Compares contenders that are alive at the same time.
pub(crate) fn duel(args: &DuelArgs) -> io::Result<ExitCode> {
    let (plan, contenders) = match chosen(args) {
        Ok(chosen) => chosen,
        Err(why) => return usage(&why),
    };
    if let Some(times) = args.self_test {
        return self_test(args, &plan, &contenders, times);
    }
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("deathmatch-duel"));
    match fight(args, &plan, &contenders, out)? {
        Executed::Stopped(code) => Ok(code),
        Executed::Finished(whole) => show(args, &plan, &whole),
    }
}

/// The plan and its contenders, the reference first.
fn chosen(args: &DuelArgs) -> Result<(Plan, Vec<Contender>), String> {
    let mut contenders = args.names.iter().map(|n| named(n)).collect::<Result<Vec<_>, _>>()?;
    let plan = args.plan.as_deref().map(chosen_plan).transpose()?;
    if contenders.is_empty() {
        let plan = plan.as_ref().ok_or("name contenders, the reference first, or a --plan")?;
        let names = std::iter::once(&plan.reference)
            .chain(plan.contenders.iter().filter(|name| **name != plan.reference));
        contenders = names.map(|name| named(name)).collect::<Result<_, _>>()?;
    }
    if args.self_test.is_some() {
        contenders.truncate(1);
    }
    if let [one] = &contenders[..] {
        contenders.push(one.clone());
    }
    number_repeated(&mut contenders);
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    let works = if args.works.is_empty() { vec![WORK.to_owned()] } else { args.works.clone() };
    let mut plan = match plan {
        Some(plan) => plan,
        None => Plan::of_works(&works, &names).map_err(|e| e.to_string())?,
    };
    plan.reference.clone_from(&names[0]);
    plan.contenders = names;
    plan.precision = args.precision.unwrap_or(plan.precision);
    plan.budget = args.budget.unwrap_or(plan.budget);
    // The ratio of two needs both.
    plan.needs_all = plan.contenders.len() == 2;
    if let Some(work) = plan.works.iter().find(|work| !plan.slices(work)) {
        return Err(format!("{:?} cannot pause: it is measured by `deathmatch run`", work.name()));
    }
    Ok((plan, contenders))
}

fn named(words: &str) -> Result<Contender, String> {
    if words.contains('=') {
        return Catalogue::built_in().overridden(words).map_err(|e| e.to_string());
    }
    Contender::by_name(words)
        .ok_or_else(|| format!("there is no contender {words:?}; see `deathmatch list`"))
}

/// A contender that is named again is another one: `nginx-2`.
fn number_repeated(contenders: &mut [Contender]) {
    for at in 1..contenders.len() {
        let before = contenders[..at].iter().filter(|c| c.title == contenders[at].title);
        let is_taken = contenders[..at].iter().any(|c| c.name == contenders[at].name);
        if is_taken {
            let number = before.count() + 1;
            contenders[at].name = format!("{}-{number}", contenders[at].name);
        }
    }
}

/// The second name of the reference, if it is named again: their ratio shows how small a difference
/// the machine can show. A server against itself alone is a comparison like any other.
fn second(contenders: &[Contender]) -> Option<String> {
    let (reference, others) = contenders.split_first()?;
    let is_again = |c: &&Contender| c.title == reference.title && c.chosen == reference.chosen;
    others.iter().find(is_again).map(|c| c.name.clone())
}

/// Carries the duel out.
fn fight(
    args: &DuelArgs,
    plan: &Plan,
    contenders: &[Contender],
    out: PathBuf,
) -> io::Result<Executed> {
    let run = RunArgs {
        resume: args.resume,
        seed: args.seed,
        json: args.json || args.self_test.is_some(),
        ..RunArgs::own(out, args.port, args.cores.clone())
    };
    let mut bystanders = Vec::new();
    let executed = execute(plan, &run, |arena| {
        let mut field = Participants::of(arena, plan, contenders.to_vec())?;
        match second(contenders) {
            Some(second) if contenders.len() > 2 => field.twin = Some(second),
            second => field.again = second,
        }
        bystanders = bystanders_of(args, plan, arena)?;
        Ok(field)
    });
    for bystander in bystanders {
        let Bystander { name, running, connections, begun, began } = bystander;
        let (used, _) = began.until(&Snapshot::take(&running.pids()), 0.0);
        let seconds = begun.elapsed().as_secs_f64();
        writeln!(
            io::stderr(),
            "{name}, idle with {} connections: {:.1} ms of processor time in {seconds:.0} s, {} wake-ups",
            connections.len(),
            used.cpu_s * 1e3,
            used.voluntary_switches,
        )?;
        running.stop()?;
    }
    executed
}

/// A contender that is alive and never loaded.
struct Bystander {
    name: String,
    running: Running,
    connections: Vec<TcpStream>,
    begun: Instant,
    began: Snapshot,
}

fn bystanders_of(args: &DuelArgs, plan: &Plan, arena: &Arena) -> Result<Vec<Bystander>, String> {
    let start = |(at, name): (usize, &String)| {
        let mut contender = named(name)?;
        contender.name = format!("{}-idle", contender.name);
        // Behind the ports of the contenders.
        let place = u16::try_from(2 * (plan.contenders.len() + at)).unwrap_or(u16::MAX);
        let site = Site {
            work: arena.out.join("work"),
            docroot: arena.docroot(),
            port: arena.port.saturating_add(place),
            cores: vec![arena.server_core],
            workers: 1,
            uploads: false,
        };
        let prepared = contender.prepare(&site).map_err(|e| e.to_string())?;
        let running = prepared.start().map_err(|e| e.to_string())?;
        let connect = |_| TcpStream::connect(running.addr());
        let connections = (0..IDLE_CONNECTIONS).map(connect).collect::<io::Result<_>>();
        let connections = connections.map_err(|e| format!("{}: {e}", contender.name))?;
        let began = Snapshot::take(&running.pids());
        Ok(Bystander { name: contender.name, running, connections, begun: Instant::now(), began })
    };
    args.idle.iter().enumerate().map(start).collect()
}

/// Writes the report, and prints the result.
fn show(args: &DuelArgs, plan: &Plan, whole: &FinishedRun) -> io::Result<ExitCode> {
    let found = duels(&whole.samples, &plan.reference, plan.precision);
    let mut out = Output;
    let FinishedRun { arena, run, samples, .. } = whole;
    let rankings = write_report(&arena.out, run, samples)?;
    let absent = run.contenders.iter().filter_map(|one| Some((&one.name, one.absent.as_ref()?)));
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
        for (name, why) in absent {
            writeln!(io::stderr(), "{name}: {why}")?;
        }
    } else {
        for duel in &found {
            table(&mut out, duel, plan)?;
        }
        if let Err(why) = check_hardware() {
            writeln!(out, "by instructions and cycles: not counted ({why})\n")?;
        }
        for (name, why) in absent {
            writeln!(out, "{name}: {why}")?;
        }
        print_report(&arena.out, run, samples, &rankings)?;
    }
    let has_result = |name: &String| {
        let is_in_all = found.iter().all(|duel| duel.contenders.contains_key(name));
        is_in_all && !found.is_empty() || whole.apart.contains_key(name)
    };
    let has_failed = whole.run.contenders.iter().any(|contender| contender.absent.is_some());
    let is_whole = plan.contenders.iter().all(has_result) && !has_failed;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The table of one work.
pub(super) fn table(out: &mut impl Write, duel: &Duel, plan: &Plan) -> io::Result<()> {
    let precision = percent(duel.precision);
    let end = match duel.precise {
        _ if duel.contenders.len() < 2 => "one contender, so there is no ratio".to_owned(),
        true => format!("every interval is within +-{precision}"),
        false => format!("the budget ended before +-{precision}"),
    };
    writeln!(out, "{}: {} cycles in {:.0} s; {end}", duel.work, duel.cycles, duel.seconds)?;
    if duel.disturbed > 0.0 {
        let share = whole_percent(duel.disturbed);
        writeln!(out, "  other programs ran beside {share} of the slices")?;
    }
    if duel.shared_core > 0.0 {
        let share = whole_percent(duel.shared_core);
        writeln!(
            out,
            "  another hardware thread of the server's core was busy beside {share} of the slices, \
             which are left out"
        )?;
    }
    writeln!(
        out,
        "  {:<18} {:>9} {:>9}   {:<22} {:>10}   replies / reference",
        "contender", "CPU us", "wake-ups", "CPU / reference", "replies/s"
    )?;
    for name in plan.contenders.iter().filter(|name| duel.contenders.contains_key(*name)) {
        row(out, name, &duel.contenders[name])?;
    }
    for (name, its) in &duel.contenders {
        if let Some(why) = &its.not_compared {
            writeln!(out, "  {name} is not compared: {why}")?;
        }
    }
    let reference = duel.contenders.get(&duel.reference);
    for name in plan.contenders.iter().filter(|name| duel.contenders.contains_key(*name)) {
        let its = &duel.contenders[name];
        let Some((instructions, cycles)) = its.instructions.zip(its.cycles) else { continue };
        let to = |own: f64, of: fn(&Standing) -> Option<f64>| {
            reference.and_then(of).map_or(String::new(), |base| format!(" ({:.3})", own / base))
        };
        writeln!(
            out,
            "  {name:<18} {instructions:.0} instructions{}, {cycles:.0} cycles{} a request",
            to(instructions, |s| s.instructions),
            to(cycles, |s| s.cycles),
        )?;
    }
    writeln!(out)
}

/// A share in whole per cent, but near none and near all with the digits that it has.
fn whole_percent(share: f64) -> String {
    match share {
        _ if (0.01..=0.99).contains(&share) => format!("{:.0} %", share * 100.0),
        _ => percent(share),
    }
}

fn row(out: &mut impl Write, name: &str, its: &Standing) -> io::Result<()> {
    let number = |value: Option<f64>, digits| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    writeln!(
        out,
        "  {name:<18} {:>9} {:>9}   {:<22} {:>10}   {}{}",
        number(its.cpu_us, 2),
        number(its.wake_ups, 3),
        ratio(its.cpu.as_ref()),
        number(its.replies_per_s, 0),
        ratio(its.replies.as_ref()),
        if its.load_limited { ", or more: the generator was the limit" } else { "" },
    )?;
    if let Some(regimes) = &its.regimes {
        let share = regimes.low_share * 100.0;
        writeln!(
            out,
            "  {:<18} two regimes of the processor time: {:.3} in {share:.0} % of the cycles and {:.3} in \
             the others, {} changes",
            "", regimes.low, regimes.high, regimes.changes
        )?;
    }
    if its.errors > 0 {
        writeln!(out, "  {:<18} {} failed requests", "", its.errors)?;
    }
    Ok(())
}

fn ratio(ratio: Option<&Ratio>) -> String {
    let Some(ratio) = ratio else { return String::new() };
    match ratio.interval {
        Some(i) => format!("{:.3} [{:.3}, {:.3}]", ratio.median, i.low, i.high),
        None => format!("{:.3} (no interval)", ratio.median),
    }
}

/// Compares a contender with itself many times, started anew each time, and counts the intervals
/// that contain 1.
fn self_test(
    args: &DuelArgs,
    plan: &Plan,
    contenders: &[Contender],
    times: u32,
) -> io::Result<ExitCode> {
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("deathmatch-self-test"));
    let (mut cpu, mut replies, mut stdout) = (Tried::default(), Tried::default(), Output);
    let (mut failed, mut runs) = (0, Vec::new());
    for number in 1..=times {
        let whole = match fight(args, plan, contenders, out.join(number.to_string()))? {
            Executed::Stopped(code) => return Ok(code),
            Executed::Finished(whole) => whole,
        };
        failed += usize::from(whole.run.contenders.iter().any(|one| one.absent.is_some()));
        for duel in duels(&whole.samples, &plan.reference, plan.precision) {
            for its in duel.contenders.values().filter(|its| its.cpu.is_some()) {
                cpu.add(its.cpu.as_ref());
                replies.add(its.replies.as_ref());
                if !args.json {
                    writeln!(stdout, "{number}: {}", beside_itself(&duel, its))?;
                }
            }
            runs.push(duel);
        }
    }
    if args.json {
        let all = json!({ "runs": runs, "failed": failed, "cpu": cpu, "replies": replies });
        writeln!(stdout, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        writeln!(stdout, "processor time: {}", cpu.shown())?;
        writeln!(stdout, "replies a second: {}", shown_replies(&replies, &runs))?;
        if failed > 0 {
            writeln!(stdout, "{failed} of {times} runs have failed")?;
        }
    }
    let has_interval = !cpu.halves.is_empty() || !replies.halves.is_empty();
    let is_whole = failed == 0 && has_interval;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A contender beside itself in one run.
fn beside_itself(duel: &Duel, its: &Standing) -> String {
    let cpu_us = its.cpu_us.unwrap_or_default();
    let (work, cycles, cpu) = (&duel.work, duel.cycles, ratio(its.cpu.as_ref()));
    // At a fixed rate there is none.
    let replies = its.replies.as_ref().map(|its| format!("; replies {}", ratio(Some(its))));
    format!("{work}, {cycles} cycles: CPU {cpu_us:.2} us, {cpu}{}", replies.unwrap_or_default())
}

/// The replies a second of all runs, if they are compared.
fn shown_replies(replies: &Tried, runs: &[Duel]) -> String {
    match !runs.is_empty() && runs.iter().all(|duel| !duel.is_closed) {
        true => "not compared, since the rate is fixed".to_owned(),
        false => replies.shown(),
    }
}

/// Ratios of a contender to itself.
#[derive(Default, Serialize)]
struct Tried {
    /// Intervals that contain 1.
    contain: usize,
    /// Half the width of each interval, as a share of its ratio, in ascending order.
    halves: Vec<f64>,
}

impl Tried {
    fn add(&mut self, ratio: Option<&Ratio>) {
        let Some((ratio, interval)) = ratio.and_then(|r| Some((r, r.interval?))) else { return };
        self.contain += usize::from(interval.low <= 1.0 && 1.0 <= interval.high);
        self.halves.extend(ratio.precision());
        self.halves.sort_by(f64::total_cmp);
    }

    fn shown(&self) -> String {
        let at = |share: f64| {
            let half = self.halves.get((self.halves.len() as f64 * share) as usize)?;
            Some(half * 100.0)
        };
        let Some((median, high)) = at(0.5).zip(at(0.9)) else { return "no interval".to_owned() };
        format!(
            "{} of {} intervals contain 1; half width in per cent: median {median:.2}, 90th percentile \
             {high:.2}",
            self.contain,
            self.halves.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use deathmatch::stats::{Interval, Rounds};

    use super::*;

    #[test]
    fn a_contender_may_be_named_again() {
        let mut all: Vec<Contender> =
            ["nginx", "hurtle", "nginx", "nginx"].map(|name| named(name).unwrap()).into();
        number_repeated(&mut all);
        let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["nginx", "hurtle", "nginx-2", "nginx-3"]);
    }

    #[test]
    fn the_reference_named_again_beside_others_shows_the_machine() {
        for (names, expected) in [
            (&["nginx", "hurtle", "nginx"][..], Some("nginx-2")),
            (&["nginx", "nginx", "hurtle", "nginx"], Some("nginx-2")),
            (&["nginx", "nginx"], Some("nginx-2")),
            (&["nginx", "hurtle", "hurtle"], None),
            // Another executable is another server.
            (&["nginx", "hurtle", "nginx=nginx:/bin/sh"], None),
        ] {
            let mut all: Vec<Contender> = names.iter().map(|name| named(name).unwrap()).collect();
            number_repeated(&mut all);
            assert_eq!(second(&all).as_deref(), expected, "{names:?}");
        }
    }

    /// Regression: one slice of 300 beside other programs was 0 % of them.
    #[test]
    fn a_share_of_the_slices_is_neither_none_nor_all_unless_it_is() {
        let plan = Plan::of_works(&[WORK.to_owned()], &["nginx".to_owned()]).unwrap();
        for (share, shown) in [
            (1.0 / 300.0, "beside 0.333 % of the slices"),
            (0.25, "beside 25 % of the slices"),
            (299.0 / 300.0, "beside 99.667 % of the slices"),
            (1.0, "beside 100 % of the slices"),
        ] {
            let duel = Duel { disturbed: share, shared_core: share, ..Duel::default() };
            let mut out = Vec::new();
            table(&mut out, &duel, &plan).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.matches(shown).count(), 2, "{share}: {text}");
        }
    }

    /// Regression: at a fixed rate, which has no ratio of replies, a self-test printed `replies`
    /// without a figure, and NaN.
    #[test]
    fn a_self_test_prints_no_figures_that_it_does_not_have() {
        let ratio = |median: f64| Ratio {
            median,
            interval: Some(Interval { low: 0.98, high: 1.02, confidence: 0.95 }),
            bootstrap: (0.98, 1.02),
            rounds: Rounds::new(),
        };
        for (is_closed, line, all) in [
            (false, "10k, 12 cycles: CPU 8.00 us, 1.000 [0.980, 1.020]", "not compared, since"),
            (true, "1.000 [0.980, 1.020]; replies 1.001 [0.980, 1.020]", "1 of 1 intervals"),
        ] {
            let duel = Duel { work: "10k".into(), is_closed, cycles: 12, ..Duel::default() };
            let replies = is_closed.then(|| ratio(1.001));
            let (cpu_us, cpu) = (Some(8.0), Some(ratio(1.0)));
            let its = Standing { cpu_us, cpu, replies, ..Standing::default() };
            let shown = beside_itself(&duel, &its);
            assert!(shown.ends_with(line), "{shown}");
            let mut tried = Tried::default();
            tried.add(its.replies.as_ref());
            let shown = shown_replies(&tried, &[duel]);
            assert!(shown.starts_with(all) && !shown.contains("NaN"), "{shown}");
        }
        assert_eq!(shown_replies(&Tried::default(), &[]), "no interval");
    }
}
