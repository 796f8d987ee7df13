//! Former versions of files as compression dictionaries (RFC 9842). The versions of a file are
//! those of its directory whose names match a pattern. They are listed and hashed on the
//! compressor's threads when a client first names a hash that is not known, and again if another
//! one does.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::ACCESS_CONTROL_ALLOW_ORIGIN;
use http::{HeaderName, HeaderValue};
use hurtle_http::semantics::fields::trim_ows;
use hurtle_http::semantics::glob;
use hurtle_http::semantics::target::encode_path;
use rustix::fs::{Dir, OFlags};

use super::answer::FileQuery;
use super::entry::MadeVariant;
use super::listing::visible;
use super::lookup::{Lookup, State, read_full};
use crate::body::{OpenFile, Stamp};
use crate::clock;
use crate::compress::{Compressor, Dictionary, DictionaryHash};
use crate::config;

/// Versions under one pattern that serve as dictionaries: those that were modified last. A file in
/// the file cache has differences to as many.
pub(crate) const VERSIONS_MAX: usize = 8;

/// Size of the largest version that serves as a dictionary, in bytes.
pub(crate) const VERSION_BYTES_MAX: u64 = 16 << 20;

/// Size of all versions under one pattern, in bytes: they are read to be hashed.
pub(crate) const VERSIONS_BYTES_MAX: u64 = 64 << 20;

/// Names in a directory that are compared with the pattern.
const NAMES_MAX: usize = 10_000;

/// Names that match the pattern, and are looked up.
const MATCHES_MAX: usize = 1_000;

/// Time between two listings of a pattern's versions, in milliseconds. A client can name hashes
/// that no file has.
const LIST_EVERY_MS: u64 = 5_000;

/// The patterns of a mount.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Vec<Arc<Versions>>);

/// The versions under a pattern.
#[derive(Debug)]
pub(crate) struct Versions {
    /// The directory beneath the root; empty or with a trailing `/`.
    directory: Vec<u8>,
    /// Pattern of the names.
    name: String,
    id: Option<String>,
    dotfiles: bool,
    state: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    versions: Vec<Version>,
    /// Time of the last listing that has begun, in milliseconds.
    at_ms: Option<u64>,
    is_running: bool,
}

/// A file that clients may have.
#[derive(Clone, Debug)]
struct Version {
    /// Its path beneath the root.
    path: Vec<u8>,
    stamp: Stamp,
    hash: DictionaryHash,
}

impl Patterns {
    /// Takes the patterns of a mount, which serves names with a leading dot if `dotfiles` is set.
    pub(crate) fn new(config: &[config::Dictionary], dotfiles: bool) -> Patterns {
        let versions = |pattern: &config::Dictionary| {
            let at = pattern.pattern.rfind('/').map_or(0, |slash| slash + 1);
            let (directory, name) = pattern.pattern.split_at(at);
            Arc::new(Versions {
                directory: directory.as_bytes().to_vec(),
                name: name.to_owned(),
                id: pattern.id.clone(),
                dotfiles,
                state: Mutex::default(),
            })
        };
        Patterns(config.iter().map(versions).collect())
    }

    /// Returns the versions that the file at `path` beneath the root is one of.
    pub(crate) fn of(&self, path: &[u8]) -> Option<&Arc<Versions>> {
        self.0.iter().find(|versions| {
            let name = path.strip_prefix(&versions.directory[..]);
            name.is_some_and(|name| !name.contains(&b'/') && glob::matches(&versions.name, name))
        })
    }
}

