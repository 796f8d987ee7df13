//! Writes metrics as length-delimited `io.prometheus.client.MetricFamily` messages, the only format
//! that carries native histograms. Field numbers are those of prometheus/client_model 0.6.
//!
//! Written here and not by a crate: it is a page, and nothing is decoded.

use super::exposition::{Family, Kind, Labels};
use super::snapshot::Distribution;

/// Wire types (protobuf.dev/programming-guides/encoding).
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn uint(&mut self, field: u32, number: u64) {
        self.tag(field, VARINT);
        self.varint(number);
    }

    /// Writes a number in the ZigZag encoding of `sint32` and `sint64`.
    fn sint(&mut self, field: u32, number: i64) {
        self.uint(field, (number << 1 ^ number >> 63) as u64);
    }

    fn double(&mut self, field: u32, number: f64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// Begins a metric family.
    pub(super) fn family(family: &Family) -> Message {
        let mut message = Message::default();
        message.text(1, &family.sample_name());
        message.text(2, family.help);
        message.uint(
            3,
            match family.kind {
                Kind::Counter => 0,
                Kind::Gauge | Kind::Info => 1,
                Kind::Histogram => 4,
            },
        );
        message
    }

    /// Ends a metric family: appends it to `out`, after its length. Readers refuse one without
    /// samples.
    pub(super) fn finish(self, has_samples: bool, out: &mut Vec<u8>) {
        if has_samples {
            let mut length = Message::default();
            length.varint(self.0.len() as u64);
            out.extend_from_slice(&length.0);
            out.extend_from_slice(&self.0);
        }
    }

    /// Writes a counter or a gauge.
    pub(super) fn value(&mut self, kind: Kind, labels: Labels<'_>, value: f64) {
        let field = if kind == Kind::Counter { 3 } else { 2 };
        self.metric(labels, |metric| metric.message(field, |message| message.double(1, value)));
    }

    /// Writes a histogram with classic and native buckets.
    pub(super) fn histogram(&mut self, labels: Labels<'_>, of: &Distribution) {
        self.metric(labels, |metric| metric.message(7, |message| message.buckets(of)));
    }

    fn metric(&mut self, labels: Labels<'_>, write: impl FnOnce(&mut Message)) {
        self.message(4, |metric| {
            for (name, value) in labels {
                metric.message(1, |label| {
                    label.text(1, name);
                    label.text(2, &value.to_string());
                });
            }
            write(metric);
        });
    }

    fn buckets(&mut self, of: &Distribution) {
        let native = &of.native;
        // Prometheus refuses a count that is not the sum of the native buckets. The classic ones
        // may be a value behind them, because a worker counts meanwhile.
        self.uint(1, native.count());
        self.double(2, of.sum);
        let mut sum = 0;
        for (count, bound) in of.counts.iter().zip(&of.bounds) {
            sum += count;
            self.message(3, |bucket| {
                bucket.uint(1, sum);
                bucket.double(2, *bound);
            });
        }
        self.sint(5, native.schema.into());
        self.double(6, native.zero_threshold);
        self.uint(7, native.zero_count);
        // Spans of buckets without a gap: the distance from the end of the one before, and a
        // length.
        let mut spans: Vec<(i32, u64)> = Vec::new();
        let mut next = 0;
        for at in native.counts.keys() {
            match spans.last_mut() {
                Some((_, length)) if *at == next => *length += 1,
                _ => spans.push((at - next, 1)),
            }
            next = at + 1;
        }
        for (offset, length) in spans {
            self.message(12, |span| {
                span.sint(1, offset.into());
                span.uint(2, length);
            });
        }
        let mut before = 0;
        for count in native.counts.values() {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.sint(13, count - before);
            before = count;
        }
    }
}
