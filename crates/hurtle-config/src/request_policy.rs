//! Settings of requests that a site has, and each of its mounts in place of it.

use serde::Serialize;

use super::client_timeouts::ClientTimeouts;
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::value::Value;

/// Settings of requests; `None`: those of the site, or of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestPolicy {
    /// Largest request body for every handler, in bytes (413).
    #[serde(serialize_with = "print::optional_size")]
    pub body_bytes: Option<u64>,
    /// `false`: requests are not in the access log.
    pub access_log: Option<bool>,
    /// Timeouts of their clients.
    #[serde(flatten)]
    pub timeouts: ClientTimeouts,
}

/// Reads the settings of a site or a mount.
pub(super) fn request_policy(table: &Table<'_>, reader: &mut Reader<'_>) -> RequestPolicy {
    let timeouts = ClientTimeouts::read(table, reader);
    let mut policy = RequestPolicy { timeouts, ..RequestPolicy::default() };
    table.set("body_bytes", reader, |v, r| v.size(r).map(Some), &mut policy.body_bytes);
    table.set("access_log", reader, |v: &Value<'_>, r| v.flag(r).map(Some), &mut policy.access_log);
    policy
}