impl Versions {
    /// The value of Use-As-Dictionary in a mount with this path, which ends in `/` (RFC 9842
    /// section 2.1).
    pub(crate) fn field(&self, mount: &[u8]) -> Option<HeaderValue> {
        let directory = literal(&[mount, &self.directory].concat());
        let name: Vec<String> = self.name.split('*').map(|part| literal(part.as_bytes())).collect();
        let pattern = quoted(&(directory + &name.join("*")));
        let id = self.id.as_ref().map_or(String::new(), |id| format!(", id={}", quoted(id)));
        HeaderValue::from_str(&format!("match={pattern}{id}")).ok()
    }

    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, hash: &DictionaryHash) -> Option<Version> {
        self.lock().versions.iter().find(|version| version.hash == *hash).cloned()
    }

    /// Returns whether a listing may begin, and notes that it does.
    fn begin(&self) -> bool {
        let now_ms = clock::now_ms();
        let mut listed = self.lock();
        let is_due = listed.at_ms.is_none_or(|at_ms| now_ms - at_ms.min(now_ms) >= LIST_EVERY_MS);
        let begins = is_due && !listed.is_running;
        if begins {
            listed.is_running = true;
            listed.at_ms = Some(now_ms);
        }
        begins
    }

    /// Lists and hashes the versions. Files that cannot be read, or change meanwhile, are omitted.
    fn list(&self, lookup: &Lookup, compressor: &Compressor) -> io::Result<Vec<Version>> {
        let directory = self.directory.strip_suffix(b"/").unwrap_or(&self.directory);
        let names = Dir::new(lookup.open_directory(directory)?)?;
        let root = lookup.root.open()?;
        let (mut found, mut matches) = (Vec::new(), 0);
        for entry in names.take(NAMES_MAX) {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !visible(name, self.dotfiles) || !glob::matches(&self.name, name) {
                continue;
            }
            matches += 1;
            if matches > MATCHES_MAX {
                break;
            }
            let path = [&self.directory[..], name].concat();
            if let Ok(State::File(stamp)) = lookup.state(&root, &path)
                && (1..=VERSION_BYTES_MAX).contains(&stamp.len)
            {
                found.push((path, stamp));
            }
        }
        found.sort_by_key(|(_, stamp)| Reverse((stamp.modified_ns, stamp.changed_ns)));
        let (mut versions, mut bytes) = (Vec::new(), 0);
        for (path, stamp) in found.into_iter().take(VERSIONS_MAX) {
            bytes += stamp.len;
            if bytes > VERSIONS_BYTES_MAX {
                break;
            }
            if let Ok(hash) = compressor.hash(stamp, || read(lookup, &path, stamp)) {
                versions.push(Version { path, stamp, hash });
            }
        }
        Ok(versions)
    }
}

/// A listing that runs. However it ends, another one may begin.
struct Listing(Arc<Versions>);

impl Drop for Listing {
    fn drop(&mut self) {
        self.0.lock().is_running = false;
    }
}

/// The differences of a file to former versions.
#[derive(Debug)]
pub(crate) struct Differences {
    versions: Arc<Versions>,
    lookup: Arc<Lookup>,
    variants: [OnceCell<(DictionaryHash, MadeVariant)>; VERSIONS_MAX],
}

impl Differences {
    /// Creates the differences of a file that `lookup` found.
    pub(crate) fn new(versions: &Arc<Versions>, lookup: &Arc<Lookup>) -> Differences {
        let (versions, lookup) = (Arc::clone(versions), Arc::clone(lookup));
        Differences { versions, lookup, variants: Default::default() }
    }

    /// The difference to the version with this hash, which may not be made yet. `None`: there is no
    /// such version, or there are differences to `VERSIONS_MAX` others.
    pub(super) fn variant(&self, hash: &DictionaryHash) -> Option<&MadeVariant> {
        let is_for = |slot: &&OnceCell<(DictionaryHash, MadeVariant)>| {
            slot.get().is_none_or(|(known, _)| known == hash)
        };
        let slot = self.variants.iter().find(is_for)?;
        if slot.get().is_none() {
            self.versions.find(hash)?;
        }
        Some(&slot.get_or_init(|| (*hash, MadeVariant::default())).1)
    }

    /// The differences that `variant` has returned so far; some may not be made yet.
    pub(super) fn variants(&self) -> impl Iterator<Item = &MadeVariant> {
        self.variants.iter().filter_map(|slot| slot.get().map(|(_, variant)| variant))
    }

    /// The version with this hash, for encoding.
    pub(super) fn dictionary(&self, hash: &DictionaryHash) -> Option<Dictionary> {
        Some(self.versions.find(hash)?.dictionary(&self.lookup))
    }

