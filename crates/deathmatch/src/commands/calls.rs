//! `deathmatch calls`: starts each contender, loads it in a closed loop, and prints its system
//! calls.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use deathmatch::arena::{Arena, Ports};
use deathmatch::calls::{Calls, check, count, moment};
use deathmatch::cli::CallsArgs;
use deathmatch::contender::{Contender, Site};
use deathmatch::load::{self, Client, Expected, Job, Tls};
use deathmatch::plan::Plan;
use deathmatch::process::Running;
use deathmatch::sample::{Load, Offered};
use deathmatch::tls::Protocol;

use super::{Output, usage};

/// Plan whose file is requested.
const PLAN: &str = "yield";

/// Time for which every call is listed; a part of the list is shown.
const MOMENT: Duration = Duration::from_millis(500);

/// A longer response time is an error.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Counts the calls of each contender.
pub(crate) fn calls(args: &CallsArgs) -> io::Result<ExitCode> {
    let [server_core, load_core] = args.cores[..] else {
        return usage("--cores: write two processors, such as 0,1");
    };
    let known = match super::catalogue(args.contender_dir.as_deref()) {
        Ok(known) => known,
        Err(why) => return usage(&why),
    };
    check()?;
    let Some(plan) = Plan::built_in(PLAN) else {
        return Err(io::Error::other("the plan is gone"));
    };
    let stop = Arc::new(AtomicBool::new(false));
    let Some(ports) = Ports::reserve(args.port, 1) else {
        return usage(&format!("--port {}: no ports above it are free", args.port));
    };
    let arena =
        Arena { out: args.out.clone(), seed: 0, port: ports.first, server_core, load_core, stop };
    arena.lay_out(&plan)?;
    let mut all = Vec::new();
    for name in &args.names {
        let Some(contender) = known.by_name(name) else {
            return usage(&format!("there is no contender {name:?}; see `deathmatch list`"));
        };
        let calls = calls_of(contender, &plan, &arena, args)?;
        if !args.json {
            writeln!(Output, "{calls}")?;
        }
        all.push(calls);
    }
    if args.json {
        writeln!(Output, "{}", serde_json::to_string_pretty(&all)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn calls_of(
    contender: &Contender,
    plan: &Plan,
    arena: &Arena,
    args: &CallsArgs,
) -> io::Result<Calls> {
    contender.probe().map_err(|missing| io::Error::other(missing.to_string()))?;
    let site = Site {
        work: arena.out.join("work"),
        docroot: arena.docroot(),
        port: arena.port,
        cores: vec![arena.server_core],
        workers: 1,
        uploads: false,
    };
    let running = contender.prepare(&site)?.start().map_err(|e| io::Error::other(e.to_string()))?;
    let pids = running.pids();
    let job = job(&running, plan, arena, args)?;
    let short = Job { duration: MOMENT, ..job.clone() };
    let (names, moment) = moment(&pids, &arena.out, || drive(&short, arena.load_core))?;
    let (counted, load) = count(&pids, &names, &arena.out, || drive(&job, arena.load_core))?;
    running.stop()?;
    let errors = load.errors.total();
    if errors > 0 {
        return Err(io::Error::other(format!("{}: {errors} responses were wrong", contender.name)));
    }
    Ok(Calls {
        contender: contender.name.clone(),
        connections: args.connections,
        requests: load.replies,
        total: counted.total,
        counts: counted.counts,
        in_vain: counted.in_vain,
        moment,
    })
}

fn job(running: &Running, plan: &Plan, arena: &Arena, args: &CallsArgs) -> io::Result<Job> {
    let target = running.addr();
    let requests = plan.files.iter().map(|file| {
        let path = running.url_path(&file.name);
        format!("GET {path} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: deathmatch\r\n\r\n")
            .into_bytes()
    });
    let body_bytes = plan.files.first().map_or(0, |file| file.bytes);
    let tls = running.trust().map(|trust| Tls::new(trust, None, Protocol::Http1));
    Ok(Job {
        target,
        client: Client::default(),
        requests: requests.take(1).collect(),
        bodies: Vec::new(),
        order: Vec::new(),
        expected: Expected { status: 200, body_bytes, body: None },
        offered: Offered::Closed { connections: args.connections },
        tls: tls.transpose().map_err(io::Error::other)?,
        over: None,
        beside: None,
        draw: 0,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(args.seconds),
        timeout: ANSWER_WITHIN,
        stop: Arc::clone(&arena.stop),
    })
}

/// On a thread of its own, so that only the generator is pinned to the core.
fn drive(job: &Job, core: usize) -> io::Result<Load> {
    let driving = || load::pin(core).and_then(|()| load::run(job));
    thread::scope(|scope| scope.spawn(driving).join())
        .map_err(|_| io::Error::other("the generator panicked"))?
}
