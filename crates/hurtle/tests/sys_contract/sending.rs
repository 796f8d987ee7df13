//! Tests of `send_file` and `send_head_and_file`: the reported counts equal the received bytes.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;

use hurtle::sys;
use rustix::event::PollFlags;
use socket2::{Domain, SockAddr, Socket, Type};

use super::{LOOPBACK, PATIENCE, Scratch, pattern, wait_for};

#[test]
fn a_partial_count_is_what_arrives() {
    let scratch = Scratch::new("partial");
    let len = 8 << 20;
    let file = scratch.file("f", len);
    for offset in [0, 1, 4_095, 1_000_000] {
        let pair = Pair::new();
        let sent = pair.fill(&file, offset, len);
        assert!(sent > 0 && sent < len - offset, "the socket took {sent} bytes: a part");
        assert!(pair.finish() == pattern(len)[offset..offset + sent], "from {offset}");
    }
}

#[test]
fn nothing_is_lost_or_repeated_where_the_socket_fills_up() {
    let scratch = Scratch::new("continued");
    let file_len = 150_001;
    let file = scratch.file("f", file_len);
    let heads = [0, 1, 17, 300, 5_000, 70_000];
    let runs = [
        ("from the start", 0, 33_000),
        ("one byte", 4_096, 1),
        ("not on a page", 777, 12_345),
        ("nothing", 10, 0),
        ("all of it", 0, file_len),
        ("to the end and beyond", 100_000, 1 << 20),
        ("at the end", file_len, 10),
        ("beyond the end", file_len + 5_000, 10),
    ];
    // On one connection the socket fills up at a different point of each row.
    let mut pair = Pair::new();
    let mut expected = Vec::new();
    for (why, offset, len) in runs {
        for head_len in heads {
            let head: Vec<u8> = pattern(head_len).iter().map(|b| !b).collect();
            pair.deliver(&head, &file, offset, len);
            expected.extend_from_slice(&head);
            let end = (offset + len).min(file_len);
            expected.extend_from_slice(&pattern(file_len)[offset.min(end)..end]);
            while pair.received.len() + 4 * ROOM < expected.len() {
                pair.receive_some();
            }
            let so_far = pair.received.len();
            assert!(
                expected.get(..so_far) == Some(&pair.received[..]),
                "{why}, after a head of {head_len} bytes"
            );
        }
    }
    assert!(pair.finish() == expected);
}

#[test]
fn corked_bytes_leave_when_the_cork_is_removed() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    sys::fill_segments(near.as_fd(), true);
    #[cfg(target_os = "linux")]
    assert!(rustix::net::sockopt::tcp_cork(&near).unwrap(), "the kernel gathers");
    near.write_all(b"a few ").unwrap();
    near.write_all(b"bytes").unwrap();
    sys::fill_segments(near.as_fd(), false);
    #[cfg(target_os = "linux")]
    assert!(!rustix::net::sockopt::tcp_cork(&near).unwrap(), "and no more");
    drop(near);
    let mut came = Vec::new();
    far.read_to_end(&mut came).unwrap();
    assert_eq!(came, b"a few bytes");
}

#[test]
fn a_file_that_ends_sends_nothing() {
    let scratch = Scratch::new("end");
    let file = scratch.file("f", 1_000);
    let pair = Pair::new();
    let both = |head: &[u8], offset, len| pair.send_both(head, &file, offset, len).unwrap();
    assert_eq!(pair.send_file(&file, 1_000, 10).unwrap(), 0, "at the end");
    assert_eq!(pair.send_file(&file, 9_999, 10).unwrap(), 0, "beyond the end");
    assert_eq!(pair.send_file(&file, 0, 0).unwrap(), 0, "no bytes are asked, not all");
    assert_eq!(both(b"A", 0, 0), 1, "no bytes are asked, not all; the head is sent");
    assert_eq!(both(b"BC", 1_000, 10), 2, "the head is sent though the file is at its end");
    assert_eq!(pair.fill(&file, 990, 2_000), 10, "what is left of it");
    assert!(pair.finish() == [b"ABC", &pattern(1_000)[990..]].concat());
}

