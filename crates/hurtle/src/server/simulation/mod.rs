//! Whole connections in memory and in simulated time: a worker with several clients of different
//! kinds, an application, files, and upstreams. A seed decides every split, delay and failure, and
//! what a client may see is the assertion. Models: quinn-proto's tests, TigerBeetle's simulator.
//!
//! A seed that fails is run again, with every event printed, by
//! `HURTLE_SEED=n cargo test -p hurtle --lib simulation -- --nocapture`.

mod app;
mod client;
mod h2_client;
mod message;
mod request;
mod upstream;

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Once};
use std::time::Duration;
use std::{env, fs, io, panic, process, thread};

use tokio::runtime::{Builder, LocalOptions};

use self::client::Client;
use self::request::{Asked, FILES};
use super::mount::MountedApp;
use super::reload::Settings;
use super::worker::{self, Shared};
use crate::cache::Caches;
use crate::config::{self, Config};
use crate::disk::Disk;
use crate::files::{Changed, Listings};
use crate::handler::gateway::Slots;
use crate::pipeline::worker::{ConnectionSlot, WorkerThread};
use crate::rt::{self, simulated};
use crate::serve;
use crate::transport::Input;
use crate::transport::memory::{self, Memory, Random, Trouble};

/// Seeds of the test command.
const SEEDS: u64 = 10_000;

/// Connections of a seed.
const CLIENTS_MAX: u64 = 4;

/// Requests on a connection.
const REQUESTS_MAX: u64 = 4;

/// How long the server may take to end its connections when their clients are gone. A peer that
/// stalls is kept for its limit.
const ENDS_WITHIN: Duration = Duration::from_secs(70);

const HEAD_TIMEOUT: Duration = Duration::from_secs(3);
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The server's own.
const BODY_PAUSE: Duration = Duration::from_secs(60);
const WRITE_STALL: Duration = Duration::from_secs(4);

/// What all simulations of a thread share.
struct World {
    config: Arc<Config>,
    disk: Disk,
    root: PathBuf,
}

/// What may happen in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// Bytes come in any split, but nothing takes time: a wake that is lost shows, since only a
    /// deadline makes up for it.
    Swift,
    /// There are delays, too, and every request must be answered.
    Calm,
    /// Anything may break or stall.
    Rough,
}

impl Mood {
    /// Every request must be answered.
    fn is_calm(self) -> bool {
        self != Mood::Rough
    }
}

/// What has become of a simulation.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// A hash of all events.
    events: u64,
    failures: Vec<String>,
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

impl World {
    fn new(name: &str) -> World {
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
        let mut config = config::load(&file).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        config.workers = NonZeroUsize::MIN;
        World { config: Arc::new(config), disk: Disk::start(NonZeroUsize::MIN).unwrap(), root }
    }

    fn worker(&self, seed: u64, mood: Mood) -> Rc<WorkerThread> {
        let mut shared = Shared {
            settings: Settings::new((*self.config).clone(), None).unwrap(),
            disk: self.disk.clone(),
            listings: Listings::new(&self.disk),
            changed: Changed::default(),
            slots: Slots::new(1),
            caches: Caches::new(1),
            log: None,
            apps: vec![MountedApp { site: 0, app: app::app(seed, mood) }],
        };
        worker::make(&mut shared).0
    }

