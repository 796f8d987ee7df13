//! Selects and orders the entries of one page of a listing, and looks up their sizes and times.
//! Only entries needed for the order or for the page are looked up. `html` and `json` write the
//! page.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Stat};

use super::scan::{Serves, stat_served};
use super::{Kind, Listing};

/// Maximum number of entries on one page.
pub(crate) const PAGE_ENTRIES_MAX: usize = 5_000;

/// The requested view of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// The sort key. Directories always precede files.
    pub sort: Sort,
    /// True for descending order. Equal entries, and directories ordered by size (they have none),
    /// stay in ascending order of name.
    pub descending: bool,
    /// The page number, counted from 1.
    pub page: usize,
}

/// Sort key of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The name: the listing's own order.
    Name,
    /// The size of files.
    Size,
    /// The time of the last modification, in nanoseconds.
    Time,
}

/// One page of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The view; its page number is within 1 to `pages`.
    pub view: View,
    /// Number of pages, at least 1.
    pub pages: usize,
    /// Number of entries on all pages.
    pub total: usize,
    /// Number of directories among them.
    pub directories: usize,
    /// True if the directory holds more than the listing.
    pub truncated: bool,
    /// The entries of this page, without those removed since the scan.
    pub entries: Vec<Entry>,
}

/// An entry with its size and time.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The name as stored in the directory: any bytes except `/` and NUL.
    pub name: Box<[u8]>,
    pub kind: Kind,
    /// Size in bytes; meaningful for files only.
    pub size: u64,
    /// Last modification, in seconds since 1970-01-01T00:00:00Z; `None`: it has none.
    pub modified: Option<i64>,
}

/// The size and time of a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub kind: Kind,
    pub size: u64,
    pub modified: Option<i64>,
    /// Sort key of the time: a later time has a larger number.
    pub modified_ordinal: u64,
}

/// Looks up a name; `None` if it is gone.
pub(super) type LookUp<'a> = dyn Fn(&[u8]) -> Option<Facts> + 'a;

impl Default for View {
    fn default() -> View {
        View { sort: Sort::Name, descending: false, page: 1 }
    }
}

impl View {
    /// Parses `sort=name|size|time`, `order=asc|desc` and `page=1..`. Missing, unknown or malformed
    /// values keep their default; of repeated ones the last counts.
    pub(crate) fn from_query(query: Option<&[u8]>) -> View {
        let mut view = View::default();
        for pair in query.unwrap_or_default().split(|byte| *byte == b'&') {
            match pair {
                b"sort=name" => view.sort = Sort::Name,
                b"sort=size" => view.sort = Sort::Size,
                b"sort=time" => view.sort = Sort::Time,
                b"order=asc" => view.descending = false,
                b"order=desc" => view.descending = true,
                _ => view.page = page_number(pair).unwrap_or(view.page),
            }
        }
        view
    }
}

fn page_number(pair: &[u8]) -> Option<usize> {
    let digits = pair.strip_prefix(b"page=")?;
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|page| *page > 0)
}

impl Page {
    /// The range of this page's entries among all, counted from 1: `5,001..=10,000` on the second
    /// page. Empty (`1..=0`) if there are none.
    pub(crate) fn places(&self) -> std::ops::RangeInclusive<usize> {
        let before = (self.view.page - 1) * PAGE_ENTRIES_MAX;
        before + 1..=self.total.min(before + PAGE_ENTRIES_MAX)
    }
}

/// Looks up one page of a listing of `dir`. A page beyond the last gives the last one.
///
/// Ordered by name, it looks up only the page's own entries. Ordered by size or time, it also looks
/// up all others of the kinds shown, with 16 bytes of memory each. Removed entries are omitted from
/// their page; they move no other entry to another page.
pub(crate) fn page(listing: &Listing, dir: impl AsFd, view: &View, serves: &Serves<'_>) -> Page {
    let dir = dir.as_fd();
    page_with(listing, &|name| look_up(dir, name, serves), view)
}

