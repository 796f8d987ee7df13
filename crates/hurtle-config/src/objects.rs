//! Settings of an object store whose objects are served as files: the `object_store` table of a
//! mount, and the addresses `s3://`, `gs://` and `az://`.

use std::path::PathBuf;
use std::time::Duration;

use hurtle_objects::{IS_BUILT, ObjectUrl, Origins, Scheme, Settings, UrlError};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use super::bounds::{BYTES_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::error::{ValueError, shown};
use super::files::Files;
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Flag, Size, Text, Time};
use super::schema::{Key, Section};
use super::symlinks::Symlinks;
use super::table::Table;
use super::value::Value;

/// Size of the smallest cache, in bytes: some chunks of large objects, for some clients.
const CACHE_BYTES_MIN: u64 = 64 << 20;

#[rustfmt::skip] // One paragraph for each key.
pub(super) static OBJECT_STORE: Section = Section {
    header: "[site.mount.object_store]",
    doc: "The store and the cache of a mount with `files = \"s3://...\"`, `\"gs://...\"` or \
          `\"az://...\"`; see [object-stores.md](object-stores.md). Credentials come from the \
          environment, as the provider's own tools expect them.",
    keys: &[&[
        Key::new("cache_dir", Text("a directory"), Required, "\"/var/cache/hurtle\"",
            "Directory of the cache and of unfinished uploads, which only this server's user may read. \
             Whole objects and unfinished uploads stay there when the server ends."),
        Key::new("cache_bytes", Size(CACHE_BYTES_MIN, BYTES_MAX), Toml("\"1 GiB\""), "\"50 GiB\"",
            "Space of the mount's objects in the cache. Those not used for longest are removed; a \
             larger object is not served (503)."),
        Key::new("revalidate", Time(0, TIME_MS_MAX), Toml("\"1m\""), "\"10s\"",
            "Age from which the store is asked whether an object has changed; also of listings and \
             of names that do not exist."),
        Key::new("stale", Time(0, TIME_MS_MAX), Toml("\"1h\""), "\"24h\"",
            "Time after `revalidate` in which an object is served from the cache if the store does \
             not respond."),
        Key::new("timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"10s\""), "\"3s\"",
            "Time limit of the head of a response of the store, retries included, and of a pause in \
             its body (504)."),
        Key::new("region", Text("a region of S3"), Words("`AWS_REGION`, else `us-east-1`"),
            "\"eu-central-1\"", "Region of the bucket."),
        Key::new("endpoint", Text("a URL"), Words("the provider's"), "\"https://minio.example:9000\"",
            "URL of the service."),
        Key::new("account", Text("a storage account of Azure"), Words("`AZURE_STORAGE_ACCOUNT_NAME`"),
            "\"example\"", "Account of an `az://` container."),
        Key::new("allow_http", Flag, Toml("false"), "true",
            "Allow an endpoint without TLS. Requests are signed, but objects travel in clear."),
        Key::new("path_style", Flag, Toml("true"), "false",
            "Write the bucket into the path of URLs. With `false` it is part of the host name, and of \
             `endpoint` if that is set (S3)."),
        Key::new("anonymous", Flag, Toml("false"), "true",
            "Send no credentials: the bucket is public."),
        Key::new("checksums", Flag, Toml("true"), "false",
            "Compare objects with the MD5 checksum that the store gives for them. For stores whose \
             entity-tags look like one and are none."),
    ]],
};

