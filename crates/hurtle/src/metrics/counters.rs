//! Groups of counters that each worker has, each declared once: its name, type, unit and
//! description. `counters!` makes of such a list the counters of a worker, the sums of a snapshot,
//! and the metrics.

use super::exposition::Family;
use super::snapshot::Snapshot;

/// Declares the counters of a worker, the sums in a snapshot and the metrics of a group. `by` finds
/// the sums in a snapshot.
macro_rules! counters {
    ($(#[doc = $about:literal])+
     pub struct $counters:ident => $sums:ident, $families:ident by $of:expr; {$(
        $(#[doc = $help:literal])+
        $field:ident: $kind:ident $name:literal $unit:literal;
    )*}) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub struct $counters {$(
            $(#[doc = $help])+
            pub $field: $crate::metrics::Counter,
        )*}

        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $sums {$(
            $(#[doc = $help])+
            pub $field: u64,
        )*}

        impl $sums {
            /// Adds the counts of a worker.
            pub(super) fn add(&mut self, counts: &$counters) {
                // A gauge may be read before the other side of a change.
                $(self.$field = self.$field.wrapping_add(counts.$field.get());)*
            }
        }

        pub(super) static $families: &[Family] = &[$(
            Family {
                name: $name,
                kind: $crate::metrics::exposition::Kind::$kind,
                unit: $unit,
                labels: &[],
                help: without_space(concat!($($help),+)),
                write: |out, s| {
                    let of: fn(&Snapshot) -> &$sums = $of;
                    out.put(&[], of(s).$field);
                },
            },
        )*];
    };
}

/// Removes the space with which the text of a comment begins.
const fn without_space(comment: &'static str) -> &'static str {
    match comment.as_bytes() {
        [b' ', ..] => comment.split_at(1).1,
        _ => comment,
    }
}

counters! {
    /// The file caches.
    pub struct FileCacheCounters => FileCacheSnapshot, FILE_CACHE by |s| &s.file_cache; {
        /// Requests that were answered from the file cache.
        hits: Counter "hurtle_file_cache_hits" "";
        /// Look-ups of files on disk.
        misses: Counter "hurtle_file_cache_misses" "";
        /// Files that were evicted from the file cache.
        evictions: Counter "hurtle_file_cache_evictions" "";
        /// Files in the file cache.
        entries: Gauge "hurtle_file_cache_entries" "";
        /// Memory of the file cache.
        bytes: Gauge "hurtle_file_cache_bytes" "bytes";
        /// Open descriptors of the file cache.
        descriptors: Gauge "hurtle_file_cache_descriptors" "";
    }
}

counters! {
    /// The store that several servers share.
    pub struct StoreCounters => StoreSums, STORE by |s| &s.store.sums; {
        /// Workers that are connected to the store that several servers share.
        connected: Gauge "hurtle_store_connected_workers" "";
        /// Decisions of the store that came too late.
        late: Counter "hurtle_store_late_decisions" "";
        /// Connections to the store that have ended or could not be made.
        failures: Counter "hurtle_store_failures" "";
        /// Requests whose shared rate limits this server decided alone.
        local_decisions: Counter "hurtle_store_local_decisions" "";
        /// 1 if this server follows the purges of the servers that share the store.
        purges_subscribed: Gauge "hurtle_store_purges_subscribed" "";
        /// Purges that the store has for the other servers.
        purges_sent: Counter "hurtle_store_purges_sent" "";
        /// Purges that the store has not confirmed: other servers may not know them.
        purges_failed: Counter "hurtle_store_purges_failed" "";
        /// Purges of other servers.
        purges_received: Counter "hurtle_store_purges_received" "";
        /// Times that the response caches were emptied, because purges may have been missed.
        purges_resets: Counter "hurtle_store_purges_resets" "";
    }
}
