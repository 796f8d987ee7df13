//! One run: requests arrive one a tick, stay in flight longer if they miss, and servers come and go.

use std::collections::VecDeque;

use super::cache::Cache;
use super::policy::{Kind, Policy, Servers};
use super::popularity::Popularity;
use super::random::{Random, mix};

/// The sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) servers: usize,
    pub(super) objects: usize,
    pub(super) directories: u32,
    /// Exponent of Zipf's law.
    pub(super) skew: f64,
    /// Objects in the cache of one server.
    pub(super) cached_max: usize,
    /// Requests before the figures begin.
    pub(super) warm_up: u64,
    pub(super) requests: u64,
    /// Ticks for which a hit and a miss are in flight. A request arrives each tick.
    pub(super) hit_ticks: u64,
    pub(super) miss_ticks: u64,
    /// Requests between two departures of a server, and until it returns with an empty cache.
    pub(super) churn: Option<(u64, u64)>,
    pub(super) seed: u64,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Share of requests that hit, 0 to 1.
    pub(super) hits: f64,
    /// Mean number of servers that store an object, of the objects stored at the end.
    pub(super) copies: f64,
    /// Requests of the busiest server, per tick that it was up, over the mean of all.
    pub(super) busiest: f64,
    /// Requests of the server that is busier than 99 of 100, likewise.
    pub(super) p99: f64,
    /// Mean over time of the most requests in flight at a server over the mean of all.
    pub(super) peak: f64,
}

/// Ticks between two looks at the requests in flight.
const SAMPLE_TICKS: u64 = 10_000;

/// Runs a simulation.
pub(super) fn simulate(kind: Kind, parameters: &Parameters) -> Figures {
    let mut run = Run::new(kind, parameters);
    for tick in 0..parameters.warm_up + parameters.requests {
        run.tick(tick);
    }
    run.figures()
}

struct Run<'a> {
    parameters: &'a Parameters,
    policy: Policy,
    popularity: Popularity,
    random: Random,
    servers: Servers,
    caches: Vec<Cache>,
    /// Ends of requests in flight, in order: the tick and the server.
    ending_hits: VecDeque<(u64, u32)>,
    ending_misses: VecDeque<(u64, u32)>,
    /// Servers that return, in order.
    returning: VecDeque<(u64, usize)>,
    hits: u64,
    counts: Vec<u64>,
    /// Ticks for which each server was up.
    up_ticks: Vec<u64>,
    up_since: Vec<u64>,
    peaks: f64,
    samples: u32,
}

