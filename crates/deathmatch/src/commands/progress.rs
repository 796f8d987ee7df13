//! The progress of a run on standard error: a bar on a terminal, otherwise a line for each tenth of
//! the expected time.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use deathmatch::arena::Event;
use deathmatch::plan::Plan;
use indicatif::{ProgressBar, ProgressStyle};

/// Lines of a run that is as long as expected.
const LINES: f64 = 10.0;

/// Progress of a plan with so many contenders.
pub(super) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    /// Expected time of the whole run.
    whole: Duration,
    /// Expected time of a turn, and the number that is over.
    turn: Duration,
    turns: u32,
    /// Longest time of the slices of one work, with its share of the starts.
    slices_of_work: Duration,
    /// Share of that time, from 0 to 1, that is over, by work.
    slices: BTreeMap<String, f64>,
    /// Lines that were written.
    lines: f64,
}

impl Progress {
    pub(super) fn new(plan: &Plan, contenders: usize) -> Progress {
        let whole = plan.duration(contenders);
        let contenders = u32::try_from(contenders).unwrap_or(u32::MAX).max(1);
        let all_slices = plan.slices_duration(contenders);
        let sliced = plan.works.iter().filter(|work| plan.slices(work)).count();
        let (sliced, works) = (count(sliced), count(plan.works.len()));
        let turns = (works - sliced) * plan.rounds * contenders;
        let bar = ProgressBar::new(milliseconds(whole));
        let style = ProgressStyle::with_template("{bar:30} {percent} %, {eta} left  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress {
            bar,
            is_terminal: io::stderr().is_terminal(),
            whole,
            turn: whole.saturating_sub(all_slices) / turns.max(1),
            turns: 0,
            slices_of_work: all_slices / sliced.max(1),
            slices: BTreeMap::new(),
            lines: 0.0,
        }
    }

    pub(super) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Turn { round, contender, work } => {
                self.now(&format!("round {}, {contender}: {work}", round + 1));
            }
            Event::Done => {
                self.turns += 1;
                self.now("");
            }
            Event::Starts { contender } => self.now(&format!("starting {contender}")),
            Event::Burst { work, cycles, ended } => {
                self.slices.insert(work.to_owned(), ended);
                self.now(&format!("{work}: {cycles} cycles"));
            }
            Event::Apart { contender, why } => {
                self.say(&format!("{contender} is measured in turns, alone: {why}"));
            }
            Event::Again { round } => {
                self.say(&format!(
                    "round {} is repeated: the floor had moved beside it",
                    round + 1
                ));
            }
            Event::Failed { contender, why } => self.say(&format!("{contender} failed: {why}")),
        }
    }

    /// Removes the bar, so that nothing of it stays above the result.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows the share that is over and what is done now.
    fn now(&mut self, message: &str) {
        let slices = self.slices_of_work.mul_f64(self.slices.values().sum());
        let over = (slices + self.turn * self.turns).min(self.whole);
        self.bar.set_position(milliseconds(over));
        if !message.is_empty() {
            self.bar.set_message(message.to_owned());
        }
        let share = over.as_secs_f64() / self.whole.as_secs_f64().max(1e-9);
        if !self.is_terminal && share * LINES >= self.lines + 1.0 {
            self.lines = (share * LINES).floor();
            let left = super::about(self.whole.saturating_sub(over));
            let message = self.bar.message();
            self.say(&format!("{:.0} %, {left} left: {message}", share * 100.0));
        }
    }

    /// Writes a line that stays.
    fn say(&self, text: &str) {
        match self.is_terminal {
            true => self.bar.println(text),
            // The run goes on without a reader.
            false => drop(writeln!(io::stderr(), "{text}")),
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
