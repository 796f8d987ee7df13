//! Settings of automatic certificates (ACME): authorities, challenges and storage. A site opts in
//! by its `[site.tls]`.

use std::path::PathBuf;

use http::Uri;
use serde::Serialize;

use super::dns_hook::{DnsHook, dns_hook};
use super::error::{ValueError, shown};
use super::local::{address, is_in_local_domain, is_local, is_within};
use super::names::Named;
use super::print;
use super::reader::Reader;
use super::schema::Kind::Text;
use super::settings::{ALWAYS, settings};
use super::table::Table;
use super::tls::Tls;
use super::types::{Config, HostName, Site};
use super::value::Value;
use crate::data_dir::data_dir;

/// Default storage of a server that gives up root.
const SYSTEM_STORAGE: &str = "/var/lib/hurtle/acme";

/// Let's Encrypt's directory; it needs no account made elsewhere.
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Most names that authorities put in one certificate.
const NAMES_MAX: usize = 100;

/// Names that no certificate is for, beside those of private networks (RFC 6761, RFC 7686).
const RESERVED_DOMAINS: [&str; 3] = ["example", "invalid", "onion"];

/// Settings of automatic certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Acme {
    /// Address to which authorities may send mail.
    pub email: Option<String>,
    /// Directory of accounts, keys, certificates and pending challenges; several servers may share
    /// it.
    #[serde(serialize_with = "print::path")]
    pub storage: PathBuf,
    /// The hook that writes records for `dns-01`, the only challenge if it is set.
    #[serde(flatten)]
    pub dns: Option<DnsHook>,
    /// Challenge types; each attempt uses the next one.
    #[serde(rename = "challenge")]
    pub challenges: Vec<ChallengeKind>,
    /// Authorities in order of preference, at least one; the next is used when one fails.
    #[serde(rename = "authority")]
    pub authorities: Vec<Authority>,
}

settings! {
    /// A certificate authority with the ACME protocol (RFC 8555), and an account with it that was
    /// made elsewhere (section 7.3.4).
    #[derive(Eq)]
    pub struct Authority: AUTHORITY_KEYS with ALWAYS {
        /// Profile of the certificates, one of those that the authority names in its directory,
        /// such as Let's Encrypt's `tlsserver`, or `shortlived` for six days.
        profile: Option<String> = None, Text("a word"), "\"shortlived\"",
            or "the authority's choice", by word;
        /// Key identifier of the external account.
        eab_id: Option<String> = None, Text("a word"), "\"kid-1\"",
            or "none", with &["eab_key"], by word;
        /// File with the HMAC key of the external account, in base64url as the authority gives it;
        /// read when the server starts.
        #[serde(serialize_with = "print::optional_path")]
        eab_key: Option<PathBuf> = None, Text("a file"), "\"eab.key\"",
            or "none", with &["eab_id"], by |v, r| v.file(r).map(Some);
        /// Additional root that verifies the authority's own certificate, for a private authority.
        #[serde(serialize_with = "print::optional_path")]
        root: Option<PathBuf> = None, Text("a PEM file"), "\"root.pem\"",
            or "the system's roots only", by |v, r| v.file(r).map(Some);
    }
    beside {
        /// URL of its directory (RFC 8555 section 7.1.1).
        directory: String = DIRECTORY.to_owned();
    }
}

/// A way to prove control of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A TLS handshake on port 443 (RFC 8737).
    TlsAlpn01,
    /// A request in clear on port 80 (RFC 8555 section 8.3).
    Http01,
    /// A TXT record in the DNS (RFC 8555 section 8.4).
    Dns01,
}

/// Reads `[acme]` into a configuration whose sites and listeners are known.
pub(super) fn acme(top: &Table<'_>, config: &mut Config, reader: &mut Reader<'_>) {
    let automatic = config.sites.iter().any(|site| site.tls.as_ref().is_some_and(Tls::uses_acme));
    let Some(written) = top.get("acme") else {
        if automatic {
            let wrong = ValueError::new(
                "a certificate is \"auto\", but the authority's terms are not accepted",
            );
            let hint = "read the terms and write acme = { accept_terms = true } at the top";
            reader.report_missing(&top.spot, wrong.hint(hint));
        }
        return;
    };
    if !automatic {
        let wrong = ValueError::new("no site has an automatic certificate");
        written.report(reader, wrong.hint("write certificate = \"auto\" in a [site.tls]"));
    }
    let Some(table) = written.table(reader) else { return };
    if table.get("authority").is_none() {
        for (spot, wrong) in std::mem::take(&mut reader.private_names) {
            reader.report(&spot, wrong);
        }
    }
    let has_clear = !config.listen.is_empty();
    let unfit = match table.get("dns_hook") {
        None => std::mem::take(&mut reader.wildcard_names),
        Some(_) => std::mem::take(&mut reader.addresses),
    };
    for (spot, wrong) in unfit {
        reader.report(&spot, wrong);
    }
    let Some(acme) = read(&table, has_clear, config.user.is_some(), reader) else { return };
    let names: Vec<String> =
        (0..config.sites.len()).map(|at| certificate_name(&config.sites, at)).collect();
    for (site, name) in config.sites.iter_mut().zip(names) {
        if let Some(tls) = site.tls.as_mut().filter(|tls| tls.is_automatic()) {
            let file = acme.file(&name);
            tls.certificates = vec![super::CertificateFiles { chain: file.clone(), key: file }];
        }
    }
    config.acme = Some(acme);
}

