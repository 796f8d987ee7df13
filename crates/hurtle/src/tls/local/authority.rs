//! A local certificate authority: its constraints, its key, and what it signs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use nix::fcntl::OFlag;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, SanType, date_time_ymd,
};
use rustix::process::geteuid;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::config::{self, CertificateFiles, HostName, LOCAL_DOMAINS, LOCAL_NETWORKS};
use crate::tls::atomic::{give_to_owner, write_atomically};
use crate::tls::{client, pem};

/// Lifetime of an authority. Clients must trust each new one.
const AUTHORITY_DAYS: u64 = 3_650;

/// Remaining lifetime below which an authority is used no more.
const AUTHORITY_DAYS_MIN: u64 = 90;

/// Lifetime of a certificate, `BACKDATED_DAYS` included.
const CERTIFICATE_DAYS: u64 = 90;

/// `notBefore` is this far in the past: the clocks of a machine and its clients differ.
const BACKDATED_DAYS: u64 = 1;

const DAY_SECS: u64 = 24 * 60 * 60;

/// An authority whose key is known.
#[derive(Debug)]
pub(in crate::tls) struct Authority {
    /// Its certificate, which clients must trust, and its key.
    pub(super) files: CertificateFiles,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    /// End of its validity, in seconds since 1970.
    not_after: u64,
}

impl Authority {
    /// Files of the authority with this number, from 1.
    pub(super) fn files(dir: &Path, number: usize) -> CertificateFiles {
        let name = match number {
            1 => "authority".to_owned(),
            _ => format!("authority-{number}"),
        };
        let file = |extension: &str| dir.join(format!("{name}.{extension}"));
        CertificateFiles { chain: file("pem"), key: file("key") }
    }

    /// Reads an authority; `None` if a file is missing or malformed, if they do not belong
    /// together, or if the authority is about to expire.
    ///
    /// # Errors
    /// This user may not read a file.
    pub(super) fn read(files: CertificateFiles, now: u64) -> io::Result<Option<Authority>> {
        for path in [&files.chain, &files.key] {
            match File::open(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(with_path(path, &e)),
                Ok(_) => {}
            }
        }
        Ok(Authority::parse(files).filter(|it| it.not_after > now + AUTHORITY_DAYS_MIN * DAY_SECS))
    }

    fn parse(files: CertificateFiles) -> Option<Authority> {
        let chain = pem::certificates(&files.chain).ok()?;
        let certificate = chain.first()?.clone();
        let key = pem::key(&files.key).ok()?;
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).ok()?;
        let key = KeyPair::from_pem(&fs::read_to_string(&files.key).ok()?).ok()?;
        let anchor = anchor_from_trusted_cert(&certificate).ok()?;
        let name = client::common_name(&anchor.subject)?.to_owned();
        let not_after = pem::not_after(&certificate)?.as_secs();
        // Signing uses only the name and the key of the parameters.
        let issuer = Issuer::new(issuer_params(&name), key);
        Some(Authority { files, certificate, issuer, not_after })
    }

    /// Creates an authority that may also sign for these names without a dot.
    pub(super) fn create(
        files: CertificateFiles,
        labels: &[String],
        now: u64,
    ) -> io::Result<Authority> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        // Authorities of the same name would be taken for each other.
        let number = xxhash_rust::xxh3::xxh3_64(key.public_key_raw()) >> 32;
        let mut params = issuer_params(&format!("Hurtle local authority {number:08x}"));
        set_validity(&mut params, now, now + AUTHORITY_DAYS * DAY_SECS);
        params.name_constraints = Some(constraints(labels));
        let signed = params.self_signed(&key).map_err(io::Error::other)?;
        write_atomically(&files.key, key.serialize_pem().as_bytes(), 0o600)?;
        write_atomically(&files.chain, signed.pem().as_bytes(), 0o644)?;
        Authority::parse(files).ok_or_else(|| io::Error::other("the authority is unusable"))
    }

    /// Signs a certificate for these names; returns it with its key in PEM. `None`: the authority
    /// may not sign for one of them.
    pub(super) fn sign(&self, names: &[HostName], now: u64) -> io::Result<Option<String>> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let until = now + (CERTIFICATE_DAYS - BACKDATED_DAYS) * DAY_SECS;
        let signed = self.sign_key(names, &key, now, until).map_err(io::Error::other)?;
        let is_permitted = self.has_issued(signed.der(), now);
        Ok(is_permitted.then(|| key.serialize_pem() + &signed.pem()))
    }

    /// Signs a certificate for a key, without a check of the names.
    pub(super) fn sign_key(
        &self,
        names: &[HostName],
        key: &KeyPair,
        now: u64,
        until: u64,
    ) -> Result<Certificate, rcgen::Error> {
        let mut params = CertificateParams::default();
        set_validity(&mut params, now, until.min(self.not_after));
        // Some clients take a common name that looks like a host name for one.
        params.distinguished_name = distinguished_name("Local certificate of hurtle");
        params.subject_alt_names = names.iter().map(subject).collect::<Result<_, _>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.signed_by(key, &self.issuer)
    }

    /// `true`: the authority signed this certificate, and its constraints permit the names in it.
    pub(super) fn has_issued(&self, leaf: &CertificateDer<'_>, now: u64) -> bool {
        let (Ok(leaf), Ok(anchor)) =
            (EndEntityCert::try_from(leaf), anchor_from_trusted_cert(&self.certificate))
        else {
            return false;
        };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
        let usage = KeyUsage::server_auth();
        leaf.verify_for_usage(algorithms, &[anchor], &[], now, usage, None, None).is_ok()
    }
}

