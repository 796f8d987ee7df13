//! The feed of purges of the servers that share a store: a stream to which each server adds its
//! purges, and from which each reads those of the others, from its own position on. One worker of a
//! process reads it, on a connection of its own, because a command that waits for entries holds up
//! later ones.
//!
//! The position is the ID of the last entry that was read. That entry is read again with those
//! after it: if it is gone, because the stream was trimmed or the store has lost it, entries after
//! it may be gone too. Then the server takes a position at the end of the stream and empties its
//! caches.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hurtle_http::resp::Reply;

use super::connection::{Connection, StoreError};
use super::endpoint::{CONNECT_TIME_MAX, PAUSE};
use super::{Counted, Settings, SharedStore, StoreState};
use crate::cache::{Caches, KeyPattern};
use crate::rt::{self, Task};

/// Entries that the stream keeps, and a few more, because the store removes many at once.
const ENTRIES_MAX: &[u8] = b"10000";

/// Entries in a reply, with the one at the position. A purge has at most 16 KiB, the size of the
/// head of the command, so that the reply is within `resp::REPLY_BYTES_MAX`.
const BATCH_MAX: &[u8] = b"9";

/// Longest wait of the store for an entry, in milliseconds.
const BLOCK_MS: &[u8] = b"5000";

/// Time limit of a reply to a command that waits for an entry.
const BLOCKED_TIME_MAX: Duration = Duration::from_secs(7);

/// Time limit of other replies.
const REPLY_TIME_MAX: Duration = Duration::from_secs(2);

/// Longest wait of a purge until the store has it.
const PUBLISH_TIME_MAX: Duration = Duration::from_secs(1);

/// Maximum length of the ID of an entry: two numbers of 64 bits and a hyphen, in bytes.
const ID_BYTES_MAX: usize = 41;

/// A process's part in the feed, under all its configurations; clones share it.
#[derive(Clone)]
pub(crate) struct Feed(Arc<Part>);

struct Part {
    /// Names the process in its entries.
    origin: String,
    /// `None`: entries may have been missed.
    position: Mutex<Option<String>>,
}

/// Reads the feed of the store in force, on one worker. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Follower {
    feed: Feed,
    caches: Caches,
    /// The store that is followed.
    current: Option<(Arc<Settings>, Task)>,
}

/// Reads the feed on a connection.
struct Reader<'a> {
    store: &'a StoreState,
    feed: &'a Feed,
    caches: &'a Caches,
    key: String,
    connection: Connection,
}

