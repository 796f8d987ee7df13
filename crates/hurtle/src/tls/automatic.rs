//! State that the thread of ACME certificates shares with handshakes and snapshots: times of
//! renewals, and the names that handshakes ask a certificate for. It outlives reloads. `acme` does
//! the work.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use rustls::pki_types::UnixTime;
use rustls::sign::CertifiedKey;

use super::certificate::{IssuedCertificate, Validity};
use crate::config::{HostName, OnDemand};
use crate::rt::{Bell, oneshot};

/// Certificates on demand in memory; each takes about 4 KiB. Others are in the storage.
const ISSUED_MAX: usize = 10_000;

/// One of this many certificates is dropped when there are too many.
const EVICTED_PART: usize = 10;

/// Longest refusal of a name.
const REFUSED_SECS_MAX: u64 = 366 * 86_400;

/// Refused names that are remembered.
const REFUSED_MAX: usize = 10_000;

/// Names whose certificate is sought at a time; beyond it handshakes for others are refused.
const SOUGHT_MAX: usize = 1_000;

/// Length of a name, which is part of a file name with an extension (`NAME_MAX` is 255).
const NAME_BYTES_MAX: usize = 245;

/// Length of a label (RFC 1035 section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// ACME certificates of a process.
#[derive(Debug, Default)]
pub struct Automatic {
    /// Time of the next attempt by the certificate's file, in seconds since 1970.
    renewals: Mutex<HashMap<PathBuf, u64>>,
    names: Mutex<Names>,
    /// Rings for each new request.
    requested: Bell,
}

/// Names on demand. A handshake takes the lock for one look-up.
#[derive(Debug, Default)]
struct Names {
    issued: HashMap<String, Issued>,
    /// Number of look-ups, which orders `Issued::used`.
    uses: u64,
    /// Refused names, and until when.
    refused: HashMap<String, Instant>,
    /// Names whose certificate is sought, with the handshakes that wait for it.
    sought: HashMap<String, Vec<oneshot::Sender<bool>>>,
    requests: VecDeque<NameRequest>,
}

#[derive(Debug)]
struct Issued {
    key: Arc<CertifiedKey>,
    site: String,
    valid: Validity,
    /// Time of the renewal, in seconds since 1970.
    renewal: u64,
    used: u64,
}

/// A name whose certificate is sought.
#[derive(Clone, Debug)]
pub struct NameRequest {
    /// The name, in lower case.
    pub name: String,
    /// The name of its site.
    pub site: String,
    /// The settings of its site.
    pub settings: OnDemand,
}

/// Certificates on demand of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OnDemandFigures {
    /// Validity of the one in memory that expires first.
    pub(super) valid: Option<Validity>,
    /// The first renewal among those in memory, in seconds since 1970.
    pub(super) renewal: Option<u64>,
}

/// Outcome of a look-up for a handshake.
#[derive(Debug)]
pub(super) enum Demand {
    /// There is a certificate.
    Ready,
    /// It is sought; the receiver gets `true` if it is there.
    Sought(oneshot::Receiver<bool>),
    /// None is ordered for this name, at least for now.
    Refused,
}

/// A request that is being served; handshakes go on when it is dropped.
#[derive(Debug)]
pub struct Serving {
    automatic: Arc<Automatic>,
    name: String,
}

impl Automatic {
    /// Notes when the certificate in this file is ordered next, in seconds since 1970.
    pub fn set_renewal(&self, file: &Path, time: u64) {
        let mut renewals = self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
        renewals.insert(file.to_owned(), time);
    }

    /// Forgets the times and the refusals of another configuration.
    pub fn reset(&self) {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.names().refused.clear();
    }

