//! A table of recent targets that a cache has answered: the cache key and the encoded fields of
//! each. Repeated requests skip the handler and encoding. The response itself is looked up in its
//! cache each time.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use hurtle_http::message::response::Fields;
use hurtle_http::recent::RecentTable;
use hurtle_http::request::RequestHead;
use hurtle_http::semantics::caching::{self, Use};
use hurtle_http::semantics::host::Host;

use super::super::super::http_request::Buffers;
use super::super::super::request::{MatchedPath, RequestContext};
use super::super::Proxy;
use super::lookup::{adapt, directives, is_for_the_origin, may_answer};
use super::selection::{Source, is_for_the_whole, piece};
use crate::answer::{Answer, Needs};
use crate::cache::CacheStatus;

/// Number of slots of the table.
const SLOTS: usize = 1 << 10;

/// Maximum length of a target in the table, in bytes.
const TARGET_BYTES_MAX: usize = 512;

/// Maximum length of encoded fields in the table, in bytes.
const LINES_BYTES_MAX: usize = 2 << 10;

/// The parts of a request by which its shortcut is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortcutKey<'a> {
    /// The number of the site, or of the mount where more than the path decides.
    pub site: usize,
    /// `true` if the request came over TLS.
    pub secure: bool,
    /// The host as it was sent.
    pub host: Option<Host<'a>>,
    /// The target as it was sent.
    pub target: &'a [u8],
}

/// The route and cache key of a target.
pub(crate) struct Shortcut {
    site: usize,
    secure: bool,
    host: Option<(Box<[u8]>, Option<u16>)>,
    target: Box<[u8]>,
    /// The handler with the cache.
    proxy: Rc<Proxy>,
    /// The decoded path after the site's rules, and the query, of which they may make others for
    /// other requests.
    path: Box<[u8]>,
    query: Option<Box<[u8]>>,
    /// The hash of the cache key, and the key.
    key: (u64, Box<[u8]>),
    lines: RefCell<Lines>,
}

/// The fields of a whole stored response at an age in seconds.
#[derive(Default)]
struct Lines {
    of: Option<(u64, u64)>,
    bytes: Vec<u8>,
}

/// The table of one worker.
#[derive(Debug)]
pub(crate) struct Shortcuts(RecentTable<Shortcut>);

impl Default for Shortcuts {
    fn default() -> Shortcuts {
        Shortcuts(RecentTable::new(SLOTS))
    }
}

impl Shortcuts {
    /// Returns the shortcut of a repeated request whose route leads to this proxy and path.
    pub(crate) fn find(
        &self,
        request: &ShortcutKey<'_>,
        proxy: &Rc<Proxy>,
        matched: &MatchedPath<'_>,
    ) -> Option<Rc<Shortcut>> {
        let shortcut = self.0.find(self.hash(request), |known| known.is_for(request))?;
        Some(shortcut).filter(|shortcut| shortcut.leads_to(proxy, matched))
    }

    /// Adds a shortcut for a request that the cache has answered.
    pub(super) fn add(&self, request: &RequestContext<'_>, proxy: &Rc<Proxy>, key: &[u8]) {
        if request.client.trusted.is_some() {
            return;
        }
        let shortcut = ShortcutKey::new(request.head, request.site.key, request.client.is_tls);
        if let Some((shortcut, cache)) = shortcut.zip(proxy.cache()) {
            self.note(&shortcut, proxy, &request.matched, cache.hash(key), key);
        }
    }

    /// Stores the shortcut of a request that repeats.
    fn note(
        &self,
        request: &ShortcutKey<'_>,
        proxy: &Rc<Proxy>,
        matched: &MatchedPath<'_>,
        cache_hash: u64,
        cache_key: &[u8],
    ) {
        let hash = self.hash(request);
        if !self.0.repeats(hash) {
            return;
        }
        let shortcut = Shortcut {
            site: request.site,
            secure: request.secure,
            host: request.host.map(|host| (host.name.into(), host.port)),
            target: request.target.into(),
            proxy: Rc::clone(proxy),
            path: matched.path.into(),
            query: matched.query.map(Into::into),
            key: (cache_hash, cache_key.into()),
            lines: RefCell::default(),
        };
        self.0.insert(hash, shortcut);
    }

