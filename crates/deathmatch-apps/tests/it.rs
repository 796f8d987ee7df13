//! The plans for applications, carried out in short on the programs built here: all bytes are
//! checked before and after, and every request is answered. Uploads stay in their directory.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
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

#[test]
fn an_upload_is_stored_in_its_directory_or_refused() {
    let programs = [
        (env!("CARGO_BIN_EXE_deathmatch-axum"), &[][..]),
        (env!("CARGO_BIN_EXE_deathmatch-hurtle-app"), &[]),
        (env!("CARGO_BIN_EXE_deathmatch-hurtle-app"), &["--isolated"]),
    ];
    for (program, own) in programs {
        let out = folder("uploads");
        let [docroot, inbox] = ["docroot", "inbox"].map(|name| out.join(name));
        fs::create_dir(&docroot).unwrap();
        fs::create_dir(&inbox).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(program);
        command.args(own).arg(address.port().to_string()).arg(&docroot).arg("1").arg(&inbox);
        let mut running = Running(command.spawn().unwrap());
        while TcpStream::connect(address).is_err() {
            assert_eq!(running.0.try_wait().unwrap(), None, "the application has ended");
            thread::sleep(Duration::from_millis(10));
        }
        let put = |name: &str| {
            let mut socket = TcpStream::connect(address).unwrap();
            let head = format!("PUT /up/{name} HTTP/1.1\r\nHost: a\r\nConnection: close");
            write!(socket, "{head}\r\nContent-Length: 2\r\n\r\nhi").unwrap();
            let mut response = String::new();
            socket.read_to_string(&mut response).unwrap();
            response.split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(put("inside"), "201", "{program} {own:?}");
        let absolute = out.join("absolute").display().to_string().replace('/', "%2F");
        for name in [&absolute, "..%2Fabove", "..", "inside%2F.", "%2e%2e%2Fabove"] {
            let status = put(name);
            assert!(status.starts_with('4'), "{program} {own:?}: {name} has {status}");
        }
        let names = |folder: &PathBuf| {
            let entries = fs::read_dir(folder).unwrap();
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&inbox), BTreeSet::from(["inside".to_owned()]), "{program} {own:?}");
        let folders = BTreeSet::from(["docroot", "inbox"].map(str::to_owned));
        assert_eq!(names(&out), folders, "{program} {own:?}");
        fs::remove_dir_all(out).unwrap();
    }
}

/// A program that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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
