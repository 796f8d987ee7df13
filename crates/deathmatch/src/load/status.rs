//! The outcome that a response states: HTTP's status, or that of gRPC.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first status of HTTP that counts as a failure.
const FAILED_HTTP: u16 = 400;

/// Names of gRPC's statuses, from 0 (gRPC, `statuscodes.md`).
const GRPC: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Text before a number of gRPC.
const GRPC_PREFIX: &str = "gRPC ";

/// Status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// That of HTTP, from 100 to 999 (RFC 9110, section 15).
    Http(u16),
    /// That of gRPC: 0 to 16, or a number that gRPC does not define.
    Grpc(u16),
}

impl Status {
    /// `true` if the request has failed: from 400 on, and for gRPC if it is not OK.
    pub fn is_failure(self) -> bool {
        match self {
            Status::Http(status) => status >= FAILED_HTTP,
            Status::Grpc(status) => status != 0,
        }
    }

    /// `true` for a redirect (RFC 9110, section 15.4).
    pub fn is_redirect(self) -> bool {
        matches!(self, Status::Http(301 | 302 | 303 | 307 | 308))
    }

    /// The status of a gRPC response. One that does not state it, such as a proxy's error, has the
    /// status that gRPC gives its HTTP status (gRPC, `http-grpc-status-mapping.md`).
    pub(super) fn of_grpc(stated: Option<u16>, http: u16) -> Status {
        let by_http = || match http {
            400 => 13,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502..=504 => 14,
            _ => 2,
        };
        Status::Grpc(stated.unwrap_or_else(by_http))
    }
}

/// As in `404`, or `gRPC 14 UNAVAILABLE`.
impl fmt::Display for Status {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Http(status) => status.fmt(to),
            Status::Grpc(status) => match GRPC.get(usize::from(*status)) {
                Some(name) => write!(to, "{GRPC_PREFIX}{status} {name}"),
                None => write!(to, "{GRPC_PREFIX}{status}"),
            },
        }
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Status, String> {
        let bad = || format!("{text:?} is no status such as 200 or \"gRPC 0 OK\"");
        match text.strip_prefix(GRPC_PREFIX) {
            Some(rest) => {
                let number = rest.split(' ').next().and_then(|number| number.parse().ok());
                number.map(Status::Grpc).ok_or_else(bad)
            }
            None => text.parse().map(Status::Http).map_err(|_| bad()),
        }
    }
}

/// As text, because a JSON object's keys are.
impl Serialize for Status {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Status, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_is_written() {
        for (status, text, is_failure) in [
            (Status::Http(200), "200", false),
            (Status::Http(399), "399", false),
            (Status::Http(400), "400", true),
            (Status::Grpc(0), "gRPC 0 OK", false),
            (Status::Grpc(14), "gRPC 14 UNAVAILABLE", true),
            (Status::Grpc(99), "gRPC 99", true),
        ] {
            assert_eq!(status.to_string(), text);
            assert_eq!(text.parse(), Ok(status));
            assert_eq!(status.is_failure(), is_failure, "{text}");
            let json = serde_json::to_string(&status).unwrap();
            assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status, "{json}");
        }
        for text in ["", "x", "gRPC", "gRPC x", "-1"] {
            assert!(text.parse::<Status>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_response_without_a_grpc_status_has_that_of_its_http_status() {
        for (stated, http, grpc) in
            [(Some(5), 200, 5), (Some(0), 503, 0), (None, 200, 2), (None, 502, 14), (None, 404, 12)]
        {
            assert_eq!(Status::of_grpc(stated, http), Status::Grpc(grpc), "{stated:?} {http}");
        }
    }
}
