//! `store_reply`: a reply of Redis or Valkey.

use hurtle_http::resp::{DEPTH_MAX, REPLY_BYTES_MAX, Reply, VALUES_MAX, encode, parse};

/// Neither splitting nor following bytes change the result, and the bounds hold. A command, parsed
/// as a reply, has the same arguments.
pub fn store_reply(data: &[u8]) {
    let whole = parse(data);
    for end in (0..data.len()).step_by(1 + data.len() / 512) {
        match parse(&data[..end]) {
            Ok(None) => {}
            early => assert_eq!(early, whole, "of {end} bytes, and of {}", data.len()),
        }
    }
    if let Ok(Some((reply, len))) = &whole {
        assert!(*len <= data.len() && *len <= REPLY_BYTES_MAX, "{len} bytes of {}", data.len());
        assert_eq!(parse(&data[..*len]), whole, "without what follows");
        let mut values = 0;
        count(reply, 0, &mut values);
        assert!(values <= VALUES_MAX, "{values} values");
    }
    let arguments: Vec<&[u8]> = data.split(|&byte| byte == b' ').take(VALUES_MAX / 2).collect();
    let mut command = Vec::new();
    encode(&mut command, &arguments);
    if command.len() < REPLY_BYTES_MAX {
        let same = arguments.iter().map(|argument| Reply::Bulk(argument.to_vec())).collect();
        assert_eq!(parse(&command), Ok(Some((Reply::Array(same), command.len()))));
    }
}

fn count(reply: &Reply, depth: usize, values: &mut usize) {
    *values += 1;
    assert!(depth <= DEPTH_MAX);
    if let Reply::Array(items) = reply {
        items.iter().for_each(|item| count(item, depth + 1, values));
    }
}
