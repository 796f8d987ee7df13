//! Request IDs and trace context: given to requests before they are handled, as fields, so that
//! applications, upstreams and FastCGI get them like any other field.

use std::cell::Cell;

use http::HeaderName;
use hurtle_http::request::fields::is_same;
use hurtle_http::request::{RequestFields, RequestHead};
use hurtle_http::semantics::trace_context::{is_request_id, trace_id};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::config::Tracing;

/// Number of hexadecimal digits of a request ID and of a trace ID.
const ID_DIGITS: usize = 32;

/// The IDs of a request, for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// `None`: requests get none.
    pub(super) request_id: Option<Vec<u8>>,
    /// `None`: requests get none.
    pub(super) trace_id: Option<Vec<u8>>,
}

thread_local! {
    /// The seed of this thread's IDs, and their number.
    static SEED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Returns 128 random bits. They need not be secret, only unique: a random seed and a counter are
/// mixed. `None`: the system has no random bits.
fn random() -> Option<u128> {
    let (mut seed, mut count) = SEED.get();
    if count == 0 {
        seed = getrandom::u64().ok()?;
        count = getrandom::u64().ok()?.max(1);
    }
    SEED.set((seed, count.wrapping_add(1)));
    Some(xxh3_128_with_seed(&count.to_le_bytes(), seed).max(1))
}

impl Identity {
    /// Takes the IDs of a request from its fields where they may be used, and makes the others.
    /// `is_trusted`: the peer is a trusted proxy.
    pub(super) fn of(request: &RequestHead<'_>, tracing: Tracing, is_trusted: bool) -> Identity {
        let made = || random().map(|id| format!("{id:0ID_DIGITS$x}").into_bytes());
        let request_id = tracing.request_id.then(|| {
            let given =
                only(request.fields, REQUEST_ID).filter(|id| is_trusted && is_request_id(id));
            given.map(<[u8]>::to_vec).or_else(made)
        });
        let trace_id = tracing.traceparent.then(|| {
            let given = only(request.fields, TRACEPARENT).and_then(trace_id);
            given.map(<[u8]>::to_vec).or_else(made)
        });
        Identity { request_id: request_id.flatten(), trace_id: trace_id.flatten() }
    }

    /// Returns the names of the fields that this server sets.
    pub(super) fn own_fields(&self) -> &'static [HeaderName] {
        match (&self.request_id, &self.trace_id) {
            (Some(_), Some(_)) => &OWN_FIELDS,
            (Some(_), None) => &OWN_FIELDS[..1],
            (None, Some(_)) => &OWN_FIELDS[1..],
            (None, None) => &[],
        }
    }

    /// Returns the field lines of a request with its IDs in place of the client's, and their
    /// number.
    pub(super) fn lines(&self, request: &RequestHead<'_>) -> (Vec<u8>, usize) {
        let given = only(request.fields, TRACEPARENT).and_then(trace_id);
        let continues = given.is_some() && given == self.trace_id.as_deref();
        let (mut lines, mut count) = (Vec::new(), 0);
        for (name, value) in request.fields.iter() {
            let replaced = (self.request_id.is_some() && is_same(name, REQUEST_ID))
                // The state of another trace has no meaning in this one (section 3.3).
                || (self.trace_id.is_some()
                    && !continues
                    && (is_same(name, TRACEPARENT) || is_same(name, TRACESTATE)));
            if !replaced {
                put(&mut lines, name, &[value]);
                count += 1;
            }
        }
        if let Some(id) = &self.request_id {
            put(&mut lines, b"X-Request-Id", &[id]);
            count += 1;
        }
        if let (Some(trace), false) = (&self.trace_id, continues)
            && let Some(span) = random()
        {
            // The flag is "sampled": otherwise applications would record no trace at all.
            let span = format!("{:016x}", (span as u64).max(1));
            put(&mut lines, b"traceparent", &[b"00-", trace, b"-", span.as_bytes(), b"-01"]);
            count += 1;
        }
        (lines, count)
    }
}

static OWN_FIELDS: [HeaderName; 2] =
    [HeaderName::from_static("x-request-id"), HeaderName::from_static("traceparent")];

const REQUEST_ID: &[u8] = b"x-request-id";
const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// Returns the value of a field; `None`: it is absent, or there are several.
fn only<'a>(fields: RequestFields<'a>, known: &[u8]) -> Option<&'a [u8]> {
    let mut values = fields.iter().filter(|(name, _)| is_same(name, known));
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}

fn put(lines: &mut Vec<u8>, name: &[u8], value: &[&[u8]]) {
    lines.extend_from_slice(name);
    lines.extend_from_slice(b": ");
    value.iter().for_each(|part| lines.extend_from_slice(part));
    lines.extend_from_slice(b"\r\n");
}
