//! Looks of a duel at its intervals, by a written journal: a resumed duel has no further look.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::fs;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deathmatch::arena::{Arena, Entrant, Event, Outcome, SAMPLES};
use deathmatch::plan::Plan;
use deathmatch::sample::{Sample, Slice};
use deathmatch::stats::duels;
use scripted::{PLAN, Scripted, folder};

/// Time of all slices.
const BUDGET: Duration = Duration::from_secs(100);

/// Cycles of the four bursts until the first look, and of all eight, which take 40 % of the budget.
const CYCLES_AT_LOOK: u32 = 16;
const CYCLES: u32 = 32;

/// Regression: a duel that was resumed looked at its intervals once more, so it could end at a
/// moment between its looks.
#[test]
fn a_resumed_duel_looks_no_more_often() {
    let mut stage = Stage::new();
    stage.plan.budget = Duration::from_millis(1);
    let template = stage.run(|_| ()).unwrap().samples.remove(0);
    stage.plan.budget = BUDGET;
    // Differences of the first bursts and of the others; the first ones decide.
    for (spreads, goes_on) in [([0.05, 0.0], true), ([0.0, 0.0], false)] {
        let samples = journal(&template, spreads);
        let at_look: Vec<Sample> =
            samples.iter().filter(|s| s.round < CYCLES_AT_LOOK).cloned().collect();
        let [look, now] = [&at_look, &samples].map(|some| half_width(some));
        // Between both; the replies of a precise duel may have twice the precision.
        stage.plan.precision = ((look + now) / 4.0).max(0.001);
        assert_eq!(look > 2.0 * stage.plan.precision, goes_on, "{look}, {now}");
        let lines = samples.iter().map(|s| serde_json::to_string(s).unwrap() + "\n");
        fs::write(stage.arena.out.join(SAMPLES), lines.collect::<String>()).unwrap();
        let mut has_started = false;
        let outcome = stage.run(|event| {
            has_started |= matches!(event, Event::Starts { .. });
            stage.arena.stop.store(has_started, Ordering::SeqCst);
        });
        assert_eq!((has_started, outcome.is_err()), (goes_on, goes_on), "{look}, {now}");
        stage.arena.stop.store(false, Ordering::SeqCst);
    }
    fs::remove_dir_all(&stage.arena.out).unwrap();
}

/// Slices whose ratios differ by such a share from burst to burst: one share before the first look,
/// and one after it.
fn journal(template: &Sample, spreads: [f64; 2]) -> Vec<Sample> {
    let mut began_unix_s = template.began_unix_s;
    let slices = (0..CYCLES).flat_map(|cycle| [(cycle, "one", 0), (cycle, "two", 1)]);
    let slice = |(round, name, place): (u32, &str, u32)| {
        let mut sample = Sample { round, contender: name.to_owned(), ..template.clone() };
        let (burst, part) = (round / 4, usize::from(round >= CYCLES_AT_LOOK));
        let sign = if burst.is_multiple_of(2) { 1.0 } else { -1.0 };
        sample.slice = Some(Slice { burst, place, ..Slice::default() });
        sample.load.replies = (1e6 * (1.0 + f64::from(place) * sign * spreads[part])) as u64;
        sample.load.seconds = BUDGET.as_secs_f64() * [0.2501, 0.15][part] / f64::from(CYCLES);
        sample.began_unix_s = began_unix_s;
        sample.marks.clear();
        began_unix_s += sample.load.seconds;
        sample
    };
    slices.map(slice).collect()
}

/// Half the width of the interval of the replies a second, as a share.
fn half_width(samples: &[Sample]) -> f64 {
    let found = duels(samples, "one", 1.0).remove(0);
    found.contenders["two"].replies.as_ref().unwrap().precision().unwrap()
}

/// Two scripted servers at a closed loop.
struct Stage {
    arena: Arena,
    plan: Plan,
    _servers: Vec<Scripted>,
    entrants: Vec<Entrant>,
}

impl Stage {
    fn new() -> Stage {
        let mut plan = Plan::read(&PLAN.replace("turns = true", "")).unwrap();
        plan.works.remove(0);
        let arena = Arena {
            out: folder("looks"),
            seed: 7,
            port: 0,
            server_core: 0,
            load_core: 0,
            stop: Default::default(),
        };
        arena.lay_out(&plan).unwrap();
        let body = fs::read(arena.docroot().join("a.png")).unwrap();
        let servers = [(); 2].map(|()| Scripted::serving(body.clone())).into();
        let entrants = |servers: &Vec<Scripted>| {
            let named = ["one", "two"].iter().zip(servers);
            named.map(|(name, server)| Entrant::elsewhere(name, server.address)).collect()
        };
        Stage { arena, plan, entrants: entrants(&servers), _servers: servers }
    }

    fn run(&self, tell: impl FnMut(Event<'_>)) -> io::Result<Outcome> {
        self.arena.run(&self.plan, &self.entrants, None, tell)
    }
}
