//! A site that is down for maintenance while a file exists.

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use hurtle_http::semantics::media;

use crate::answer::Answer;
use crate::clock;
use crate::disk::{Disk, Lane, read_small};

/// Age at which the file is looked up again, in milliseconds.
const TRUSTED_MS: u64 = 1_000;

/// Largest page, in bytes.
const PAGE_BYTES_MAX: u64 = 1 << 20;

/// Time after which clients may try again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("60");

/// Media type of a file whose name has no known extension.
const DEFAULT_TYPE: &str = "text/html; charset=utf-8";

/// The file that takes a site down, as one worker knows it.
#[derive(Debug)]
pub(crate) struct Maintenance {
    file: PathBuf,
    disk: Disk,
    lane: Lane,
    known: RefCell<Known>,
}

/// Result of the last look-up of the file.
#[derive(Debug, Default)]
struct Known {
    /// The contents of the file; `None`: there is none.
    page: Option<Bytes>,
    /// Time of the look-up; `None`: there was none.
    at_ms: Option<u64>,
    /// `true` while another request looks it up.
    is_asked: bool,
}

impl Maintenance {
    pub(super) fn new(file: &Path, disk: &Disk) -> Maintenance {
        let lane = disk.lane_of(format!("maintenance, {}", file.display()));
        Maintenance { file: file.to_owned(), disk: disk.clone(), lane, known: RefCell::default() }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns whether the site is up, without a look-up; `None`: one is due.
    pub(crate) fn is_up(&self, now_ms: u64) -> Option<bool> {
        let known = self.known.borrow();
        let at_ms = known.at_ms?;
        let is_fresh = known.is_asked || now_ms.saturating_sub(at_ms) < TRUSTED_MS;
        is_fresh.then_some(known.page.is_none())
    }

    /// Looks the file up.
    pub(crate) async fn look_up(&self) {
        self.known.borrow_mut().is_asked = true;
        let asked = Asked(self);
        let file = self.file.clone();
        let found = self.disk.run(self.lane, move || read_small(&file, PAGE_BYTES_MAX)).await;
        let mut known = self.known.borrow_mut();
        known.at_ms = Some(clock::now_ms());
        match found {
            // One that is no file, or is too large, has no content.
            Ok(Ok(found)) => known.page = found.map(|page| page.unwrap_or_default().into()),
            // It is there, but cannot be read.
            Ok(Err(error)) => {
                if known.page.is_none() {
                    tracing::error!("maintenance: {}: {error}", self.file.display());
                }
                known.page = Some(Bytes::new());
            }
            // The disk is too busy to tell.
            Err(_) => {}
        }
        drop(known);
        drop(asked);
    }

    /// Returns the response while the site is down: the page, or an error, which the site may have
    /// a page for.
    pub(crate) fn answer(&self) -> Result<Box<Answer>, Box<Answer>> {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let retry = |answer: Answer| Box::new(answer.with(header::RETRY_AFTER, RETRY_AFTER));
        let page = self.known.borrow().page.clone().unwrap_or_default();
        if page.is_empty() {
            return Err(retry(Answer::error(status, Some("down for maintenance"))));
        }
        let extension = media::extension(self.file.as_os_str().as_bytes());
        let media_type = media::of_extension(&extension).unwrap_or(DEFAULT_TYPE);
        Ok(retry(Answer::bytes(status, HeaderValue::from_static(media_type), page)))
    }
}

/// Ends a look-up, even if its request is gone.
struct Asked<'m>(&'m Maintenance);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.known.borrow_mut().is_asked = false;
    }
}
