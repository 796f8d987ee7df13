//! Certificates and keys from their files, and what can be known of a certificate by itself.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::config::HostName;
use crate::semantics::date;

/// A file of certificates: hundreds of authorities fit.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longer than any certificate lasts, in seconds: about the year 9999.
const FAR: u64 = 253_402_300_799;

/// Tells whether a file is another, or another's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: (u64, u64),
    len: u64,
    /// When the contents changed; when anything did, such as who may read them.
    times: [(i64, i64); 2],
}

impl Stamp {
    /// `None`: there is no such file.
    pub(super) fn of(path: &Path) -> Option<Stamp> {
        let m = fs::metadata(path).ok()?;
        let times = [(m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec())];
        Some(Stamp { inode: (m.dev(), m.ino()), len: m.len(), times })
    }
}

/// Every certificate in a file; at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!(
            "{}: no certificate in it; it must hold -----BEGIN CERTIFICATE-----",
            path.display()
        )),
        Err(e) => Err(format!("{}: {e:?}; write it anew, as PEM", path.display())),
    }
}

/// The private key in a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| {
        let hint = "it must hold -----BEGIN PRIVATE KEY-----, without a passphrase";
        format!("{}: no private key in it ({e:?}); {hint}", path.display())
    })
}

/// A whole file, unless it is none of these.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| {
        // Opened for reading, a directory is one until it is read.
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    });
    match file {
        Ok(_) if bytes.len() as u64 <= FILE_BYTES_MAX => Ok(bytes),
        Ok(_) => Err(format!("{}: larger than 1 MiB; is it the right file?", path.display())),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(format!("{}: {e}; let the server's user read it", path.display()))
        }
        Err(e) => Err(format!("{}: {e}; put the file there", path.display())),
    }
}

/// What is wrong with a certificate now, if something is: its time, or that it is not for these
/// names.
pub(super) fn doubts(leaf: &CertificateDer<'_>, hosts: &[HostName]) -> Vec<String> {
    let Ok(certificate) = EndEntityCert::try_from(leaf) else {
        return vec!["the certificate cannot be understood; get a new one".to_owned()];
    };
    let mut doubts = Vec::new();
    match validity(&certificate, UnixTime::now()) {
        Err(webpki::Error::CertExpired { not_after, .. }) => {
            doubts.push(format!("the certificate expired on {}; renew it", day(not_after)));
        }
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => doubts.push(format!(
            "the certificate is not valid before {}; is the clock right?",
            day(not_before)
        )),
        _ => {}
    }
    let missing: Vec<String> =
        hosts.iter().filter(|host| !covers(&certificate, host)).map(ToString::to_string).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        doubts.push(format!("the certificate is not for {missing}; get one that names it"));
    }
    doubts
}

/// When a certificate ends, as a person reads it.
pub(super) fn expiry(leaf: &CertificateDer<'_>) -> Option<UnixTime> {
    let certificate = EndEntityCert::try_from(leaf).ok()?;
    match validity(&certificate, UnixTime::since_unix_epoch(Duration::from_secs(FAR))) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after),
        _ => None,
    }
}

/// When a certificate begins.
pub(super) fn beginning(leaf: &CertificateDer<'_>) -> Option<UnixTime> {
    let certificate = EndEntityCert::try_from(leaf).ok()?;
    match validity(&certificate, UnixTime::since_unix_epoch(Duration::ZERO)) {
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => Some(not_before),
        _ => None,
    }
}

/// A day of the calendar.
pub(super) fn day(time: UnixTime) -> String {
    let date = date::format(time.as_secs());
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    String::from_utf8_lossy(&date[5..16]).into_owned()
}

/// Its own times are looked at before its issuer is, of whom nothing is known here.
fn validity(certificate: &EndEntityCert<'_>, now: UnixTime) -> Result<(), webpki::Error> {
    let usage = KeyUsage::server_auth();
    let verified = certificate.verify_for_usage(&[], &[], &[], now, usage, None, None);
    verified.map(drop)
}

/// Whether a certificate is for a name.
pub(super) fn covers(certificate: &EndEntityCert<'_>, host: &HostName) -> bool {
    let name = match host {
        HostName::Exact(name) => name.trim_matches(['[', ']']).to_owned(),
        // Any name beneath it will do: certificates cover one label of them at most.
        HostName::Wildcard(suffix) => format!("any.{suffix}"),
    };
    let Ok(name) = ServerName::try_from(name) else { return false };
    certificate.verify_is_valid_for_subject_name(&name).is_ok()
}
