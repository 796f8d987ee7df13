//! Tests of a plan's execution, by its journal: order, resumption, disqualification.

#![allow(clippy::unwrap_used)]

mod scripted;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use deathmatch::arena::{Arena, Entrant, Event, Outcome, SAMPLES, recorded};
use deathmatch::plan::Plan;
use deathmatch::sample::{Mark, Sample};
use deathmatch::stats::duels;
use scripted::{PLAN, Scripted, folder};

/// The generator takes a whole core: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn every_contender_does_all_work_in_the_order_of_the_seed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stage = Stage::new("order", &["one", "two", "three"]);
    stage.plan.works[1].sample = Some(stage.plan.sample * 2);
    let outcome = stage.run(|_| ()).unwrap();
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    let names = stage.names();
    let mut wanted = Vec::new();
    for round in 0..2 {
        // One work of everybody, then the next: what is compared lies close in time.
        for work in &stage.plan.works {
            let order = stage.plan.order(&names, round, stage.arena.seed);
            wanted.extend(order.into_iter().map(|name| (round, name, work.name())));
        }
    }
    assert_eq!(steps(&recorded(&stage.arena.out).unwrap()), wanted);
    assert_eq!(steps(&outcome.samples), wanted, "the outcome is what the journal holds");
    for sample in &outcome.samples {
        assert!(sample.load.replies > 0, "{}: nothing came", sample.work);
        let longer = sample.work == stage.plan.works[1].name();
        let lasts = stage.plan.sample.as_secs_f64() * if longer { 2.0 } else { 1.0 };
        assert!((sample.load.seconds - lasts).abs() < 0.01, "{}", sample.load.seconds);
        assert!(sample.server.is_none() && sample.machine.is_none(), "it runs elsewhere");
    }
}

#[test]
fn an_interrupted_run_is_resumed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("resume", &["one", "two"]);
    let mut works = 0;
    let cut = stage.run(|event| {
        works += u32::from(matches!(event, Event::Turn { .. }));
        // Stops before the second contender's second work.
        stage.arena.stop.store(works == 4, Ordering::SeqCst);
    });
    assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::Interrupted);
    let before = recorded(&stage.arena.out).unwrap();
    assert_eq!(before.len(), 3, "what was over was written");

    stage.arena.stop.store(false, Ordering::SeqCst);
    let whole = stage.run(|_| ()).unwrap();
    assert_eq!(whole.samples.len(), 8);
    assert_eq!(figures(&whole.samples[..3]), figures(&before), "nothing was measured again");
    let asked: Vec<u64> = stage.requests();
    let again = stage.run(|_| ()).unwrap();
    assert_eq!(figures(&again.samples), figures(&whole.samples), "it stays as it is");
    assert_eq!(stage.requests(), asked, "and asks nobody anything");
}

#[test]
fn an_incomplete_journal_line_is_measured_again() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("torn", &["one"]);
    stage.run(|_| ()).unwrap();
    let path = stage.arena.out.join(SAMPLES);
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 20]).unwrap();
    let outcome = stage.run(|_| ()).unwrap();
    assert_eq!(outcome.samples.len(), 4);
    assert_eq!(figures(&recorded(&stage.arena.out).unwrap()), figures(&outcome.samples));
}

#[test]
fn a_disturbed_sample_is_repeated() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("disturbed", &["one"]);
    stage.run(|_| ()).unwrap();
    let path = stage.arena.out.join(SAMPLES);
    let text = std::fs::read_to_string(&path).unwrap();
    let (first, others) = text.split_once('\n').unwrap();
    let mut disturbed: Sample = serde_json::from_str(first).unwrap();
    disturbed.marks.push(Mark::ForeignCpu);
    let disturbed = serde_json::to_string(&disturbed).unwrap();
    std::fs::write(&path, format!("{disturbed}\n{others}")).unwrap();
    let outcome = stage.run(|_| ()).unwrap();
    assert_eq!(outcome.samples.len(), 5, "that one, and no other");
    let again = outcome.samples.last().unwrap();
    assert_eq!((again.round, again.trial, &again.work), (0, 1, &outcome.samples[0].work));
    assert!(outcome.samples[0].marks.contains(&Mark::ForeignCpu), "both are kept");
}

