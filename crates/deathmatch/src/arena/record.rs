//! The samples of a run, in memory and on the disk: a sample is written as soon as it is over, and
//! written again when it is marked later.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::RangeFrom;
use std::path::Path;

use super::SAMPLES;
use crate::sample::journal;
use crate::sample::{Mark, Sample, plan_round};
use crate::stats::shared_core::left_out;

/// A run's samples so far.
pub(super) struct Record {
    file: File,
    pub(super) samples: Vec<Sample>,
}

impl Record {
    /// Opens the journal of a run in this directory, or begins one.
    ///
    /// # Errors
    /// The journal is damaged or cannot be written.
    pub(super) fn open(out: &Path) -> io::Result<Record> {
        let file = journal::open(&out.join(SAMPLES)).map_err(io::Error::other)?;
        Ok(Record { file, samples: recorded(out)? })
    }

    pub(super) fn add(&mut self, sample: Sample) -> io::Result<()> {
        journal::append(&mut self.file, &sample)?;
        self.samples.push(sample);
        Ok(())
    }

    /// Marks samples, from one on.
    pub(super) fn mark(&mut self, which: RangeFrom<usize>, mark: Mark) -> io::Result<()> {
        (which.start..self.samples.len()).try_for_each(|at| self.mark_one(at, mark))
    }

    /// Marks all slices of a contender.
    pub(super) fn mark_slices(&mut self, contender: &str, mark: Mark) -> io::Result<()> {
        for at in 0..self.samples.len() {
            let sample = &self.samples[at];
            if sample.slice.is_some() && sample.contender == contender {
                self.mark_one(at, mark)?;
            }
        }
        Ok(())
    }

    /// Marks the samples of a round's first attempt. Slices are of cycles, not of rounds.
    pub(super) fn mark_round(&mut self, round: u32, mark: Mark) -> io::Result<()> {
        for at in 0..self.samples.len() {
            let sample = &self.samples[at];
            let is_of_round = sample.slice.is_none() && plan_round(sample.round) == round;
            if is_of_round && sample.attempt == 0 && !sample.marks.contains(&mark) {
                self.mark_one(at, mark)?;
            }
        }
        Ok(())
    }

    /// Marks the slices of a work that are left out of its ratios because their core was shared.
    pub(super) fn mark_shared_cores(&mut self, work: &str) -> io::Result<()> {
        let is_slice = |sample: &Sample| sample.work == work && sample.slice.is_some();
        let slices = self.samples.iter().enumerate().filter(|(_, sample)| is_slice(sample));
        let (places, slices): (Vec<usize>, Vec<&Sample>) = slices.unzip();
        let left_out = places.into_iter().zip(left_out(&slices)).filter(|(_, left_out)| *left_out);
        let places: Vec<usize> = left_out.map(|(at, _)| at).collect();
        for at in places {
            if !self.samples[at].marks.contains(&Mark::SharedCore) {
                self.mark_one(at, Mark::SharedCore)?;
            }
        }
        Ok(())
    }

    fn mark_one(&mut self, at: usize, mark: Mark) -> io::Result<()> {
        let sample = &mut self.samples[at];
        sample.marks.push(mark);
        journal::append(&mut self.file, sample)
    }
}

/// The samples of a run's directory; of a sample marked later, the last line.
///
/// # Errors
/// The file is damaged. A missing file has no samples.
pub fn recorded(out: &Path) -> io::Result<Vec<Sample>> {
    let path = out.join(SAMPLES);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut latest = BTreeMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    for sample in journal::read(&path).map_err(io::Error::other)?.samples {
        let which = (sample.round, sample.attempt, sample.trial);
        let key = (which, sample.contender.clone(), sample.work.clone());
        match latest.get(&key) {
            Some(&at) => samples[at] = sample,
            None => {
                latest.insert(key, samples.len());
                samples.push(sample);
            }
        }
    }
    Ok(samples)
}
