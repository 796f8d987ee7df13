//! A table of recent targets that a cache has answered: the route, the cache key, and the encoded
//! fields of each. Repeated requests skip routing and encoding. The response itself is looked up in
//! its cache each time.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use hurtle_http::recent::RecentTable;
use hurtle_http::semantics::host::Host;

use crate::handler::proxy::Proxy;

/// Number of slots of the table.
const SLOTS: usize = 1 << 10;

/// Maximum length of a target in the table, in bytes.
pub const TARGET_BYTES_MAX: usize = 512;

/// Maximum length of encoded fields in the table, in bytes.
const LINES_BYTES_MAX: usize = 2 << 10;

/// The parts of a request that determine its route, if neither the client nor other fields do.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The site's number.
    pub site: usize,
    /// `true` if the request came over TLS.
    pub secure: bool,
    /// The host as it was sent.
    pub host: Option<Host<'a>>,
    /// The target as it was sent.
    pub target: &'a [u8],
}

/// The route and cache key of a target.
pub struct Shortcut {
    site: usize,
    secure: bool,
    host: Option<(Box<[u8]>, Option<u16>)>,
    target: Box<[u8]>,
    /// The handler with the cache.
    pub proxy: Rc<Proxy>,
    /// The decoded path after the site's rules.
    pub path: Box<[u8]>,
    /// The hash of the cache key, and the key.
    pub key: (u64, Box<[u8]>),
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
pub struct Shortcuts(RecentTable<Shortcut>);

impl Default for Shortcuts {
    fn default() -> Shortcuts {
        Shortcuts(RecentTable::new(SLOTS))
    }
}

impl Shortcuts {
    /// Returns the shortcut of a request.
    pub fn find(&self, asking: &Asking<'_>) -> Option<Rc<Shortcut>> {
        self.0.find(self.hash(asking), |known| known.is(asking))
    }

    /// Stores the shortcut of a request that repeats.
    pub fn note(&self, asking: &Asking<'_>, proxy: &Rc<Proxy>, path: &[u8], key: (u64, &[u8])) {
        let hash = self.hash(asking);
        if !self.0.repeats(hash) {
            return;
        }
        let shortcut = Shortcut {
            site: asking.site,
            secure: asking.secure,
            host: asking.host.map(|host| (host.name.into(), host.port)),
            target: asking.target.into(),
            proxy: Rc::clone(proxy),
            path: path.into(),
            key: (key.0, key.1.into()),
            lines: RefCell::default(),
        };
        self.0.insert(hash, shortcut);
    }

    fn hash(&self, asking: &Asking<'_>) -> u64 {
        self.0.hash((asking.target, asking.host.map_or(b"".as_slice(), |host| host.name)))
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

    /// Appends the fields of the response with this serial number and age, if they are stored.
    pub fn put_lines(&self, serial: u64, age: u64, out: &mut Vec<u8>) -> bool {
        let lines = self.lines.borrow();
        let known = lines.of == Some((serial, age));
        if known {
            out.extend_from_slice(&lines.bytes);
        }
        known
    }

    /// Stores the encoded fields.
    pub fn keep_lines(&self, serial: u64, age: u64, bytes: &[u8]) {
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
