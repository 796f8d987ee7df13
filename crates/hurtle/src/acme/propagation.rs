//! Waits until the servers of a zone have a record, before the authority is asked to validate it: the
//! authority's resolvers may keep an answer without it. Calls block.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use super::dns::{self, Record, RecordKind};
use crate::config::DnsHook;
use crate::rt::host_names;

/// Time between two rounds of questions.
const PERIOD: Duration = Duration::from_secs(1);

/// File with the system's resolvers (resolv.conf(5)), and how many of them it may name.
const RESOLVERS_FILE: &str = "/etc/resolv.conf";
const RESOLVERS_MAX: usize = 3;

/// Longest chain of aliases.
const ALIASES_MAX: usize = 8;

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
    let resolvers = match is_recursive {
        true => hook.resolvers.clone(),
        false => system_resolvers()?,
    };
    let name = follow_aliases(fqdn.trim_end_matches('.'), &resolvers)?;
    let servers = match is_recursive {
        true => {
            let server = |address: &SocketAddr| Server {
                name: address.to_string(),
                addresses: vec![*address],
            };
            resolvers.iter().map(server).collect()
        }
        false => servers_of_zone(&name, &resolvers)?,
    };
    Ok(Target { name, servers, is_recursive })
}

/// Returns the name that has the record: `_acme-challenge` may be an alias (CNAME) of a name in another
/// zone, to which the hook has access.
fn follow_aliases(name: &str, resolvers: &[SocketAddr]) -> Result<String, String> {
    let mut name = name.to_ascii_lowercase();
    for _ in 0..ALIASES_MAX {
        let found = ask_any(resolvers, &name, RecordKind::Cname)?;
        match values(found, Some(&name), RecordKind::Cname).pop() {
            Some(next) => name = next,
            None => return Ok(name),
        }
    }
    Err(format!("its chain of aliases is longer than {ALIASES_MAX}"))
}

/// Returns the servers of the zone of a name: the nearest name above it that has some.
fn servers_of_zone(name: &str, resolvers: &[SocketAddr]) -> Result<Vec<Server>, String> {
    let mut zone = name;
    loop {
        let found = ask_any(resolvers, zone, RecordKind::Ns)?;
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

/// Asks the first resolver that answers.
fn ask_any(resolvers: &[SocketAddr], name: &str, kind: RecordKind) -> Result<Vec<Record>, String> {
    let mut failure = "there is no resolver".to_owned();
    for resolver in resolvers {
        match dns::ask(*resolver, name, kind, true) {
            Ok(records) => return Ok(records),
            Err(e) => failure = format!("the resolver {resolver} has no answer for {name}: {e}"),
        }
    }
    Err(failure)
}

/// Values of records of one kind, of a name or of all.
fn values(records: Vec<Record>, owner: Option<&str>, kind: RecordKind) -> Vec<String> {
    let is_meant =
        |record: &Record| record.kind == kind && owner.is_none_or(|owner| record.owner == owner);
    records.into_iter().filter(is_meant).map(|record| record.value).collect()
}

/// Reads the system's resolvers.
fn system_resolvers() -> Result<Vec<SocketAddr>, String> {
    let text = fs::read_to_string(RESOLVERS_FILE);
    let text = text.map_err(|e| {
        format!("{RESOLVERS_FILE}: {e}; without it, name resolvers in dns_resolvers")
    })?;
    Ok(parse_resolvers(&text))
}

/// Parses resolv.conf(5); without a resolver it is this machine.
fn parse_resolvers(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        let is_resolver = words.next() == Some("nameserver");
        // The zone of a link-local address is left out with it.
        let address = words.next().filter(|_| is_resolver)?.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(address, PORT))
    };
    let mut found: Vec<_> = text.lines().filter_map(address).take(RESOLVERS_MAX).collect();
    if found.is_empty() {
        found.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    found
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
        first.add((NAME, RecordKind::Txt, "value"));
        wait(&format!("{NAME}."), "value", &hook).unwrap();
    }

    #[test]
    fn aliases_lead_to_the_record_and_loops_end() {
        let zone = Zone::start(
            &[
                (NAME, RecordKind::Cname, "a.dns.test"),
                ("a.dns.test", RecordKind::Cname, "b.dns.test"),
                ("b.dns.test", RecordKind::Txt, "value"),
                ("loop.test", RecordKind::Cname, "loop.test"),
            ],
            false,
        );
        wait(&format!("{NAME}."), "value", &hook(&[&zone])).unwrap();
        let found = follow_aliases("loop.test", &[zone.address]).unwrap_err();
        assert!(found.contains("chain of aliases"), "{found}");
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
        let servers = servers_of_zone(NAME, &[zone.address]).unwrap();
        let found: Vec<_> = servers.into_iter().flat_map(|server| server.addresses).collect();
        let expected = ["127.0.0.1:53", "127.0.0.2:53"].map(|text| text.parse().unwrap());
        assert_eq!(found, expected);
        let found = servers_of_zone("a.b.example", &[zone.address]).unwrap_err();
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

    #[test]
    fn the_systems_resolvers_are_read() {
        let addresses = |text: &str| -> Vec<String> {
            parse_resolvers(text).iter().map(ToString::to_string).collect()
        };
        let table = [
            ("empty", "", vec!["127.0.0.1:53"]),
            (
                "two",
                "search a\nnameserver 192.0.2.1 # b\nnameserver\t::1\n",
                vec!["192.0.2.1:53", "[::1]:53"],
            ),
            (
                "a comment and an unknown address",
                "#nameserver 192.0.2.1\nnameserver x\nnameserver 192.0.2.2",
                vec!["192.0.2.2:53"],
            ),
        ];
        for (sentence, text, expected) in table {
            assert_eq!(addresses(text), expected, "{sentence}");
        }
    }
}
