//! An archive that a browser has written (HAR 1.2): its requests, or its pages as steps of a visit.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::request::Request;
use super::scenario::ScenarioStep;
use super::targets::read;
use super::{Target, Url};
use crate::instant;

/// Longest pause between two pages, in seconds: a visitor who was away for longer is not imitated.
const PAUSE_S_MAX: f64 = 60.0;

/// Fields of an archive's requests that belong to the connection or to the body's length.
const OWN_FIELDS: [&str; 7] = [
    "host",
    "connection",
    "keep-alive",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "proxy-connection",
];

/// An archive as far as it is read.
#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Recorded>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    request: RecordedRequest,
    /// The page that it belongs to.
    #[serde(default)]
    pageref: String,
    /// A time of RFC 3339.
    #[serde(default)]
    started_date_time: String,
    /// Milliseconds until the response was complete.
    #[serde(default)]
    time: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<RecordedField>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct RecordedField {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    text: Option<String>,
}

/// Reads the requests of an archive to the server of its first one, in their order, and the number
/// of those to other servers, which are left out.
///
/// # Errors
/// A file that cannot be read, or is no such archive; a request whose body it does not have.
pub fn read_archive(file: &Path) -> Result<(Vec<Target>, usize), String> {
    let (all, others) = read_entries(file)?;
    Ok((all.into_iter().map(|(target, _)| target).collect(), others))
}

/// Reads the pages of an archive as steps of a visit, with the pauses between them as they were
/// recorded, and the number of requests to other servers, which are left out.
///
/// # Errors
/// As `read_archive`.
pub fn read_pages(file: &Path) -> Result<(Vec<ScenarioStep>, usize), String> {
    let (all, others) = read_entries(file)?;
    let mut pages: Vec<Page> = Vec::new();
    for (target, entry) in all {
        let began = instant::parse(&entry.started_date_time).unwrap_or(0.0);
        let ended = began + entry.time.max(0.0) / 1e3;
        // Requests of two pages are recorded in turns where both load at once.
        if let Some(page) = pages.iter_mut().find(|page| page.pageref == entry.pageref) {
            page.ended = page.ended.max(ended);
            page.step.targets.push(target);
            continue;
        }
        let name = target.name();
        let step = ScenarioStep { name, targets: vec![target], pause: [Duration::ZERO; 2] };
        pages.push(Page { pageref: entry.pageref, began, ended, step });
    }
    for at in 1..pages.len() {
        let pause = (pages[at].began - pages[at - 1].ended).clamp(0.0, PAUSE_S_MAX);
        pages[at - 1].step.pause = [Duration::from_secs_f64(pause); 2];
    }
    Ok((pages.into_iter().map(|page| page.step).collect(), others))
}

/// A page of an archive. Times are seconds since 1970.
struct Page {
    pageref: String,
    /// Start of its first request.
    began: f64,
    /// End of its latest response.
    ended: f64,
    step: ScenarioStep,
}

/// The requests to the server of the first one, and what is recorded of them.
fn read_entries(file: &Path) -> Result<(Vec<(Target, Recorded)>, usize), String> {
    let failed = |why: String| format!("{}: {why}", file.display());
    let archive: Archive = serde_json::from_str(&read(file)?)
        .map_err(|e| failed(format!("{e}; write an archive as a browser saves it (HAR)")))?;
    let mut all: Vec<(Target, Recorded)> = Vec::new();
    let mut others = 0;
    for (at, entry) in archive.log.entries.into_iter().enumerate() {
        let request = &entry.request;
        // A browser records data:, blob: and ws: URLs too, which are no requests over HTTP.
        if !is_http(&request.url) {
            continue;
        }
        let url = request.url.split('#').next().unwrap_or_default().parse::<Url>().ok();
        let is_of_server =
            |url: &Url| all.first().is_none_or(|(first, _)| first.url.is_server_of(url));
        let Some(url) = url.filter(is_of_server) else {
            others += 1;
            continue;
        };
        let request =
            recorded(request).map_err(|why| failed(format!("request {}: {why}", at + 1)))?;
        all.push((Target { url, request }, entry));
    }
    Ok((all, others))
}

