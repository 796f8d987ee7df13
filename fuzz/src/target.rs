//! `target`: request targets and their paths.

use hurtle_http::semantics::target::{
    Target, decode, decode_keeping_slashes, encode_path, is_spelling_of, parse, read_leniently,
};

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

    no_reader_finds_dots(path, &decoded);
    let encoded = encode_path(&decoded);
    assert!(!encoded.starts_with("//"), "another host");
    assert!(parse(b"GET", encoded.as_bytes()).is_ok(), "{encoded} is refused");
    let mut again = Vec::new();
    assert_eq!(decode(encoded.as_bytes(), &mut again), Ok(()), "{encoded}");
    assert_eq!(again, decoded, "{encoded} names something else");
}

/// The path that an upstream gets is the routed one for a server that merges slashes, and for one
/// that does not read `\\` and parameters of segments as others do. A path with such is routed by
/// both readings.
fn no_reader_finds_dots(sent: &[u8], decoded: &[u8]) {
    let Ok(lenient) = read_leniently(decoded) else { return };
    let slashes = sent.iter().take_while(|&&byte| byte == b'/').count();
    let forwarded = match is_spelling_of(sent, decoded) {
        true => sent[slashes - 1..].to_vec(),
        false => encode_path(decoded).as_bytes().to_vec(),
    };
    assert!(!forwarded.starts_with(b"//"), "another host");
    let mut again = Vec::new();
    assert_eq!(decode(&forwarded, &mut again), Ok(()));
    assert_eq!(again, decoded, "an upstream reads another path");
    // Tomcat takes parameters off before it decodes.
    let without = |name: &[u8]| name.split(|&byte| byte == b';').next().unwrap_or(name).to_vec();
    let names: Vec<Vec<u8>> = forwarded.split(|&byte| byte == b'/').map(without).collect();
    let plain = names.join(&b'/');
    assert_eq!(decode(&plain, &mut again), Ok(()));
    let read = read_leniently(&again).expect("dots were refused");
    let expected = lenient.unwrap_or_else(|| decoded.to_vec());
    let trimmed = |path: Vec<u8>| path.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(path);
    let read = trimmed(read.unwrap_or(again));
    assert_eq!(read, trimmed(expected), "an upstream reads another path without parameters");
}