/// An object store whose objects are served as files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectStore {
    /// The address of the objects.
    #[serde(skip)]
    pub url: ObjectUrl,
    /// Directory of the cache.
    #[serde(serialize_with = "print::path")]
    pub cache_dir: PathBuf,
    /// Space of the cache, in bytes.
    #[serde(serialize_with = "print::size")]
    pub cache_bytes: u64,
    /// Age from which the store is asked about an object again.
    #[serde(serialize_with = "print::duration")]
    pub revalidate: Duration,
    /// Time after that in which an object is served if the store does not respond.
    #[serde(serialize_with = "print::duration")]
    pub stale: Duration,
    /// Time limit of responses of the store.
    #[serde(serialize_with = "print::duration")]
    pub timeout: Duration,
    /// Region of a bucket of S3; `None`: from the environment.
    pub region: Option<String>,
    /// URL of the service; `None`: the provider's.
    pub endpoint: Option<String>,
    /// Account of Azure; `None`: from the environment.
    pub account: Option<String>,
    /// `true`: the endpoint may be without TLS.
    pub allow_http: bool,
    /// `true`: the bucket is in the path of URLs.
    pub path_style: bool,
    /// `true`: requests have no credentials.
    pub anonymous: bool,
    /// `true`: checksums are compared.
    pub checksums: bool,
}

impl ObjectStore {
    /// A store with default settings.
    pub fn new(url: ObjectUrl, cache_dir: PathBuf) -> ObjectStore {
        ObjectStore {
            url,
            cache_dir,
            cache_bytes: 1 << 30,
            revalidate: Duration::from_secs(60),
            stale: Duration::from_secs(3600),
            timeout: Duration::from_secs(10),
            region: None,
            endpoint: None,
            account: None,
            allow_http: false,
            path_style: true,
            anonymous: false,
            checksums: true,
        }
    }

    /// The directory of unfinished uploads to this store. Each store has its own, because an
    /// upload's path is relative to the store.
    pub fn upload_dir(&self) -> PathBuf {
        let url = self.url.to_string();
        let parts = [Some(&url), self.endpoint.as_ref(), self.account.as_ref()];
        // A URL has no control characters.
        let name = parts.map(|part| part.map_or("", String::as_str)).join("\n");
        self.cache_dir.join(format!("uploads-{:032x}", xxh3_128(name.as_bytes())))
    }

    /// The settings for the client.
    pub fn settings(&self) -> Settings {
        Settings {
            url: self.url.clone(),
            region: self.region.clone(),
            endpoint: self.endpoint.clone(),
            account: self.account.clone(),
            allow_http: self.allow_http,
            path_style: self.path_style,
            anonymous: self.anonymous,
            checksums: self.checksums,
            cache_dir: self.cache_dir.clone(),
            cache_bytes: self.cache_bytes,
            revalidate: self.revalidate,
            stale: self.stale,
            timeout: self.timeout,
        }
    }
}

/// `true` if the value of `files` is an address of objects, not a directory.
pub(super) fn is_object_url(files: &Value<'_>) -> bool {
    files.as_text().is_some_and(ObjectUrl::is_meant)
}

