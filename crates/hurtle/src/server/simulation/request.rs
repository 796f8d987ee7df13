//! Requests of the simulation, and what a client may get for them.

use super::message::{chunked, pattern};
use super::{Mood, app, upstream};
use crate::transport::memory::Random;

/// The files that are served, and their lengths.
pub(super) const FILES: [(&str, usize); 2] = [("small", 2_000), ("large", 150_000)];

/// Bodies are this long at most, but for the large file.
const BODY_BYTES_MAX: u64 = 20_000;

/// What a client may get in place of what it asked for, when something goes wrong.
const FAILURES: &[u16] = &[400, 408, 413, 500, 502, 503, 504];

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: &'static str,
    pub(super) path: String,
    /// What it uploads.
    pub(super) upload: Vec<u8>,
    /// Identifies the answer, if its handler does that.
    id: Option<u64>,
    status: u16,
    content: Option<Vec<u8>>,
    /// Whether it must be answered as if nothing could go wrong.
    is_sure: bool,
}

impl Asked {
    /// Any request; `id` is its own. `mood` says what may go wrong.
    pub(super) fn any(random: &mut Random, seed: u64, id: u64, mood: Mood) -> Asked {
        let method = random.pick(&["GET", "GET", "HEAD"]);
        let len = random.within(0, random.clone().pick(&[0, 10, 500, BODY_BYTES_MAX]));
        let is_calm = mood.is_calm();
        let modes = |sound: &'static [&'static str], unsound: &'static [&'static str]| match is_calm
        {
            true => sound.to_vec(),
            false => [sound, unsound].concat(),
        };
        let sound_upstream = match mood {
            Mood::Swift => upstream::SWIFT,
            Mood::Calm | Mood::Rough => upstream::SOUND,
        };
        let asked = |path: String, id, content| Asked {
            method,
            path,
            upload: Vec::new(),
            id,
            status: 200,
            content: Some(content),
            is_sure: is_calm,
        };
        match random.within(0, 9) {
            0 => {
                let (name, len) = random.pick(&FILES);
                asked(format!("/f/{name}"), None, pattern(len as u64, len))
            }
            1 => Asked { status: 404, content: None, ..asked("/none".into(), None, Vec::new()) },
            2..=4 => {
                let mode = random.pick(&modes(app::SOUND, app::UNSOUND));
                let mut asked =
                    asked(format!("/app/{id}/{len}/{mode}"), Some(id), pattern(id, len as usize));
                if matches!(mode, "echo" | "gather") {
                    asked.uploads(pattern(id, len as usize));
                }
                asked
            }
            5..=7 => {
                let mode = random.pick(&modes(sound_upstream, upstream::UNSOUND));
                let path = format!("/up/{id}/{len}/{mode}");
                let mut asked = asked(path, Some(id), pattern(id, len as usize));
                if random.is_one_in(3) {
                    asked.uploads(pattern(id, len as usize));
                }
                asked
            }
            _ => {
                let key = random.within(1, 3);
                let mut fixed = Random::new(seed, key);
                let len = fixed.within(0, BODY_BYTES_MAX);
                let mode = fixed.pick(&modes(sound_upstream, upstream::UNSOUND));
                let content = pattern(key, len as usize);
                asked(format!("/cached/{key}/{len}/{mode}"), Some(key), content)
            }
        }
    }

    /// One for the large file.
    pub(super) fn large() -> Asked {
        let (name, len) = FILES[1];
        Asked {
            method: "GET",
            path: format!("/f/{name}"),
            upload: Vec::new(),
            id: None,
            status: 200,
            content: Some(pattern(len as u64, len)),
            is_sure: true,
        }
    }

    fn uploads(&mut self, upload: Vec<u8>) {
        self.method = "POST";
        self.content = Some(upload.clone());
        self.upload = upload;
    }

    /// Its head and its body in HTTP/1.
    pub(super) fn encode(
        &self,
        random: &mut Random,
        version: &str,
        more: &str,
    ) -> (Vec<u8>, Vec<u8>) {
        let Asked { method, path, upload, .. } = self;
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

    /// Whether a whole answer may be this one.
    pub(super) fn check(&self, status: u16, id: Option<&str>, body: &[u8]) -> Result<(), String> {
        let wrong = |what: String| Err(format!("{} {}: {what}", self.method, self.path));
        if status != self.status {
            return match !self.is_sure && FAILURES.contains(&status) {
                true => Ok(()),
                false => wrong(format!("the status is {status}")),
            };
        }
        if self.id.is_some_and(|own| id != Some(&own.to_string())) {
            return wrong(format!("it gets the answer to {id:?}"));
        }
        let Some(content) = &self.content else { return Ok(()) };
        let content = if self.method == "HEAD" { &[][..] } else { content };
        let content = if self.is_empty_echo() { &[][..] } else { content };
        if body == content {
            return Ok(());
        }
        let same = body.iter().zip(content).take_while(|(a, b)| a == b).count();
        let (len, wanted) = (body.len(), content.len());
        wrong(format!(
            "its whole body has {len} bytes of {wanted}, the first {same} as they should"
        ))
    }

    /// An echo of nothing.
    fn is_empty_echo(&self) -> bool {
        self.method != "POST" && (self.path.ends_with("/echo") || self.path.ends_with("/gather"))
    }

    /// What an answer that broke off says of the server.
    pub(super) fn broken(&self, how: &str) -> Result<(), String> {
        match self.is_sure {
            true => Err(format!("{} {}: {how}", self.method, self.path)),
            false => Ok(()),
        }
    }
}