#[test]
fn a_file_truncated_during_a_send_ends_there() {
    let scratch = Scratch::new("cut");
    let len = 8 << 20;
    let file = scratch.file("f", len);
    let mut pair = Pair::new();
    let sent = pair.fill(&file, 0, len);
    assert!(sent < len, "a part of it");
    File::options().write(true).open(scratch.0.join("f")).unwrap().set_len(100).unwrap();
    while pair.received.len() < sent {
        pair.receive_some();
    }
    assert_eq!(pair.send_file(&file, sent, len - sent).unwrap(), 0, "the end has come earlier");
    assert_eq!(pair.finish().len(), sent, "nothing follows");
}

#[test]
fn an_impossible_send_is_an_error() {
    let scratch = Scratch::new("errors");
    let file = scratch.file("f", 1 << 20);
    let pair = Pair::new();
    let offset = u64::MAX;
    let sent = sys::send_file(pair.sender.as_fd(), file.as_fd(), offset, 1);
    assert!(sent.is_err(), "no file has this offset");

    let Pair { sender, receiver, .. } = Pair::new();
    (&sender).write_all(b"unread, so that closing resets").unwrap();
    wait_for(&[&receiver], PollFlags::IN);
    drop(receiver);
    wait_for(&[&sender], PollFlags::HUP);
    let sent = sys::send_head_and_file(sender.as_fd(), b"head", file.as_fd(), 0, 1 << 20);
    let error = sent.map_err(|e| e.kind()).expect_err("the peer is gone");
    let gone = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::NotConnected];
    assert!(gone.contains(&error), "the peer is gone, which is no lack of room: {error:?}");
}

/// A loopback connection with small buffers. Sending never blocks; receiving blocks with a time
/// limit.
struct Pair {
    sender: TcpStream,
    receiver: TcpStream,
    received: Vec<u8>,
}

/// Size of each end's socket buffer, in bytes.
const ROOM: usize = 16 << 10;

impl Pair {
    fn new() -> Pair {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.set_recv_buffer_size(ROOM).unwrap();
        listener.bind(&SockAddr::from(LOOPBACK)).unwrap();
        listener.listen(1).unwrap();
        let sender = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        sender.set_send_buffer_size(ROOM).unwrap();
        sender.connect(&listener.local_addr().unwrap()).unwrap();
        sender.set_tcp_nodelay(true).unwrap();
        sender.set_nonblocking(true).unwrap();
        let receiver = TcpStream::from(listener.accept().unwrap().0);
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        Pair { sender: sender.into(), receiver, received: Vec::new() }
    }

    /// Sends until the socket is full or everything is sent; returns the number of bytes.
    fn fill(&self, file: &File, mut offset: usize, end: usize) -> usize {
        let start = offset;
        while offset < end {
            match self.send_file(file, offset, end - offset) {
                Ok(0) => break,
                Ok(n) => offset += n,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        offset - start
    }

    fn send_file(&self, file: &File, offset: usize, len: usize) -> io::Result<usize> {
        sys::send_file(self.sender.as_fd(), file.as_fd(), offset as u64, len)
    }

    fn send_both(&self, head: &[u8], file: &File, at: usize, len: usize) -> io::Result<usize> {
        sys::send_head_and_file(self.sender.as_fd(), head, file.as_fd(), at as u64, len)
    }

    /// Sends a head and a range of a file by the contract, and receives when the socket is full.
    fn deliver(&mut self, head: &[u8], file: &File, offset: usize, len: usize) {
        let (mut head, mut at, end) = (head, offset, offset + len);
        while !head.is_empty() || at < end {
            let sent = if head.is_empty() {
                self.send_file(file, at, end - at)
            } else {
                self.send_both(head, file, at, end - at)
            };
            match sent {
                Ok(0) => {
                    assert!(head.is_empty(), "a head has no end of file");
                    return;
                }
                Ok(n) => {
                    let of_head = n.min(head.len());
                    head = &head[of_head..];
                    at += n - of_head;
                    assert!(at <= end, "more was sent than asked");
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.receive_some(),
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn receive_some(&mut self) {
        let mut piece = [0; 7_919];
        let n = self.receiver.read(&mut piece).expect("what the socket took arrives");
        assert_ne!(n, 0, "the sender has not finished");
        self.received.extend_from_slice(&piece[..n]);
    }

    /// Ends the sending side, and returns all received bytes.
    fn finish(mut self) -> Vec<u8> {
        self.sender.shutdown(Shutdown::Write).unwrap();
        self.receiver.read_to_end(&mut self.received).unwrap();
        self.received
    }
}
