//! The loop of one thread: it accepts, receives, looks responses up, and sends. All operations that
//! a turn adds go to the kernel in one call, which also waits for the next completions.

use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};

use deathmatch_floors::{Answers, HEAD_BYTES_MAX, HEAD_END, Sending, Slots, head_end};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use crate::ring::{BUFFERS, Completion, Operation, Received, Ring};

pub(super) struct Worker<'l> {
    ring: Ring,
    answers: &'static Answers,
    listener: &'l TcpListener,
    /// `false` while descriptors have run out.
    accepts: bool,
    connections: Slots<Connection>,
    /// Connections that found no buffer, the oldest first. Each is here once at most.
    starved: VecDeque<u32>,
}

struct Connection {
    socket: OwnedFd,
    /// Received bytes that have no response yet: at most HEAD_BYTES_MAX, and what a turn's buffers
    /// hold.
    head: Vec<u8>,
    sending: Option<Sending<'static>>,
    /// `true` while an operation that `sending` waits for is under way.
    is_waiting: bool,
    /// Operations that have a completion to come. The slot is free only after the last.
    operations: u32,
    receiving: Receiving,
    /// `true` once the peer has sent its last byte.
    is_ended: bool,
    is_closing: bool,
}

/// State of a connection's receive operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    On,
    /// Cancelled, with a completion to come.
    Cancelled,
    /// In `Worker::starved`.
    Starved,
    Off,
}

