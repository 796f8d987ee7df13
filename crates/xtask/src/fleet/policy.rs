//! The ways in which a balancer chooses a server.

use super::random::{Random, mix};

/// A way to choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Any server.
    Random,
    /// The server with the fewest requests in flight.
    LeastConnections,
    /// Hash of the path modulo the number of servers that are up (HAProxy's `hash-type map-based`).
    Modulo,
    /// A ring with this many points for each server.
    Ring { key: Key, points: u32, bound: Option<f64> },
}

/// Subject of the hash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key {
    /// The whole path: one object.
    Path,
    /// The path up to its last slash: all objects of a directory have one server.
    Directory,
}

/// HAProxy has 16 points for a server of weight 1, and 1,600 for one of weight 100.
const POINTS: u32 = 1_600;

/// Subjects of hashes. They keep the hash of a path from being that of a point.
const POINT: u64 = 1;
const PATH: u64 = 2;
const DIRECTORY: u64 = 3;

fn hash(subject: u64, number: u64) -> u64 {
    mix(mix(number.wrapping_add(subject)).wrapping_add(subject << 60))
}

/// The policies that are compared, with their names in the document.
pub(super) const POLICIES: &[(&str, Kind)] = &[
    ("random", Kind::Random),
    ("least connections", Kind::LeastConnections),
    ("path, modulo", Kind::Modulo),
    ("directory, ring", Kind::Ring { key: Key::Directory, points: POINTS, bound: None }),
    ("path, ring of 16 points a server", Kind::Ring { key: Key::Path, points: 16, bound: None }),
    ("path, ring", Kind::Ring { key: Key::Path, points: POINTS, bound: None }),
    ("path, ring, bound 2", Kind::Ring { key: Key::Path, points: POINTS, bound: Some(2.0) }),
    ("path, ring, bound 1.5", Kind::Ring { key: Key::Path, points: POINTS, bound: Some(1.5) }),
    ("path, ring, bound 1.25", Kind::Ring { key: Key::Path, points: POINTS, bound: Some(1.25) }),
];

/// The servers as the balancer sees them.
pub(super) struct Servers {
    pub(super) is_up: Vec<bool>,
    pub(super) in_flight: Vec<u32>,
    /// Numbers of the servers that are up.
    pub(super) up: Vec<usize>,
    /// Requests in flight at all servers.
    pub(super) total: u64,
}

/// A balancer.
pub(super) struct Policy {
    kind: Kind,
    /// Points of the ring in order, each with its server.
    ring: Vec<(u64, u32)>,
}

impl Policy {
    pub(super) fn new(kind: Kind, servers: usize) -> Policy {
        let points = if let Kind::Ring { points, .. } = kind { points } else { 0 };
        let of = |server: u32| {
            (0..points)
                .map(move |point| (hash(POINT, u64::from(server) << 32 | u64::from(point)), server))
        };
        let mut ring: Vec<(u64, u32)> = (0..servers as u32).flat_map(of).collect();
        ring.sort_unstable();
        Policy { kind, ring }
    }

    /// Chooses the server of a request. At least one server is up.
    pub(super) fn choose(
        &self,
        object: u32,
        directory: u32,
        servers: &Servers,
        random: &mut Random,
    ) -> usize {
        match self.kind {
            Kind::Random => servers.up[random.below(servers.up.len())],
            Kind::LeastConnections => {
                // From a random place on, so that no server is preferred.
                let first = random.below(servers.up.len());
                let (before, after) = servers.up.split_at(first);
                let in_turn = after.iter().chain(before).copied();
                in_turn.min_by_key(|&server| servers.in_flight[server]).unwrap_or(0)
            }
            Kind::Modulo => {
                let hash = hash(PATH, u64::from(object));
                servers.up[(hash % servers.up.len() as u64) as usize]
            }
            Kind::Ring { key, bound, .. } => {
                let hash = match key {
                    Key::Path => hash(PATH, u64::from(object)),
                    Key::Directory => hash(DIRECTORY, u64::from(directory)),
                };
                self.walk(hash, bound, servers)
            }
        }
    }

    /// The first server on the ring that is up and, with a bound, has room ("Consistent hashing with
    /// bounded loads", Mirrokni, Thorup and Zadimoghaddam, 2018).
    fn walk(&self, hash: u64, bound: Option<f64>, servers: &Servers) -> usize {
        let room = bound.map_or(u32::MAX, |bound| {
            let mean = (servers.total + 1) as f64 / servers.up.len() as f64;
            (mean * bound).ceil() as u32
        });
        let first = self.ring.partition_point(|(point, _)| *point < hash);
        let (before, after) = self.ring.split_at(first);
        let mut in_turn = after.iter().chain(before).map(|(_, server)| *server as usize);
        let has_room = |&server: &usize| servers.is_up[server] && servers.in_flight[server] < room;
        // The mean is less than the room, so one server has some.
        in_turn.find(has_room).unwrap_or(0)
    }
}
