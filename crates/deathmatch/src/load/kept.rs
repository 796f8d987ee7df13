//! A job in slices: between them its connections stay open and unused, while other jobs have
//! theirs.

use std::io;
use std::time::{Duration, Instant};

use super::{Engine, Job};
use crate::sample::{Load, Offered};

/// A job whose connections are kept between slices.
pub struct Kept<'a> {
    job: &'a Job,
    engine: Engine<'a>,
}

impl<'a> Kept<'a> {
    /// Opens no connection yet.
    ///
    /// # Errors
    /// An impossible job, or one with streams beside the requests: they cannot pause.
    pub fn new(job: &'a Job) -> io::Result<Kept<'a>> {
        if job.beside.is_some() {
            let text = "streams beside the requests cannot run in slices";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Kept { job, engine: Engine::new(job)? })
    }

    /// Offers the load for so long, then waits until every request has ended; otherwise as `run`.
    ///
    /// In a closed loop the seconds of the result count to the end of the last response: all
    /// connections begin and end without a request, so that replies and time belong to each other
    /// in slices of any length.
    pub fn slice(&mut self, duration: Duration) -> io::Result<Load> {
        let begun = Instant::now();
        let load = self.engine.run(duration)?;
        if !matches!(self.job.offered, Offered::Closed { .. }) {
            return Ok(load);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let draining_s = (seconds - duration.as_secs_f64()).max(0.0);
        Ok(Load { seconds, draining_s, replies_per_second: Vec::new(), ..load })
    }
}
