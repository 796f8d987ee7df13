//! `target`: request targets and their paths.

use hurtle_http::semantics::target::{Target, decode, decode_keeping_slashes, encode_path, parse};

/// An accepted path names something beneath the root. Encoded again, it is accepted and names the
/// same.
pub fn target(data: &[u8]) {
    let _ = parse(b"CONNECT", data);
    let _ = parse(b"OPTIONS", data);
    let Ok(Target::Origin { path, .. } | Target::Absolute { path, .. }) = parse(b"GET", data)
    else {
        return;
    };
    let mut decoded = Vec::new();
    if decode_keeping_slashes(path, &mut decoded).is_ok() {
        let mut again = Vec::new();
        assert_eq!(decode_keeping_slashes(encode_path(&decoded).as_bytes(), &mut again), Ok(()));
        assert_eq!(again, decoded, "with its encoded slashes it names something else");
    }
    if decode(path, &mut decoded).is_err() {
        return;
    }
    let inner = decoded.strip_prefix(b"/").expect("a decoded path begins with a slash");
    let names: Vec<&[u8]> = inner.split(|&byte| byte == b'/').collect();
    let (last, parents) = names.split_last().expect("a split gives at least one part");
    assert!(parents.iter().all(|name| !name.is_empty()), "an empty segment");
    assert!(names.iter().all(|name| *name != b"." && *name != b".."), "a dot segment: {last:?}");
    assert!(!decoded.contains(&0), "a NUL");

    let encoded = encode_path(&decoded);
    assert!(!encoded.starts_with("//"), "another host");
    assert!(parse(b"GET", encoded.as_bytes()).is_ok(), "{encoded} is refused");
    let mut again = Vec::new();
    assert_eq!(decode(encoded.as_bytes(), &mut again), Ok(()), "{encoded}");
    assert_eq!(again, decoded, "{encoded} names something else");
}
