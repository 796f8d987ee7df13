//! Interim responses (RFC 9110 section 15.2) of a fetch for the cache, on their way to the client
//! that leads it. The fetch and the client are tasks of one worker.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;

use http::StatusCode;

use super::super::super::client::{Client, ExchangeError, InterimSender};
use super::super::super::wait::Waits;
use super::super::{RawHead, UpstreamError};
use super::fetch::LeaderResult;
use crate::protocol::InterimFields;
use crate::rt::{self, Bell, First, oneshot};

/// Maximum number of heads that wait for the client.
const QUEUED_MAX: usize = 32;

/// Heads that the client has not been sent yet, as the upstream wrote them; at most
/// [`QUEUED_MAX`].
#[derive(Default)]
pub(super) struct InterimQueue {
    heads: RefCell<VecDeque<RawHead>>,
    filled: Bell,
    /// `true` if 103 (Early Hints) is dropped.
    drops_hints: bool,
}

impl InterimQueue {
    pub(super) fn new(drops_hints: bool) -> Rc<InterimQueue> {
        Rc::new(InterimQueue { drops_hints, ..InterimQueue::default() })
    }

    /// Adds a head. A 100 is dropped, because the fetch has no body. A head is also dropped if the
    /// queue is full, because the client reads too slowly.
    ///
    /// # Errors
    /// The head is malformed.
    pub(super) fn push(&self, head: RawHead) -> Result<(), UpstreamError> {
        let status = head.parse().map_err(UpstreamError::BadResponse)?.status;
        let is_dropped = match status {
            StatusCode::CONTINUE => true,
            StatusCode::EARLY_HINTS => self.drops_hints,
            _ => false,
        };
        let mut heads = self.heads.borrow_mut();
        if !is_dropped && heads.len() < QUEUED_MAX {
            heads.push_back(head);
            self.filled.ring();
        }
        Ok(())
    }

    async fn next(&self) -> RawHead {
        loop {
            if let Some(head) = self.heads.borrow_mut().pop_front() {
                return head;
            }
            self.filled.wait(None).await;
        }
    }
}

/// Waits for the result of the fetch that this request leads, and relays interim responses until
/// then. `None`: the fetch was abandoned.
pub(super) async fn relay_until_fetched<C: Client>(
    client: &mut C,
    result: oneshot::Receiver<LeaderResult>,
    queue: &InterimQueue,
) -> Result<Option<LeaderResult>, ExchangeError> {
    let relaying = async |interim: &dyn InterimSender| {
        let mut result = pin!(result.recv());
        loop {
            match rt::race(queue.next(), result.as_mut()).await {
                First::B(fetched) => return Ok(fetched),
                First::A(head) => {
                    // `push` has parsed the head before.
                    let Ok(reply) = head.parse() else { continue };
                    interim.send(reply.status, InterimFields::Forwarded(&reply)).await?;
                }
            }
        }
    };
    client.beside(&Waits::default(), relaying).await?
}
