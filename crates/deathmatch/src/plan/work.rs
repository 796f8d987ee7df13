//! One piece of a plan's work.

use std::time::Duration;

use crate::sample::{Beside, Offered, Over};

/// Samples of an upward search: for the estimate only.
const UPWARD_SAMPLES: u32 = 8;

/// One piece of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Such as `10k.png at 5000/s`: what is asked for.
    pub asks: String,
    /// The file asked for.
    pub file: String,
    /// What is offered.
    pub shape: Shape,
    /// Of many files, the kth is asked for in proportion to k to the power of minus this; 0: all
    /// alike.
    pub zipf: f64,
    /// What is particular about connections.
    pub over: Option<Over>,
    /// What runs meanwhile.
    pub beside: Option<Beside>,
    /// How long a sample of it takes, if not as long as the plan's others.
    pub sample: Option<Duration>,
}

/// What one piece of work offers a contender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// One sample.
    Steady(Offered),
    /// Open loop, upwards by doubling until the contender or the generator has enough, then the
    /// steps between the last two; at the end one sample at one and a half times what was carried.
    Upward {
        /// The rate to begin with, in requests a second.
        from: f64,
        /// Connections the requests are spread over.
        connections: u32,
    },
}

impl Work {
    /// By which its samples are known in every round; unique in a plan.
    pub fn name(&self) -> String {
        let over = self.over.map(|over| format!(", {over}"));
        let beside = self.beside.as_ref().map(|beside| format!(", beside {beside}"));
        format!("{}{}{}", self.asks, over.unwrap_or_default(), beside.unwrap_or_default())
    }

    /// What is left of it for a server that takes no uploads: another work, with another name.
    pub fn without_uploads(&self) -> Work {
        let beside = self.beside.as_ref().map(Beside::downloads_only);
        Work { beside, ..self.clone() }
    }

    /// What is left of it where nobody can be kept from reading faster: another work, with another
    /// name.
    pub fn without_reads_per_s(&self) -> Work {
        let mut work = self.clone();
        if let Some(cold) = work.beside.as_mut().and_then(|beside| beside.cold.as_mut()) {
            cold.reads_per_s = None;
        }
        work
    }

    pub(super) fn uploads(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.uploads > 0)
    }

    /// An open loop's name, by which its samples are known in every round.
    pub fn open_name(file: &str, rate: f64, connections: u32) -> String {
        format!("{file} at {rate}/s over {connections} connections")
    }
}

impl Shape {
    pub(super) fn samples(&self) -> u32 {
        match self {
            Shape::Steady(_) => 1,
            Shape::Upward { .. } => UPWARD_SAMPLES,
        }
    }
}
