//! The system's store of authorities: most programs use it, and on macOS all browsers do.

use std::fs;
use std::path::Path;

use rustix::process::geteuid;

use super::{Authority, Report, quoted, run};
use crate::sys::{self, TrustStore};

const SYSTEM: &str = "the system's store";

/// Adds an authority to the system's store, or removes it.
pub(super) fn change(authority: &Authority, remove: bool, report: &mut Report) {
    let is_there = |store: &&TrustStore| store.directory.is_none_or(|dir| Path::new(dir).is_dir());
    let Some(store) = sys::TRUST_STORES.iter().find(is_there) else {
        let places = sys::TRUST_STORES.iter().filter_map(|store| store.directory);
        let places: Vec<&str> = places.collect();
        let what = format!("none found ({}); see the system's manual", places.join(", "));
        return report.line(SYSTEM, &what);
    };
    let copy = store
        .directory
        .map(|dir| Path::new(dir).join(format!("{}.{}", authority.name, store.extension)));
    let is_copied = copy.as_ref().and_then(|copy| fs::read(copy).ok());
    let is_copied = is_copied.is_some_and(|copy| copy == authority.pem);
    match remove {
        _ if copy.is_some() && is_copied != remove => {
            report.line(SYSTEM, if remove { "was not trusted" } else { "trusted already" });
        }
        _ if !geteuid().is_root() => {
            report.line(
                SYSTEM,
                &format!("as root: {}", by_hand(store, authority, copy.as_deref(), remove)),
            );
        }
        true => {
            report.outcome(SYSTEM, "trusted no longer", removed(store, authority, copy.as_deref()));
        }
        false => report.outcome(SYSTEM, "trusted", added(store, authority, copy.as_deref())),
    }
}

fn added(store: &TrustStore, authority: &Authority, copy: Option<&Path>) -> Result<(), String> {
    if let Some(copy) = copy {
        fs::write(copy, &authority.pem).map_err(|e| format!("{}: {e}", copy.display()))?;
    }
    run_on(store.add, authority)
}

fn removed(store: &TrustStore, authority: &Authority, copy: Option<&Path>) -> Result<(), String> {
    if let Some(copy) = copy {
        fs::remove_file(copy).map_err(|e| format!("{}: {e}", copy.display()))?;
    }
    run_on(store.remove, authority)
}

fn run_on(command: &[&str], authority: &Authority) -> Result<(), String> {
    let file = authority.file.to_str();
    let file = file.ok_or_else(|| format!("{} is not UTF-8", authority.file.display()))?;
    let fill = |word: &&str| if word.is_empty() { file.to_owned() } else { (*word).to_owned() };
    let command: Vec<String> = command.iter().map(fill).collect();
    run(&command.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The commands for a shell.
fn by_hand(store: &TrustStore, authority: &Authority, copy: Option<&Path>, remove: bool) -> String {
    let fill = |word: &&str| match word.is_empty() {
        true => quoted(&authority.file),
        false => (*word).to_owned(),
    };
    let command = if remove { store.remove } else { store.add };
    let command = command.iter().map(fill).collect::<Vec<_>>().join(" ");
    match copy.map(quoted) {
        Some(copy) if remove => format!("sudo rm {copy} && sudo {command}"),
        Some(copy) => format!("sudo cp {} {copy} && sudo {command}", quoted(&authority.file)),
        None => format!("sudo {command}"),
    }
}
