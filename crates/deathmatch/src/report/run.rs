//! Facts of a run that a report needs besides the samples: plan, contenders, machine, and the
//! statistics' results.

use serde::{Deserialize, Serialize};

use super::measure::Measure;
use crate::plan::{Plan, Work};
use crate::stats::Judged;

/// Floors beside the one of every report.
const OTHER_FLOORS: &[&str] = &["floor-uring"];

/// A run of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the plan that was run.
    pub plan: String,
    /// Question of the plan, in a sentence or two.
    pub description: String,
    /// Seed of the order of contenders.
    pub seed: u64,
    /// Number of rounds that the plan asks for.
    pub rounds: u32,
    /// Works and times of its samples; `None`: an older version has made it.
    #[serde(default)]
    pub measured: Option<Measured>,
    /// The command that runs it again.
    pub command: String,
    /// The machine and its settings, in the order they are shown.
    pub fingerprint: Vec<Fact>,
    /// In the order they are shown.
    pub contenders: Vec<Contender>,
    /// Limits of this machine, a sentence each.
    pub limits: Vec<String>,
    /// The name of the contender that ratios refer to.
    pub reference: String,
    /// The name of the contender that only receives and sends; never ranked.
    pub floor: String,
    /// The name of the reference's second turn, if it has one: the machine cannot show differences
    /// smaller than that between the two.
    #[serde(default)]
    pub twin: Option<String>,
    /// The name under which the reference takes part a second time and is compared like any other.
    #[serde(default)]
    pub again: Option<String>,
    /// Judgement on the reference beside the others, if it was the question.
    #[serde(default)]
    pub judged: Option<Judged>,
}

/// Works and times that all samples of a run share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Seconds of warm-up after a start.
    pub warm_up_s: f64,
    /// `true` if only one contender was alive at a time.
    pub turns: bool,
    /// Each work with the seconds of a sample in turns.
    pub works: Vec<(String, f64)>,
}

impl Measured {
    /// Those of a plan.
    pub fn of(plan: &Plan) -> Measured {
        let seconds = |work: &Work| work.sample.unwrap_or(plan.sample).as_secs_f64();
        Measured {
            warm_up_s: plan.warm_up.as_secs_f64(),
            turns: plan.turns,
            works: plan.works.iter().map(|work| (work.name(), seconds(work))).collect(),
        }
    }
}

/// One line of the fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Name of the fact, as the report shows it.
    pub name: String,
    /// Value of the fact, as the report shows it.
    pub value: String,
}

/// A server as it was run, or the reason for which it was not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// As in the samples.
    pub name: String,
    /// The title in the report.
    pub title: String,
    /// The version it reports.
    pub version: String,
    /// The command and configuration it was started with.
    pub config: String,
    /// Settings that differ from its defaults.
    pub tuned: Vec<Tuned>,
    /// Reason for which it did not run, if it did not.
    pub absent: Option<String>,
    /// Path, size and time of change of its executable; `None`: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

/// A setting that differs from the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The setting as written.
    pub setting: String,
    /// Reason for the setting, in a sentence.
    pub reason: String,
}

/// Comparison of contenders at one work by one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// The work's name, as in the samples.
    pub work: String,
    /// The measure by which they are compared.
    pub measure: Measure,
    /// A row for each contender, in any order.
    pub rows: Vec<Standing>,
}

/// One contender's ratio to the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Name of the contender, as in the samples.
    pub contender: String,
    /// Its value over the reference's; the median over rounds.
    pub ratio: f64,
    /// The interval's ends; `None` below six rounds of turns, or 12 cycles of slices in 4 bursts.
    pub interval: Option<(f64, f64)>,
    /// Verdict on the interval.
    pub verdict: Verdict,
}

/// Verdict on an interval beside the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is the reference.
    Reference,
    /// The whole interval is better.
    Better,
    /// The whole interval is worse.
    Worse,
    /// The whole interval is within what counts as the same.
    Equal,
    /// The interval allows no verdict.
    TooClose,
}

impl Run {
    /// `true` if a contender is ranked: the floors and the twin are not.
    pub fn competes(&self, name: &str) -> bool {
        !self.is_floor(name) && self.twin.as_deref() != Some(name)
    }

    /// The name under which the reference ran a second time.
    pub fn second(&self) -> Option<&str> {
        self.twin.as_deref().or(self.again.as_deref())
    }

    /// `true` for a program that only receives and sends.
    pub fn is_floor(&self, name: &str) -> bool {
        name == self.floor || OTHER_FLOORS.contains(&name)
    }

    /// A contender's title, or its name where it has none.
    pub fn title<'a>(&'a self, name: &'a str) -> &'a str {
        let found = self.contenders.iter().find(|c| c.name == name);
        found.map(|c| c.title.as_str()).filter(|t| !t.is_empty()).unwrap_or(name)
    }
}
