//! Trace context (W3C Recommendation, levels 1 and 2): the `traceparent` field. Also the values of
//! X-Request-Id that are taken from a proxy.

/// Maximum length of a request ID that is taken from a proxy, in bytes.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// Returns the trace ID of a valid `traceparent` (section 3.2); `None`: it is invalid, and the
/// trace is begun anew (section 4.3).
pub fn trace_id(traceparent: &[u8]) -> Option<&[u8]> {
    let (known, later) = traceparent.split_at_checked(55)?;
    let [version, trace, parent, flags] = [0..2, 3..35, 36..52, 53..55].map(|at| &known[at]);
    let is_hex = |text: &[u8]| text.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_id = |text: &[u8]| is_hex(text) && text.iter().any(|b| *b != b'0');
    let is_framed = [2, 35, 52].iter().all(|at| known[*at] == b'-');
    // A later version may have more parts; version 00 has none, and ff is forbidden.
    let is_ended = later.is_empty() || (version != b"00" && later[0] == b'-');
    let is_valid = is_framed
        && is_ended
        && is_hex(version)
        && version != b"ff"
        && is_id(trace)
        && is_id(parent)
        && is_hex(flags);
    is_valid.then_some(trace)
}

/// Returns whether a request ID may be logged and passed on: a few printable characters without
/// quotes, spaces or separators.
pub fn is_request_id(id: &[u8]) -> bool {
    let is_fit = |b: &u8| b.is_ascii_alphanumeric() || b"-_.~+/=:@".contains(b);
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_id_of_a_valid_traceparent_is_found() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let good = format!("00-{trace}-b7ad6b7169203331-01");
        let rows = [
            ("version 00", good.clone(), true),
            ("other flags", good.replace("-01", "-ff"), true),
            ("a later version", good.replace("00-0", "cc-0"), true),
            ("a later version with more parts", good.replace("00-0", "cc-0") + "-more", true),
            ("more without a dash", good.replace("00-0", "cc-0") + "more", false),
            ("version 00 with more", good.clone() + "-more", false),
            ("the forbidden version", good.replace("00-0", "ff-0"), false),
            ("upper case", good.to_uppercase(), false),
            ("no trace", good.replace(trace, &"0".repeat(32)), false),
            ("no parent", good.replace("b7ad6b7169203331", &"0".repeat(16)), false),
            ("too short", good[..54].to_owned(), false),
            ("other separators", good.replace('-', "_"), false),
            ("not hex", good.replace('7', "g"), false),
            ("empty", String::new(), false),
            ("not ASCII", "é".repeat(30), false),
        ];
        for (sentence, text, is_valid) in rows {
            let found = trace_id(text.as_bytes());
            assert_eq!(found, is_valid.then_some(trace.as_bytes()), "{sentence}");
        }
    }

    #[test]
    fn a_request_id_is_short_and_plain() {
        let long = "a".repeat(REQUEST_ID_BYTES_MAX + 1);
        let rows = [
            ("550e8400-e29b-41d4-a716-446655440000", true),
            ("Root=1-67891233-abcdef012345678912345678", true),
            (&long[1..], true),
            (&long, false),
            ("", false),
            ("a b", false),
            ("a\"b", false),
            ("a,b", false),
            ("é", false),
        ];
        for (id, expected) in rows {
            assert_eq!(is_request_id(id.as_bytes()), expected, "{id}");
        }
    }
}
