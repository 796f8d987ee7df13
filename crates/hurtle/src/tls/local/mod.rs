//! Certificates of a local authority: for `--tls`, and for sites with `certificate = "local"`. They
//! are made when the server starts, and renewed while it runs.
//!
//! An authority is constrained to private names. If none in the directory may sign for a name,
//! another one is made beside: `authority.pem`, `authority-2.pem` and so on. A certificate is
//! signed by the oldest authority that may, because clients trust that one most likely.

mod authority;
mod on_demand;

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::atomic::{give_to_owner, write_atomically};
use super::{IssuedCertificate, Validity};
use crate::config::{Config, HostName, certificate_file, is_single_label};
use authority::{Authority, give, with_path};
pub(super) use on_demand::OnDemand;

/// Authorities in one directory.
const AUTHORITIES_MAX: usize = 100;

/// Domains below which clients accept no wildcard: `home.arpa` is in the Public Suffix List.
const PUBLIC_SUFFIX: &str = "home.arpa";

/// The authorities that have signed the certificates of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Their certificates, which clients must trust, in the order of the sites.
    pub authorities: Vec<PathBuf>,
    /// An authority that was created.
    pub created: Option<NewAuthority>,
}

/// An authority that no client trusts yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAuthority {
    /// File of the authority's certificate.
    pub certificate: PathBuf,
    /// The names that no other authority may sign; empty: there was no other.
    pub names: Vec<String>,
}

impl fmt::Display for NewAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.certificate.display();
        match self.names.is_empty() {
            true => write!(f, "{file}: new local certificate authority")?,
            false => {
                let names = self.names.join(", ");
                write!(f, "{file}: another local certificate authority, for {names}")?;
            }
        }
        write!(f, "; clients must trust it: `hurtle trust`")
    }
}

/// Mode of an authority's directory: others may read its certificates.
pub const DIRECTORY_MODE: u32 = 0o755;

/// Creates the directory of an authority. The keys in it are for its owner only.
///
/// # Errors
/// The directory and the I/O error.
pub fn create_directory(dir: &Path) -> io::Result<()> {
    let created = dir.parent().map_or(Ok(()), fs::create_dir_all);
    let created = created.and_then(|()| match DirBuilder::new().mode(DIRECTORY_MODE).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    });
    created.map_err(|e| with_path(dir, &e))
}

/// Makes the certificates of all sites that need one, and the authorities for them.
///
/// # Errors
/// The directory or file, and the I/O error.
pub fn prepare(config: &Config) -> io::Result<Prepared> {
    match &config.local_authority {
        Some(dir) => prepare_for(dir, &names_of_sites(config)),
        None => Ok(Prepared::default()),
    }
}

/// Makes the certificate for sites with these names, likewise.
pub(super) fn prepare_for(dir: &Path, sites: &[Vec<HostName>]) -> io::Result<Prepared> {
    create_directory(dir)?;
    let _lock = lock(&dir.join("lock"))?;
    let mut prepared = Prepared::default();
    let mut known = authorities(dir, now())?;
    for hosts in sites {
        let file = certificate_file(dir, hosts);
        give(&file).map_err(|e| with_path(&file, &e))?;
        let issued = issuer_of(&file, hosts, &known).map(|issuer| issuer.files.chain.clone());
        let issuer = match issued {
            Some(issuer) => issuer,
            None => {
                let (pem, issuer) = signed(dir, hosts, sites, &mut known, &mut prepared)?;
                write_atomically(&file, pem.as_bytes(), 0o600).map_err(|e| with_path(&file, &e))?;
                issuer
            }
        };
        if !prepared.authorities.contains(&issuer) {
            prepared.authorities.push(issuer);
        }
    }
    Ok(prepared)
}

/// Describes what a start of the server does that clients must follow: it makes an authority.
pub fn warnings(config: &Config) -> Vec<String> {
    let Some(dir) = &config.local_authority else { return Vec::new() };
    let shown = dir.display();
    let trust = "which clients must then trust: `hurtle trust`";
    // Only the server's user can read the keys.
    let Ok(known) = authorities(dir, now()) else { return Vec::new() };
    if known.is_empty() {
        return vec![format!("a start makes a local certificate authority in {shown}, {trust}")];
    }
    let is_missing = |hosts: &&Vec<HostName>| {
        let is_issued = issuer_of(&certificate_file(dir, hosts), hosts, &known).is_some();
        let mut signed = known.iter().map(|authority| authority.sign(&subjects(hosts), now()));
        !is_issued && !signed.any(|signed| signed.is_ok_and(|pem| pem.is_some()))
    };
    let sites = names_of_sites(config);
    let missing = sites.iter().filter(is_missing);
    let missing: Vec<String> =
        missing.flat_map(|hosts| refused(&subjects(hosts), &known)).collect();
    match missing.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "no authority in {shown} may sign for {}: a start makes another one, {trust}",
            missing.join(", ")
        )],
    }
}

/// The certificates of the authorities in a directory, the oldest first.
pub fn authority_certificates(dir: &Path) -> Vec<PathBuf> {
    authority::certificates(dir)
}

/// Tells the user how to trust authorities that `--tls` uses.
pub fn how_to_trust(prepared: &Prepared) -> String {
    let new = match prepared.created {
        Some(_) => "Created a local certificate authority:",
        None => "Certificate authority:",
    };
    let files: Vec<String> =
        prepared.authorities.iter().map(|file| file.display().to_string()).collect();
    let files = files.join(" ");
    format!("{new} {files}\n  trust it: hurtle trust\n  curl: --cacert {files}")
}

