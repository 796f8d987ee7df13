//! Settings of local certificates: the names that the local authority may sign for, and its
//! directory. `hurtle::tls` has the authority itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::error::ValueError;
use super::reader::Reader;
use super::schema::DefaultValue::Words;
use super::schema::Key;
use super::schema::Kind::Text;
use super::table::Table;
use super::tls::{CertificateFiles, CertificateSource};
use super::types::{Config, HostName, Site};
use super::value::Value;
use crate::data_dir::data_dir;

/// Value of `certificate` that requests one of the local authority. A file of that name is
/// `./local`.
pub(super) const LOCAL: &str = "local";

/// Default directory of a server that gives up root.
const SYSTEM_DIRECTORY: &str = "/var/lib/hurtle/local";

/// Domains for private use: RFC 6761, RFC 6762 with its appendix G, RFC 8375, `.internal`, which
/// ICANN reserves, and `.lab`, which is not delegated.
pub const LOCAL_DOMAINS: [&str; 12] = [
    "localhost",
    "local",
    "test",
    "home.arpa",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "lab",
    "localdomain",
];

/// Networks for private use: RFC 1918, RFC 6598 (shared, also used by overlay networks), loopback
/// and link-local addresses, RFC 4193.
pub const LOCAL_NETWORKS: [IpNet; 9] = [
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([100, 64, 0, 0], 10),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix))
}

#[rustfmt::skip] // One paragraph for each key.
pub(super) const LOCAL_AUTHORITY: Key = Key::new("local_authority", Text("a directory"), Words(
    "where a certificate is `\"local\"`: `hurtle` in the user's data directory; with `user`: \
     `/var/lib/hurtle/local`"),
    "\"/var/lib/hurtle/local\"",
    "Directory of the local certificate authority and of the certificates with \
     `certificate = \"local\"`. Servers can share it. See [https.md](https.md#a-private-network).");

/// Reads the directory into a configuration whose sites are known.
pub(super) fn local_authority(top: &Table<'_>, config: &mut Config, reader: &mut Reader<'_>) {
    let written = top.get("local_authority");
    let is_used = config.sites.iter().any(|site| {
        site.tls.as_ref().is_some_and(|tls| matches!(tls.source, CertificateSource::Local(_)))
    });
    if !is_used {
        if let Some(written) = written {
            let wrong = ValueError::new("no site has a local certificate");
            let hint = "write certificate = \"local\" in a [site.tls], or remove it";
            written.report(reader, wrong.hint(hint));
        }
        return;
    }
    let system = || config.user.is_some().then(|| PathBuf::from(SYSTEM_DIRECTORY));
    let directory = match &written {
        Some(written) => written.path(reader),
        None => system().or_else(own_directory),
    };
    if directory.is_none() && written.is_none() {
        let wrong = ValueError::new("there is no HOME for a local certificate authority");
        let hint = "write local_authority = \"/var/lib/hurtle/local\"";
        reader.report_missing(&top.spot, wrong.hint(hint));
    }
    if let Some(directory) = directory {
        config.set_local_authority(&directory);
    }
}

/// The directory of a user's own authority; `None` without a home.
pub fn own_directory() -> Option<PathBuf> {
    data_dir().map(|dir| dir.join("hurtle"))
}

impl Config {
    /// Sets the directory of the local authority, for all sites that use it.
    pub(super) fn set_local_authority(&mut self, directory: &Path) {
        for site in &mut self.sites {
            let file = certificate_file(directory, &site.hosts);
            let Some(tls) = &mut site.tls else { continue };
            if let CertificateSource::Local(of_site) = &mut tls.source {
                directory.clone_into(of_site);
                tls.certificates = vec![CertificateFiles { chain: file.clone(), key: file }];
            }
        }
        self.local_authority = Some(directory.to_owned());
    }
}

