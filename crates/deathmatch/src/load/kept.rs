//! A job in slices: between them its connections stay open and unused, while other jobs have theirs.

use std::io;
use std::time::{Duration, Instant};

use super::{Job, engine, h2};
use crate::sample::{ConnectionUse, Load, Offered};

/// A job whose connections are kept between slices.
pub struct Kept<'a> {
    job: &'a Job,
    engine: Engine<'a>,
}

enum Engine<'a> {
    Http1(Box<engine::Engine<'a>>),
    Http2(Box<h2::Engine<'a>>),
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
        let engine = match job.over {
            Some(ConnectionUse::Streams(streams)) => {
                Engine::Http2(Box::new(h2::Engine::new(job, streams)?))
            }
            _ => Engine::Http1(Box::new(engine::Engine::new(job)?)),
        };
        Ok(Kept { job, engine })
    }

    /// Offers the load for so long, then waits until every request has ended; otherwise as `run`.
    ///
    /// In a closed loop the seconds of the result count to the end of the last response: all
    /// connections begin and end without a request, so that replies and time belong to each other in
    /// slices of any length.
    pub fn slice(&mut self, duration: Duration) -> io::Result<Load> {
        let begun = Instant::now();
        let load = match &mut self.engine {
            Engine::Http1(engine) => engine.run(duration)?,
            Engine::Http2(engine) => engine.run(duration)?,
        };
        if !matches!(self.job.offered, Offered::Closed { .. }) {
            return Ok(load);
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Load { seconds, replies_per_second: Vec::new(), ..load })
    }
}
