//! Requests that a cache has answered lately, as they were sent: where they lead, under which key the
//! answer is stored, and its fields as they were sent last. So none of that is found or written anew
//! for each of them. Whether an answer is still stored, and good, is asked of its cache each time.

use std::cell::RefCell;
use std::fmt;
use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::DefaultHashBuilder;

use crate::handler::proxy::Proxy;
use crate::semantics::host::Host;

/// Places for them: the newest in each.
const PLACES: usize = 1 << 10;

/// Longer targets have none, in bytes.
pub const TARGET_BYTES_MAX: usize = 512;

/// Longer fields are written anew, in bytes.
const LINES_BYTES_MAX: usize = 2 << 10;

/// What of a request says where it leads, where neither its client nor its other fields do.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The site's number.
    pub site: usize,
    /// Whether it came over TLS.
    pub secure: bool,
    /// As it was sent.
    pub host: Option<Host<'a>>,
    /// As it was sent.
    pub target: &'a [u8],
}

/// Where it leads.
pub struct Shortcut {
    site: usize,
    secure: bool,
    host: Option<(Box<[u8]>, Option<u16>)>,
    target: Box<[u8]>,
    /// Who has the cache.
    pub proxy: Rc<Proxy>,
    /// Decoded, after the site's rules.
    pub path: Box<[u8]>,
    /// Under which it is stored, and its hash.
    pub key: (u64, Box<[u8]>),
    lines: RefCell<Lines>,
}

/// The fields of the whole of a stored response at an age in seconds.
#[derive(Default)]
struct Lines {
    of: Option<(u64, u64)>,
    bytes: Vec<u8>,
}

/// One worker's.
pub struct Shortcuts {
    places: RefCell<Vec<Place>>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Default)]
struct Place {
    /// Of who came last: only who comes twice in a row is worth being kept.
    hash: u64,
    shortcut: Option<Rc<Shortcut>>,
}

impl Default for Shortcuts {
    fn default() -> Shortcuts {
        let places = RefCell::new(vec![Place::default(); PLACES]);
        Shortcuts { places, hasher: DefaultHashBuilder::default() }
    }
}

impl Shortcuts {
    /// The one of requests like this.
    pub fn find(&self, asking: &Asking<'_>) -> Option<Rc<Shortcut>> {
        let hash = self.hash(asking);
        let places = self.places.borrow();
        let place = &places[hash as usize % PLACES];
        let shortcut =
            place.shortcut.as_ref().filter(|known| place.hash == hash && known.is(asking));
        shortcut.map(Rc::clone)
    }

    /// Remembers one, if such a request came before it.
    pub fn note(&self, asking: &Asking<'_>, proxy: &Rc<Proxy>, path: &[u8], key: (u64, &[u8])) {
        let hash = self.hash(asking);
        let place = &mut self.places.borrow_mut()[hash as usize % PLACES];
        if place.hash != hash {
            *place = Place { hash, shortcut: None };
            return;
        }
        place.shortcut = Some(Rc::new(Shortcut {
            site: asking.site,
            secure: asking.secure,
            host: asking.host.map(|host| (host.name.into(), host.port)),
            target: asking.target.into(),
            proxy: Rc::clone(proxy),
            path: path.into(),
            key: (key.0, key.1.into()),
            lines: RefCell::default(),
        }));
    }

    fn hash(&self, asking: &Asking<'_>) -> u64 {
        self.hasher.hash_one((asking.target, asking.host.map_or(b"".as_slice(), |host| host.name)))
    }
}

impl Shortcut {
    fn is(&self, asking: &Asking<'_>) -> bool {
        let host = self.host.as_ref().map(|(name, port)| Host { name, port: *port });
        self.site == asking.site
            && self.secure == asking.secure
            && *self.target == *asking.target
            && host == asking.host
    }

    /// Appends the fields of the response of that serial number at that age, if they are known.
    pub fn put_lines(&self, serial: u64, age: u64, out: &mut Vec<u8>) -> bool {
        let lines = self.lines.borrow();
        let known = lines.of == Some((serial, age));
        if known {
            out.extend_from_slice(&lines.bytes);
        }
        known
    }

    /// Remembers them.
    pub fn keep_lines(&self, serial: u64, age: u64, bytes: &[u8]) {
        if bytes.len() <= LINES_BYTES_MAX {
            let mut lines = self.lines.borrow_mut();
            lines.of = Some((serial, age));
            lines.bytes.clear();
            lines.bytes.extend_from_slice(bytes);
        }
    }
}

impl fmt::Debug for Shortcuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shortcuts").finish_non_exhaustive()
    }
}
