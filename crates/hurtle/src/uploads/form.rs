//! Uploads by a form: POST of multipart/form-data to a directory. Each file is stored as by a PUT
//! of its name, with the same limits, one after the other.
//!
//! Existing files are not replaced unless the control `replace` precedes the file. A browser adds
//! the user's password to a form of any site, so forms of other origins are refused.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Body as _;
use hurtle_http::semantics::multipart::{Event, Multipart, PartHead, boundary};

use super::commit::Conditions;
use super::error::UploadError;
use super::name::Target;
use super::unfinished::Unfinished;
use super::{PIECE_BYTES, PIECE_FRAMES_MAX, Pace, Uploads};
use crate::answer::Answer;
use crate::body::RequestBody;
use crate::files::UrlDirectory;
use crate::rt;

/// Maximum number of parts in a form.
const PARTS_MAX: usize = 1_000;

/// Maximum size of a part that is no file, in bytes.
const CONTROL_BYTES_MAX: usize = 4 << 10;

/// Name of the control that allows to replace existing files.
const REPLACE: &[u8] = b"replace";

/// Reads the parts of a form at a limited rate.
struct FormReader {
    body: RequestBody,
    parser: Multipart,
    pace: Pace,
    parts: usize,
    /// True if the end of a part was read with its last piece.
    unread_end: bool,
}

impl Uploads {
    /// Stores the files of a form in the directory `rest`, and redirects to its listing.
    pub(super) async fn post(
        &self,
        fields: &HeaderMap,
        rest: &[u8],
        body: RequestBody,
        urls: &[UrlDirectory],
    ) -> Result<Answer, UploadError> {
        if is_of_other_origin(fields) {
            return Err(UploadError::OTHER_ORIGIN);
        }
        let media_type = fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let boundary = media_type.and_then(boundary).ok_or(UploadError::NO_FORM)?;
        let (parser, pace) = (Multipart::new(boundary), Pace::new(self.limits.rate));
        let mut reader = FormReader { body, parser, pace, parts: 0, unread_end: false };
        let mut replaces = false;
        while let Some(part) = reader.next_part().await? {
            match part.file_name {
                None => {
                    let is_replace = part.name == REPLACE;
                    reader.skip(CONTROL_BYTES_MAX).await?;
                    replaces |= is_replace;
                }
                // A browser sends an empty name if no file is chosen.
                Some(name) if name.is_empty() => reader.skip(CONTROL_BYTES_MAX).await?,
                Some(name) if self.leads_elsewhere(urls, base_name(&name)) => {
                    return Err(UploadError::ELSEWHERE_BY_NAME);
                }
                Some(name) => self.store(&mut reader, rest, &name, replaces).await?,
            }
        }
        // Relative, so that it holds behind a proxy that maps the site to another path.
        let listing = HeaderValue::from_static("./");
        Ok(Answer::empty(StatusCode::SEE_OTHER).with(header::LOCATION, listing))
    }

    /// Returns whether a PUT of this name in the directory would be for another mount or rule.
    fn leads_elsewhere(&self, urls: &[UrlDirectory], name: &[u8]) -> bool {
        let Some(routes) = &self.routes else { return false };
        urls.iter().any(|url| routes.lead_elsewhere(url, name))
    }

    async fn store(
        &self,
        reader: &mut FormReader,
        directory: &[u8],
        file_name: &[u8],
        replaces: bool,
    ) -> Result<(), UploadError> {
        let target = Target::of(&[directory, base_name(file_name)].concat(), self.sidecars)?;
        let if_none_match = (!replaces).then(|| b"*".to_vec());
        let conditions = Conditions { if_none_match, ..Conditions::default() };
        let (root, disk, checked) = (self.root.clone(), self.disk.clone(), conditions.clone());
        let begun = self.run(move || Unfinished::begin(&root, disk, target, &checked, None));
        let mut file = begun.await.map_err(exists)?;
        let bytes_max = self.bytes_max();
        let mut piece = reader.next_piece(0, bytes_max).await?;
        let mut received = 0;
        while !piece.is_empty() {
            received += len(&piece);
            let written = self.write(file, piece);
            let next = reader.next_piece(received, bytes_max);
            let (written, next) = rt::both(written, next).await;
            (file, piece) = (written?, next?);
        }
        let changed = self.changed.clone();
        self.run(move || file.commit(&conditions, &changed)).await.map_err(exists)?;
        Ok(())
    }
}

/// Returns true if a directory accepts names: no segment of its path is hidden.
pub(crate) fn takes_names_in(rest: &[u8]) -> bool {
    (rest.is_empty() || rest.ends_with(b"/"))
        && !rest.split(|byte| *byte == b'/').any(|segment| segment.starts_with(b"."))
}

/// Describes an existing file in terms of the form.
fn exists(error: UploadError) -> UploadError {
    if error.is_condition() { UploadError::EXISTS } else { error }
}

