//! The plans for applications, carried out in short on the programs built here: all bytes are
//! checked before and after, and every request is answered.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use deathmatch::arena::{Arena, Entrant};
use deathmatch::contender::Contender;
use deathmatch::plan::{Plan, Shape};
use deathmatch::sample::Offered;

/// Requests a second, for unoptimised programs on a machine that is otherwise in use.
const RATE: f64 = 50.0;

#[test]
fn every_application_answers_all_that_the_plans_ask() {
    for name in ["app", "mixed-app"] {
        let plan = short(Plan::built_in(name).unwrap());
        let out = folder(name);
        let arena = Arena {
            out: out.clone(),
            seed: 1,
            port: TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(),
            server_core: 0,
            load_core: 0,
            stop: Default::default(),
        };
        arena.lay_out(&plan).unwrap();
        let entrant = |name: &String| {
            let contender = Contender::by_name(name).unwrap();
            arena.prepare(&plan, &contender)
        };
        let apps = plan.contenders.iter().filter(|name| *name != "floor");
        let entrants: Vec<Entrant> = apps.map(|name| entrant(name).unwrap()).collect();
        assert_eq!(entrants.len(), 3, "{name}: axum, and hurtle in two ways");
        let outcome = arena.run(&plan, &entrants, None, |_| ()).unwrap();
        assert!(outcome.failed.is_empty(), "{name}: {:?}", outcome.failed);
        // Samples are taken again if other programs use the machine.
        let done: BTreeSet<_> = outcome.samples.iter().map(|s| (&s.contender, &s.work)).collect();
        assert_eq!(done.len(), entrants.len() * plan.works.len(), "{name}");
        for sample in &outcome.samples {
            let (who, work, load) = (&sample.contender, &sample.work, &sample.load);
            assert!(load.replies > 0 && load.errors.total() == 0, "{who}, {work}: {load:?}");
            let bulk = load.bulk.unwrap_or_default();
            assert_eq!(bulk.failures, 0, "{who}, {work}: a stream failed");
            let uploads = sample.beside.as_ref().is_some_and(|beside| beside.uploads > 0);
            assert_eq!(bulk.up_bytes > 0, uploads, "{who}, {work}: it takes uploads");
        }
        let files_alone = entrant(&"hurtle".to_owned()).unwrap_err();
        assert!(files_alone.contains("requests an application"), "{files_alone}");
        fs::remove_dir_all(out).unwrap();
    }
}

/// The plan with one round of short samples at a low rate, in turns.
fn short(mut plan: Plan) -> Plan {
    (plan.rounds, plan.turns) = (1, true);
    (plan.warm_up, plan.sample) = (Duration::ZERO, Duration::from_millis(300));
    for work in &mut plan.works {
        if let Shape::Steady(Offered::Open { rate, .. }) = &mut work.shape {
            *rate = RATE;
        }
    }
    plan
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("deathmatch-apps-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}
