//! `http2_fields`: HPACK's field blocks.

use hurtle_http::h2::hpack::{Decoder, Encoder, HpackError};

/// Maximum size of a block in bytes.
const BLOCK_BYTES: usize = 97;

/// Decoded fields, encoded and decoded again with dynamic tables, are the same.
pub fn http2_fields(data: &[u8]) {
    let (mut theirs, mut encoder, mut ours) =
        (Decoder::default(), Encoder::default(), Decoder::default());
    for bytes in data.chunks(BLOCK_BYTES) {
        let Ok(fields) = read(&mut theirs, bytes) else { return };
        if let Some((_, value)) = fields.first() {
            encoder.set_table_bytes_max(value.len() * 64);
        }
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for (name, value) in &fields {
            encoder.field(name, value, &mut block);
        }
        let lower = fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
        let again = read(&mut ours, &block).expect("what was written cannot be read");
        assert_eq!(again, lower.collect::<Vec<_>>());
    }
}

fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, HpackError> {
    let (mut fields, mut out) = (Vec::new(), Vec::new());
    let mut block = decoder.block(block);
    while let Some(field) = block.next_field(&mut out, true)? {
        let (name, value) = out.split_at(field.name_len);
        assert_eq!(value.len(), field.value_len, "a value's length");
        fields.push((name.to_vec(), value.to_vec()));
        out.clear();
    }
    Ok(fields)
}
