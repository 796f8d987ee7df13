//! Golden files of HTTP/1.1: `golden/h1/NAME.txt` holds the bytes of requests and the outcome that
//! a client must see. Each is sent whole, byte by byte, and cut at random places, because the
//! outcome must not depend on packet boundaries.
//!
//! ```text
//! # A sentence that describes the case (RFC 9112 5.1)
//! GET / HTTP/1.1\r\n
//! Host : a\r\n
//! \r\n
//! ----------
//! 400
//! close
//! ```
//! Line breaks of the file are not sent; `\r \n \t \\ \xHH` are escapes, `\repeat(N,text)` is
//! `text` N times, and a last line `(half-close)` half-closes the connection. An outcome lists for
//! each response its status (`200 HEAD`: the response to a HEAD), then `Field: value`, `!Field` for
//! an absent field, and `body: text`. Its last line is `open` (another request is answered),
//! `close`, or `gone` (closed or reset, because the client sent more than the server reads).
//! Interim responses are skipped.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

#[path = "it/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use http::{HeaderValue, StatusCode};
use hurtle::config::{Config, HostName, MountHandler};
use support::{Client, Server, site};

/// The files that the requests name.
const TREE: &[(&str, &str)] = &[
    ("index.html", "index\n"),
    ("hello.txt", "hello\n"),
    ("with space.txt", "space\n"),
    ("ä.txt", "umlaut\n"),
    ("dir/index.html", "dir\n"),
    (".env", "secret\n"),
    ("../beside.txt", "secret\n"),
];

/// Random ways to cut each request, in addition to whole and byte by byte.
const CUTS: u64 = 3;

/// A longer request is cut into pieces of 1 KiB instead of bytes, to save time.
const BYTEWISE_BYTES_MAX: usize = 4 << 10;

#[test]
fn every_file_has_its_outcome_for_every_cut() {
    let server = Server::with(TREE, add_other_site);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/h1");
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let mut failures = Vec::new();
    for path in &names {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case = match Case::parse(&fs::read_to_string(path).unwrap()) {
            Ok(case) => case,
            Err(problem) => {
                failures.push(format!("{name}: cannot be read: {problem}"));
                continue;
            }
        };
        for (how, sizes) in cuts(case.request.len(), &name) {
            let mut client = server.connect();
            client.send_split(&case.request, sizes);
            if case.half_close {
                client.half_close();
            }
            if let Err(problem) = case.check(&mut client) {
                failures.push(format!("{name}, {how}: {problem}\n    {}", case.sentence));
                break;
            }
        }
    }
    assert!(names.len() >= 120, "only {} files", names.len());
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

/// Adds a second site, which shows the authority that a request was routed by.
fn add_other_site(config: &mut Config) {
    let text = HeaderValue::from_static("text/plain");
    let fixed = MountHandler::Fixed {
        status: StatusCode::OK,
        body: "other\n".to_owned(),
        content_type: text,
    };
    let mut other = site::site(vec![site::mount("/", fixed)]);
    other.hosts = vec![HostName::Exact("other.example".to_owned())];
    other.default = false;
    config.sites.push(other);
}

/// Sizes of pieces with a description.
fn cuts(len: usize, seed: &str) -> Vec<(String, Vec<usize>)> {
    let piece = if len <= BYTEWISE_BYTES_MAX { 1 } else { 1 << 10 };
    let mut cuts = vec![
        ("whole".to_owned(), vec![len]),
        (format!("in pieces of {piece}"), vec![piece; len.div_ceil(piece)]),
    ];
    // FNV-1a of the name seeds xorshift, so that every run cuts in the same places.
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    for _ in 0..CUTS {
        let mut sizes = Vec::new();
        let mut left = len;
        while left > 0 && sizes.len() < 8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let size = 1 + (state % left as u64) as usize;
            sizes.push(size);
            left -= size;
        }
        cuts.push((format!("in pieces of {sizes:?}"), sizes));
    }
    cuts
}

/// A golden file.
struct Case {
    sentence: String,
    request: Vec<u8>,
    half_close: bool,
    answers: Vec<Expected>,
    end: End,
}

struct Expected {
    status: u16,
    method: &'static str,
    fields: Vec<(String, String)>,
    absent: Vec<String>,
    body: Option<Vec<u8>>,
}

enum End {
    Open,
    Close,
    Gone,
}