/// As `page`, with a function that looks up names.
pub(super) fn page_with(listing: &Listing, look_up: &LookUp<'_>, view: &View) -> Page {
    let total = listing.len();
    let pages = total.div_ceil(PAGE_ENTRIES_MAX).max(1);
    let view = View { page: view.page.clamp(1, pages), ..*view };
    let start = (view.page - 1) * PAGE_ENTRIES_MAX;
    let shown = start..total.min(start + PAGE_ENTRIES_MAX);
    let entry = |position| {
        let name = listing.name(position);
        let Facts { kind, size, modified, .. } = look_up(name)?;
        Some(Entry { name: name.into(), kind, size, modified })
    };
    let positions = positions(listing, look_up, view, shown);
    let entries = positions.into_iter().filter_map(entry).collect();
    Page {
        view,
        pages,
        total,
        directories: listing.directories(),
        truncated: listing.truncated(),
        entries,
    }
}

/// Indices of the entries of a view, for the range `shown`, counted from 0.
fn positions(
    listing: &Listing,
    look_up: &LookUp<'_>,
    view: View,
    shown: Range<usize>,
) -> Vec<usize> {
    let boundary = listing.directories();
    let groups = [(Kind::Directory, 0..boundary), (Kind::File, boundary..listing.len())];
    let mut positions = Vec::with_capacity(shown.len());
    for (kind, group) in groups {
        let shown = shown.start.max(group.start)..shown.end.min(group.end);
        if shown.is_empty() {
            continue;
        }
        match (view.sort, kind) {
            (Sort::Name, _) if view.descending => {
                positions.extend(shown.map(|place| group.start + (group.end - 1 - place)));
            }
            (Sort::Name, _) | (Sort::Size, Kind::Directory) => positions.extend(shown),
            _ => {
                let within = shown.start - group.start..shown.end - group.start;
                let sorted = sorted(listing, look_up, view, group);
                positions.extend(sorted[within].iter().map(|(_, position)| *position as usize));
            }
        }
    }
    positions
}

/// Sorts the indices of one kind by a looked-up key.
fn sorted(
    listing: &Listing,
    look_up: &LookUp<'_>,
    view: View,
    group: Range<usize>,
) -> Vec<(u64, u32)> {
    let key = |position| {
        // Removed entries sort last; `page` omits them.
        let Some(facts) = look_up(listing.name(position)) else { return u64::MAX };
        let key = match view.sort {
            Sort::Time => facts.modified_ordinal,
            Sort::Name | Sort::Size => facts.size,
        };
        if view.descending { !key } else { key }
    };
    let mut keyed: Vec<_> = group.map(|position| (key(position), position as u32)).collect();
    keyed.sort_unstable();
    keyed
}

/// `None` if the entry was removed or cannot be looked up: one dead mount must not hide the entries
/// beside it.
fn look_up(dir: BorrowedFd<'_>, name: &[u8], serves: &Serves<'_>) -> Option<Facts> {
    let stat = stat_served(dir, name, serves)?;
    Some(Facts {
        kind: Kind::of(FileType::from_raw_mode(stat.st_mode))?,
        size: size_bytes(&stat),
        modified: Some(stat.st_mtime),
        modified_ordinal: modified_ordinal(&stat),
    })
}

