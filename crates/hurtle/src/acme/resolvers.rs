//! Resolvers, and the name that must have the record of a challenge. Calls block.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::dns::{self, Record, RecordKind, values};

/// File with the system's resolvers (resolv.conf(5)), and how many of them it may name.
const RESOLVERS_FILE: &str = "/etc/resolv.conf";
const RESOLVERS_MAX: usize = 3;

/// Longest chain of aliases.
const ALIASES_MAX: usize = 8;

/// Port of the DNS.
const PORT: u16 = 53;

/// Servers that ask others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolvers(Vec<SocketAddr>);

impl Resolvers {
    /// The configured resolvers; the system's if there are none.
    ///
    /// # Errors
    /// The system's cannot be read.
    pub(crate) fn of(configured: &[SocketAddr]) -> Result<Resolvers, String> {
        if !configured.is_empty() {
            return Ok(Resolvers(configured.to_vec()));
        }
        let text = fs::read_to_string(RESOLVERS_FILE);
        let text = text.map_err(|e| {
            format!("{RESOLVERS_FILE}: {e}; without it, name resolvers in dns_resolvers")
        })?;
        Ok(Resolvers(parse(&text)))
    }

    /// Asks the first resolver that answers.
    pub(super) fn ask(&self, name: &str, kind: RecordKind) -> Result<Vec<Record>, String> {
        let mut failure = "there is no resolver".to_owned();
        for resolver in &self.0 {
            match dns::ask(*resolver, name, kind, true) {
                Ok(records) => return Ok(records),
                Err(e) => {
                    failure = format!("the resolver {resolver} has no answer for {name}: {e}");
                }
            }
        }
        Err(failure)
    }

    /// Returns the name, without the root's dot, to which aliases (CNAME) of a challenge's name
    /// lead. It may be in another zone, to which the hook has access.
    ///
    /// # Errors
    /// Every resolver fails, or too many aliases follow each other.
    pub(crate) fn record_name(&self, fqdn: &str) -> Result<String, String> {
        let own = fqdn.trim_end_matches('.').to_ascii_lowercase();
        let mut name = own.clone();
        for _ in 0..ALIASES_MAX {
            match self.alias(&name)? {
                Some(next) if name == own && self.is_alias_of_all(&own, &next)? => return Ok(own),
                Some(next) => name = next,
                None => return Ok(name),
            }
        }
        Err(format!("its chain of aliases is longer than {ALIASES_MAX}"))
    }

    fn alias(&self, name: &str) -> Result<Option<String>, String> {
        let found = self.ask(name, RecordKind::Cname)?;
        Ok(values(found, Some(name), RecordKind::Cname).pop())
    }

    /// `true`: a wildcard record gives the alias to each name that does not exist. The record of
    /// the challenge, once written, then takes its place (RFC 4592 section 2.2.1).
    fn is_alias_of_all(&self, name: &str, alias: &str) -> Result<bool, String> {
        let Some((label, above)) = name.split_once('.') else { return Ok(false) };
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|e| e.to_string())?;
        let other = format!("{label}-{:08x}.{above}", u32::from_be_bytes(random));
        Ok(self.alias(&other)?.as_deref() == Some(alias))
    }
}

/// Parses resolv.conf(5); without a resolver it is this machine.
fn parse(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        let is_resolver = words.next() == Some("nameserver");
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

    #[test]
    fn aliases_are_followed_unless_a_wildcard_gives_them_to_all_names() {
        let zone = Zone::start(
            &[
                ("_acme-challenge.a.test", RecordKind::Cname, "b.dns.test"),
                ("b.dns.test", RecordKind::Cname, "c.dns.test"),
                ("*.wild.test", RecordKind::Cname, "www.test"),
                ("_acme-challenge.own.wild.test", RecordKind::Cname, "own.dns.test"),
                ("_acme-challenge.loop.test", RecordKind::Cname, "_acme-challenge.loop.test"),
            ],
            false,
        );
        let resolvers = Resolvers::of(&[zone.address]).unwrap();
        let table = [
            ("no alias", "_acme-challenge.test.", "_acme-challenge.test"),
            ("two in a row", "_acme-challenge.A.test.", "c.dns.test"),
            ("a wildcard's", "_acme-challenge.wild.test.", "_acme-challenge.wild.test"),
            ("its own beside a wildcard's", "_acme-challenge.own.wild.test.", "own.dns.test"),
        ];
        for (sentence, fqdn, expected) in table {
            assert_eq!(resolvers.record_name(fqdn).as_deref(), Ok(expected), "{sentence}");
        }
        let found = resolvers.record_name("_acme-challenge.loop.test.").unwrap_err();
        assert!(found.contains("chain of aliases"), "{found}");
    }

    #[test]
    fn the_systems_resolvers_are_read() {
        let table = [
            ("none", "", vec!["127.0.0.1:53"]),
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
            let found: Vec<_> = parse(text).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{sentence}");
        }
    }
}
