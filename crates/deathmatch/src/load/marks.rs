//! Marks of a sample that must not be ranked, as far as the generator's own figures show it.

use super::Job;
use crate::sample::{ConnectionUse, Handshakes, Load, Mark, Offered};

/// Largest lateness as a share of the response time, both as 99th percentiles.
const LATENESS_SHARE_MAX: f64 = 0.10;

/// Largest share of the time that the generator may work.
const BUSY_SHARE_MAX: f64 = 0.95;

/// Largest difference of connections from throughput times response time, as a share.
const LITTLE_SHARE_MAX: f64 = 0.05;

/// Smallest share of the streams' offered rate that must be moved.
const STREAMS_SHARE_MIN: f64 = 0.95;

/// Marks that follow from a load's own figures.
pub fn marks(job: &Job, load: &Load) -> Vec<Mark> {
    let rows = [
        (Mark::GeneratorLate, is_late(load)),
        (Mark::GeneratorBusy, is_busy(job, load)),
        (Mark::StreamsSlow, are_streams_slow(job, load)),
        (Mark::LittlesLaw, breaks_littles_law(job, load)),
        (Mark::WrongBytes, load.errors.bytes > 0),
        (Mark::OtherHandshakes, has_other_handshakes(job, load)),
    ];
    rows.into_iter().filter(|(_, earned)| *earned).map(|(mark, _)| mark).collect()
}

fn is_late(load: &Load) -> bool {
    let (late, response) = (load.lateness.quantile(0.99), load.response.quantile(0.99));
    load.lateness.count() > 0 && late as f64 > LATENESS_SHARE_MAX * response as f64
}

/// Streams without a rate or an end use all free time, also that of requests.
fn is_busy(job: &Job, load: &Load) -> bool {
    let endless =
        job.beside.as_ref().is_some_and(|bulk| bulk.rate.is_none() && bulk.once.is_empty());
    endless || load.busy_s > BUSY_SHARE_MAX * load.offering_s()
}

/// A server that lets the streams starve has less work with the requests.
fn are_streams_slow(job: &Job, load: &Load) -> bool {
    let rate = job.beside.as_ref().and_then(|bulk| bulk.rate);
    rate.zip(load.bulk.as_ref()).is_some_and(|(rate, bulk)| {
        let moved = (bulk.down_bytes + bulk.up_bytes) as f64;
        moved < STREAMS_SHARE_MIN * rate * load.seconds
    })
}

/// `true` if handshakes are measured and one was of the other kind.
fn has_other_handshakes(job: &Job, load: &Load) -> bool {
    let Handshakes { full, resumed } = load.handshakes;
    match job.over {
        Some(ConnectionUse::Anew { resumed: true }) if job.tls.is_some() => full > 0,
        Some(
            ConnectionUse::Anew { resumed: false }
            | ConnectionUse::Http3Anew
            | ConnectionUse::Page { .. },
        ) => resumed > 0,
        _ => false,
    }
}

/// N = X R: in a closed loop every connection, or stream, always has a request (Little, A proof for
/// the queuing formula L = lambda W, Operations Research 9(3), 1961). While a slice waits for its
/// last responses, a connection has a request or none. Errors break it too: their time is in no
/// response time.
fn breaks_littles_law(job: &Job, load: &Load) -> bool {
    let Offered::Closed { connections } = job.offered else { return false };
    let streams = match job.over {
        Some(
            ConnectionUse::Streams(streams)
            | ConnectionUse::Http3(streams)
            | ConnectionUse::Grpc(streams),
        ) => streams,
        Some(ConnectionUse::Anew { .. } | ConnectionUse::Http3Anew | ConnectionUse::WebSocket)
        | None => 1,
        // Pages outlast the sample's end; herds wait for their slowest connection.
        Some(ConnectionUse::Page { .. } | ConnectionUse::Visits { .. } | ConnectionUse::Herd) => {
            return false;
        }
    };
    let places = f64::from(connections) * f64::from(streams);
    let busy_s = load.replies as f64 * load.response.mean() / 1e9;
    let least = places * (load.seconds - load.draining_s) * (1.0 - LITTLE_SHARE_MAX);
    let most = places * load.seconds * (1.0 + LITTLE_SHARE_MAX);
    // Without a reply the mean is no number.
    !(least..=most).contains(&busy_s)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::load::{ANY_STATUS, Client, Expected};

    #[test]
    fn every_stream_of_a_closed_loop_has_a_request() {
        let mut load = Load { seconds: 1.0, replies: 1_000, ..Load::default() };
        (0..load.replies).for_each(|_| load.response.record(20_000_000));
        for (over, connections, fits) in [
            (None, 20, true),
            (Some(ConnectionUse::Streams(10)), 2, true),
            (Some(ConnectionUse::Http3(10)), 2, true),
            (Some(ConnectionUse::Http3Anew), 20, true),
            (Some(ConnectionUse::Http3(10)), 20, false),
        ] {
            let is_marked = marks(&job(connections, over), &load).contains(&Mark::LittlesLaw);
            assert_eq!(is_marked, !fits, "{over:?}, {connections} connections");
        }
    }

    #[test]
    fn work_is_compared_with_the_time_in_which_requests_begin() {
        // (seconds of a slice, of its end without new requests, and of work; whether it is a limit)
        for (seconds, draining_s, busy_s, is_limit) in
            [(0.25, 0.0, 0.24, true), (0.5, 0.25, 0.24, true), (0.5, 0.25, 0.23, false)]
        {
            let load = Load { seconds, draining_s, busy_s, ..Load::default() };
            let is_marked = marks(&job(1, None), &load).contains(&Mark::GeneratorBusy);
            assert_eq!(is_marked, is_limit, "{busy_s} s of {seconds} s without {draining_s} s");
        }
    }

    fn job(connections: u32, over: Option<ConnectionUse>) -> Job {
        Job {
            target: ([127, 0, 0, 1], 1).into(),
            client: Client::default(),
            requests: Vec::new(),
            bodies: Vec::new(),
            order: Vec::new(),
            expected: Expected { status: ANY_STATUS, body_bytes: 0, body: None },
            offered: Offered::Closed { connections },
            tls: None,
            over,
            beside: None,
            draw: 0,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            stop: Arc::default(),
        }
    }
}