impl Case {
    fn parse(text: &str) -> Result<Case, String> {
        let (first, rest) = text.split_once('\n').ok_or("empty")?;
        let sentence = first.strip_prefix("# ").ok_or("no sentence on the first line")?;
        if !sentence.contains("(RFC ") {
            return Err("the sentence cites no RFC".to_owned());
        }
        let (request, outcome) = rest.split_once("----------\n").ok_or("no ---------- line")?;
        let lines: Vec<&str> = request.lines().collect();
        let (lines, half_close) = match lines.split_last() {
            Some((&"(half-close)", lines)) => (lines.to_vec(), true),
            _ => (lines, false),
        };
        let mut answers: Vec<Expected> = Vec::new();
        let mut end = None;
        for line in outcome.lines() {
            if end.is_some() {
                return Err(format!("{line:?} after the end"));
            }
            match line {
                "open" => end = Some(End::Open),
                "close" => end = Some(End::Close),
                "gone" => end = Some(End::Gone),
                _ if line.starts_with(|c: char| c.is_ascii_digit()) => {
                    answers.push(Expected::parse(line)?);
                }
                _ => answers.last_mut().ok_or("a field before a status")?.require(line)?,
            }
        }
        Ok(Case {
            sentence: sentence.to_owned(),
            request: unescape(&lines.concat())?,
            half_close,
            answers,
            end: end.ok_or("no end")?,
        })
    }

    fn check(&self, client: &mut Client) -> Result<(), String> {
        for (number, expected) in self.answers.iter().enumerate() {
            let mut response = client.try_answer(expected.method)?;
            while response.status < 200 {
                response = client.try_answer(expected.method)?;
            }
            let number = number + 1;
            let problem = |what: String| Err(format!("answer {number}: {what} in {response:?}"));
            if response.status != expected.status {
                return problem(format!("not {}", expected.status));
            }
            for (name, value) in &expected.fields {
                if response.field(name) != Some(value) {
                    return problem(format!("no {name}: {value}"));
                }
            }
            if let Some(name) = expected.absent.iter().find(|n| response.field(n).is_some()) {
                return problem(format!("a {name}"));
            }
            if let Some(body) = expected.body.as_ref().filter(|b| **b != response.body) {
                return problem(format!("not the body {}", body.escape_ascii()));
            }
            // The last response announces the close (RFC 9112 section 9.6), and every response has
            // a Date (RFC 9110 section 6.6.1).
            let last = number == self.answers.len() && !matches!(self.end, End::Open);
            if last && !self.half_close && response.field("Connection") != Some("close") {
                return problem("no Connection: close".to_owned());
            }
            if response.field("Date").is_none() {
                return problem("no Date".to_owned());
            }
        }
        match self.end {
            End::Open => client.try_open(),
            End::Close => client.try_end(),
            End::Gone => match client.try_end() {
                Err(problem) if problem.contains("reset") => Ok(()),
                ended => ended,
            },
        }
    }
}

impl Expected {
    fn parse(line: &str) -> Result<Expected, String> {
        let (status, method) = match line.split_once(' ') {
            None => (line, "GET"),
            Some((status, "HEAD")) => (status, "HEAD"),
            Some(_) => return Err(format!("{line:?} is no status")),
        };
        let status = status.parse().map_err(|_| format!("{line:?} is no status"))?;
        Ok(Expected { status, method, fields: vec![], absent: vec![], body: None })
    }

    fn require(&mut self, line: &str) -> Result<(), String> {
        if let Some(name) = line.strip_prefix('!') {
            self.absent.push(name.to_owned());
        } else if let Some(body) = line.strip_prefix("body: ") {
            self.body = Some(unescape(body)?);
        } else {
            let (name, value) = line.split_once(": ").ok_or(format!("{line:?} is no field"))?;
            self.fields.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let bad = || format!("\\{escape:.9} is no escape");
        rest = match escape.get(..1).ok_or_else(bad)? {
            "r" if escape.starts_with("repeat(") => {
                let (count, tail) = escape["repeat(".len()..].split_once(',').ok_or_else(bad)?;
                let (unit, tail) = tail.split_once(')').ok_or_else(bad)?;
                out.extend(unescape(unit)?.repeat(count.parse().map_err(|_| bad())?));
                tail
            }
            "x" => {
                let digits = escape.get(1..3).ok_or_else(bad)?;
                out.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
                &escape[3..]
            }
            one => {
                let escapes = [("r", b'\r'), ("n", b'\n'), ("t", b'\t'), ("\\", b'\\')];
                let found = escapes.iter().find(|(e, _)| *e == one).ok_or_else(bad)?;
                out.push(found.1);
                &escape[1..]
            }
        };
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}
