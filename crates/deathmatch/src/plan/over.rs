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

/// The version of HTTP, where it is not the usual one.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) enum Version {
    #[serde(rename = "h3")]
    Http3,
}

/// Special use of connections; an error if the offered load does not fit.
pub(super) fn over(
    version: Option<Version>,
    handshakes: Option<Handshakes>,
    streams: Option<u32>,
    works: &[Work],
) -> Result<Option<ConnectionUse>, String> {
    if streams.is_some_and(|streams| !(1..=STREAMS_MAX).contains(&streams)) {
        return Err(format!("streams: write 1 to {STREAMS_MAX}"));
    }
    let over = match (version, handshakes, streams) {
        (None, None, None) => return Ok(None),
        (_, Some(_), Some(_)) => return Err("write handshakes or streams, not both".to_owned()),
        (None, Some(Handshakes::Full), None) => ConnectionUse::Anew { resumed: false },
        (None, Some(Handshakes::Resumed), None) => ConnectionUse::Anew { resumed: true },
        (None, None, Some(streams)) => ConnectionUse::Streams(streams),
        (Some(Version::Http3), Some(Handshakes::Full), None) => ConnectionUse::Http3Anew,
        (Some(Version::Http3), Some(Handshakes::Resumed), None) => {
            return Err("handshakes: over h3 only full ones are made".to_owned());
        }
        (Some(Version::Http3), None, streams) => ConnectionUse::Http3(streams.unwrap_or(1)),
    };
    let fits = |work: &Work| match (over, work.shape) {
        (_, Shape::Steady(Offered::Closed { .. })) => true,
        (ConnectionUse::Anew { .. }, Shape::Steady(Offered::Sessions { calls, .. })) => calls == 1,
        (
            ConnectionUse::Streams(_) | ConnectionUse::Http3(_),
            Shape::Steady(Offered::Open { .. }),
        ) => true,
        _ => false,
    };
    match (works.iter().all(fits), over) {
        (true, _) => Ok(Some(over)),
        (false, ConnectionUse::Anew { .. }) => {
            Err("handshakes: write closed, or sessions of 1 call".to_owned())
        }
        (false, ConnectionUse::Http3Anew) => Err("handshakes: over h3 write closed".to_owned()),
        (false, ConnectionUse::Streams(_) | ConnectionUse::Http3(_)) => {
            Err("streams: write open or closed".to_owned())
        }
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
            ("h3", "over = \"h3\"", "over = \"h4\"", "unknown variant", "no such version"),
            (
                "h3",
                "handshakes = \"full\"",
                "handshakes = \"resumed\"",
                "only full ones",
                "resumption over QUIC",
            ),
            (
                "h3",
                "over = \"h3\"\nhandshakes = \"full\"\nclosed = { connections = [50] }",
                "over = \"h3\"\nhandshakes = \"full\"\nopen = { requests = [1], connections = 1 }",
                "write closed",
                "kept connections over QUIC",
            ),
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
        for name in ["tls", "h2", "h3"] {
            let plan = Plan::built_in(name).unwrap();
            let with_twin = plan.duration(plan.contenders.len() + 1);
            assert!(with_twin.as_secs() < 20 * 60, "{name}: {with_twin:?}");
            assert!(plan.needs_tls() && plan.needs_http2() == (name != "tls"), "{name}");
            assert_eq!(plan.needs_http3(), name == "h3", "{name}");
        }
    }
}
