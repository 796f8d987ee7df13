//! The page of a single-page application, which is sent in place of files that are missing.

use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use hurtle_http::semantics::accept::{accepts_html, quality};
use hurtle_http::semantics::media;

use super::{Directory, Found, HandlerRequest, MatchedPath, not_found};
use crate::answer::Answer;
use crate::clock;
use crate::files::store::LookupError;
use crate::files::{self, Outcome, Store, Target};

impl Directory {
    /// The page of a single-page application, if it is sent in place of this.
    pub(crate) fn page_for(&self, target: &Target) -> Option<&str> {
        let is_replaced = match target {
            Target::Missing => true,
            Target::Directory(..) => !self.config.listing,
            _ => false,
        };
        self.config.spa.as_deref().filter(|_| is_replaced)
    }

    /// Serves the page of a single-page application in place of a file that is missing.
    ///
    /// # Errors
    /// The look-up of the page failed.
    pub(super) async fn spa_fallback(
        &self,
        store: &Rc<Store>,
        request: &HandlerRequest<'_>,
        matched: &MatchedPath<'_>,
    ) -> Result<Answer, LookupError> {
        let Some(spa) = &self.config.spa else { return Ok(not_found()) };
        // Caches must not send it to clients that want something else, nor the error to browsers.
        let missing = || not_found().with(header::VARY, HeaderValue::from_static("Accept"));
        if !is_for_page(matched.rest, request.accept) {
            return Ok(missing());
        }
        let Some(lookup) = self.lookup(spa.trim_start_matches('/').as_bytes()) else {
            return Ok(missing());
        };
        let lookup = Arc::new(lookup);
        let looked_up_ms = clock::now_ms();
        let Outcome::File { path, opened } = store.find(&lookup, request.get).await? else {
            return Ok(missing());
        };
        let mut rules = self.field_rules(matched, &path, request.status);
        rules.varies_by_accept = true;
        let found = Found { lookup, looked_up_ms, path, opened };
        let entry = self.entry_with(matched, found, rules);
        files::respond(&entry, StatusCode::OK, &request.file, request.get).await
    }
}

/// Returns whether the page of a single-page application answers a request for a missing file. A
/// name with an extension is most likely a script or an image, whose clients accept anything: it
/// needs a client that names HTML, as browsers do when they open a page.
pub(crate) fn is_for_page(rest: &[u8], accept: Option<&[u8]>) -> bool {
    match media::extension(rest).is_empty() {
        true => quality(accept, "text/html") > 0,
        false => accepts_html(accept),
    }
}
