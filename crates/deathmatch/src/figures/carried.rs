//! The rate that a server carried in an open loop.

use super::Offer;
use crate::sample::Load;

/// Smallest mean wait for a connection, as a share of the mean response time, that is named.
const WAIT_SHARE_MIN: f64 = 0.10;

/// Share of the responses whose longest time stands for that of the slowest. The others are as
/// many as those whose time stands for that of the fastest.
const SLOWEST: f64 = 0.99;

/// Responses a second in the whole seconds of an open loop: those after its end came late. Unless
/// requests waited for a connection, the time that responses take is left out at the begin: that
/// of the slowest, or of the fastest where a backlog makes the slowest last for most of the time.
pub(super) fn carried(offered: &Offer, load: &Load) -> Option<f64> {
    // Requests that failed have no response times that could tell of a backlog.
    if !has_waited(load) && load.errors.total() > 0 {
        return None;
    }
    let by_number = offered.requests_max.zip(offered.rate).map(|(most, rate)| most as f64 / rate);
    let time = offered.seconds_max.unwrap_or(f64::INFINITY).min(by_number.unwrap_or(f64::INFINITY));
    let whole = (time as usize).min(load.replies_per_second.len());
    let seconds = |share| (load.response.quantile(share) as f64 / 1e9).ceil() as usize;
    let (fastest, slowest) = (seconds(1.0 - SLOWEST), seconds(SLOWEST));
    let first = match has_waited(load) {
        true => 0,
        false if slowest <= whole / 2 => slowest,
        false => fastest,
    };
    let counted =
        load.replies_per_second.get(first..whole).filter(|seconds| !seconds.is_empty())?;
    Some(counted.iter().sum::<u64>() as f64 / counted.len() as f64)
}

/// `true` if requests waited for a connection. Otherwise fewer responses than requests end in an
/// open loop because each takes its time, which a short load shows.
pub(super) fn has_waited(load: &Load) -> bool {
    let response_s = load.response.mean() / 1e9 * load.response.count() as f64;
    load.waited_s > WAIT_SHARE_MIN * response_s
}
