//! Native histograms as Prometheus reads them: the protobuf exposition, decoded again.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::child::Child;
use crate::metrics::{CONFIG, get};
use crate::support::Dir;

/// A field of a protobuf message.
#[derive(Clone, Debug, PartialEq)]
enum Value64 {
    Number(u64),
    Double(f64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
    }
    panic!("a varint has at most ten bytes");
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

/// Decodes a protobuf message into field numbers and values.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value64)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value64::Number(varint(&mut bytes)),
            1 => Value64::Double(f64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes) as usize;
                Value64::Bytes(take(&mut bytes, length).to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

/// The messages in a field.
fn messages(of: &[(u64, Value64)], field: u64) -> Vec<Vec<(u64, Value64)>> {
    let bytes = of.iter().filter_map(|(number, value)| match value {
        Value64::Bytes(bytes) if *number == field => Some(fields(bytes)),
        _ => None,
    });
    bytes.collect()
}

fn numbers(of: &[(u64, Value64)], field: u64) -> Vec<u64> {
    let numbers = of.iter().filter_map(|(number, value)| match value {
        Value64::Number(n) if *number == field => Some(*n),
        _ => None,
    });
    numbers.collect()
}

fn double(of: &[(u64, Value64)], field: u64) -> f64 {
    match of.iter().find(|(number, _)| *number == field) {
        Some((_, Value64::Double(value))) => *value,
        other => panic!("{field}: {other:?}"),
    }
}

/// Undoes ZigZag.
fn signed(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[test]
fn native_histograms_have_the_counts_of_the_classic_ones() {
    let dir = Dir::new(&[("x.txt", "0123456789"), ("empty", ""), ("large", &"x".repeat(70_000))]);
    let child = Child::configured(&dir, CONFIG);
    for (path, times) in [("/x.txt", 50), ("/empty", 3), ("/large", 5)] {
        get(&child, path, times);
    }
    let socket = dir.path("../metrics.sock");
    let mut peer = UnixStream::connect(&socket).unwrap();
    // The Accept field of Prometheus with native histograms.
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                  encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
    write!(peer, "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    peer.read_to_end(&mut reply).unwrap();
    let end = reply.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&reply[..end]);
    assert!(head.contains("application/vnd.google.protobuf; proto=io.prom"), "{head}");
    let (mut body, mut families) = (&reply[end..], BTreeMap::new());
    while !body.is_empty() {
        let length = varint(&mut body) as usize;
        let family = fields(take(&mut body, length));
        let Value64::Bytes(name) = &family[0].1 else { panic!("{family:?}") };
        families.insert(String::from_utf8(name.clone()).unwrap(), family);
    }
    let requests = messages(&families["hurtle_http_requests_total"], 4);
    assert!(double(&messages(&requests[0], 3)[0], 1) > 0.0, "{requests:?}");
    let mut checked = 0;
    for (name, family) in families.iter().filter(|(_, family)| numbers(family, 3) == [4]) {
        for metric in messages(family, 4) {
            let histogram = messages(&metric, 7).remove(0);
            let count = numbers(&histogram, 1)[0];
            let (mut sum, mut before) = (numbers(&histogram, 7)[0], 0);
            let deltas = numbers(&histogram, 13);
            for delta in &deltas {
                before += signed(*delta);
                sum += u64::try_from(before).unwrap();
            }
            assert_eq!(sum, count, "{name}: {histogram:?}");
            let spans = messages(&histogram, 12);
            let buckets: u64 = spans.iter().map(|span| numbers(span, 2)[0]).sum();
            assert_eq!(buckets as usize, deltas.len(), "{name}: {histogram:?}");
            assert!(double(&histogram, 6) > 0.0, "or an empty one would look classic");
            let classic = messages(&histogram, 3);
            assert!(numbers(classic.last().unwrap(), 1)[0] <= count, "{name}");
            checked += 1;
            let label = |label: &Vec<(u64, Value64)>| label[1].1 == Value64::Bytes(b"/".to_vec());
            if messages(&metric, 1).iter().any(label) {
                assert_eq!(count, 58, "{name}: as the classic histograms count");
                if name == "hurtle_http_response_size_bytes" {
                    // 3 of no byte, 50 of 10 bytes in (8, 16], 5 of 70,000 bytes in (2^16, 2^17].
                    assert_eq!(numbers(&histogram, 7), [3]);
                    let at: Vec<_> = spans.iter().map(|span| signed(numbers(span, 1)[0])).collect();
                    assert_eq!((at, before), (vec![4, 12], 5), "{histogram:?}");
                    assert_eq!(signed(numbers(&histogram, 5)[0]), 0);
                }
            }
        }
    }
    assert!(checked >= 3, "{:?}", families.keys());
}
