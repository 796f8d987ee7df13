//! An invented run for tests: the deck's field on a ladder that doubles beyond it, with errors, a
//! stall, a tie, rows limited by the generator, and one missing contender. `full` has a whole deck.

pub(crate) mod full;

use deathmatch::histogram::Times;
use deathmatch::report::{Contender, Fact, Measure, Ranking, Run, Standing, Tuned, Verdict};
use deathmatch::sample::{Errors, Handshakes, Load, MachineUse, Mark, Offered, Sample, ServerUse};

/// Offered requests a second.
pub(crate) const RATES: [f64; 9] = [1e3, 2e3, 3e3, 4e3, 5e3, 1e4, 2e4, 4e4, 8e4];

pub(crate) const ROUNDS: u32 = 3;

/// (name, title, largest replies/s, CPU us a request, p50 in ms, memory in MiB).
const FIELD: [(&str, &str, f64, f64, f64, f64); 18] = [
    ("floor", "the floor", 140e3, 7.3, 0.05, 1.0),
    ("hurtle", "Hurtle", 110e3, 8.4, 0.06, 9.0),
    ("apache-prefork", "Apache prefork", 29e3, 33.0, 0.12, 62.0),
    ("apache-worker", "Apache worker", 37e3, 27.0, 0.11, 24.0),
    ("apache-event", "Apache event", 33e3, 30.0, 0.11, 20.0),
    ("inets", "Erlang inets", 2_470.0, 396.0, 44.0, 57.0),
    ("lighttpd", "lighttpd", 109e3, 9.1, 0.06, 4.0),
    ("mochiweb", "MochiWeb", 4_563.0, 209.0, 0.9, 53.0),
    ("nginx", "nginx", 82e3, 12.2, 0.07, 14.0),
    ("yaws", "Yaws", 22e3, 45.0, 0.2, 73.0),
    ("warp", "Warp", 87e3, 11.5, 0.08, 70.0),
    ("h2o", "h2o", 100e3, 9.15, 0.07, 15.0),
    ("caddy", "Caddy", 20e3, 49.0, 0.25, 41.0),
    ("go", "Go net/http", 32e3, 31.0, 0.15, 13.0),
    ("zeus", "Zeus web server", 54e3, 18.0, 0.09, 18.0),
    ("swift", "Swift", 66e3, 14.9, 0.065, 6.0),
    ("mongrel", "Mongrel", 8_100.0, 120.0, 0.4, 44.0),
    ("evil", "<b>\"Evil\" & Söhne</b>", 9e3, 60.0, 0.3, 33.0),
];

/// The run, its samples, and their statistics.
pub(crate) fn run() -> (Run, Vec<Sample>, Vec<Ranking>) {
    let mut samples = Vec::new();
    for round in 0..ROUNDS {
        for at in 0..FIELD.len() {
            samples.extend(RATES.map(|rate| sample(at, round, rate)));
            samples.push(saturated(71e3, at, round));
        }
    }
    let work = work(2e3);
    let rankings = [Measure::CpuPerRequest, Measure::P99];
    (the_run(), samples, rankings.map(|measure| ranking(&work, measure)).to_vec())
}

fn the_run() -> Run {
    let fact = |(name, value): (&str, &str)| Fact { name: name.into(), value: value.into() };
    let mut contenders: Vec<Contender> = FIELD.iter().map(contender).collect();
    contenders.push(Contender {
        name: "swazoo".into(),
        title: "Swazoo".into(),
        absent: Some("gst is not installed; `deathmatch install swazoo` sets it up".into()),
        ..Contender::default()
    });
    Run {
        again: None,
        judged: None,
        measured: None,
        plan: "The deck of 2009".into(),
        description:
            "A 10k file, ten calls on each connection, from 1\u{202f}000 requests a second up \
                      until each gives out: the comparison of 2009 with the servers of today."
                .into(),
        seed: 20_090_401,
        rounds: ROUNDS,
        command: "deathmatch run deck --seed 20090401 --rounds 3".into(),
        fingerprint: [
            ("processor", "AMD EPYC, 2 cores, KVM guest"),
            ("kernel", "Linux 6.18"),
            ("congestion control", "reno, in a network namespace of its own"),
            ("net.core.somaxconn", "4096"),
            ("descriptors (ulimit -n)", "65536"),
        ]
        .map(fact)
        .to_vec(),
        contenders,
        limits: vec![
            "Server and generator share a machine of two cores, and the network is loopback: the \
             kernel does the client's receive work in the server's send call."
                .into(),
            "A server has one core: nothing here says how it scales over more.".into(),
        ],
        reference: "nginx".into(),
        floor: "floor".into(),
        twin: None,
    }
}

