//! The requests of one load: of URLs, or of a file of targets as vegeta reads it. All go to one
//! server.

use std::fs;
use std::path::Path;

use super::Url;
use super::request::{Request, read_field};
use crate::load::APART_MAX;

/// Largest number of requests: the figures show each by itself.
pub const TARGETS_MAX: usize = APART_MAX;

/// Largest sum of weights.
const WEIGHTS_MAX: u32 = 10_000;

/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Largest body, in bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// A request and its URL.
#[derive(Clone, Debug)]
pub struct Target {
    /// URL that the request is for.
    pub url: Url,
    /// The request, without its URL.
    pub request: Request,
}

impl Target {
    /// Its method and path.
    pub fn name(&self) -> String {
        format!("{} {}", self.request.method, self.url.path)
    }
}

/// Reads a file of targets: `METHOD URL` or a URL in a line, then its fields, then the name of its
/// body's file after `@`; empty lines and lines that begin with `#` are between targets.
///
/// # Errors
/// The line that cannot be used, or a file that cannot be read.
pub fn read_targets(file: &Path) -> Result<Vec<Target>, String> {
    parse_targets(&read(file)?).map_err(|why| format!("{}, {why}", file.display()))
}

fn parse_targets(text: &str) -> Result<Vec<Target>, String> {
    let mut targets: Vec<Target> = Vec::new();
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let failed = |why: String| format!("line {}: {why}", at + 1);
        if line.is_empty() || line.starts_with('#') {
            is_open &= !line.is_empty();
            continue;
        }
        match targets.last_mut().filter(|_| is_open && !is_target(line)) {
            Some(target) => add_line(target, line).map_err(failed)?,
            None => targets.push(parse_target(line).map_err(failed)?),
        }
        is_open = true;
    }
    Ok(targets)
}

/// `true` for a line that begins a target; fields have a colon after their name.
fn is_target(line: &str) -> bool {
    let is_url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
    let has_method =
        |(method, url): (&str, &str)| !method.contains(':') && is_url(url.trim_start());
    is_url(line) || line.split_once(char::is_whitespace).is_some_and(has_method)
}

/// `METHOD URL`, or a URL alone.
fn parse_target(line: &str) -> Result<Target, String> {
    let (method, url) = match line.split_once(char::is_whitespace) {
        Some((method, url)) => (method, url.trim()),
        None => ("GET", line),
    };
    let url = url
        .parse()
        .map_err(|e| format!("{e}; a target is a line such as `GET http://127.0.0.1/`"))?;
    Ok(Target { url, request: Request::new(Some(method), &[], None)? })
}

/// Adds a field or the body.
fn add_line(target: &mut Target, line: &str) -> Result<(), String> {
    match line.strip_prefix('@') {
        Some(file) => target.request.body = read_body(file).map_err(|e| format!("@{file}: {e}"))?,
        None => target.request.fields.push(read_field(line)?),
    }
    Ok(())
}

/// Checks that all targets are of one server.
///
/// # Errors
/// There is none, there are too many, or one is of another server.
pub fn check_targets(targets: &[Target]) -> Result<(), String> {
    let Some(first) = targets.first() else { return Err("there is no request in it".to_owned()) };
    if targets.len() > TARGETS_MAX {
        return Err(format!("{} requests are too many: at most {TARGETS_MAX}", targets.len()));
    }
    match targets.iter().find(|other| !first.url.is_server_of(&other.url)) {
        Some(other) => {
            Err(format!("{} and {} are of two servers: a load is put on one", first.url, other.url))
        }
        None => Ok(()),
    }
}

/// The order in which requests with these weights are sent, again and again: each as evenly spread
/// as the weights allow (smooth weighted round-robin, as nginx chooses upstreams).
///
/// # Errors
/// Weights that are not as many as the requests, or too large.
pub fn order(count: usize, weights: &[u32]) -> Result<Vec<u32>, String> {
    if weights.is_empty() {
        return Ok((0..count as u32).collect());
    }
    if weights.len() != count {
        return Err(format!(
            "--weights has {} numbers for {count} requests: write one for each",
            weights.len()
        ));
    }
    let sum: u32 = weights.iter().fold(0, |sum, weight| sum.saturating_add(*weight));
    if sum > WEIGHTS_MAX || sum == 0 {
        return Err(format!("--weights: write numbers whose sum is 1 to {WEIGHTS_MAX}"));
    }
    let mut credit = vec![0_i64; count];
    let mut next = || {
        credit.iter_mut().zip(weights).for_each(|(credit, weight)| *credit += i64::from(*weight));
        let best = (0..count).max_by_key(|at| (credit[*at], std::cmp::Reverse(*at))).unwrap_or(0);
        credit[best] -= i64::from(sum);
        best as u32
    };
    Ok((0..sum).map(|_| next()).collect())
}

pub(super) fn read(file: &Path) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    if fs::metadata(file).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(format!("{}: a file has at most {} MiB", file.display(), FILE_BYTES_MAX >> 20));
    }
    fs::read_to_string(file).map_err(failed)
}

/// Reads the body of a request from a file.
///
/// # Errors
/// The system's, or the file is too long.
pub fn read_body(file: &str) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| e.to_string();
    if fs::metadata(file).map_err(failed)?.len() > BODY_BYTES_MAX {
        return Err(format!("a body has at most {} MiB", BODY_BYTES_MAX >> 20));
    }
    fs::read(file).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_targets_has_requests_fields_and_bodies() {
        let body = std::env::temp_dir().join(format!("deathmatch-{}-body", std::process::id()));
        fs::write(&body, "content").unwrap();
        let text = format!(
            "# a comment\nGET http://a/one?x=1\nX-One: http://b/\nX-Two: 2\n\nhttp://a/two\nPUT http://a/three\nX-Three: 3\n@{}\nDELETE http://a/four\n",
            body.display()
        );
        let targets = parse_targets(&text).unwrap();
        fs::remove_file(&body).unwrap();
        let names: Vec<String> = targets.iter().map(Target::name).collect();
        assert_eq!(names, ["GET /one?x=1", "GET /two", "PUT /three", "DELETE /four"]);
        assert_eq!(targets[0].request.fields.len(), 2, "{targets:?}");
        assert_eq!(targets[2].request.body, b"content");
        assert_eq!(check_targets(&targets), Ok(()));
        for (text, why) in [
            ("GET\n", "line 1"),
            ("GET /path", "line 1"),
            ("\nGET http://a/\nno field", "line 3"),
            ("GET http://a/\n@/no/such/file", "line 2: @/no/such/file"),
            ("CONNECT http://a/", "CONNECT"),
        ] {
            let error = parse_targets(text).unwrap_err();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        let other = parse_targets("GET http://a/\nGET https://a/").unwrap();
        assert!(check_targets(&other).unwrap_err().contains("two servers"));
        assert!(check_targets(&[]).is_err());
    }

    #[test]
    fn weights_spread_requests_evenly() {
        assert_eq!(order(3, &[]), Ok(vec![0, 1, 2]));
        assert_eq!(order(3, &[5, 1, 1]), Ok(vec![0, 0, 1, 0, 2, 0, 0]));
        assert_eq!(order(2, &[0, 1]), Ok(vec![1]));
        for (count, weights, why) in
            [(2, &[1][..], "one for each"), (1, &[0], "sum"), (2, &[u32::MAX, 1], "sum")]
        {
            assert!(order(count, weights).unwrap_err().contains(why), "{weights:?}");
        }
    }
}
