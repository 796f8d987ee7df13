//! Simulates whole connections in memory and in simulated time: a worker with an application, files
//! and upstreams, and several clients. A seed determines every split, delay and failure; the tests
//! assert what clients receive. Models: quinn-proto's tests, TigerBeetle's simulator.
//!
//! To repeat a seed that failed, with every event printed:
//! `HURTLE_SEED=n cargo test -p hurtle --lib simulation -- --nocapture`.

mod app;
mod client;
mod disks;
mod h2_client;
mod message;
mod request;
mod upstream;

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Once};
use std::time::Duration;
use std::{env, fs, io, panic, process, thread};

use tokio::runtime::{Builder, LocalOptions};

use self::client::Client;
use self::disks::SimulatedDisks;
use self::request::{FILES, TestRequest};
use super::mount::MountedApp;
use super::worker_base::WorkerBase;
use crate::compress::Compressor;
use crate::config::{self, Config};
use crate::disk::Disk;
use crate::pipeline::worker::{ConnectionSlot, WorkerThread};
use crate::rt::{self, simulated};
use crate::serve;
use crate::services::Services;
use crate::services::orders::Stop;
use crate::services::settings::Settings;
use crate::transport::Input;
use crate::transport::memory::{self, Faults, Memory, Random};

/// Number of seeds that the test runs.
const SEEDS: u64 = 10_000;

/// Maximum number of connections per seed.
const CLIENTS_MAX: u64 = 4;

/// Maximum number of requests on a connection.
const REQUESTS_MAX: u64 = 4;

/// Longest time from the last client's end until the server has closed all connections. It exceeds
/// the limits for stalled peers.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(70);

const HEAD_TIMEOUT: Duration = Duration::from_secs(3);
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The server's fixed limit of a pause within a body.
const BODY_PAUSE: Duration = Duration::from_secs(60);
const WRITE_STALL: Duration = Duration::from_secs(4);

/// Runs the simulations of one thread, which share a configuration, disk threads and files.
struct Simulator {
    config: Arc<Config>,
    disk: Disk,
    root: PathBuf,
}

/// The delays and faults that may occur in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conditions {
    /// Bytes arrive in random pieces, without delays or faults. A lost wake-up becomes visible,
    /// because only a deadline would then continue the task.
    Instant,
    /// There are delays but no faults.
    Delayed,
    /// Connections, upstreams and the application may also fail or stall.
    Faulty,
}

impl Conditions {
    /// Returns whether every request must get its response, because there are no faults.
    fn is_reliable(self) -> bool {
        self != Conditions::Faulty
    }
}

/// The result of a simulation.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// A hash of all events.
    events: u64,
    failures: Vec<String>,
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

impl Simulator {
    fn new(name: &str) -> Simulator {
        let root = env::temp_dir().join(format!("hurtle-simulation-{}-{name}", process::id()));
        fs::create_dir_all(root.join("f")).unwrap();
        for (name, len) in FILES {
            fs::write(root.join("f").join(name), message::pattern(len as u64, len)).unwrap();
        }
        let text = format!(
            "revalidate = '1h'\n\
             [limits]\n\
             head_timeout = '{}s'\nidle_timeout = '{}s'\nwrite_stall = '{}s'\nbody_grace = '2s'\n\
             [[site]]\n\
             [[site.mount]]\npath = '/f'\nfiles = {:?}\n\
             [[site.mount]]\npath = '/up'\n{PROXY}\
             [[site.mount]]\npath = '/cached'\n{PROXY}cache = {{}}\n",
            HEAD_TIMEOUT.as_secs(),
            IDLE_TIMEOUT.as_secs(),
            WRITE_STALL.as_secs(),
            root.join("f"),
        );
        let file = root.join("hurtle.toml");
        fs::write(&file, text).unwrap();
        let mut config = config::load(&file).unwrap_or_else(|problems| panic!("{problems:?}"));
        config.workers = NonZeroUsize::MIN;
        Simulator { config: Arc::new(config), disk: Disk::start(NonZeroUsize::MIN).unwrap(), root }
    }

    fn worker(&self, seed: u64, conditions: Conditions) -> Rc<WorkerThread> {
        let settings = Settings::new((*self.config).clone(), None).unwrap();
        let (_, orders) = Stop::new();
        let (disk, compressor) = (self.disk.clone(), Compressor::default());
        let services = Services::on(disk, compressor, settings, None, None, orders).unwrap();
        let apps = vec![MountedApp { site: 0, app: app::app(seed, conditions) }];
        let base = WorkerBase::new(Arc::clone(&services), Arc::default(), apps);
        let thread = WorkerThread::new(base.worker(&services.settings(), None));
        let deadlines = Rc::clone(&thread.worker().deadlines);
        rt::spawn(async move { deadlines.sweep().await });
        thread
    }

