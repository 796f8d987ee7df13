//! What a report needs to know besides the samples: what was run, with what, on what machine, and
//! what the statistics say of it.

use serde::{Deserialize, Serialize};

use super::measure::Measure;

/// A run of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The plan's name.
    pub plan: String,
    /// What the plan asks, in a sentence or two.
    pub description: String,
    /// What the order of contenders was drawn from.
    pub seed: u64,
    /// Rounds planned.
    pub rounds: u32,
    /// The command that runs it again.
    pub command: String,
    /// The machine and its settings, in the order they are shown.
    pub fingerprint: Vec<Fact>,
    /// In the order they are shown.
    pub contenders: Vec<Contender>,
    /// What this machine cannot show, a sentence each.
    pub limits: Vec<String>,
    /// The name of the contender that ratios refer to.
    pub reference: String,
    /// The name of the contender that does the least there is to do; never ranked.
    pub floor: String,
    /// The name under which the reference takes part a second time: how far the two are apart is
    /// what this machine cannot tell apart. `None` where it does not.
    #[serde(default)]
    pub twin: Option<String>,
}

/// One line of the fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// What.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A server, as it was run or why it was not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// As in the samples.
    pub name: String,
    /// As people call it.
    pub title: String,
    /// As it says itself.
    pub version: String,
    /// Exactly what it was started with: the command and its configuration.
    pub config: String,
    /// Settings that differ from its defaults.
    pub tuned: Vec<Tuned>,
    /// Why it did not run, if it did not.
    pub absent: Option<String>,
}

/// A setting that differs from the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// As it is written.
    pub setting: String,
    /// Why.
    pub reason: String,
}

/// How contenders compare at one piece of work by one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// The work's name, as in the samples.
    pub work: String,
    /// What is compared.
    pub measure: Measure,
    /// A row for each contender, in any order.
    pub rows: Vec<Standing>,
}

/// One contender's ratio to the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its name.
    pub contender: String,
    /// Its value over the reference's; the median over rounds.
    pub ratio: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
    /// What that says.
    pub verdict: Verdict,
}

/// What an interval says of a contender beside the reference.
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
    /// The interval does not say.
    TooClose,
}

impl Run {
    /// Whether a contender is one: the floor is a yardstick, and the twin is the reference.
    pub fn competes(&self, name: &str) -> bool {
        name != self.floor && self.twin.as_deref() != Some(name)
    }

    /// A contender's title, or its name where it has none.
    pub fn title<'a>(&'a self, name: &'a str) -> &'a str {
        let found = self.contenders.iter().find(|c| c.name == name);
        found.map(|c| c.title.as_str()).filter(|t| !t.is_empty()).unwrap_or(name)
    }
}
