//! `deathmatch vs`: a duel of anybody's server, and a verdict on the first.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use deathmatch::arena::{self, Arena, Entrant, Remote};
use deathmatch::cli::{RunArgs, VsArgs};
use deathmatch::contender::{Catalogue, Contender};
use deathmatch::plan::{Plan, Work};
use deathmatch::stats::{Duel, Ratio, duels};
use deathmatch::target::Url;
use serde::Serialize;
use serde_json::json;

use super::duel::table;
use super::run::{Executed, Participants, Whole, execute};
use super::{draw, read_run, usage};

/// Directories that are tried for the results.
const OUT_MAX: u32 = 1_000;

/// Exit code if neither a regression nor its absence is shown.
const EXIT_NOT_SHOWN: u8 = 3;

/// Compares the first server with the others.
pub(crate) fn vs(args: &VsArgs) -> io::Result<ExitCode> {
    let known = super::catalogue(args.contender_dir.as_deref());
    let chosen = known
        .and_then(|known| servers(&args.servers, &known))
        .and_then(|servers| with_pids(servers, &args.pids))
        .and_then(|servers| Ok((plan(args, &servers)?, servers)));
    let ((plan, body), servers) = match chosen {
        Ok(chosen) => chosen,
        Err(why) => return usage(&why),
    };
    let baseline = args.baseline.as_deref();
    let kept = match baseline.map(|dir| kept(dir, &plan)).transpose()? {
        Some(kept) if kept.is_empty() => {
            return usage("--baseline: that run has no common work and contender with this one");
        }
        kept => kept,
    };
    let run = run_args(args);
    let executed = execute(&plan, &run, |arena| {
        if let Some(body) = &body {
            let file = arena.docroot().join(&plan.files[0].name);
            fs::write(&file, body).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        gather(arena, &plan, servers)
    })?;
    match executed {
        Executed::Not(code) => Ok(code),
        Executed::Whole(whole) => show(args, &plan, &whole, kept.as_deref()),
    }
}

/// A server of the command line, with its name.
struct Server {
    name: String,
    kind: Kind,
}

enum Kind {
    Contender(Box<Contender>),
    /// With its first process, if that is known.
    Url(Url, Option<u32>),
}

/// The servers, with the processes of `--pid`.
fn with_pids(mut servers: Vec<Server>, pids: &[String]) -> Result<Vec<Server>, String> {
    let mut unnamed = 0;
    for words in pids {
        let bad = |why: &str| format!("--pid {words}: {why}");
        let (name, pid) = words.rsplit_once('=').map_or((None, &**words), |(n, p)| (Some(n), p));
        let pid: u32 = pid.parse().map_err(|_| bad("write PID, or NAME=PID"))?;
        let mut urls = servers.iter_mut().filter(|server| matches!(server.kind, Kind::Url(..)));
        let server = match name {
            Some(name) => urls.find(|server| server.name == name),
            None => {
                unnamed += 1;
                urls.nth(unnamed - 1)
            }
        };
        let known = "URLs have processes: one PID for each, in their order, or HOST:PORT=PID";
        let server = server.ok_or_else(|| bad(known))?;
        if let Kind::Url(_, its) = &mut server.kind
            && its.replace(pid).is_some()
        {
            return Err(bad(&format!("{} has another", server.name)));
        }
    }
    Ok(servers)
}

fn servers(words: &[String], known: &Catalogue) -> Result<Vec<Server>, String> {
    let mut all: Vec<Server> = Vec::new();
    for words in words {
        let (name, kind) = read(words, known)?;
        let mut own = name.clone();
        for number in 2.. {
            if all.iter().all(|server| server.name != own) {
                break;
            }
            own = format!("{name}-{number}");
        }
        let kind = match kind {
            Kind::Contender(mut contender) => {
                contender.name.clone_from(&own);
                Kind::Contender(contender)
            }
            url => url,
        };
        all.push(Server { name: own, kind });
    }
    Ok(all)
}

fn read(words: &str, known: &Catalogue) -> Result<(String, Kind), String> {
    if words.contains("://") && !words.contains(char::is_whitespace) {
        let url: Url = words.parse()?;
        return Ok((url.authority.clone(), Kind::Url(url, None)));
    }
    let contender = if words.contains("{port}") {
        command(words)?
    } else if words.contains(char::is_whitespace) {
        return Err(format!("{words:?}: a command needs {{port}}, and {{docroot}} for its files"));
    } else if words.contains('=') {
        known.overridden(words).map_err(|e| e.to_string())?
    } else {
        let found = known.by_name(words).cloned();
        found.ok_or_else(|| format!("there is no contender {words:?}; see `deathmatch list`"))?
    };
    Ok((contender.name.clone(), Kind::Contender(Box::new(contender))))
}

/// The contender that a command starts.
fn command(words: &str) -> Result<Contender, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let program = words.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default();
    let file = Path::new(program).file_stem().unwrap_or_default().to_string_lossy();
    let name: String = file.chars().filter(|c| is_plain(*c)).collect();
    let name = if name.is_empty() { "command".to_owned() } else { name };
    let filled = words.replace("{port}", "{PORT}").replace("{docroot}", "{DOCROOT}");
    let contender = json!({
        "name": name,
        "title": words,
        "packages": [],
        "executable": "sh",
        // The shell becomes the server, so that the server gets the signal to stop.
        "start": ["sh", "-c", format!("exec env {filled}")],
        "url": "/{FILE}",
        "ready_s": 30,
        "version": { "command": ["echo", "as given"], "after": "as " },
        "stop": { "signal": "TERM", "grace_s": 5 },
        "tuned": [],
    });
    serde_json::from_value(contender).map_err(|e| format!("{words}: {e}"))
}

