//! The step `finish`, between a handler's response and its encoder: header rules,
//! Strict-Transport-Security, CORS, the preset of security headers, and content-codings. Nothing
//! else adds such fields. Every response passes through once; the ready field lines of files and of
//! repeated cache hits are its results, kept.

use std::mem;

use http::{HeaderValue, header};
use hurtle_http::message::response::Fields;
use hurtle_http::request::RequestHead;

use crate::answer::{Answer, Needs};
use crate::compress;
use crate::edits::{FieldEdits, OwnFields, cors, edit_fields};
use crate::handler::UpstreamResponse;
use crate::site::{Resolved, Site};

/// Finishes a response of this server, of an application, or of a cache. `resolved`: `None` for a
/// request without a site, which adds nothing.
pub(crate) fn finish(
    answer: &mut Answer,
    request: &RequestHead<'_>,
    resolved: Option<&Resolved<'_>>,
    is_secure: bool,
) {
    let Some(resolved) = resolved else { return };
    let needs = mem::replace(&mut answer.needs, Needs::Nothing);
    let status = answer.status;
    match needs {
        Needs::Nothing => return,
        Needs::Cors => edit_fields(&mut answer.fields, |fields| {
            if resolved.edits().withholds_hsts(is_secure) {
                fields.remove(&header::STRICT_TRANSPORT_SECURITY);
            }
            add_cors(fields, request, resolved);
        }),
        Needs::OwnEdits => edit_fields(&mut answer.fields, |fields| {
            let own = &mut OwnFields::of(fields);
            resolved.edits().edit(own, || resolved.path(), status, is_secure);
            add_cors(own, request, resolved);
        }),
        Needs::Edits | Needs::EditsAndCoding => edit_fields(&mut answer.fields, |fields| {
            resolved.edits().edit(fields, || resolved.path(), status, is_secure);
            add_cors(fields, request, resolved);
        }),
    }
    if needs == Needs::EditsAndCoding
        && let Some((mount, _)) = resolved.mount()
        && let Some(policy) = resolved.site.compress(mount)
    {
        compress::encode(policy, request, answer);
    }
}

/// Finishes a stored response for all clients of a site. `path` is the decoded path after its
/// rules.
pub(super) fn finish_stored(
    answer: &mut Answer,
    resolved: &Resolved<'_>,
    path: &[u8],
    is_secure: bool,
) {
    let status = answer.status;
    edit_fields(&mut answer.fields, |fields| {
        resolved.edits().edit(fields, || path.into(), status, is_secure);
    });
    answer.needs = Needs::Nothing;
}

/// Finishes the response to a request that no site could be asked about. `site` is the one with the
/// name of the TLS handshake.
pub(super) fn finish_refusal(answer: &mut Answer, site: Option<&Site>) {
    answer.needs = Needs::Nothing;
    if let (Fields::Map(map), Some(hsts)) =
        (&mut answer.fields, site.and_then(|s| s.edits().hsts()))
    {
        map.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
}

/// Finishes an upstream's response, whose body may get a content-coding. Returns its fields.
pub(super) fn finish_stream(
    response: &mut UpstreamResponse,
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    is_secure: bool,
) -> Fields {
    let UpstreamResponse { status, lines, needs, cookie, body } = response;
    let mut finished = Fields::Dated(mem::take(lines));
    edit_fields(&mut finished, |fields| {
        resolved.edits().edit(fields, || resolved.path(), *status, is_secure);
        add_cors(fields, request, resolved);
        append_cookie(fields, cookie.take());
    });
    if *needs == Needs::EditsAndCoding
        && let Some((mount, _)) = resolved.mount()
        && let Some(policy) = resolved.site.compress(mount)
    {
        let (len, mut coding) = (body.described_len(), None);
        edit_fields(&mut finished, |fields| {
            coding = compress::encode_upstream(policy, request, *status, len, fields);
        });
        coding.inspect(|coding| body.encode(*coding));
    }
    finished
}

/// Appends a cookie of this server.
pub(super) fn append_cookie(fields: &mut dyn FieldEdits, cookie: Option<String>) {
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        fields.append(&header::SET_COOKIE, &cookie);
    }
}

/// Adds the fields of CORS, which depend on the request.
fn add_cors(fields: &mut dyn FieldEdits, request: &RequestHead<'_>, resolved: &Resolved<'_>) {
    if let Some(cors) = resolved.cors() {
        cors::edit(fields, cors, request);
    }
}