    fn hash(&self, request: &ShortcutKey<'_>) -> u64 {
        self.0.hash((request.target, request.host.map_or(b"".as_slice(), |host| host.name)))
    }
}

impl<'a> ShortcutKey<'a> {
    /// Returns the key of a request; `None`: the target is too long.
    pub(crate) fn new(
        head: &RequestHead<'a>,
        site: usize,
        secure: bool,
    ) -> Option<ShortcutKey<'a>> {
        let target = head.raw_target;
        let key = ShortcutKey { site, secure, host: head.host, target };
        (target.len() <= TARGET_BYTES_MAX).then_some(key)
    }
}

impl Shortcut {
    /// Returns the stored response with its cache status. `None`: it is not fresh, or the request
    /// does not ask for the whole. `finish` makes the edits of fields that are not stored yet.
    pub(crate) fn answer(
        &self,
        request: &RequestHead<'_>,
        buffers: &Buffers,
        now_ms: u64,
        finish: impl FnOnce(&mut Answer),
    ) -> Option<(Answer, CacheStatus)> {
        if !may_answer(request) || !is_for_the_whole(request) || is_for_the_origin(request) {
            return None;
        }
        let cache = self.proxy.cache()?;
        let (hash, key) = &self.key;
        let stored = cache.find_hashed(*hash, key, request.fields, now_ms).stored?;
        if !stored.is_complete() {
            return None;
        }
        let (head, kept) = (&stored.head, &stored.content.kept);
        let age = head.age(now_ms);
        if caching::usable(&head.freshness, age, &directives(request)) != Use::Fresh {
            return None;
        }
        let status = CacheStatus::Hit(head.freshness.lifetime as i64 - age as i64);
        let mut lines = buffers.take_lines();
        if self.put_lines(stored.serial, age, &mut lines) {
            let body = piece(kept, 0..kept.len());
            let answer = Answer::new(head.status, Fields::Dated(lines), body);
            return Some((Answer { needs: Needs::Nothing, ..answer }, status));
        }
        let mut answer = adapt(request, head, Source::Kept(kept), age, status, lines);
        finish(&mut answer);
        if let Fields::Dated(lines) = &answer.fields {
            self.keep_lines(stored.serial, age, lines);
        }
        Some((answer, status))
    }

    fn leads_to(&self, proxy: &Rc<Proxy>, matched: &MatchedPath<'_>) -> bool {
        Rc::ptr_eq(&self.proxy, proxy)
            && *self.path == *matched.path
            && self.query.as_deref() == matched.query
    }

    fn is_for(&self, request: &ShortcutKey<'_>) -> bool {
        let host = self.host.as_ref().map(|(name, port)| Host { name, port: *port });
        self.site == request.site
            && self.secure == request.secure
            && *self.target == *request.target
            && host == request.host
    }

    /// Appends the fields of the response with this serial number and age, if they are stored.
    fn put_lines(&self, serial: u64, age: u64, out: &mut Vec<u8>) -> bool {
        let lines = self.lines.borrow();
        let known = lines.of == Some((serial, age));
        if known {
            out.extend_from_slice(&lines.bytes);
        }
        known
    }

    /// Stores the encoded fields.
    fn keep_lines(&self, serial: u64, age: u64, bytes: &[u8]) {
        if bytes.len() <= LINES_BYTES_MAX {
            let mut lines = self.lines.borrow_mut();
            lines.of = Some((serial, age));
            lines.bytes.clear();
            lines.bytes.extend_from_slice(bytes);
        }
    }
}

impl fmt::Debug for Shortcut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shortcut").finish_non_exhaustive()
    }
}