fn is_http(url: &str) -> bool {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

fn recorded(request: &RecordedRequest) -> Result<Request, String> {
    let fields: Vec<String> = request
        .headers
        .iter()
        .filter(|field| !field.name.starts_with(':'))
        .filter(|field| !OWN_FIELDS.contains(&field.name.to_ascii_lowercase().as_str()))
        .map(|field| format!("{}: {}", field.name, field.value))
        .collect();
    let body = match &request.post_data {
        Some(PostData { text: None }) => {
            return Err("the archive has no text of its body".to_owned());
        }
        Some(PostData { text }) => text.clone().map(String::into_bytes),
        None => None,
    };
    Request::new(Some(&request.method), &fields, body)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_archive_has_the_requests_to_its_first_server() {
        let file = std::env::temp_dir().join(format!("deathmatch-{}.har", std::process::id()));
        let text = r#"{"log":{"version":"1.2","entries":[
            {"request":{"method":"GET","url":"https://a/#top","headers":[
                {"name":":authority","value":"a"},{"name":"Host","value":"a"},{"name":"Accept","value":"*/*"}]}},
            {"request":{"method":"GET","url":"data:text/plain,x"}},
            {"request":{"method":"GET","url":"wss://a/chat"}},
            {"request":{"method":"GET","url":"blob:https://a/1b4e28ba"}},
            {"request":{"method":"GET","url":"HTTP://cdn/y.js"}},
            {"request":{"method":"GET","url":"https://cdn/x.js"}},
            {"request":{"method":"POST","url":"https://a/api","headers":[{"name":"Content-Length","value":"2"}],
                "postData":{"mimeType":"application/json","text":"{}"}}}]}}"#;
        fs::write(&file, text).unwrap();
        let (targets, others) = read_archive(&file).unwrap();
        fs::write(&file, "{}").unwrap();
        let error = read_archive(&file).unwrap_err();
        fs::remove_file(&file).unwrap();
        let names: Vec<String> = targets.iter().map(Target::name).collect();
        assert_eq!(
            (names.as_slice(), others),
            (&["GET /".to_owned(), "POST /api".to_owned()][..], 2)
        );
        assert_eq!(targets[0].request.fields, [("accept".to_owned(), "*/*".to_owned())]);
        assert_eq!(targets[1].request.body, b"{}");
        assert!(error.contains("HAR"), "{error}");
    }

    #[test]
    fn the_pages_of_an_archive_are_steps_with_pauses() {
        let file =
            std::env::temp_dir().join(format!("deathmatch-{}-pages.har", std::process::id()));
        let entry = |page: &str, second: f64, path: &str| {
            format!(
                r#"{{"pageref":"{page}","startedDateTime":"2026-01-31T12:00:{second:06.3}Z","time":200,
                "request":{{"method":"GET","url":"https://a{path}"}}}}"#
            )
        };
        let visited = [
            entry("one", 1.0, "/"),
            entry("one", 1.1, "/app.css"),
            entry("one", 1.3, "/app.js"),
            entry("two", 4.5, "/next"),
        ];
        // Regression: a page whose requests are recorded between those of another one was split,
        // and each further part was a step of its own.
        let at_once = [
            entry("one", 1.0, "/"),
            entry("two", 4.5, "/next"),
            entry("one", 4.6, "/late.js"),
            entry("two", 4.7, "/next.css"),
            entry("three", 6.9, "/last"),
        ];
        let rows: [(&[String], &[(&str, usize, u128)]); 2] = [
            (&visited, &[("GET /", 3, 3_000), ("GET /next", 1, 0)]),
            (&at_once, &[("GET /", 2, 0), ("GET /next", 2, 2_000), ("GET /last", 1, 0)]),
        ];
        for (entries, expected) in rows {
            let text = format!(r#"{{"log":{{"entries":[{}]}}}}"#, entries.join(","));
            fs::write(&file, text).unwrap();
            let (steps, others) = read_pages(&file).unwrap();
            fs::remove_file(&file).unwrap();
            let shown: Vec<(&str, usize, u128)> = steps
                .iter()
                .map(|step| (step.name.as_str(), step.targets.len(), step.pause[0].as_millis()))
                .collect();
            assert_eq!((shown.as_slice(), others), (expected, 0));
        }
    }
}