fn contender(row: &(&str, &str, f64, f64, f64, f64)) -> Contender {
    Contender {
        name: row.0.into(),
        title: row.1.into(),
        version: format!("{} 1.2.3", row.0),
        config: "worker_processes 1;\nevents { worker_connections 5120; }\n# <script>alert(1)</script>\n".into(),
        tuned: vec![Tuned {
            setting: "access_log off".into(),
            reason: "a log line costs 1.5 µs a request".into(),
        }],
        absent: None,
        program: None,
    }
}

fn work(rate: f64) -> String {
    format!("10k at {rate}/s")
}

/// A repeatable number from 0 to 1, in place of noise.
fn noise(a: u64, b: u64, c: u64) -> f64 {
    let mixed = a.wrapping_mul(7_919) ^ b.wrapping_mul(104_729) ^ c.wrapping_mul(1_299_709);
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as f64 / (1_u64 << 24) as f64
}

/// One contender's sample; above its capacity, requests fail and the rest wait.
pub(crate) fn sample(at: usize, round: u32, rate: f64) -> Sample {
    by_a_generator(71e3, at, round, rate)
}

/// A sample of a generator with this limit, in requests a second.
fn by_a_generator(generator: f64, at: usize, round: u32, rate: f64) -> Sample {
    let (name, _, most, cost, p50, memory) = FIELD[at];
    let seconds = 5.0;
    let spread = 0.98 + 0.04 * noise(at as u64, u64::from(round), rate as u64);
    // Beyond this rate the generator is the limit.
    let generator = generator * spread;
    let rate_kept = rate.min(most * spread).min(generator);
    let limited = rate > generator && most > generator;
    let overloaded = rate > most;
    let replies = (rate_kept * seconds) as u64;
    let intended = if limited { replies } else { (rate * seconds) as u64 };
    // The generator's delays are the same for all.
    let delayed = if limited { 20.0 } else { 0.0 };
    let failed = if overloaded { (intended - replies) / 8 } else { 0 };
    let cpu = cost * (1.0 + 1.6 / (1.0 + rate / 4e3)) * spread;
    let wobble = if name == "mochiweb" && rate >= 4e3 { 0.3 } else { 0.004 };
    let bin = |second: u64| {
        (rate_kept * (1.0 + wobble * (noise(second, at as u64, rate as u64) - 0.5) * 2.0)) as u64
    };
    let erlang = ["yaws", "mochiweb", "inets"].contains(&name);
    Sample {
        plan: "deck".into(),
        round,
        over: None,
        beside: None,
        cooling: None,
        idle: None,
        network: None,
        herd: None,
        slice: None,
        attempt: 0,
        trial: 0,
        probe: false,
        contender: name.into(),
        work: work(rate),
        file: "10k.png".into(),
        offered: Offered::Sessions { rate: rate / 10.0, calls: 10 },
        began_unix_s: 1_700_000_000.0,
        load: Load {
            seconds,
            draining_s: 0.0,
            intended,
            replies,
            replies_per_second: (0..5).map(bin).collect(),
            bytes: replies * 10_400,
            response: times(p50 * spread + delayed, rate.min(generator) / most, at as u64),
            service: times(p50 * spread, 0.0, at as u64),
            lateness: times(0.002 + delayed, 0.0, at as u64),
            waits: 0,
            waited_s: 0.0,
            errors: Errors { timeout: failed, ..Errors::default() },
            handshakes: Handshakes::default(),
            busy_s: seconds * (rate_kept / generator).min(1.0),
            bulk: None,
            slow: None,
            reads: replies,
        },
        server: Some(ServerUse {
            cpu_s: (cpu * 1e-6 * replies as f64).min(seconds),
            user_s: cpu * 0.3e-6 * replies as f64,
            system_s: cpu * 0.7e-6 * replies as f64,
            voluntary_switches: replies / 3,
            involuntary_switches: replies / 90,
            peak_bytes: 0,
            resident_bytes: (memory * spread * f64::from(1 << 20)) as u64,
            runnable: (rate_kept / most).min(1.0) * if name == "yaws" { 1.6 } else { 1.0 },
        }),
        machine: Some(MachineUse {
            seconds,
            interrupts: ((900.0 + rate_kept * 0.02) * seconds * spread) as u64,
            switches: (rate_kept * if name == "yaws" { 6.0 } else { 1.1 } * seconds * spread)
                as u64,
            pages_freed: (rate_kept * if erlang { 14.0 } else { 3.0 } * seconds * spread) as u64,
            load_1m: 1.0 + spread,
            ..MachineUse::default()
        }),
        marks: if limited { vec![Mark::GeneratorBusy] } else { Vec::new() },
    }
}

