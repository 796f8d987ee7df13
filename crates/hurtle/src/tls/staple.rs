//! A staple: what an authority has last said of a certificate (an OCSP response, RFC 6960), for the
//! handshake to take along (RFC 6066 8). It is read as far as it takes not to send one that clients
//! would take offence at; its signature is theirs to check. Fetching it is left to others.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::EndEntityCert;

use super::der::Der;
use super::pem;

/// Real ones have hundreds of bytes, or a few thousand with their signer's certificate.
const STAPLE_BYTES_MAX: usize = 16 << 10;

/// A good word for a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Staple {
    /// As it is sent.
    pub(super) der: Vec<u8>,
    /// From then on it is worth nothing; `None`: the authority did not say.
    pub(super) until: Option<UnixTime>,
}

/// Where a certificate's staple is: in a file beside it, of its name and `.ocsp`.
pub(super) fn path(chain: &Path) -> PathBuf {
    let mut name = OsString::from(chain);
    name.push(".ocsp");
    name.into()
}

/// The staple of the certificate in the file `chain`; `None`: it has none.
///
/// # Errors
/// Why the one that is there is not sent, and what to do.
pub(super) fn read(chain: &Path, leaf: &CertificateDer<'_>) -> Result<Option<Staple>, String> {
    let path = path(chain);
    if std::fs::metadata(&path).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
        return Ok(None);
    }
    let der = pem::read(&path)?;
    let checked = check(&der, leaf, UnixTime::now());
    let until = checked.map_err(|why| unsent(&path, &why))?;
    Ok(Some(Staple { der, until }))
}

/// What to say of a staple whose time is over.
pub(super) fn lapsed(chain: &Path, until: UnixTime) -> String {
    unsent(&path(chain), &over(until))
}

fn unsent(path: &Path, why: &str) -> String {
    format!("{}: not sent: {why}", path.display())
}

fn over(until: UnixTime) -> String {
    format!("it was good until {}; fetch a new one", pem::day(until))
}

/// Until when a response may be sent with a certificate; `Err`: why not now.
fn check(der: &[u8], leaf: &CertificateDer<'_>, now: UnixTime) -> Result<Option<UnixTime>, String> {
    let parsed = EndEntityCert::try_from(leaf);
    let serial = parsed.as_ref().map(|leaf| leaf.serial()).unwrap_or_default();
    if der.len() > STAPLE_BYTES_MAX {
        return Err("it is larger than 16 KiB; is it an OCSP response?".to_owned());
    }
    let answers = answers(der).ok_or("it is no good OCSP response in DER; fetch it again")?;
    let answer = answers.into_iter().find(|answer| same_number(answer.serial, serial));
    let answer = answer.ok_or("it is for another certificate; fetch the one for this")?;
    match (answer.is_good, answer.until) {
        (false, _) => Err("the authority does not call the certificate good, but revoked or unknown; get a new one".to_owned()),
        (true, Some(until)) if until <= now => {
            Err(over(until))
        }
        (true, until) => Ok(until),
    }
}

/// What a response says of one certificate (RFC 6960 4.2.1, SingleResponse).
#[derive(Debug)]
struct Answer<'a> {
    serial: &'a [u8],
    is_good: bool,
    until: Option<UnixTime>,
}

