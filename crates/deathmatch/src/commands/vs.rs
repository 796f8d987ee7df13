//! `deathmatch vs`: a duel of anybody's server, and a verdict on the first.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use deathmatch::arena::{self, Arena, Entrant, Remote};
use deathmatch::cli::{RunArgs, VsArgs};
use deathmatch::contender::{Catalogue, Contender};
use deathmatch::figures::Check;
use deathmatch::plan::{Plan, Work};
use deathmatch::sample::ConnectionUse;
use deathmatch::stats::judgement::Outcome;
use deathmatch::stats::{Duel, Judged, Judgement, duels, factors};
use deathmatch::target::Url;
use serde_json::json;

use super::duel::table;
use super::run::{Executed, FinishedRun, Participants, execute, write_run};
use super::{Output, print_report, read_run, usage, write_report};

/// Directories that are tried for the results.
const OUT_MAX: u32 = 1_000;

/// Compares the first server with the others.
pub(crate) fn vs(args: &VsArgs) -> io::Result<ExitCode> {
    let known = super::catalogue(args.contender_dir.as_deref());
    let chosen = known
        .and_then(|known| servers(&args.servers, &known))
        .and_then(|servers| with_pids(servers, &args.pids))
        .and_then(|servers| alike(servers, args))
        .and_then(|servers| Ok((plan(args, &servers)?, servers)))
        .and_then(|chosen| args.outcomes.check().map(|()| chosen));
    let ((plan, body), servers) = match chosen {
        Ok(chosen) => chosen,
        Err(why) => return usage(&why),
    };
    let baseline = args.baseline.as_deref();
    let kept = match baseline.map(|dir| kept(dir, &plan)).transpose() {
        Err(why) => return usage(&format!("--baseline: {why}")),
        Ok(Some(kept)) if kept.is_empty() => {
            return usage("--baseline: that run has no common work and contender with this one");
        }
        Ok(kept) => kept,
    };
    let run = run_args(args);
    let executed = execute(&plan, &run, |arena| {
        if let Some(body) = &body {
            let file = arena.docroot().join(&plan.files[0].name);
            fs::write(&file, body).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        gather(arena, &plan, servers, args.insecure)
    })?;
    match executed {
        Executed::Stopped(code) => Ok(code),
        Executed::Finished(whole) => show(args, &plan, *whole, kept.as_deref()),
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

/// Checks that all servers speak TLS or none does: they do not cost the same.
fn alike(servers: Vec<Server>, args: &VsArgs) -> Result<Vec<Server>, String> {
    let is_secure = |server: &Server| match &server.kind {
        Kind::Contender(contender) => contender.tls,
        Kind::Url(url, _) => url.is_secure,
    };
    let secure = servers.iter().find(|server| is_secure(server));
    let clear = servers.iter().find(|server| !is_secure(server));
    match (secure, clear) {
        (Some(secure), Some(clear)) => Err(format!(
            "{} speaks TLS and {} does not: compare both over TLS (a URL of https, nginx-tls, a command \
             with {{certificate}} and {{key}}) or none",
            secure.name, clear.name
        )),
        (None, Some(clear)) if args.h2 || args.h3 => {
            Err(format!("--h2 and --h3 are spoken over TLS, and {} does not speak it", clear.name))
        }
        _ => Ok(servers),
    }
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
        if url.is_websocket {
            return Err(format!(
                "{words}: servers are compared over HTTP; write http:// or https://"
            ));
        }
        return Ok((url.authority.clone(), Kind::Url(url, None)));
    }
    let contender = if filled(words).contains("{PORT}") {
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

/// Names that a command may contain in braces.
const NAMES: [&str; 4] = ["port", "docroot", "certificate", "key"];

/// The contender that a command starts: run by the shell, in the current directory.
fn command(words: &str) -> Result<Contender, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    // The command that listens, of a list of them.
    let listens = words.split(['&', ';', '|']).find(|one| one.contains("{port}"));
    let is_program = |word: &&str| !word.contains('=') && !matches!(*word, "exec" | "env");
    let program = listens.unwrap_or(words).split_whitespace().find(is_program);
    let file =
        Path::new(program.unwrap_or_default()).file_stem().unwrap_or_default().to_string_lossy();
    let name: String = file.chars().filter(|c| is_plain(*c)).collect();
    let name = if name.is_empty() { "command".to_owned() } else { name };
    let filled = filled(words);
    let speaks_tls = filled.contains("{CERTIFICATE}");
    let contender = json!({
        "name": name,
        "title": words,
        "packages": [],
        "executable": "sh",
        "start": ["sh", "-c", filled],
        "url": "/{FILE}",
        "tls": speaks_tls,
        "http2": speaks_tls,
        "http3": speaks_tls,
        "ready_s": 30,
        "version": { "command": ["echo", "as given"], "after": "as " },
        // The shell may wait for the server.
        "stop": { "signal": "TERM", "all": true, "grace_s": 5 },
        "tuned": [],
        "vars": { "BRACE": "{" },
    });
    let contender: Contender =
        serde_json::from_value(contender).map_err(|e| format!("{words}: {e}"))?;
    let dir = std::env::current_dir().map_err(|e| format!("the current directory: {e}"))?;
    Ok(Contender { dir: Some(dir), ..contender })
}

/// The command as the text of a contender, which has its names in capitals. All other braces, and
/// `${port}` of the shell, stay as they are.
fn filled(words: &str) -> String {
    let mut text = String::new();
    let mut rest = words;
    while let Some((before, after)) = rest.split_once('{') {
        text += before;
        let name = NAMES.iter().filter(|_| !before.ends_with('$')).find_map(|name| {
            let behind = after.strip_prefix(name)?.strip_prefix('}')?;
            Some((name, behind))
        });
        (text, rest) = match name {
            Some((name, behind)) => (format!("{text}{{{}}}", name.to_uppercase()), behind),
            None => (text + "{BRACE}", after),
        };
    }
    text + rest
}

/// The plan, and the body of the first URL's response.
fn plan(args: &VsArgs, servers: &[Server]) -> Result<(Plan, Option<Vec<u8>>), String> {
    let first = servers.iter().find_map(|server| match &server.kind {
        Kind::Url(url, _) => Some(url),
        Kind::Contender(_) => None,
    });
    let body = first.map(|url| url.fetch(args.insecure)).transpose()?;
    let size = body.as_ref().map_or(args.size.clone(), |body| body.len().to_string());
    let rate = args.rate.map_or(String::new(), |rate| format!("@{rate}"));
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    let work = format!("{size}:{}{rate}", args.connections);
    let mut plan = Plan::of_works(&[work], &names).map_err(|e| e.to_string())?;
    let over = match (args.h2, args.h3) {
        (true, _) => Some(ConnectionUse::Streams(1)),
        (_, true) => Some(ConnectionUse::Http3(1)),
        _ => None,
    };
    plan.works.iter_mut().for_each(|work| work.over = over);
    plan.precision = args.precision;
    plan.budget = args.budget;
    (plan.needs_all, plan.needs_slices) = (true, true);
    Ok((plan, body))
}

fn run_args(args: &VsArgs) -> RunArgs {
    let named = |number: u32| match number {
        1 => PathBuf::from("deathmatch-vs"),
        _ => PathBuf::from(format!("deathmatch-vs-{number}")),
    };
    let free = || (1..OUT_MAX).map(named).find(|dir| !dir.exists()).unwrap_or_else(|| named(1));
    let out = args.out.clone().unwrap_or_else(free);
    RunArgs {
        seed: args.seed,
        json: args.json,
        can_resume: false,
        ..RunArgs::own(out, args.port, args.cores.clone())
    }
}

/// The name under which the first server takes part a second time.
fn again(servers: &[Server]) -> Option<String> {
    let (first, others) = servers.split_first()?;
    let is_again = |other: &&Server| match (&first.kind, &other.kind) {
        (Kind::Contender(a), Kind::Contender(b)) => a.title == b.title && a.chosen == b.chosen,
        (Kind::Url(a, _), Kind::Url(b, _)) => a == b,
        _ => false,
    };
    others.iter().find(is_again).map(|other| other.name.clone())
}

fn gather(
    arena: &Arena,
    plan: &Plan,
    servers: Vec<Server>,
    insecure: bool,
) -> Result<Participants, String> {
    let mut field = Participants::none();
    field.again = again(&servers);
    for (place, Server { name, kind }) in servers.into_iter().enumerate() {
        field.add(match kind {
            Kind::Url(url, pid) => {
                let remote = Remote::file(&url, insecure)?;
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

/// The factors of a kept run that this one has too.
fn kept(dir: &Path, plan: &Plan) -> io::Result<Vec<Judgement>> {
    let (run, samples) = (read_run(dir)?, arena::recorded(dir)?);
    if run.reference != plan.reference {
        let (kept, first) = (&run.reference, &plan.reference);
        return Err(io::Error::other(format!(
            "the first server of that run is {kept}, not {first}"
        )));
    }
    let mut all = factors(&duels(&samples, &run.reference, plan.precision));
    let works: Vec<String> = plan.works.iter().map(Work::name).collect();
    all.retain(|one| works.contains(&one.work) && plan.contenders.contains(&one.against));
    // Shares of failed requests alone are no verdict.
    if all.iter().all(|one| one.failed.is_some()) {
        all.clear();
    }
    Ok(all)
}

/// Judges, writes the report and the outcomes, and prints the result.
fn show(
    args: &VsArgs,
    plan: &Plan,
    mut whole: FinishedRun,
    kept: Option<&[Judgement]>,
) -> io::Result<ExitCode> {
    let found = duels(&whole.samples, &plan.reference, plan.precision);
    if let Some(why) = failure(&whole, &found, plan) {
        return usage(&why);
    }
    let judged = Judged::of(&found, kept, args.tolerance);
    whole.run.judged = Some(judged.clone());
    write_run(&whole.arena, &whole.run)?;
    let FinishedRun { arena, run, samples, .. } = &whole;
    let rankings = write_report(&arena.out, run, samples)?;
    let subject = format!("{} vs {}", judged.first, plan.contenders[1..].join(", "));
    let written = args.outcomes.write(&subject, &checks(&judged));
    if args.json {
        let mut all = serde_json::to_value(&judged)?;
        all["outcome"] = serde_json::to_value(judged.outcome())?;
        all["duels"] = serde_json::to_value(&found)?;
        writeln!(Output, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        found.iter().try_for_each(|duel| table(&mut Output, duel, plan))?;
        print_report(&arena.out, run, samples, &rankings)?;
    }
    written?;
    Ok(ExitCode::from(judged.exit_code()))
}

/// Reason for which nothing is judged: a server that failed, even if it has slices.
fn failure(whole: &FinishedRun, found: &[Duel], plan: &Plan) -> Option<String> {
    let has_slices = |name: &String| found.iter().any(|duel| duel.contenders.contains_key(name));
    let is_measured = |name: &String| match has_slices(name) {
        true => "failed, so there is no verdict",
        false => "was not measured",
    };
    let mut failed =
        whole.run.contenders.iter().filter_map(|c| Some((&c.name, c.absent.as_ref()?)));
    if let Some((name, why)) = failed.next() {
        return Some(format!("{name} {}: {why}", is_measured(name)));
    }
    if let Some((name, why)) = whole.apart.iter().next() {
        return Some(format!("{name} was not measured: {why}"));
    }
    let missing = plan.contenders.iter().find(|name| !has_slices(name))?;
    Some(format!("{missing} was not measured: no slice"))
}

/// The judgements as outcomes, and one for each server without any. A judgement that shows nothing
/// is not a passed one.
fn checks(judged: &Judged) -> Vec<Check> {
    let by_measure = judged.judgements.iter().map(|one| {
        let name = format!("{}: {} than {}", one.work, one.measure, one.against);
        (name, one.verdict == Outcome::Fine)
    });
    let not_judged = judged.not_judged.iter().map(|one| {
        let name = format!("{}: any measure than {}", one.work, one.against);
        (name, false)
    });
    let check = |((name, is_passed), found)| Check { name, is_asked: true, is_passed, found };
    by_measure.chain(not_judged).zip(judged.sentences()).map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_server_without_any_measure_is_no_check_passed() {
        let duel = |against: &[&str]| {
            let its = |name: &str| (name.to_owned(), deathmatch::stats::Standing::default());
            let contenders = ["a"].iter().chain(against).map(|name| its(name)).collect();
            let (work, reference) = ("w".to_owned(), "a".to_owned());
            Duel { work, reference, contenders, ..Duel::default() }
        };
        let checks = checks(&Judged::of(&[duel(&["b", "c"])], None, 0.05));
        let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, ["w: any measure than b", "w: any measure than c"]);
        assert!(checks.iter().all(|check| !check.is_passed));
        assert!(checks[1].found.contains("worse than c, since no measure is compared"));
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
        assert_eq!(first.start[2], "./my-server --port {PORT} {DOCROOT}");
        // Regression: variables of the shell were filled in, or had no value.
        let shell = "P=1 A={B} x ${PORT:-{port}} ${port} ${X} awk '{print}' {port}";
        let filled = "P=1 A={BRACE}B} x ${BRACE}PORT:-{PORT}} ${BRACE}port} ${BRACE}X} awk \
                      '{BRACE}print}' {PORT}";
        assert_eq!(super::filled(shell), filled);
        for (words, why) in
            [("my-server -x", "{port}"), ("iis", "no contender"), ("ftp://a/", "http")]
        {
            let error = servers(&[words.to_owned()], &known).err().unwrap();
            assert!(error.contains(why), "{words}: {error}");
        }
    }
}