impl<'a> Run<'a> {
    fn new(kind: Kind, parameters: &'a Parameters) -> Run<'a> {
        let n = parameters.servers;
        Run {
            parameters,
            policy: Policy::new(kind, n),
            popularity: Popularity::new(parameters.objects, parameters.skew),
            random: Random::new(parameters.seed),
            servers: Servers {
                is_up: vec![true; n],
                in_flight: vec![0; n],
                up: (0..n).collect(),
                total: 0,
            },
            caches: (0..n).map(|_| Cache::default()).collect(),
            ending_hits: VecDeque::new(),
            ending_misses: VecDeque::new(),
            returning: VecDeque::new(),
            hits: 0,
            counts: vec![0; n],
            up_ticks: vec![0; n],
            up_since: vec![parameters.warm_up; n],
            peaks: 0.0,
            samples: 0,
        }
    }

    fn tick(&mut self, tick: u64) {
        self.churn(tick);
        for queue in [&mut self.ending_hits, &mut self.ending_misses] {
            while let Some(&(end, server)) = queue.front().filter(|(end, _)| *end <= tick) {
                debug_assert!(end <= tick, "requests of a kind end in order");
                queue.pop_front();
                self.servers.in_flight[server as usize] -= 1;
                self.servers.total -= 1;
            }
        }
        let object = self.popularity.next(&mut self.random);
        let directory = directory_of(object, self.parameters.directories);
        let server = self.policy.choose(object, directory, &self.servers, &mut self.random);
        let hit = self.caches[server].request(object, self.parameters.cached_max);
        let (queue, ticks) = match hit {
            true => (&mut self.ending_hits, self.parameters.hit_ticks),
            false => (&mut self.ending_misses, self.parameters.miss_ticks),
        };
        queue.push_back((tick + ticks, server as u32));
        self.servers.in_flight[server] += 1;
        self.servers.total += 1;
        if tick >= self.parameters.warm_up {
            self.hits += u64::from(hit);
            self.counts[server] += 1;
            if tick.is_multiple_of(SAMPLE_TICKS) {
                self.sample();
            }
        }
    }

    /// Has servers leave and return.
    fn churn(&mut self, tick: u64) {
        let Some((every, away)) = self.parameters.churn else { return };
        while let Some((_, server)) = self.returning.pop_front_if(|(back, _)| *back <= tick) {
            self.servers.is_up[server] = true;
            self.up_since[server] = tick.max(self.parameters.warm_up);
            let place = self.servers.up.partition_point(|&other| other < server);
            self.servers.up.insert(place, server);
        }
        if tick.is_multiple_of(every) && self.servers.up.len() > 1 {
            let place = self.random.below(self.servers.up.len());
            let server = self.servers.up.remove(place);
            self.servers.is_up[server] = false;
            self.up_ticks[server] += tick.saturating_sub(self.up_since[server]);
            self.caches[server].clear();
            self.returning.push_back((tick + away, server));
        }
    }

    fn sample(&mut self) {
        let most = self.servers.up.iter().map(|&server| self.servers.in_flight[server]).max();
        let mean = self.servers.total as f64 / self.servers.up.len() as f64;
        self.peaks += f64::from(most.unwrap_or(0)) / mean;
        self.samples += 1;
    }

    fn figures(mut self) -> Figures {
        let end = self.parameters.warm_up + self.parameters.requests;
        for &server in &self.servers.up {
            self.up_ticks[server] += end - self.up_since[server];
        }
        let (mut copies, mut distinct) = (vec![0_u16; self.parameters.objects], 0_u64);
        let mut stored = 0_u64;
        for object in self.caches.iter().flat_map(Cache::objects) {
            distinct += u64::from(copies[object as usize] == 0);
            copies[object as usize] += 1;
            stored += 1;
        }
        let rate = |(count, up): (&u64, &u64)| *count as f64 / (*up).max(1) as f64;
        let mut rates: Vec<f64> = self.counts.iter().zip(&self.up_ticks).map(rate).collect();
        rates.sort_by(f64::total_cmp);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        Figures {
            hits: self.hits as f64 / self.parameters.requests as f64,
            copies: stored as f64 / distinct as f64,
            busiest: rates[rates.len() - 1] / mean,
            p99: rates[(rates.len() - 1) * 99 / 100] / mean,
            peak: self.peaks / f64::from(self.samples),
        }
    }
}

/// The directory of an object. Sizes of directories are skewed, independently of the objects'
/// popularity.
fn directory_of(object: u32, directories: u32) -> u32 {
    let unit = (mix(u64::from(object) + (1 << 40)) >> 11) as f64 / (1_u64 << 53) as f64;
    (unit * unit * f64::from(directories)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::policy::Key;

    const SMALL: Parameters = Parameters {
        servers: 40,
        objects: 8_000,
        directories: 400,
        skew: 0.9,
        cached_max: 100,
        warm_up: 100_000,
        requests: 100_000,
        hit_ticks: 200,
        miss_ticks: 2_000,
        churn: None,
        seed: 3,
    };

    fn ring(bound: Option<f64>) -> Kind {
        Kind::Ring { key: Key::Path, points: 200, bound }
    }

    #[test]
    fn a_run_repeats_by_its_seed() {
        let run = |seed| format!("{:?}", simulate(ring(None), &Parameters { seed, ..SMALL }));
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn hashing_stores_each_object_once_and_hits_more_often() {
        let random = simulate(Kind::Random, &SMALL);
        let hashed = simulate(ring(None), &SMALL);
        assert!((hashed.copies - 1.0).abs() < 1e-9, "{hashed:?}");
        assert!(random.copies > 1.5, "{random:?}");
        assert!(hashed.hits > random.hits + 0.2, "{hashed:?} {random:?}");
        assert!(hashed.busiest > random.busiest, "{hashed:?} {random:?}");
    }

    #[test]
    fn a_bound_on_loads_holds_and_costs_hits() {
        let free = simulate(ring(None), &SMALL);
        let bounded = simulate(ring(Some(1.5)), &SMALL);
        assert!(free.peak > 1.8, "{free:?}");
        // The bound is rounded up to a whole request.
        assert!(bounded.peak < 1.65, "{bounded:?}");
        assert!(bounded.copies > 1.0 && bounded.hits < free.hits, "{bounded:?} {free:?}");
    }

    #[test]
    fn servers_that_come_and_go_cost_a_ring_little_and_a_modulo_much() {
        let churn = Some((5_000, 20_000));
        let loss = |kind| {
            let (steady, churning) =
                (simulate(kind, &SMALL), simulate(kind, &Parameters { churn, ..SMALL }));
            steady.hits - churning.hits
        };
        let (ring, modulo) = (loss(ring(None)), loss(Kind::Modulo));
        assert!(ring < 0.1 && modulo > 2.0 * ring, "ring {ring}, modulo {modulo}");
    }
}
