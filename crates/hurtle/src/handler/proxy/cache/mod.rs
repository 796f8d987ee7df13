//! Requests to a mount with a response cache. `lookup` finds or fetches a response, `fetch` runs a
//! fetch in a separate task, `fetched_body` reads its body, `interim` brings its interim responses
//! to the client, `partial` fetches and combines ranges, `selection` selects the part that a
//! request gets, `status` is the cache's handling of a request, and `shortcuts` are recent targets.
//! `crate::cache` stores the responses.

mod fetch;
mod fetched_body;
mod interim;
mod lookup;
mod partial;
mod selection;
mod shortcuts;

pub(crate) use shortcuts::{ShortcutKey, Shortcuts};