    /// Time at which the certificate in this file is ordered next; `None`: not known yet.
    pub(super) fn renewal(&self, file: &Path) -> Option<u64> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner).get(file).copied()
    }

    /// Looks up the certificate for the name of a handshake with a site. If there is none, requests
    /// it.
    pub(super) fn demand(&self, name: &str, site: &str, settings: &OnDemand) -> Demand {
        let name = name.to_ascii_lowercase();
        if !is_orderable(&name) {
            return Demand::Refused;
        }
        let now = UnixTime::now().as_secs();
        let mut names = self.names();
        if names.certificate(&name, now).is_some() {
            return Demand::Ready;
        }
        if names.refused.get(&name).is_some_and(|until| Instant::now() < *until) {
            return Demand::Refused;
        }
        let (sender, receiver) = oneshot::channel();
        if let Some(waiting) = names.sought.get_mut(&name) {
            waiting.retain(|sender| !sender.is_closed());
            waiting.push(sender);
            return Demand::Sought(receiver);
        }
        if names.sought.len() >= SOUGHT_MAX {
            return Demand::Refused;
        }
        names.sought.insert(name.clone(), vec![sender]);
        let (site, settings) = (site.to_owned(), settings.clone());
        names.requests.push_back(NameRequest { name, site, settings });
        drop(names);
        self.requested.ring();
        Demand::Sought(receiver)
    }

    /// Waits for the next request.
    pub async fn next_request(self: &Arc<Self>) -> (NameRequest, Serving) {
        loop {
            let next = self.names().requests.pop_front();
            if let Some(request) = next {
                let serving = Serving { automatic: Arc::clone(self), name: request.name.clone() };
                return (request, serving);
            }
            self.requested.wait(None).await;
        }
    }

    /// Uses the certificate and key in `pem` for a name of a site, and renews it at `renewal`, in
    /// seconds since 1970. Returns `false` if it is unusable.
    pub fn insert(&self, name: &str, site: &str, pem: &[u8], renewal: u64) -> bool {
        let now = UnixTime::now().as_secs();
        let host = HostName::Exact(name.to_owned());
        let Ok((issued, key)) = IssuedCertificate::read_with_key(pem, &[host]) else {
            return false;
        };
        if issued.valid.until <= now || !issued.missing_names.is_empty() {
            return false;
        }
        let mut names = self.names();
        names.evict();
        names.uses += 1;
        let (used, valid) = (names.uses, issued.valid);
        let issued = Issued { key: Arc::new(key), site: site.to_owned(), valid, renewal, used };
        names.issued.insert(name.to_owned(), issued);
        true
    }

    /// Replaces a certificate that is in memory, likewise.
    pub fn replace(&self, name: &str, pem: &[u8], renewal: u64) {
        let site = self.names().issued.get(name).map(|issued| issued.site.clone());
        if let Some(site) = site {
            self.insert(name, &site, pem, renewal);
        }
    }

    /// Drops the certificate of a name.
    pub fn remove(&self, name: &str) {
        self.names().issued.remove(name);
    }

    /// Refuses handshakes for a name without a new request, for this long.
    pub fn refuse(&self, name: &str, secs: u64) {
        let now = Instant::now();
        let mut names = self.names();
        if names.refused.len() >= REFUSED_MAX {
            names.refused.retain(|_, until| now < *until);
        }
        if names.refused.len() >= REFUSED_MAX {
            names.refused.clear();
        }
        let until = now + Duration::from_secs(secs.min(REFUSED_SECS_MAX));
        names.refused.insert(name.to_owned(), until);
    }

    /// The certificate for the name of a handshake.
    pub(super) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.names().certificate(&name.to_ascii_lowercase(), UnixTime::now().as_secs())
    }

    /// Figures of the certificates in memory for a site.
    pub(super) fn figures(&self, site: &str) -> OnDemandFigures {
        let now = UnixTime::now().as_secs();
        let names = self.names();
        // Nobody misses an expired one: a handshake orders another.
        let counts = |issued: &&Issued| issued.site == site && now < issued.valid.until;
        let of_site = || names.issued.values().filter(counts);
        OnDemandFigures {
            valid: of_site().map(|issued| issued.valid).min_by_key(|valid| valid.until),
            renewal: of_site().map(|issued| issued.renewal).min(),
        }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        // A poisoned lock still holds whole values.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn certificate(&mut self, name: &str, now: u64) -> Option<Arc<CertifiedKey>> {
        self.uses += 1;
        let issued = self.issued.get_mut(name).filter(|issued| now < issued.valid.until)?;
        issued.used = self.uses;
        Some(Arc::clone(&issued.key))
    }

    /// Drops the least recently used certificates if there are too many.
    fn evict(&mut self) {
        if self.issued.len() < ISSUED_MAX {
            return;
        }
        let mut used: Vec<u64> = self.issued.values().map(|issued| issued.used).collect();
        let at = used.len() / EVICTED_PART;
        let (_, limit, _) = used.select_nth_unstable(at);
        self.issued.retain(|_, issued| issued.used > *limit);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut names = self.automatic.names();
        let is_there = names.certificate(&self.name, UnixTime::now().as_secs()).is_some();
        let waiting = names.sought.remove(&self.name).unwrap_or_default();
        drop(names);
        waiting.into_iter().for_each(|sender| sender.send(is_there));
    }
}