impl<'l> Worker<'l> {
    pub(super) fn new(
        mut ring: Ring,
        answers: &'static Answers,
        listener: &'l TcpListener,
    ) -> io::Result<Worker<'l>> {
        ring.accept(listener.as_fd())?;
        let (connections, starved) = (Slots::default(), VecDeque::new());
        Ok(Worker { ring, answers, listener, accepts: true, connections, starved })
    }

    /// Serves until the ring fails.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut completions = Vec::new();
        loop {
            self.ring.turn(&mut completions)?;
            for completion in completions.drain(..) {
                self.handle(completion)?;
            }
            self.feed()?;
        }
    }

    fn handle(&mut self, mut completion: Completion) -> io::Result<()> {
        if completion.operation == Operation::Accept {
            return self.accepted(completion);
        }
        let received = completion.received.take();
        let slot = completion.slot;
        if let Some(connection) = self.connections.at(slot) {
            connection.complete(&completion);
            if connection.receiving == Receiving::Starved {
                self.starved.push_back(slot);
            }
            if let Some(received) = &received {
                let memory = self.ring.memory();
                connection.take(memory.bytes(received), self.answers);
            }
        }
        received.into_iter().for_each(|received: Received| self.ring.give_back(received));
        self.advance(slot)
    }

    fn accepted(&mut self, completion: Completion) -> io::Result<()> {
        match (completion.accepted, completion.result) {
            (Some(socket), _) => {
                let slot = self.connections.insert(Connection::new(socket));
                self.advance(slot)?;
            }
            // Waiting clients are accepted when a descriptor is free.
            (None, Err(Errno::MFILE | Errno::NFILE)) if !self.connections.is_empty() => {
                self.accepts = false;
                return Ok(());
            }
            (None, Err(Errno::CONNABORTED | Errno::INTR)) => {}
            (None, Err(e)) => return Err(e.into()),
            (None, Ok(_)) => {}
        }
        if completion.is_last {
            self.ring.accept(self.listener.as_fd())?;
        }
        Ok(())
    }

    /// Does what a connection's state allows: responds, receives on, or closes.
    fn advance(&mut self, slot: u32) -> io::Result<()> {
        let Some(connection) = self.connections.at(slot) else { return Ok(()) };
        connection.respond(slot, self.answers, &mut self.ring)?;
        connection.receive(slot, &mut self.ring)?;
        if connection.is_closing && connection.operations == 0 {
            self.connections.remove(slot);
            if !self.accepts {
                self.accepts = true;
                self.ring.accept(self.listener.as_fd())?;
            }
        }
        Ok(())
    }

    /// Lets starved connections receive, at most as many as there are buffers.
    fn feed(&mut self) -> io::Result<()> {
        for _ in 0..BUFFERS {
            let Some(slot) = self.starved.pop_front() else { break };
            // The slot may have another connection by now.
            let Some(connection) = self.connections.at(slot) else { continue };
            if connection.receiving == Receiving::Starved {
                connection.receiving = Receiving::Off;
                self.advance(slot)?;
            }
        }
        Ok(())
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            head: Vec::new(),
            sending: None,
            is_waiting: false,
            operations: 0,
            receiving: Receiving::Off,
            is_ended: false,
            is_closing: false,
        }
    }

    /// Enters the result of one of its operations.
    fn complete(&mut self, completion: &Completion) {
        self.operations -= u32::from(completion.is_last);
        match (completion.operation, completion.result) {
            (Operation::Receive, result) => {
                if completion.is_last {
                    self.receiving = Receiving::Off;
                }
                match result {
                    Ok(0) => self.is_ended = true,
                    Ok(_) | Err(Errno::CANCELED | Errno::INTR) => {}
                    Err(Errno::NOBUFS) => self.receiving = Receiving::Starved,
                    Err(_) => self.close(),
                }
            }
            (Operation::Send, Ok(bytes @ 1..)) => {
                self.is_waiting = false;
                if self.sending.as_mut().is_some_and(|sending| !sending.count(bytes)) {
                    self.sending = None;
                }
            }
            (Operation::Poll, Ok(_)) => self.is_waiting = false,
            (Operation::Send | Operation::Poll, _) => self.close(),
            // A receive operation that has ended cannot be cancelled.
            (Operation::Cancel | Operation::Accept, _) => {}
        }
    }

    /// Takes received bytes. A head that arrives whole is not copied.
    fn take(&mut self, bytes: &[u8], answers: &'static Answers) {
        let is_first = self.head.is_empty() && self.sending.is_none();
        match head_end(bytes).filter(|_| is_first) {
            Some(end) => {
                self.sending = Some(answers.find(&bytes[..end]));
                self.head.extend_from_slice(&bytes[end + HEAD_END.len()..]);
            }
            None => self.head.extend_from_slice(bytes),
        }
    }

    /// Sends responses, until one has to wait or there are no more requests.
    fn respond(&mut self, slot: u32, answers: &'static Answers, ring: &mut Ring) -> io::Result<()> {
        while !self.is_waiting && !self.is_closing {
            let Some(sending) = &mut self.sending else {
                let Some(end) = head_end(&self.head) else {
                    if self.is_ended || self.head.len() > HEAD_BYTES_MAX {
                        self.close();
                    }
                    break;
                };
                self.sending = Some(answers.find(&self.head[..end]));
                self.head.drain(..end + HEAD_END.len());
                continue;
            };
            if let Some(bytes) = sending.rest() {
                ring.send(self.socket.as_fd(), bytes, slot)?;
                (self.is_waiting, self.operations) = (true, self.operations + 1);
                break;
            }
            // A file goes from here: the ring would hand its splicing to another thread.
            match sending.send(&self.socket) {
                Ok(()) => self.sending = None,
                Err(Errno::AGAIN) => {
                    ring.poll_writable(self.socket.as_fd(), slot)?;
                    (self.is_waiting, self.operations) = (true, self.operations + 1);
                }
                Err(Errno::INTR) => {}
                Err(_) => self.close(),
            }
        }
        Ok(())
    }

    /// Receives while there is room for heads, and not otherwise.
    fn receive(&mut self, slot: u32, ring: &mut Ring) -> io::Result<()> {
        let is_full = self.head.len() > HEAD_BYTES_MAX;
        if self.head.is_empty() && self.head.capacity() > HEAD_BYTES_MAX {
            self.head = Vec::new();
        }
        match self.receiving {
            Receiving::On if is_full && !self.is_closing => {
                ring.cancel_receive(slot)?;
                self.receiving = Receiving::Cancelled;
            }
            Receiving::Off if !is_full && !self.is_ended && !self.is_closing => {
                ring.receive(self.socket.as_fd(), slot)?;
                self.receiving = Receiving::On;
            }
            _ => return Ok(()),
        }
        self.operations += 1;
        Ok(())
    }

    /// Has the operations under way complete soon; the slot is free after the last.
    fn close(&mut self) {
        self.is_closing = true;
        // A connection that the peer has reset is shut down already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}
