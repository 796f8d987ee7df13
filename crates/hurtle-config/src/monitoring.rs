//! `[metrics]`: listeners that serve the counters of the server and its readiness.

use serde::Serialize;

use super::check::addresses;
use super::error::ValueError;
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::Required;
use super::schema::Kind::{Flag, List};
use super::schema::{Key, Section};
use super::settings::settings;
use super::table::Table;
use super::types::Listen;
use super::value::Value;

/// Listeners for metrics and health checks, apart from those of the sites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// Addresses that serve `GET /metrics`, `/ready` and `/live`, and nothing else.
    #[serde(serialize_with = "print::texts")]
    pub listen: Vec<Listen>,
}

settings! {
    /// IDs by which a request is found in the logs of several servers. Applications, upstreams,
    /// FastCGI and CGI get them as fields of the request, and the access log has them, see
    /// monitoring.md.
    #[derive(Copy)]
    pub struct Tracing: TRACING "[tracing]" {
        /// Give each request an X-Request-Id: the one that a trusted proxy sent, or 32 random
        /// hexadecimal digits.
        request_id: bool = false, Flag, "true";
        /// Begin a trace (W3C Trace Context) for each request without a valid `traceparent`. A
        /// valid one is passed on in any case.
        traceparent: bool = false, Flag, "true";
    }
}

impl Tracing {
    /// Returns whether requests get an ID.
    pub fn is_on(self) -> bool {
        self.request_id || self.traceparent
    }
}

#[rustfmt::skip] // One paragraph for each key.
pub(super) static METRICS: Section = Section {
    header: "[metrics]",
    doc: "Listeners for a monitoring system, see monitoring.md. The metrics are on the `admin` \
          socket too.",
    keys: &[&[
        Key::new("listen", List("addresses"), Required, "\"127.0.0.1:9100\"",
            "Addresses that serve `GET /metrics`, `/ready` and `/live` in clear, and nothing else. The \
             metrics name sites, paths of mounts and upstreams, so use an address that only the \
             monitoring system and load balancers reach."),
    ]],
};

pub(super) fn metrics(table: &Table<'_>, reader: &mut Reader<'_>) -> Metrics {
    let mut metrics = Metrics::default();
    let written = table.get("listen");
    if written.as_ref().is_none_or(Value::is_empty_list) {
        let wrong = ValueError::new("listen is missing");
        let hint = "write an address, for example listen = \"127.0.0.1:9100\"";
        reader.report_missing(&table.spot, wrong.hint(hint));
        return metrics;
    }
    table.set("listen", reader, addresses, &mut metrics.listen);
    metrics
}
