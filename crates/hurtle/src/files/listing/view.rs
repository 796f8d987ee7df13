//! One page of a listing: which entries it shows in which order, and what is known of each.
//! Only what the order and the page need is looked up. How a page is written is left to `html`
//! and `json`.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Stat, statat};

use super::{Kind, Listing};

/// Entries on one page at most.
pub const PAGE_ENTRIES_MAX: usize = 5_000;

/// What the reader asked to see of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// What the entries are ordered by; directories come before files whatever it is.
    pub sort: Sort,
    /// Last name, largest or newest first. Entries that are equal, and directories ordered by
    /// size (they have none), stay in ascending order of name.
    pub descending: bool,
    /// The page, counted from 1.
    pub page: usize,
}

/// What a page can be ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The listing's own order.
    Name,
    /// The files' sizes.
    Size,
    /// The time of the last modification, to the nanosecond.
    Time,
}

/// One page of a directory, ready to be written.
#[derive(Clone, Debug)]
pub struct Page {
    /// What it shows; the page's number is within 1 to `pages`.
    pub view: View,
    /// How many pages there are, at least 1.
    pub pages: usize,
    /// How many entries there are on all pages together.
    pub total: usize,
    /// How many of those are directories.
    pub directories: usize,
    /// Whether the directory holds more than is listed.
    pub truncated: bool,
    /// The page's entries, but for those that have vanished since the scan.
    pub entries: Vec<Entry>,
}

/// What is known of one entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name as it stands in the directory: any bytes but `/` and NUL.
    pub name: Box<[u8]>,
    /// What it stands for.
    pub kind: Kind,
    /// Size in bytes; meaningful for files only.
    pub size: u64,
    /// Last modification, in seconds since 1970-01-01T00:00:00Z.
    pub modified: i64,
}

impl Default for View {
    fn default() -> View {
        View { sort: Sort::Name, descending: false, page: 1 }
    }
}

impl View {
    /// Reads `sort=name|size|time`, `order=asc|desc` and `page=1..`; what is missing, unknown or
    /// broken keeps its default, the last of several wins.
    pub fn from_query(query: Option<&[u8]>) -> View {
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
    /// The places of its entries among all, counted from 1: `5,001..=10,000` on the second page.
    /// Empty (`1..=0`) when there are none.
    pub fn places(&self) -> std::ops::RangeInclusive<usize> {
        let before = (self.view.page - 1) * PAGE_ENTRIES_MAX;
        before + 1..=self.total.min(before + PAGE_ENTRIES_MAX)
    }
}

/// Looks up one page of a listing of `dir`; a page beyond the last shows the last.
///
/// Ordered by name, only the page's own entries are looked up; by size or time, also all others
/// of the kinds it shows, at 16 bytes of memory each. Entries that have vanished are left out of
/// their page and move no other entry to another page, as long as the listing is the same.
pub fn page(listing: &Listing, dir: impl AsFd, view: &View) -> Page {
    let dir = dir.as_fd();
    let total = listing.len();
    let pages = total.div_ceil(PAGE_ENTRIES_MAX).max(1);
    let view = View { page: view.page.clamp(1, pages), ..*view };
    let start = (view.page - 1) * PAGE_ENTRIES_MAX;
    let shown = start..total.min(start + PAGE_ENTRIES_MAX);
    let entries = positions(listing, dir, view, shown)
        .into_iter()
        .filter_map(|position| entry(dir, listing.name(position)))
        .collect();
    Page {
        view,
        pages,
        total,
        directories: listing.directories(),
        truncated: listing.truncated(),
        entries,
    }
}

/// The positions in the listing of what a view shows at the places `shown`, counted from 0.
fn positions(
    listing: &Listing,
    dir: BorrowedFd<'_>,
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
                let sorted = sorted(listing, dir, view, group);
                positions.extend(sorted[within].iter().map(|(_, position)| *position as usize));
            }
        }
    }
    positions
}

/// A group's positions, each behind its key, ordered by what must be looked up.
fn sorted(
    listing: &Listing,
    dir: BorrowedFd<'_>,
    view: View,
    group: Range<usize>,
) -> Vec<(u64, u32)> {
    let key = |position| {
        // Vanished entries gather at the end; `page` leaves them out.
        let Some(stat) = look_up(dir, listing.name(position)) else { return u64::MAX };
        let key = match view.sort {
            Sort::Time => modified_ordinal(&stat),
            Sort::Name | Sort::Size => size_bytes(&stat),
        };
        if view.descending { !key } else { key }
    };
    let mut keyed: Vec<_> = group.map(|position| (key(position), position as u32)).collect();
    keyed.sort_unstable();
    keyed
}

fn entry(dir: BorrowedFd<'_>, name: &[u8]) -> Option<Entry> {
    let stat = look_up(dir, name)?;
    let kind = Kind::of(FileType::from_raw_mode(stat.st_mode))?;
    Some(Entry { name: name.into(), kind, size: size_bytes(&stat), modified: stat.st_mtime })
}

/// `None` when it has vanished, or cannot be looked up for any other reason: one dead mount must
/// not hide what stands beside it.
fn look_up(dir: BorrowedFd<'_>, name: &[u8]) -> Option<Stat> {
    statat(dir, name, AtFlags::empty()).ok()
}

fn size_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Nanoseconds since 1970, moved up so that earlier times compare less. Times beyond the 292 years
/// either way that fit are equal.
// The field's type differs from system to system; the value is below 10^9.
#[allow(clippy::unnecessary_cast)]
fn modified_ordinal(stat: &Stat) -> u64 {
    let nanoseconds = stat.st_mtime.saturating_mul(1_000_000_000);
    nanoseconds.saturating_add(stat.st_mtime_nsec as i64).wrapping_sub(i64::MIN) as u64
}
