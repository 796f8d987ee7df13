//! Threads that wait for disks, so that no event loop does (seed: lighttpd's threaded stat).
//!
//! Jobs queue in lanes, one for each resource that can be slow by itself (a site's root, listings).
//! A lane holds at most half of the threads, and its queue is bounded, so one hung
//! mount cannot stop the others. The queue's lock is the only one that a request takes, and only a
//! request that needs a disk.

mod job;
mod mailbox;
mod small_file;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use job::Job;
pub(crate) use job::Queued;
pub(crate) use mailbox::deliver;
pub(crate) use small_file::read_small;

use crate::metrics::LaneSnapshot;
use crate::{rt, sys};

/// Jobs that may wait in one lane.
const LANE_JOBS_MAX: usize = 1_024;

/// Time limit for a job, including its time in the queue. After it the request is answered 503.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Pause before another try of a disk that was too slow.
const PAUSE: Duration = Duration::from_secs(1);

/// Name of the lanes without a name in a snapshot.
const OTHER_LANES: &str = "other";

/// The end of a lane's queue that a job enters at.
type Enqueue = fn(&mut VecDeque<(Instant, Job)>, (Instant, Job));

/// Why a job returned no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its lane is full, or it took longer than `WAIT_MAX`: 503.
    Busy,
    /// It panicked, which is a defect of the job: 500.
    Panicked,
}

/// Waits before another try of a disk that was too slow for a message that has begun, and logs it.
pub(crate) async fn pause() {
    tracing::warn!("the disk is too slow: a message that has begun waits for it");
    rt::sleep(PAUSE).await;
}

/// The index of a lane; lanes are never removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(usize);

/// A handle on the pool; clones share it. The threads end when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<SharedQueue>);

#[derive(Debug)]
struct SharedQueue {
    queue: Mutex<Queue>,
    work: Condvar,
    /// Threads one lane may hold.
    lane_threads_max: usize,
}

#[derive(Debug, Default)]
struct Queue {
    lanes: Vec<LaneState>,
    /// Lanes by the names of their resources.
    names: HashMap<String, Lane>,
    /// The lane that the next free thread checks first: lanes take turns.
    turn: usize,
    /// Threads that wait for a job.
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct LaneState {
    running: usize,
    jobs: VecDeque<(Instant, Job)>,
    /// Jobs that were begun, and the sum of their waits.
    begun: u64,
    waited: Duration,
    rejected: u64,
}

impl std::fmt::Debug for LaneState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} running, {} waiting", self.running, self.jobs.len())
    }
}

impl Disk {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The error of the system call that could not start a thread.
    pub fn start(threads: NonZeroUsize) -> io::Result<Disk> {
        Disk::start_named(threads, (threads.get() / 2).max(1), "disk")
    }

    /// Starts `threads` threads of which a lane may have all: for other work that would block an
    /// event loop.
    ///
    /// # Errors
    /// The error of the system call that could not start a thread.
    pub fn start_wholly_shared(threads: NonZeroUsize, name: &str) -> io::Result<Disk> {
        Disk::start_named(threads, threads.get(), name)
    }

