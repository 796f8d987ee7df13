//! Files and stored responses that are known: they are answered without a route or a handler, if
//! every gate of theirs says so.

use http::StatusCode;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};

use super::connection::Connection;
use super::exchange::Exchange;
use super::finish::finish_stored;
use super::gates::visitor;
use super::worker::Worker;
use crate::answer::{Answer, Needs};
use crate::files;
use crate::handler::Handler;
use crate::handler::proxy::cache::ShortcutKey;
use crate::handler::request::file_query;
use crate::protocol::Protocol;
use crate::site::Resolved;

/// Returns the response that the file cache or a response cache has for a repeated request.
pub(super) fn known_answer<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    now_ms: u64,
) -> Option<Answer> {
    if request.body != BodyLength::None {
        return None;
    }
    let file = known_file(connection, exchange, request, resolved, now_ms);
    if file.is_some() {
        return file;
    }
    known_response(connection, exchange, request, resolved, now_ms)
}

/// Returns the response that the cache of the route's mount has for a target which it has answered
/// before.
fn known_response<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    now_ms: u64,
) -> Option<Answer> {
    let (mount, matched) = resolved.mount()?;
    let Handler::Proxy(proxy) = mount.handler() else { return None };
    // A trusted proxy before this server may name another host and scheme.
    if proxy.cache().is_none()
        || connection.trusted().is_some()
        || !resolved.allows_known(&visitor(connection, exchange, request, now_ms))
    {
        return None;
    }
    let Worker { shortcuts, buffers, .. } = &*connection.worker;
    let is_secure = connection.io.is_secure();
    let key = ShortcutKey::new(request, resolved.file_key()?.site, is_secure)?;
    let shortcut = shortcuts.find(&key, proxy, &matched)?;
    let known = shortcut.answer(request, buffers, now_ms, |answer| {
        finish_stored(answer, resolved, matched.path, is_secure);
    });
    let (answer, status) = known?;
    if mount.intercepts_errors() && answer.status.as_u16() >= 400 {
        return None;
    }
    exchange.cache_status = Some(status);
    connection.count_for(resolved.metrics());
    exchange.time_by(resolved.timeouts(), &connection.slot);
    Some(answer)
}

/// Returns the response for a file that is in the file cache.
fn known_file<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    now_ms: u64,
) -> Option<Answer> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return None;
    }
    let site = resolved.site;
    if site.edits().withholds_hsts(connection.io.is_secure()) {
        return None;
    }
    let entry = connection.worker.store.fresh(resolved.file_key()?, now_ms)?;
    if !site.allows_known_file(&entry, &visitor(connection, exchange, request, now_ms)) {
        return None;
    }
    let query = file_query(request, connection.is_private);
    let mut answer = files::answer(&entry, StatusCode::OK, &query);
    // None of the entry's gates is one of CORS, so its ready lines are complete.
    answer.needs = Needs::Nothing;
    // A file that was edited or has grown has a stale head, and must be opened again.
    if !answer.body.is_unchanged_lately(now_ms) {
        return None;
    }
    connection.count_for(entry.route.as_ref().unwrap_or(site.own_metrics()));
    exchange.time_by(site.timeouts_of(&entry), &connection.slot);
    connection.metrics.files.hits.add(1);
    Some(answer)
}