impl Feed {
    /// Makes the part of this process, without a position.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new() -> io::Result<Feed> {
        let mut origin = [0; 16];
        getrandom::fill(&mut origin).map_err(io::Error::other)?;
        let origin = format!("{:032x}", u128::from_ne_bytes(origin));
        Ok(Feed(Arc::new(Part { origin, position: Mutex::default() })))
    }

    /// The position: every purge up to it has been applied to the caches. `None`: there is none
    /// yet.
    pub(crate) fn position(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Continues at the position of another process, whose caches this one has.
    pub(crate) fn set_position(&self, position: Option<String>) {
        *self.lock() = position;
    }

    /// Tells the other servers of a purge, whose host and target `KeyPattern::parse` accepts.
    ///
    /// # Errors
    /// The store has not confirmed it in time; the text names the store and the reason.
    pub(crate) async fn publish(
        &self,
        store: &SharedStore,
        host: &[u8],
        target: &[u8],
    ) -> Result<(), String> {
        let state = &*store.state;
        let metrics = &state.metrics.store;
        let published = self.add(state, &[b"host", host, b"target", target]).await;
        let counter = if published.is_ok() { &metrics.purges_sent } else { &metrics.purges_failed };
        counter.add(1);
        published.map_err(|why| format!("store {}: {why}", state.endpoint.settings.config.url()))
    }

    /// Adds an entry on the worker's connection.
    async fn add(&self, state: &StoreState, fields: &[&[u8]]) -> Result<(), String> {
        let ready = state.ready.borrow().clone();
        let Some(ready) = ready else { return Err(state.fault.borrow().clone()) };
        let key = key(&state.endpoint.settings);
        let command = self.command(&key, fields);
        let added = rt::timeout(PUBLISH_TIME_MAX, ready.connection.ask(&command)).await;
        match added.unwrap_or(Err(StoreError::Late)).map_err(|e| e.to_string())? {
            Reply::Bulk(_) => Ok(()),
            _ => Err(StoreError::Unexpected.to_string()),
        }
    }

    /// The command that adds an entry with these fields.
    fn command<'a>(&'a self, key: &'a str, fields: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let origin = self.0.origin.as_bytes();
        let mut command = vec![&b"XADD"[..], key.as_bytes(), b"MAXLEN", b"~", ENTRIES_MAX, b"*"];
        command.extend([&b"from"[..], origin]);
        command.extend(fields);
        command
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Makes a follower of no store.
    pub(crate) fn new(feed: Feed, caches: Caches) -> Follower {
        Follower { feed, caches, current: None }
    }

    /// Follows a store; the one before, unless it has the same settings, is followed no more.
    pub(crate) fn follow(&mut self, store: Option<&Rc<SharedStore>>) {
        let Some(store) = store else { return self.current = None };
        if self.current.as_ref().is_some_and(|(settings, _)| store.is_of(settings)) {
            return;
        }
        let settings = Arc::clone(&store.state.endpoint.settings);
        let state = Rc::clone(&store.state);
        let (feed, caches) = (self.feed.clone(), self.caches.clone());
        // The one before ends first, so that only one task moves the position.
        self.current = None;
        self.current = Some((settings, rt::spawn_held(follow(state, feed, caches))));
    }
}

/// Follows a store, and begins again after a pause when its connection has ended.
async fn follow(store: Rc<StoreState>, feed: Feed, caches: Caches) {
    let url = store.endpoint.settings.config.url();
    let mut is_away = false;
    loop {
        let Err(why) = read(&store, &feed, &caches, &mut is_away).await;
        if !is_away {
            tracing::warn!("store {url}: {why}; purges of other servers wait meanwhile");
        }
        is_away = true;
        store.metrics.store.failures.add(1);
        rt::sleep(PAUSE).await;
    }
}

/// Reads entries until the connection ends. `is_away` becomes `false` when all of them are read.
async fn read(
    store: &StoreState,
    feed: &Feed,
    caches: &Caches,
    is_away: &mut bool,
) -> Result<Infallible, String> {
    let connected = rt::timeout(CONNECT_TIME_MAX, store.endpoint.connect()).await;
    let connection = connected.unwrap_or_else(|| Err("it does not respond".to_owned()))?;
    let key = key(&store.endpoint.settings);
    let reader = Reader { store, feed, caches, key, connection };
    let Err(error) = reader.run(is_away).await;
    if matches!(error, StoreError::Missing | StoreError::Unexpected) {
        feed.set_position(None);
    }
    Err(error.to_string())
}

