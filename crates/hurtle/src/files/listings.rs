//! Listings of directories: one scan of a directory at a time, kept until the directory changes.
//! Shared by all workers, used on the pool only, so its locks never hold a loop.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::listing::{self, Listing, View};
use super::{Lookup, store::Trouble};
use crate::body::Stamp;
use crate::disk::{Disk, Lane};

/// Kept listings, in bytes; the largest one is kept even if it is larger.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// A directory changed this recently may change again without its time telling.
const SETTLED_NS: i128 = 2_000_000_000;

/// What is known of directories.
#[derive(Clone, Debug)]
pub struct Listings {
    lane: Lane,
    places: Arc<Mutex<HashMap<(u64, u64), Arc<Place>>>>,
}

/// One directory. Its lock is held during a scan: who wants the same one waits for it.
#[derive(Debug, Default)]
struct Place(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    stamp: Stamp,
    dotfiles: bool,
    listing: Arc<Listing>,
}

/// What is wanted of a directory.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Beneath the look-up's root.
    pub path: Vec<u8>,
    /// As the client sees it: decoded, ends with `/`.
    pub url_path: Vec<u8>,
    /// Whether hidden names are shown.
    pub dotfiles: bool,
    /// Order and page.
    pub view: View,
    /// JSON, not HTML.
    pub json: bool,
}

impl Listings {
    /// None yet; scans queue in a lane of their own.
    pub fn new(disk: &Disk) -> Listings {
        Listings { lane: disk.lane(), places: Arc::default() }
    }

    /// A page of a directory, written.
    ///
    /// # Errors
    /// When the disk gives no answer, or the directory may not be read.
    pub async fn page(
        &self,
        disk: &Disk,
        lookup: Arc<Lookup>,
        wanted: Wanted,
    ) -> Result<Bytes, Trouble> {
        let this = self.clone();
        let page = disk.run(self.lane, move || this.write(&lookup, &wanted)).await;
        page.map_err(Trouble::Pool)?.map_err(Trouble::Disk)
    }

    fn write(&self, lookup: &Lookup, wanted: &Wanted) -> io::Result<Bytes> {
        let directory = lookup.open_directory(&wanted.path)?;
        let stamp = Stamp::of(&rustix::fs::fstat(&directory)?);
        let listing = self.listing(&directory, stamp, wanted.dotfiles)?;
        let page = listing::page(&listing, &directory, &wanted.view);
        let write = if wanted.json { listing::json } else { listing::html };
        Ok(write(&page, &wanted.url_path).into())
    }

    fn listing(
        &self,
        directory: &std::os::fd::OwnedFd,
        stamp: Stamp,
        dotfiles: bool,
    ) -> io::Result<Arc<Listing>> {
        let place = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(places.entry((stamp.device, stamp.inode)).or_default())
        };
        let mut kept = place.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept
            && kept.stamp == stamp
            && kept.dotfiles == dotfiles
        {
            return Ok(Arc::clone(&kept.listing));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settled = now.as_nanos() as i128 - stamp.changed_ns >= SETTLED_NS;
        *kept = None;
        let listing = Arc::new(listing::scan(directory, dotfiles)?);
        if settled {
            *kept = Some(Kept { stamp, dotfiles, listing: Arc::clone(&listing) });
        }
        drop(kept);
        self.make_room(&place, listing.heap_bytes());
        Ok(listing)
    }

    /// Forgets other directories until what is kept fits.
    fn make_room(&self, newest: &Arc<Place>, newest_bytes: usize) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = newest_bytes;
        places.retain(|_, place| {
            if Arc::ptr_eq(place, newest) {
                return true;
            }
            // One being scanned just now is in use; how large it will be is not known yet.
            let Ok(kept) = place.0.try_lock() else { return true };
            let Some(kept) = &*kept else { return false };
            bytes += kept.listing.heap_bytes();
            bytes <= KEPT_BYTES_MAX
        });
    }
}
