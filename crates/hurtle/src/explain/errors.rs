//! The replacement of an error.

use std::rc::Rc;

use super::line;
use crate::answer::Answer;
use crate::files::Store;
use crate::site::Resolved;

/// Returns the page in place of an error, if the site has one.
pub(super) async fn replaced(
    resolved: &Resolved<'_>,
    store: &Rc<Store>,
    accept_encoding: Option<&[u8]>,
    error: Answer,
) -> Answer {
    let page = resolved.site.page_for(resolved.mount().map(|(mount, _)| mount), &error);
    match page.and_then(|page| Some((page.path()?.as_bytes(), page.status))) {
        Some((path, status)) => {
            resolved.site.with_page(path, status, store, accept_encoding, error).await
        }
        None => error,
    }
}

/// Describes the mount or application that responds in place of an error.
pub(super) fn describe(out: &mut String, resolved: &Resolved<'_>, answer: &Answer) {
    let page = resolved.site.page_for(resolved.mount().map(|(mount, _)| mount), answer);
    let Some(page) = page else { return };
    let place = match page.path() {
        Some(path) if resolved.site.is_of_application(path) => path.to_owned(),
        Some(_) => return,
        None => format!("@{}", page.mount().unwrap_or_default()),
    };
    let status = page.status.map_or_else(String::new, |status| format!(", with {status}"));
    line(out, "errors", &format!("{place} responds in place of {}{status}", answer.status));
}
