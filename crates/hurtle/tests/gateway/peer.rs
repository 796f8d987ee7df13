//! A FastCGI application that a test scripts record by record.

use std::collections::BTreeMap;

use crate::client::Client;
use crate::support::Upstream;

pub(crate) const END: u8 = 3;
pub(crate) const STDOUT: u8 = 6;
pub(crate) const STDERR: u8 = 7;

/// A connection of the server, after the beginning of its request.
pub(crate) struct ReceivedRequest {
    pub(crate) client: Client,
    /// 1: responder; 2: authorizer.
    pub(crate) role: u8,
    /// `true`: the server wants to keep the connection.
    pub(crate) keep: bool,
    pub(crate) variables: BTreeMap<String, String>,
}

/// Accepts the next request on a new connection.
#[track_caller]
pub(crate) fn receive(upstream: &Upstream) -> ReceivedRequest {
    receive_on(upstream.accept())
}

/// Reads the next request on a connection.
#[track_caller]
pub(crate) fn receive_on(mut client: Client) -> ReceivedRequest {
    let (kind, begin) = read(&mut client);
    assert_eq!((kind, begin.len()), (1, 8), "a request begins");
    let mut pairs = Vec::new();
    loop {
        let (kind, content) = read(&mut client);
        assert_eq!(kind, 4, "its variables follow");
        if content.is_empty() {
            break;
        }
        pairs.extend(content);
    }
    ReceivedRequest { client, role: begin[1], keep: begin[2] == 1, variables: variables(&pairs) }
}

/// Reads the next record: its type and content.
#[track_caller]
pub(crate) fn read(client: &mut Client) -> (u8, Vec<u8>) {
    let head = client.take(8);
    assert_eq!(head[..4], [1, head[1], 0, 1], "version 1, request 1");
    let content = client.take(usize::from(u16::from_be_bytes([head[4], head[5]])));
    client.take(usize::from(head[6]));
    (head[1], content)
}

/// Reads the whole input.
#[track_caller]
pub(crate) fn read_input(client: &mut Client) -> Vec<u8> {
    let mut input = Vec::new();
    loop {
        let (kind, content) = read(client);
        assert_eq!(kind, 5, "nothing but input comes");
        if content.is_empty() {
            return input;
        }
        input.extend(content);
    }
}

/// Encodes a record with padding, as some libraries do.
pub(crate) fn record(kind: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let [high, low] = (content.len() as u16).to_be_bytes();
    let padding = content.len().next_multiple_of(8) - content.len();
    let head = [1, kind, 0, 1, high, low, padding as u8, 0];
    [&head[..], content, &vec![0; padding]].concat()
}

/// Encodes the end of a response.
pub(crate) fn end() -> Vec<u8> {
    record(END, [0; 8])
}

impl ReceivedRequest {
    /// Reads the input and sends a complete response.
    #[track_caller]
    pub(crate) fn answer(mut self, text: &str) -> Client {
        if self.role == 1 {
            read_input(&mut self.client);
        }
        self.client.send([record(STDOUT, text), record(STDOUT, ""), end()].concat());
        self.client
    }
}

fn variables(mut pairs: &[u8]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    while !pairs.is_empty() {
        let mut lengths = [0; 2];
        for length in &mut lengths {
            *length = usize::from(pairs[0]);
            pairs = &pairs[1..];
            if *length >= 0x80 {
                let more = [*length as u8 & 0x7f, pairs[0], pairs[1], pairs[2]];
                *length = u32::from_be_bytes(more) as usize;
                pairs = &pairs[3..];
            }
        }
        let (name, rest) = pairs.split_at(lengths[0]);
        let (value, rest) = rest.split_at(lengths[1]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert!(all.insert(text(name), text(value)).is_none(), "each name once");
        pairs = rest;
    }
    all
}
