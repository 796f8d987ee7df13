//! Fetching a response that is to be stored, beside the connections: no client's going away ends it,
//! and none that reads slowly slows it. Who asked first gets the response as it is, if it turns out
//! not to be for others.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use super::fault::tell;
use super::is_bodiless;
use super::proxy::{INTERIM_MAX, is_interim};
use super::reading::{Piece, Reading};
use crate::cache::{Cache, Charge, Content, Flight, Head, Kept, Live, News, Stored};
use crate::clock;
use crate::h1::fields::pairs;
use crate::h1::framing::BodyLength;
use crate::h1::keep;
use crate::h1::reply::{self, Length, Reply};
use crate::handler::proxy::{Errand, Fault, Heard, Key, Phase, Proxy, Source, Waits};
use crate::rt::{self, First, Teller};
use crate::semantics::caching::{self, Described, Directives, Refused};
use crate::transport::{Input, Taken};

/// What a body may move before the others have their turn.
const TURN_BYTES: usize = 256 << 10;

/// How often a wait is compared with the clock.
const STEP: Duration = Duration::from_millis(250);

/// A response on its way to the cache.
pub(super) struct Fill {
    pub(super) proxy: Rc<Proxy>,
    pub(super) errand: Errand,
    pub(super) flight: Flight,
    /// The path, for the balance.
    pub(super) path: Vec<u8>,
    pub(super) client: Option<IpAddr>,
    /// The request's method and path, for the log.
    pub(super) what: String,
    /// Its field lines: what Vary may name.
    pub(super) lines: Vec<u8>,
    pub(super) directives: Directives,
    pub(super) authorized: bool,
    /// What is asked about anew.
    pub(super) stale: Option<Arc<Stored>>,
    /// Who asked first; `None`: nobody waits.
    pub(super) leader: Option<Teller<Led>>,
}

/// What who asked first is told.
pub(super) enum Led {
    News(News),
    /// It is for nobody else: he goes on with it.
    Pass(Box<(Errand, Taken)>),
}

/// What is to be done with a response's head.
enum Plan {
    /// It is stored, if there is room.
    Store { head: Box<Head>, room: Charge, body: Charge, len: Option<u64> },
    /// What is stored is still good, with this head.
    Refresh(Box<Head>, Result<(), Refused>),
    /// The upstream failed, and what is stored will do.
    Fail,
    /// It is not stored.
    Pass(Refused),
}

impl Fill {
    /// Fetches it.
    pub(super) async fn run(mut self) {
        let asked_secs = clock::unix_secs();
        let waits = Waits::default();
        let taken = match self.ask(&waits).await {
            Ok(taken) => taken,
            Err(status) => return self.fail(status),
        };
        let checked = reply::parse(&taken).map_err(Fault::Flaw);
        let checked = checked.and_then(|reply| match reply.status {
            StatusCode::SWITCHING_PROTOCOLS => Err(Fault::Unasked),
            _ => Ok(reply),
        });
        let reply = match checked {
            Ok(reply) => reply,
            Err(fault) => {
                tell(&self.errand, &self.what, &fault, StatusCode::BAD_GATEWAY);
                self.errand.failed(false);
                return self.fail(StatusCode::BAD_GATEWAY);
            }
        };
        self.errand.succeeded();
        match self.plan(&reply, asked_secs) {
            Plan::Store { head, room, body, len } => {
                let reading = match reply.length {
                    Length::Framed(length) if !is_bodiless(reply.status) => Reading::new(length),
                    _ => Reading::Done,
                };
                let keep_alive = reply.keep_alive;
                drop(taken);
                let stock = Stock { head: *head, room, charge: body, len };
                self.take(&waits, reading, stock, keep_alive).await;
            }
            Plan::Refresh(head, stores) => {
                let keep_alive = reply.keep_alive;
                drop(taken);
                self.refresh(*head, stores, keep_alive);
            }
            Plan::Fail => {
                tell(&self.errand, &self.what, &"its answer is an error", reply.status);
                let status = reply.status;
                self.fail(status);
            }
            Plan::Pass(refused) => self.pass(refused, reply.status, taken),
        }
    }