#[test]
fn a_repeated_round_marks_no_slices() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = PLAN.replace("turns = true", "budget_s = 1").replace("rounds = 2", "rounds = 3");
    let sessions = "sessions = { requests = [200], calls = 10 }";
    let plan = plan.replace("open = { requests = [200], connections = 2 }", sessions);
    let stage = Stage::with("repeated", &["one", "two"], &plan);
    let floor = Entrant::elsewhere("floor", stage.servers[0].address);
    let run = || stage.arena.run(&stage.plan, &stage.entrants, Some(&floor), |_| ()).unwrap();
    run();
    // The floor of round 1 is another one, and those of the others are alike.
    let path = stage.arena.out.join(SAMPLES);
    let mut lines = String::new();
    for mut sample in recorded(&stage.arena.out).unwrap() {
        if sample.attempt > 0 {
            continue;
        }
        sample.marks.retain(|mark| *mark != Mark::FloorMoved);
        if sample.probe {
            sample.load.replies = if sample.round == 1 { 500 } else { 1_000 };
        }
        lines += &(serde_json::to_string(&sample).unwrap() + "\n");
    }
    std::fs::write(&path, lines).unwrap();
    let outcome = run();
    let moved = |s: &&Sample| s.marks.contains(&Mark::FloorMoved);
    let (slices, turns): (Vec<&Sample>, Vec<&Sample>) =
        outcome.samples.iter().filter(|s| !s.probe).partition(|s| s.slice.is_some());
    assert!(slices.iter().any(|s| s.round == 1), "a cycle has the number of the round");
    assert_eq!(slices.iter().copied().filter(moved).count(), 0);
    let marked: Vec<&Sample> = turns.into_iter().filter(moved).collect();
    assert_eq!(marked.len(), 2, "{marked:?}");
    assert!(marked.iter().all(|s| s.round == 1 && s.attempt == 0), "{marked:?}");
}

#[test]
fn wrong_bytes_disqualify_before_and_after() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("wrong", &["one", "two"]);
    stage.servers[1].go_wrong();
    let outcome = stage.run(|_| ()).unwrap();
    let why = &outcome.failed["two"];
    assert!(why.contains("byte 0 is"), "{why}");
    assert!(outcome.samples.iter().all(|s| s.contender == "one"), "two is not even measured");
    assert_eq!(outcome.samples.len(), 4, "one goes on");

    let stage = Stage::new("wrong-later", &["one", "two"]);
    let mut turns = Vec::new();
    let outcome = stage.run(|event| match event {
        Event::Turn { contender, .. } => turns.push(contender.to_owned()),
        // It was right when it began.
        Event::Done if turns.last().is_some_and(|name| name == "two") => {
            stage.servers[1].go_wrong();
        }
        _ => {}
    });
    let samples = outcome.unwrap().samples;
    let marked: Vec<&Sample> =
        samples.iter().filter(|s| s.marks.contains(&Mark::WrongBytes)).collect();
    assert_eq!(marked.len(), 1, "nobody knows since when");
    assert!(marked.iter().all(|s| s.contender == "two" && s.round == 0));
    assert_eq!(samples.len(), 5, "after that it is not even measured");
    let written = recorded(&stage.arena.out).unwrap();
    assert_eq!(figures(&written), figures(&samples), "the marks were written down");
}

/// Searches made before none of them counts.
const ATTEMPTS_MAX: usize = 50;

#[test]
fn a_search_raises_the_rate_until_one_step_beyond_saturation() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let text = PLAN.replace("open = { requests = [200],", "upward = { from = 200,");
    let text = text.replace("rounds = 2", "rounds = 1");
    let (stage, outcome) = (0..ATTEMPTS_MAX)
        .map(|_| {
            // So little time for a sample that a rate of many connections' worth is overload.
            let stage = Stage::with("upward", &["one"], &text);
            let outcome = stage.run(|_| ()).unwrap();
            assert_eq!(outcome.samples[0].work, "a.png at 200/s over 2 connections");
            (stage, outcome)
        })
        // On a busy machine the first rate can already be too much.
        .find(|(_, outcome)| outcome.samples[1].work == "a.png at 400/s over 2 connections")
        .expect("the rate that follows one that is carried is twice that");
    let again = stage.run(|_| ()).unwrap();
    let (again, first) = (figures(&again.samples), figures(&outcome.samples));
    assert_eq!(again, first, "the search comes out of the journal the same");
}

#[test]
fn a_server_without_uploads_gets_a_downloads_only_work_name() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let beside = "beside = { file = \"a.png\", downloads = 1, uploads = 3, mb_per_s = 8 }\n";
    let text = PLAN.replace("open = {", &format!("{beside}open = {{"));
    // Time for a download, whoever else uses the processors.
    let text = text.replace("sample_s = 0.05", "sample_s = 0.5");
    let stage = Stage::with("beside", &["one"], &text);
    assert!(stage.plan.uploads());
    let written = stage.plan.works[0].name();
    let whole = "a.png at 200/s over 2 connections, beside 1 download and 3 uploads of 100 bytes";
    assert_eq!(written, format!("{whole} at 8 MB/s"));
    let outcome = stage.run(|_| ()).unwrap();
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    let sample = &outcome.samples[0];
    let half = "a.png at 200/s over 2 connections, beside 1 download of 100 bytes at 2 MB/s";
    assert_eq!(sample.work, half, "a server elsewhere takes none");
    assert_eq!(sample.beside.as_ref().map(|b| (b.downloads, b.uploads)), Some((1, 0)));
    let bulk = sample.load.bulk.unwrap();
    assert!(bulk.downloads > 0 && bulk.uploads == 0 && bulk.failures == 0, "{bulk:?}");
    let alone = &outcome.samples[1];
    assert!(alone.beside.is_none() && alone.load.bulk.is_none(), "{}", alone.work);
}

