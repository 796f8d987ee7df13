//! Steps that set contenders up on Debian: shown first, then carried out.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::process::{Command, Stdio};

use super::Contender;
use super::probe::{find, is_root};
use super::template;

/// One step, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Shown to the user beforehand.
    pub heading: String,
    /// A program and its arguments.
    pub command: Vec<String>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:\n    {}", self.heading, self.command.join(" "))
    }
}

impl Step {
    /// Runs the command with its output visible.
    pub fn run(&self) -> io::Result<()> {
        let (program, arguments) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let status = Command::new(program).args(arguments).stdin(Stdio::null()).status();
        let shown = self.command.join(" ");
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(io::Error::other(format!("`{shown}`: {status}"))),
            Err(e) => Err(io::Error::new(e.kind(), format!("`{shown}` did not start: {e}"))),
        }
    }
}

/// Steps that set these contenders up, without those that are installed already. Users other than
/// root run them with sudo.
pub fn install(contenders: &[Contender]) -> Vec<Step> {
    let absent: Vec<&Contender> = contenders.iter().filter(|c| c.probe().is_err()).collect();
    let mut steps: Vec<Step> = Vec::new();
    let packages: BTreeSet<&str> =
        absent.iter().flat_map(|c| &c.packages).map(String::as_str).collect();
    if !packages.is_empty() {
        let names: Vec<&str> = absent.iter().map(|c| &*c.name).collect();
        let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
        let update = apt.iter().chain(&["update"]).copied();
        steps.push(step("Ask Debian what there is", update));
        let apt = apt.iter().chain(&["install", "-y", "--no-install-recommends"]).copied();
        let heading = format!(
            "Install the packages of {} (Debian may start some as services; \
             `systemctl disable --now NAME` ends that)",
            names.join(", ")
        );
        steps.push(step(&heading, apt.chain(packages)));
    }
    for contender in absent {
        for command in &contender.install {
            // Only names under `vars` can occur here, and a test fills them all in.
            let words = command.iter().map(|w| template::fill(w, &contender.vars));
            let Ok(words) = words.collect::<Result<Vec<_>, _>>() else { continue };
            let heading = format!("Set up {} ({})", contender.name, contender.notes.join("; "));
            let step = step(&heading, words.iter().map(String::as_str));
            // Contenders may share what is installed.
            if !steps.iter().any(|earlier| earlier.command == step.command) {
                steps.push(step);
            }
        }
    }
    steps
}

fn step<'a>(heading: &str, words: impl Iterator<Item = &'a str>) -> Step {
    let sudo = if !is_root() && find("sudo").is_some() { Some("sudo") } else { None };
    let command = sudo.into_iter().chain(words).map(str::to_owned).collect();
    Step { heading: heading.to_owned(), command }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contender that cannot be installed.
    fn absent(name: &str) -> Contender {
        let mut contender = Contender::by_name(name).unwrap();
        contender.chosen = None;
        contender.build = Vec::new();
        contender.executable = "no-such-server".to_owned();
        contender
    }

    #[test]
    fn packages_are_installed_together_before_special_steps() {
        let steps = install(&[absent("nginx"), absent("nginx-copy"), absent("swazoo")]);
        let commands: Vec<String> = steps.iter().map(|step| step.command.join(" ")).collect();
        assert_eq!(commands.len(), 4, "{commands:?}");
        assert!(commands[0].ends_with("apt-get update"));
        assert!(
            commands[1].ends_with("debian-archive-keyring debootstrap nginx"),
            "{}",
            commands[1]
        );
        assert!(commands[2].ends_with("rm -rf /var/lib/deathmatch/bullseye"), "{}", commands[2]);
        assert!(commands[3].contains("bullseye /var/lib/deathmatch/bullseye"), "{}", commands[3]);
        assert!(install(&[absent("floor")]).is_empty(), "no package holds it");
    }

    #[test]
    fn what_contenders_share_is_installed_once() {
        let steps = install(&[absent("nginx-current"), absent("nginx-current-tls")]);
        let of = |word| steps.iter().filter(|step| step.command.iter().any(|w| w == word)).count();
        assert_eq!((of("rm"), of("forky")), (1, 1), "{steps:?}");
    }
}
