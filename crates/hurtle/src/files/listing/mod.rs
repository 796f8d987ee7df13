//! Directory listings: the sorted names of a directory in compact form, and the pages made from
//! them.
//!
//! A [`Listing`] is the result of one scan: names and kinds without sizes or times. It stays valid
//! as long as the directory's modification time does not change. A page looks up sizes and times
//! when it is made.
//!
//! All functions here block on the disk. The caller caches listings, shares scans between requests,
//! and chooses between HTML and JSON.

mod filter;
mod html;
mod json;
mod objects;
mod scan;
mod text;
mod view;

use std::cmp::Ordering;
use std::sync::Arc;

pub(crate) use filter::Filter;
pub(crate) use html::{CONTENT_SECURITY_POLICY, Controls, html};
pub(crate) use json::json;
pub(crate) use objects::page_of_objects;
pub(crate) use scan::scan;
pub(super) use scan::{Serves, visible};
pub(super) use text::UtcTime;
pub(crate) use view::{Entry, Page, Sort, View, page};

/// Maximum number of entries in a listing; further ones are omitted.
pub(crate) const ENTRIES_MAX: usize = 4_000_000;

/// Maximum memory for names, in bytes: enough for a million names of 125 bytes, or `ENTRIES_MAX`
/// names of 30.
pub(crate) const NAMES_BYTES_MAX: usize = 128 << 20;

/// Maximum length of a name, in bytes. Common file systems allow 255 bytes, a few 255 characters. A
/// longer name could not be requested within the default limit of a target.
pub(super) const NAME_BYTES_MAX: usize = 1024;

/// Names are stored in chunks of this size, so that a scan never copies them. A growing vector
/// would need up to three times the memory for a moment.
const CHUNK_BYTES: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 18;
const CHUNKS_MAX: usize = NAMES_BYTES_MAX / CHUNK_BYTES;

/// Size of the header before each name in its chunk: length (two bytes) and kind.
const HEAD_BYTES: usize = 3;

// A position packs a chunk's index and an offset within the chunk into 32 bits.
const _: () = assert!(CHUNKS_MAX <= 1 << (u32::BITS - CHUNK_BITS));
const _: () = assert!(NAME_BYTES_MAX <= u16::MAX as usize);

/// The names in a directory: directories first, then files, each in order of name (ASCII letters
/// without regard to case, then by bytes).
#[derive(Debug)]
pub(crate) struct Listing {
    /// Shared with filtered listings.
    names: Arc<Names>,
    /// Positions of the names, in the listing's order.
    order: Box<[u32]>,
    directories: usize,
    truncated: bool,
}

/// Kind of an entry. Only these kinds are served, so only they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A directory, or a symbolic link to one.
    Directory,
    /// A regular file, or a symbolic link to one.
    File,
}

impl Listing {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Number of directories, which come first.
    pub(crate) fn directories(&self) -> usize {
        self.directories
    }

    /// True if the directory held more than `ENTRIES_MAX` or `NAMES_BYTES_MAX` allow.
    pub(crate) fn truncated(&self) -> bool {
        self.truncated
    }

    /// Heap memory, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.names.heap_bytes() + size_of_val(&*self.order)
    }

    /// Name of the entry with this index, which must be less than `len`.
    fn name(&self, position: usize) -> &[u8] {
        self.names.at(self.order[position]).1
    }
}

/// Collects names in any order and sorts them.
#[derive(Debug, Default)]
struct Builder {
    names: Names,
    entries: usize,
    truncated: bool,
}

