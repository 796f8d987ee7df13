//! Decoders of the content-codings, and text that compresses.

use std::io::Read;

/// Decodes a whole body; `None` if it is not complete or not in this coding.
pub(crate) fn decode(coding: &str, coded: &[u8]) -> Option<Vec<u8>> {
    let (plain, is_whole) = decode_part(coding, coded);
    is_whole.then_some(plain)
}

/// Decodes as much as there is; `true` if that is the whole.
pub(crate) fn decode_part(coding: &str, coded: &[u8]) -> (Vec<u8>, bool) {
    let mut reader: Box<dyn Read> = match coding {
        "br" => Box::new(brotli::Decompressor::new(coded, 4096)),
        "zstd" => Box::new(zstd::stream::read::Decoder::new(coded).unwrap()),
        "gzip" => Box::new(flate2::read::GzDecoder::new(coded)),
        other => panic!("{other} is no coding"),
    };
    let (mut plain, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return (plain, true),
            Ok(n) => plain.extend_from_slice(&piece[..n]),
            Err(_) => return (plain, false),
        }
    }
}

/// Text of this many bytes that compresses well, but not to nothing. `seed` varies it.
pub(crate) fn text(len: usize, seed: u32) -> String {
    let mut state = seed;
    let mut text = String::new();
    while text.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let word = ["lorem ", "ipsum ", "<p>", "</p>\n", "dolor "][(state >> 16) as usize % 5];
        text.push_str(word);
        text.push_str(&(state >> 26).to_string());
    }
    text.truncate(len);
    text
}
