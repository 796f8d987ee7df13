//! Stored responses of the process that is replaced, sent over a socket of their own: of each cache
//! its proxy, then each response, and its body as bytes or as a descriptor.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Caches, Kept, ReceivedBody, Record};
use crate::config::{Config, MountHandler, Proxy};
use crate::disk::Disk;
use crate::sockets::descriptors::{receive_descriptor, send_descriptor};

/// Longest time in which a new process receives responses; those that are late are lost.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum size of a message, in bytes.
const MESSAGE_BYTES_MAX: u32 = 16 << 20;

#[derive(Serialize, Deserialize)]
enum Message {
    /// The next responses belong to the cache of this proxy.
    Proxy(String),
    Response(Record),
}

/// The end of the new process.
#[derive(Debug)]
pub(crate) struct CachedResponses(UnixStream);

/// Sends all stored responses, on a thread of its own; returns the other end. Sending stops when
/// that is closed.
///
/// # Errors
/// The system refuses sockets or a thread.
pub(crate) fn send(caches: Caches) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_write_timeout(Some(TIME_MAX))?;
    let send = move || {
        for (proxy, cache) in caches.all() {
            // The new process may be of another version, late, or ended.
            if send_cache(&ours, &proxy, &cache).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("cached".to_owned()).spawn(send)?;
    Ok(theirs.into())
}

fn send_cache(channel: &UnixStream, proxy: &Proxy, cache: &Cache) -> io::Result<()> {
    send_message(channel, &Message::Proxy(serde_json::to_string(proxy)?))?;
    cache.for_each(|record, body| {
        send_message(channel, &Message::Response(record))?;
        match body {
            Kept::Bytes(bytes) => (&mut &*channel).write_all(bytes),
            Kept::File(file) => send_descriptor(channel, file.as_fd()),
            Kept::Parts(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    })
}

fn send_message(mut channel: &UnixStream, message: &Message) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let len = u32::try_from(text.len()).map_err(io::Error::other)?;
    channel.write_all(&len.to_be_bytes())?;
    channel.write_all(&text)
}

impl CachedResponses {
    pub(crate) fn new(socket: OwnedFd) -> CachedResponses {
        CachedResponses(socket.into())
    }

    /// Stores the responses of mounts whose proxy settings are those of the process before. It must
    /// be called before this process starts programs, which would inherit the bodies.
    pub(super) fn restore(self, config: &Config, caches: &Caches, disk: &Disk) {
        let (mut stored, began) = (0, Instant::now());
        let outcome = self.receive(config, caches, disk, &mut stored);
        match outcome {
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => {
                tracing::warn!("received only {stored} cached responses: {e}");
            }
            _ => tracing::info!("received {stored} cached responses in {:?}", began.elapsed()),
        }
    }

    fn receive(
        &self,
        config: &Config,
        caches: &Caches,
        disk: &Disk,
        stored: &mut usize,
    ) -> io::Result<()> {
        let by = Instant::now() + TIME_MAX;
        let mut cache: Option<Arc<Cache>> = None;
        loop {
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.0.set_read_timeout(Some(left))?;
            match self.message()? {
                Message::Proxy(text) => {
                    cache = proxies(config)
                        .find(|proxy| serde_json::to_string(proxy).is_ok_and(|own| own == text))
                        .and_then(|proxy| caches.of(proxy, disk));
                }
                Message::Response(record) => {
                    let body = self.body(&record)?;
                    let restored = cache.as_ref().is_some_and(|to| to.restore(&record, body));
                    *stored += usize::from(restored);
                }
            }
        }
    }

    fn message(&self) -> io::Result<Message> {
        let mut channel = &self.0;
        let mut len = [0; 4];
        channel.read_exact(&mut len)?;
        let len = u32::from_be_bytes(len);
        if len > MESSAGE_BYTES_MAX {
            return Err(io::Error::other(format!("a message of {len} bytes")));
        }
        let mut text = vec![0; len as usize];
        channel.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn body(&self, record: &Record) -> io::Result<ReceivedBody> {
        if record.in_file {
            return receive_descriptor(&self.0).map(ReceivedBody::File);
        }
        let mut bytes = Vec::new();
        let read = (&self.0).take(record.len).read_to_end(&mut bytes)?;
        match read as u64 == record.len {
            true => Ok(ReceivedBody::Bytes(bytes.into())),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The proxies of a configuration.
fn proxies(config: &Config) -> impl Iterator<Item = &Proxy> {
    let mounts = config.sites.iter().flat_map(|site| &site.mounts);
    mounts.filter_map(|mount| match &mount.handler {
        MountHandler::Proxy(proxy) => Some(&**proxy),
        _ => None,
    })
}
