//! The connections of each place: opened, replaced once the server goes away, and given up.

use std::io;

use super::{Engine, Slot};
use crate::load::link::Link;
use crate::load::tally::Failure;

impl<L: Link> Engine<'_, L> {
    /// Opens the connection of each place that has none.
    pub(super) fn open_all(&mut self) -> io::Result<()> {
        for at in 0..self.current.len() {
            if self.links[self.current[at]].is_shut() {
                self.open(at)?;
            }
        }
        Ok(())
    }

    /// Opens the connection of a place.
    pub(super) fn open(&mut self, at: usize) -> io::Result<()> {
        let link = self.current[at];
        let connection = &mut self.links[link];
        if !connection.begin(self.job.target, self.tls)? {
            self.fail_connection(link, Failure::Refused);
            return Ok(());
        }
        let token = connection.token(link);
        if let Some(socket) = connection.socket() {
            self.poll.add(socket, token)?;
        }
        Ok(())
    }

    /// Shuts a connection whose server went away, once its streams have ended, which is `true`. The
    /// next one is opened at once, and the old one ends beside it; while an older one of the place
    /// still ends, the next one waits for a drained connection.
    pub(super) fn replace(&mut self, link: usize) -> io::Result<bool> {
        if !self.links[link].is_leaving() {
            return Ok(false);
        }
        let is_drained = self.links[link].is_drained();
        if self.is_anew && !is_drained {
            // The next request's handshake is part of its time.
            return Ok(false);
        }
        if is_drained {
            self.links[link].shut();
        }
        let at = link % self.current.len();
        let other = (self.current[at] + self.current.len()) % self.links.len();
        if self.links[self.current[at]].is_leaving() && self.links[other].is_shut() {
            self.current[at] = other;
        }
        if self.links[self.current[at]].is_shut() {
            self.open(at)?;
        }
        Ok(is_drained)
    }

    /// Sends the waiting requests of a place on its connection, which is established; `false` if
    /// the connection cannot be used.
    pub(super) fn handle_established(&mut self, at: usize) -> bool {
        let link = self.current[at];
        if self.links[link].streams_max() < self.streams as u32 {
            self.fail_connection(link, Failure::Protocol);
            return false;
        }
        self.tally.connection();
        let (now, resumed) = (self.now(), self.links[link].resumed());
        let slots = at * self.streams..(at + 1) * self.streams;
        let slots = slots.filter(|slot| self.slots[*slot].sent.is_none()).collect::<Vec<_>>();
        let first = slots.iter().find_map(|slot| self.slots[*slot].call);
        self.tally.handshake(first.map_or(now, |call| call.intended), resumed);
        slots.into_iter().for_each(|slot| self.ask(slot));
        true
    }

    /// Closes a connection and fails its requests; with the present one of a place also those that
    /// wait for this connection.
    pub(super) fn fail_connection(&mut self, link: usize, why: Failure) {
        self.links[link].shut();
        let (at, now) = (link % self.current.len(), self.now());
        for slot in at * self.streams..(at + 1) * self.streams {
            let Slot { call, sent, .. } = self.slots[slot];
            let its = sent.map_or(self.current[at], |(link, _)| link);
            if let Some(call) = call.filter(|_| its == link) {
                self.tally.fail(call.intended, call.which, why, 1);
                self.release(slot, now);
            }
        }
    }
}
