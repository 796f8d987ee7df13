//! Contenders that did not run, by reason, and the one command that installs those that it can.

use super::Data;
use super::numbers::listed;
use super::run::Contender;

/// Begin of the remedy in the reason of a contender that is not installed.
const INSTALLS: &str = "`deathmatch install ";

/// Contenders that did not run at all.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Missing {
    /// Sentences on those that the command does not install, one for each reason.
    pub(super) others: Vec<String>,
    /// Titles of those that it installs.
    pub(super) titles: Vec<String>,
    /// The command; empty without any.
    pub(super) command: String,
}

impl Missing {
    pub(super) fn of(data: Data<'_>) -> Missing {
        let mut missing = Missing::default();
        let mut names: Vec<&str> = Vec::new();
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for contender in data.run.contenders.iter().filter(|c| is_missing(data, c)) {
            let (title, why) = (data.run.title(&contender.name), contender.absent.as_deref());
            let why = why.unwrap_or_default().trim_end_matches('.');
            if let Some(name) = installed_by(why) {
                missing.titles.push(title.to_owned());
                names.push(name);
                continue;
            }
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, titles)) => titles.push(title.to_owned()),
                None => reasons.push((why, vec![title.to_owned()])),
            }
        }
        names.dedup();
        let sentence = |(why, titles): (&str, Vec<String>)| format!("{}: {why}.", listed(&titles));
        missing.others = reasons.into_iter().map(sentence).collect();
        if !names.is_empty() {
            missing.command = format!("deathmatch install {}", names.join(" "));
        }
        missing
    }

    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.titles.is_empty()
    }

    /// Sentences for a terminal.
    pub(super) fn sentences(&self) -> Vec<String> {
        let by_command = (!self.titles.is_empty()).then(|| {
            format!("Not installed: {}; `{}` sets them up.", listed(&self.titles), self.command)
        });
        let others = self.others.iter().map(|other| format!("Did not run: {other}"));
        others.chain(by_command).collect()
    }
}

/// `true` if a contender has no sample.
pub(super) fn is_missing(data: Data<'_>, contender: &Contender) -> bool {
    let has_rows = || data.ladders.iter().any(|l| l.of(&contender.name).next().is_some());
    contender.absent.is_some() && !has_rows()
}

/// The name by which `deathmatch install` sets a contender up.
fn installed_by(why: &str) -> Option<&str> {
    let (_, rest) = why.split_once(INSTALLS)?;
    rest.split_once('`').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::beside::Beside;
    use crate::report::{Run, invented};

    #[test]
    fn one_command_installs_all_that_it_can() {
        let (mut run, ..) = invented::run();
        let absent = |name: &str, why: &str| Contender {
            name: name.to_owned(),
            title: name.to_uppercase(),
            absent: Some(why.to_owned()),
            ..Contender::default()
        };
        run.contenders = vec![
            absent("h2o", "h2o was not found in PATH; `deathmatch install h2o` sets it up"),
            absent("caddy", "caddy was not found; `deathmatch install caddy` sets it up"),
            absent("a", "only root can run it"),
            absent("b", "only root can run it"),
        ];
        let of = |run: &Run| {
            let beside = Beside::default();
            Missing::of(Data { run, ladders: &[], rankings: &[], beside: &beside })
        };
        let missing = of(&run);
        assert_eq!(missing.command, "deathmatch install h2o caddy");
        assert_eq!(missing.titles, ["H2O", "CADDY"]);
        assert_eq!(missing.others, ["A and B: only root can run it."]);
        run.contenders.clear();
        assert!(of(&run).is_empty());
    }
}
