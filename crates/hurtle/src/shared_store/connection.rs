//! A connection to Redis or Valkey (RESP2). Commands that are asked in one turn of the event loop
//! leave in one write; replies come in the order of the commands. Any fault ends the connection.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;
use hurtle_http::resp::{self, Reply};

use crate::rt::{self, Bell, Task, oneshot};
use crate::transport::{Attempt, Fill, Input, SendQueue, Transport, UpstreamSocket};

/// Commands that wait for replies at a time.
const WAITING_MAX: usize = 4_096;

/// A connection; dropping it closes the socket.
pub(super) struct Connection {
    shared: Rc<SharedConnection>,
    _running: Task,
}

/// The reason why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreError {
    /// There is no connection, or it has ended.
    Closed,
    /// The reply took too long.
    Late,
    /// `WAITING_MAX` commands wait.
    Busy,
    /// The store answered an error.
    Refused(String),
    /// The reply is not one to the command, malformed, or too large.
    Unexpected,
    /// Entries of the feed are missing.
    Missing,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Closed => f.write_str("there is no connection"),
            StoreError::Late => f.write_str("the reply takes too long"),
            StoreError::Busy => f.write_str("too many commands wait for replies"),
            StoreError::Refused(error) => write!(f, "the store answers {error:?}"),
            StoreError::Unexpected => f.write_str("the reply has an unexpected form"),
            StoreError::Missing => f.write_str("entries of the feed of purges are missing"),
        }
    }
}

#[derive(Default)]
struct SharedConnection {
    /// Commands to be sent.
    commands: RefCell<Vec<u8>>,
    /// Rung when there are some.
    asked: Bell,
    /// The receivers of replies, in the order of the commands.
    waiting: RefCell<VecDeque<oneshot::Sender<Result<Reply, StoreError>>>>,
    is_closed: Cell<bool>,
    /// Rung when the connection has ended.
    closed: Bell,
    why: RefCell<String>,
}

impl Connection {
    /// Starts a task that sends commands on the socket and receives their replies.
    pub(super) fn new(socket: UpstreamSocket) -> Connection {
        let shared = Rc::new(SharedConnection::default());
        let running = Rc::clone(&shared);
        let task = rt::spawn_held(async move {
            let run = rt::try_both(running.send(&socket), running.receive(&socket));
            running.close(run.await.err().unwrap_or_default());
        });
        Connection { shared, _running: task }
    }

    /// Sends a command and waits for the reply, without a limit on time.
    ///
    /// # Errors
    /// The connection has ended, too many commands wait, or the reply is malformed. An error that
    /// the store answers is an error too.
    pub(super) async fn ask(&self, command: &[&[u8]]) -> Result<Reply, StoreError> {
        let SharedConnection { commands, asked, waiting, is_closed, .. } = &*self.shared;
        if is_closed.get() {
            return Err(StoreError::Closed);
        }
        let (sender, reply) = oneshot::channel();
        {
            let mut waiting = waiting.borrow_mut();
            if waiting.len() >= WAITING_MAX {
                return Err(StoreError::Busy);
            }
            waiting.push_back(sender);
        }
        resp::encode(&mut commands.borrow_mut(), command);
        asked.ring();
        match reply.recv().await.unwrap_or(Err(StoreError::Closed))? {
            Reply::Error(error) => {
                Err(StoreError::Refused(String::from_utf8_lossy(&error).into_owned()))
            }
            reply => Ok(reply),
        }
    }

    /// Waits for the connection's end; returns the reason.
    pub(super) async fn ended(&self) -> String {
        while !self.shared.is_closed.get() {
            self.shared.closed.wait(None).await;
        }
        self.shared.why.borrow().clone()
    }
}

impl SharedConnection {
    async fn send(&self, socket: &UpstreamSocket) -> Result<(), String> {
        let mut queue = SendQueue::default();
        loop {
            self.asked.wait(None).await;
            let commands = self.commands.take();
            queue.push(Bytes::from(commands));
            while !queue.is_empty() {
                let sent = poll_fn(|cx| socket.poll_send(cx, &mut queue, Attempt::Ready)).await;
                if sent.map_err(|e| e.to_string())? == 0 {
                    return Err("the socket takes no bytes".to_owned());
                }
            }
            let flushed = poll_fn(|cx| socket.poll_flush(cx, Attempt::Ready)).await;
            flushed.map_err(|e| e.to_string())?;
        }
    }

    async fn receive(&self, socket: &UpstreamSocket) -> Result<(), String> {
        let mut input = Input::default();
        loop {
            let filled = poll_fn(|cx| socket.poll_fill(cx, &mut input, Fill::Head)).await;
            if filled.map_err(|e| e.to_string())? == 0 {
                return Err("the store has closed the connection".to_owned());
            }
            while let Some(parsed) = resp::parse(input.bytes()).transpose() {
                let Some(waiting) = self.waiting.borrow_mut().pop_front() else {
                    return Err("a reply to no command".to_owned());
                };
                // A receiver that no longer waits drops its reply.
                match parsed {
                    Ok((reply, len)) => {
                        input.consume(len);
                        waiting.send(Ok(reply));
                    }
                    Err(e) => {
                        waiting.send(Err(StoreError::Unexpected));
                        return Err(format!("a malformed reply: {e}"));
                    }
                }
            }
        }
    }

    fn close(&self, why: String) {
        self.is_closed.set(true);
        self.why.replace(why);
        self.waiting.take();
        self.commands.take();
        self.closed.ring_all();
        self.closed.ring();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("is_closed", &self.shared.is_closed).finish()
    }
}
