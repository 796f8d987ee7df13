//! The store that several servers share: Redis or Valkey. `hurtle::shared_store` connects to it.
//! Also files with secrets, which only the server's user may read.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::error::{ValueError, shown};
use super::reader::Reader;
use super::schema::DefaultValue::{Toml, Words};
use super::schema::Key;
use super::schema::Kind::Text;
use super::table::Table;
use super::upstream::{Upstream, origin};

/// The port of Redis.
const PORT: u16 = 6_379;

const SCHEME: &str = "redis://";
const SCHEME_TLS: &str = "rediss://";

/// Maximum length of a prefix of keys, in bytes.
const PREFIX_BYTES_MAX: usize = 64;

/// Maximum size of a file with a secret, in bytes.
const SECRET_BYTES_MAX: u64 = 4 << 10;

/// Bits of a mode that let others read or write, or the group write.
const OPEN_MODE: u32 = 0o027;

/// A store that other servers use too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The server; never a unix socket.
    pub server: Upstream,
    /// `true`: connections to the store use TLS.
    pub tls: bool,
    /// Name of the user; `None`: the default user.
    pub user: Option<String>,
    /// Number of the database.
    pub database: u32,
    /// File with the password; `None`: there is no password.
    pub password_file: Option<PathBuf>,
    /// PEM file of the trusted authorities; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// Beginning of the names of all keys.
    pub prefix: String,
}

/// Keys that need a store.
const WITH_STORE: &[&str] = &["store"];

#[rustfmt::skip] // One paragraph for each key.
pub(super) const STORE: Key = Key::new("store", Text("a URL"), Words("none"),
    "\"redis://10.0.0.5:6379\"",
    "Redis or Valkey that several servers share: rate limits hold over all of them, and purges reach all. `redis://HOST:PORT`, or `rediss://` with TLS; \
     `USER@` before the host and `/NUMBER` of a database behind it are optional. While it is \
     away, each server decides for itself. See [fleet.md](fleet.md).");

#[rustfmt::skip]
pub(super) const STORE_PASSWORD_FILE: Key = Key::new("store_password_file", Text("a file"),
    Words("none"), "\"/etc/hurtle/store.password\"",
    "File with the password of the store. Only its owner and its group may have access.")
    .with(WITH_STORE);

#[rustfmt::skip]
pub(super) const STORE_CA: Key = Key::new("store_ca", Text("a PEM file"), Words("the system's"),
    "\"/etc/hurtle/store-ca.pem\"", "Trusted authorities of a store with `rediss://`.")
    .with(WITH_STORE);

#[rustfmt::skip]
pub(super) const STORE_PREFIX: Key = Key::new("store_prefix", Text("a few characters"),
    Toml("\"hurtle:\""), "\"shop:\"",
    "Beginning of the names of all keys in the store. Servers with another prefix share nothing.")
    .with(WITH_STORE);

impl Store {
    /// The URL, without a password.
    pub fn url(&self) -> String {
        let scheme = if self.tls { SCHEME_TLS } else { SCHEME };
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let database =
            if self.database == 0 { String::new() } else { format!("/{}", self.database) };
        format!("{scheme}{user}{}{database}", self.server.plain())
    }
}

impl Serialize for Store {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("store", &self.url())?;
        map.serialize_entry("store_password_file", &text(&self.password_file))?;
        map.serialize_entry("store_ca", &text(&self.ca))?;
        map.serialize_entry("store_prefix", &self.prefix)?;
        map.end()
    }
}

/// Reads the keys of the store.
pub(super) fn store(top: &Table<'_>, reader: &mut Reader<'_>) -> Option<Store> {
    let mut store = top.get("store")?.parse(reader, url)?;
    if let Some(file) = top.get("store_password_file") {
        store.password_file = file.secret_file(reader);
    }
    top.set("store_ca", reader, |v, r| v.path(r).map(Some), &mut store.ca);
    if let Some(ca) = top.get("store_ca").filter(|_| !store.tls) {
        let wrong = ValueError::new("the store does not use TLS");
        ca.report(reader, wrong.hint("write rediss:// in its URL, or remove the key"));
    }
    top.set("store_prefix", reader, |v, r| v.parse(r, prefix), &mut store.prefix);
    Some(store)
}

/// Parses `redis://USER@HOST:PORT/DATABASE`.
fn url(text: &str) -> Result<Store, ValueError> {
    let hint = "write \"redis://127.0.0.1:6379\", or \"rediss://\" with TLS";
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text))).hint(hint);
    let (tls, rest) = match (text.strip_prefix(SCHEME_TLS), text.strip_prefix(SCHEME)) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(wrong("is not the URL of a store")),
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, rest),
    };
    if user.is_some_and(|user| user.contains(':')) {
        // The value is not repeated: it would be in logs.
        return Err(ValueError::new("the URL has a password")
            .hint("write it to a file of mode 0600, and name that in store_password_file"));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if user.is_some_and(|user| user.is_empty() || !user.bytes().all(plain)) {
        return Err(wrong("has no valid name of a user"));
    }
    let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
    let database = match database {
        "" => 0,
        number => number.parse().map_err(|_| wrong("has no number of a database as path"))?,
    };
    let server = origin(text, host, PORT).map_err(|_| wrong("has no host or no port"))?;
    Ok(Store {
        server,
        tls,
        user: user.map(str::to_owned),
        database,
        password_file: None,
        ca: None,
        prefix: "hurtle:".to_owned(),
    })
}

fn prefix(text: &str) -> Result<String, ValueError> {
    if text.len() > PREFIX_BYTES_MAX || !text.bytes().all(|b| b.is_ascii_graphic()) {
        let hint = format!("write at most {PREFIX_BYTES_MAX} letters, digits and marks");
        return Err(ValueError::new(format!("{} is not a prefix", shown(text))).hint(hint));
    }
    Ok(text.to_owned())
}

/// Reads a secret, without the line's end behind it.
///
/// # Errors
/// The reason, with the path: it is absent, empty or too large, or others may read it.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let file = File::open(path).map_err(|e| failed(&e))?;
    let mode = file.metadata().map_err(|e| failed(&e))?.mode();
    if mode & OPEN_MODE != 0 {
        let what =
            format!("its mode is {:04o}: others may read or change it; chmod 0600", mode & 0o777);
        return Err(failed(&what));
    }
    let mut secret = Vec::new();
    file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut secret).map_err(|e| failed(&e))?;
    if secret.len() as u64 > SECRET_BYTES_MAX {
        return Err(failed(&format!("more than {SECRET_BYTES_MAX} bytes")));
    }
    while secret.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
        secret.pop();
    }
    if secret.is_empty() { Err(failed(&"it is empty")) } else { Ok(secret) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_printed_and_wrong_ones_refused() {
        for (text, printed) in [
            ("redis://127.0.0.1:6379", Some("redis://127.0.0.1:6379")),
            ("redis://127.0.0.1", Some("redis://127.0.0.1:6379")),
            ("rediss://Store.internal:7000/3", Some("rediss://store.internal:7000/3")),
            ("redis://web@[::1]:1/0", Some("redis://web@[::1]:1")),
            ("redis://:secret@store", None),
            ("redis://web:secret@store", None),
            ("redis://@store", None),
            ("redis://store/a", None),
            ("redis://", None),
            ("http://store", None),
            ("store:6379", None),
        ] {
            let found = url(text);
            assert_eq!(found.as_ref().ok().map(Store::url).as_deref(), printed, "{text}");
            let problem = found.err().map(|wrong| wrong.what).unwrap_or_default();
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