    fn start_named(threads: NonZeroUsize, lane_threads_max: usize, name: &str) -> io::Result<Disk> {
        let shared = Arc::new(SharedQueue {
            queue: Mutex::default(),
            work: Condvar::new(),
            lane_threads_max,
        });
        for n in 0..threads.get() {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("{name}-{n}")).spawn(move || {
                // An event loop's work takes microseconds and serves every connection.
                sys::give_precedence();
                mailbox::begin_telling();
                shared.run();
            })?;
        }
        Ok(Disk(Arc::new(Handle(shared))))
    }

    /// Adds a lane without a name, which snapshots count among `OTHER_LANES`.
    pub fn lane(&self) -> Lane {
        self.0.0.lock().add()
    }

    /// Returns the lane of the resource with this name. Workers share it, and so do successive
    /// configurations.
    pub fn lane_of(&self, resource: String) -> Lane {
        let mut queue = self.0.0.lock();
        match queue.names.get(&resource) {
            Some(lane) => *lane,
            None => {
                let lane = queue.add();
                queue.names.insert(resource, lane);
                lane
            }
        }
    }

    /// Runs `job` on a thread of the pool and returns its result.
    ///
    /// # Errors
    /// See `Failure`. After `Busy` the job may still run to its end; its result is dropped.
    pub async fn run<T, F>(&self, lane: Lane, job: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_at(lane, VecDeque::push_back, job).await
    }

    /// As `run`, ahead of all jobs that wait in the lane: for short jobs that many requests need.
    ///
    /// # Errors
    /// See `Failure`.
    pub async fn run_next<T, F>(&self, lane: Lane, job: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_at(lane, VecDeque::push_front, job).await
    }

    async fn run_at<T, F>(&self, lane: Lane, enqueue: Enqueue, job: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.queue_at(lane, enqueue, job)?.result().await
    }

    /// Queues a job at once; its result can be awaited later. If that is dropped before the job
    /// begins, the job does not run.
    ///
    /// # Errors
    /// `Busy`: the lane is full.
    pub fn queue<T, F>(&self, lane: Lane, job: F) -> Result<Queued<T>, Failure>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.queue_at(lane, VecDeque::push_back, job)
    }

    fn queue_at<T, F>(&self, lane: Lane, enqueue: Enqueue, job: F) -> Result<Queued<T>, Failure>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (job, queued) = job::awaited(job);
        self.0.0.submit(lane, enqueue, job)?;
        Ok(queued)
    }

    /// Returns the state of each lane, by name. Those without a name are one.
    pub fn snapshot(&self) -> Vec<LaneSnapshot> {
        let queue = self.0.0.lock();
        let mut names = vec![OTHER_LANES; queue.lanes.len()];
        for (name, lane) in &queue.names {
            names[lane.0] = name;
        }
        let mut all: BTreeMap<&str, LaneSnapshot> = BTreeMap::new();
        for (name, lane) in names.into_iter().zip(&queue.lanes) {
            let sum = all.entry(name).or_default();
            sum.lane = name.to_owned();
            sum.queued += lane.jobs.len() as u64;
            sum.running += lane.running as u64;
            sum.jobs += lane.begun;
            sum.wait_seconds += lane.waited.as_secs_f64();
            sum.rejected += lane.rejected;
        }
        all.into_values().collect()
    }

    /// Queues a job without waiting for its result. If the lane is full the job is dropped.
    pub fn begin(&self, lane: Lane, job: impl FnOnce() + Send + 'static) {
        let job = move || {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a disk job panicked");
            }
        };
        let _ = self.0.0.submit(lane, VecDeque::push_back, job::begun(job));
    }

    /// Drops a value on a thread of the pool, because its drop blocks on the disk: a file's last
    /// descriptor, for example. If the lane is full it is dropped on the calling thread.
    pub fn discard<T: Send + 'static>(&self, lane: Lane, value: T) {
        self.begin(lane, move || drop(value));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_all();
    }
}

impl SharedQueue {
    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, lane: Lane, enqueue: Enqueue, job: Job) -> Result<(), Failure> {
        // Simulated time does not wait for a thread.
        #[cfg(test)]
        if rt::simulated::now_ms().is_some() {
            rt::simulated::run_job(move || job.run());
            return Ok(());
        }
        let mut queue = self.lock();
        let state = &mut queue.lanes[lane.0];
        if state.jobs.len() >= LANE_JOBS_MAX {
            state.rejected += 1;
            return Err(Failure::Busy);
        }
        enqueue(&mut state.jobs, (Instant::now(), job));
        let wakes = queue.has_work_for_another(self.lane_threads_max);
        drop(queue);
        if wakes {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Runs jobs until the pool is closed.
    fn run(&self) {
        let mut queue = self.lock();
        while !queue.closed {
            let Some((lane, job)) = queue.next(self.lane_threads_max) else {
                if mailbox::has_untold() {
                    drop(queue);
                    mailbox::tell(false);
                    queue = self.lock();
                    continue;
                }
                queue.idle += 1;
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            // Another thread is woken only for a job that it may run; this one finds its own next
            // job.
            let wakes = queue.has_work_for_another(self.lane_threads_max);
            drop(queue);
            if wakes {
                self.work.notify_one();
            }
            mailbox::tell(true);
            job.run();
            queue = self.lock();
            queue.lanes[lane].running -= 1;
        }
    }
}

impl Queue {
    fn add(&mut self) -> Lane {
        self.lanes.push(LaneState::default());
        Lane(self.lanes.len() - 1)
    }

    /// Returns true if a thread waits while there is a job that it may run.
    fn has_work_for_another(&self, lane_threads_max: usize) -> bool {
        let has_work = |lane: &LaneState| lane.running < lane_threads_max && !lane.jobs.is_empty();
        self.idle > 0 && self.lanes.iter().any(has_work)
    }

    /// Takes the next job, and counts it as running in its lane.
    fn next(&mut self, lane_threads_max: usize) -> Option<(usize, Job)> {
        let count = self.lanes.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            let lane = &mut self.lanes[at];
            if lane.running < lane_threads_max
                && let Some((queued, job)) = lane.jobs.pop_front()
            {
                lane.running += 1;
                lane.begun += 1;
                lane.waited += queued.elapsed();
                self.turn = at + 1;
                return Some((at, job));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_one_lane_however_often_it_is_named() {
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let lane = disk.lane_of("files /srv".to_owned());
        assert_eq!(disk.clone().lane_of("files /srv".to_owned()), lane);
        assert_ne!(disk.lane_of("files /mnt".to_owned()), lane);
        assert_ne!(disk.lane(), lane);
    }
}
