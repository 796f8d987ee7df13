//! Requests like those that a cache has answered: by a shortcut, where nothing about the client
//! decides where they lead.

use super::super::shortcuts::{Asking, TARGET_BYTES_MAX};
use super::Connection;
use super::cached::{Sought, directives, is_for_the_origin, may_answer};
use super::outcome::Outcome;
use super::selection::{is_for_the_whole, piece};
use crate::answer::Answer;
use crate::clock;
use crate::h1::request::Request;
use crate::h1::response::Fields;
use crate::semantics::caching::{self, Use};
use crate::site::Site;
use crate::transport::Transport;

impl<T: Transport> Connection<T> {
    /// The stored answer, if it is fresh and wanted whole. Everything else takes the longer way.
    pub(super) fn answer_again(
        &mut self,
        request: &Request<'_>,
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
        let stored = cache.find_hashed(*hash, key, request.field_lines, now_ms).stored?;
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
        let sought = Sought { proxy: &shortcut.proxy, site: number, path: &shortcut.path };
        let answer = self.hit(request, sought, &stored, now_ms, |_| outcome);
        if let Fields::Dated(lines) = &answer.fields {
            shortcut.keep_lines(stored.serial, age, lines);
        }
        Some(answer)
    }

    /// Remembers where a request led that a cache has answered.
    pub(super) fn note_shortcut(&self, request: &Request<'_>, sought: Sought<'_>, key: &[u8]) {
        let site = self.worker.sites.site(sought.site);
        let asking = self.asking(request, sought.site, site);
        if let Some((asking, cache)) = asking.zip(sought.proxy.cache()) {
            let key = (cache.hash(key), key);
            self.worker.shortcuts.note(&asking, sought.proxy, sought.path, key);
        }
    }

    /// `None`: where it leads depends on more.
    fn asking<'a>(&self, request: &Request<'a>, number: usize, site: &Site) -> Option<Asking<'a>> {
        let (target, secure) = (request.raw_target, self.io.is_secure());
        let alike = site.stores_for_all() && !self.trusts_peer();
        let asking = Asking { site: number, secure, host: request.host, target };
        (alike && target.len() <= TARGET_BYTES_MAX).then_some(asking)
    }
}