    /// Lists the versions in the background, unless that was done lately. If one has this hash, the
    /// difference of `file` to it is made next.
    pub(super) fn look_for(
        &self,
        compressor: &Compressor,
        file: &Arc<OpenFile>,
        hash: DictionaryHash,
    ) {
        if !self.versions.begin() {
            return;
        }
        let listing = Listing(Arc::clone(&self.versions));
        let (lookup, file) = (Arc::clone(&self.lookup), Arc::clone(file));
        let encoder = compressor.clone();
        compressor.begin(move || {
            let Listing(versions) = &listing;
            match versions.list(&lookup, &encoder) {
                Ok(listed) => versions.lock().versions = listed,
                Err(error) => tracing::debug!("no versions of {}: {error}", versions.name),
            }
            if let Some(version) = versions.find(&hash) {
                let _ = encoder.encoding_with(&file, version.dictionary(&lookup));
            }
        });
    }
}

impl Version {
    fn dictionary(self, lookup: &Arc<Lookup>) -> Dictionary {
        let Version { path, stamp, hash } = self;
        let lookup = Arc::clone(lookup);
        Dictionary { stamp, hash, load: Box::new(move || read(&lookup, &path, stamp)) }
    }
}

/// Reads a version in a state.
///
/// # Errors
/// The file cannot be read, or has another state.
fn read(lookup: &Lookup, path: &[u8], stamp: Stamp) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = lookup.open(&lookup.root.open()?, path, flags)?;
    let has_changed = || io::Error::new(io::ErrorKind::InvalidData, "the version has changed");
    if Stamp::of(&rustix::fs::fstat(&fd)?) != stamp {
        return Err(has_changed());
    }
    let file = OpenFile::new(fd, stamp, lookup.lane);
    let len = usize::try_from(stamp.len).map_err(|_| has_changed())?;
    let mut content = vec![0; len];
    if read_full(&file, &mut content)? < len || !file.is_unchanged() {
        return Err(has_changed());
    }
    Ok(content)
}

/// The hash that a client names in Available-Dictionary (RFC 9842 section 2.2). `None`: it has no
/// dictionary, or its channel or request admits none. `set`: the response's fields by header rules.
pub(super) fn client_dictionary(
    query: &FileQuery<'_>,
    set: &[(HeaderName, HeaderValue)],
) -> Option<DictionaryHash> {
    // RFC 9842 section 8 wants secure contexts. A range of a difference would be of use only to a
    // client that keeps parts of differences.
    if !query.is_private || query.range.is_some() {
        return None;
    }
    let value = field(query, b"available-dictionary")?;
    // A byte sequence, which may have parameters (RFC 9651 sections 3.1.2 and 3.3.5).
    let text = value.strip_prefix(b":")?;
    let end = text.iter().position(|&byte| byte == b':')?;
    if !matches!(text.get(end + 1), None | Some(b';')) || !is_readable(query, set) {
        return None;
    }
    STANDARD.decode(&text[..end]).ok()?.try_into().ok()
}

/// Returns whether the page that a browser requests the file for may read it (RFC 9842 section
/// 9.3.3).
fn is_readable(query: &FileQuery<'_>, set: &[(HeaderName, HeaderValue)]) -> bool {
    let value = |name| field(query, name);
    match (value(b"sec-fetch-site"), value(b"sec-fetch-mode")) {
        (None | Some(b"same-origin"), _) | (_, None | Some(b"navigate" | b"same-origin")) => true,
        (_, Some(b"cors")) => {
            let allowed = set.iter().find(|(name, _)| *name == ACCESS_CONTROL_ALLOW_ORIGIN);
            let (Some((_, allowed)), Some(origin)) = (allowed, value(b"origin")) else {
                return false;
            };
            allowed == "*" || allowed.as_bytes() == origin
        }
        _ => false,
    }
}

/// The value of a request field; `None`: it is absent, or there are several lines.
fn field<'a>(query: &FileQuery<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let lines = query.fields.iter();
    let mut values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    match (values.next(), values.next()) {
        (Some((_, value)), None) => Some(trim_ows(value)),
        _ => None,
    }
}

