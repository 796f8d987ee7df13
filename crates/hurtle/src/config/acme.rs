//! Certificates from authorities by themselves (ACME): from whom, on what conditions, and where they
//! are kept. Which sites have them is said in their `[site.tls]`.

use std::path::PathBuf;

use http::Uri;

use super::names::Named;
use super::problem::{Wrong, shown};
use super::reader::Reader;
use super::table::Table;
use super::types::{Config, HostName, Site};
use super::value::Value;
use crate::sys;

/// Where a server that gives up root keeps what it gets.
const SYSTEM_STORAGE: &str = "/var/lib/hurtle/acme";

/// Let's Encrypt, for the world's names, without an account made elsewhere.
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// What authorities put in one certificate at most.
const NAMES_MAX: usize = 100;

/// How certificates are got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// Whom authorities may write to.
    pub email: Option<String>,
    /// The directory of keys, certificates and what is under way; several servers may share it.
    pub storage: PathBuf,
    /// How names are shown to be this server's; taken in turns.
    pub challenges: Vec<ChallengeKind>,
    /// At least one; each is asked if those before it fail.
    pub authorities: Vec<Authority>,
}

/// An authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The URL of its directory (RFC 8555 7.1.1).
    pub directory: String,
    /// The account with it that was made elsewhere (RFC 8555 7.3.4).
    pub binding: Option<Binding>,
    /// PEM: what its own certificate is verified by, beside the system's roots.
    pub root: Option<PathBuf>,
}

/// An account made elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its key identifier.
    pub id: String,
    /// The file with its key, in base64url.
    pub key: PathBuf,
}

/// How a name is shown to be this server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// In a handshake (RFC 8737), on port 443.
    TlsAlpn01,
    /// With a file (RFC 8555 8.3), on port 80.
    Http01,
}

impl Default for Authority {
    fn default() -> Authority {
        Authority { directory: DIRECTORY.to_owned(), binding: None, root: None }
    }
}

/// Reads `[acme]` into a configuration whose sites and listeners are known.
pub(super) fn acme(top: &Table<'_>, config: &mut Config, reader: &mut Reader<'_>) {
    let automatic = config.sites.iter().any(|site| site.tls.as_ref().is_some_and(|t| t.automatic));
    let Some(written) = top.get("acme") else {
        if automatic {
            let wrong = Wrong::new("a certificate is \"auto\", but nothing says on what terms");
            let hint = "read the authority's and write acme = { accept_terms = true } at the top";
            reader.report_missing(&top.spot, wrong.hint(hint));
        }
        return;
    };
    if !automatic {
        let wrong = Wrong::new("no site gets its certificate this way");
        written.wrong(reader, wrong.hint("write certificate = \"auto\" in a [site.tls]"));
    }
    let Some(table) = written.table(reader) else { return };
    let has_clear = !config.listen.is_empty();
    let Some(acme) = read(&table, has_clear, config.user.is_some(), reader) else { return };
    for site in &mut config.sites {
        let file = site.hosts.first().map(|name| acme.file(&name.to_string()));
        if let (Some(tls), Some(file)) = (site.tls.as_mut().filter(|tls| tls.automatic), file) {
            tls.certificates = vec![super::CertificateFiles { chain: file.clone(), key: file }];
        }
    }
    config.acme = Some(acme);
}

impl Acme {
    /// Where the certificate of the site with this first name is, behind its key.
    pub fn file(&self, name: &str) -> PathBuf {
        self.storage.join(format!("{name}.pem"))
    }
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
            let wrong = Wrong::new("authorities issue to those who accept their terms");
            written.wrong(reader, wrong.hint("read them, and write true; or use files"));
        }
        Some(_) => {}
        None => {
            let wrong = Wrong::new("accept_terms is missing");
            let hint = "read the authority's terms, and write accept_terms = true";
            reader.report_missing(&table.spot, wrong.hint(hint));
        }
    }
    let email = table.get("email").and_then(|value| value.parse(reader, email));
    let system = || has_user.then(|| PathBuf::from(SYSTEM_STORAGE));
    let own = || sys::data_dir().map(|dir| dir.join("hurtle/acme"));
    let storage = match table.get("storage") {
        Some(written) => written.path(reader),
        None => system().or_else(own),
    };
    if storage.is_none() && table.get("storage").is_none() {
        let wrong = Wrong::new("there is no HOME to keep certificates in");
        reader.report_missing(&table.spot, wrong.hint("write storage = \"/var/lib/hurtle/acme\""));
    }
    let challenges = challenges(table, has_clear, reader);
    let authorities = match table.get("authority") {
        None => vec![Authority::default()],
        Some(written) => {
            if written.is_empty_list() {
                let hint = "leave the key out for Let's Encrypt";
                written.wrong(reader, Wrong::new("no authority").hint(hint));
            }
            written.tables(reader).iter().filter_map(|table| authority(table, reader)).collect()
        }
    };
    Some(Acme { email, storage: storage?, challenges, authorities })
}

