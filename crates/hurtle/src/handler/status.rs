//! A page with the figures of the running server, as `hurtle top` shows them, its live updates as
//! server-sent events, and the counters as JSON. `observe::status` makes them.

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, VARY};
use http::header::{HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

use super::request::RequestContext;
use crate::answer::Answer;
use crate::body::{Body, Stream};
use crate::disk::{Disk, Lane};
use crate::observe::status::{self, Feed};

/// The rest of the path of the stream of events.
const EVENTS: &[u8] = b"events";

/// Field by which nginx in front does not buffer a response.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The status page of a mount.
#[derive(Debug)]
pub(crate) struct Status {
    feed: Feed,
    disk: Disk,
    lane: Lane,
}

impl Status {
    /// Creates the page. The counters are read on a disk thread.
    pub(crate) fn new(feed: &Feed, disk: &Disk) -> Status {
        let lane = disk.lane_of("status page".to_owned());
        Status { feed: feed.clone(), disk: disk.clone(), lane }
    }

    /// Answers GET and HEAD.
    pub(crate) async fn answer(&self, request: &RequestContext<'_>) -> Answer {
        let answer = match request.matched.rest {
            b"" => self.page(wants_json(request)).await,
            EVENTS => self.events(request.for_files().get),
            _ => return Answer::error(StatusCode::NOT_FOUND, None),
        };
        answer
            .with(CACHE_CONTROL, HeaderValue::from_static("no-store"))
            .with(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
    }

    async fn page(&self, is_json: bool) -> Answer {
        let feed = self.feed.clone();
        let made = self.disk.run(self.lane, move || {
            let current = feed.current();
            match is_json {
                // A snapshot has only text keys and numbers.
                true => serde_json::to_string_pretty(&current.snapshot).unwrap_or_default() + "\n",
                false => status::document(&current.fragment),
            }
        });
        let Ok(text) = made.await else {
            return Answer::error(StatusCode::SERVICE_UNAVAILABLE, None);
        };
        let media_type = if is_json { "application/json" } else { "text/html; charset=utf-8" };
        Answer::bytes(StatusCode::OK, HeaderValue::from_static(media_type), text)
            .with(VARY, HeaderValue::from(ACCEPT))
            .with(
                CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(status::CONTENT_SECURITY_POLICY),
            )
            .with(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
    }

    fn events(&self, is_get: bool) -> Answer {
        let events = match is_get {
            false => Body::Empty,
            true => match self.feed.subscribe() {
                Some(events) => Body::Stream(Stream::new(events)),
                None => {
                    let why = "as many viewers as are admitted are there, or the server stops";
                    return Answer::error(StatusCode::SERVICE_UNAVAILABLE, Some(why));
                }
            },
        };
        let media_type = HeaderValue::from_static("text/event-stream");
        let answer = Answer::bytes(StatusCode::OK, media_type, "");
        Answer { body: events, ..answer }.with(ACCEL_BUFFERING, HeaderValue::from_static("no"))
    }
}

/// `true` for `?format=json`, and for readers that accept JSON and no HTML.
fn wants_json(request: &RequestContext<'_>) -> bool {
    let query = request.target.1.unwrap_or_default();
    let names = |media_type: &[u8]| {
        let accept = request.head.accept.unwrap_or_default();
        accept.windows(media_type.len()).any(|part| part.eq_ignore_ascii_case(media_type))
    };
    query.split(|b| *b == b'&').any(|pair| pair == b"format=json")
        || (names(b"application/json") && !names(b"text/html"))
}
