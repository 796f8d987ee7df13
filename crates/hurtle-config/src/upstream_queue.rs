//! The requests that wait for an upstream with `max_connections`.

use std::time::Duration;

use super::bounds::{CONCURRENCY_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::error::ValueError;
use super::print;
use super::rate_limit::Concurrency;
use super::reader::Reader;
use super::schema::Kind::{Integer, Time};
use super::schema_mount::PROXY;
use super::settings::settings;
use super::table::Table;
use super::units::duration_text;
use super::upstream_server::UpstreamServer;

settings! {
    /// The queue of each upstream server of a mount that has a limit.
    pub struct UpstreamQueue: UPSTREAM_QUEUE with PROXY {
        /// Requests that may wait for each upstream with `max_connections`, first come, first
        /// served; more get 503.
        max ("upstream_queue"): u64 = 100, Integer(0, CONCURRENCY_MAX), "1000";
        /// Longest wait for such an upstream (503).
        #[serde(serialize_with = "print::duration")]
        timeout ("upstream_queue_timeout"): Duration = Duration::from_secs(5), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"30s\"";
    }
}

impl UpstreamQueue {
    /// The limit of a server with its queue; `None`: the server has no limit.
    pub fn limit(&self, server: &UpstreamServer) -> Option<Concurrency> {
        let (queue, queue_timeout) = (self.max, self.timeout);
        server.max_connections.map(|max| Concurrency { max, queue, queue_timeout })
    }

    /// Describes the queue in one line.
    pub fn describe(&self) -> String {
        match self.max {
            0 => "none: requests to busy upstreams get 503".to_owned(),
            max => {
                let wait = duration_text(self.timeout);
                format!("{max} requests wait for each busy upstream, for at most {wait}, else 503")
            }
        }
    }
}

/// Reads the queue of a mount with these upstreams.
pub(super) fn upstream_queue(
    table: &Table<'_>,
    upstreams: &[UpstreamServer],
    reader: &mut Reader<'_>,
) -> Option<UpstreamQueue> {
    let queue = UpstreamQueue::read(table, reader);
    if upstreams.iter().any(|server| server.max_connections.is_some()) {
        return Some(queue);
    }
    let keys = ["upstream_queue", "upstream_queue_timeout"];
    for written in
        keys.into_iter().filter_map(|key| table.get(key)).filter(|_| !upstreams.is_empty())
    {
        let wrong = ValueError::new("no upstream has max_connections");
        let hint = "remove it, or write { url = \"http://10.0.0.2:80\", max_connections = 20 }";
        written.report(reader, wrong.hint(hint));
    }
    None
}
