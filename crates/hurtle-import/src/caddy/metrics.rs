//! A site that has nothing but `metrics`: a listener of hurtle's own for Prometheus.

use super::address;
use super::global::Global;
use super::sites::{self, listeners};
use crate::report::Report;
use crate::syntax::Directive;

/// The path of hurtle's metrics.
const PATH: &str = "/metrics";

/// Returns the addresses of a site that only has metrics, on a port in clear for all names; `None`:
/// it is another one.
pub(super) fn listener(d: &Directive, global: &Global, report: &mut Report) -> Option<Vec<String>> {
    let is_handler = |line: &&Directive| !matches!(line.name.as_str(), "bind" | "log" | "encode");
    let mut handlers = d.children().iter().filter(is_handler);
    let metrics = handlers.next().filter(|line| line.name == "metrics")?;
    let is_plain = matches!(metrics.args.as_slice(), [] | [_]) && metrics.block.is_none();
    let path = metrics.args.first().filter(|path| *path != "*");
    if handlers.next().is_some() || !is_plain || path.is_some_and(|path| path != PATH) {
        return None;
    }
    // Problems of its addresses are those of a site.
    let addresses = address::of(d, global, &mut Report::default());
    if !addresses.iter().all(|address| address.host.is_empty() && !address.is_tls) {
        return None;
    }
    let interfaces = sites::interfaces(d, global);
    let unknown = match path {
        Some(_) => "an empty 200",
        None => "the metrics",
    };
    let text = format!(
        "GET {PATH} has hurtle's metrics, whose names are not Caddy's; GET /ready and /live are for health \
         checks, and any other path is 404, in Caddy {unknown}"
    );
    report.remark(metrics, &text);
    Some(addresses.iter().flat_map(|address| listeners(&interfaces, &address.port)).collect())
}