/// The plan, and the body of the first URL's response.
fn plan(args: &VsArgs, servers: &[Server]) -> Result<(Plan, Option<Vec<u8>>), String> {
    let first = servers.iter().find_map(|server| match &server.kind {
        Kind::Url(url, _) => Some(url),
        Kind::Contender(_) => None,
    });
    let body = first.map(Url::fetch).transpose()?;
    let size = body.as_ref().map_or(args.size.clone(), |body| body.len().to_string());
    let rate = args.rate.map_or(String::new(), |rate| format!("@{rate}"));
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    let work = format!("{size}:{}{rate}", args.connections);
    let mut plan = Plan::of_works(&[work], &names).map_err(|e| e.to_string())?;
    plan.precision = args.precision;
    plan.budget = args.budget;
    Ok((plan, body))
}

fn run_args(args: &VsArgs) -> RunArgs {
    let named = |number: u32| match number {
        1 => PathBuf::from("deathmatch-vs"),
        _ => PathBuf::from(format!("deathmatch-vs-{number}")),
    };
    let free = || (1..OUT_MAX).map(named).find(|dir| !dir.exists()).unwrap_or_else(|| named(1));
    let out = args.out.clone().unwrap_or_else(free);
    RunArgs { seed: args.seed, json: args.json, ..RunArgs::own(out, args.port, args.cores.clone()) }
}

fn gather(arena: &Arena, plan: &Plan, servers: Vec<Server>) -> Result<Participants, String> {
    let mut field = Participants::none();
    for (place, Server { name, kind }) in servers.into_iter().enumerate() {
        field.add(match kind {
            Kind::Url(url, pid) => {
                let remote = Remote::file(&url)?;
                let named = |why| format!("--pid {name}: {why}");
                Entrant::elsewhere(
                    &name,
                    match pid {
                        Some(pid) => remote.with_pid(pid).map_err(named)?,
                        None => remote,
                    },
                )
            }
            Kind::Contender(contender) => arena
                .prepare_at(plan, &contender, place)
                .map_err(|why| format!("{name} cannot take part: {why}"))?,
        });
    }
    Ok(field)
}

/// A measure of the first server against another.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Judgement {
    work: String,
    /// The other server.
    against: String,
    measure: &'static str,
    /// Bounds of the factor by which the first server is worse than the other, or than it was; below 1
    /// it is better. `None`: too few cycles.
    worse: Option<(f64, f64)>,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Fine,
    NotShown,
    Regression,
}

/// An equivalence test: fine only if the worse bound is within the tolerance.
fn judge(worse: Option<(f64, f64)>, tolerance: f64) -> Verdict {
    match worse {
        Some((least, _)) if least > 1.0 + tolerance => Verdict::Regression,
        Some((_, most)) if most <= 1.0 + tolerance => Verdict::Fine,
        _ => Verdict::NotShown,
    }
}

/// Factors by which the reference is worse than the others, by work and measure.
fn factors(found: &[Duel]) -> Vec<Judgement> {
    let mut all = Vec::new();
    for duel in found {
        let is_limited = |name: &str| duel.contenders.get(name).is_some_and(|s| s.load_limited);
        for (name, its) in duel.contenders.iter().filter(|(name, _)| **name != duel.reference) {
            let bounds = |ratio: &Ratio| ratio.interval.map(|i| (i.low, i.high));
            let mut add = |measure, worse| {
                let (work, against) = (duel.work.clone(), name.clone());
                all.push(Judgement { work, against, measure, worse, verdict: Verdict::NotShown });
            };
            if let Some(cpu) = &its.cpu {
                // The ratio is the other's to the first's.
                let inverse = bounds(cpu).map(|(low, high)| (1.0 / high, 1.0 / low));
                add("processor time of a request", inverse);
            }
            if let Some(replies) = &its.replies
                && !is_limited(name)
                && !is_limited(&duel.reference)
            {
                add("replies a second", bounds(replies));
            }
        }
    }
    all
}

