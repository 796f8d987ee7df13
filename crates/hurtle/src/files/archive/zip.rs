//! Encodes the records of a zip archive (APPNOTE.TXT 6.3.10). Pure.
//!
//! Files are stored without compression. A file's CRC-32 follows its data (section 4.3.9), because
//! the data is read once, when it is sent. Sizes, offsets and counts that exceed their field are in
//! ZIP64 records (sections 4.3.14, 4.3.15, 4.5.3).

use super::{Entry, Kind};

/// The value of a 32-bit field whose number is in a ZIP64 record.
const IN_ZIP64: u32 = u32::MAX;

/// The value of a 16-bit field whose number is in a ZIP64 record.
const COUNT_IN_ZIP64: u16 = u16::MAX;

/// Specification version that an archive needs: 2.0 for directories and data descriptors, 4.5 for
/// ZIP64 (section 4.4.3).
const VERSION: u16 = 20;
const VERSION_ZIP64: u16 = 45;

/// General purpose flags (section 4.4.4): the CRC-32 follows the data; the name is UTF-8.
const FLAG_DESCRIPTOR: u16 = 1 << 3;
const FLAG_UTF8: u16 = 1 << 11;

/// Host system of the attributes: Unix (section 4.4.2).
const MADE_BY_UNIX: u16 = 3 << 8;

/// Header ids of extra fields: ZIP64 (section 4.5.3) and Info-ZIP's modification time in UTC.
const EXTRA_ZIP64: u16 = 0x0001;
const EXTRA_TIME: u16 = 0x5455;

/// The end of an archive: where its central directory is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Central {
    pub(super) entries: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Appends the local header before an entry's data.
pub(super) fn append_local_header(out: &mut Vec<u8>, name: &[u8], entry: &Entry) {
    let has_zip64 = is_large(entry.size);
    let mut extra = Vec::new();
    if has_zip64 {
        // Tells that the descriptor after the data has sizes of 8 bytes (section 4.3.9.2).
        append_all16(&mut extra, &[EXTRA_ZIP64, 16]);
        extra.extend_from_slice(&[0; 16]);
    }
    append_time(&mut extra, entry.modified);
    append32(out, 0x0403_4b50);
    append_common(out, name, entry, if has_zip64 { VERSION_ZIP64 } else { VERSION });
    let size = if has_zip64 { IN_ZIP64 } else { 0 };
    append_all32(out, &[0, size, size]);
    append_all16(out, &[name.len() as u16, extra.len() as u16]);
    out.extend_from_slice(name);
    out.extend_from_slice(&extra);
}

/// Appends the data descriptor after a file's data; a directory has none.
pub(super) fn append_descriptor(out: &mut Vec<u8>, entry: &Entry, crc: u32) {
    if entry.kind == Kind::Directory {
        return;
    }
    append_all32(out, &[0x0807_4b50, crc]);
    if is_large(entry.size) {
        append64(out, entry.size);
        append64(out, entry.size);
    } else {
        append_all32(out, &[entry.size as u32; 2]);
    }
}

/// Appends the record of an entry in the central directory; `offset` is that of its local header.
pub(super) fn append_central(out: &mut Vec<u8>, name: &[u8], entry: &Entry, crc: u32, offset: u64) {
    let mut zip64 = Vec::new();
    let (large, far) = (is_large(entry.size), is_large(offset));
    if large {
        append64(&mut zip64, entry.size);
        append64(&mut zip64, entry.size);
    }
    if far {
        append64(&mut zip64, offset);
    }
    let mut extra = Vec::new();
    if !zip64.is_empty() {
        append_all16(&mut extra, &[EXTRA_ZIP64, zip64.len() as u16]);
        extra.extend_from_slice(&zip64);
    }
    append_time(&mut extra, entry.modified);
    let version = if large || far { VERSION_ZIP64 } else { VERSION };
    append32(out, 0x0201_4b50);
    append16(out, MADE_BY_UNIX | version);
    append_common(out, name, entry, version);
    let size = if large { IN_ZIP64 } else { entry.size as u32 };
    append_all32(out, &[crc, size, size]);
    // The comment's length, the disk and the internal attributes are 0.
    append_all16(out, &[name.len() as u16, extra.len() as u16, 0, 0, 0]);
    // Unix mode in the upper half, the MS-DOS attribute of a directory in the lower.
    let attributes = match entry.kind {
        Kind::Directory => 0o040_755 << 16 | 0x10,
        Kind::File => 0o100_644 << 16,
    };
    append_all32(out, &[attributes, if far { IN_ZIP64 } else { offset as u32 }]);
    out.extend_from_slice(name);
    out.extend_from_slice(&extra);
}

