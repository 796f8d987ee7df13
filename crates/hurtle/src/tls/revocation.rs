//! Lists of revoked client certificates (CRLs, RFC 5280 section 5). rustls checks certificates
//! against them; this file reads them, and says when they expire.

use std::path::{Path, PathBuf};

use hurtle_http::semantics::date;
use rustls::pki_types::{CertificateRevocationListDer, UnixTime};
use webpki::BorrowedCertRevocationList;

use super::der::{Der, GENERALIZED_TIME, INTEGER, SEQUENCE, UTC_TIME};
use super::pem;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A list of an authority.
#[derive(Debug)]
pub(super) struct RevocationList {
    file: PathBuf,
    pub(super) der: CertificateRevocationListDer<'static>,
    /// Time at which the authority will have published the next one, in seconds since 1970.
    next_update: u64,
}

impl RevocationList {
    /// Reads all lists in these PEM files.
    ///
    /// # Errors
    /// The unusable file, the reason, and what to do.
    pub(super) fn load(files: &[PathBuf]) -> Result<Vec<RevocationList>, String> {
        let mut lists = Vec::new();
        for file in files {
            for der in pem::revocation_lists(file)? {
                lists.push(RevocationList::new(file, der)?);
            }
        }
        Ok(lists)
    }

    fn new(
        file: &Path,
        der: CertificateRevocationListDer<'static>,
    ) -> Result<RevocationList, String> {
        let unusable = |e: String| {
            format!(
                "{}: a revocation list is unusable: {e}; replace it by one of version 2",
                file.display()
            )
        };
        BorrowedCertRevocationList::from_der(&der).map_err(|e| unusable(e.to_string()))?;
        let next_update =
            next_update(&der).ok_or_else(|| unusable("its nextUpdate is malformed".to_owned()))?;
        Ok(RevocationList { file: file.to_owned(), der, next_update })
    }

    /// Describes the file and the validity.
    pub(super) fn describe(&self) -> String {
        let day = pem::day(at(self.next_update));
        format!("{}: revoked client certificates, valid until {day}", self.file.display())
    }

    /// Returns a warning if the next list is due at `now`, in seconds since 1970.
    pub(super) fn warning(&self, now: u64) -> Option<String> {
        let (file, day) = (self.file.display(), pem::day(at(self.next_update)));
        (self.next_update <= now).then(|| {
            format!(
                "{file}: the revocation list expired on {day}, and stays in use; get the next one from its \
                 authority"
            )
        })
    }
}

fn at(secs: u64) -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(secs))
}

/// Returns the `nextUpdate` of a list of version 2 (RFC 5280 section 5.1.2.5), in seconds since
/// 1970.
fn next_update(list: &[u8]) -> Option<u64> {
    let mut fields = Der(list).enter(SEQUENCE)?.enter(SEQUENCE)?;
    // The version, the algorithm, the issuer and `thisUpdate`.
    fields.take(INTEGER)?;
    fields.take(SEQUENCE)?;
    fields.take(SEQUENCE)?;
    fields.skip()?;
    if let Some(text) = fields.take(GENERALIZED_TIME) {
        return time(str::from_utf8(text).ok()?);
    }
    let text = str::from_utf8(fields.take(UTC_TIME)?).ok()?;
    // RFC 5280 section 4.1.2.5.1.
    let century = if text < "50" { "20" } else { "19" };
    time(&format!("{century}{text}"))
}

/// Parses a GeneralizedTime such as `20261231235959Z`.
fn time(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('Z')?;
    if digits.len() != 14 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, digits) = digits.split_at(4);
    let (month, digits) = digits.split_at(2);
    let (day, digits) = digits.split_at(2);
    let (hour, digits) = digits.split_at(2);
    let (minute, second) = digits.split_at(2);
    let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    // The weekday is not checked.
    date::parse_leniently(
        format!("Mon, {day} {month} {year} {hour}:{minute}:{second} GMT").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_those_of_the_standard() {
        for (sentence, text, expected) in [
            ("a time", "19941106084937Z", Some(784_111_777)),
            ("another weekday", "19700101000000Z", Some(0)),
            ("a day that does not exist", "20250229000000Z", None),
            ("month 13", "20251301000000Z", None),
            ("month 0", "20250001000000Z", None),
            ("a local time", "19941106084937", None),
            ("fractions", "19941106084937.5Z", None),
            ("letters", "1994110608493aZ", None),
        ] {
            assert_eq!(time(text), expected, "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn no_list_causes_a_panic(list in prop::collection::vec(any::<u8>(), 0..64)) {
            next_update(&list);
        }
    }
}
