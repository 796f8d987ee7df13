//! The replacement of an error: a page of the site, or the response of a mount with a name.

use std::rc::Rc;

use http::{HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::message::response::Fields;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestFields, RequestHead};

use super::connection::Connection;
use super::exchange::Exchange;
use super::gates::{Granted, pass};
use super::handle::{Additions, handle, internal_file};
use super::resolve::Routed;
use crate::answer::{Answer, is_bodiless};
use crate::clock;
use crate::config::ErrorPage;
use crate::edits::{FieldEdits, edit_fields};
use crate::handler::{Handled, Handler, HandlerError, Outcome};
use crate::limits::concurrency::Place;
use crate::protocol::Protocol;
use crate::site::{Gate, Resolved};

/// Fields of an upstream's error that its replacement keeps, because they are about the status.
const KEPT_FIELDS: [HeaderName; 4] =
    [header::WWW_AUTHENTICATE, header::PROXY_AUTHENTICATE, header::RETRY_AFTER, header::ALLOW];

/// Fields of a request that a replacement is not asked with: they are about its body, about a
/// representation of its target, or about the connection.
const OMITTED_FIELDS: [&str; 14] = [
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "trailer",
    "expect",
    "upgrade",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "sec-websocket-key",
];

/// Returns an error of the upstream or application as this server's own, if the mount has it
/// replaced.
pub(super) fn intercept(
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    handled: Handled,
) -> Handled {
    let status = match &handled {
        Ok(Outcome::Answer(answer)) => answer.status,
        Ok(Outcome::Stream(response)) => response.status,
        _ => return handled,
    };
    let Some((mount, _)) = resolved.mount() else { return handled };
    if status.as_u16() < 400
        || request.call_type().is_some()
        || request.protocol.is_some()
        || resolved.site.error_page(Some(mount), status).is_none()
    {
        return handled;
    }
    let mut fields = match handled {
        Ok(Outcome::Answer(answer)) => {
            mount.handler().discard(request, answer.body);
            answer.fields
        }
        Ok(Outcome::Stream(response)) => {
            exchange.is_upstream_error = true;
            Fields::Dated(response.lines)
        }
        handled => return handled,
    };
    let mut error = Answer::error(status, None);
    edit_fields(&mut fields, |fields| {
        fields.each(&mut |name, value| {
            let kept = KEPT_FIELDS.into_iter().find(|kept| is_same(name, kept.as_str()));
            if let (Some(kept), Ok(value), Fields::Map(fields)) =
                (kept, HeaderValue::from_bytes(value), &mut error.fields)
            {
                fields.append(kept, value);
            }
        });
    });
    Err(HandlerError::Answer(Box::new(error)))
}

/// Returns what the client gets for an error of this server, if no mount is to be asked for it.
///
/// # Errors
/// The error, and the page in place of it that a mount has.
pub(super) async fn own_page<'a>(
    Routed { request, worker, resolved }: Routed<'a, '_>,
    answer: Answer,
) -> Result<Answer, (Answer, &'a ErrorPage)> {
    if let Some(media_type) = request.call_type() {
        return Ok(Answer::grpc(&answer, media_type));
    }
    // A page may have another status, and with 2xx a WebSocket would be open (RFC 8441 section 5).
    if request.protocol.is_some() {
        return Ok(answer);
    }
    let mount = resolved.mount().map(|(mount, _)| mount);
    let Some(page) = resolved.site.page_for(mount, &answer) else { return Ok(answer) };
    match page.path().filter(|path| !resolved.site.is_of_application(path)) {
        Some(path) => {
            let (path, status) = (path.as_bytes(), page.status);
            let coding = request.accept_encoding;
            Ok(resolved.site.with_page(path, status, &worker.store, coding, answer).await)
        }
        None => Err((answer, page)),
    }
}

/// A request that has an error, and how far it came.
pub(super) struct FailedRequest<'a> {
    /// The gates that may have counted it.
    pub(super) counted: &'a [&'a Gate],
    /// The gate that refused it.
    pub(super) refusing: Option<&'a Gate>,
    /// The response to it without a page.
    pub(super) plain: &'a Answer,
}

