//! Sends and receives on one connection at the same time, for a handler that reads the request body
//! while it responds. One deadline covers both directions.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use hurtle_http::request::ParseError;

use super::arriving::ArrivingBody;
use super::connection::Connection;
use super::duplex::Duplex;
use super::exchange::Exchange;
use crate::clock::{self, NEVER};
use crate::deadline::{Pass, Stall};
use crate::handler::client::ExchangeError;
use crate::handler::wait::Waits;
use crate::protocol::Protocol;
use crate::rt::First;

/// Polls of a handler in one turn, if the body's frames have arrived that it waits for. With two,
/// the head of a request to an upstream and the first part of its body leave in one write over
/// HTTP/2.
const POLLS_MAX: usize = 2;

/// Runs `work` while the request body is fed to its reader, until the peer is gone. `waits` holds
/// the deadline of an upstream.
///
/// # Errors
/// The body is malformed, too large or too slow, the client is gone or does not read, or the
/// upstream is late.
pub(super) async fn beside<T: Protocol, R>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    arriving: &mut ArrivingBody,
    waits: &Waits,
    work: impl AsyncFnOnce(&Duplex<'_, T>) -> R,
) -> Result<R, ExchangeError> {
    let Connection { io, input, ended, worker, watch, metrics, .. } = connection;
    let stall_ms = exchange.write_stall_ms(&worker.limits);
    let duplex = Duplex::new(&*io, exchange, &worker.limits, &metrics.received);
    let mut work = pin!(work(&duplex));
    let mut arriving = pin!(arriving.run(&duplex, input, ended, worker));
    let mut both = poll_fn(|cx| {
        for _ in 0..POLLS_MAX {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(First::A(done));
            }
            if let Poll::Ready(error) = arriving.as_mut().poll(cx) {
                return Poll::Ready(First::B(error));
            }
            if !duplex.takes_feed() {
                break;
            }
        }
        Poll::Pending
    });
    let mut seen = None;
    let stall: Cell<Option<Stall>> = Cell::new(None);
    let mut due = || {
        // The application has no deadline. Only unread response bytes and awaited request bytes
        // count against the peer.
        let moved = duplex.moved_while_queued();
        if moved != seen {
            seen = moved;
            stall.set(moved.map(|_| Stall::new(clock::now_ms(), stall_ms)));
        }
        let taken_by_ms = stall.get().map_or(NEVER, |stall| stall.due_ms());
        taken_by_ms.min(duplex.more_by_ms()).min(waits.due_ms())
    };
    loop {
        let ended = watch.wait_until(&mut both, &mut due).await;
        let (now_ms, body_by_ms) = (clock::now_ms(), duplex.more_by_ms());
        return match ended {
            Ok(First::A(done)) => Ok(done),
            Ok(First::B(error)) => Err(error),
            Err(_) if body_by_ms <= now_ms => {
                Err(ExchangeError::ParseError(ParseError::BodyTooSlow))
            }
            Err(_) if waits.due_ms() <= now_ms => match waits.note_late() {
                true => continue,
                false => Err(ExchangeError::UpstreamTimeout),
            },
            Err(_) => {
                let Some(mut stalled) = stall.get() else { continue };
                let pass = stalled.pass();
                stall.set(Some(stalled));
                match pass {
                    Pass::Try(attempt) => duplex.insist(attempt),
                    Pass::Wait => {}
                    Pass::GiveUp => return Err(ExchangeError::Stalled),
                }
                continue;
            }
        };
    }
}