/// The factors of a kept run that this one has too.
fn kept(dir: &Path, plan: &Plan) -> io::Result<Vec<Judgement>> {
    let (run, samples) = (read_run(dir)?, arena::recorded(dir)?);
    let mut all = factors(&duels(&samples, &run.reference, plan.precision));
    let works: Vec<String> = plan.works.iter().map(Work::name).collect();
    all.retain(|one| works.contains(&one.work) && plan.contenders.contains(&one.against));
    Ok(all)
}

/// The factors now, or what became of those of the kept run.
fn judged(now: Vec<Judgement>, kept: Option<&[Judgement]>, tolerance: f64) -> Vec<Judgement> {
    let judged = now.into_iter().filter_map(|mut one| {
        if let Some(kept) = kept {
            let same = |k: &&Judgement| {
                k.work == one.work && k.against == one.against && k.measure == one.measure
            };
            let before = kept.iter().find(same)?.worse;
            one.worse = one.worse.zip(before).map(|(now, then)| (now.0 / then.1, now.1 / then.0));
        }
        one.verdict = judge(one.worse, tolerance);
        Some(one)
    });
    judged.collect()
}

fn show(
    args: &VsArgs,
    plan: &Plan,
    whole: &Whole,
    kept: Option<&[Judgement]>,
) -> io::Result<ExitCode> {
    let found = duels(&whole.samples, &plan.reference, plan.precision);
    let judged = judged(factors(&found), kept, args.tolerance);
    let missing = plan
        .contenders
        .iter()
        .find(|name| !found.iter().any(|duel| duel.contenders.contains_key(*name)));
    let mut out = io::stdout();
    if args.json {
        let all = json!({ "tolerance": args.tolerance, "judgements": judged, "duels": found });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        found.iter().try_for_each(|duel| table(&mut out, duel, plan))?;
        draw(&whole.arena.out, &whole.run, &whole.samples, false)?;
        judged.iter().try_for_each(|one| line(&mut out, one, args, &plan.reference))?;
    }
    if !args.json {
        not_compared(&found).iter().try_for_each(|why| writeln!(out, "{why}"))?;
    }
    if let Some(name) = missing {
        let why = whole.run.contenders.iter().find(|c| c.name == *name);
        let why = why.and_then(|c| c.absent.clone()).unwrap_or_else(|| "no slice".to_owned());
        return usage(&format!("{name} was not measured: {why}"));
    }
    Ok(match judged.iter().map(|one| one.verdict).max() {
        Some(Verdict::Fine) => ExitCode::SUCCESS,
        Some(Verdict::Regression) => ExitCode::FAILURE,
        Some(Verdict::NotShown) | None => ExitCode::from(EXIT_NOT_SHOWN),
    })
}

/// Reasons for which a measure was not compared, a sentence each.
fn not_compared(found: &[Duel]) -> Vec<String> {
    let mut all = Vec::new();
    for duel in found {
        if let Some((name, _)) = duel.contenders.iter().find(|(_, its)| its.cpu_us.is_none()) {
            all.push(format!(
                "Processor time is not compared, since the process of {name} is not known; \
                 for a URL of this machine write --pid PID."
            ));
        }
        let others = || duel.contenders.iter().filter(|(name, _)| **name != duel.reference);
        if others().all(|(_, its)| its.replies.is_none()) {
            all.push("Replies a second are not compared: the rate is fixed for all.".to_owned());
        } else if let Some((name, _)) = duel.contenders.iter().find(|(_, its)| its.load_limited) {
            all.push(format!(
                "Replies a second are not compared with {name}: the generator was the limit."
            ));
        }
    }
    all.dedup();
    all
}

fn line(out: &mut impl Write, one: &Judgement, args: &VsArgs, first: &str) -> io::Result<()> {
    let percent = args.tolerance * 100.0;
    let than = match args.baseline {
        Some(_) => format!("than before, against {}", one.against),
        None => format!("than {}", one.against),
    };
    let said = match one.verdict {
        Verdict::Fine => format!("not worse by more than {percent:.0} %"),
        Verdict::Regression => format!("WORSE by more than {percent:.0} %"),
        Verdict::NotShown => format!("not shown to be within {percent:.0} %"),
    };
    let bounds = one.worse.map_or("no interval".to_owned(), |(low, high)| {
        format!("worse by a factor of {low:.3} to {high:.3}")
    });
    writeln!(out, "{first}, {}: {said} {than} ({bounds})", one.measure)
}

#[cfg(test)]
mod tests {
    use deathmatch::stats::Standing;

    use super::*;

