//! Requests of the simulation, with the responses that are correct for them.

use super::message::{chunked, pattern};
use super::{Conditions, app, upstream};
use crate::transport::memory::Random;

/// Names and lengths in bytes of the served files.
pub(super) const FILES: [(&str, usize); 2] = [("small", 2_000), ("large", 150_000)];

/// Maximum length of a body, except of the large file.
const BODY_BYTES_MAX: u64 = 20_000;

/// Maximum length of the bodies of some requests to an upstream, which do not fit in memory.
const LARGE_BYTES_MAX: u64 = 200_000;

/// Error statuses that are correct if a fault may have occurred.
const FAILURES: &[u16] = &[400, 408, 413, 500, 502, 503, 504];

/// A request and its expected response.
#[derive(Clone, Debug)]
pub(super) struct TestRequest {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) upload: Vec<u8>,
    /// The expected value of X-Id; `None`: the handler does not send it.
    id: Option<u64>,
    status: u16,
    content: Option<Vec<u8>>,
    /// `true` if neither an error status nor a truncated response is allowed.
    is_reliable: bool,
}

impl TestRequest {
    /// Chooses a request that fits the conditions. `id` is unique within the simulation.
    pub(super) fn any(
        random: &mut Random,
        seed: u64,
        id: u64,
        conditions: Conditions,
    ) -> TestRequest {
        let method = random.pick(&["GET", "GET", "HEAD"]);
        let len = random.within(0, random.clone().pick(&[0, 10, 500, BODY_BYTES_MAX]));
        let is_reliable = conditions.is_reliable();
        let modes = |reliable: &'static [&'static str], faulty: &'static [&'static str]| {
            match is_reliable {
                true => reliable.to_vec(),
                false => [reliable, faulty].concat(),
            }
        };
        let upstream_modes = match conditions {
            Conditions::Instant => upstream::INSTANT_MODES,
            Conditions::Delayed | Conditions::Faulty => upstream::RELIABLE_MODES,
        };
        let get = |path: String, id, content| TestRequest {
            method,
            path,
            upload: Vec::new(),
            id,
            status: 200,
            content: Some(content),
            is_reliable,
        };
        match random.within(0, 9) {
            0 => {
                let (name, len) = random.pick(&FILES);
                get(format!("/f/{name}"), None, pattern(len as u64, len))
            }
            1 => {
                TestRequest { status: 404, content: None, ..get("/none".into(), None, Vec::new()) }
            }
            2..=4 => {
                let mode = random.pick(&modes(app::RELIABLE_MODES, app::FAULTY_MODES));
                let mut request =
                    get(format!("/app/{id}/{len}/{mode}"), Some(id), pattern(id, len as usize));
                if matches!(mode, "echo" | "gather") {
                    request.set_upload(pattern(id, len as usize));
                }
                request
            }
            5..=7 => {
                let mode = random.pick(&modes(upstream_modes, upstream::FAULTY_MODES));
                let len = match random.is_one_in(8) {
                    true => random.within(0, LARGE_BYTES_MAX),
                    false => len,
                };
                let path = format!("/up/{id}/{len}/{mode}");
                let mut request = get(path, Some(id), pattern(id, len as usize));
                if random.is_one_in(3) {
                    request.set_upload(pattern(id, len as usize));
                }
                request
            }
            _ => {
                let key = random.within(1, 3);
                let mut fixed = Random::new(seed, key);
                let len = fixed.within(0, BODY_BYTES_MAX);
                let mode = fixed.pick(&modes(upstream_modes, upstream::FAULTY_MODES));
                let content = pattern(key, len as usize);
                get(format!("/cached/{key}/{len}/{mode}"), Some(key), content)
            }
        }
    }

    /// Creates a request for the large file.
    pub(super) fn large() -> TestRequest {
        let (name, len) = FILES[1];
        TestRequest {
            method: "GET",
            path: format!("/f/{name}"),
            upload: Vec::new(),
            id: None,
            status: 200,
            content: Some(pattern(len as u64, len)),
            is_reliable: true,
        }
    }

    fn set_upload(&mut self, upload: Vec<u8>) {
        self.method = "POST";
        self.content = Some(upload.clone());
        self.upload = upload;
    }

    /// Encodes the head and the body in HTTP/1. `more` holds further field lines.
    pub(super) fn encode(
        &self,
        random: &mut Random,
        version: &str,
        more: &str,
    ) -> (Vec<u8>, Vec<u8>) {
        let TestRequest { method, path, upload, .. } = self;
        let begin = format!("{method} {path} HTTP/{version}\r\nHost: a\r\n{more}");
        if *method != "POST" {
            return (format!("{begin}\r\n").into_bytes(), Vec::new());
        }
        if version == "1.1" && random.is_one_in(2) {
            let head = format!("{begin}Transfer-Encoding: chunked\r\n\r\n");
            return (head.into_bytes(), chunked(upload, random));
        }
        let head = format!("{begin}Content-Length: {}\r\n\r\n", upload.len());
        (head.into_bytes(), upload.clone())
    }

    /// Checks a complete response.
    pub(super) fn check(&self, status: u16, id: Option<&str>, body: &[u8]) -> Result<(), String> {
        let wrong = |reason: String| Err(format!("{} {}: {reason}", self.method, self.path));
        if status != self.status {
            return match !self.is_reliable && FAILURES.contains(&status) {
                true => Ok(()),
                false => wrong(format!("the status is {status}")),
            };
        }
        if self.id.is_some_and(|own| id != Some(&own.to_string())) {
            return wrong(format!("it gets the response to {id:?}"));
        }
        let Some(content) = &self.content else { return Ok(()) };
        let content = if self.method == "HEAD" { &[][..] } else { content };
        let content = if self.is_empty_echo() { &[][..] } else { content };
        if body == content {
            return Ok(());
        }
        let same = body.iter().zip(content).take_while(|(a, b)| a == b).count();
        let (len, expected) = (body.len(), content.len());
        wrong(format!("the body has {len} bytes instead of {expected}; the first {same} are equal"))
    }

    /// Returns whether the response echoes a request without a body.
    fn is_empty_echo(&self) -> bool {
        self.method != "POST" && (self.path.ends_with("/echo") || self.path.ends_with("/gather"))
    }

    /// Checks whether a failure instead of a complete response is allowed.
    pub(super) fn check_failure(&self, reason: &str) -> Result<(), String> {
        match self.is_reliable {
            true => Err(format!("{} {}: {reason}", self.method, self.path)),
            false => Ok(()),
        }
    }
}