#[test]
fn a_duel_goes_round_in_mirrored_cycles_over_kept_connections() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = PLAN.replace("turns = true", "budget_s = 1");
    let mut stage = Stage::with("duel", &["one", "two", "three"], &plan);
    stage.plan.works.remove(0);
    let mut bursts = 0;
    let outcome = stage.run(|event| bursts += u32::from(matches!(event, Event::Burst { .. })));
    let outcome = outcome.unwrap();
    assert!(outcome.failed.is_empty() && outcome.apart.is_empty(), "{:?}", outcome.failed);
    let cycles = 1 + outcome.samples.iter().map(|s| s.round).max().unwrap();
    assert!(cycles >= 2 && cycles % 2 == 0, "cycles come in pairs: {cycles}");
    let order = |cycle| {
        let of_cycle = outcome.samples.iter().filter(|s| s.round == cycle);
        let mut own: Vec<&Sample> = of_cycle.collect();
        own.sort_by_key(|s| s.slice.unwrap().place);
        own.into_iter().map(|s| s.contender.clone()).collect::<Vec<_>>()
    };
    for cycle in (0..cycles).step_by(2) {
        let (there, mut back) = (order(cycle), order(cycle + 1));
        back.reverse();
        assert_eq!(there, stage.plan.order(&stage.names(), cycle, stage.arena.seed));
        assert_eq!(there, back, "the second of each pair has the opposite order");
    }
    for (sample, last) in outcome.samples.iter().zip(1..) {
        let load = &sample.load;
        assert!(load.replies > 0 && load.errors.total() == 0, "{load:?}");
        assert!(load.seconds >= 0.25 && load.replies == load.intended, "sample {last}: {load:?}");
    }
    // In each burst two at once, and one for each byte check, before its slices and after them.
    for server in &stage.servers {
        let connections = server.connections.load(Ordering::SeqCst);
        assert_eq!(connections, u64::from(4 * bursts), "no slice opens connections");
    }
    let asked = stage.requests();
    let again = stage.run(|_| ()).unwrap();
    assert_eq!(
        figures(&again.samples),
        figures(&outcome.samples),
        "a finished duel stays as it is"
    );
    assert_eq!(stage.requests(), asked, "and asks nobody anything");
}

#[test]
fn the_contenders_of_a_duel_are_started_for_each_burst_in_an_order_of_the_seed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = PLAN.replace("turns = true", "budget_s = 3");
    let stage = Stage::with("duel-starts", &["one", "two", "three"], &plan);
    let (mut starts, mut bursts) = (Vec::new(), BTreeMap::<String, usize>::new());
    let cut = stage.run(|event| match event {
        Event::Starts { contender } => {
            starts.push(contender.to_owned());
            // In the second pass.
            stage.arena.stop.store(starts.len() == 5, Ordering::SeqCst);
        }
        Event::Burst { work, .. } => *bursts.entry(work.to_owned()).or_default() += 1,
        _ => {}
    });
    assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::Interrupted, "a start ends as a slice does");
    assert_eq!((starts.len(), bursts.values().copied().collect()), (5, vec![1, 1]));

    stage.arena.stop.store(false, Ordering::SeqCst);
    starts.clear();
    let outcome = stage.run(|event| {
        if let Event::Starts { contender } = event {
            starts.push(contender.to_owned());
        }
    });
    let samples = outcome.unwrap().samples;
    let passes = 1 + samples.iter().map(|s| s.slice.unwrap().burst).max().unwrap();
    let order = |pass| stage.plan.order(&stage.names(), pass, stage.arena.seed);
    assert!(passes >= 2, "the second work ends later or with the first one: {passes}");
    assert_eq!(starts, (1..passes).flat_map(order).collect::<Vec<_>>(), "it is resumed");
    assert_ne!(order(0), order(1), "each is started first at times");
}

