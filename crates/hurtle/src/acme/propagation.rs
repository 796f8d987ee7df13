//! Waits until the servers of a zone have a record, before the authority is asked to validate it:
//! the authority's resolvers may keep an answer without it. Calls block.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::dns::{self, RecordKind, values};
use super::resolvers::Resolvers;
use crate::config::DnsHook;
use crate::rt::host_names;

/// Time between two rounds of questions.
const PERIOD: Duration = Duration::from_secs(1);

/// Most servers of a zone that are asked.
const SERVERS_MAX: usize = 16;

/// Port of the DNS.
const PORT: u16 = 53;

/// A server that must have the record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    name: String,
    addresses: Vec<SocketAddr>,
}

/// The servers that must have the record, under the name to which aliases lead.
#[derive(Debug)]
struct Target {
    name: String,
    servers: Vec<Server>,
    is_recursive: bool,
}

/// Waits until all servers that answer have a TXT record of this value, at most `hook.timeout`.
///
/// # Errors
/// The server without it, or why no server can be asked.
pub(super) fn wait(fqdn: &str, value: &str, hook: &DnsHook) -> Result<(), String> {
    let end = Instant::now() + hook.timeout;
    let mut target = None;
    loop {
        let outcome = check(fqdn, value, hook, &mut target);
        let Err(why) = outcome else { return Ok(()) };
        if Instant::now() >= end {
            return Err(format!("{fqdn}: {why} after {} s", hook.timeout.as_secs()));
        }
        tracing::debug!("{fqdn}: {why}");
        thread::sleep(PERIOD.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Asks all servers once.
fn check(
    fqdn: &str,
    value: &str,
    hook: &DnsHook,
    target: &mut Option<Target>,
) -> Result<(), String> {
    let target = match target {
        Some(target) => target,
        None => target.insert(find_target(fqdn, hook)?),
    };
    let mut has_answer = false;
    for server in &target.servers {
        match server.texts(&target.name, target.is_recursive) {
            Ok(texts) if texts.iter().any(|text| text == value) => has_answer = true,
            Ok(_) => return Err(format!("the DNS server {} has no such record", server.name)),
            Err(why) => tracing::debug!("{fqdn}: {why}"),
        }
    }
    let names: Vec<&str> = target.servers.iter().map(|server| server.name.as_str()).collect();
    match has_answer {
        true => Ok(()),
        false => Err(format!(
            "none of its DNS servers ({}) answers; if a firewall is between, name others in \
             dns_resolvers",
            names.join(", ")
        )),
    }
}

impl Server {
    /// The TXT records of a name, from the first address that answers.
    fn texts(&self, name: &str, is_recursive: bool) -> Result<Vec<String>, String> {
        let mut failure = format!("the DNS server {} has no address", self.name);
        for address in &self.addresses {
            match dns::ask(*address, name, RecordKind::Txt, is_recursive) {
                Ok(records) => return Ok(values(records, None, RecordKind::Txt)),
                Err(e) => failure = format!("the DNS server {} ({address}): {e}", self.name),
            }
        }
        Err(failure)
    }
}

/// Finds the servers that must have the record: the configured resolvers, or those of the zone.
fn find_target(fqdn: &str, hook: &DnsHook) -> Result<Target, String> {
    let is_recursive = !hook.resolvers.is_empty();
    let resolvers = Resolvers::of(&hook.resolvers)?;
    let name = resolvers.record_name(fqdn)?;
    let servers = match is_recursive {
        true => {
            let server = |address: &SocketAddr| Server {
                name: address.to_string(),
                addresses: vec![*address],
            };
            hook.resolvers.iter().map(server).collect()
        }
        false => servers_of_zone(&name, &resolvers)?,
    };
    Ok(Target { name, servers, is_recursive })
}

/// Returns the servers of the zone of a name: the nearest name above it that has some.
fn servers_of_zone(name: &str, resolvers: &Resolvers) -> Result<Vec<Server>, String> {
    let mut zone = name;
    loop {
        let found = resolvers.ask(zone, RecordKind::Ns)?;
        let names = values(found, Some(zone), RecordKind::Ns);
        if !names.is_empty() {
            return Ok(names.into_iter().take(SERVERS_MAX).map(server_of_zone).collect());
        }
        let Some((_, above)) = zone.split_once('.') else {
            return Err(format!("no zone has the name {name}"));
        };
        zone = above;
    }
}

/// Looks up a server's addresses; without one it counts as a server that does not answer.
fn server_of_zone(name: String) -> Server {
    let addresses = host_names::addresses(&name, PORT);
    let addresses = addresses.inspect_err(|e| tracing::debug!("{name}: {e}")).unwrap_or_default();
    Server { name, addresses }
}

#[cfg(test)]
mod tests {
    use super::super::dns::tests::Zone;
    use super::*;

    const NAME: &str = "_acme-challenge.a.test";

    fn hook(zones: &[&Zone]) -> DnsHook {
        DnsHook {
            program: "/bin/true".into(),
            timeout: Duration::ZERO,
            resolvers: zones.iter().map(|zone| zone.address).collect(),
        }
    }

    #[test]
    fn all_servers_must_have_the_value() {
        let first = Zone::start(&[(NAME, RecordKind::Txt, "other")], false);
        let second = Zone::start(&[(NAME, RecordKind::Txt, "value")], false);
        let hook = hook(&[&first, &second]);
        let missing = format!("the DNS server {} has no such record", first.address);
        let found = wait(&format!("{NAME}."), "value", &hook).unwrap_err();
        assert!(found.contains(&missing), "{found}");
        first.add(NAME, RecordKind::Txt, "value");
        wait(&format!("{NAME}."), "value", &hook).unwrap();
    }

    #[test]
    fn aliases_lead_to_the_record() {
        let zone = Zone::start(
            &[
                (NAME, RecordKind::Cname, "a.dns.test"),
                ("a.dns.test", RecordKind::Cname, "b.dns.test"),
                ("b.dns.test", RecordKind::Txt, "value"),
            ],
            false,
        );
        wait(&format!("{NAME}."), "value", &hook(&[&zone])).unwrap();
    }

    #[test]
    fn the_nearest_zone_above_a_name_is_asked() {
        let zone = Zone::start(
            &[
                ("test", RecordKind::Ns, "192.0.2.1"),
                ("a.test", RecordKind::Ns, "127.0.0.1"),
                ("a.test", RecordKind::Ns, "127.0.0.2"),
            ],
            false,
        );
        let resolvers = Resolvers::of(&[zone.address]).unwrap();
        let servers = servers_of_zone(NAME, &resolvers).unwrap();
        let found: Vec<_> = servers.into_iter().flat_map(|server| server.addresses).collect();
        let expected = ["127.0.0.1:53", "127.0.0.2:53"].map(|text| text.parse().unwrap());
        assert_eq!(found, expected);
        let found = servers_of_zone("a.b.example", &resolvers).unwrap_err();
        assert_eq!(found, "no zone has the name a.b.example");
    }

    #[test]
    fn servers_that_do_not_answer_do_not_count_unless_none_does() {
        let zone = Zone::start(&[(NAME, RecordKind::Txt, "value")], false);
        let server = |name: &str, addresses: &[SocketAddr]| Server {
            name: name.to_owned(),
            addresses: addresses.to_vec(),
        };
        let (gone, alive) = (server("ns1.test", &[]), server("ns2.test", &[zone.address]));
        let check = |servers: &[Server]| {
            let target =
                Target { name: NAME.to_owned(), servers: servers.to_vec(), is_recursive: false };
            check(NAME, "value", &hook(&[]), &mut Some(target))
        };
        assert_eq!(check(&[gone.clone(), alive]), Ok(()));
        let found = check(&[gone]).unwrap_err();
        assert!(found.starts_with("none of its DNS servers (ns1.test) answers"), "{found}");
    }
}