/// Reads the address of objects in `files`, and the `object_store` of the mount.
pub(super) fn object_store(
    mount: &Table<'_>,
    files: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<ObjectStore> {
    let url = files.parse(reader, |text| {
        ObjectUrl::parse(text).map_err(|UrlError(why)| {
            let wrong = ValueError::new(format!("{} is no address of objects: {why}", shown(text)));
            wrong.hint("write a directory, or for example \"s3://bucket/prefix\"")
        })
    });
    let written = mount.get("object_store");
    let table = written.as_ref().and_then(|written| written.table(reader));
    let cache_dir = match &table {
        Some(table) => cache_dir(table, reader),
        None if written.is_none() => {
            let wrong = ValueError::new("objects need a cache");
            let hint = "write object_store = { cache_dir = \"/var/cache/hurtle\" } in the mount";
            reader.report_missing(&files.spot, wrong.hint(hint));
            None
        }
        None => None,
    };
    if !IS_BUILT {
        let wrong = ValueError::new("this hurtle was built without object stores");
        let hint = "build it with cargo build --release --features object-store";
        reader.report_missing(&files.spot, wrong.hint(hint));
        return None;
    }
    let mut store = ObjectStore::new(url?, cache_dir?);
    let table = table?;
    table.set("cache_bytes", reader, Value::size, &mut store.cache_bytes);
    table.set("revalidate", reader, Value::duration, &mut store.revalidate);
    table.set("stale", reader, Value::duration, &mut store.stale);
    table.set("timeout", reader, Value::duration, &mut store.timeout);
    let text = |v: &Value<'_>, r: &mut Reader<'_>| Some(Some(v.text(r)?.to_owned()));
    table.set("region", reader, text, &mut store.region);
    table.set("endpoint", reader, endpoint, &mut store.endpoint);
    table.set("account", reader, text, &mut store.account);
    table.set("allow_http", reader, Value::flag, &mut store.allow_http);
    table.set("path_style", reader, Value::flag, &mut store.path_style);
    table.set("anonymous", reader, Value::flag, &mut store.anonymous);
    table.set("checksums", reader, Value::flag, &mut store.checksums);
    check(&table, &store, files, reader);
    Some(store)
}

fn cache_dir(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<PathBuf> {
    let Some(written) = table.get("cache_dir") else {
        let wrong = ValueError::new("cache_dir is missing");
        reader.report_missing(&table.spot, wrong.hint("write cache_dir = \"/var/cache/hurtle\""));
        return None;
    };
    written.path(reader)
}

fn endpoint(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Option<String>> {
    let url = |text: &str| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
            return Err(ValueError::new(format!("{} is not a URL", shown(text)))
                .hint("write for example \"https://minio.example:9000\""));
        };
        if rest.contains('@') {
            return Err(ValueError::new("a URL here has no credentials")
                .hint("give them in the environment, see docs/object-stores.md"));
        }
        Ok(text.trim_end_matches('/').to_owned())
    };
    value.parse(reader, url).map(Some)
}

/// Relates settings to each other.
fn check(table: &Table<'_>, store: &ObjectStore, files: &Value<'_>, reader: &mut Reader<'_>) {
    let is_clear = store.endpoint.as_deref().is_some_and(|url| url.starts_with("http://"));
    if let (Some(value), true, false) = (table.get("endpoint"), is_clear, store.allow_http) {
        let wrong = ValueError::new("objects would travel in clear");
        value
            .report(reader, wrong.hint("write https://, or allow_http = true if that is intended"));
        return;
    }
    for (name, scheme, of) in [
        ("region", Scheme::S3, "s3"),
        ("path_style", Scheme::S3, "s3"),
        ("account", Scheme::Az, "az"),
    ] {
        if let (Some(value), true) = (table.get(name), store.url.scheme != scheme) {
            let wrong = ValueError::new(format!("goes with {of}:// only"));
            value.report(reader, wrong.hint("remove it"));
        }
    }
    // The client's own words, for example about a missing account.
    if let Err(why) = Origins::check(&store.settings()) {
        reader.report(&files.spot, ValueError::new(why).hint("see docs/object-stores.md"));
    }
}

/// Reports keys of a mount that need a directory. Their values without effect are allowed, because
/// a printed configuration has them.
pub(super) fn refuse_keys_of_directories(
    mount: &Table<'_>,
    files: &Files,
    reader: &mut Reader<'_>,
) {
    let rows = [
        (files.symlinks != Symlinks::WithinRoot, "symlinks", "a store has no symbolic links"),
        (files.archive.is_some(), "archive", "archives are made of directories only"),
        (!files.dictionaries.is_empty(), "dictionary", "dictionaries are files of a directory"),
    ];
    for (has_effect, name, why) in rows {
        if let (true, Some(value)) = (has_effect, mount.get(name)) {
            value.report(reader, ValueError::new(why).hint("remove it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::check;

    #[test]
    fn a_build_without_object_stores_says_how_to_get_them() {
        let text =
            "[[site]]\n[[site.mount]]\nfiles = \"s3://b\"\nobject_store = { cache_dir = \"c\" }\n";
        let problems = check(text, Path::new("/etc/hurtle/hurtle.toml")).err().unwrap_or_default();
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let expected = "/etc/hurtle/hurtle.toml:3:9: site[0].mount[0].files: this hurtle was built without \
                        object stores; build it with cargo build --release --features object-store";
        let expected = if hurtle_objects::IS_BUILT { &[][..] } else { &[expected] };
        assert_eq!(problems, expected);
    }
}