    /// Runs one seed; `is_printed`: prints every event.
    fn run(&self, seed: u64, is_printed: bool) -> Outcome {
        Simulator::run_task(self.simulate(seed), is_printed)
    }

    /// Runs a task in simulated time.
    fn run_task(task: impl Future<Output = Vec<String>>, is_printed: bool) -> Outcome {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true);
        let runtime = runtime.build_local(LocalOptions::default()).unwrap();
        memory::begin_trace(is_printed);
        PANICS.set(0);
        let mut failures = runtime.block_on(async {
            simulated::begin();
            task.await
        });
        // Excludes events of dropping the runtime, whose order is not defined.
        let events = memory::trace_hash();
        drop(runtime);
        memory::set_dial(None);
        simulated::end();
        if PANICS.get() > 0 {
            failures.push("a task panicked; see its message above".to_owned());
        }
        Outcome { events, failures }
    }

    async fn simulate(&self, seed: u64) -> Vec<String> {
        let mut random = Random::new(seed, 0);
        let conditions = random.pick(&[
            Conditions::Instant,
            Conditions::Delayed,
            Conditions::Faulty,
            Conditions::Faulty,
        ]);
        simulated::set_disks(SimulatedDisks::new(Random::new(seed, 1), conditions));
        let thread = self.worker(seed, conditions);
        memory::set_dial(Some(dialer(seed, conditions)));
        let mut clients = Vec::new();
        for number in 0..random.within(1, CLIENTS_MAX) {
            let mut random = Random::new(random.next(), number);
            let faults = faults(&mut random, conditions);
            let name = format!("client {number}");
            let (server_end, client_end) = Memory::pair(&name, &mut random, faults);
            let slot = ConnectionSlot::new(&thread, Rc::default());
            clients.push(tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_millis(random.within(0, 200))).await;
                let address = Some([192, 0, 2, 1].into());
                rt::spawn(serve::run(server_end, Input::default(), address, slot));
                client(client_end, random, seed, number, conditions).await
            }));
        }
        let mut failures = Vec::new();
        for client in clients {
            let result = client.await.unwrap_or_else(|e| Err(e.to_string()));
            failures.extend(result.err());
        }
        let ended = async {
            while thread.open.get() > 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, ended).await.is_err() {
            failures.push(format!("{} connections are still open", thread.open.get()));
        }
        failures
    }

    async fn serve_slow_client(&self, seed: u64, again: Option<Duration>) -> Vec<String> {
        let thread = self.worker(seed, Conditions::Instant);
        let mut random = Random::new(seed, 0);
        let (server_end, client_end) = Memory::pair("slow", &mut random, Default::default());
        let slot = ConnectionSlot::new(&thread, Rc::default());
        rt::spawn(serve::run(server_end, Input::default(), None, slot));
        let result = h2_client::read_slowly(client_end, &TestRequest::large(), again).await;
        result.err().into_iter().collect()
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

const PROXY: &str = "proxy = 'http://192.0.2.1:80'\nconnect_timeout = '1s'\nsend_timeout = '2s'\n\
                     first_byte_timeout = '2s'\nread_timeout = '2s'\n";

/// Chooses the faults of a connection, the server's end first. Only that end resets and stalls.
fn faults(random: &mut Random, conditions: Conditions) -> [Faults; 2] {
    let mut once = |part| match conditions == Conditions::Faulty && random.is_one_in(part) {
        true => random.within(1, random.clone().pick(&[10, 50, 300])),
        false => 0,
    };
    let (reset_step, stall_step) = (once(5), once(8));
    let mut delays = || Faults {
        delay_part: random.pick(&[0, 4, 16]),
        delay_ms_max: if conditions == Conditions::Instant { 0 } else { random.pick(&[1, 30]) },
        ..Faults::default()
    };
    [Faults { reset_step, stall_step, ..delays() }, delays()]
}

/// Creates the function that connects to simulated upstreams.
fn dialer(seed: u64, conditions: Conditions) -> memory::Dial {
    let count = Cell::new(0);
    Rc::new(move || {
        count.set(count.get() + 1);
        let number = count.get();
        let mut random = Random::new(seed ^ 0xd1a1, number);
        let is_refused = conditions == Conditions::Faulty && random.is_one_in(10);
        let is_unreachable = conditions == Conditions::Faulty && random.is_one_in(20);
        Box::pin(async move {
            if conditions != Conditions::Instant {
                tokio::time::sleep(Duration::from_millis(random.within(0, 20))).await;
            }
            if is_refused {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            if is_unreachable {
                std::future::pending::<()>().await;
            }
            let faults = faults(&mut random, conditions);
            let name = format!("upstream {number}");
            let (server_end, client_end) = Memory::pair(&name, &mut random, faults);
            tokio::task::spawn_local(upstream::serve(client_end, random));
            Ok(server_end)
        })
    })
}

/// Runs a random kind of client.
async fn client(
    io: Memory,
    mut random: Random,
    seed: u64,
    number: u64,
    conditions: Conditions,
) -> Result<(), String> {
    let count = random.within(1, REQUESTS_MAX);
    let base = (number + 1) * 1_000;
    let requests: Vec<_> =
        (0..count).map(|n| TestRequest::any(&mut random, seed, base + n, conditions)).collect();
    let kind = random.within(0, 11);
    let pipelined = random.is_one_in(2);
    let mut choice = random.clone();
    let watched = io.watch();
    let client = Client { io, random, conditions };
    let task = async {
        match kind {
            0..=3 => client.send_requests(requests, pipelined, "1.1").await,
            4 => client.send_requests(requests[..1].to_vec(), false, "1.0").await,
            5 => client.send_malformed().await,
            6 if conditions.is_reliable() => client.stall_in_head(HEAD_TIMEOUT).await,
            7 if conditions.is_reliable() => client.stay_idle(IDLE_TIMEOUT).await,
            8 if conditions.is_reliable() => client.read_nothing(WRITE_STALL).await,
            6..=8 => client.disconnect(requests).await,
            9 if conditions.is_reliable() && count == 1 => {
                let path = choice.pick(&["/up/1/0/length", "/app/1/0/gather", "/f/small"]);
                client.stall_in_body(path, BODY_PAUSE).await
            }
            _ => h2_client::send_requests(client.io, requests, conditions).await,
        }
    };
    client::run_with_timeout(&watched, task).await
}

/// Counts panics of tasks, which the runtime would only catch.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

#[test]
fn simulation_clients_get_complete_responses_or_a_clear_failure() {
    count_panics();
    if let Some(seed) = env::var("HURTLE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let outcome = Simulator::new("one").run(seed, true);
        assert_eq!(outcome.failures, Vec::<String>::new(), "seed {seed}");
        return;
    }
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
    let run = |thread: u64| {
        let simulator = Simulator::new(&thread.to_string());
        for seed in (thread..SEEDS).step_by(threads as usize) {
            let failures = simulator.run(seed, false).failures;
            assert!(
                failures.is_empty(),
                "seed {seed}: {failures:#?}\nto repeat it and print its events: HURTLE_SEED={seed} \
                 cargo test -p hurtle --lib simulation -- --nocapture"
            );
        }
    };
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || run(thread));
        }
    });
    let writes = [disks::WRITES.load(Relaxed), disks::REFUSED_WRITES.load(Relaxed)];
    assert!(writes.iter().all(|count| *count > SEEDS / 100), "kept bodies: {writes:?} writes");
}

