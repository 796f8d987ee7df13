//! The names in one directory, held compactly and in order, and the pages made from them.
//!
//! A `Listing` is one scan: names and kinds, no sizes or times, so that it stays true for as long
//! as the directory's own modification time does. A page looks up the rest when it is asked for.
//! Everything here waits for the disk and belongs on a thread that may. Keeping a listing, making
//! sure that two requests share one scan, and choosing between HTML and JSON are left to the
//! caller.

mod html;
mod json;
mod scan;
mod text;
mod view;

use std::cmp::Ordering;

pub use html::{CONTENT_SECURITY_POLICY, html};
pub use json::json;
pub use scan::scan;
pub use view::{Entry, PAGE_ENTRIES_MAX, Page, Sort, View, page};

/// Entries a listing holds at most; the rest of a larger directory is left out.
pub const ENTRIES_MAX: usize = 4_000_000;

/// Memory for names at most: a million of 125 bytes, or `ENTRIES_MAX` of 30.
pub const NAMES_BYTES_MAX: usize = 128 << 20;

/// Bytes in one name at most. Common file systems stop at 255, a few count 255 characters; a
/// longer name could not be asked for within the default limit on a request's target.
const NAME_BYTES_MAX: usize = 1024;

/// Names live in chunks of this size, so that a growing scan never copies what it has (a doubling
/// vector would briefly need three times its contents).
const CHUNK_BYTES: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 18;
const CHUNKS_MAX: usize = NAMES_BYTES_MAX / CHUNK_BYTES;

/// What stands before each name in its chunk: length (two bytes) and kind.
const HEAD_BYTES: usize = 3;

// A place is a chunk's number and an offset into it, in 32 bits.
const _: () = assert!(CHUNKS_MAX <= 1 << (u32::BITS - CHUNK_BITS));
const _: () = assert!(NAME_BYTES_MAX <= u16::MAX as usize);

/// The names in one directory: directories first, then files, each by name (ASCII letters without
/// regard to case, then by bytes).
#[derive(Debug)]
pub struct Listing {
    names: Names,
    /// Where each name lies, in the listing's order.
    order: Box<[u32]>,
    directories: usize,
    truncated: bool,
}

/// What a name stands for. Nothing else is ever served, so nothing else is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A directory, or a symbolic link to one.
    Directory,
    /// A regular file, or a symbolic link to one.
    File,
}

impl Listing {
    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many of the entries are directories; they come first.
    pub fn directories(&self) -> usize {
        self.directories
    }

    /// Whether the directory held more than `ENTRIES_MAX` or `NAMES_BYTES_MAX` allow.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Memory it occupies beyond its own size, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.names.heap_bytes() + size_of_val(&*self.order)
    }

    /// The name at a position below `len`.
    fn name(&self, position: usize) -> &[u8] {
        self.names.at(self.order[position]).1
    }
}

/// Gathers names in any order and puts them in the listing's.
#[derive(Debug, Default)]
struct Builder {
    names: Names,
    entries: usize,
    truncated: bool,
}

impl Builder {
    /// Adds a name; false when there is no room for it, and the listing says so.
    #[must_use]
    fn push(&mut self, kind: Kind, name: &[u8]) -> bool {
        if name.len() > NAME_BYTES_MAX {
            return true;
        }
        self.truncated = self.entries == ENTRIES_MAX || !self.names.push(kind, name);
        self.entries += usize::from(!self.truncated);
        !self.truncated
    }

    fn finish(mut self) -> Listing {
        self.names.shrink();
        let mut order = Vec::with_capacity(self.entries);
        order.extend(self.names.places());
        order.sort_unstable_by(|a, b| compare(self.names.at(*a), self.names.at(*b)));
        // A file system may name an entry twice when the directory changes under the scan.
        order.dedup_by(|a, b| self.names.at(*a) == self.names.at(*b));
        let directories = order.partition_point(|a| self.names.at(*a).0 == Kind::Directory);
        let order = order.into_boxed_slice();
        Listing { names: self.names, order, directories, truncated: self.truncated }
    }
}

fn compare((kind_a, a): (Kind, &[u8]), (kind_b, b): (Kind, &[u8])) -> Ordering {
    let folded = |name: &[u8], at: usize| name[at].to_ascii_lowercase();
    let names = || {
        let shorter = a.len().min(b.len());
        match (0..shorter).find(|at| folded(a, *at) != folded(b, *at)) {
            Some(at) => folded(a, at).cmp(&folded(b, at)),
            None => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        }
    };
    kind_a.cmp(&kind_b).then_with(names)
}

/// Names and kinds, one after the other, each found again by its place.
#[derive(Debug, Default)]
struct Names {
    chunks: Vec<Vec<u8>>,
}

impl Names {
    /// Appends a name of at most `NAME_BYTES_MAX`; false when there is no room.
    fn push(&mut self, kind: Kind, name: &[u8]) -> bool {
        let needed = HEAD_BYTES + name.len();
        let fits = |chunk: &Vec<u8>| chunk.len() + needed <= CHUNK_BYTES;
        if !self.chunks.last().is_some_and(fits) {
            match self.chunks.len() {
                // Most directories are small: only the first chunk grows as it is filled.
                0 => self.chunks.push(Vec::new()),
                CHUNKS_MAX => return false,
                _ => self.chunks.push(Vec::with_capacity(CHUNK_BYTES)),
            }
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.extend((name.len() as u16).to_ne_bytes());
            chunk.push(kind as u8);
            chunk.extend(name);
        }
        true
    }

    fn at(&self, place: u32) -> (Kind, &[u8]) {
        let rest = &self.chunks[(place >> CHUNK_BITS) as usize][place as usize % CHUNK_BYTES..];
        let end = HEAD_BYTES + usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let kind = if rest[2] == Kind::File as u8 { Kind::File } else { Kind::Directory };
        (kind, &rest[HEAD_BYTES..end])
    }

    /// Every name's place, in the order they were pushed.
    fn places(&self) -> impl Iterator<Item = u32> {
        self.chunks.iter().enumerate().flat_map(|(number, chunk)| {
            let first = (number << CHUNK_BITS) as u32;
            let end = first + chunk.len() as u32;
            let next = |place: &u32| *place + (HEAD_BYTES + self.at(*place).1.len()) as u32;
            std::iter::successors(Some(first), move |place| Some(next(place)))
                .take_while(move |place| *place < end)
        })
    }

    /// Gives back what the last chunk does not need.
    fn shrink(&mut self) {
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.shrink_to_fit();
        }
    }

    fn heap_bytes(&self) -> usize {
        let chunks = self.chunks.iter().map(Vec::capacity).sum::<usize>();
        chunks + self.chunks.capacity() * size_of::<Vec<u8>>()
    }
}
