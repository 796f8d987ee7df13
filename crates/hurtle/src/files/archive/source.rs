//! Writes an archive in pieces: headers, and the data of files as it is read. `fill` blocks on the
//! disk and runs on the disk threads.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags};
use rustix::io::retry_on_intr;

use super::{ArchiveRequest, Entry, Format, Reservation, tar, zip};
use crate::body::{OpenFile, Stamp};
use crate::files::listing::Kind;
use crate::files::root::OpenRoot;

/// Attempts to find a file unchanged while another process appends to it: for a moment only its
/// time has changed.
const APPEND_CHECKS: usize = 64;

/// Files that one call of `fill` opens: a job of a disk thread has a time limit, and with small
/// files a piece has more than a thousand of them.
const OPENED_MAX: usize = 32;

/// An archive that is being written.
pub(super) struct Source {
    request: ArchiveRequest,
    /// The root of the look-up.
    root: OpenRoot,
    entries: Vec<Entry>,
    _reservation: Reservation,
    /// Length of the whole archive, in bytes.
    len: u64,
    stage: Stage,
    /// Offset of the current entry in the archive: of its header or, for the central directory, of
    /// the local header that the record refers to.
    offset: u64,
}

/// The part of the archive that is written next.
enum Stage {
    /// The header of the entry with this index.
    Header(usize),
    /// The data of a file.
    Data { index: usize, file: OpenFile, offset: u64, crc: crc32fast::Hasher },
    /// The record of the entry with this index in the central directory, which begins at an offset.
    Central { index: usize, start: u64, bytes: u64 },
    /// The whole archive has been written.
    End,
}