/// The names to constrain an authority to (RFC 5280 section 4.2.1.10), so that a stolen key is
/// useless for others. A DNS name includes all names below it.
fn constraints(labels: &[String]) -> NameConstraints {
    let domains = LOCAL_DOMAINS.iter().map(|domain| (*domain).to_owned());
    let names = domains.chain(labels.iter().cloned()).map(GeneralSubtree::DnsName);
    let networks = LOCAL_NETWORKS.iter().map(|network| {
        GeneralSubtree::IpAddress(match network {
            IpNet::V4(net) => CidrSubnet::from_v4_prefix(net.addr().octets(), net.prefix_len()),
            IpNet::V6(net) => CidrSubnet::from_v6_prefix(net.addr().octets(), net.prefix_len()),
        })
    });
    // A label may also be a public domain, such as `media`. With a leading dot, which the RFC does
    // not define but verifiers know, a constraint is for the names below a domain only.
    let below = labels.iter().map(|label| GeneralSubtree::DnsName(format!(".{label}")));
    NameConstraints {
        permitted_subtrees: names.chain(networks).collect(),
        excluded_subtrees: below.collect(),
    }
}

fn issuer_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn set_validity(params: &mut CertificateParams, now: u64, until: u64) {
    let at = |secs| date_time_ymd(1970, 1, 1) + Duration::from_secs(secs);
    params.not_before = at(now.saturating_sub(BACKDATED_DAYS * DAY_SECS));
    params.not_after = at(until);
}

fn distinguished_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// A name as a certificate has it.
fn subject(name: &HostName) -> Result<SanType, rcgen::Error> {
    match name {
        HostName::Exact(text) => match config::address(text) {
            Some(address) => Ok(SanType::IpAddress(address)),
            None => Ok(SanType::DnsName(text.as_str().try_into()?)),
        },
        HostName::Wildcard(_) | HostName::AnyDomain(_) => {
            Ok(SanType::DnsName(name.to_string().try_into()?))
        }
    }
}

/// Gives a file of root to the owner of its directory, unless it is a link.
pub(super) fn give(path: &Path) -> io::Result<()> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.uid() == 0);
    if !geteuid().is_root() || !is_file {
        return Ok(());
    }
    let flags = OFlag::O_NOFOLLOW.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    give_to_owner(&file, path)
}

/// An error of a file, with its path.
pub(super) fn with_path(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

/// The certificates of the authorities in a directory, the oldest first, whether their keys are
/// there or not.
pub(super) fn certificates(dir: &Path) -> Vec<PathBuf> {
    let paths = (1..=super::AUTHORITIES_MAX).map(|number| Authority::files(dir, number).chain);
    paths.filter(|path| pem::certificates(path).is_ok()).collect()
}
