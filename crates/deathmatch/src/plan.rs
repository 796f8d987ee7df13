//! A plan: its contenders, works, rounds and their order. Plans are TOML; the deck, its
//! experiments, a ladder of sizes, the other seeds' questions and the quick plan are built in.
//! `arena` carries plans out.

mod beside;
mod file;
mod network;
mod over;
mod short;
mod work;

use std::fmt;
use std::time::Duration;

use beside::BesideToml;
pub use file::File;
use network::NetworkToml;
use over::{Handshakes, PageToml, over};
use serde::Deserialize;
pub use work::{Shape, Work};

use crate::random::SplitMix;
use crate::sample::{ConnectionUse, Offered, Version};

/// The built-in plans: name and text.
pub const BUILT_IN: [(&str, &str); 22] = [
    ("app", include_str!("../arena/plans/app.toml")),
    ("assets", include_str!("../arena/plans/assets.toml")),
    ("buffered", include_str!("../arena/plans/buffered.toml")),
    ("cached", include_str!("../arena/plans/cached.toml")),
    ("cold", include_str!("../arena/plans/cold.toml")),
    ("deck", include_str!("../arena/plans/deck.toml")),
    ("experiments", include_str!("../arena/plans/experiments.toml")),
    ("h2", include_str!("../arena/plans/h2.toml")),
    ("h3", include_str!("../arena/plans/h3.toml")),
    ("herd", include_str!("../arena/plans/herd.toml")),
    ("idle", include_str!("../arena/plans/idle.toml")),
    ("loss", include_str!("../arena/plans/loss.toml")),
    ("mixed", include_str!("../arena/plans/mixed.toml")),
    ("mixed-app", include_str!("../arena/plans/mixed-app.toml")),
    ("proxy", include_str!("../arena/plans/proxy.toml")),
    ("reload", include_str!("../arena/plans/reload.toml")),
    ("sizes", include_str!("../arena/plans/sizes.toml")),
    ("sendfile", include_str!("../arena/plans/sendfile.toml")),
    ("slow", include_str!("../arena/plans/slow.toml")),
    ("tls", include_str!("../arena/plans/tls.toml")),
    ("yield", include_str!("../arena/plans/yield.toml")),
    ("quick", include_str!("../arena/plans/quick.toml")),
];

/// A plan of work for contenders.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the plan on the command line.
    pub name: String,
    pub title: String,
    /// Its purpose, in a sentence.
    pub description: String,
    /// The contender the others are compared with.
    pub reference: String,
    /// Rounds; every contender does all the work once in each.
    pub rounds: u32,
    /// Time not counted after a contender's start; between two samples less is enough.
    pub warm_up: Duration,
    /// Time of a sample.
    pub sample: Duration,
    /// Names of the contenders that take part.
    pub contenders: Vec<String>,
    /// `true` if only one contender is alive at a time, at every work.
    pub turns: bool,
    /// The upstream of all contenders, in place of their own; `None`: each has its own.
    pub upstream: Option<String>,
    /// `true` if nothing is measured unless every contender starts.
    pub needs_all: bool,
    /// `true` if nothing is measured unless every contender takes part in slices.
    pub needs_slices: bool,
    /// Slices go on until half the interval of each ratio is at most this share of it; for replies
    /// a second twice that.
    pub precision: f64,
    /// Longest time of slices for each contender but the reference, at each work.
    pub budget: Duration,
    /// Files that are served.
    pub files: Vec<File>,
    /// Works, in the order in which they are done.
    pub works: Vec<Work>,
}

/// A fault of a plan, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanToml {
    name: String,
    title: String,
    description: String,
    reference: String,
    rounds: u32,
    warm_up_s: f64,
    sample_s: f64,
    contenders: Vec<String>,
    #[serde(default)]
    turns: bool,
    upstream: Option<String>,
    #[serde(default = "precision")]
    precision: f64,
    #[serde(default = "budget_s")]
    budget_s: f64,
    file: Vec<File>,
    work: Vec<WorkToml>,
}

/// 1 %.
fn precision() -> f64 {
    0.01
}