/// The names of a certificate for a site. A wildcard that clients would not accept is replaced by
/// its domain; handshakes with names below get certificates of their own.
pub(super) fn subjects(hosts: &[HostName]) -> Vec<HostName> {
    if hosts.is_empty() {
        let names = ["localhost", "127.0.0.1", "[::1]"];
        return names.map(|name| HostName::Exact(name.to_owned())).to_vec();
    }
    let mut subjects: Vec<HostName> = Vec::new();
    for host in hosts {
        let subject = match host {
            HostName::Wildcard(suffix) if !suffix.contains('.') || suffix == PUBLIC_SUFFIX => {
                HostName::Exact(suffix.clone())
            }
            host => host.clone(),
        };
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

/// Time at which a certificate is renewed: when a third of its lifetime is left.
pub(super) fn renewal(valid: Validity) -> u64 {
    valid.until - valid.until.saturating_sub(valid.from) / 3
}

fn names_of_sites(config: &Config) -> Vec<Vec<HostName>> {
    let is_local = |tls: &crate::config::Tls| tls.local_authority().is_some();
    let sites = config.sites.iter().filter(|site| site.tls.as_ref().is_some_and(is_local));
    sites.map(|site| site.hosts.clone()).collect()
}

/// Finds the authority that has signed the certificate in a file; `None` if the certificate is to
/// be replaced.
fn issuer_of<'a>(file: &Path, hosts: &[HostName], known: &'a [Authority]) -> Option<&'a Authority> {
    let issued = IssuedCertificate::read(&fs::read(file).ok()?, &subjects(hosts)).ok()?;
    if !issued.missing_names.is_empty() || renewal(issued.valid) <= now() {
        return None;
    }
    let leaf = CertificateDer::from(issued.der);
    known.iter().find(|authority| authority.has_issued(&leaf, now()))
}

/// Signs a certificate for a site, by a new authority if no other may.
fn signed(
    dir: &Path,
    hosts: &[HostName],
    sites: &[Vec<HostName>],
    known: &mut Vec<Authority>,
    prepared: &mut Prepared,
) -> io::Result<(String, PathBuf)> {
    let names = subjects(hosts);
    for authority in &*known {
        if let Some(pem) = authority.sign(&names, now())? {
            return Ok((pem, authority.files.chain.clone()));
        }
    }
    let labels = sites.iter().flatten().filter(|host| is_single_label(host));
    let mut labels: Vec<String> = labels.map(ToString::to_string).collect();
    labels.sort();
    labels.dedup();
    let all = (1..=AUTHORITIES_MAX).map(|number| Authority::files(dir, number));
    let is_free = |files: &crate::config::CertificateFiles| {
        !known.iter().any(|authority| authority.files == *files)
    };
    let Some(files) = all.into_iter().find(is_free) else {
        let what = format!("{}: it has {AUTHORITIES_MAX} authorities; remove some", dir.display());
        return Err(io::Error::other(what));
    };
    let certificate = files.chain.clone();
    let authority = Authority::create(files, &labels, now());
    let authority = authority.map_err(|e| with_path(&certificate, &e))?;
    let because = if known.is_empty() { Vec::new() } else { refused(&names, known) };
    prepared.created = Some(NewAuthority { certificate: certificate.clone(), names: because });
    let pem = authority.sign(&names, now())?;
    known.push(authority);
    let pem = pem.ok_or_else(|| io::Error::other("a local authority may not sign for a name"))?;
    Ok((pem, certificate))
}

/// Returns the names that no authority may sign; all of them if each has one, but not the same.
fn refused(names: &[HostName], known: &[Authority]) -> Vec<String> {
    let is_refused = |name: &&HostName| {
        let name = std::slice::from_ref(*name);
        let mut signed = known.iter().map(|authority| authority.sign(name, now()));
        !signed.any(|signed| signed.is_ok_and(|pem| pem.is_some()))
    };
    let refused: Vec<String> = names.iter().filter(is_refused).map(ToString::to_string).collect();
    match refused.is_empty() {
        true => names.iter().map(ToString::to_string).collect(),
        false => refused,
    }
}

/// Reads the usable authorities of a directory, the oldest first.
fn authorities(dir: &Path, now: u64) -> io::Result<Vec<Authority>> {
    let mut known = Vec::new();
    for number in 1..=AUTHORITIES_MAX {
        let files = Authority::files(dir, number);
        for path in [&files.chain, &files.key] {
            give(path).map_err(|e| with_path(path, &e))?;
        }
        known.extend(Authority::read(files, now)?);
    }
    Ok(known)
}

/// Locks a directory, because two servers can start at the same time. Closing the file releases the
/// lock.
fn lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = match options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(path) {
        // Reading is enough to lock, and to use what is there.
        Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => File::open(path),
        opened => opened,
    };
    let locked = file.and_then(|file| {
        give_to_owner(&file, path)?;
        file.lock()?;
        Ok(file)
    });
    locked.map_err(|e| with_path(path, &e))
}

/// Seconds since 1970.
fn now() -> u64 {
    UnixTime::now().as_secs()
}

#[cfg(test)]
mod tests;
