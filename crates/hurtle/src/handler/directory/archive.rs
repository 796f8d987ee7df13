//! Answers a request for an archive of a listed directory.

use std::borrow::Cow;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use hurtle_http::message::response::Fields;
use hurtle_http::semantics::target;

use super::{Directory, HandlerRequest, MatchedPath};
use crate::answer::Answer;
use crate::body::{Body, Stream};
use crate::files::archive::{ArchiveError, ArchiveRequest, Archives, Format};
use crate::files::routes::UrlDirectory;
use crate::files::store::LookupError;
use crate::files::{Lookup, Store};

/// Name of the archive of a site's root.
const ROOT_NAME: &[u8] = b"files";

impl Directory {
    /// Sends the directory at `path` as an archive.
    pub(super) async fn archive(
        &self,
        (archives, format): (&Archives, Format),
        store: &Rc<Store>,
        (request, matched): (&HandlerRequest<'_>, &MatchedPath<'_>),
        (lookup, path): (Arc<Lookup>, Vec<u8>),
    ) -> Answer {
        let name = name(matched.path).to_vec();
        let disposition = disposition(&name, format);
        let wanted = ArchiveRequest {
            format,
            lookup,
            path,
            urls: url_directories(request.key.path, matched),
            name,
            dotfiles: self.config.dotfiles,
        };
        let body = match archives.open(&store.disk, wanted, self.config.rate).await {
            Ok(body) => body,
            Err(error) => return refusal(error, matched.path),
        };
        let media_type = HeaderValue::from_static(format.media_type());
        let mut answer = Answer::empty(StatusCode::OK).with(header::CONTENT_TYPE, media_type);
        answer.body = Body::Stream(Stream::new(body));
        if let Fields::Map(map) = &mut answer.fields {
            map.extend(disposition.map(|value| (header::CONTENT_DISPOSITION, value)));
        }
        answer.with(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
    }
}

/// The directory's URL paths: as the client wrote it, which is `sent`, and after the site's rules.
pub(super) fn url_directories(sent: &[u8], matched: &MatchedPath<'_>) -> Vec<UrlDirectory> {
    let mount = &matched.path[..matched.path.len() - matched.rest.len()];
    let mount_len = mount.strip_suffix(b"/").unwrap_or(mount).len();
    let own = UrlDirectory { path: matched.path.to_vec(), mount_len };
    match target::decoded(sent).map(Cow::into_owned) {
        Ok(path) if path != own.path && path.ends_with(b"/") => {
            // A mount at any length may hold a path that a rule leads here.
            vec![UrlDirectory { mount_len: path.len(), path }, own]
        }
        _ => vec![own],
    }
}

/// Name of a directory: the last segment of its URL path.
fn name(url_path: &[u8]) -> &[u8] {
    let path = url_path.strip_suffix(b"/").unwrap_or(url_path);
    match path.rsplit(|byte| *byte == b'/').next() {
        None | Some(b"") => ROOT_NAME,
        Some(name) => name,
    }
}

/// The value of Content-Disposition (RFC 6266): an ASCII name for old clients and, if it differs,
/// the exact one in UTF-8 (RFC 8187).
fn disposition(name: &[u8], format: Format) -> Option<HeaderValue> {
    let name = String::from_utf8_lossy(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || " !#&()+,-.=@[]^_~".contains(c);
    let ascii: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let extension = format.extension();
    let mut value = format!("attachment; filename=\"{ascii}.{extension}\"");
    if ascii != name {
        value.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                value.push(char::from(byte));
            } else {
                value.push_str(&format!("%{byte:02X}"));
            }
        }
        value.push('.');
        value.push_str(extension);
    }
    HeaderValue::try_from(value).ok()
}

fn refusal(error: ArchiveError, path: &[u8]) -> Answer {
    let refused = |why: String| Answer::error(StatusCode::FORBIDDEN, Some(&why));
    match error {
        ArchiveError::Bytes(limit) => {
            refused(format!("the files here are larger than an archive may be ({limit} bytes)"))
        }
        ArchiveError::Entries(limit) => {
            refused(format!("there are more files here than an archive may have ({limit})"))
        }
        ArchiveError::Depth => refused("the directories here are nested too deep".to_owned()),
        ArchiveError::Busy => {
            let path = path.escape_ascii();
            tracing::warn!("{path}: too many entries in all archives together; answered 503");
            Answer::error(StatusCode::SERVICE_UNAVAILABLE, None)
        }
        ArchiveError::Lookup(LookupError::Disk(e))
            if e.kind() == io::ErrorKind::PermissionDenied =>
        {
            Answer::error(StatusCode::FORBIDDEN, None)
        }
        ArchiveError::Lookup(error) => error.answer(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_archives() {
        let rows = [
            ("/", "filename=\"files.zip\""),
            ("/pub/", "filename=\"pub.zip\""),
            ("/a/b c/", "filename=\"b c.zip\""),
            ("/a/\"q\"\\/", "filename=\"_q__.zip\"; filename*=UTF-8''%22q%22%5C.zip"),
            ("/é\r\n/", "filename=\"___.zip\"; filename*=UTF-8''%C3%A9%0D%0A.zip"),
            ("/100%/", "filename=\"100_.zip\"; filename*=UTF-8''100%25.zip"),
        ];
        for (path, expected) in rows {
            let value = disposition(name(path.as_bytes()), Format::Zip).unwrap();
            assert_eq!(value.to_str().unwrap(), format!("attachment; {expected}"), "{path:?}");
        }
    }
}