/// Returns the last name of a file's path: old browsers send the path on the client.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| matches!(byte, b'/' | b'\\')).next().unwrap_or_default()
}

/// Returns true if a browser sends the request for a page of another origin: by Sec-Fetch-Site,
/// else by Origin. A client that sends neither is no browser, and adds no password of its own.
fn is_of_other_origin(fields: &HeaderMap) -> bool {
    if let Some(site) = fields.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = fields.get(header::ORIGIN) else { return false };
    let host = fields.get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let origin = origin.as_bytes();
    let authority =
        [&b"https://"[..], b"http://"].iter().find_map(|scheme| origin.strip_prefix(*scheme));
    !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

fn len(piece: &[Bytes]) -> u64 {
    piece.iter().map(|bytes| bytes.len() as u64).sum()
}

impl FormReader {
    /// Returns the head of the next part; `None` at the end of the form.
    async fn next_part(&mut self) -> Result<Option<PartHead>, UploadError> {
        match self.event().await? {
            None => Ok(None),
            Some(Event::Part(_)) if self.parts == PARTS_MAX => Err(UploadError::FORM_PARTS),
            Some(Event::Part(head)) => {
                self.parts += 1;
                Ok(Some(head))
            }
            Some(Event::Data(_) | Event::PartEnd) => Err(UploadError::DEFECT),
        }
    }

    /// Reads the next piece of a part of which `received` bytes came before; empty at its end.
    async fn next_piece(
        &mut self,
        received: u64,
        bytes_max: u64,
    ) -> Result<Vec<Bytes>, UploadError> {
        // A client may send single bytes, so the length is counted, not added up each time.
        let (mut piece, mut len) = (Vec::new(), 0);
        let piece_bytes = self.pace.piece_bytes(PIECE_BYTES) as u64;
        while len < piece_bytes && piece.len() < PIECE_FRAMES_MAX {
            match self.event().await? {
                Some(Event::Data(data)) => {
                    len += data.len() as u64;
                    piece.push(data);
                }
                Some(Event::PartEnd) if piece.is_empty() => return Ok(piece),
                Some(Event::PartEnd) => {
                    self.unread_end = true;
                    break;
                }
                None | Some(Event::Part(_)) => return Err(UploadError::BROKEN),
            }
            if received + len > bytes_max {
                return Err(UploadError::TOO_LARGE);
            }
        }
        self.pace.wait().await;
        Ok(piece)
    }

    /// Discards a part of at most `bytes_max` bytes.
    async fn skip(&mut self, bytes_max: usize) -> Result<(), UploadError> {
        let mut skipped = 0;
        loop {
            match self.event().await? {
                Some(Event::Data(data)) => skipped += data.len(),
                Some(Event::PartEnd) => return Ok(()),
                None | Some(Event::Part(_)) => return Err(UploadError::BROKEN),
            }
            if skipped > bytes_max {
                return Err(UploadError::FORM_CONTROL);
            }
        }
    }

    /// Returns the next element; `None` at the end of the form.
    async fn event(&mut self) -> Result<Option<Event>, UploadError> {
        if std::mem::take(&mut self.unread_end) {
            return Ok(Some(Event::PartEnd));
        }
        loop {
            match self.parser.next_event() {
                Err(_) => return Err(UploadError::FORM),
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
            }
            let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
            match frame {
                None if self.parser.is_complete() => return Ok(None),
                None => return Err(UploadError::BROKEN),
                Some(frame) => {
                    let frame = frame.map_err(|_| UploadError::BROKEN)?;
                    if let Ok(data) = frame.into_data() {
                        self.pace.count(data.len());
                        self.parser.push(&data);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        let rows: [(&[(&str, &str)], bool); 9] = [
            (&[], false),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://other")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://a:8080")], true),
            (&[("origin", "http://a:8080")], false),
            (&[("origin", "https://A:8080")], false),
            (&[("origin", "http://a")], true),
            (&[("origin", "null")], true),
        ];
        for (sent, expected) in rows {
            let mut fields = HeaderMap::new();
            fields.insert(header::HOST, HeaderValue::from_static("a:8080"));
            for (name, value) in sent {
                fields.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(is_of_other_origin(&fields), expected, "{sent:?}");
        }
    }

    #[test]
    fn names_of_files() {
        for (path, name) in
            [("a", "a"), ("C:\\x\\b.txt", "b.txt"), ("d/e", "e"), ("../..", ".."), ("d/", "")]
        {
            assert_eq!(base_name(path.as_bytes()), name.as_bytes());
        }
        assert!(takes_names_in(b"") && takes_names_in(b"a/b/"));
        assert!(
            !takes_names_in(b"a") && !takes_names_in(b".well-known/") && !takes_names_in(b"a/.b/")
        );
    }
}