/// Encodes and escapes text so that a URL pattern matches it and nothing else.
fn literal(text: &[u8]) -> String {
    let mut out = String::new();
    for character in encode_path(text).chars() {
        if matches!(character, '+' | '*' | '?' | '(' | ')' | '{' | '}' | ':' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// Formats a string (RFC 9651 section 3.3.3).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use hurtle_http::request::RequestFields;

    use super::*;

    fn patterns(pattern: &str, id: Option<&str>) -> Patterns {
        let (pattern, id) = (pattern.to_owned(), id.map(str::to_owned));
        Patterns::new(&[config::Dictionary { pattern, id }], false)
    }

    #[test]
    fn a_pattern_is_of_one_directory() {
        let rows = [
            ("app.*.js", "app.1.js", true),
            ("app.*.js", "app..js", true),
            ("app.*.js", "js/app.1.js", false),
            ("app.*.js", "app.1.js.br", false),
            ("js/app.*.js", "js/app.1.js", true),
            ("js/app.*.js", "js/a/app.1.js", false),
            ("js/app.*.js", "app.1.js", false),
        ];
        for (pattern, path, expected) in rows {
            let found = patterns(pattern, None).of(path.as_bytes()).is_some();
            assert_eq!(found, expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_field_is_a_url_pattern_in_a_string() {
        let rows = [
            ("app.*.js", "/", None, r#"match="/app.*.js""#),
            ("js/app.*.js", "/assets/", Some("a"), r#"match="/assets/js/app.*.js", id="a""#),
            ("a+(b).*", "/c:d/", Some("\"\\"), r#"match="/c\\:d/a\\+\\(b\\).*", id="\"\\""#),
            ("\u{e9}{?}.*", "/", None, r#"match="/%C3%A9%7B%3F%7D.*""#),
        ];
        for (pattern, mount, id, expected) in rows {
            let patterns = patterns(pattern, id);
            assert_eq!(patterns.0[0].field(mount.as_bytes()).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn hashes_of_clients() {
        const HASH: &str = ":AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
        let rows = [
            ("a hash", HASH.to_owned(), true),
            ("parameters", format!("{HASH};a=1"), true),
            ("too short", ":AAAA:".to_owned(), false),
            ("no sequence", HASH.trim_matches(':').to_owned(), false),
            ("no end", HASH.trim_end_matches(':').to_owned(), false),
            ("something behind", format!("{HASH}x"), false),
            ("two lines", format!("{HASH}\r\nAvailable-Dictionary: {HASH}"), false),
            ("nothing", String::new(), false),
        ];
        for (why, value, expected) in rows {
            let lines = format!("Accept: */*\r\navailable-DICTIONARY: {value}\r\n\r\n");
            let fields = RequestFields::Lines(lines.as_bytes());
            let query = FileQuery { fields, is_private: true, ..FileQuery::default() };
            assert_eq!(client_dictionary(&query, &[]).is_some(), expected, "{why}");
            let query = FileQuery { is_private: false, ..query };
            assert_eq!(client_dictionary(&query, &[]), None, "{why}, in clear");
        }
    }

    #[test]
    fn pages_that_may_read_the_file() {
        let allows = |origin: &'static str| {
            [(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static(origin))]
        };
        let rows: &[(&str, &str, &[(HeaderName, HeaderValue)], bool)] = &[
            ("no browser", "", &[], true),
            ("the same origin", "Sec-Fetch-Site: same-origin|Sec-Fetch-Mode: no-cors", &[], true),
            ("a link", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate", &[], true),
            ("a script", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: no-cors", &allows("*"), false),
            ("cors", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: cors|Origin: http://a", &[], false),
            (
                "cors for all",
                "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: cors|Origin: http://a",
                &allows("*"),
                true,
            ),
            (
                "cors for it",
                "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: cors|Origin: http://a",
                &allows("http://a"),
                true,
            ),
            (
                "cors for another",
                "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: cors|Origin: http://a",
                &allows("http://b"),
                false,
            ),
            ("no origin", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: cors", &allows("*"), false),
        ];
        for (why, lines, set, expected) in rows {
            let lines = lines.replace('|', "\r\n") + "\r\n\r\n";
            let fields = RequestFields::Lines(lines.as_bytes());
            let query = FileQuery { fields, is_private: true, ..FileQuery::default() };
            assert_eq!(is_readable(&query, set), *expected, "{why}");
        }
    }
}