/// One contender's sample from a closed loop at its capacity, without failures.
fn saturated(generator: f64, at: usize, round: u32) -> Sample {
    let mut sample = by_a_generator(generator, at, round, 0.97 * FIELD[at].2);
    sample.work = "10k at 50 connections".into();
    sample.offered = Offered::Closed { connections: 50 };
    sample.load.intended = 0;
    sample.load.errors = Errors::default();
    sample
}

/// Makes a sample one limited by the generator: it had no time left, and requests waited for it.
#[allow(dead_code)] // The report's own tests need it, those of its page do not.
pub(crate) fn give_out(sample: &mut Sample) {
    sample.marks.push(Mark::GeneratorBusy);
    (0..sample.load.response.count()).for_each(|_| sample.load.response.record(30_000_000));
}

/// Turns a sample into one of overload: some contenders fall behind, some refuse requests, some
/// just answer.
pub(crate) fn beyond(sample: &mut Sample, name: &str) {
    let share = match name {
        "inets" | "mochiweb" | "caddy" => 0.4,
        _ => 0.96,
    };
    sample.load.replies = (sample.load.replies as f64 * share) as u64;
    for second in &mut sample.load.replies_per_second {
        *second = (*second as f64 * share) as u64;
    }
    let left = sample.load.intended.saturating_sub(sample.load.replies);
    sample.load.errors.timeout = if share < 0.5 { left } else { left / 20 };
}

/// Times about a median, with a tail, longer as the server fills up.
fn times(p50_ms: f64, filled: f64, salt: u64) -> Times {
    let mut times = Times::default();
    let slow = if filled >= 1.0 { 60.0 } else { 1.0 / (1.0 - 0.9 * filled) };
    for n in 0..2_000_u64 {
        let share = (n as f64 + 0.5) / 2_000.0;
        let tail = 1.0 + 0.5 * (1.0 / (1.0 - share)).ln() + noise(n, salt, 7) * 0.1;
        let pause = if n == 1_999 { 6.0 } else { 0.0 };
        times.record(((p50_ms * slow * tail * 0.74 + pause) * 1e6) as u64);
    }
    times
}

/// As the statistics would give it: lighttpd and h2o are too close to call.
fn ranking(work: &str, measure: Measure) -> Ranking {
    let reference = FIELD.iter().find(|row| row.0 == "nginx").expect("nginx is in the field");
    let by = |row: &(&str, &str, f64, f64, f64, f64)| match measure {
        Measure::P99 => row.4,
        _ => row.3,
    };
    let rows = FIELD.iter().map(|row| {
        let ratio = by(row) / by(reference);
        let (low, high) = match row.0 {
            "nginx" => (1.0, 1.0),
            _ => (ratio * 0.98, ratio * 1.02),
        };
        let verdict = match (low, high) {
            (1.0, 1.0) => Verdict::Reference,
            (_, high) if high < 0.98 => Verdict::Better,
            (low, _) if low > 1.02 => Verdict::Worse,
            (low, high) if low >= 0.98 && high <= 1.02 => Verdict::Equal,
            _ => Verdict::TooClose,
        };
        Standing { contender: row.0.into(), ratio, interval: Some((low, high)), verdict }
    });
    Ranking { work: work.to_owned(), measure, rows: rows.collect() }
}
