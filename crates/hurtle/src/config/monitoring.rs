//! `[metrics]`: listeners that serve the counters of the server.

use serde::Serialize;

use super::check::addresses;
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::Required;
use super::schema::Kind::List;
use super::schema::{Key, Section};
use super::table::Table;
use super::types::Listen;

/// Listeners for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// Addresses that serve `GET /metrics` and nothing else.
    #[serde(serialize_with = "print::texts")]
    pub listen: Vec<Listen>,
}

#[rustfmt::skip] // One paragraph for each key.
pub(super) static METRICS: Section = Section {
    header: "[metrics]",
    doc: "Listeners for a monitoring system, see monitoring.md. The metrics are on the `admin` \
          socket too.",
    keys: &[
        Key::new("listen", List("addresses"), Required, "\"127.0.0.1:9100\"",
            "Addresses that serve `GET /metrics` in clear, and nothing else. The metrics name \
             sites, paths of mounts and upstreams, so use an address that only the monitoring \
             system reaches."),
    ],
};

/// Reads `[metrics]`.
pub(super) fn metrics(table: &Table<'_>, reader: &mut Reader<'_>) -> Metrics {
    let mut metrics = Metrics::default();
    table.set("listen", reader, addresses, &mut metrics.listen);
    metrics
}