/// Regression: two seconds after GOAWAY the connection was closed, although the client was reading.
#[test]
fn simulation_a_slow_client_gets_the_whole_last_response() {
    count_panics();
    let mut simulator = Simulator::new("slow");
    let config = Arc::get_mut(&mut simulator.config).unwrap();
    config.limits.requests_per_connection = Some(1);
    for seed in 0..50 {
        let outcome = Simulator::run_task(simulator.serve_slow_client(seed, None), false);
        assert_eq!(outcome.failures, Vec::<String>::new(), "seed {seed}");
    }
}

/// Regression: the time limit for a client that takes nothing went on after the last byte, if that
/// had waited for room; TLS keeps bytes as this transport does.
#[test]
fn simulation_a_slow_client_is_not_reset_after_the_last_byte() {
    const STALL: Duration = Duration::from_secs(10);
    count_panics();
    let mut simulator = Simulator::new("read");
    let config = Arc::get_mut(&mut simulator.config).unwrap();
    config.limits.write_stall = STALL;
    // The last byte is in a queue long before the client has read it.
    config.limits.idle_timeout = 1_000 * STALL;
    for seed in 0..50 {
        let outcome =
            Simulator::run_task(simulator.serve_slow_client(seed, Some(3 * STALL)), false);
        assert_eq!(outcome.failures, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn simulation_a_seed_repeats_its_events() {
    count_panics();
    let simulator = Simulator::new("again");
    for seed in 0..100 {
        assert_eq!(simulator.run(seed, false), simulator.run(seed, false), "seed {seed}");
    }
}
