//! A certificate authority of this user's own, for servers on this machine: made when it is first
//! needed, kept in the user's data directory, and good for nothing but this machine's own names.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, SanType, date_time_ymd,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::UnixTime;
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::keep::replace;
use super::pem;
use crate::config::CertificateFiles;
use crate::sys;

/// Trusting it again is a nuisance.
const AUTHORITY_DAYS: u64 = 3_650;

/// What Apple's systems accept at most of an authority that a user has added is 825.
const CERTIFICATE_DAYS: u64 = 365;

/// Of these a certificate must have some left when a server starts.
const DAYS_LEFT_MIN: u64 = 30;

/// Clocks of one machine and its containers differ.
const BACKDATED_DAYS: u64 = 1;

const DAY_SECS: u64 = 24 * 60 * 60;

/// A certificate for this machine's own names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// What to serve with.
    pub certificate: CertificateFiles,
    /// What clients must trust.
    pub authority: PathBuf,
    /// The authority has just been made.
    pub is_new: bool,
}

/// Finds or makes the authority and its certificate for localhost in a directory.
///
/// # Errors
/// With the file that could not be read or written.
pub fn localhost(dir: &Path) -> io::Result<Local> {
    let told = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", dir.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(told)?;
    // Two servers may start at once; the lock goes with the file.
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join("lock"));
    let lock = lock.map_err(told)?;
    lock.lock().map_err(told)?;
    made(dir).map_err(told)
}

/// What a person does to have the authority trusted.
pub fn how_to_trust(authority: &Path, is_new: bool) -> String {
    let file = authority.display();
    let new = if is_new { "A local certificate authority was made; its" } else { "Its" };
    format!(
        "{new} certificate is {file}\n  \
         trust it: {}\n  \
         a browser with a store of its own imports the file; or, once: curl --cacert {file}",
        sys::trust_command(&file.to_string())
    )
}

fn made(dir: &Path) -> io::Result<Local> {
    let now = UnixTime::now().as_secs();
    let authority = pair(dir, "authority");
    let certificate = pair(dir, "localhost");
    let is_new = !is_whole(&authority) || !lasts(&authority.chain, now);
    let params = authority_params(now);
    if is_new {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let signed = params.self_signed(&key).map_err(io::Error::other)?;
        keep(&authority, &signed.pem(), &key)?;
    }
    if is_new || !is_whole(&certificate) || !is_issued(&certificate.chain, &authority.chain, now) {
        let key = KeyPair::from_pem(&fs::read_to_string(&authority.key)?);
        // Of the authority's parameters only those that never change are in what it signs.
        let issuer = Issuer::new(params, key.map_err(io::Error::other)?);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let signed = certificate_params(now).and_then(|params| params.signed_by(&key, &issuer));
        keep(&certificate, &signed.map_err(io::Error::other)?.pem(), &key)?;
    }
    Ok(Local { certificate, authority: authority.chain, is_new })
}

fn pair(dir: &Path, name: &str) -> CertificateFiles {
    CertificateFiles {
        chain: dir.join(format!("{name}.pem")),
        key: dir.join(format!("{name}.key")),
    }
}

fn authority_params(now: u64) -> CertificateParams {
    let mut params = params(now, AUTHORITY_DAYS);
    params.distinguished_name = named("Hurtle on this machine only");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    // RFC 5280 4.2.1.10: whoever steals the key can be nobody but this machine. A DNS name stands
    // for all beneath it, too.
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName("localhost".to_owned()),
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8)),
            GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix(
                Ipv6Addr::LOCALHOST.octets(),
                128,
            )),
        ],
        excluded_subtrees: Vec::new(),
    });
    params
}