/// Path of the key and certificate for these names. Servers with different names can share the
/// directory, so the file's name depends on all of them.
pub fn certificate_file(directory: &Path, hosts: &[HostName]) -> PathBuf {
    let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let first = names.first().map_or("localhost", |name| name.trim_start_matches("*."));
    let number = xxhash_rust::xxh3::xxh3_64(names.join(",").as_bytes()) >> 32;
    directory.join(format!("site-{}-{number:08x}.pem", first.trim_matches(['[', ']'])))
}

/// Reports names for which the local authority may not sign.
pub(super) fn check_names(site: &Site, written: &Value<'_>, reader: &mut Reader<'_>) {
    let Some(public) = site.hosts.iter().find(|host| !is_local(host)) else { return };
    let wrong = match public {
        HostName::Wildcard(suffix) if !suffix.contains('.') => ValueError::new(format!(
            "{public} may be all of a public domain"
        ))
        .hint("write the names themselves, or names below a private domain such as .internal"),
        HostName::AnyDomain(_) => ValueError::new(format!("{public} may be a public name"))
            .hint("write the names themselves, or name a certificate and its key"),
        HostName::Exact(name) if address(name).is_some() => ValueError::new(format!(
            "{public} is a public address"
        ))
        .hint(
            "the local authority signs for private addresses only; name a certificate and its key",
        ),
        _ => ValueError::new(format!(
            "{public} is a public name, which the local authority does not sign"
        ))
        .hint(
            "write certificate = \"auto\", or name a certificate and its key; private names end \
                 in .internal, .home.arpa, .lan, .local and the like",
        ),
    };
    written.report(reader, wrong);
}

/// `true`: the local authority may sign for this name.
pub fn is_local(host: &HostName) -> bool {
    match host {
        HostName::Exact(name) => match address(name) {
            Some(address) => LOCAL_NETWORKS.iter().any(|network| network.contains(&address)),
            None => is_single_label(host) || is_in_local_domain(name),
        },
        HostName::Wildcard(suffix) => is_in_local_domain(suffix),
        HostName::AnyDomain(_) => false,
    }
}

/// `true` for a name without a dot outside of the local domains. The authority needs a constraint
/// of its own for it.
pub fn is_single_label(host: &HostName) -> bool {
    match host {
        HostName::Exact(name) => {
            address(name).is_none() && !name.contains('.') && !is_in_local_domain(name)
        }
        HostName::Wildcard(_) | HostName::AnyDomain(_) => false,
    }
}

/// The address that a host name is; `None` for a name.
pub fn address(name: &str) -> Option<IpAddr> {
    name.trim_matches(['[', ']']).parse().ok()
}

/// `true`: the name is one of the local domains or below it.
pub(super) fn is_in_local_domain(name: &str) -> bool {
    LOCAL_DOMAINS.iter().any(|domain| is_within(name, domain))
}

/// `true`: the name is the domain or below it.
pub(super) fn is_within(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::super::host::{HostEntry, host_entry};
    use super::*;

    #[test]
    fn private_names_are_told_from_public_ones() {
        let table = [
            ("this machine", "localhost", true),
            ("a name below it", "app.localhost", true),
            ("all names below it", "*.localhost", true),
            ("a single label", "nas", true),
            ("names below a single label, which may be a public domain", "*.media", false),
            ("a home network", "nas.home.arpa", true),
            ("only its end is alike", "nas.thehome.arpa", false),
            ("a lab", "nas.lab", true),
            ("an address", "192.168.1.5", true),
            ("an overlay network", "100.100.1.1", true),
            ("an address behind a public prefix", "172.32.0.1", false),
            ("a public address", "192.0.2.1", false),
            ("loopback", "[::1]", true),
            ("a unique local address", "[fd00::5]", true),
            ("a public IPv6 address", "[2001:db8::1]", false),
            ("a public name", "example.com", false),
            ("a router of a public domain", "fritz.box", false),
        ];
        for (sentence, text, expected) in table {
            let Ok(HostEntry::Name(host)) = host_entry(text) else { panic!("{text}") };
            assert_eq!(is_local(&host), expected, "{sentence}");
        }
    }
}
