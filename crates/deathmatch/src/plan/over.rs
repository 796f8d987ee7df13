//! A plan's keys on the connections that carry the requests.

use serde::Deserialize;

use super::{Shape, Work};
use crate::sample::{ConnectionUse, Offered};

/// Largest number of simultaneous requests on one connection; a server may allow no more (RFC 9113,
/// 6.5.2).
const STREAMS_MAX: u32 = 100;

/// For connections that are made anew for each request.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Handshakes {
    Full,
    Resumed,
}

/// Special use of connections; an error if the offered load does not fit.
pub(super) fn over(
    handshakes: Option<Handshakes>,
    streams: Option<u32>,
    works: &[Work],
) -> Result<Option<ConnectionUse>, String> {
    let over = match (handshakes, streams) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err("write handshakes or streams, not both".to_owned()),
        (Some(Handshakes::Full), None) => ConnectionUse::Anew { resumed: false },
        (Some(Handshakes::Resumed), None) => ConnectionUse::Anew { resumed: true },
        (None, Some(streams)) if (1..=STREAMS_MAX).contains(&streams) => {
            ConnectionUse::Streams(streams)
        }
        (None, Some(_)) => return Err(format!("streams: write 1 to {STREAMS_MAX}")),
    };
    let fits = |work: &Work| match (over, work.shape) {
        (_, Shape::Steady(Offered::Closed { .. })) => true,
        (ConnectionUse::Anew { .. }, Shape::Steady(Offered::Sessions { calls, .. })) => calls == 1,
        (ConnectionUse::Streams(_), Shape::Steady(Offered::Open { .. })) => true,
        _ => false,
    };
    match (works.iter().all(fits), over) {
        (true, _) => Ok(Some(over)),
        (false, ConnectionUse::Anew { .. }) => {
            Err("handshakes: write closed, or sessions of 1 call".to_owned())
        }
        (false, ConnectionUse::Streams(_)) => Err("streams: write open or closed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{BUILT_IN, Plan};

    #[test]
    fn connections_that_make_no_sense_are_refused() {
        let text = |name: &str| BUILT_IN.iter().find(|(n, _)| *n == name).unwrap().1;
        for (plan, from, to, message, why) in [
            ("tls", "\"full\"", "\"none\"", "unknown variant", "no such handshake"),
            ("tls", "calls = 1", "calls = 2", "sessions of 1 call", "two requests a handshake"),
            (
                "tls",
                "closed = { connections = [50] }",
                "open = { requests = [1], connections = 1 }",
                "sessions of 1 call",
                "kept connections",
            ),
            ("h2", "streams = 1\n", "streams = 0\n", "write 1 to 100", "nothing at once"),
            ("h2", "streams = 100", "streams = 101", "write 1 to 100", "more than allowed"),
            ("h2", "streams = 1\n", "streams = 1\nhandshakes = \"full\"\n", "not both", "both"),
            (
                "h2",
                "closed = { connections = [100] }",
                "upward = { from = 1, connections = 1 }",
                "open or closed",
                "a search",
            ),
        ] {
            let changed = text(plan).replacen(from, to, 1);
            assert_ne!(changed, text(plan), "{why}: nothing was replaced");
            let error = Plan::read(&changed).expect_err(why);
            assert!(error.0.contains(message), "{why}: {error}");
        }
        for name in ["tls", "h2"] {
            let plan = Plan::built_in(name).unwrap();
            let with_twin = plan.duration(plan.contenders.len() + 1);
            assert!(with_twin.as_secs() < 20 * 60, "{name}: {with_twin:?}");
            assert!(plan.needs_tls() && plan.needs_http2() == (name == "h2"), "{name}");
        }
    }
}
