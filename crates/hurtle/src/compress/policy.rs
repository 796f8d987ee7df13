//! Decides whether a response may be compressed, from its fields and size.

use std::fmt;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::semantics::accept::{self, Coding};
use hurtle_http::semantics::etag;
use hurtle_http::semantics::fields::list;
use hurtle_http::semantics::media;

use super::CODINGS;
use crate::config::Compress;

/// The settings by which a mount compresses.
#[derive(Clone, Debug)]
pub(crate) struct Policy(Arc<Compress>);

/// The properties of a file that the policy looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileFacts<'a> {
    /// `true` if `compress.types` has its media type.
    pub has_type: bool,
    /// Size of the file, in bytes.
    pub len: u64,
    /// Fields that header rules set.
    pub set: &'a [(HeaderName, HeaderValue)],
    /// Rate limit of one response; 0: none.
    pub rate: u64,
}

/// The reason why a file is not compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncompressed {
    /// `compress` is false here, or there is no memory for it.
    Off,
    /// Its media type is not in `compress.types`.
    Type,
    /// It is smaller than `compress.min_bytes`.
    TooSmall,
    /// It is larger than `compress.max_bytes`.
    TooLarge,
    /// A header rule sets `Cache-Control: no-transform` (RFC 9111 section 5.2.2.6).
    NoTransform,
    /// A header rule sets Content-Encoding.
    Encoded,
    /// The mount has a `rate`, which holds for files on disk.
    Rated,
}

impl fmt::Display for Uncompressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Uncompressed::Off => "compress is off here",
            Uncompressed::Type => "its media type is not in compress.types",
            Uncompressed::TooSmall => "it is smaller than compress.min_bytes",
            Uncompressed::TooLarge => "it is larger than compress.max_bytes",
            Uncompressed::NoTransform => "a header rule sets Cache-Control: no-transform",
            Uncompressed::Encoded => "a header rule sets Content-Encoding",
            Uncompressed::Rated => "the mount has a rate",
        })
    }
}

impl Policy {
    /// Creates the policy of a configuration.
    pub(crate) fn new(config: Arc<Compress>) -> Policy {
        Policy(config)
    }

    /// Decides about a file.
    ///
    /// # Errors
    /// The reason why it is not compressed.
    pub(crate) fn admit(&self, file: &FileFacts<'_>) -> Result<(), Uncompressed> {
        let sets = |name: &HeaderName| file.set.iter().find(|(set, _)| set == name);
        let control = sets(&header::CACHE_CONTROL);
        match () {
            () if self.0.cache_bytes == 0 => Err(Uncompressed::Off),
            () if !file.has_type => Err(Uncompressed::Type),
            () if file.len < self.0.min_bytes => Err(Uncompressed::TooSmall),
            () if file.len > self.0.max_bytes => Err(Uncompressed::TooLarge),
            () if sets(&header::CONTENT_ENCODING).is_some() => Err(Uncompressed::Encoded),
            () if control.is_some_and(|(_, value)| forbids(value.as_bytes())) => {
                Err(Uncompressed::NoTransform)
            }
            () if file.rate > 0 => Err(Uncompressed::Rated),
            () => Ok(()),
        }
    }

    /// Returns whether `compress.types` has this media type.
    pub(crate) fn covers(&self, media_type: &[u8]) -> bool {
        self.0.types.iter().any(|pattern| media::matches(pattern, media_type))
    }
}

/// Returns whether a Cache-Control value has `no-transform`.
pub(crate) fn forbids(cache_control: &[u8]) -> bool {
    list(cache_control).any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
}

/// The fields of a response that decide about its compression.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseFacts {
    media_type: Option<Vec<u8>>,
    /// Length of the body, if it is known.
    pub(super) len: Option<u64>,
    /// The entity-tag, if it is strong.
    pub(super) strong_tag: Option<Vec<u8>>,
    /// A field forbids it or describes the bytes as they are.
    is_fixed: bool,
    /// Vary names Accept-Encoding, or everything.
    pub(super) varies: bool,
}

/// The decision about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Sent unchanged.
    Leave,
    /// Sent unchanged to this client. Another client would get a coding, so Vary is added.
    Vary,
    /// A 304 to a client that may hold an encoded response: its tag becomes weak too.
    NotModified,
    Encode(Coding),
}

impl ResponseFacts {
    /// Takes a field of the response.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) {
        let is = |known: &HeaderName| name.eq_ignore_ascii_case(known.as_str().as_bytes());
        match name.len() {
            4 if is(&header::ETAG) => {
                let is_strong = etag::parse(value).is_some_and(|tag| !tag.weak);
                self.strong_tag = is_strong.then(|| value.to_vec());
            }
            4 if is(&header::VARY) => {
                self.varies |= list(value)
                    .any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"));
            }
            12 if is(&header::CONTENT_TYPE) => self.media_type = Some(value.to_vec()),
            13 if is(&header::CACHE_CONTROL) => self.is_fixed |= forbids(value),
            16 if is(&header::CONTENT_ENCODING) => self.is_fixed |= !value.is_empty(),
            13 if is(&header::CONTENT_RANGE) => self.is_fixed = true,
            // RFC 9530: Content-Digest and Repr-Digest describe the encoded bytes; Digest and
            // Content-MD5 are their predecessors.
            6 | 11 | 14 => {
                let digests: [&[u8]; 4] =
                    [b"digest", b"content-md5", b"repr-digest", b"content-digest"];
                self.is_fixed |= digests.iter().any(|digest| name.eq_ignore_ascii_case(digest));
            }
            _ => {}
        }
    }

    /// Decides about a response to a client that accepts these codings.
    pub(super) fn decide(
        &self,
        Policy(config): &Policy,
        status: StatusCode,
        accept_encoding: Option<&[u8]>,
    ) -> Decision {
        let coding = accept::choose(accept_encoding, &CODINGS);
        if status == StatusCode::NOT_MODIFIED {
            return match coding {
                Coding::Identity => Decision::Leave,
                _ => Decision::NotModified,
            };
        }
        let is_whole = !matches!(
            status,
            StatusCode::NO_CONTENT
                | StatusCode::PARTIAL_CONTENT
                | StatusCode::RANGE_NOT_SATISFIABLE
        ) && !status.is_informational();
        let is_covered = |media_type: &Vec<u8>| {
            config.types.iter().any(|pattern| media::matches(pattern, media_type))
        };
        if !is_whole
            || self.is_fixed
            || self.len.is_some_and(|len| len < config.min_bytes.max(1))
            || !self.media_type.as_ref().is_some_and(is_covered)
        {
            return Decision::Leave;
        }
        match coding {
            Coding::Identity => Decision::Vary,
            coding => Decision::Encode(coding),
        }
    }
}

/// Returns the value of Content-Encoding.
pub(super) fn name(coding: Coding) -> &'static str {
    match coding {
        Coding::Br => "br",
        Coding::Zstd => "zstd",
        Coding::Gzip => "gzip",
        Coding::Dcz => "dcz",
        Coding::Identity => "identity",
    }
}
