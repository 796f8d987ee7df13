//! Tickets for resumption (RFC 8446, 4.6.1), each used once (C.4), the youngest first. None is
//! given out until there is a queue, so that there are enough for more simultaneous connections
//! than before.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// More than there are connections; servers give one or two for each handshake, and one is used.
const TICKETS_MAX: usize = 4096;

/// All tickets of the only server.
#[derive(Debug)]
pub(super) struct Tickets(Mutex<TicketQueue>);

#[derive(Debug)]
struct TicketQueue {
    tickets: VecDeque<Tls13ClientSessionValue>,
    /// Number of tickets needed at once before one is given out.
    first: usize,
}

impl Tickets {
    pub(super) fn new(first: usize) -> Tickets {
        Tickets(Mutex::new(TicketQueue { tickets: VecDeque::new(), first: first.min(TICKETS_MAX) }))
    }
}

impl ClientSessionStore for Tickets {
    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.tickets.len() == TICKETS_MAX {
            queue.tickets.pop_front();
        }
        queue.tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.tickets.len() < queue.first {
            return None;
        }
        queue.first = 0;
        queue.tickets.pop_back()
    }

    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}
}