// Tags of DER (X.690 8.1.2).
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0]`, and the status `good`, whose contents are none.
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_1: u8 = 0xa1;
const CONTEXT_2: u8 = 0xa2;
const GOOD: u8 = 0x80;

/// id-pkix-ocsp-basic.
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];

/// Everything a successful response says (RFC 6960 4.2.1); `None`: it is none.
fn answers(der: &[u8]) -> Option<Vec<Answer<'_>>> {
    let mut file = Der(der);
    let mut response = file.enter(SEQUENCE)?;
    let is_successful = response.take(ENUMERATED)? == [0];
    let mut bytes = response.enter(CONTEXT_0)?.enter(SEQUENCE)?;
    let is_basic = bytes.take(OBJECT_IDENTIFIER)? == BASIC;
    if !(is_successful && is_basic && file.0.is_empty()) {
        return None;
    }
    let mut data = Der(bytes.take(OCTET_STRING)?).enter(SEQUENCE)?.enter(SEQUENCE)?;
    // The version need not be there; the responder is known by its name or its key.
    let _ = data.take(CONTEXT_0);
    data.take(CONTEXT_1).or_else(|| data.take(CONTEXT_2))?;
    data.take(GENERALIZED_TIME)?;
    let mut list = data.enter(SEQUENCE)?;
    let mut answers = Vec::new();
    while !list.0.is_empty() {
        answers.push(answer(list.enter(SEQUENCE)?)?);
    }
    Some(answers)
}

fn answer(mut der: Der<'_>) -> Option<Answer<'_>> {
    let mut certificate = der.enter(SEQUENCE)?;
    certificate.take(SEQUENCE)?;
    certificate.take(OCTET_STRING)?;
    certificate.take(OCTET_STRING)?;
    let serial = certificate.take(INTEGER)?;
    let is_good = der.take(GOOD).is_some();
    if !is_good {
        der.skip()?;
    }
    der.take(GENERALIZED_TIME)?;
    let until = match der.enter(CONTEXT_0) {
        Some(mut next_update) => Some(time(next_update.take(GENERALIZED_TIME)?)?),
        None => None,
    };
    Some(Answer { serial, is_good, until })
}

/// RFC 5280 4.1.2.5.2: `YYYYMMDDHHMMSSZ`, and in no other way.
fn time(text: &[u8]) -> Option<UnixTime> {
    let digits = text.strip_suffix(b"Z").filter(|digits| digits.len() == 14)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| {
        digits[range].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
    };
    let (year, month, day) = (number(0..4), number(4..6), number(6..8));
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March end with the day that may be missing.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(DAYS_TO_1970)?;
    let seconds = number(8..10) * 3_600 + number(10..12) * 60 + number(12..14);
    Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(days * 86_400 + seconds)))
}

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_1970: u64 = 719_468;

/// Whether two contents of INTEGER are the same, whatever zeros they begin with.
fn same_number(a: &[u8], b: &[u8]) -> bool {
    let significant = |number: &[u8]| number.iter().position(|byte| *byte != 0);
    let a = significant(a).map(|at| &a[at..]);
    a.is_some() && a == significant(b).map(|at| &b[at..])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let table = [
            ("the epoch", "19700101000000Z", Some(0)),
            ("a second", "19941106084937Z", Some(784_111_777)),
            ("29 February of a leap year", "20240229000000Z", Some(1_709_164_800)),
            ("the end of a year", "20261231235959Z", Some(1_798_761_599)),
            ("a fraction", "19941106084937.5Z", None),
            ("no zone", "19941106084937", None),
            ("month 13", "19941306084937Z", None),
            ("before 1970", "19691231235959Z", None),
            ("not digits", "1994110608493xZ", None),
        ];
        for (sentence, text, expected) in table {
            let found = time(text.as_bytes()).map(|time| time.as_secs());
            assert_eq!(found, expected, "{sentence}");
        }
    }

    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let contents = parts.concat();
        let len = match contents.len() {
            len @ 0..=0x7f => vec![len as u8],
            len @ 0x80..=0xff => vec![0x81, len as u8],
            len => [&[0x82][..], &(len as u16).to_be_bytes()].concat(),
        };
        [&[tag][..], &len, &contents].concat()
    }

    /// A response about a certificate with this serial number, without a signature worth the name.
    fn response(status: u8, serial: &[u8], said: &[u8], until: Option<&str>) -> Vec<u8> {
        let time = |text: &str| element(GENERALIZED_TIME, &[text.as_bytes()]);
        let hash = element(OCTET_STRING, &[&[7; 20]]);
        let algorithm = element(SEQUENCE, &[&element(OBJECT_IDENTIFIER, &[&[0x2b, 14, 3, 2, 26]])]);
        let id = element(SEQUENCE, &[&algorithm, &hash, &hash, &element(INTEGER, &[serial])]);
        let next = until.map(|until| element(CONTEXT_0, &[&time(until)])).unwrap_or_default();
        let single = element(SEQUENCE, &[&id, said, &time("20260101000000Z"), &next]);
        let by = element(CONTEXT_2, &[&hash]);
        let list = element(SEQUENCE, &[&single]);
        let data = element(SEQUENCE, &[&by, &time("20260101000000Z"), &list]);
        let signature = element(0x03, &[&[0; 200]]);
        let basic = element(SEQUENCE, &[&data, &algorithm, &signature]);
        let basic = [element(OBJECT_IDENTIFIER, &[BASIC]), element(OCTET_STRING, &[&basic])];
        let bytes = element(CONTEXT_0, &[&element(SEQUENCE, &[&basic.concat()])]);
        element(SEQUENCE, &[&element(ENUMERATED, &[&[status]]), &bytes])
    }

    #[test]
    fn only_a_good_word_of_today_for_this_certificate_is_sent() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.serial_number = Some(vec![0x81, 2, 3].into());
        let leaf = params.self_signed(&key).unwrap().der().clone();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_798_761_599));
        let (good, revoked) = (&[GOOD, 0][..], &[0xa1, 2, 0x18, 0][..]);
        let (mine, far) = (&[0, 0x81, 2, 3][..], Some("20270101000000Z"));
        let truncated = response(0, mine, good, far);
        let truncated = truncated[..truncated.len() - 1].to_vec();
        let table = [
            ("good", response(0, mine, good, far), Ok(Some(1_798_761_600))),
            ("good without end", response(0, mine, good, None), Ok(None)),
            ("stale", response(0, mine, good, Some("20261231235959Z")), Err("good until 31 Dec")),
            ("another's", response(0, &[1, 2, 3], good, far), Err("another certificate")),
            ("revoked", response(0, mine, revoked, far), Err("revoked")),
            ("unknown", response(0, mine, &[0x82, 0], far), Err("revoked")),
            ("try later", response(3, mine, good, far), Err("no good OCSP response")),
            ("cut short", truncated, Err("no good OCSP response")),
            ("PEM", b"-----BEGIN OCSP RESPONSE-----".to_vec(), Err("no good OCSP response")),
            ("empty", vec![], Err("no good OCSP response")),
            ("huge", vec![0; STAPLE_BYTES_MAX + 1], Err("larger than 16 KiB")),
        ];
        for (sentence, der, expected) in table {
            match (check(&der, &leaf, now), expected) {
                (Ok(found), Ok(until)) => {
                    assert_eq!(found.map(|until| until.as_secs()), until, "{sentence}");
                }
                (Err(found), Err(why)) => assert!(found.contains(why), "{sentence}: {found}"),
                (found, _) => panic!("{sentence}: {found:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = answers(&bytes);
        }

        #[test]
        fn a_good_response_with_a_flaw_is_read_or_refused(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut der = response(0, &[1, 2, 3], &[GOOD, 0], Some("20270101000000Z"));
            let at = at.index(der.len());
            der[at] = byte;
            let _ = answers(&der);
        }
    }
}
