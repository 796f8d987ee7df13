//! A UDP socket of a worker: receives and sends datagrams in batches (GRO, GSO).

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;

use super::inbox::Datagram;

/// Size of each socket buffer that the system is asked for, in bytes. The system's default holds
/// the datagrams of about a millisecond.
pub(crate) const BUFFER_BYTES: usize = 4 << 20;

/// Batches that one call receives, and the room for each, in bytes: the largest that the kernel
/// joins.
const BATCHES: usize = 4;
const BATCH_BYTES: usize = 64 << 10;

/// Batches of a call that may have left some, as far as one call receives several on this system.
const FULL: usize = if BATCHES < quinn_udp::BATCH_SIZE { BATCHES } else { quinn_udp::BATCH_SIZE };

/// Most bytes of one send; the kernel limits it to the size of an IP packet.
const SEND_BYTES_MAX: usize = 60 << 10;

/// The sizes of a socket's buffers in bytes, as far as the system grants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferSizes {
    /// Size of the receive buffer.
    pub receive: usize,
    /// Size of the send buffer.
    pub send: usize,
}

#[derive(Debug)]
pub(super) struct Socket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    /// Room for received batches.
    room: Vec<u8>,
}

impl Socket {
    /// Registers a socket with this thread's event loop. Asks for large buffers.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Socket> {
        socket.set_nonblocking(true)?;
        let io = tokio::net::UdpSocket::from_std(socket)?;
        let state = UdpSocketState::new((&io).into())?;
        // `buffer_sizes` tells what the system has granted.
        let _ = state.set_recv_buffer_size((&io).into(), BUFFER_BYTES);
        let _ = state.set_send_buffer_size((&io).into(), BUFFER_BYTES);
        Ok(Socket { io, state, room: vec![0; BATCHES * BATCH_BYTES] })
    }

    pub(super) fn buffer_sizes(&self) -> BufferSizes {
        BufferSizes {
            receive: self.state.recv_buffer_size((&self.io).into()).unwrap_or(0),
            send: self.state.send_buffer_size((&self.io).into()).unwrap_or(0),
        }
    }

    /// `true` if the network may fragment datagrams, so that their size must not be probed.
    pub(super) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// The number of datagrams of `size` bytes that one send may carry.
    pub(super) fn segments_max(&self, size: u16) -> usize {
        let fitting = SEND_BYTES_MAX / usize::from(size.max(1));
        self.state.max_gso_segments().min(fitting).max(1)
    }

    /// Receives datagrams and passes each to `take`; returns their number.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(Datagram),
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let (io, state, room) = (&self.io, &self.state, &mut self.room);
            let mut metas = [RecvMeta::default(); BATCHES];
            let mut received = None;
            let tried = io.try_io(Interest::READABLE, || {
                let mut parts = room.chunks_exact_mut(BATCH_BYTES).map(IoSliceMut::new);
                let mut slices: [IoSliceMut<'_>; BATCHES] =
                    std::array::from_fn(|_| parts.next().unwrap_or(IoSliceMut::new(&mut [])));
                let count = state.recv(io.into(), &mut slices, &mut metas)?;
                received = Some(count);
                // The kernel had no more: waits without a call that would only say so.
                if count < FULL { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            let received = match (received, tried) {
                (Some(received), _) => received,
                (None, Err(e)) if e.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(e));
                }
                (None, _) => continue,
            };
            let mut count = 0;
            for (meta, part) in metas[..received].iter().zip(self.room.chunks_exact(BATCH_BYTES)) {
                let mut batch = BytesMut::from(&part[..meta.len.min(part.len())]);
                let stride = meta.stride.max(1);
                while !batch.is_empty() {
                    let bytes = batch.split_to(stride.min(batch.len()));
                    take(datagram(meta, bytes));
                    count += 1;
                }
            }
            return Poll::Ready(Ok(count));
        }
    }

    /// Sends datagrams; `false`: the kernel has no room for them now. Other errors are those of a
    /// path, and the datagrams count as lost.
    pub(super) fn try_send(&self, transmit: &Transmit, bytes: &[u8]) -> bool {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let sent =
            self.io.try_io(Interest::WRITABLE, || self.state.send((&self.io).into(), &transmit));
        !matches!(sent, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until the kernel has room for datagrams.
    pub(super) fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }
}

fn datagram(meta: &RecvMeta, bytes: BytesMut) -> Datagram {
    Datagram {
        from: meta.addr,
        local: meta.dst_ip,
        ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
        bytes,
    }
}