/// Appends the end of the archive.
pub(super) fn append_end(out: &mut Vec<u8>, central: Central) {
    let Central { entries, offset, bytes } = central;
    let has_zip64 = entries >= COUNT_IN_ZIP64.into() || is_large(offset) || is_large(bytes);
    if has_zip64 {
        append32(out, 0x0606_4b50);
        append64(out, 44);
        append_all16(out, &[MADE_BY_UNIX | VERSION_ZIP64, VERSION_ZIP64]);
        append_all32(out, &[0, 0]);
        for number in [entries, entries, bytes, offset] {
            append64(out, number);
        }
        append_all32(out, &[0x0706_4b50, 0]);
        append64(out, offset + bytes);
        append32(out, 1);
    }
    let count = u16::try_from(entries).unwrap_or(COUNT_IN_ZIP64);
    let number = |number: u64| u32::try_from(number).unwrap_or(IN_ZIP64);
    append32(out, 0x0605_4b50);
    append_all16(out, &[0, 0, count, count]);
    append_all32(out, &[number(bytes), number(offset)]);
    append16(out, 0);
}

/// Appends the fields that both headers have: version, flags, method, time.
fn append_common(out: &mut Vec<u8>, name: &[u8], entry: &Entry, version: u16) {
    let mut flags = 0;
    if entry.kind == Kind::File {
        flags |= FLAG_DESCRIPTOR;
    }
    if std::str::from_utf8(name).is_ok() {
        flags |= FLAG_UTF8;
    }
    append_all16(out, &[version, flags, 0]);
    append_all16(out, &dos_time(entry.modified));
}

/// Appends the extra field with the modification time in UTC, if its 32 bits hold it.
fn append_time(extra: &mut Vec<u8>, modified: i64) {
    if let Ok(modified) = i32::try_from(modified) {
        append_all16(extra, &[EXTRA_TIME, 5]);
        extra.push(1);
        append32(extra, modified.cast_unsigned());
    }
}

fn is_large(number: u64) -> bool {
    number >= IN_ZIP64.into()
}

/// Time and date of MS-DOS (section 4.4.6), here in UTC, within 1980 to 2107.
fn dos_time(modified: i64) -> [u16; 2] {
    /// 1980-01-01T00:00:00Z and 2107-12-31T23:59:58Z.
    const RANGE: [i64; 2] = [315_532_800, 4_354_819_198];
    let time = super::super::listing::UtcTime::from_unix(modified.clamp(RANGE[0], RANGE[1]));
    let ([year, month, day], [hour, minute, second]) = time.fields();
    [
        (hour << 11 | minute << 5 | (second / 2)) as u16,
        ((year - 1980) << 9 | month << 5 | day) as u16,
    ]
}

fn append16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn append32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn append64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn append_all16(out: &mut Vec<u8>, numbers: &[u16]) {
    numbers.iter().for_each(|number| append16(out, *number));
}