#[test]
fn a_contender_of_a_duel_that_fails_to_start_again_leaves_the_others() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = PLAN.replace("turns = true", "budget_s = 3");
    for goes_wrong in [false, true] {
        let mut stage = Stage::with("duel-start-fails", &["one", "two", "three"], &plan);
        stage.plan.works.remove(0);
        let mut leaving = stage.servers.remove(1);
        let mut starts = BTreeMap::<String, usize>::new();
        let outcome = stage.run(|event| {
            let Event::Starts { contender } = event else { return };
            *starts.entry(contender.to_owned()).or_default() += 1;
            match (contender, starts[contender]) {
                ("two", 2) if goes_wrong => leaving.go_wrong(),
                ("two", 2) => leaving.leave(),
                _ => {}
            }
        });
        let outcome = outcome.unwrap();
        let why = &outcome.failed["two"];
        assert!(why.starts_with("when started again: "), "{why}");
        let bursts = |name: &str| {
            let its = outcome.samples.iter().filter(|s| s.contender == name);
            its.map(|s| s.slice.unwrap().burst).max().unwrap()
        };
        assert!(bursts("two") == 0 && bursts("three") > 0 && bursts("one") > 0);
        assert_eq!(starts["two"], 2, "it is not tried again");
        let is_wrong = |s: &Sample| s.marks.contains(&Mark::WrongBytes);
        let mut own = outcome.samples.iter().filter(|s| s.contender == "two");
        assert_eq!(own.any(is_wrong), goes_wrong, "nothing shows since when they are wrong");
    }
}

#[test]
fn a_contender_of_a_duel_that_goes_wrong_is_not_compared() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = PLAN.replace("turns = true", "budget_s = 1");
    let stage = Stage::with("duel-wrong", &["one", "two"], &plan);
    let outcome = stage.run(|event| {
        if matches!(event, Event::Burst { .. }) {
            stage.servers[1].go_wrong();
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.failed["two"].contains("byte 0 is"), "{:?}", outcome.failed);
    let wrong = |name: &str| {
        let mut own = outcome.samples.iter().filter(|s| s.contender == name);
        own.all(|s| s.marks.contains(&Mark::WrongBytes))
    };
    assert!(wrong("two") && !wrong("one"));
    assert!(
        duels(&outcome.samples, "one", 0.01).iter().all(|d| d.contenders["two"].replies.is_none())
    );
}

#[test]
fn a_contender_of_a_duel_that_cannot_be_reached_at_the_end_has_no_wrong_bytes() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = PLAN.replace("turns = true", "budget_s = 1");
    let mut stage = Stage::with("duel-gone", &["one", "two"], &plan);
    stage.plan.works.remove(0);
    let mut leaving = stage.servers.remove(1);
    let outcome = stage.run(|event| {
        if matches!(event, Event::Burst { .. }) {
            leaving.leave();
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.failed["two"].contains("no connection to"), "{:?}", outcome.failed);
    let wrong = outcome.samples.iter().filter(|s| s.marks.contains(&Mark::WrongBytes));
    assert_eq!(wrong.count(), 0, "every response was right");
}

/// Scripted servers, who take part as if they ran elsewhere.
struct Stage {
    arena: Arena,
    plan: Plan,
    servers: Vec<Scripted>,
    entrants: Vec<Entrant>,
}

impl Stage {
    fn new(name: &str, names: &[&str]) -> Stage {
        Stage::with(name, names, PLAN)
    }

    fn with(name: &str, names: &[&str], plan: &str) -> Stage {
        let plan = Plan::read(plan).unwrap();
        let arena = Arena {
            out: folder(name),
            seed: 7,
            port: 0,
            server_core: 0,
            load_core: 0,
            stop: Default::default(),
        };
        arena.lay_out(&plan).unwrap();
        let body = std::fs::read(arena.docroot().join("a.png")).unwrap();
        let servers: Vec<Scripted> =
            names.iter().map(|_| Scripted::serving(body.clone())).collect();
        let entrants =
            names.iter().zip(&servers).map(|(n, s)| Entrant::elsewhere(n, s.address)).collect();
        Stage { arena, plan, servers, entrants }
    }

    fn run(&self, tell: impl FnMut(Event<'_>)) -> io::Result<Outcome> {
        self.arena.run(&self.plan, &self.entrants, None, tell)
    }

    fn names(&self) -> Vec<String> {
        self.entrants.iter().map(|e| e.name.clone()).collect()
    }

    fn requests(&self) -> Vec<u64> {
        self.servers.iter().map(|s| s.requests.load(Ordering::SeqCst)).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.arena.out));
    }
}

fn steps(samples: &[Sample]) -> Vec<(u32, String, String)> {
    samples.iter().map(|s| (s.round, s.contender.clone(), s.work.clone())).collect()
}

/// The name of each sample, its replies and reads, and its marks.
fn figures(samples: &[Sample]) -> Vec<(String, u64, u64, Vec<Mark>)> {
    let of = |s: &Sample| {
        let work = format!("{} {} {}", s.round, s.contender, s.work);
        (work, s.load.replies, s.load.reads, s.marks.clone())
    };
    samples.iter().map(of).collect()
}