    /// Asks upstreams until one answers, as a connection does.
    async fn ask(&mut self, waits: &Waits) -> Result<Taken, StatusCode> {
        let mut status = StatusCode::SERVICE_UNAVAILABLE;
        loop {
            let key = Key { client: self.client, path: &self.path };
            let errand = &mut self.errand;
            if !errand.choose(key, clock::now_ms()) {
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    tell(errand, &self.what, &"none is well", status);
                }
                return Err(status);
            }
            let retry = match within(waits, listen(errand, waits)).await {
                Some(Ok(taken)) => return Ok(taken),
                Some(Err(fault)) => {
                    status = StatusCode::BAD_GATEWAY;
                    tell(errand, &self.what, &fault, status);
                    let retry = errand.may_retry(&fault);
                    errand.failed(matches!(fault, Fault::Gone(_) | Fault::Deaf(_)));
                    retry
                }
                None => {
                    status = StatusCode::GATEWAY_TIMEOUT;
                    tell(errand, &self.what, &errand.phase(), status);
                    errand.failed(false);
                    errand.may_retry_late()
                }
            };
            if !retry {
                return Err(status);
            }
        }
    }

    fn plan(&self, reply: &Reply<'_>, asked_secs: u64) -> Plan {
        let now_ms = clock::now_ms();
        let (came_secs, date) = (clock::unix_secs(), clock::date(now_ms));
        let said = caching::of_response(pairs(reply.field_lines));
        let age_secs = caching::age_on_arrival(&said, asked_secs, came_secs);
        if let (Some(stale), StatusCode::NOT_MODIFIED) = (&self.stale, reply.status) {
            let lines = keep::refreshed(&stale.head.lines, reply, &date);
            let freshness = self.may_store(stale.head.status, &lines, came_secs);
            let stores = freshness.map(|_| ());
            let freshness = freshness.unwrap_or(stale.head.freshness);
            let (lines, came_ms) = (lines.into(), now_ms);
            let head = Head { lines, freshness, age_secs, came_ms, ..stale.head.clone() };
            return Plan::Refresh(Box::new(head), stores);
        }
        if let Some(stale) = self.stale.as_ref().filter(|_| reply.status.is_server_error()) {
            let age = stale.head.age(now_ms);
            if caching::usable_on_error(&stale.head.freshness, age, &self.directives) {
                return Plan::Fail;
            }
        }
        let lines = keep::lines(reply, &date);
        let freshness = match self.may_store(reply.status, &lines, came_secs) {
            Ok(freshness) => freshness,
            Err(refused) => return Plan::Pass(refused),
        };
        if !self.is_for_all(reply, &said) {
            return Plan::Pass(Refused::Response);
        }
        let selected = Head::selected(&said.vary, &self.lines);
        let (status, lines, came_ms) = (reply.status, lines.into(), now_ms);
        let head = Head { status, lines, freshness, age_secs, came_ms, selected };
        let len = if is_bodiless(status) { Some(0) } else { exact_len(reply) };
        match self.rooms(&head, len) {
            Some((room, body)) => Plan::Store { head: Box::new(head), room, body, len },
            None => Plan::Pass(Refused::Request),
        }
    }

    fn may_store(
        &self,
        status: StatusCode,
        lines: &[u8],
        came_secs: u64,
    ) -> Result<caching::Freshness, Refused> {
        let said = caching::of_response(pairs(lines));
        caching::may_store(status, &said, &self.directives, self.authorized, came_secs)
    }

    /// Whether a response that may be stored is one whose end can be told, and that others can be
    /// told by what they send.
    fn is_for_all(&self, reply: &Reply<'_>, said: &Described<'_>) -> bool {
        let names_file = reply.file.is_some() && self.proxy.config().internal.is_some();
        // A body that its connection's end delimits may be one that broke off.
        let framed = is_bodiless(reply.status) || reply.length != Length::UntilClose;
        let fits = exact_len(reply).is_none_or(|len| len <= self.cache().object_bytes_max());
        !names_file && framed && fits && !said.vary.iter().any(|name| keep::is_rewritten(name))
    }

    /// Room for a head, and for a body or its beginning.
    fn rooms(&self, head: &Head, len: Option<u64>) -> Option<(Charge, Charge)> {
        let cache = self.cache();
        cache.reserve(head.cost()).zip(cache.reserve(len.unwrap_or(0)))
    }

    fn cache(&self) -> &Arc<Cache> {
        self.flight.cache()
    }

    /// Takes a body, telling those who wait as soon as there is something to tell.
    async fn take(self, waits: &Waits, reading: Reading, stock: Stock, keep_alive: bool) {
        let Fill { proxy, mut errand, flight, what, leader, .. } = self;
        let cache = Arc::clone(flight.cache());
        let Stock { head, room, charge, len } = stock;
        if let Some(body) = here(&mut errand, len) {
            let content = Content::new(Kept::Bytes(body), vec![charge]);
            let stored = Arc::new(Stored::new(head, content, room));
            flight.store(&stored);
            if let Some(leader) = leader {
                leader.tell(Led::News(News::Stored(stored)));
            }
            if keep_alive {
                errand.finish();
            }
            return;
        }
        let live = Live::new(head, len, charge);
        if let Some((leader, reader)) = leader.zip(live.reader()) {
            leader.tell(Led::News(News::Coming(reader)));
        }
        flight.begin(&live);
        let within_ms = proxy.config().read_timeout.as_millis() as u64;
        let mut flight = Some(flight);
        let reads = errand.beside(waits, async |mut source, input| {
            let coming = Body { live: &live, reading, flight: &mut flight, waits, within_ms };
            coming.run(&mut source, input, &cache).await
        });
        let done = match within(waits, reads).await {
            Some(Some(done)) => done,
            Some(None) => Err("there is no connection".to_owned()),
            None => Err(Phase::Reading.to_string()),
        };
        if let Err(why) = done {
            live.fail();
            return tell(&errand, &what, &why, StatusCode::BAD_GATEWAY);
        }
        if keep_alive {
            errand.finish();
        }
        drop(errand);
        if let Some(((body, charge), flight)) = live.finish().zip(flight) {
            let (content, spare) = cache.keep(body, charge).await;
            live.hold(spare);
            flight.store(&Arc::new(Stored::new(live.head.clone(), content, room)));
        }
    }

    fn refresh(self, head: Head, stores: Result<(), Refused>, keep_alive: bool) {
        let Fill { mut errand, flight, stale, leader, .. } = self;
        let room = flight.cache().reserve(head.cost());
        let Some((stale, room)) = stale.zip(room) else { return };
        let stored = Arc::new(Stored::new(head, Arc::clone(&stale.content), room));
        match stores {
            Ok(()) => flight.store(&stored),
            Err(Refused::Response) => flight.refuse(clock::now_ms()),
            Err(Refused::Request) => flight.release(),
        }
        if let Some(leader) = leader {
            leader.tell(Led::News(News::Stored(stored)));
        }
        if keep_alive {
            errand.finish();
        }
    }

    fn fail(self, status: StatusCode) {
        let Fill { flight, leader, .. } = self;
        flight.fail(status);
        if let Some(leader) = leader {
            leader.tell(Led::News(News::Failed(status)));
        }
    }

    fn pass(self, refused: Refused, status: StatusCode, taken: Taken) {
        let Fill { errand, flight, leader, .. } = self;
        match refused {
            // An upstream that fails says nothing of what it sends when it is well.
            Refused::Response if !status.is_server_error() => flight.refuse(clock::now_ms()),
            _ => flight.release(),
        }
        if let Some(leader) = leader {
            leader.tell(Led::Pass(Box::new((errand, taken))));
        }
    }
}

