//! The rate that a server carried in an open loop.

use super::{CARRIED_SHARE_MIN, Offer};
use crate::sample::Load;

/// Smallest mean wait for a connection, as a share of the mean response time, that is named.
const WAIT_SHARE_MIN: f64 = 0.10;

/// Share of the responses whose longest time stands for that of the slowest. The others are as
/// many as those whose time stands for that of the fastest.
const SLOWEST: f64 = 0.99;

/// Responses in whole seconds of an open loop.
pub(super) struct Carried {
    responses: u64,
    seconds: usize,
}

impl Carried {
    /// `true` if they are fewer than the requests of this rate in that time. At its ends one more
    /// or less may be due. `unanswered_per_s`: requests a second that failed without a wait.
    pub(super) fn is_behind(&self, rate: f64, unanswered_per_s: f64) -> bool {
        let seconds = self.seconds as f64;
        self.responses as f64 + unanswered_per_s * seconds
            < CARRIED_SHARE_MIN * (rate * seconds - 1.0)
    }
}

/// Responses in the whole seconds of an open loop: those after its end came late. Unless
/// requests waited for a connection, the time that responses take is left out at the begin: that
/// of the slowest, or of the fastest where a backlog makes the slowest last for most of the time.
pub(super) fn carried(offered: &Offer, load: &Load) -> Option<Carried> {
    // Requests that failed have no response times that could tell of a backlog.
    if !has_waited(load) && load.errors.total() > 0 {
        return None;
    }
    // The last request is the end of it.
    let by_number = offered.requests_max.zip(offered.rate);
    let by_number = by_number.map(|(most, rate)| most.saturating_sub(1) as f64 / rate);
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
    Some(Carried { responses: counted.iter().sum(), seconds: counted.len() })
}

/// `true` if requests waited for a connection. Otherwise fewer responses than requests end in an
/// open loop because each takes its time, which a short load shows.
pub(super) fn has_waited(load: &Load) -> bool {
    let response_s = load.response.mean() / 1e9 * load.response.count() as f64;
    load.waited_s > WAIT_SHARE_MIN * response_s
}
