//! Repeated cache hits: a shortcut from the target to the stored response, for sites whose routing
//! does not depend on the client.

use hurtle_http::h1::response::Fields;
use hurtle_http::request::RequestHead;
use hurtle_http::semantics::caching::{self, Use};

use super::Exchange;
use super::cached::{CacheRoute, directives, is_for_the_origin, may_answer};
use super::outcome::Outcome;
use super::selection::{is_for_the_whole, piece};
use super::shortcuts::{Asking, TARGET_BYTES_MAX};
use crate::answer::Answer;
use crate::clock;
use crate::protocol::Protocol;
use crate::site::Site;

impl<T: Protocol> Exchange<T> {
    /// Returns the stored response if there is a shortcut, the response is fresh, and the request
    /// asks for the whole.
    pub(super) fn answer_again(
        &mut self,
        request: &RequestHead<'_>,
        (number, site): (usize, &Site),
    ) -> Option<Answer> {
        let asking = self.asking(request, number, site)?;
        let shortcut = self.worker.shortcuts.find(&asking)?;
        if !may_answer(request) || !is_for_the_whole(request) || is_for_the_origin(request) {
            return None;
        }
        let now_ms = clock::now_ms();
        let cache = shortcut.proxy.cache()?;
        let (hash, key) = &shortcut.key;
        let stored = cache.find_hashed(*hash, key, request.fields, now_ms).stored?;
        let (head, kept) = (&stored.head, &stored.content.kept);
        let age = head.age(now_ms);
        if caching::usable(&head.freshness, age, &directives(request)) != Use::Fresh {
            return None;
        }
        let outcome = Outcome::Hit(head.freshness.lifetime as i64 - age as i64);
        let mut lines = self.worker.spare_lines.take();
        if shortcut.put_lines(stored.serial, age, &mut lines) {
            self.outcome = Some(outcome);
            let body = piece(kept, 0..kept.len());
            return Some(Answer { status: head.status, fields: Fields::Dated(lines), body });
        }
        let route = CacheRoute { proxy: &shortcut.proxy, site: number, path: &shortcut.path };
        let answer = self.hit(request, route, &stored, now_ms, |_| outcome);
        if let Fields::Dated(lines) = &answer.fields {
            shortcut.keep_lines(stored.serial, age, lines);
        }
        Some(answer)
    }

    /// Adds a shortcut for a request that the cache has answered.
    pub(super) fn note_shortcut(
        &self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        key: &[u8],
    ) {
        let site = self.worker.sites.site(route.site);
        let asking = self.asking(request, route.site, site);
        if let Some((asking, cache)) = asking.zip(route.proxy.cache()) {
            let key = (cache.hash(key), key);
            self.worker.shortcuts.note(&asking, route.proxy, route.path, key);
        }
    }

    /// Builds the key of a shortcut. `None`: the route depends on more than the target.
    fn asking<'a>(
        &self,
        request: &RequestHead<'a>,
        number: usize,
        site: &Site,
    ) -> Option<Asking<'a>> {
        let (target, secure) = (request.raw_target, self.io.is_secure());
        let alike = site.stores_for_all() && !self.trusts_peer();
        let asking = Asking { site: number, secure, host: request.host, target };
        (alike && target.len() <= TARGET_BYTES_MAX).then_some(asking)
    }
}
