//! The address of a store and the settings for its use.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Amazon S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

/// The address of the objects beneath a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectUrl {
    /// The kind of the store.
    pub scheme: Scheme,
    /// The bucket, or for Azure the container.
    pub bucket: String,
    /// Common beginning of all keys: empty, or with a `/` at its end.
    pub prefix: String,
}

/// A store and its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// URL of the objects in their store.
    pub url: ObjectUrl,
    /// Region of a bucket of S3; `None`: from the environment, else us-east-1.
    pub region: Option<String>,
    /// URL of the service; `None`: the provider's.
    pub endpoint: Option<String>,
    /// Storage account of Azure; `None`: from the environment.
    pub account: Option<String>,
    /// `true`: the service may be reached without TLS.
    pub allow_http: bool,
    /// `true`: the bucket is in the path of URLs; `false`: in the host name.
    pub path_style: bool,
    /// `true`: requests are not signed, because the bucket is public.
    pub anonymous: bool,
    /// `true`: checksums that the store gives are compared with the bytes.
    pub checksums: bool,
    /// Directory of the cache.
    pub cache_dir: PathBuf,
    /// Size of the cache in bytes.
    pub cache_bytes: u64,
    /// Age from which the store is asked about an object again.
    pub revalidate: Duration,
    /// Time in which an object is served after that, if the store does not respond.
    pub stale: Duration,
    /// Time limit of a response of the store, and of a pause in one.
    pub timeout: Duration,
}

/// The reason why a text is not the address of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(pub &'static str);

/// Maximum length of a key in bytes; S3 and Google have this limit, and Azure 1,024 characters.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

impl Scheme {
    const ALL: [Scheme; 3] = [Scheme::S3, Scheme::Gs, Scheme::Az];

    fn name(self) -> &'static str {
        match self {
            Scheme::S3 => "s3",
            Scheme::Gs => "gs",
            Scheme::Az => "az",
        }
    }
}

impl ObjectUrl {
    /// `true` if a text is meant as an address of objects, not as a path.
    pub fn is_meant(text: &str) -> bool {
        text.contains("://")
    }

    /// Parses `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn parse(text: &str) -> Result<ObjectUrl, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError("it has no scheme"))?;
        let scheme = Scheme::ALL.into_iter().find(|known| known.name() == scheme);
        let scheme = scheme.ok_or(UrlError("its scheme is not s3, gs or az"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // The union of the providers' rules for names.
        let is_named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if bucket.is_empty() || bucket.len() > 222 || !bucket.bytes().all(is_named) {
            return Err(UrlError("the bucket's name is not one"));
        }
        let prefix = prefix.trim_end_matches('/');
        if prefix.is_empty() {
            let (bucket, prefix) = (bucket.to_owned(), String::new());
            return Ok(ObjectUrl { scheme, bucket, prefix });
        }
        let is_plain = |segment: &str| !matches!(segment, "" | "." | "..");
        let is_shown = |c: char| !c.is_control() && !matches!(c, '?' | '#' | '\\');
        if !prefix.split('/').all(is_plain) || !prefix.chars().all(is_shown) {
            return Err(UrlError("its prefix is not a path of plain segments"));
        }
        if prefix.len() > KEY_BYTES_MAX / 2 {
            return Err(UrlError("its prefix is too long"));
        }
        Ok(ObjectUrl { scheme, bucket: bucket.to_owned(), prefix: format!("{prefix}/") })
    }
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme.name(), self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_or_refused() {
        let table: [(&str, &str, Option<&str>); 10] = [
            ("a bucket", "s3://site", Some("s3://site/")),
            ("a bucket with a slash", "gs://site/", Some("gs://site/")),
            ("a prefix", "az://site/a/b", Some("az://site/a/b/")),
            ("a slash at its end changes nothing", "s3://site/a/b/", Some("s3://site/a/b/")),
            ("another scheme", "http://site/a", None),
            ("no bucket", "s3:///a", None),
            ("credentials", "s3://key:secret@site/a", None),
            ("an empty segment", "s3://site/a//b", None),
            ("a parent", "s3://site/a/../b", None),
            ("a query", "s3://site/a?versionId=1", None),
        ];
        for (sentence, text, expected) in table {
            let parsed = ObjectUrl::parse(text).ok().map(|url| url.to_string());
            assert_eq!(parsed.as_deref(), expected, "{sentence}");
        }
    }
}
