//! What went wrong between a client and an upstream, and telling the operator whose fault it is.

use http::StatusCode;

use super::asked::path_of;
use super::duplex::Broken;
use crate::h1::request::Request;
use crate::handler::proxy::{Errand, Fault};

/// Why there is no response's head.
pub(super) enum Failed {
    /// The upstreams' fault; the client is told as little as this.
    Status(StatusCode),
    /// The client's.
    Broken(Broken),
}

/// What one upstream came to.
pub(super) enum Told {
    Fault(Fault),
    Broken(Broken),
}

impl From<Fault> for Told {
    fn from(fault: Fault) -> Told {
        Told::Fault(fault)
    }
}

impl From<Broken> for Told {
    fn from(broken: Broken) -> Told {
        Told::Broken(broken)
    }
}

/// Says whose fault it is, to the operator: the client is told a status.
pub(super) fn tell(errand: &Errand, what: &str, why: &dyn std::fmt::Display, status: StatusCode) {
    tracing::error!("upstream {}: {why} ({what}: {})", errand.whom(), status.as_u16());
}

/// A request as the log names it.
pub(super) fn named(request: &Request<'_>) -> String {
    let method = String::from_utf8_lossy(request.method.as_bytes());
    // The query may hold what is nobody's business.
    let path = path_of(&request.target).map_or(b"*".as_slice(), |(path, _)| path);
    format!("{method} {}", String::from_utf8_lossy(path))
}
