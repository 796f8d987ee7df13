//! The local certificate authority for `--tls`: created on first use in the user's data directory.
//! It can sign only for `localhost` and loopback addresses.

use std::fs::{self, DirBuilder, File, OpenOptions};
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

use super::atomic::write_atomically;
use super::pem;
use crate::config::CertificateFiles;
use crate::sys;

/// Lifetime of the authority. The user must trust each new one.
const AUTHORITY_DAYS: u64 = 3_650;

/// Lifetime of the certificate. Apple's systems accept up to 825 days from a user's authority.
const CERTIFICATE_DAYS: u64 = 365;

/// Remaining lifetime below which a starting server renews the certificate.
const DAYS_LEFT_MIN: u64 = 30;

/// `notBefore` is this far in the past: the clocks of a machine and its containers differ.
const BACKDATED_DAYS: u64 = 1;

const DAY_SECS: u64 = 24 * 60 * 60;

/// The certificate for localhost and its authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The server's certificate and key.
    pub certificate: CertificateFiles,
    /// Certificate of the authority, which clients must trust.
    pub authority: PathBuf,
    /// The authority was created by this call.
    pub is_new: bool,
}

/// Loads or creates the authority and its certificate for localhost in a directory.
///
/// # Errors
/// The directory and the I/O error.
pub fn localhost(dir: &Path) -> io::Result<Local> {
    let with_path = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", dir.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(with_path)?;
    // Two servers can start at the same time. Closing the file releases the lock.
    let path = dir.join("lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let lock = match lock {
        // A confined process, at a reload: it may read here, which is enough to lock.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => File::open(&path),
        opened => opened,
    };
    let lock = lock.map_err(with_path)?;
    lock.lock().map_err(with_path)?;
    load_or_create(dir).map_err(with_path)
}

/// Tells the user how to trust the authority.
pub fn how_to_trust(authority: &Path, is_new: bool) -> String {
    let file = authority.display();
    let new =
        if is_new { "Created a local certificate authority:" } else { "Certificate authority:" };
    format!(
        "{new} {file}\n  \
         trust it: {}\n  \
         browsers with a certificate store of their own: import the file; curl: --cacert {file}",
        sys::trust_command(&file.to_string())
    )
}

fn load_or_create(dir: &Path) -> io::Result<Local> {
    let now = UnixTime::now().as_secs();
    let authority = pair(dir, "authority");
    let certificate = pair(dir, "localhost");
    let is_new = !is_whole(&authority) || !is_valid_long_enough(&authority.chain, now);
    let params = authority_params(now);
    if is_new {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let signed = params.self_signed(&key).map_err(io::Error::other)?;
        write(&authority, &signed.pem(), &key)?;
    }
    if is_new || !is_whole(&certificate) || !is_issued(&certificate.chain, &authority.chain, now) {
        let key = KeyPair::from_pem(&fs::read_to_string(&authority.key)?);
        // Signing uses only those parameters of the authority that do not depend on the time.
        let issuer = Issuer::new(params, key.map_err(io::Error::other)?);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let signed = certificate_params(now).and_then(|params| params.signed_by(&key, &issuer));
        write(&certificate, &signed.map_err(io::Error::other)?.pem(), &key)?;
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
    params.distinguished_name = distinguished_name("Hurtle on this machine only");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    // RFC 5280 section 4.2.1.10: a stolen key is useless for other names. The DNS name includes all
    // names below it.
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
    params.distinguished_name = distinguished_name("localhost");
    // Without `*.localhost`: clients accept no wildcard for a top-level domain, and rustls rejects
    // the whole certificate.
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

fn distinguished_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Tells whether both files exist and belong together.
fn is_whole(files: &CertificateFiles) -> bool {
    let (Ok(chain), Ok(key)) = (pem::certificates(&files.chain), pem::key(&files.key)) else {
        return false;
    };
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).is_ok()
}

fn is_valid_long_enough(chain: &Path, now: u64) -> bool {
    let leaf = pem::certificates(chain).ok();
    let expiry = leaf.and_then(|leaf| pem::not_after(leaf.first()?));
    expiry.is_some_and(|at| at.as_secs() > now + DAYS_LEFT_MIN * DAY_SECS)
}

/// Tells whether the authority signed a certificate that is valid for `DAYS_LEFT_MIN` or more.
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

/// Writes both files, each atomically; only the owner can read the key.
fn write(files: &CertificateFiles, certificate: &str, key: &KeyPair) -> io::Result<()> {
    write_atomically(&files.key, key.serialize_pem().as_bytes(), 0o600)?;
    write_atomically(&files.chain, certificate.as_bytes(), 0o644)
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
    fn the_authority_is_created_once_and_only_its_owner_can_read_the_key() {
        let scratch = Scratch::new("local");
        let first = localhost(&scratch.0).unwrap();
        assert!(first.is_new);
        for key in [scratch.0.join("authority.key"), first.certificate.key.clone()] {
            assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let (before, after) = (fs::read(&first.certificate.chain).unwrap(), localhost(&scratch.0));
        assert_eq!(after.unwrap(), Local { is_new: false, ..first.clone() });
        assert_eq!(fs::read(&first.certificate.chain).unwrap(), before, "it is still valid");
    }

    #[test]
    fn a_broken_certificate_is_replaced_and_the_authority_kept() {
        let scratch = Scratch::new("broken");
        let first = localhost(&scratch.0).unwrap();
        let authority = fs::read(&first.authority).unwrap();
        fs::write(&first.certificate.chain, "cut sho").unwrap();
        let again = localhost(&scratch.0).unwrap();
        assert!(!again.is_new && is_whole(&again.certificate));
        assert_eq!(fs::read(&first.authority).unwrap(), authority);
        fs::remove_file(scratch.0.join("authority.key")).unwrap();
        let again = localhost(&scratch.0).unwrap();
        assert!(again.is_new, "an authority without its key is useless");
        let now = UnixTime::now().as_secs();
        assert!(is_issued(&again.certificate.chain, &again.authority, now));
    }

    #[test]
    fn the_authority_cannot_sign_for_other_names() {
        let scratch = Scratch::new("constraint");
        let local = localhost(&scratch.0).unwrap();
        let key = fs::read_to_string(scratch.0.join("authority.key")).unwrap();
        let now = UnixTime::now().as_secs();
        let issuer = Issuer::new(authority_params(now), KeyPair::from_pem(&key).unwrap());
        let table = [
            ("its own name", "localhost", true),
            ("a name below it", "app.localhost", true),
            ("another loopback address", "127.1.2.3", true),
            ("a public name", "example.org", false),
            ("another name with the same end", "notlocalhost", false),
            ("a private address", "192.168.1.1", false),
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