/// Has a mount respond to the error of a request, through its own gates. `get` is the request as
/// `without_body` returns it, `status` that of the response, if the mount does not decide. Returns
/// its place of `concurrency`, too. `None`: a gate refuses the request, or there is no response.
pub(super) async fn replace<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    get: Routed<'_, '_>,
    failed: &FailedRequest<'_>,
    status: Option<StatusCode>,
) -> Option<(Handled, Option<Rc<Place>>)> {
    // A site that is down has a page that says so.
    let is_asked = |gate: &&Gate| !matches!(gate, Gate::Maintenance(_));
    let gates = get.resolved.gates().iter().filter(is_asked);
    if failed.refusing.is_some_and(|refusing| gates.clone().any(|gate| gate.is(refusing))) {
        return None;
    }
    let gates: Vec<Gate> = gates.map(|gate| gate.without_rates(failed.counted)).collect();
    let granted = pass(connection, exchange, get, &gates, Granted::default()).await.ok()?;
    let head = &granted.head(get.request);
    let at = get.resolved.mount()?;
    let handler = at.0.handler();
    let Granted { variables, place, .. } = &granted;
    let additions = Additions { variables, place: place.as_ref(), replaced: status };
    let handling =
        handle(connection, exchange, get.with(head), &at, Some(&additions), clock::now_ms());
    let mut handled = handling.await.handled;
    if let Ok(Outcome::InternalRedirect(redirect)) = &handled {
        let file = internal_file(connection, get.with(head), redirect).await;
        if file.status.as_u16() >= 400 {
            return None;
        }
        handled = Ok(Outcome::Answer(file));
    }
    match (&mut handled, status) {
        // The body of this status is none, and its framing that of none.
        (Ok(Outcome::Stream(response)), Some(_)) if is_bodiless(response.status) => return None,
        (Ok(Outcome::Answer(answer)), Some(_)) if is_bodiless(answer.status) => return None,
        (Ok(Outcome::Answer(answer)), Some(status)) => answer.status = status,
        (Ok(Outcome::Stream(response)), Some(status)) => response.status = status,
        (Ok(Outcome::Answer(_) | Outcome::Stream(_)), _)
        | (Ok(Outcome::Abort) | Err(HandlerError::Exchange(_)), _) => {}
        // A fixed response with an error status is the configured replacement. Errors of other
        // handlers, such as a missing file or an upstream that is down, replace nothing.
        (Err(HandlerError::Answer(_)), _) if matches!(handler, Handler::Fixed(_)) => {
            let Err(HandlerError::Answer(fixed)) = handled else { return None };
            let status = status.unwrap_or(fixed.status);
            let mut fixed = Ok(Outcome::Answer(Answer { status, ..*fixed }));
            keep_fields(failed.plain, &mut fixed);
            return Some((fixed, granted.place));
        }
        _ => return None,
    }
    keep_fields(failed.plain, &mut handled);
    Some((handled, granted.place))
}

/// Adds the fields of an error that are about its status to a response with the same status.
fn keep_fields(plain: &Answer, handled: &mut Handled) {
    let Fields::Map(own) = &plain.fields else { return };
    let add = |fields: &mut dyn FieldEdits| {
        for name in KEPT_FIELDS.iter().filter(|name| own.contains_key(*name)) {
            if !fields.has(name) {
                own.get_all(name).iter().for_each(|value| fields.append(name, value));
            }
        }
    };
    match handled {
        Ok(Outcome::Answer(answer)) if answer.status == plain.status => {
            edit_fields(&mut answer.fields, add);
        }
        Ok(Outcome::Stream(response)) if response.status == plain.status => {
            let mut fields = Fields::Dated(std::mem::take(&mut response.lines));
            edit_fields(&mut fields, add);
            if let Fields::Dated(lines) = fields {
                response.lines = lines;
            }
        }
        _ => {}
    }
}

/// Returns the request as a GET, or HEAD, without a body. `lines` get its fields.
pub(super) fn without_body<'a>(
    request: &RequestHead<'a>,
    lines: &'a mut Vec<u8>,
) -> RequestHead<'a> {
    let is_kept = |name: &[u8]| !OMITTED_FIELDS.iter().any(|omitted| is_same(name, omitted));
    let mut field_count = 0;
    for (name, value) in request.fields.iter().filter(|(name, _)| is_kept(name)) {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
        field_count += 1;
    }
    RequestHead {
        method: if request.method == Method::Head { Method::Head } else { Method::Get },
        body: BodyLength::None,
        protocol: None,
        upgrade: None,
        expect_continue: false,
        te_trailers: false,
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
        if_range: None,
        range: None,
        fields: RequestFields::Lines(lines),
        field_count,
        section: None,
        ..request.clone()
    }
}

fn is_same(name: &[u8], other: &str) -> bool {
    name.eq_ignore_ascii_case(other.as_bytes())
}