impl Builder {
    /// Adds a name. `false` means that there is no room; the listing is then marked as truncated.
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
        self.names.append_positions(&mut order);
        order.sort_unstable_by(|a, b| compare(self.names.at(*a), self.names.at(*b)));
        // A file system may return a name twice if the directory changes during the scan.
        order.dedup_by(|a, b| self.names.at(*a) == self.names.at(*b));
        let directories = order.partition_point(|a| self.names.at(*a).0 == Kind::Directory);
        let order = order.into_boxed_slice();
        Listing { names: Arc::new(self.names), order, directories, truncated: self.truncated }
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

/// Names and kinds in chunks, addressed by position.
#[derive(Debug, Default)]
struct Names {
    chunks: Vec<Vec<u8>>,
}

impl Names {
    /// Appends a name of at most `NAME_BYTES_MAX` bytes; `false` if there is no room.
    fn push(&mut self, kind: Kind, name: &[u8]) -> bool {
        let needed = HEAD_BYTES + name.len();
        let fits = |chunk: &Vec<u8>| chunk.len() + needed <= CHUNK_BYTES;
        if !self.chunks.last().is_some_and(fits) {
            match self.chunks.len() {
                // Most directories are small: only the first chunk grows while it is filled.
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

    fn at(&self, position: u32) -> (Kind, &[u8]) {
        let rest =
            &self.chunks[(position >> CHUNK_BITS) as usize][position as usize % CHUNK_BYTES..];
        let end = HEAD_BYTES + usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let kind = if rest[2] == Kind::File as u8 { Kind::File } else { Kind::Directory };
        (kind, &rest[HEAD_BYTES..end])
    }

    /// Appends the position of every name, in the order of insertion.
    fn append_positions(&self, positions: &mut Vec<u32>) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            let mut offset = 0;
            while offset < chunk.len() {
                let position = (number << CHUNK_BITS | offset) as u32;
                positions.push(position);
                offset += HEAD_BYTES + self.at(position).1.len();
            }
        }
    }

    /// Frees unused memory of the last chunk.
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

#[cfg(test)]
pub(in crate::files) mod tests {
    use std::fs::File;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// A temporary directory, removed at the end of a test.
    pub(in crate::files) struct Scratch(PathBuf);

    impl Scratch {
        pub(in crate::files) fn new() -> Scratch {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let number = COUNT.fetch_add(1, Relaxed);
            let name = format!("hurtle-listing-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        pub(in crate::files) fn path(&self) -> &Path {
            &self.0
        }

        pub(super) fn open(&self) -> File {
            File::open(&self.0).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Builds a listing without a disk; names that end in `/` are directories.
    pub(super) fn listing_of<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Listing {
        let mut builder = Builder::default();
        for name in names {
            let added = match name.strip_suffix(b"/") {
                Some(name) => builder.push(Kind::Directory, name),
                None => builder.push(Kind::File, name),
            };
            assert!(added);
        }
        builder.finish()
    }

    fn names(listing: &Listing) -> Vec<&[u8]> {
        (0..listing.len()).map(|position| listing.name(position)).collect()
    }

    #[test]
    fn names_are_sorted() {
        type Names<'a> = &'a [&'a [u8]];
        let table: [(&str, Names<'_>, Names<'_>); 6] = [
            ("an empty directory has an empty listing", &[], &[]),
            ("directories come before files", &[b"a", b"z/", b"b/"], &[b"b", b"z", b"a"]),
            ("case does not matter", &[b"b", b"C", b"A"], &[b"A", b"b", b"C"]),
            (
                "but still tells names apart",
                &[b"aa", b"AB", b"aB", b"Aa"],
                &[b"Aa", b"aa", b"AB", b"aB"],
            ),
            (
                "a prefix comes first, other bytes as they are",
                &[b"\xFF", b"ab", b"a", b"~"],
                &[b"a", b"ab", b"~", b"\xFF"],
            ),
            ("a name that was read twice is listed once", &[b"a", b"b", b"a"], &[b"a", b"b"]),
        ];
        for (sentence, pushed, expected) in table {
            assert_eq!(names(&listing_of(pushed.iter().copied())), expected, "{sentence}");
        }
    }

    #[test]
    fn a_million_names_fit_into_20_mib() {
        let names = (0..1_000_000_u64).map(|n| format!("file-{:07}", n * 7_919 % 1_000_000));
        let mut builder = Builder::default();
        for name in names {
            assert_eq!(name.len(), 12);
            assert!(builder.push(Kind::File, name.as_bytes()));
        }
        // During a scan the names take only their own memory: nothing is copied when they grow.
        assert!(builder.names.heap_bytes() <= 16 << 20, "{} bytes", builder.names.heap_bytes());
        let listing = builder.finish();
        assert_eq!(listing.len(), 1_000_000);
        assert!(listing.heap_bytes() <= 20 << 20, "{} bytes", listing.heap_bytes());
        for position in 0..listing.len() {
            assert_eq!(listing.name(position), format!("file-{position:07}").as_bytes());
        }
    }

    #[test]
    fn a_small_listing_uses_little_memory() {
        let listing = listing_of([&b"index.html"[..], b"assets/"]);
        assert!(listing.heap_bytes() < 256, "{} bytes", listing.heap_bytes());
    }

    #[test]
    fn omitted_entries_mark_the_listing_as_truncated() {
        let mut builder = Builder::default();
        assert!((0..ENTRIES_MAX).all(|_| builder.push(Kind::File, b"x")));
        assert!(!builder.push(Kind::File, b"one too many"));
        assert!(builder.truncated);

        let mut builder = Builder::default();
        let name = [b'x'; NAME_BYTES_MAX];
        let pushed = (0..).take_while(|_| builder.push(Kind::File, &name)).count();
        assert!(builder.truncated);
        assert_eq!(builder.entries, pushed);
        assert!(builder.names.heap_bytes() <= NAMES_BYTES_MAX + (64 << 10));
        assert!(pushed * NAME_BYTES_MAX > NAMES_BYTES_MAX / 100 * 99);
    }
}
