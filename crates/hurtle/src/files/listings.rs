//! Caches directory listings. Requests for the same directory share one scan. All workers share the
//! cache; only disk threads use it, so its locks never block an event loop.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::listing::{self, Controls, Filter, Listing, Serves, View};
use super::{Hashes, Lookup, Sidecars, store::LookupError};
use crate::body::Stamp;
use crate::config::Symlinks;
use crate::disk::{Disk, Lane};

/// Maximum memory of cached listings, in bytes. The newest one is kept even if it is larger.
const CACHED_BYTES_MAX: usize = 16 << 20;

/// The cache of listings.
#[derive(Clone, Debug)]
pub(crate) struct Listings {
    lane: Lane,
    slots: Arc<Mutex<HashMap<(u64, u64), Arc<Slot>>>>,
    sidecars: Sidecars,
    hashes: Hashes,
}

/// One directory. The lock is held during a scan: other requests for the directory wait for its
/// result.
#[derive(Debug, Default)]
struct Slot(Mutex<Option<CachedListing>>);

#[derive(Debug)]
struct CachedListing {
    stamp: Stamp,
    dotfiles: bool,
    /// Root and policy that decide which links are listed.
    links: (PathBuf, Symlinks),
    listing: Arc<Listing>,
}

/// Parameters of a listing.
#[derive(Clone, Debug)]
pub(crate) struct ListingRequest {
    /// The directory's path, relative to the root of the look-up.
    pub path: Vec<u8>,
    /// The decoded URL path, with a trailing `/`.
    pub url_path: Vec<u8>,
    /// True if hidden names are shown.
    pub dotfiles: bool,
    pub view: View,
    pub filter: Filter,
    /// True for JSON, false for HTML.
    pub json: bool,
    /// True if the page offers archives.
    pub has_archives: bool,
    /// True if the page offers uploads.
    pub takes_uploads: bool,
}

impl Listings {
    /// Creates an empty cache; scans have their own lane.
    pub(crate) fn new(disk: &Disk) -> Listings {
        let (slots, sidecars, hashes) = Default::default();
        Listings { lane: disk.lane(), slots, sidecars, hashes }
    }

    /// Returns the names of encoded variants, which look-ups of files use.
    pub(crate) fn sidecars(&self) -> &Sidecars {
        &self.sidecars
    }

    /// Returns the hashes of files, which look-ups use.
    pub(crate) fn hashes(&self) -> &Hashes {
        &self.hashes
    }

    /// Writes one page of a directory.
    ///
    /// # Errors
    /// The disk threads are busy, or the directory cannot be read.
    pub(crate) async fn page(
        &self,
        disk: &Disk,
        lookup: Arc<Lookup>,
        request: ListingRequest,
    ) -> Result<Bytes, LookupError> {
        if let Some(origin) = &lookup.origin {
            // Another key than text leads to no listing.
            let prefix = String::from_utf8_lossy(&request.path).into_owned();
            let listed = origin.list(prefix).await.map_err(LookupError::Origin)?;
            let page = disk.run(self.lane, move || written_of_objects(&listed, &request)).await;
            return page.map_err(LookupError::Pool);
        }
        let this = self.clone();
        let page = disk.run(self.lane, move || this.write(&lookup, &request)).await;
        page.map_err(LookupError::Pool)?.map_err(LookupError::Disk)
    }

    fn write(&self, lookup: &Lookup, request: &ListingRequest) -> io::Result<Bytes> {
        let directory = lookup.open_directory(&request.path)?;
        let stamp = Stamp::of(&rustix::fs::fstat(&directory)?);
        let root = lookup.root.open()?;
        let serves = |name: &[u8]| lookup.serves(&root, &[&request.path[..], name].concat());
        let links = (&*lookup.root, &lookup.symlinks);
        let listing = self.listing(&directory, stamp, request.dotfiles, links, &serves)?;
        let listing = match request.filter.is_empty() {
            true => listing,
            false => Arc::new(request.filter.apply(&listing)),
        };
        Ok(written(&listing::page(&listing, &directory, &request.view, &serves), request))
    }

    fn listing(
        &self,
        directory: &std::os::fd::OwnedFd,
        stamp: Stamp,
        dotfiles: bool,
        links: (&Path, &Symlinks),
        serves: &Serves<'_>,
    ) -> io::Result<Arc<Listing>> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry((stamp.device, stamp.inode)).or_default())
        };
        let mut cached = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &*cached
            && cached.stamp == stamp
            && cached.dotfiles == dotfiles
            && (&*cached.links.0, &cached.links.1) == links
        {
            return Ok(Arc::clone(&cached.listing));
        }
        let settled = stamp.has_settled();
        *cached = None;
        let listing = Arc::new(listing::scan(directory, dotfiles, serves)?);
        if settled {
            *cached = Some(CachedListing {
                stamp,
                dotfiles,
                links: (links.0.to_owned(), links.1.clone()),
                listing: Arc::clone(&listing),
            });
        }
        drop(cached);
        self.make_room(&slot, listing.heap_bytes());
        Ok(listing)
    }

    /// Evicts other directories until the cache fits its limit.
    fn make_room(&self, newest: &Arc<Slot>, newest_bytes: usize) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = newest_bytes;
        slots.retain(|_, slot| {
            if Arc::ptr_eq(slot, newest) {
                return true;
            }
            // A locked slot is being scanned, so it is in use and its size is unknown.
            let Ok(cached) = slot.0.try_lock() else { return true };
            let Some(cached) = &*cached else { return false };
            bytes += cached.listing.heap_bytes();
            bytes <= CACHED_BYTES_MAX
        });
    }
}

fn written_of_objects(listed: &hurtle_objects::Listing, request: &ListingRequest) -> Bytes {
    let ListingRequest { filter, view, dotfiles, .. } = request;
    written(&listing::page_of_objects(listed, *dotfiles, filter, view), request)
}

fn written(page: &listing::Page, request: &ListingRequest) -> Bytes {
    if request.json {
        return listing::json(page, &request.url_path).into();
    }
    let controls = Controls {
        filter: request.filter.text(),
        has_archives: request.has_archives,
        takes_uploads: request.takes_uploads,
    };
    listing::html(page, &request.url_path, &controls).into()
}