/// The name of a site's automatic certificate, which its files have: the first of the site's names.
/// A later site with the same first name and other names, at another listener, has a certificate
/// with a name of its own.
pub fn certificate_name(sites: &[Site], number: usize) -> String {
    let site = &sites[number];
    let is_other = |other: &Site| {
        let is_automatic = other.tls.as_ref().is_some_and(Tls::is_automatic);
        is_automatic && other.hosts.first() == site.hosts.first() && other.hosts != site.hosts
    };
    match sites[..number].iter().any(is_other) {
        true => site.name().replace('/', "_"),
        false => site.hosts.first().map(ToString::to_string).unwrap_or_default(),
    }
}

impl Acme {
    /// Path of the key and certificate of this name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.storage.join(format!("{}.pem", file_stem(name)))
    }
}

/// The name of a site's files in the storage, without an extension. Shells expand `*`, so the files
/// of `*.example.org` are called `_.example.org`.
pub fn file_stem(name: &str) -> String {
    name.replacen("*.", "_.", 1)
}

fn read(
    table: &Table<'_>,
    has_clear: bool,
    has_user: bool,
    reader: &mut Reader<'_>,
) -> Option<Acme> {
    table.check_companions(reader);
    match table.get("accept_terms") {
        Some(written) if written.flag(reader) == Some(false) => {
            let wrong =
                ValueError::new("authorities issue certificates only if their terms are accepted");
            written
                .report(reader, wrong.hint("read them and write true, or use certificate files"));
        }
        Some(_) => {}
        None => {
            let wrong = ValueError::new("accept_terms is missing");
            let hint = "read the authority's terms, and write accept_terms = true";
            reader.report_missing(&table.spot, wrong.hint(hint));
        }
    }
    let email = table.get("email").and_then(|value| value.parse(reader, email));
    let system = || has_user.then(|| PathBuf::from(SYSTEM_STORAGE));
    let own = || data_dir().map(|dir| dir.join("hurtle/acme"));
    let storage = match table.get("storage") {
        Some(written) => written.path(reader),
        None => system().or_else(own),
    };
    if storage.is_none() && table.get("storage").is_none() {
        let wrong = ValueError::new("there is no HOME to store certificates in");
        reader.report_missing(&table.spot, wrong.hint("write storage = \"/var/lib/hurtle/acme\""));
    }
    let dns = dns_hook(table, reader);
    let challenges = challenges(table, has_clear, reader);
    let authorities = match table.get("authority") {
        None => vec![Authority::default()],
        Some(written) => {
            if written.is_empty_list() {
                let hint = "leave the key out for Let's Encrypt";
                written.report(reader, ValueError::new("no authority").hint(hint));
            }
            written.tables(reader).iter().filter_map(|table| authority(table, reader)).collect()
        }
    };
    Some(Acme { email, storage: storage?, dns, challenges, authorities })
}

fn challenges(table: &Table<'_>, has_clear: bool, reader: &mut Reader<'_>) -> Vec<ChallengeKind> {
    let by_dns = table.get("dns_hook").is_some();
    let Some(written) = table.get("challenge") else {
        let possible = |kind: &ChallengeKind| match kind {
            ChallengeKind::Dns01 => by_dns,
            ChallengeKind::Http01 => has_clear && !by_dns,
            ChallengeKind::TlsAlpn01 => !by_dns,
        };
        return {
            let all = ChallengeKind::NAMES.iter().map(|(_, kind)| *kind);
            all.filter(possible).collect()
        };
    };
    let kinds: Vec<ChallengeKind> = written.list(reader, Value::choice);
    if written.is_empty_list() {
        written.report(reader, ValueError::new("no challenge").hint("leave the key out for all"));
    }
    let is_dns = |kind: &ChallengeKind| *kind == ChallengeKind::Dns01;
    if by_dns && !kinds.iter().all(is_dns) {
        let wrong = ValueError::new("with dns_hook, every name is validated by dns-01");
        written.report(reader, wrong.hint("leave the key out"));
    } else if !by_dns && kinds.iter().any(is_dns) {
        let wrong = ValueError::new("dns-01 needs a program that writes records");
        written.report(reader, wrong.hint("write dns_hook = \"/etc/hurtle/dns-hook\""));
    }
    if kinds.contains(&ChallengeKind::Http01) && !has_clear {
        let wrong = ValueError::new("http-01 needs a listener in clear, and there is none");
        written.report(reader, wrong.hint("write listen = \"0.0.0.0:80\" at the top of the file"));
    }
    kinds
}