fn append_all32(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| append32(out, *number));
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Cursor, Read, Seek, SeekFrom, Write};

    use proptest::prelude::*;

    use super::*;
    use crate::files::listing::tests::Scratch;

    fn entry(kind: Kind, size: u64, modified: i64) -> Entry {
        Entry { path: Box::default(), kind, size, modified, inode: 0, crc: 0 }
    }

    fn crc(content: &[u8]) -> u32 {
        crc32fast::hash(content)
    }

    proptest! {
        #[test]
        fn any_file_is_read_back(
            name in prop::collection::vec(prop_oneof![b' '..=b'.', b'0'..=b'[', 0x80_u8..], 1..300),
            content: Vec<u8>,
            modified: i64,
        ) {
            let entry = entry(Kind::File, content.len() as u64, modified);
            let mut archive = Vec::new();
            append_local_header(&mut archive, &name, &entry);
            archive.extend_from_slice(&content);
            append_descriptor(&mut archive, &entry, crc(&content));
            let offset = archive.len() as u64;
            append_central(&mut archive, &name, &entry, crc(&content), 0);
            let bytes = archive.len() as u64 - offset;
            append_end(&mut archive, Central { entries: 1, offset, bytes });
            let mut archive = zip::ZipArchive::new(Cursor::new(&archive)).unwrap();
            let mut file = archive.by_index(0).unwrap();
            prop_assert_eq!(file.name_raw(), &name[..]);
            prop_assert_eq!(file.unix_mode(), Some(0o100_644));
            let mut read = Vec::new();
            file.read_to_end(&mut read).unwrap();
            prop_assert_eq!(read, content);
        }
    }

    #[test]
    fn large_files_and_offsets_are_in_zip64_records() {
        const SIZE: u64 = 5 << 30;
        let scratch = Scratch::new();
        let path = scratch.path().join("sparse.zip");
        let mut file = File::create_new(&path).unwrap();
        let (large, small) = (entry(Kind::File, SIZE, 0), entry(Kind::File, 4, 0));
        let mut head = Vec::new();
        append_local_header(&mut head, b"large", &large);
        file.write_all(&head).unwrap();
        // A hole in the file stands for the data.
        file.seek(SeekFrom::Current(SIZE as i64)).unwrap();
        let mut rest = Vec::new();
        append_descriptor(&mut rest, &large, 0);
        let second = head.len() as u64 + SIZE + rest.len() as u64;
        append_local_header(&mut rest, b"small", &small);
        rest.extend_from_slice(b"tail");
        append_descriptor(&mut rest, &small, crc(b"tail"));
        let before = rest.len();
        append_central(&mut rest, b"large", &large, 0, 0);
        append_central(&mut rest, b"small", &small, crc(b"tail"), second);
        let offset = head.len() as u64 + SIZE + before as u64;
        let bytes = (rest.len() - before) as u64;
        append_end(&mut rest, Central { entries: 2, offset, bytes });
        file.write_all(&rest).unwrap();
        let mut archive = zip::ZipArchive::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(archive.by_index(0).unwrap().size(), SIZE);
        let mut read = String::new();
        archive.by_index(1).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "tail");
    }

    #[test]
    fn many_entries_are_counted_in_a_zip64_record() {
        for count in [65_534, 65_535, 70_000] {
            let (mut archive, mut central) = (Vec::new(), Vec::new());
            let entry = entry(Kind::Directory, 0, 0);
            for number in 0..count {
                let name = format!("{number}/");
                append_central(&mut central, name.as_bytes(), &entry, 0, archive.len() as u64);
                append_local_header(&mut archive, name.as_bytes(), &entry);
            }
            let (offset, bytes) = (archive.len() as u64, central.len() as u64);
            archive.extend(central);
            append_end(&mut archive, Central { entries: count, offset, bytes });
            let archive = zip::ZipArchive::new(Cursor::new(&archive)).unwrap();
            assert_eq!(archive.len() as u64, count);
        }
    }

    #[test]
    fn times_of_ms_dos() {
        let rows = [
            (784_111_777, [8 << 11 | 49 << 5 | 18, 14 << 9 | 11 << 5 | 6]),
            (-1, [0, 1 << 5 | 1]),
            (i64::MAX, [23 << 11 | 59 << 5 | 29, 127 << 9 | 12 << 5 | 31]),
        ];
        for (modified, expected) in rows {
            assert_eq!(dos_time(modified), expected, "{modified}");
        }
    }
}
