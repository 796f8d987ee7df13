//! Samples on disk: one JSON line each, written as soon as the sample is over, so that a crash
//! costs at most one line.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::Sample;

/// Longest line read: three full histograms written in hexadecimal stay well below.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// The parsed file of samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    /// Its samples in order.
    pub samples: Vec<Sample>,
    /// The number, from 1, of an incomplete last line that was left out.
    pub dropped_line: Option<usize>,
}

/// Reason for which a file of samples cannot be used.
#[derive(Debug)]
pub enum JournalError {
    /// It cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A line, numbered from 1, is not a sample.
    Damaged(PathBuf, usize, String),
}

/// Opens or creates a file to append samples to. An incomplete last line, left by a crash, is
/// removed, or the next sample would be joined to it. A complete one that lacks only its newline
/// gets it.
pub fn open(path: &Path) -> Result<File, JournalError> {
    let unreadable = |e| JournalError::Unreadable(path.to_owned(), e);
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).open(path).map_err(unreadable)?;
    repair_last_line(&mut file).map_err(unreadable)?;
    Ok(file)
}

/// Appends a sample. On failure (a full disk) the file is as it was before.
pub fn append(file: &mut File, sample: &Sample) -> io::Result<()> {
    let mut line = serde_json::to_vec(sample)?;
    // JSON has no representation of NaN: such a sample would be a damaged line.
    serde_json::from_slice::<Sample>(&line).map_err(|e| {
        let why = format!("the sample of {} could not be read again: {e}", sample.contender);
        io::Error::new(io::ErrorKind::InvalidData, why)
    })?;
    line.push(b'\n');
    let before = file.metadata()?.len();
    file.write_all(&line).inspect_err(|_| {
        // If this fails too, the incomplete line is removed when the file is next opened.
        let _ = file.set_len(before);
    })
}

/// Reads all samples. An incomplete last line is left out and reported. Any other line that is not
/// a sample makes the file unusable, since the missing data is unknown.
pub fn read(path: &Path) -> Result<Journal, JournalError> {
    let unreadable = |e| JournalError::Unreadable(path.to_owned(), e);
    let mut lines = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut journal = Journal::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(unreadable)?;
        if line.is_empty() {
            break;
        }
        let whole = line.ends_with(b"\n");
        match serde_json::from_slice(&line) {
            Ok(sample) => journal.samples.push(sample),
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) if !whole && (line.len() as u64) < LINE_BYTES_MAX => {
                journal.dropped_line = Some(number);
            }
            Err(e) => return Err(JournalError::Damaged(path.to_owned(), number, e.to_string())),
        }
    }
    Ok(journal)
}

fn repair_last_line(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    (&*file).take(LINE_BYTES_MAX).read_to_end(&mut end)?;
    if end.is_empty() || end.ends_with(b"\n") {
        return Ok(());
    }
    let begins = end.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if serde_json::from_slice::<Sample>(&end[begins..]).is_ok() {
        return file.write_all(b"\n");
    }
    if begins == 0 && from > 0 {
        return Err(io::Error::other("its last line is longer than any sample"));
    }
    file.set_len(from + begins as u64)
}

impl fmt::Display for JournalError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Unreadable(path, e) => {
                write!(to, "{}: the samples cannot be read: {e}", path.display())
            }
            JournalError::Damaged(path, line, e) => write!(
                to,
                "{}: line {line} is not a sample ({e}); take it out to use the others",
                path.display()
            ),
        }
    }
}

impl std::error::Error for JournalError {}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sample::{Load, Offered};

    fn sample(round: u32) -> Sample {
        let mut load = Load { seconds: 1.0, replies: 3, ..Load::default() };
        load.response.record(12_345);
        Sample {
            plan: "deck".into(),
            round,
            over: None,
            beside: None,
            cooling: None,
            idle: None,
            network: None,
            herd: None,
            slice: None,
            attempt: 0,
            trial: 0,
            probe: false,
            contender: "nginx".into(),
            work: "10k".into(),
            file: "10k.html".into(),
            offered: Offered::Closed { connections: 50 },
            began_unix_s: 1.5,
            load,
            server: None,
            machine: None,
            marks: vec![],
        }
    }

    fn line(round: u32) -> Vec<u8> {
        let mut line = serde_json::to_vec(&sample(round)).unwrap();
        line.push(b'\n');
        line
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("journal-{}-{name}", std::process::id()))
    }

    #[test]
    fn added_samples_are_read_back() {
        let path = path("added");
        for round in 0..2 {
            append(&mut open(&path).unwrap(), &sample(round)).unwrap();
        }
        let journal = read(&path).unwrap();
        assert_eq!(journal, Journal { samples: vec![sample(0), sample(1)], dropped_line: None });
        let mut file = open(&path).unwrap();
        let none = Sample { began_unix_s: f64::NAN, ..sample(2) };
        let error = append(&mut file, &none).expect_err("not a number").to_string();
        assert!(error.contains("nginx"), "{error}");
        assert_eq!(read(&path).unwrap(), journal, "and nothing was written");
        fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path), Err(JournalError::Unreadable(..))), "no such file");
    }

    #[test]
    fn a_truncated_journal_loses_its_last_line_only() {
        let path = path("cut");
        let (first, second) = (line(0), line(1));
        let steps = second.len() / 20 + 1;
        for cut in (1..second.len()).step_by(steps).chain([second.len() - 2, second.len() - 1]) {
            fs::write(&path, [&first[..], &second[..cut]].concat()).unwrap();
            let whole = cut == second.len() - 1; // all but the line's end
            let found = read(&path).unwrap();
            assert_eq!(found.samples.len(), 1 + usize::from(whole), "cut after {cut}");
            assert_eq!(found.dropped_line, (!whole).then_some(2), "cut after {cut}");
            append(&mut open(&path).unwrap(), &sample(2)).unwrap();
            let rounds: Vec<u32> = read(&path).unwrap().samples.iter().map(|s| s.round).collect();
            assert_eq!(rounds, if whole { vec![0, 1, 2] } else { vec![0, 2] }, "cut after {cut}");
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_damaged_line_is_named() {
        let path = path("damaged");
        let rows: [(&[u8], &str); 4] = [
            (b"{\"plan\":\"deck\"\n", "half a line in the middle"),
            (b"\xff\xfe\n", "not text"),
            (b"[]\n", "JSON, but no sample"),
            (b"null\n", "nothing"),
        ];
        for (damage, sentence) in rows {
            fs::write(&path, [&line(0)[..], damage, &line(1)[..]].concat()).unwrap();
            let error = read(&path).expect_err(sentence).to_string();
            assert!(error.contains("line 2 is not a sample"), "{sentence}: {error}");
        }
        fs::write(&path, [&line(0)[..], b"\n", &line(1)[..]].concat()).unwrap();
        assert_eq!(read(&path).unwrap().samples.len(), 2, "an empty line harms nobody");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_disk_is_an_error() {
        // Linux's /dev/full refuses every byte.
        if let Ok(mut file) = OpenOptions::new().append(true).open("/dev/full") {
            let error = append(&mut file, &sample(0)).expect_err("no space");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
    }
}