fn challenges(table: &Table<'_>, has_clear: bool, reader: &mut Reader<'_>) -> Vec<ChallengeKind> {
    let Some(written) = table.get("challenge") else {
        let possible = |kind: &ChallengeKind| *kind != ChallengeKind::Http01 || has_clear;
        return {
            let all = ChallengeKind::NAMES.iter().map(|(_, kind)| *kind);
            all.filter(possible).collect()
        };
    };
    let kinds: Vec<ChallengeKind> = written.list(reader, Value::choice);
    if written.is_empty_list() {
        written.wrong(reader, Wrong::new("no challenge").hint("leave the key out for both"));
    }
    if kinds.contains(&ChallengeKind::Http01) && !has_clear {
        let wrong = Wrong::new("http-01 comes in clear, where nothing listens");
        written.wrong(reader, wrong.hint("write listen = \"0.0.0.0:80\" at the top of the file"));
    }
    kinds
}

fn authority(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Authority> {
    table.check_companions(reader);
    let root = table.get("root").and_then(|value| value.path(reader));
    let id = table.get("eab_id").and_then(|value| value.text(reader).map(str::to_owned));
    let key = table.get("eab_key").and_then(|value| value.path(reader));
    let Some(written) = table.get("directory") else {
        let wrong = Wrong::new("directory is missing");
        reader.report_missing(&table.spot, wrong.hint(format!("write for example {DIRECTORY:?}")));
        return None;
    };
    let directory = written.parse(reader, directory)?;
    let binding = id.zip(key).map(|(id, key)| Binding { id, key });
    Some(Authority { directory, binding, root })
}

/// RFC 8555 6.1: over HTTPS.
fn directory(text: &str) -> Result<String, Wrong> {
    let uri = text.parse::<Uri>().ok();
    let is_https = |uri: &Uri| uri.scheme_str() == Some("https") && uri.host().is_some();
    match uri.filter(is_https) {
        Some(_) => Ok(text.to_owned()),
        None => Err(Wrong::new(format!("{} is no https URL", shown(text)))
            .hint(format!("write for example {DIRECTORY:?}"))),
    }
}

fn email(text: &str) -> Result<String, Wrong> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains([':', ',']);
    match text.split_once('@') {
        Some((user, host)) if is_plain && !user.is_empty() && !host.is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err(Wrong::new(format!("{} is no e-mail address", shown(text)))
            .hint("write for example \"admin@example.org\"")),
    }
}

/// Whether authorities issue for a site's names by what is there to show that they are its.
pub(super) fn check_names(site: &Site, written: &Value<'_>, reader: &mut Reader<'_>) {
    let is_name = |host: &HostName| match host {
        HostName::Exact(name) => {
            !name.starts_with('[') && name.parse::<std::net::Ipv4Addr>().is_err()
        }
        HostName::Wildcard(_) => false,
    };
    if let Some(other) = site.hosts.iter().find(|host| !is_name(host)) {
        let wrong = Wrong::new(format!("no certificate for {other} can be got this way"));
        written.wrong(reader, wrong.hint("name it in a site of its own, with a PEM file"));
    } else if site.hosts.is_empty() {
        let wrong = Wrong::new("there is no name to get a certificate for");
        written.wrong(reader, wrong.hint("write hosts = \"example.org\""));
    } else if site.hosts.len() > NAMES_MAX {
        let wrong = Wrong::new(format!("one certificate is for {NAMES_MAX} names at most"));
        written.wrong(reader, wrong.hint("write several sites"));
    }
}
