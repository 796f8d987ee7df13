//! Conditions under which a run is continued (`--resume`): it has the same plan, and its slices are
//! of the same contenders.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use deathmatch::arena;
use deathmatch::cli::RunArgs;
use deathmatch::plan::Plan;
use deathmatch::report::{Contender, Measured};

use super::read_run;

/// The seed: as given, as in the run to be continued, or the time.
pub(super) fn seed(args: &RunArgs, out: &Path, plan: &Plan) -> io::Result<Result<u64, String>> {
    let shown = out.display();
    if !out.join(arena::SAMPLES).exists() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        return Ok(Ok(args.seed.unwrap_or(now)));
    }
    if !args.resume {
        let resume = if args.can_resume { "continue it (--resume), or " } else { "" };
        return Ok(Err(format!("{shown} contains a run: {resume}use another --out")));
    }
    let run = match read_run(out) {
        Ok(run) => run,
        Err(why) => return Ok(Err(format!("--resume: {why}"))),
    };
    if run.plan != plan.name {
        return Ok(Err(format!("{shown} contains a run of {}, not of {}", run.plan, plan.name)));
    }
    let differs = run.measured.is_some_and(|its| its != Measured::of(plan));
    if differs && !arena::recorded(out)?.is_empty() {
        let why = "was begun with other works or times (such as those of --quick): continue it with \
                   its own, or use another --out";
        return Ok(Err(format!("{shown} {why}")));
    }
    if args.seed.is_some_and(|seed| seed != run.seed) {
        return Ok(Err(format!("{shown} was begun with --seed {}; leave it out", run.seed)));
    }
    Ok(Ok(run.seed))
}

/// Reason for which the slices in a directory are not continued: they are of other contenders, and
/// an interval over both would be of neither.
pub(super) fn other_contenders(
    out: &Path,
    plan: &Plan,
    contenders: &[Contender],
) -> io::Result<Option<String>> {
    if arena::recorded(out)?.iter().all(|sample| sample.slice.is_none()) {
        return Ok(None);
    }
    let run = read_run(out)?;
    let names = |all: &[Contender]| -> BTreeSet<String> {
        all.iter().map(|contender| contender.name.clone()).collect()
    };
    let replaced = contenders.iter().find_map(|now| {
        let before = run.contenders.iter().find(|before| before.name == now.name)?;
        let (before, now) = (before.program.as_ref()?, now.program.as_ref()?);
        (before != now).then(|| format!("{before}; now {now}"))
    });
    if let Some(programs) = replaced {
        return Ok(Some(format!(
            "{} was begun with another program ({programs}): use another --out",
            out.display()
        )));
    }
    let its = names(&run.contenders);
    if run.reference == plan.reference && its == names(contenders) {
        return Ok(None);
    }
    let its = its.into_iter().collect::<Vec<_>>().join(", ");
    Ok(Some(format!(
        "{} was begun with other contenders ({its}; the reference is {}): continue it with its own, or \
         use another --out",
        out.display(),
        run.reference
    )))
}