fn authority(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Authority> {
    table.check_companions(reader);
    let authority = Authority::read(table, reader);
    let Some(written) = table.get("directory") else {
        let wrong = ValueError::new("directory is missing");
        reader.report_missing(&table.spot, wrong.hint(format!("write for example {DIRECTORY:?}")));
        return None;
    };
    Some(Authority { directory: written.parse(reader, directory)?, ..authority })
}

fn word(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Option<String>> {
    value.text(reader).map(|text| Some(text.to_owned()))
}

/// Parses a directory URL; only https is allowed (RFC 8555 section 6.1).
fn directory(text: &str) -> Result<String, ValueError> {
    let uri = text.parse::<Uri>().ok();
    let is_https = |uri: &Uri| uri.scheme_str() == Some("https") && uri.host().is_some();
    match uri.filter(is_https) {
        Some(_) => Ok(text.to_owned()),
        None => Err(ValueError::new(format!("{} is not an https URL", shown(text)))
            .hint(format!("write for example {DIRECTORY:?}"))),
    }
}

fn email(text: &str) -> Result<String, ValueError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains([':', ',']);
    match text.split_once('@') {
        Some((user, host)) if is_plain && !user.is_empty() && !host.is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err(ValueError::new(format!("{} is not an e-mail address", shown(text)))
            .hint("write for example \"admin@example.org\"")),
    }
}

/// `true`: the name is not in the public DNS, so no public authority issues a certificate for it
/// (CA/Browser Forum Baseline Requirements section 4.2.2).
fn is_private(host: &HostName) -> bool {
    let name = match host {
        HostName::Exact(name) if address(name).is_some() => return is_local(host),
        HostName::Exact(name) | HostName::Wildcard(name) => name.as_str(),
        HostName::AnyDomain(_) => return false,
    };
    !name.contains('.')
        || is_in_local_domain(name)
        || RESERVED_DOMAINS.iter().any(|domain| is_within(name, domain))
}

/// Reports names for which no certificate can be issued with the supported challenges.
pub(super) fn check_names(
    site: &Site,
    is_on_demand: bool,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) {
    let is_address =
        |host: &&HostName| matches!(host, HostName::Exact(name) if address(name).is_some());
    // Clients of an address send no name that a certificate could be ordered for on demand.
    let is_issued = |host: &HostName| match host {
        HostName::Exact(_) => !(is_on_demand && is_address(&host)),
        HostName::Wildcard(_) => true,
        HostName::AnyDomain(_) => is_on_demand,
    };
    if let Some(host) = site.hosts.iter().find(is_address) {
        let wrong = ValueError::new(format!("{host} cannot be validated by DNS (RFC 8738)"));
        let hint = "move it to a site of its own with a PEM file, or leave dns_hook out";
        reader.addresses.push((written.spot.clone(), wrong.hint(hint)));
    }
    // On demand, each name has a certificate of its own.
    let is_wildcard = |host: &&HostName| matches!(host, HostName::Wildcard(_)) && !is_on_demand;
    if let Some(host) = site.hosts.iter().find(is_wildcard) {
        let wrong = ValueError::new(format!("{host} can be validated by DNS only"));
        let hint = "write dns_hook in [acme] (docs/https.md), or move it to a site of its own with \
                    a PEM file";
        reader.wildcard_names.push((written.spot.clone(), wrong.hint(hint)));
    }
    if let Some(other) = site.hosts.iter().find(|host| !is_issued(host)) {
        let wrong = ValueError::new(format!("no automatic certificate can be issued for {other}"));
        written.report(reader, wrong.hint("move it to a site of its own with a PEM file"));
    } else if let Some(private) = site.hosts.iter().find(|host| is_private(host)) {
        let wrong =
            ValueError::new(format!("no public authority issues a certificate for {private}"));
        let hint = "write certificate = \"local\" for one of this server's own authority, name an \
                    [[acme.authority]] of your own that does, or a certificate with its key";
        reader.private_names.push((written.spot.clone(), wrong.hint(hint)));
    } else if is_on_demand {
        // Any number of names, also none.
    } else if site.hosts.is_empty() {
        let wrong = ValueError::new("an automatic certificate needs a host name");
        written.report(reader, wrong.hint("write hosts = \"example.org\""));
    } else if site.hosts.len() > NAMES_MAX {
        let wrong = ValueError::new(format!("a certificate has at most {NAMES_MAX} names"));
        written.report(reader, wrong.hint("split the site"));
    }
}
