//! Encodes the headers of a tar archive (POSIX.1-2017, pax and ustar interchange formats). Pure.
//!
//! A name longer than 100 bytes and a size of 8 GiB or more are in a pax header before the file's
//! own. Everything belongs to user and group 0; permissions are fixed.

use super::{Entry, Kind};

/// Size of a block, in bytes: headers and the data of files fill whole blocks.
const BLOCK_BYTES: usize = 512;

/// Longest name in a ustar header, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// The end of an archive: two blocks of zeros.
pub(super) const END: [u8; 2 * BLOCK_BYTES] = [0; 2 * BLOCK_BYTES];

/// Largest value of a header's 11 octal digits.
const OCTAL_MAX: u64 = (1 << 33) - 1;

/// Appends the headers of an entry.
pub(super) fn append_header(out: &mut Vec<u8>, name: &[u8], entry: &Entry) {
    let mut records = Vec::new();
    if name.len() > NAME_BYTES_MAX {
        if std::str::from_utf8(name).is_err() {
            append_record(&mut records, b"hdrcharset", b"BINARY");
        }
        append_record(&mut records, b"path", name);
    }
    if entry.size > OCTAL_MAX {
        append_record(&mut records, b"size", entry.size.to_string().as_bytes());
    }
    let modified = u64::try_from(entry.modified).unwrap_or(0).min(OCTAL_MAX);
    if !records.is_empty() {
        append_block(out, b"pax_header", b'x', 0o644, records.len() as u64, modified);
        out.extend_from_slice(&records);
        append_padding(out, records.len() as u64);
    }
    let (kind, mode) = match entry.kind {
        Kind::Directory => (b'5', 0o755),
        Kind::File => (b'0', 0o644),
    };
    let name = &name[..name.len().min(NAME_BYTES_MAX)];
    append_block(out, name, kind, mode, entry.size.min(OCTAL_MAX), modified);
}

/// Appends the zeros after the data of a file of `size` bytes.
pub(super) fn append_padding(out: &mut Vec<u8>, size: u64) {
    out.resize(out.len() + padding(size), 0);
}

/// Number of zeros after the data of a file of `size` bytes.
pub(super) fn padding(size: u64) -> usize {
    (size.wrapping_neg() % BLOCK_BYTES as u64) as usize
}

fn append_block(out: &mut Vec<u8>, name: &[u8], kind: u8, mode: u64, size: u64, modified: u64) {
    let mut block = [0; BLOCK_BYTES];
    block[..name.len()].copy_from_slice(name);
    let mut octal = |at: usize, digits: usize, value: u64| {
        let text = format!("{value:0digits$o}");
        block[at..at + digits].copy_from_slice(text.as_bytes());
    };
    octal(100, 7, mode);
    octal(108, 7, 0);
    octal(116, 7, 0);
    octal(124, 11, size);
    octal(136, 11, modified);
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    // The sum counts its own field as spaces.
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    block[154] = 0;
    out.extend_from_slice(&block);
}

/// Appends a pax record: its length in decimal, which counts its own digits, then `key=value`.
fn append_record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + " =\n".len();
    let mut len = rest + 1;
    while len.to_string().len() + rest > len {
        len += 1;
    }
    out.extend_from_slice(len.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn entry(size: u64, modified: i64) -> Entry {
        Entry { path: Box::default(), kind: Kind::File, size, modified, inode: 0, crc: 0 }
    }

    proptest! {
        #[test]
        fn any_header_is_read_back(
            // The crate ends a record at the first line break, not after its length.
            name in prop::collection::vec(prop_oneof![1_u8..=9, 11_u8..], 1..400),
            size in prop_oneof![0..100_u64, 0..1_u64 << 40],
            modified: i64,
        ) {
            let mut out = Vec::new();
            append_header(&mut out, &name, &entry(size, modified));
            prop_assert_eq!(out.len() % BLOCK_BYTES, 0);
            let mut archive = tar::Archive::new(&out[..]);
            let read = archive.entries().unwrap().next().unwrap().unwrap();
            prop_assert_eq!(&*read.path_bytes(), &name[..]);
            prop_assert_eq!(read.size(), size);
            let expected = u64::try_from(modified).unwrap_or(0).min(OCTAL_MAX);
            prop_assert_eq!(read.header().mtime().unwrap(), expected);
        }

        #[test]
        fn any_content_is_read_back(contents in prop::collection::vec(any::<Vec<u8>>(), 0..4)) {
            let mut out = Vec::new();
            for content in &contents {
                let size = content.len() as u64;
                append_header(&mut out, b"name", &entry(size, 0));
                out.extend_from_slice(content);
                append_padding(&mut out, size);
            }
            out.extend_from_slice(&END);
            let mut archive = tar::Archive::new(&out[..]);
            let mut read = Vec::new();
            for file in archive.entries().unwrap() {
                let mut content = Vec::new();
                file.unwrap().read_to_end(&mut content).unwrap();
                read.push(content);
            }
            prop_assert_eq!(read, contents);
        }
    }
}
