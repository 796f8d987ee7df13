//! A plan's keys on the connections that carry the requests.

use serde::Deserialize;

use super::{Shape, Work, WorkToml};
use crate::sample::{self, ConnectionUse, Offered};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Version {
    #[serde(rename = "h1")]
    Http1,
    #[serde(rename = "h2")]
    Http2,
    #[serde(rename = "h3")]
    Http3,
}

/// A page of several files, on a connection of its own.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageToml {
    files: u32,
}

/// Special use of connections; an error if the offered load does not fit.
pub(super) fn over(work: &WorkToml, works: &[Work]) -> Result<Option<ConnectionUse>, String> {
    let WorkToml { over: version, handshakes, streams, .. } = *work;
    if work.page.is_some() || work.herd {
        return page_or_herd(work, works).map(Some);
    }
    if streams.is_some_and(|streams| !(1..=STREAMS_MAX).contains(&streams)) {
        return Err(format!("streams: write 1 to {STREAMS_MAX}"));
    }
    let over = match (version, handshakes, streams) {
        (None, None, None) => return Ok(None),
        (Some(Version::Http1 | Version::Http2), ..) => {
            return Err("over: without a page write h3, or streams for HTTP/2".to_owned());
        }
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
        (false, _) => Err("streams: write open or closed".to_owned()),
    }
}

fn page_or_herd(work: &WorkToml, works: &[Work]) -> Result<ConnectionUse, String> {
    let is_closed = |work: &Work| matches!(work.shape, Shape::Steady(Offered::Closed { .. }));
    if !works.iter().all(is_closed) {
        return Err("page, herd: write closed".to_owned());
    }
    if work.handshakes.is_some() || work.streams.is_some() || work.beside.is_some() {
        return Err("page, herd: write neither handshakes, streams nor beside".to_owned());
    }
    let version = match (work.page, work.herd, work.over) {
        (None, true, None) => return Ok(ConnectionUse::Herd),
        (None, true, Some(_)) => return Err("herd: it is in clear text, without over".to_owned()),
        (_, true, _) => return Err("write page or herd, not both".to_owned()),
        (.., None) => return Err("page: write over, as h1, h2 or h3".to_owned()),
        (.., Some(Version::Http1)) => sample::Version::Http1,
        (.., Some(Version::Http2)) => sample::Version::Http2,
        (.., Some(Version::Http3)) => sample::Version::Http3,
    };
    let files = work.page.map_or(0, |page| page.files);
    if !(1..=STREAMS_MAX).contains(&files) {
        return Err(format!("page: files: write 1 to {STREAMS_MAX}"));
    }
    Ok(ConnectionUse::Page { version, files })
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
            ("h3", "over = \"h3\"", "over = \"h2\"", "without a page", "another key says it"),
            ("loss", "over = \"h3\"\n", "", "page: write over", "no version"),
            ("loss", "files = 20 }", "files = 0 }", "write 1 to 100", "an empty page"),
            ("loss", "page = {", "streams = 2\npage = {", "neither handshakes", "streams"),
            ("loss", "loss = 0.01", "loss = 0.6", "loss: write 0 to 0.5", "little arrives"),
            ("loss", "delay_ms = 20", "delay_ms = 2001", "delay_ms: write", "too late"),
            ("herd", "herd = true", "herd = true\nover = \"h3\"", "in clear text", "encrypted"),
            (
                "herd",
                "closed = { connections = [50, 200] }",
                "open = { requests = [1], connections = 1 }",
                "write closed",
                "at a rate",
            ),
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
            assert!(with_twin.as_secs() < 30 * 60, "{name}: {with_twin:?}");
            assert!(plan.needs_tls() && plan.needs_http2() == (name != "tls"), "{name}");
            assert_eq!(plan.needs_http3(), name == "h3", "{name}");
        }
    }
}
