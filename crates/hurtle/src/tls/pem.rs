//! Certificates, private keys and revocation lists in PEM files, and what a certificate says about
//! itself.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use hurtle_http::semantics::date;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use webpki::{EndEntityCert, KeyUsage};

use crate::config::HostName;

/// Size limit of a PEM file; hundreds of authorities fit.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The end of the year 9999, in seconds since 1970: after every `notAfter`.
const FAR_FUTURE_SECS: u64 = 253_402_300_799;

/// Identity and state of a file: a different stamp means that it was changed or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: (u64, u64),
    len: u64,
    /// `mtime` for the contents, `ctime` also for permissions.
    times: [(i64, i64); 2],
}

impl FileStamp {
    /// `None` if the file does not exist or is not accessible.
    pub(super) fn of(path: &Path) -> Option<FileStamp> {
        let m = fs::metadata(path).ok()?;
        let times = [(m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec())];
        Some(FileStamp { inode: (m.dev(), m.ino()), len: m.len(), times })
    }
}

/// Reads all certificates in a file; at least one.
///
/// # Errors
/// The file, what is wrong with it, and what to do.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    sections(path, "no certificate in it; it must contain -----BEGIN CERTIFICATE-----")
}

/// Reads all certificate revocation lists in a file; at least one.
///
/// # Errors
/// The file, what is wrong with it, and what to do.
pub(super) fn revocation_lists(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    sections(path, "no revocation list in it; it must contain -----BEGIN X509 CRL-----")
}

/// Reads all sections of a kind; at least one. `missing` describes a file without any.
fn sections<T: PemObject>(path: &Path, missing: &str) -> Result<Vec<T>, String> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = T::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{}: {missing}", path.display())),
        Err(e) => Err(format!("{}: {}; replace it with valid PEM", path.display(), reason(&e))),
    }
}

/// Reads the private key in a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| {
        let hint = "it must contain -----BEGIN PRIVATE KEY-----, without a passphrase";
        format!("{}: no private key in it ({}); {hint}", path.display(), reason(&e))
    })
}

/// Describes a PEM error without its bytes.
pub(super) fn reason(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section without its END line".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a malformed BEGIN line".to_owned(),
        e => e.to_string(),
    }
}

/// Reads a whole file of at most `FILE_BYTES_MAX`.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX + 1;
    match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 <= FILE_BYTES_MAX => Ok(bytes),
        Ok(_) => Err(format!("{}: larger than 1 MiB; is it the right file?", path.display())),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(format!("{}: {e}; let the server's user read it", path.display()))
        }
        Err(e) => Err(format!("{}: {e}; put the file there", path.display())),
    }
}

/// Describes why clients will reject a certificate now: outside its validity period, or one of
/// these names missing.
pub(super) fn warnings(leaf: &CertificateDer<'_>, hosts: &[HostName]) -> Vec<String> {
    let Ok(certificate) = EndEntityCert::try_from(leaf) else {
        return vec!["the certificate is malformed; get a new one".to_owned()];
    };
    let mut warnings = Vec::new();
    match validity(&certificate, UnixTime::now()) {
        Err(webpki::Error::CertExpired { not_after, .. }) => {
            warnings.push(format!("the certificate expired on {}; renew it", day(not_after)));
        }
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => warnings.push(format!(
            "the certificate is not valid before {}; is the clock right?",
            day(not_before)
        )),
        _ => {}
    }
    let missing: Vec<String> =
        hosts.iter().filter(|host| !covers(&certificate, host)).map(ToString::to_string).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        warnings.push(format!("the certificate is not for {missing}; get one that names it"));
    }
    warnings
}

/// End of the validity period.
pub(super) fn not_after(leaf: &CertificateDer<'_>) -> Option<UnixTime> {
    let certificate = EndEntityCert::try_from(leaf).ok()?;
    match validity(&certificate, UnixTime::since_unix_epoch(Duration::from_secs(FAR_FUTURE_SECS))) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after),
        _ => None,
    }
}

/// Start of the validity period.
pub(super) fn not_before(leaf: &CertificateDer<'_>) -> Option<UnixTime> {
    let certificate = EndEntityCert::try_from(leaf).ok()?;
    match validity(&certificate, UnixTime::since_unix_epoch(Duration::ZERO)) {
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => Some(not_before),
        _ => None,
    }
}

/// Formats a date as `06 Nov 1994`.
pub(super) fn day(time: UnixTime) -> String {
    let date = date::format(time.as_secs());
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    String::from_utf8_lossy(&date[5..16]).into_owned()
}

/// Checks the validity period. The missing issuer is an error, too, but webpki checks it later.
fn validity(certificate: &EndEntityCert<'_>, now: UnixTime) -> Result<(), webpki::Error> {
    let usage = KeyUsage::server_auth();
    let verified = certificate.verify_for_usage(&[], &[], &[], now, usage, None, None);
    verified.map(drop)
}

/// Tells whether a certificate is valid for a name.
pub(super) fn covers(certificate: &EndEntityCert<'_>, host: &HostName) -> bool {
    let name = match host {
        HostName::Exact(name) => name.trim_matches(['[', ']']).to_owned(),
        // Wildcard certificates cover one label, so any one will do.
        HostName::Wildcard(suffix) => format!("any.{suffix}"),
        // Wildcard certificates of any domain cover one of them.
        HostName::AnyDomain(prefix) => {
            let names = || certificate.valid_dns_names();
            let begins = format!("{prefix}.");
            return names().any(|name| name.starts_with("*.") || name.starts_with(&begins));
        }
    };
    let Ok(name) = ServerName::try_from(name) else { return false };
    certificate.verify_is_valid_for_subject_name(&name).is_ok()
}
