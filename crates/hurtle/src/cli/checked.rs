//! The files that a configuration names, and the message of `hurtle check` about a valid one.

use std::collections::BTreeSet;

use super::ConfigProblems;
use crate::acme;
use crate::config::{Config, decided_fields, overlaps, page_warnings, unguarded_mounts};
use crate::monitoring::log_files;
use crate::tls::{Keyring, UpstreamConfigs, local};
use crate::wasm::WasmApps;

/// Checks logs, certificates and files of certificate authorities, and compiles WebAssembly
/// components, as the start of the server would.
///
/// # Errors
/// All problems, one line each.
pub(super) fn check_files(config: &Config) -> Result<(), ConfigProblems> {
    let mut problems = log_files::problems(config);
    problems.extend(Keyring::load(config, None).err().unwrap_or_default());
    problems.extend(UpstreamConfigs::load(config, None).err().unwrap_or_default());
    problems.extend(acme::problems(config));
    problems.extend(WasmApps::load(config, None).err().unwrap_or_default());
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Returns the message about a valid configuration: with a hint about UDP ports that other machines
/// reach, and a line for each warning.
pub fn checked(config: &Config) -> String {
    let exposed = config.http3_addresses().filter(|address| !address.ip().is_loopback());
    let ports: BTreeSet<String> = exposed.map(|address| address.port().to_string()).collect();
    let mut text = match ports.is_empty() {
        true => "ok".to_owned(),
        false => format!(
            "ok; HTTP/3 needs UDP port {} open in the firewall (http3 = false turns it off)",
            ports.into_iter().collect::<Vec<_>>().join(", ")
        ),
    };
    let warnings = [
        log_files::warnings(config),
        overlaps(config),
        page_warnings(config),
        unguarded_mounts(config),
        decided_fields(config),
        local::warnings(config),
        certificates(config),
    ];
    for warning in warnings.concat() {
        text.push_str("\nwarning: ");
        text.push_str(&warning);
    }
    text
}

/// Warns about certificates that clients reject or will reject soon.
fn certificates(config: &Config) -> Vec<String> {
    // `check_files` has reported unusable files.
    let keyring = Keyring::load(config, None).ok().flatten();
    keyring.map(|keyring| keyring.warnings()).unwrap_or_default()
}