impl Reader<'_> {
    async fn run(&self, is_away: &mut bool) -> Result<Infallible, StoreError> {
        let mut position = match self.feed.position() {
            Some(position) => position,
            None => self.begin().await?,
        };
        self.catch_up(&mut position).await?;
        let _subscribed = Counted::new(&self.store.metrics.store.purges_subscribed);
        *is_away = false;
        tracing::info!("store {}: follows the purges of other servers", self.url());
        loop {
            self.wait(&position).await?;
            self.catch_up(&mut position).await?;
        }
    }

    /// Adds a mark to the stream, the new position, and empties the caches: purges before the mark
    /// may have been missed.
    async fn begin(&self) -> Result<String, StoreError> {
        let command = self.feed.command(&self.key, &[]);
        let position = id(self.ask(&command, REPLY_TIME_MAX).await?)?;
        let count = self.caches.purge(|_| true);
        if count > 0 {
            self.store.metrics.store.purges_resets.add(1);
            tracing::warn!(
                "store {}: emptied the caches of {count} responses, because purges of other \
                 servers may have been missed",
                self.url()
            );
        }
        self.feed.set_position(Some(position.clone()));
        Ok(position)
    }

    /// Applies all entries after the position.
    async fn catch_up(&self, position: &mut String) -> Result<(), StoreError> {
        loop {
            let command: [&[u8]; 6] =
                [b"XRANGE", self.key.as_bytes(), position.as_bytes(), b"+", b"COUNT", BATCH_MAX];
            let reply = self.ask(&command, REPLY_TIME_MAX).await?;
            let (last, purges) = entries(reply, position, &self.feed.0.origin)?;
            self.apply(&purges);
            if last == *position {
                return Ok(());
            }
            position.clone_from(&last);
            self.feed.set_position(Some(last));
            rt::give_way().await;
        }
    }

    /// Applies purges in one pass over the caches.
    fn apply(&self, purges: &[KeyPattern]) {
        if purges.is_empty() {
            return;
        }
        let count = self.caches.purge(|key| purges.iter().any(|pattern| pattern.matches(key)));
        self.store.metrics.store.purges_received.add(purges.len() as u64);
        tracing::info!("purged {count} cached responses for other servers");
    }

    /// Waits for an entry after the position, for `BLOCK_MS` at most.
    async fn wait(&self, position: &str) -> Result<(), StoreError> {
        let command: [&[u8]; 8] = [
            b"XREAD",
            b"COUNT",
            b"1",
            b"BLOCK",
            BLOCK_MS,
            b"STREAMS",
            self.key.as_bytes(),
            position.as_bytes(),
        ];
        self.ask(&command, BLOCKED_TIME_MAX).await.map(drop)
    }

    fn url(&self) -> String {
        self.store.endpoint.settings.config.url()
    }

    async fn ask(&self, command: &[&[u8]], time: Duration) -> Result<Reply, StoreError> {
        let reply = rt::timeout(time, self.connection.ask(command)).await;
        reply.unwrap_or(Err(StoreError::Late))
    }
}

/// The name of the stream.
fn key(settings: &Settings) -> String {
    format!("{}purges", settings.config.prefix)
}

/// Reads the ID of an entry: two numbers of 64 bits. Another one would never be found again.
fn id(reply: Reply) -> Result<String, StoreError> {
    let Reply::Bulk(id) = reply else { return Err(StoreError::Unexpected) };
    let id = String::from_utf8(id).map_err(|_| StoreError::Unexpected)?;
    let numbers = id.split_once('-').map(|(a, b)| (a.parse::<u64>(), b.parse::<u64>()));
    match numbers {
        Some((Ok(_), Ok(_))) if id.len() <= ID_BYTES_MAX => Ok(id),
        _ => Err(StoreError::Unexpected),
    }
}

/// Reads the entries from `position` on. Returns the last one's ID, and the purges of other
/// processes than `origin`.
///
/// # Errors
/// The entry at the position is missing, or an entry is not of this version.
fn entries(
    reply: Reply,
    position: &str,
    origin: &str,
) -> Result<(String, Vec<KeyPattern>), StoreError> {
    let Reply::Array(items) = reply else { return Err(StoreError::Unexpected) };
    let (mut last, mut purges) = (None, Vec::new());
    for item in items {
        let Reply::Array(item) = item else { return Err(StoreError::Unexpected) };
        let Ok([id_of, Reply::Array(fields)]) = <[Reply; 2]>::try_from(item) else {
            return Err(StoreError::Unexpected);
        };
        let id = id(id_of)?;
        match last.replace(id) {
            None if last.as_deref() == Some(position) => {}
            None => return Err(StoreError::Missing),
            Some(_) => purges.extend(purge(&fields, origin)?),
        }
    }
    last.map(|last| (last, purges)).ok_or(StoreError::Missing)
}

