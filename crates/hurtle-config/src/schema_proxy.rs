//! The schema of a proxy's upstreams: their servers and their ejection.

use super::bounds::CONCURRENCY_MAX;
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Flag, Integer, Text};
use super::schema::{Key, Section};

/// Highest weight of an upstream.
const WEIGHT_MAX: u64 = 1_000;

#[rustfmt::skip] // One paragraph for each key.
pub(super) static UPSTREAM: Section = Section {
    header: "[[site.mount.proxy]]",
    doc: "An upstream with settings of its own. In the list of `proxy` such tables stand beside URLs: \
          `proxy = [\"http://10.0.0.1:80\", { url = \"http://10.0.0.2:80\", weight = 3 }]`.",
    keys: &[&[
        Key::new("url", Text("a URL, or `unix:` and a path"), Required, "\"http://10.0.0.2:80\"",
            "Its address, as in `proxy`."),
        Key::new("weight", Integer(1, WEIGHT_MAX), Toml("1"), "3",
            "Its share of the requests (or of the clients, paths and values that are hashed), \
             relative to the weights of the others."),
        Key::new("backup", Flag, Toml("false"), "true",
            "Use it only while none of the others is available."),
        Key::new("max_connections", Integer(1, CONCURRENCY_MAX), Words("unlimited"), "20",
            "Most requests to it at once, over all workers and all \
             mounts that give it this limit. Idle connections and health checks do not count. More requests \
             go to other upstreams or wait, see `upstream_queue`."),
    ]],
};