/// `true`: an authority can issue a certificate for this name, in lower case. It is a host name
/// with at least two labels (RFC 1123 section 2.1), and no address.
fn is_orderable(name: &str) -> bool {
    let is_label = |label: &str| {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(known)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let top = name.rsplit_once('.').map(|(_, top)| top);
    name.len() <= NAME_BYTES_MAX
        && name.split('.').all(is_label)
        && top.is_some_and(|top| !top.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::config::{Period, RequestRate};

    fn settings() -> OnDemand {
        let rate = RequestRate { count: 1, period: Period::Minute };
        OnDemand { ask: "http://127.0.0.1:1/".to_owned(), rate }
    }

    fn pem(name: &str) -> String {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        key.serialize_pem() + &params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn only_host_names_are_ordered() {
        let long = |length: usize| "a.".repeat(length / 2) + "aa";
        let table = [
            ("a name", "shop.example.org", true),
            ("two labels", "example.org", true),
            ("an internationalized name", "xn--bcher-kva.example", true),
            ("one label", "localhost", false),
            ("an address", "192.0.2.1", false),
            ("an underscore", "_dmarc.example.org", false),
            ("a path", "../a.example.org", false),
            ("an empty label", "a..example", false),
            ("the root's dot", "a.example.", false),
            ("a hyphen first", "-a.example", false),
            ("a hyphen last", "a-.example", false),
            ("a wildcard", "*.example.org", false),
            ("empty", "", false),
        ];
        for (sentence, name, expected) in table {
            assert_eq!(is_orderable(name), expected, "{sentence}");
        }
        assert!(is_orderable(&long(242)) && !is_orderable(&long(244)), "the longest name");
        assert!(!is_orderable(&format!("{}.org", "a".repeat(64))));
    }

    #[test]
    fn handshakes_for_one_name_share_a_request_and_a_refusal_is_remembered() {
        let automatic = Arc::new(Automatic::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let demand = |name: &str| automatic.demand(name, "site", &settings());
        let (Demand::Sought(first), Demand::Sought(second)) = (demand("a.test"), demand("A.test"))
        else {
            panic!("not sought")
        };
        runtime.block_on(async {
            let (request, serving) = automatic.next_request().await;
            assert_eq!(request.name, "a.test");
            let another = crate::rt::timeout(Duration::ZERO, automatic.next_request());
            assert!(another.await.is_none(), "one request for both");
            assert!(automatic.insert("a.test", "site", pem("a.test").as_bytes(), 5));
            drop(serving);
            assert_eq!((first.recv().await, second.recv().await), (Some(true), Some(true)));
        });
        assert!(matches!(demand("a.test"), Demand::Ready));
        assert_eq!(automatic.figures("site").renewal, Some(5));
        assert_eq!(automatic.figures("another"), OnDemandFigures::default());
        let other = pem("another.test");
        assert!(!automatic.insert("b.test", "site", other.as_bytes(), 5), "it lacks the name");
        assert!(matches!(demand("b.test"), Demand::Sought(_)));
        automatic.refuse("b.test", 60);
        assert!(matches!(demand("b.test"), Demand::Refused));
        automatic.reset();
        assert!(
            matches!(demand("b.test"), Demand::Sought(_)),
            "another configuration may allow it"
        );
    }

    #[test]
    fn the_names_in_memory_are_bounded() {
        let automatic = Arc::new(Automatic::default());
        let pem = pem("a.test");
        assert!(automatic.insert("a.test", "site", pem.as_bytes(), 0));
        {
            let mut names = automatic.names();
            let key = Arc::clone(&names.issued["a.test"].key);
            for number in 0..ISSUED_MAX as u64 {
                let (key, site) = (Arc::clone(&key), String::new());
                let valid = Validity { from: 0, until: u64::MAX };
                let issued = Issued { key, site, valid, renewal: 0, used: number };
                names.issued.insert(format!("{number}.test"), issued);
            }
            names.uses = ISSUED_MAX as u64;
        }
        assert!(automatic.certificate("5.test").is_some(), "which makes it a recent one");
        assert!(automatic.insert("a.test", "site", pem.as_bytes(), 0));
        let names = automatic.names();
        assert!(names.issued.len() <= ISSUED_MAX - ISSUED_MAX / EVICTED_PART + 2);
        assert!(names.issued.contains_key("5.test") && !names.issued.contains_key("6.test"));
        drop(names);
        for number in 0..=SOUGHT_MAX {
            let found = automatic.demand(&format!("{number}.sought.test"), "site", &settings());
            assert_eq!(matches!(found, Demand::Refused), number == SOUGHT_MAX, "{number}");
        }
        for number in 0..=REFUSED_MAX {
            automatic.refuse(&format!("{number}.refused.test"), 60);
        }
        assert!(automatic.names().refused.len() <= REFUSED_MAX);
    }
}
