//! Reads the MD5 checksum of an object from the fields of a response. The clients of stores do not
//! hand it on, so it travels in the extensions of the response. The checksum of bytes that were put
//! is compared here: a request whose body the store has received differently fails. Listings pass
//! through `reachable`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::ETAG;
use http::{HeaderMap, Method};
use http_body::Body as _;
use md5::{Digest as _, Md5 as Hasher};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpService, ReqwestConnector,
};

use crate::reachable::{is_listing, reachable};

/// The MD5 checksum of a whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Md5(pub(crate) [u8; 16]);

/// Makes HTTP clients that read checksums.
#[derive(Debug)]
pub(crate) struct Connector {
    /// `true`: bodies that are put are compared with the checksum in the response.
    pub(crate) compares: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Reader { client, compares: self.compares }))
    }
}

#[derive(Debug)]
struct Reader {
    client: HttpClient,
    compares: bool,
}

#[async_trait]
impl HttpService for Reader {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let put =
            (self.compares && request.method() == Method::PUT).then(|| request.body().clone());
        let lists =
            request.method() == Method::GET && request.uri().query().is_some_and(is_listing);
        let mut response = self.client.execute(request).await?;
        if lists && response.status().is_success() {
            let (parts, body) = response.into_parts();
            return Ok(HttpResponse::from_parts(parts, reachable(body.bytes().await?).into()));
        }
        let Some(md5) = md5(response.headers()) else { return Ok(response) };
        if let (Some(body), true) = (put, response.status().is_success())
            && of_body(body) != md5
        {
            let differs = io::Error::other("the store has received other bytes: checksum differs");
            // The kind of an idempotent request that is sent again.
            return Err(HttpError::new(HttpErrorKind::Interrupted, differs));
        }
        response.extensions_mut().insert(md5);
        Ok(response)
    }
}

/// The checksum of a request's body, which is in memory.
fn of_body(mut body: HttpRequestBody) -> Md5 {
    let mut hasher = Hasher::new();
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
        if let Ok(bytes) = frame.into_data() {
            hasher.update(&bytes);
        }
    }
    Md5(hasher.finalize().into())
}

fn md5(fields: &HeaderMap) -> Option<Md5> {
    let text = |name: &str| fields.get(name)?.to_str().ok();
    // Google: a list of checksums, perhaps in several lines.
    let listed = fields.get_all("x-goog-hash").iter().filter_map(|line| line.to_str().ok());
    let listed = listed.flat_map(|line| line.split(','));
    if let Some(md5) = listed.filter_map(|one| one.trim().strip_prefix("md5=")).find_map(decode) {
        return Some(md5);
    }
    // Azure: of the whole object, also with a range.
    if let Some(md5) = text("x-ms-blob-content-md5").and_then(decode) {
        return Some(md5);
    }
    // S3: the entity-tag of an object that was sent at once, unless its key is not S3's own.
    let has_own_key = text("x-amz-server-side-encryption-customer-algorithm").is_some()
        || text("x-amz-server-side-encryption").is_some_and(|kind| kind.starts_with("aws:"));
    if has_own_key {
        return None;
    }
    of_hex(text(ETAG.as_str())?.trim_matches('"'))
}

fn decode(text: &str) -> Option<Md5> {
    STANDARD.decode(text).ok()?.try_into().ok().map(Md5)
}

fn of_hex(text: &str) -> Option<Md5> {
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(|number| Md5(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn checksums_are_found() {
        const EMPTY: &str = "d41d8cd98f00b204e9800998ecf8427e";
        let quoted = format!("\"{EMPTY}\"");
        let table: [(&str, &[(&str, &str)], bool); 8] = [
            ("the entity-tag of S3", &[("etag", &quoted)], true),
            (
                "S3's own key",
                &[("etag", &quoted), ("x-amz-server-side-encryption", "AES256")],
                true,
            ),
            (
                "a key of the user's service",
                &[("etag", &quoted), ("x-amz-server-side-encryption", "aws:kms")],
                false,
            ),
            (
                "a key of the client",
                &[("etag", &quoted), ("x-amz-server-side-encryption-customer-algorithm", "AES256")],
                false,
            ),
            (
                "an object of several parts",
                &[("etag", "\"d41d8cd98f00b204e9800998ecf8427e-2\"")],
                false,
            ),
            ("Google", &[("x-goog-hash", "crc32c=AAAAAA==,md5=1B2M2Y8AsgTpgAmY7PhCfg==")], true),
            ("Azure", &[("x-ms-blob-content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")], true),
            ("another entity-tag", &[("etag", "\"0x8D4BCC2E4835CD0\"")], false),
        ];
        for (sentence, fields, expected) in table {
            let mut map = HeaderMap::new();
            for (name, value) in fields {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                map.append(name, HeaderValue::from_str(value).unwrap());
            }
            let number = u128::from_str_radix(EMPTY, 16).unwrap();
            let wanted = expected.then_some(Md5(number.to_be_bytes()));
            assert_eq!(md5(&map), wanted, "{sentence}");
        }
    }
}
