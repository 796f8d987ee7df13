//! Carries packets between two TUN devices, with loss and delay. A packet is an IP packet of at
//! most `MTU` bytes, whatever the protocol, as on a network: the kernels' TCP sees the same losses
//! as QUIC.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::{Duration, Instant, sleep_until};
use tokio_tun::Tun;

use super::MTU;
use crate::random::SplitMix;
use crate::sample::Network;

/// Packets under way in one direction; further ones are lost. At a delay of 100 ms that is 1.5
/// GB/s.
const FLYING_MAX: usize = 100_000;

/// Seeds of the two directions differ by this.
const OTHER_DIRECTION: u64 = 0x6c6f_7373;

/// Counts of a relay, in both directions.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) packets: AtomicU64,
    pub(super) lost: AtomicU64,
    /// Processor time of the relay's thread, in nanoseconds.
    pub(super) cpu_ns: AtomicU64,
}

/// Carries packets in both directions until `stop` is done.
///
/// # Errors
/// A device is gone.
pub(super) async fn relay(
    [one, other]: [&Tun; 2],
    network: Network,
    seed: u64,
    counts: &Counts,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let there = carry(one, other, network, SplitMix(seed), counts);
    let back = carry(other, one, network, SplitMix(seed ^ OTHER_DIRECTION), counts);
    tokio::select! {
        ended = there => ended,
        ended = back => ended,
        () = stop => Ok(()),
    }
}

async fn carry(
    from: &Tun,
    to: &Tun,
    network: Network,
    mut random: SplitMix,
    counts: &Counts,
) -> io::Result<()> {
    let delay = Duration::from_millis(u64::from(network.delay_ms));
    let mut flying: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut packet = [0; MTU as usize];
    loop {
        let due = flying.front().map(|(due, _)| *due);
        tokio::select! {
            bytes = from.recv(&mut packet) => {
                let bytes = bytes?;
                counts.packets.fetch_add(1, Ordering::Relaxed);
                if random.unit() < network.loss || flying.len() >= FLYING_MAX {
                    counts.lost.fetch_add(1, Ordering::Relaxed);
                } else {
                    flying.push_back((Instant::now() + delay, packet[..bytes].to_vec()));
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let now = Instant::now();
                while let Some((_, packet)) = flying.pop_front_if(|(due, _)| *due <= now) {
                    // A device that takes no more loses packets, as a full queue does.
                    let _ = to.try_send(&packet);
                }
            }
        }
        counts.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
    }
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanoseconds
}
