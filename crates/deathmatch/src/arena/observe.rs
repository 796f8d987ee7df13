//! Observes a server and the machine while load is generated.

use std::io;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::entrant::Server;
use crate::machine::Snapshot;
use crate::network::LossyLink;
use crate::sample::{Load, MachineUse, Mark, ServerUse};

/// Share of the machine that other programs may use before a sample is marked.
const FOREIGN_MAX: f64 = 0.01;

/// Load, and use of the server and the machine meanwhile.
pub(super) struct Observed {
    pub(super) began_unix_s: f64,
    pub(super) load: Load,
    /// `None` if it runs on another machine.
    pub(super) server: Option<ServerUse>,
    /// `None` if the server runs on another machine.
    pub(super) machine: Option<MachineUse>,
    /// The server at the end; `None` likewise.
    pub(super) end: Option<Snapshot>,
}

/// Observes the server while `generate` runs, on a generator that never sleeps, over this network.
pub(super) fn observe(
    server: &Server,
    link: Option<&LossyLink>,
    generate: impl FnOnce() -> io::Result<Load>,
) -> io::Result<Observed> {
    let began_unix_s =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    let upstream = Snapshot::take(&server.upstream_pids());
    let before = server.pids().map(|pids| Snapshot::take_resetting_peaks(&pids));
    let relay_s = || link.map_or(0.0, |link| link.counts().cpu_s);
    let relayed_s = relay_s();
    let begun = Instant::now();
    let load = generate()?;
    // The generator spins, so it used its processor for all of that time.
    let generator_cpu_s = begun.elapsed().as_secs_f64();
    let end = server.pids().map(|pids| Snapshot::take(&pids));
    let upstream_cpu_s = upstream.until(&Snapshot::take(&server.upstream_pids()), 0.0).0.cpu_s;
    let known_cpu_s = generator_cpu_s + upstream_cpu_s + (relay_s() - relayed_s);
    let uses = before.zip(end.as_ref()).map(|(then, now)| then.until(now, known_cpu_s));
    let (server, machine) = uses.unzip();
    let machine = machine.map(|machine| MachineUse { upstream_cpu_s, ..machine });
    Ok(Observed { began_unix_s, load, server, machine, end })
}

/// The mark of a sample beside which other programs used the machine.
pub(super) fn foreign_mark(machine: Option<&MachineUse>) -> Option<Mark> {
    machine.is_some_and(|m| m.foreign > FOREIGN_MAX).then_some(Mark::ForeignCpu)
}