fn certificate_params(now: u64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(now, CERTIFICATE_DAYS);
    params.distinguished_name = named("localhost");
    // No `*.localhost`: clients take no pattern for all of a top level, and rustls refuses the whole
    // certificate for it.
    params.subject_alt_names = vec![
        SanType::DnsName("localhost".try_into()?),
        SanType::IpAddress(Ipv4Addr::LOCALHOST.into()),
        SanType::IpAddress(Ipv6Addr::LOCALHOST.into()),
    ];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(now: u64, days: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let at = |secs| date_time_ymd(1970, 1, 1) + Duration::from_secs(secs);
    params.not_before = at(now.saturating_sub(BACKDATED_DAYS * DAY_SECS));
    params.not_after = at(now + days * DAY_SECS);
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Whether both files are there and belong together.
fn is_whole(files: &CertificateFiles) -> bool {
    let (Ok(chain), Ok(key)) = (pem::certificates(&files.chain), pem::key(&files.key)) else {
        return false;
    };
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).is_ok()
}

fn lasts(chain: &Path, now: u64) -> bool {
    let leaf = pem::certificates(chain).ok();
    let expiry = leaf.and_then(|leaf| pem::expiry(leaf.first()?));
    expiry.is_some_and(|at| at.as_secs() > now + DAYS_LEFT_MIN * DAY_SECS)
}

/// Whether a certificate is the authority's, and will be for a while.
fn is_issued(chain: &Path, authority: &Path, now: u64) -> bool {
    let (Ok(chain), Ok(authority)) = (pem::certificates(chain), pem::certificates(authority))
    else {
        return false;
    };
    let (Some(leaf), Some(authority)) = (chain.first(), authority.first()) else { return false };
    let (Ok(leaf), Ok(anchor)) =
        (EndEntityCert::try_from(leaf), anchor_from_trusted_cert(authority))
    else {
        return false;
    };
    let then = UnixTime::since_unix_epoch(Duration::from_secs(now + DAYS_LEFT_MIN * DAY_SECS));
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let usage = KeyUsage::server_auth();
    leaf.verify_for_usage(algorithms, &[anchor], &[], then, usage, None, None).is_ok()
}

/// Writes both files, each whole or not at all, the key for its owner's eyes only.
fn keep(files: &CertificateFiles, certificate: &str, key: &KeyPair) -> io::Result<()> {
    replace(&files.key, key.serialize_pem().as_bytes(), 0o600)?;
    replace(&files.chain, certificate.as_bytes(), 0o644)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = std::env::temp_dir().join(format!("hurtle-{}-{name}", std::process::id()));
            Scratch(dir)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_authority_is_made_once_and_its_key_is_nobody_elses() {
        let scratch = Scratch::new("local");
        let first = localhost(&scratch.0).unwrap();
        assert!(first.is_new);
        for key in [scratch.0.join("authority.key"), first.certificate.key.clone()] {
            assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let (before, after) = (fs::read(&first.certificate.chain).unwrap(), localhost(&scratch.0));
        assert_eq!(after.unwrap(), Local { is_new: false, ..first.clone() });
        assert_eq!(fs::read(&first.certificate.chain).unwrap(), before, "it is still good");
    }

    #[test]
    fn what_is_broken_is_made_anew_and_the_authority_stays() {
        let scratch = Scratch::new("broken");
        let first = localhost(&scratch.0).unwrap();
        let authority = fs::read(&first.authority).unwrap();
        fs::write(&first.certificate.chain, "cut sho").unwrap();
        let again = localhost(&scratch.0).unwrap();
        assert!(!again.is_new && is_whole(&again.certificate));
        assert_eq!(fs::read(&first.authority).unwrap(), authority);
        fs::remove_file(scratch.0.join("authority.key")).unwrap();
        let again = localhost(&scratch.0).unwrap();
        assert!(again.is_new, "without its key an authority is none");
        let now = UnixTime::now().as_secs();
        assert!(is_issued(&again.certificate.chain, &again.authority, now));
    }

    #[test]
    fn the_authority_cannot_speak_for_other_names() {
        let scratch = Scratch::new("constraint");
        let local = localhost(&scratch.0).unwrap();
        let key = fs::read_to_string(scratch.0.join("authority.key")).unwrap();
        let now = UnixTime::now().as_secs();
        let issuer = Issuer::new(authority_params(now), KeyPair::from_pem(&key).unwrap());
        let table = [
            ("its own name", "localhost", true),
            ("one beneath", "app.localhost", true),
            ("another loopback address", "127.1.2.3", true),
            ("a name of the world", "example.org", false),
            ("one that only ends alike", "notlocalhost", false),
            ("an address of the network", "192.168.1.1", false),
            ("another IPv6 address", "::2", false),
        ];
        for (sentence, name, good) in table {
            let mut params = certificate_params(now).unwrap();
            let other = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.subject_alt_names = other.subject_alt_names;
            let key = KeyPair::generate().unwrap();
            let path = scratch.0.join("stolen.pem");
            fs::write(&path, params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
            assert_eq!(is_issued(&path, &local.authority, now), good, "{sentence}");
        }
    }
}