    /// Runs a seed to its end.
    fn run(&self, seed: u64, is_shown: bool) -> Outcome {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true);
        let runtime = runtime.build_local(LocalOptions::default()).unwrap();
        memory::trace(is_shown);
        PANICS.set(0);
        let mut failures = runtime.block_on(async {
            simulated::begin();
            self.simulate(seed).await
        });
        // The order in which the rest is dropped is the runtime's affair.
        let events = memory::traced();
        drop(runtime);
        memory::dial_with(None);
        simulated::end();
        if PANICS.get() > 0 {
            failures.push("a task panicked; its message is above".to_owned());
        }
        Outcome { events, failures }
    }

    async fn simulate(&self, seed: u64) -> Vec<String> {
        let mut random = Random::new(seed, 0);
        let mood = random.pick(&[Mood::Swift, Mood::Calm, Mood::Rough, Mood::Rough]);
        let thread = self.worker(seed, mood);
        let deadlines = Rc::clone(&thread.worker().deadlines);
        rt::spawn(async move { deadlines.sweep().await });
        memory::dial_with(Some(dialer(seed, mood)));
        let mut clients = Vec::new();
        for number in 0..random.within(1, CLIENTS_MAX) {
            let mut random = Random::new(random.next(), number);
            let troubles = troubles(&mut random, mood);
            let name = format!("client {number}");
            let (near, far) = Memory::pair(&name, &mut random, troubles);
            let place = ConnectionSlot::new(&thread);
            clients.push(tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_millis(random.within(0, 200))).await;
                let address = Some([192, 0, 2, 1].into());
                rt::spawn(serve::run(near, Input::default(), address, place));
                client(far, random, (seed, number), mood).await
            }));
        }
        let mut failures = Vec::new();
        for client in clients {
            let seen = client.await.unwrap_or_else(|e| Err(e.to_string()));
            failures.extend(seen.err());
        }
        let ended = async {
            while thread.open.get() > 0 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(ENDS_WITHIN, ended).await.is_err() {
            failures.push(format!("{} connections are left", thread.open.get()));
        }
        failures
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

const PROXY: &str = "proxy = 'http://192.0.2.1:80'\nconnect_timeout = '1s'\nsend_timeout = '2s'\n\
                     first_byte_timeout = '2s'\nread_timeout = '2s'\n";

/// What happens to a connection: most of it at the server's end.
fn troubles(random: &mut Random, mood: Mood) -> [Trouble; 2] {
    let mut once = |part| match mood == Mood::Rough && random.is_one_in(part) {
        true => random.within(1, random.clone().pick(&[10, 50, 300])),
        false => 0,
    };
    let (reset_step, stall_step) = (once(5), once(8));
    let mut delays = || Trouble {
        delay_part: random.pick(&[0, 4, 16]),
        delay_ms_max: if mood == Mood::Swift { 0 } else { random.pick(&[1, 30]) },
        ..Trouble::default()
    };
    [Trouble { reset_step, stall_step, ..delays() }, delays()]
}

/// Makes upstreams, which answer as they are asked to.
fn dialer(seed: u64, mood: Mood) -> memory::Dial {
    let count = Cell::new(0);
    Rc::new(move || {
        count.set(count.get() + 1);
        let number = count.get();
        let mut random = Random::new(seed ^ 0xd1a1, number);
        let is_refused = mood == Mood::Rough && random.is_one_in(10);
        let is_lost = mood == Mood::Rough && random.is_one_in(20);
        Box::pin(async move {
            if mood != Mood::Swift {
                tokio::time::sleep(Duration::from_millis(random.within(0, 20))).await;
            }
            if is_refused {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            if is_lost {
                std::future::pending::<()>().await;
            }
            let troubles = troubles(&mut random, mood);
            let name = format!("upstream {number}");
            let (near, far) = Memory::pair(&name, &mut random, troubles);
            tokio::task::spawn_local(upstream::serve(far, random));
            Ok(near)
        })
    })
}

/// A client of any kind.
async fn client(
    io: Memory,
    mut random: Random,
    (seed, number): (u64, u64),
    mood: Mood,
) -> Result<(), String> {
    let count = random.within(1, REQUESTS_MAX);
    let base = (number + 1) * 1_000;
    let asked: Vec<_> = (0..count).map(|n| Asked::any(&mut random, seed, base + n, mood)).collect();
    let kind = random.within(0, 11);
    let pipelined = random.is_one_in(2);
    let mut choice = random.clone();
    let watched = io.watch();
    let client = Client { io, random, mood };
    let task = async {
        match kind {
            0..=3 => client.ask(asked, pipelined, "1.1").await,
            4 => client.ask(asked[..1].to_vec(), false, "1.0").await,
            5 => client.misbehave().await,
            6 if mood.is_calm() => client.stop_in_head(HEAD_TIMEOUT).await,
            7 if mood.is_calm() => client.stay_idle(IDLE_TIMEOUT).await,
            8 if mood.is_calm() => client.take_nothing(WRITE_STALL).await,
            6..=8 => client.vanish(asked).await,
            9 if mood.is_calm() && count == 1 => {
                let path = choice.pick(&["/up/1/0/length", "/app/1/0/gather", "/f/small"]);
                client.stop_in_body(path, BODY_PAUSE).await
            }
            _ => h2_client::ask(client.io, asked, mood).await,
        }
    };
    client::patiently(&watched, task).await
}

/// Has panics counted, which the runtime catches.
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
fn simulation_clients_see_whole_answers_or_a_clear_end() {
    count_panics();
    if let Some(seed) = env::var("HURTLE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let outcome = World::new("one").run(seed, true);
        assert_eq!(outcome.failures, Vec::<String>::new(), "seed {seed}");
        return;
    }
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
    let run = |thread: u64| {
        let world = World::new(&thread.to_string());
        for seed in (thread..SEEDS).step_by(threads as usize) {
            let failures = world.run(seed, false).failures;
            assert!(
                failures.is_empty(),
                "seed {seed}: {failures:#?}\nrun it again with its events: HURTLE_SEED={seed} \
                 cargo test -p hurtle --lib simulation -- --nocapture"
            );
        }
    };
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || run(thread));
        }
    });
}

#[test]
fn simulation_a_seed_gives_the_same_events_again() {
    count_panics();
    let world = World::new("again");
    for seed in 0..100 {
        assert_eq!(world.run(seed, false), world.run(seed, false), "seed {seed}");
    }
}