    #[test]
    fn fine_needs_the_worse_bound_within_the_tolerance() {
        for (worse, verdict) in [
            (Some((0.9, 1.04)), Verdict::Fine),
            (Some((1.06, 1.2)), Verdict::Regression),
            (Some((0.6, 1.6)), Verdict::NotShown),
            (Some((1.04, 1.06)), Verdict::NotShown),
            (None, Verdict::NotShown),
        ] {
            assert_eq!(judge(worse, 0.05), verdict, "{worse:?}");
        }
    }

    #[test]
    fn a_kept_run_is_compared_by_the_worst_of_both_intervals() {
        let one = |low, high| Judgement {
            work: "w".to_owned(),
            against: "nginx".to_owned(),
            measure: "replies a second",
            worse: Some((low, high)),
            verdict: Verdict::NotShown,
        };
        let verdict =
            |now: Judgement, then: Judgement| judged(vec![now], Some(&[then]), 0.05)[0].verdict;
        assert_eq!(verdict(one(1.98, 2.0), one(1.99, 2.01)), Verdict::Fine, "slower, as before");
        assert_eq!(verdict(one(1.2, 1.21), one(1.0, 1.01)), Verdict::Regression);
        assert_eq!(verdict(one(1.0, 1.1), one(1.0, 1.1)), Verdict::NotShown, "both are wide");
        let other = Judgement { against: "caddy".to_owned(), ..one(1.0, 1.0) };
        assert!(judged(vec![one(1.0, 1.0)], Some(&[other]), 0.05).is_empty());
    }

    #[test]
    fn processes_belong_to_urls() {
        let known = crate::commands::catalogue(None).unwrap();
        let with = |pids: &[&str]| {
            let words = ["http://h:81/x", "nginx", "http://h:82/x"].map(str::to_owned);
            let pids: Vec<String> = pids.iter().map(|pid| (*pid).to_owned()).collect();
            let all = with_pids(servers(&words, &known).unwrap(), &pids)?;
            let pid = |server: &Server| match server.kind {
                Kind::Url(_, pid) => pid,
                Kind::Contender(_) => None,
            };
            Ok::<_, String>(all.iter().map(pid).collect::<Vec<_>>())
        };
        assert_eq!(with(&["7", "8"]), Ok(vec![Some(7), None, Some(8)]));
        assert_eq!(with(&["h:82=8"]), Ok(vec![None, None, Some(8)]));
        for pids in [&["1", "2", "3"][..], &["nginx=1"], &["x"], &["1", "h:81=2"]] {
            assert!(with(pids).unwrap_err().starts_with("--pid "), "{pids:?}");
        }
    }

    #[test]
    fn a_measure_that_is_not_compared_has_a_reason() {
        let its = |cpu_us, load_limited| Standing { cpu_us, load_limited, ..Standing::default() };
        let duel = |mut its: Standing, is_closed: bool| {
            let ratio =
                Ratio { median: 1.0, interval: None, bootstrap: (1.0, 1.0), rounds: [].into() };
            its.replies = is_closed.then_some(ratio);
            let contenders =
                [("a".to_owned(), Standing { cpu_us: Some(1.0), ..Standing::default() })];
            Duel {
                work: "w".to_owned(),
                reference: "a".to_owned(),
                cycles: 1,
                seconds: 1.0,
                precision: 0.01,
                precise: true,
                disturbed: 0.0,
                contenders: contenders.into_iter().chain([("b".to_owned(), its)]).collect(),
            }
        };
        for (its, is_closed, words) in [
            (its(Some(1.0), false), true, None),
            (its(None, false), true, Some("the process of b is not known")),
            (its(Some(1.0), false), false, Some("the rate is fixed for all")),
            (its(Some(1.0), true), true, Some("with b: the generator was the limit")),
        ] {
            let reasons = not_compared(&[duel(its.clone(), is_closed)]);
            assert_eq!(reasons.len(), usize::from(words.is_some()), "{its:?}: {reasons:?}");
            assert!(words.is_none_or(|words| reasons[0].contains(words)), "{reasons:?}");
        }
    }

    #[test]
    fn servers_are_commands_urls_and_contenders() {
        let known = crate::commands::catalogue(None).unwrap();
        let words = ["./my-server --port {port} {docroot}", "http://h:81/x", "nginx", "nginx"];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let all = servers(&words, &known).unwrap();
        let names: Vec<&str> = all.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["my-server", "h:81", "nginx", "nginx-2"]);
        let Kind::Contender(first) = &all[0].kind else { panic!("it is started") };
        assert_eq!(first.start[2], "exec env ./my-server --port {PORT} {DOCROOT}");
        for (words, why) in
            [("my-server -x", "{port}"), ("iis", "no contender"), ("ftp://a/", "http")]
        {
            let error = servers(&[words.to_owned()], &known).err().unwrap();
            assert!(error.contains(why), "{words}: {error}");
        }
    }
}