impl Source {
    /// The archive of these entries, in order.
    pub(super) fn new(
        request: ArchiveRequest,
        root: OpenRoot,
        entries: Vec<Entry>,
        reservation: Reservation,
    ) -> Source {
        let mut source = Source {
            request,
            root,
            entries,
            _reservation: reservation,
            len: 0,
            stage: Stage::Header(0),
            offset: 0,
        };
        source.len = source.count();
        source
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Counts the bytes of the whole archive.
    fn count(&self) -> u64 {
        let mut scratch = Vec::new();
        let (mut local, mut central) = (0, 0);
        for entry in &self.entries {
            let at = local;
            scratch.clear();
            self.append_header(&mut scratch, entry);
            self.append_trailer(&mut scratch, entry);
            local += scratch.len() as u64 + entry.size;
            scratch.clear();
            if self.request.format == Format::Zip {
                zip::append_central(&mut scratch, &self.name(entry), entry, 0, at);
            }
            central += scratch.len() as u64;
        }
        scratch.clear();
        self.append_end(&mut scratch, local, central);
        local + central + scratch.len() as u64
    }

    /// Appends the next bytes of the archive up to a length of `len`, or those of `OPENED_MAX`
    /// files; none at its end.
    ///
    /// # Errors
    /// A file cannot be read, or is no longer as it was listed.
    pub(super) fn fill(&mut self, out: &mut Vec<u8>, len: usize) -> io::Result<()> {
        let mut opened = 0;
        while out.len() < len && opened < OPENED_MAX {
            let stage = std::mem::replace(&mut self.stage, Stage::End);
            self.stage = match stage {
                Stage::Header(index) => {
                    let next = self.write_header(index, out)?;
                    opened += usize::from(matches!(next, Stage::Data { .. }));
                    next
                }
                Stage::Data { index, file, offset, crc } => {
                    self.write_data(index, file, offset, crc, out, len)?
                }
                Stage::Central { index, start, bytes } => {
                    self.write_central(index, start, bytes, out)
                }
                Stage::End => return Ok(()),
            };
        }
        Ok(())
    }

    fn write_header(&mut self, index: usize, out: &mut Vec<u8>) -> io::Result<Stage> {
        let Some(entry) = self.entries.get(index) else {
            let start = std::mem::take(&mut self.offset);
            return Ok(Stage::Central { index: 0, start, bytes: 0 });
        };
        let before = out.len();
        self.append_header(out, entry);
        let size = entry.size;
        if size > 0 {
            let file = self.open(entry)?;
            self.offset += (out.len() - before) as u64 + size;
            return Ok(Stage::Data { index, file, offset: 0, crc: crc32fast::Hasher::new() });
        }
        self.append_trailer(out, entry);
        self.offset += (out.len() - before) as u64;
        Ok(Stage::Header(index + 1))
    }

    fn write_data(
        &mut self,
        index: usize,
        file: OpenFile,
        offset: u64,
        mut crc: crc32fast::Hasher,
        out: &mut Vec<u8>,
        len: usize,
    ) -> io::Result<Stage> {
        let left = self.entries[index].size - offset;
        let start = out.len();
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(len - start);
        out.resize(start + wanted, 0);
        let read = retry_on_intr(|| rustix::io::pread(&file, &mut out[start..], offset))?;
        out.truncate(start + read);
        crc.update(&out[start..]);
        if read == 0 || !(0..APPEND_CHECKS).any(|_| is_intact(&file)) {
            return Err(self.changed(&self.entries[index]));
        }
        if (read as u64) < left {
            return Ok(Stage::Data { index, file, offset: offset + read as u64, crc });
        }
        self.entries[index].crc = crc.finalize();
        let before = out.len();
        self.append_trailer(out, &self.entries[index]);
        self.offset += (out.len() - before) as u64;
        Ok(Stage::Header(index + 1))
    }

    /// Writes the next record of the central directory, or the end of the archive.
    fn write_central(&mut self, index: usize, start: u64, bytes: u64, out: &mut Vec<u8>) -> Stage {
        let entry = match self.entries.get(index) {
            Some(entry) if self.request.format == Format::Zip => entry,
            _ => {
                self.append_end(out, start, bytes);
                return Stage::End;
            }
        };
        let before = out.len();
        zip::append_central(out, &self.name(entry), entry, entry.crc, self.offset);
        let bytes = bytes + (out.len() - before) as u64;
        let mut local = Vec::new();
        self.append_header(&mut local, entry);
        self.append_trailer(&mut local, entry);
        let len = local.len() as u64 + entry.size;
        self.offset += len;
        Stage::Central { index: index + 1, start, bytes }
    }

    fn append_header(&self, out: &mut Vec<u8>, entry: &Entry) {
        let name = self.name(entry);
        match self.request.format {
            Format::Zip => zip::append_local_header(out, &name, entry),
            Format::Tar => tar::append_header(out, &name, entry),
        }
    }

    /// Appends the bytes between an entry's data and the next header.
    fn append_trailer(&self, out: &mut Vec<u8>, entry: &Entry) {
        match self.request.format {
            Format::Zip => zip::append_descriptor(out, entry, entry.crc),
            Format::Tar => tar::append_padding(out, entry.size),
        }
    }

    /// Appends the end; the central directory is at `offset`, and as long as `bytes`.
    fn append_end(&self, out: &mut Vec<u8>, offset: u64, bytes: u64) {
        let entries = self.entries.len() as u64;
        match self.request.format {
            Format::Zip => zip::append_end(out, zip::Central { entries, offset, bytes }),
            Format::Tar => out.extend_from_slice(&tar::END),
        }
    }

    /// Name of an entry in the archive; a directory's ends in `/`.
    fn name(&self, entry: &Entry) -> Vec<u8> {
        let between: &[u8] = if entry.path.is_empty() { b"" } else { b"/" };
        let end: &[u8] = if entry.kind == Kind::Directory { b"/" } else { b"" };
        [&self.request.name, between, &entry.path, end].concat()
    }

    /// Opens a file, which must be the one that was listed, and at least as long.
    fn open(&self, entry: &Entry) -> io::Result<OpenFile> {
        let ArchiveRequest { lookup, path, .. } = &self.request;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = lookup.open(&self.root, &[path, &entry.path[..]].concat(), flags);
        let opened = opened.map_err(|_| self.changed(entry))?;
        let stat = rustix::fs::fstat(opened.as_fd())?;
        let stamp = Stamp::of(&stat);
        let is_listed = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && (stamp.len == entry.size || stamp.len > entry.size && stamp.inode == entry.inode);
        if !is_listed {
            return Err(self.changed(entry));
        }
        Ok(OpenFile::new(opened, stamp, lookup.lane))
    }

    fn changed(&self, entry: &Entry) -> io::Error {
        let path = [&self.request.path, &entry.path[..]].concat();
        let path = path.escape_ascii();
        io::Error::other(format!("{path} changed while an archive of it was sent"))
    }
}

fn is_intact(file: &OpenFile) -> bool {
    file.is_intact() || {
        std::thread::yield_now();
        false
    }
}
