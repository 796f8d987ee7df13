//! The message of `hurtle check` about a valid configuration.

use std::collections::BTreeSet;

use crate::config::Config;

/// Returns the message about a valid configuration: with a hint about UDP ports that other machines
/// reach.
pub fn checked(config: &Config) -> String {
    let exposed = config.http3_addresses().filter(|address| !address.ip().is_loopback());
    let ports: BTreeSet<String> = exposed.map(|address| address.port().to_string()).collect();
    match ports.is_empty() {
        true => "ok".to_owned(),
        false => format!(
            "ok; HTTP/3 needs UDP port {} open in the firewall (http3 = false turns it off)",
            ports.into_iter().collect::<Vec<_>>().join(", ")
        ),
    }
}
