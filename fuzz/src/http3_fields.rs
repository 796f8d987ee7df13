//! `http3_fields`: QPACK's encoder stream and field sections.

use hurtle_http::h3::qpack::{Decoder, QpackError, encode};

/// Capacity of the dynamic table in bytes.
const CAPACITY: usize = 4 << 10;

/// Maximum size of a section in bytes.
const SECTION_BYTES: usize = 61;

type Field = (Vec<u8>, Vec<u8>);

/// The first byte is the size of the pieces, the second tells how many of the bytes are
/// instructions of the encoder stream; sections follow. Splitting the instructions does not change
/// the sections. Decoded fields, encoded and decoded again, are the same.
pub fn http3_fields(data: &[u8]) {
    let Some((&[piece, share], rest)) = data.split_first_chunk() else { return };
    let (instructions, sections) = rest.split_at(rest.len() * usize::from(share) / 255);
    let whole = run(instructions, instructions.len().max(1), sections);
    let in_pieces = run(instructions, usize::from(piece).max(1), sections);
    assert_eq!(whole, in_pieces, "in pieces of {piece}");
    for fields in whole.into_iter().flatten().flatten() {
        let mut section = Vec::new();
        encode::prefix(&mut section);
        for (name, value) in &fields {
            encode::field(name, value, &mut section);
        }
        let lower = fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
        assert_eq!(read(&Decoder::new(0), &section), Ok(lower.collect()), "{section:x?}");
    }
}

/// The fields of each section after the instructions; `Err`: the instructions are invalid.
#[allow(clippy::type_complexity)]
fn run(
    instructions: &[u8],
    piece: usize,
    sections: &[u8],
) -> Result<Vec<Result<Vec<Field>, QpackError>>, QpackError> {
    let mut decoder = Decoder::new(CAPACITY);
    for piece in instructions.chunks(piece) {
        decoder.receive(piece, u64::MAX)?;
    }
    Ok(sections.chunks(SECTION_BYTES).map(|section| read(&decoder, section)).collect())
}

fn read(decoder: &Decoder, section: &[u8]) -> Result<Vec<Field>, QpackError> {
    let mut rest = section;
    let prefix = decoder.prefix(&mut rest)?;
    let (mut lines, mut fields, mut out) = (decoder.lines(prefix, rest), Vec::new(), Vec::new());
    while let Some(field) = lines.next_field(&mut out, true)? {
        let (name, value) = out.split_at(field.name_len);
        assert_eq!(value.len(), field.value_len, "a value's length");
        fields.push((name.to_vec(), value.to_vec()));
        out.clear();
    }
    Ok(fields)
}
