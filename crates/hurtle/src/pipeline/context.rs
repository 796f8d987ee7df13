//! A request as handlers and gates get it.

use super::connection::Connection;
use super::exchange::Exchange;
use super::resolve::Routed;
use crate::handler::client::ClientInfo;
use crate::handler::request::{MatchedPath, RequestContext, SiteInfo};
use crate::protocol::Protocol;
use crate::site::MountRef;

/// Returns the request as handlers get it.
#[inline(always)] // A move costs as much as making it.
pub(super) fn context<'a, T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    routed: Routed<'a, '_>,
    mount: &'a MountRef<'a>,
    matched: MatchedPath<'a>,
    now_ms: u64,
) -> RequestContext<'a> {
    let has_internal_files = mount.internal().is_some();
    let context = context_without_mount(connection, exchange, routed, matched, now_ms);
    RequestContext { has_internal_files, ..context }
}

/// Returns the request as gates get it that also decide about paths without a mount.
#[inline(always)] // A move costs as much as making it.
pub(super) fn context_without_mount<'a, T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    Routed { request, worker, resolved }: Routed<'a, '_>,
    matched: MatchedPath<'a>,
    now_ms: u64,
) -> RequestContext<'a> {
    let site = resolved.site;
    RequestContext {
        head: request,
        target: resolved.target().unwrap_or_default(),
        matched,
        site: SiteInfo {
            key: resolved.file_key().map_or(site.key(), |key| key.site),
            early_hints: site.early_hints(),
        },
        client: ClientInfo {
            peer: connection.peer,
            address: exchange.client,
            trusted: connection.trusted(),
            is_tls: connection.io.is_secure(),
            version: connection.io.version(),
            port: connection.slot.port(),
        },
        passwords: resolved.passwords(),
        granted: &[],
        place: None,
        replaced: None,
        has_internal_files: false,
        store: &worker.store,
        buffers: &worker.buffers,
        shortcuts: &worker.shortcuts,
        body_bytes_max: resolved.body_bytes().unwrap_or(worker.limits.body_bytes),
        now_ms,
    }
}