/// What is stored, but for its body.
struct Stock {
    head: Head,
    room: Charge,
    charge: Charge,
    len: Option<u64>,
}

/// A body on its way.
struct Body<'a> {
    live: &'a Live,
    reading: Reading,
    flight: &'a mut Option<Flight>,
    waits: &'a Waits,
    within_ms: u64,
}

impl Body<'_> {
    async fn run(
        mut self,
        source: &mut Source<'_>,
        input: &mut Input,
        cache: &Cache,
    ) -> Result<(), String> {
        let broke = |why: &dyn std::fmt::Display| format!("its answer broke off: {why}");
        let mut turn_bytes = 0;
        loop {
            match self.reading.next(input).map_err(|sin| broke(&sin))? {
                Piece::Data(len) => {
                    let kept = self.live.push(&input.bytes()[..len], cache);
                    input.consume(len);
                    if !kept {
                        // Nobody can begin to read it any more.
                        drop(self.flight.take());
                        if !self.live.room().await {
                            return Err("its answer is too large to be kept, and nobody else \
                                        reads it"
                                .to_owned());
                        }
                    }
                    turn_bytes += len;
                    if turn_bytes >= TURN_BYTES {
                        turn_bytes = 0;
                        rt::give_way().await;
                    }
                }
                Piece::End(_) => return Ok(()),
                Piece::More => match source.fill(input, self.waits, Some(self.within_ms)).await {
                    Ok(0) => return Err(broke(&"the connection ended before it")),
                    Ok(_) => {}
                    Err(e) => return Err(broke(&e)),
                },
            }
        }
    }
}

/// The whole body, if it came with its head.
fn here(errand: &mut Errand, len: Option<u64>) -> Option<Bytes> {
    let len = usize::try_from(len?).ok()?;
    let link = errand.link()?;
    if link.input.bytes().len() < len {
        return None;
    }
    let body = Bytes::copy_from_slice(&link.input.bytes()[..len]);
    if len > 0 {
        link.input.consume(len);
    }
    Some(body)
}

fn exact_len(reply: &Reply<'_>) -> Option<u64> {
    match reply.length {
        Length::Framed(BodyLength::None) => Some(0),
        Length::Framed(BodyLength::Exactly(len)) => Some(len),
        Length::Framed(BodyLength::Chunked) | Length::UntilClose => None,
    }
}

/// Connects, sends, and listens until a final head has come. Interim ones are for nobody.
async fn listen(errand: &mut Errand, waits: &Waits) -> Result<Taken, Fault> {
    errand.connect(waits).await?;
    for _ in 0..INTERIM_MAX {
        match errand.listen(waits).await? {
            Heard::Head(head) if !is_interim(&head)? => return Ok(head),
            Heard::Head(_) => {}
            Heard::Nothing => errand.release(),
        }
    }
    Err(Fault::Cut)
}

/// Does `work` until what it waits for is too late: `None`.
async fn within<T>(waits: &Waits, work: impl Future<Output = T>) -> Option<T> {
    let late = async {
        loop {
            let left_ms = waits.due_ms().saturating_sub(clock::now_ms());
            if left_ms == 0 {
                return;
            }
            rt::sleep(STEP.min(Duration::from_millis(left_ms))).await;
        }
    };
    match rt::race(work, late).await {
        First::A(done) => Some(done),
        First::B(()) => None,
    }
}