fn size_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Modification time in nanoseconds, mapped to unsigned so that earlier times compare less. Times
/// more than 292 years from 1970 are clamped.
// The field's type differs between systems; the value is below 10^9.
#[allow(clippy::unnecessary_cast)]
fn modified_ordinal(stat: &Stat) -> u64 {
    let nanoseconds = stat.st_mtime.saturating_mul(1_000_000_000);
    nanoseconds.saturating_add(stat.st_mtime_nsec as i64).wrapping_sub(i64::MIN) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::files::listing::scan;
    use crate::files::listing::tests::{Scratch, listing_of};

    #[test]
    fn a_query_is_parsed_or_ignored() {
        let view = |sort, descending, page| View { sort, descending, page };
        let default = View::default();
        let table: [(&str, Option<&str>, View); 14] = [
            ("no query is the default view", None, default),
            ("an empty one too", Some(""), default),
            (
                "all three can be combined",
                Some("sort=size&order=desc&page=2"),
                view(Sort::Size, true, 2),
            ),
            ("in any order", Some("page=3&order=asc&sort=time"), view(Sort::Time, false, 3)),
            (
                "the last of several wins",
                Some("page=3&page=4&sort=size&sort=name"),
                view(Sort::Name, false, 4),
            ),
            (
                "what others add is ignored",
                Some("utm_source=x&sort=size&&=&a=b=c"),
                view(Sort::Size, false, 1),
            ),
            ("an unknown order keeps the default", Some("sort=owner&order=random"), default),
            ("names are case-sensitive", Some("Sort=size&ORDER=desc"), default),
            ("there is no page 0", Some("page=0"), default),
            ("nor a negative one", Some("page=-1"), default),
            ("nor one that is no number", Some("page=two"), default),
            ("nor one without a number", Some("page="), default),
            ("nor one that no counter holds", Some("page=99999999999999999999999"), default),
            (
                "a broken page does not undo a good one",
                Some("page=5&page=x"),
                view(Sort::Name, false, 5),
            ),
        ];
        for (sentence, query, expected) in table {
            assert_eq!(View::from_query(query.map(str::as_bytes)), expected, "{sentence}");
        }
        assert_eq!(View::from_query(Some(b"page=\xFF\0&sort=size")).sort, Sort::Size);
    }

    #[test]
    fn every_one_of_a_million_names_is_on_one_page() {
        let name = |number: usize| format!("{number:07}").into_bytes();
        let names: Vec<Vec<u8>> = (0..1_000_000).map(name).collect();
        let listing = listing_of(names.iter().map(Vec::as_slice));
        let nowhere = File::open("/dev/null").unwrap();
        for descending in [false, true] {
            let mut seen = vec![false; 1_000_000];
            let pages = page(&listing, &nowhere, &View::default(), &|_| true).pages;
            assert_eq!(pages, 200);
            for number in 1..=pages {
                let view = View { descending, page: number, ..View::default() };
                let places = page(&listing, &nowhere, &view, &|_| true).places();
                let shown = places.start() - 1..*places.end();
                for position in positions(
                    &listing,
                    &|name| look_up(nowhere.as_fd(), name, &|_| true),
                    view,
                    shown,
                ) {
                    let number: usize =
                        std::str::from_utf8(listing.name(position)).unwrap().parse().unwrap();
                    assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
                }
            }
            assert!(seen.iter().all(|seen| *seen));
        }
    }

    #[test]
    fn every_real_file_is_on_one_page_in_every_order() {
        const FILES: usize = 18_000;
        const DIRECTORIES: usize = 2_100;
        let scratch = Scratch::new();
        for number in 0..FILES {
            fs::write(scratch.path().join(format!("f{number}")), &[0; 40][..number % 41]).unwrap();
        }
        for number in 0..DIRECTORIES {
            fs::create_dir(scratch.path().join(format!("d{number}"))).unwrap();
        }
        let dir = scratch.open();
        let listing = scan(&dir, false, &|_| true).unwrap();
        assert_eq!((listing.directories(), listing.len()), (DIRECTORIES, DIRECTORIES + FILES));
        for sort in [Sort::Name, Sort::Size, Sort::Time] {
            for descending in [false, true] {
                let view = View { sort, descending, page: 1 };
                let pages = page(&listing, &dir, &view, &|_| true).pages;
                assert_eq!(pages, 5);
                let entries: Vec<Entry> = (1..=pages)
                    .flat_map(|number| {
                        page(&listing, &dir, &View { page: number, ..view }, &|_| true).entries
                    })
                    .collect();
                let names: HashSet<_> = entries.iter().map(|entry| &entry.name).collect();
                assert_eq!(entries.len(), listing.len(), "{view:?}");
                assert_eq!(names.len(), listing.len(), "{view:?}");
                assert!(entries.is_sorted_by_key(|entry| entry.kind), "{view:?}");
                let files = &entries[DIRECTORIES..];
                let sorted = |key: fn(&Entry) -> i64| match descending {
                    false => files.is_sorted_by_key(key),
                    true => files.iter().rev().is_sorted_by_key(key),
                };
                match sort {
                    Sort::Name => {}
                    Sort::Size => assert!(sorted(|entry| entry.size as i64), "{view:?}"),
                    Sort::Time => {
                        assert!(sorted(|entry| entry.modified.unwrap_or_default()), "{view:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn entries_are_ordered() {
        let scratch = Scratch::new();
        let after_1970 = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds);
        for (name, bytes, seconds) in
            [("a", 10, 1.0), ("B", 5_000, 0.2), ("c", 10, 0.1), ("d", 0, 9e9)]
        {
            let file = File::create(scratch.path().join(name)).unwrap();
            file.set_len(bytes).unwrap();
            file.set_modified(after_1970(seconds)).unwrap();
        }
        let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        File::open(scratch.path().join("a")).unwrap().set_modified(before_1970).unwrap();
        for (name, seconds) in [("X", 2.0), ("y", 1.0)] {
            fs::create_dir(scratch.path().join(name)).unwrap();
            let dir = File::open(scratch.path().join(name)).unwrap();
            dir.set_modified(after_1970(seconds)).unwrap();
        }
        let table = [
            ("names without regard to case", Sort::Name, false, "XyaBcd"),
            ("turned round, directories still first", Sort::Name, true, "yXdcBa"),
            ("sizes; equal ones, and directories, by name", Sort::Size, false, "XydacB"),
            ("largest first, the rest as before", Sort::Size, true, "XyBacd"),
            ("times, before 1970 and below a second", Sort::Time, false, "yXacBd"),
            ("latest first", Sort::Time, true, "XydBca"),
        ];
        let listing = scan(scratch.open(), false, &|_| true).unwrap();
        for (sentence, sort, descending, expected) in table {
            let view = View { sort, descending, page: 1 };
            let names = page(&listing, scratch.open(), &view, &|_| true).entries;
            let names: Vec<u8> = names.iter().flat_map(|entry| entry.name.to_vec()).collect();
            assert_eq!(String::from_utf8_lossy(&names), expected, "{sentence}");
        }
    }

    #[test]
    fn removed_entries_leave_a_gap_and_move_no_others() {
        let scratch = Scratch::new();
        for name in ["a", "b", "c", "d"] {
            fs::write(scratch.path().join(name), name).unwrap();
        }
        let listing = scan(scratch.open(), false, &|_| true).unwrap();
        fs::remove_file(scratch.path().join("b")).unwrap();
        fs::remove_file(scratch.path().join("c")).unwrap();
        fs::create_dir(scratch.path().join("c")).unwrap();
        for sort in [Sort::Name, Sort::Size, Sort::Time] {
            let page = page(&listing, scratch.open(), &View { sort, ..View::default() }, &|_| true);
            let mut names: Vec<_> = page.entries.iter().map(|e| (&*e.name, e.kind)).collect();
            names.sort_unstable();
            let expected: [(&[u8], Kind); 3] =
                [(b"a", Kind::File), (b"c", Kind::Directory), (b"d", Kind::File)];
            assert_eq!(names, expected, "by {sort:?}: gone, or what it has become");
            assert_eq!(page.total, 4, "by {sort:?}: the paging stays as it was");
        }
    }

    #[test]
    fn a_page_beyond_the_last_shows_the_last() {
        let scratch = Scratch::new();
        let empty = scan(scratch.open(), false, &|_| true).unwrap();
        let view = View { page: usize::MAX, ..View::default() };
        let shown = page(&empty, scratch.open(), &view, &|_| true);
        assert_eq!((shown.view.page, shown.pages, shown.places().count()), (1, 1, 0));

        let names: Vec<_> = (0..PAGE_ENTRIES_MAX * 2 + 1).map(|n| n.to_string()).collect();
        let listing = listing_of(names.iter().map(String::as_bytes));
        let shown = page(&listing, scratch.open(), &view, &|_| true);
        assert_eq!((shown.view.page, shown.pages, shown.places()), (3, 3, 10_001..=10_001));
    }
}
