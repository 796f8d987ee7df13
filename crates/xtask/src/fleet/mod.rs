//! `cargo xtask fleet`: simulates a balancer before many caching servers, and writes the table of
//! `docs/fleet.md` and its plot. It shows what a choice of servers costs in hits and in balance, at a
//! size that no machine of the project can run.

mod cache;
mod policy;
mod popularity;
mod random;
mod report;
mod simulation;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::command::root;
use crate::steps::Failure;
use policy::POLICIES;
use simulation::{Figures, Parameters, simulate};

/// The simulation of the document.
const DOCUMENTED: Parameters = Parameters {
    servers: 1_000,
    objects: 1_000_000,
    directories: 20_000,
    skew: 0.9,
    cached_max: 500,
    warm_up: 3_000_000,
    requests: 4_000_000,
    hit_ticks: 5_000,
    miss_ticks: 50_000,
    churn: None,
    seed: 1,
};

/// A server leaves every so many requests, and returns with an empty cache after so many.
const CHURN: (u64, u64) = (10_000, 50_000);

/// Results of one policy.
struct Row {
    name: &'static str,
    steady: Figures,
    churning: Figures,
}

/// Simulates all policies, prints their table, and writes it to the document beside the plot.
///
/// # Errors
/// A file that cannot be read or written.
pub(crate) fn run() -> Result<(), Failure> {
    let rows = simulate_all()?;
    let table = report::table(&rows);
    print!("{table}");
    let page = root().join("docs/fleet.md");
    let problem = |error| Failure(format!("{}: {error}", page.display()));
    let text = fs::read_to_string(&page).map_err(problem)?;
    let text = report::with_table(&text, &table)
        .ok_or_else(|| Failure(format!("{}: no place for the table", page.display())))?;
    fs::write(&page, text).map_err(problem)?;
    let plot = root().join("docs/plots/fleet.svg");
    fs::write(&plot, report::plot(&rows))
        .map_err(|error| Failure(format!("{}: {error}", plot.display())))
}

/// Runs all policies, each with and without churn, on all processors.
fn simulate_all() -> Result<Vec<Row>, Failure> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, kind)) = POLICIES.get(number / 2) else { return done };
            let churn = (number % 2 == 1).then_some(CHURN);
            done.push((number, simulate(*kind, &Parameters { churn, ..DOCUMENTED })));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut done = thread::scope(|scope| {
        let begun: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = begun.into_iter().map(|thread| thread.join().unwrap_or_default());
        ended.flatten().collect::<Vec<(usize, Figures)>>()
    });
    done.sort_by_key(|(number, _)| *number);
    if done.len() != 2 * POLICIES.len() {
        return Err(Failure("a simulation panicked".to_owned()));
    }
    let pairs = POLICIES.iter().zip(done.chunks_exact(2));
    Ok(pairs
        .map(|((name, _), pair)| Row { name, steady: pair[0].1, churning: pair[1].1 })
        .collect())
}