/// Reads the fields of an entry. `None`: it is the process's own purge, or a mark. Another version
/// of hurtle may add entries that this one cannot apply: they are an error, after which the caches
/// are emptied.
fn purge(fields: &[Reply], origin: &str) -> Result<Option<KeyPattern>, StoreError> {
    let texts = fields.iter().map(|field| match field {
        Reply::Bulk(text) => Ok(&text[..]),
        _ => Err(StoreError::Unexpected),
    });
    let texts: Vec<&[u8]> = texts.collect::<Result<_, _>>()?;
    match texts[..] {
        [b"from", from, ..] if from == origin.as_bytes() => Ok(None),
        [b"from", _] => Ok(None),
        [b"from", _, b"host", host, b"target", target] => {
            KeyPattern::parse(host, target).map(Some).ok_or(StoreError::Unexpected)
        }
        _ => Err(StoreError::Unexpected),
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("position", &self.position()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_vec())
    }

    fn item(id: &str, fields: &[&str]) -> Reply {
        let fields = fields.iter().map(|field| bulk(field)).collect();
        Reply::Array(vec![bulk(id), Reply::Array(fields)])
    }

    /// The last ID and the number of purges.
    fn read(items: Vec<Reply>) -> Result<(String, usize), StoreError> {
        entries(Reply::Array(items), "1-0", "own").map(|(last, purges)| (last, purges.len()))
    }

    #[test]
    fn purges_of_other_processes_are_read_up_to_the_last_entry() {
        let purge = ["from", "b", "host", "example.org", "target", "/a*"];
        let own = ["from", "own", "host", "example.org", "target", "/a*"];
        let mark = || item("1-0", &["from", "a"]);
        let table = [
            ("only the position", vec![mark()], ("1-0", 0)),
            ("a purge", vec![mark(), item("2-0", &purge)], ("2-0", 1)),
            ("the purge at the position was read", vec![item("1-0", &purge)], ("1-0", 0)),
            ("an own one", vec![mark(), item("2-0", &own)], ("2-0", 0)),
            ("a mark", vec![mark(), item("2-0", &purge), item("2-1", &["from", "c"])], ("2-1", 1)),
        ];
        for (sentence, items, (last, count)) in table {
            assert_eq!(read(items), Ok((last.to_owned(), count)), "{sentence}");
        }
    }

    #[test]
    fn an_entry_that_is_missing_or_unknown_is_an_error() {
        let mark = || item("1-0", &["from", "a"]);
        let long = format!("{}-1", "0".repeat(ID_BYTES_MAX));
        let missing = StoreError::Missing;
        let unexpected = StoreError::Unexpected;
        let table = [
            ("an empty stream", vec![], &missing),
            ("the position was removed", vec![item("2-0", &["from", "a"])], &missing),
            ("no fields", vec![mark(), item("2-0", &[])], &unexpected),
            ("another field", vec![mark(), item("2-0", &["from", "b", "tag", "x"])], &unexpected),
            (
                "a malformed target",
                vec![mark(), item("2-0", &["from", "b", "host", "a", "target", "a"])],
                &unexpected,
            ),
            ("an ID of letters", vec![mark(), item("a-0", &["from", "b"])], &unexpected),
            ("an ID without a hyphen", vec![mark(), item("2", &["from", "b"])], &unexpected),
            ("a long ID", vec![mark(), item(&long, &["from", "b"])], &unexpected),
            ("no array", vec![mark(), Reply::Null], &unexpected),
            (
                "three values",
                vec![Reply::Array(vec![bulk("1-0"), bulk(""), bulk("")])],
                &unexpected,
            ),
        ];
        for (sentence, items, error) in table {
            assert_eq!(read(items).as_ref(), Err(error), "{sentence}");
        }
        assert_eq!(entries(Reply::Null, "1-0", "own").unwrap_err(), unexpected);
    }
}