/// 15 seconds.
fn budget_s() -> f64 {
    15.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkToml {
    file: String,
    #[serde(default)]
    zipf: f64,
    #[serde(default)]
    browser: bool,
    handshakes: Option<Handshakes>,
    streams: Option<u32>,
    over: Option<over::Version>,
    page: Option<PageToml>,
    #[serde(default)]
    herd: bool,
    network: Option<NetworkToml>,
    sample_s: Option<f64>,
    beside: Option<BesideToml>,
    sessions: Option<Sessions>,
    open: Option<Open>,
    upward: Option<Upward>,
    closed: Option<Closed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sessions {
    requests: Vec<f64>,
    calls: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    requests: Vec<f64>,
    connections: u32,
    #[serde(default)]
    poisson: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Upward {
    from: f64,
    connections: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Closed {
    connections: Vec<u32>,
}

/// Largest number of rounds; more would run for days.
const ROUNDS_MAX: u32 = 100;

/// Largest exponent of popularity: beyond it nearly all requests are for one file.
const ZIPF_MAX: f64 = 10.0;

/// Longest sample or warm-up, in seconds.
const SAMPLE_S_MAX: f64 = 600.0;

/// Precisions that can be asked for, as shares.
pub const PRECISION_MIN: f64 = 0.001;
/// The largest of them.
pub const PRECISION_MAX: f64 = 0.5;

/// Longest budget of a pair at one work, in seconds.
pub const BUDGET_S_MAX: f64 = 86_400.0;

/// Warm-up and sample of a quick plan.
const QUICK_WARM_UP: Duration = Duration::from_millis(300);
const QUICK_SAMPLE: Duration = Duration::from_secs(1);

/// Longest pause between two samples of a contender, which ends the work of the one before.
const SETTLE_MAX: Duration = Duration::from_millis(300);

/// Time to start, check and stop a contender, for the estimate only.
const START: Duration = Duration::from_millis(700);

/// Time of the slices of a contender at one work between two starts, likewise.
const BURST: Duration = Duration::from_millis(1_200);

/// Longest warm-up before the slices of a work, but for that after a start.
pub const BURST_WARM_UP_MAX: Duration = Duration::from_millis(500);

impl Plan {
    /// A built-in plan by its name.
    pub fn built_in(name: &str) -> Option<Plan> {
        let (_, text) = BUILT_IN.iter().find(|(n, _)| *n == name)?;
        // A test reads every built-in plan.
        Plan::read(text).ok()
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// The fault, with its line if the text has one.
    pub fn read(text: &str) -> Result<Plan, PlanError> {
        let written: PlanToml = toml::from_str(text).map_err(|e| PlanError(e.to_string()))?;
        let bad = |what: String| Err(PlanError(what));
        if written.rounds == 0 || written.rounds > ROUNDS_MAX {
            return bad(format!("rounds: write 1 to {ROUNDS_MAX}"));
        }
        if !(0.0..=SAMPLE_S_MAX).contains(&written.warm_up_s) {
            return bad(format!("warm_up_s: write 0 to {SAMPLE_S_MAX} seconds"));
        }
        if !(PRECISION_MIN..=PRECISION_MAX).contains(&written.precision) {
            return bad(format!("precision: write {PRECISION_MIN} to {PRECISION_MAX}"));
        }
        if !(1.0..=BUDGET_S_MAX).contains(&written.budget_s) {
            return bad(format!("budget_s: write 1 to {BUDGET_S_MAX} seconds"));
        }
        let sample = sample_time(written.sample_s)?;
        for file in &written.file {
            file.check()?;
        }
        let mut works: Vec<Work> = Vec::new();
        for work in &written.work {
            let Some(file) = written.file.iter().find(|file| file.name == work.file) else {
                return bad(format!("work: there is no file {:?}", work.file));
            };
            let beside = work.beside.as_ref().map(|b| b.check(&written.file)).transpose()?;
            let alone = work.expand()?;
            let bad_work = |why| PlanError(format!("work on {:?}: {why}", work.file));
            let over = over(work, &alone).map_err(bad_work)?;
            let network = work.network.map(NetworkToml::check).transpose().map_err(bad_work)?;
            if network.is_some() && beside.is_some() {
                return Err(bad_work("nothing runs beside a network".to_owned()));
            }
            if beside.is_some() && alone.iter().any(|w| !matches!(w.shape, Shape::Steady(_))) {
                return bad(format!("work on {:?}: nothing runs beside a search", work.file));
            }
            let sample = work.sample_s.map(sample_time).transpose()?;
            let is_steady = alone.iter().all(|w| matches!(w.shape, Shape::Steady(_)));
            if file.bytes_max.is_some() && (!is_steady || beside.is_some() || work.herd) {
                return Err(bad_work(
                    "files of several sizes take closed or open loops".to_owned(),
                ));
            }
            let browser = work.browser;
            let all = |w| Work { browser, over, network, beside: beside.clone(), sample, ..w };
            works.extend(alone.into_iter().map(all));
        }
        if works.is_empty() || written.contenders.is_empty() {
            return bad("a plan needs at least one contender and one work".to_owned());
        }
        if let Some(twice) = first_repeated(works.iter().map(Work::name)) {
            return bad(format!("work: {twice:?} is there twice"));
        }
        if let Some(twice) = first_repeated(written.contenders.iter().cloned()) {
            return bad(format!("contenders: {twice:?} is there twice"));
        }
        Ok(Plan {
            name: written.name,
            title: written.title,
            description: written.description,
            reference: written.reference,
            rounds: written.rounds,
            warm_up: Duration::from_secs_f64(written.warm_up_s),
            sample,
            contenders: written.contenders,
            turns: written.turns,
            upstream: written.upstream,
            needs_all: false,
            needs_slices: false,
            precision: written.precision,
            budget: Duration::from_secs_f64(written.budget_s),
            files: written.file,
            works,
        })
    }

    /// The plan with one round of samples, too short for a ranking.
    #[must_use]
    pub fn quick(mut self) -> Plan {
        let (warm_up, sample) = (self.warm_up.min(QUICK_WARM_UP), self.sample.min(QUICK_SAMPLE));
        self.works.iter_mut().for_each(|work| work.sample = None);
        Plan { rounds: 1, warm_up, sample, turns: true, ..self }
    }

    /// Approximate duration for this many contenders.
    pub fn duration(&self, contenders: usize) -> Duration {
        let contenders = u32::try_from(contenders).unwrap_or(u32::MAX);
        let turn = |work: &Work| {
            let sample = work.sample.unwrap_or(self.sample);
            START + self.warm_up + (self.settle() + sample) * work.shape.samples()
        };
        let turns = self.works.iter().filter(|work| !self.slices(work));
        let turns: Duration = turns.map(|work| turn(work) * self.rounds * contenders).sum();
        turns + self.slices_duration(contenders)
    }

    /// Approximate longest duration of all slices of this many contenders, with their starts and
    /// warm-ups. The starts of a burst serve all works.
    pub fn slices_duration(&self, contenders: u32) -> Duration {
        let works = self.works.iter().filter(|work| self.slices(work)).count();
        let Some(further) = u32::try_from(works).unwrap_or(u32::MAX).checked_sub(1) else {
            return Duration::ZERO;
        };
        let budget = self.budget_of(contenders);
        let bursts = budget.as_secs_f64() / (BURST * contenders.max(1)).as_secs_f64();
        let warm_ups = self.warm_up + self.warm_up.min(BURST_WARM_UP_MAX) * further;
        let starts = ((START + warm_ups) * contenders).mul_f64(bursts.ceil());
        budget * (further + 1) + starts
    }

    /// `true` if a work is done in slices, with all contenders alive.
    pub fn slices(&self, work: &Work) -> bool {
        !self.turns && work.fits_slices()
    }

    /// Longest time of slices for so many contenders at one work.
    pub fn budget_of(&self, contenders: u32) -> Duration {
        self.budget * contenders.saturating_sub(1).max(1)
    }

    /// `true` if a work reloads the servers' configurations.
    pub fn needs_reload(&self) -> bool {
        self.works.iter().filter_map(|w| w.beside.as_ref()).any(|b| b.reloads_per_s.is_some())
    }

    /// `true` if any work uploads.
    pub fn uploads(&self) -> bool {
        self.works.iter().any(Work::uploads)
    }

    /// `true` if any work is an application's.
    pub fn needs_app(&self) -> bool {
        self.files.iter().any(|file| file.app.is_some())
    }

    /// `true` if connections are encrypted.
    pub fn needs_tls(&self) -> bool {
        self.works.iter().filter_map(|work| work.over).any(ConnectionUse::is_secure)
    }

    /// `true` if any work has a network with loss or delay.
    pub fn needs_network(&self) -> bool {
        self.works.iter().any(|work| work.network.is_some())
    }

    /// `true` if any work has herds.
    pub fn needs_cache(&self) -> bool {
        self.works.iter().any(Work::is_herd)
    }

    /// `true` if any work uses HTTP/2.
    pub fn needs_http2(&self) -> bool {
        self.uses(Version::Http2)
    }

    /// `true` if any work uses HTTP/3.
    pub fn needs_http3(&self) -> bool {
        self.uses(Version::Http3)
    }

    fn uses(&self, version: Version) -> bool {
        self.works.iter().filter_map(|work| work.over).any(|over| over.version() == version)
    }

    /// Pause between two samples of a contender, not counted.
    pub fn settle(&self) -> Duration {
        self.warm_up.min(SETTLE_MAX)
    }

    /// The contenders' order in a round. Rounds come in pairs, the second in reverse order, so that
    /// no contender always runs after the same one or always last.
    pub fn order(&self, names: &[String], round: u32, seed: u64) -> Vec<String> {
        let mut order = names.to_vec();
        let mut random = SplitMix(seed.wrapping_add(u64::from(round / 2)));
        random.shuffle(&mut order);
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }
}

/// Duration of a sample, from seconds.
fn sample_time(seconds: f64) -> Result<Duration, PlanError> {
    match seconds {
        0.0 => Err(PlanError("sample_s: a sample takes time".to_owned())),
        _ if (0.0..=SAMPLE_S_MAX).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(PlanError(format!("sample_s: write 0 to {SAMPLE_S_MAX} seconds"))),
    }
}

impl WorkToml {
    fn expand(&self) -> Result<Vec<Work>, PlanError> {
        let file = &self.file;
        if !(0.0..=ZIPF_MAX).contains(&self.zipf) {
            return Err(PlanError(format!("work on {file:?}: zipf: write 0 to {ZIPF_MAX}")));
        }
        let zipf = self.zipf;
        let rate_ok = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let work = |asks, shape| Work::new(asks, file, zipf, shape);
        match (&self.sessions, &self.open, &self.upward, &self.closed) {
            (Some(s), None, None, None) if s.calls > 0 && s.requests.iter().all(rate_ok) => {
                let sessions = |requests: &f64| {
                    let asks = format!("{file} at {requests}/s, {} calls a connection", s.calls);
                    let rate = requests / f64::from(s.calls);
                    work(asks, Shape::Steady(Offered::Sessions { rate, calls: s.calls }))
                };
                Ok(s.requests.iter().map(sessions).collect())
            }
            (None, Some(o), None, None) if o.connections > 0 && o.requests.iter().all(rate_ok) => {
                let open = |&rate: &f64| {
                    let (poisson, connections) = (o.poisson, o.connections);
                    let shape = Shape::Steady(Offered::Open { rate, poisson, connections });
                    work(Work::open_name(file, rate, connections), shape)
                };
                Ok(o.requests.iter().map(open).collect())
            }
            (None, None, Some(u), None) if u.connections > 0 && rate_ok(&u.from) => {
                let (from, connections) = (u.from, u.connections);
                let asks = format!("{file} upwards from {from}/s over {connections} connections");
                Ok(vec![work(asks, Shape::Upward { from, connections })])
            }
            (None, None, None, Some(c)) if c.connections.iter().all(|&n| n > 0) => {
                let closed = |&connections: &u32| {
                    let asks = match self.page {
                        Some(_) => format!("{file}, {connections} visitors"),
                        None if self.herd => format!("{file}, {connections} connections"),
                        None => format!("{file}, {connections} connections, as fast as they go"),
                    };
                    work(asks, Shape::Steady(Offered::Closed { connections }))
                };
                Ok(c.connections.iter().map(closed).collect())
            }
            _ => Err(PlanError(format!(
                "work on {file:?}: write one of sessions, open, upward and closed, with numbers \
                 above 0"
            ))),
        }
    }
}

fn first_repeated(mut names: impl Iterator<Item = String>) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.find(|name| !seen.insert(name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_plans_can_be_read() {
        for (name, text) in BUILT_IN {
            let plan = Plan::read(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(plan.name, name);
            assert!(plan.contenders.contains(&plan.reference), "{name}: the reference takes part");
        }
        let deck = Plan::built_in("deck").unwrap();
        assert_eq!(deck.rounds, 6, "six test runs, as in 2009");
        assert!(deck.duration(16) < Duration::from_secs(9_000), "{:?}", deck.duration(16));
        let cold = Plan::built_in("cold").unwrap();
        let longer = cold.works.iter().filter_map(|work| work.sample).collect::<Vec<_>>();
        assert_eq!(longer, [Duration::from_secs(6)], "a slow disk is watched for longer");
        let (long, quick) = (cold.duration(1), cold.quick().duration(1));
        assert!(long > 6 * (quick + 5 * Duration::from_secs(1)), "{long:?}, {quick:?}");
        let sendfile = Plan::built_in("sendfile").unwrap();
        let duration = sendfile.duration(sendfile.contenders.len() + 1);
        assert!(duration < Duration::from_secs(30 * 60), "with the twin: {duration:?}");
    }

    #[test]
    fn an_invalid_plan_is_refused_with_a_reason() {
        let &(_, good) = BUILT_IN.iter().find(|(name, _)| *name == "quick").unwrap();
        for (from, to, message, why) in [
            ("rounds = 1", "rounds = 0", "rounds: write 1 to 100", "no round"),
            ("rounds = 1", "rounds = 1\nroudns = 2", "unknown field", "a key that is none"),
            ("rounds = 1", "rounds = 1\nprecision = 0", "precision: write 0.001 to 0.5", "exact"),
            ("rounds = 1", "rounds = 1\nbudget_s = 0", "budget_s: write 1 to 86400", "no time"),
            ("sample_s = 1", "sample_s = 0", "a sample takes time", "an empty sample"),
            ("sample_s = 1", "sample_s = -1", "sample_s: write 0 to 600", "before the beginning"),
            ("sessions = {", "sample_s = 0\nsessions = {", "a sample takes time", "one work's"),
            ("requests = [1000]", "requests = [0]", "numbers above 0", "no load"),
            ("connections = [50]", "connections = [50, 50]", "is there twice", "work twice"),
            ("name = \"10k.png\"", "name = \"other\"", "no file \"10k.png\"", "a file not served"),
            ("bytes = 10240", "bytes = 1\ncount = 2", "`{}` in its name", "many of one name"),
            ("bytes = 10240", "bytes = 1\ncount = 0", "count: write 1 to", "none of a kind"),
            ("name = \"10k.png\"", "name = \"../x\"", "below the document root", "a way out"),
            ("sessions = {", "zipf = -1\nsessions = {", "zipf: write 0 to 10", "upside down"),
            ("\"floor\", ", "\"floor\", \"floor\", ", "\"floor\" is there twice", "one twice"),
            ("bytes = 10240", "bytes = 1\nlog_uniform = true", "log_uniform: write", "one size"),
            ("bytes = 10240", "bytes = 3\napp = \"four\"", "as many bytes", "another text"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{why}: nothing was replaced");
            let error = Plan::read(&text).expect_err(why);
            assert!(error.0.contains(message), "{why}: {error}");
        }
    }

    #[test]
    fn streams_that_make_no_sense_are_refused() {
        let &(_, good) = BUILT_IN.iter().find(|(name, _)| *name == "mixed").unwrap();
        for (from, to, message, why) in [
            (
                "beside = { file = \"20m.bin\"",
                "beside = { file = \"x\"",
                "no such single file",
                "none",
            ),
            ("downloads = 8", "downloads = 0", "at least one download", "no download"),
            ("downloads = 8", "downloads = 4294967295", "1000 streams", "too many"),
            ("mb_per_s = 100", "mb_per_s = 0", "a number above 0", "no rate"),
            (
                "open = { requests = [2000], connections = 50 }\nbeside",
                "upward = { from = 2000, connections = 10 }\nbeside",
                "beside a search",
                "a search",
            ),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{why}: nothing was replaced");
            let error = Plan::read(&text).expect_err(why);
            assert!(error.0.contains(message), "{why}: {error}");
        }
        let plan = Plan::built_in("mixed").unwrap();
        let (duration, with_twin) = (plan.duration(10), Duration::from_secs(40 * 60));
        assert!(duration < with_twin, "{duration:?}");
        let names: Vec<String> = plan.works.iter().map(Work::name).collect();
        let halves: Vec<String> = plan.works.iter().map(|w| w.without_uploads().name()).collect();
        assert_eq!(names[1], halves[2], "who takes no uploads has one row with those who do");
    }

    #[test]
    fn cold_files_that_make_no_sense_are_refused() {
        let &(_, good) = BUILT_IN.iter().find(|(name, _)| *name == "cold").unwrap();
        for (from, to, message, why) in [
            ("bytes_max = 100000", "bytes_max = 9999", "not below bytes", "the largest is small"),
            ("count = 27000", "count = 27000\nbytes_max = 1", "duplicate key", "two largest"),
            ("cold = true", "cold = false", "no such single file", "warm ones are one"),
            (
                "file = \"cold/{}.bin\", ",
                "file = \"hot.html\", ",
                "many of a kind",
                "one cold file",
            ),
            ("downloads = 64", "downloads = 0", "1 to 1000 downloads", "nobody downloads"),
            ("cold = true", "cold = true, mb_per_s = 1", "as fast as the disk", "paced"),
            ("cold = true", "cold = true, uploads = 1", "as fast as the disk", "uploads"),
            ("reads_per_s = 2000", "reads_per_s = 0", "above 0", "no read"),
            (
                "file = \"hot.html\"\nopen = { requests = [500], connections = 10 }\nbeside",
                "file = \"cold/{}.bin\"\nopen = { requests = [500], connections = 10 }\nbeside",
                "several sizes",
                "they are measured beside themselves",
            ),
            (
                "file = \"hot.html\"\nopen = { requests = [500], connections = 10 }",
                "file = \"cold/{}.bin\"\nupward = { from = 10, connections = 10 }",
                "several sizes",
                "a search among them",
            ),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{why}: nothing was replaced");
            let error = Plan::read(&text).expect_err(why);
            assert!(error.0.contains(message), "{why}: {error}");
        }
        let plan = Plan::built_in("cold").unwrap();
        let cold = plan.files.iter().find(|file| file.count > 1).unwrap();
        let all: u64 = (0..cold.count).map(|number| cold.size(number)).sum();
        assert!((1_400_000_000..1_500_000_000).contains(&all), "half way on average: {all}");
        assert!((0..cold.count).all(|number| (10_000..=100_000).contains(&cold.size(number))));
        let names: Vec<String> = plan.works.iter().map(Work::name).collect();
        assert!(names[1].ends_with("10 KB to 100 KB at 2000 reads/s"), "{names:?}");
        assert_eq!(names[2], plan.works[1].without_reads_per_s().name(), "one row where it must");
    }

    #[test]
    fn the_order_is_balanced_and_can_be_repeated() {
        let plan = Plan::built_in("deck").unwrap();
        let names = plan.contenders.clone();
        let first = plan.order(&names, 0, 7);
        assert_eq!(first, plan.order(&names, 0, 7), "one seed, one order");
        assert_ne!(first, plan.order(&names, 2, 7), "the next pair of rounds has another");
        let mut second = plan.order(&names, 1, 7);
        second.reverse();
        assert_eq!(first, second, "the second of a pair is the first's reverse");
        let mut sorted = first.clone();
        sorted.sort();
        let mut all = names;
        all.sort();
        assert_eq!(sorted, all, "everybody runs once");
    }
}
