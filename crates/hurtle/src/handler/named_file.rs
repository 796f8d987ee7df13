//! The file that a response names in place of its body (X-Accel-Redirect, X-Sendfile).

use hurtle_http::cgi::{ACCEL, SENDFILE};
use hurtle_http::message::forward;
use hurtle_http::message::response::Fields;

use super::request::RequestContext;
use super::{FileName, InternalRedirect, Outcome};
use crate::answer::Answer;

/// Returns an application's response, or the file that it names.
pub(super) fn named_file(request: &RequestContext<'_>, mut answer: Answer) -> Outcome {
    let Fields::Map(fields) = &mut answer.fields else { return Outcome::Answer(answer) };
    if !request.has_internal_files {
        return Outcome::Answer(answer);
    }
    let (accel, sendfile) = (fields.remove(ACCEL), fields.remove(SENDFILE));
    let file = match (&accel, &sendfile) {
        (Some(name), _) => FileName::Accel(name.as_bytes().to_vec()),
        (None, Some(name)) => FileName::Sendfile(name.as_bytes().to_vec()),
        (None, None) => return Outcome::Answer(answer),
    };
    let kept = |with_content| {
        let mut kept = Vec::new();
        for (name, value) in &*fields {
            let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
            forward::keep_for_file(&mut kept, name, value, with_content);
        }
        kept.into()
    };
    let (kept, kept_without_content) = (kept(true), kept(false));
    Outcome::InternalRedirect(Box::new(InternalRedirect { file, kept, kept_without_content }))
}
