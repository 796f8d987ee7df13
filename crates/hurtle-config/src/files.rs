//! A directory, or a store of objects, whose files are served: the `files` key of a mount.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::{HeaderValue, StatusCode};

use super::archive::{Archive, archive};
use super::auth::Auth;
use super::bounds::{BYTES_MAX, FINAL_STATUS_MIN, STATUS_MAX};
use super::check_mount::index;
use super::dictionary::{Dictionary, dictionaries};
use super::error::{ValueError, shown};
use super::field::media_type;
use super::names::{Named, names};
use super::objects::{ObjectStore, is_object_url, object_store, refuse_keys_of_directories};
use super::otherwise;
use super::print;
use super::reader::Reader;
use super::schema::Kind::{Choice, Flag, List, Map, Size, Text};
use super::schema_mount::FILES;
use super::settings::settings;
use super::symlinks::{Symlinks, symlinks};
use super::table::Table;
use super::target::url_path;
use super::try_file::TryFile;
use super::uploads::{Uploads, uploads};
use super::value::Value;

/// Placeholder for the requested path in `try_files`.
const PATH_PLACEHOLDER: &str = "{path}";

settings! {
    /// A directory served as files.
    #[derive(Eq)]
    pub struct Files: FILES_KEYS with FILES {
        /// Paths tried in order; `{path}` is the requested path. A last `"=404"`, or another final
        /// status, ends the search.
        #[serde(serialize_with = "print::texts")]
        try_files: Vec<TryFile> = Vec::new(), List("paths"), "[\"{path}\", \"{path}.html\", \"=404\"]",
            by try_files;
        /// The page of a single-page application: sent (200) in place of 404 to clients that accept
        /// HTML, and for a name with an extension to those that name text/html in Accept; see
        /// [files.md](files.md#a-single-page-application).
        spa: Option<String> = None, Text("an absolute path"), "\"/index.html\"",
            or "off", by |v, r| v.parse(r, url_path).map(Some);
        /// List directories that have no index file.
        listing: bool = false, Flag, "true";
        /// Serve names that begin with a dot (`.well-known` always is).
        dotfiles: bool = false, Flag, "true";
        /// Send the `.br`, `.zst` or `.gz` file beside a file to clients that accept it.
        sidecars: bool = true, Flag, "false";
        /// Send such a file in place of one that is missing, too: to every client, with its
        /// Content-Encoding, as nginx's `gzip_static always` does.
        sidecars_alone: bool = false, Flag, "true";
        /// Source of entity-tags: size and modification time (the contents where that time is not
        /// the one of the last change, see [files.md](files.md)), always the contents, or no
        /// entity-tags.
        etag: EtagSource = EtagSource::default(), Choice(names::<EtagSource>), "\"content\"";
        /// Media types by file-name extension; they precede the built-in ones.
        #[serde(skip_serializing_if = "BTreeMap::is_empty", serialize_with = "print::media_types")]
        media_types: BTreeMap<String, HeaderValue> = BTreeMap::new(), Map("a table of extensions and media types"),
            "{ foo = \"text/x-foo\" }", or "the built-in ones", by media_types;
        /// Highest rate of one response, in bytes a second; 0: unlimited.
        #[serde(serialize_with = "print::size")]
        rate: u64 = 0, Size(0, BYTES_MAX), "\"2 MiB\"";
    }
    beside {
        /// The directory: absolute. It is looked up again at each revalidation, so it may be a
        /// symbolic link that moves.
        #[serde(rename = "files", serialize_with = "print::path")]
        root: PathBuf = PathBuf::new();
        /// The store whose objects are served, in place of a directory.
        #[serde(rename = "object_store")]
        objects: Option<Box<ObjectStore>> = None;
        /// File names tried, in order, for a request of a directory.
        index: Vec<String> = vec!["index.html".to_owned()];
        /// The name of the mount that handles requests for which there is no file.
        otherwise: Option<String> = None;
        /// Which symbolic links are followed.
        symlinks: Symlinks = Symlinks::default();
        /// Archives of listed directories; `None`: off.
        archive: Option<Archive> = None;
        /// Files whose former versions are compression dictionaries.
        #[serde(rename = "dictionary", skip_serializing_if = "Vec::is_empty")]
        dictionaries: Vec<Dictionary> = Vec::new();
        /// Settings of uploads; `None`: uploads are off.
        uploads: Option<Uploads> = None;
    }
}

/// Source of the entity-tags of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EtagSource {
    /// Size and modification time; the file's contents where that time is not the one of the last
    /// change, or a constant of reproducible builds.
    #[default]
    Auto,
    /// The file's contents.
    Content,
    /// Entity-tags are not sent.
    Off,
}

impl Named for EtagSource {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("content", Self::Content), ("off", Self::Off)];
}

impl Files {
    /// A directory with default settings; `root` must be absolute.
    pub fn new(root: PathBuf) -> Files {
        Files { root, ..Files::default() }
    }

    /// The directory of unfinished uploads; `None`: the mount takes no uploads.
    pub fn upload_dir(&self) -> Option<PathBuf> {
        self.uploads.as_ref()?;
        let of_store = self.objects.as_ref().map(|store| store.upload_dir());
        Some(of_store.unwrap_or_else(|| self.root.clone()))
    }
}

/// Reads the keys of a mount of files; `root` is the value of `files`.
pub(super) fn files(
    table: &Table<'_>,
    root: &Value<'_>,
    auth: Option<&Auth>,
    reader: &mut Reader<'_>,
) -> Option<Files> {
    let is_remote = is_object_url(root);
    let mut files = Files::read(table, reader);
    let f = &mut files;
    let directory = match is_remote {
        true => {
            f.objects = object_store(table, root, reader).map(Box::new);
            f.objects.as_ref().map(|store| PathBuf::from(store.url.to_string()))
        }
        false => root.directory(reader),
    };
    if let (Some(value), false) = (table.get("object_store"), is_remote) {
        let wrong =
            ValueError::new("goes with files = \"s3://...\", \"gs://...\" or \"az://...\" only");
        value.report(reader, wrong.hint("remove it"));
    }
    table.set("index", reader, index, &mut f.index);
    otherwise::set(table, f, reader);
    if let (Some(written), Some(TryFile::Status(_))) = (table.get("spa"), f.try_files.last()) {
        let wrong = ValueError::new("try_files ends with a status for these requests");
        written.report(reader, wrong.hint("remove one of the two"));
    }
    table.set("symlinks", reader, symlinks, &mut f.symlinks);
    if f.sidecars_alone
        && !f.sidecars
        && let Some(value) = table.get("sidecars_alone")
    {
        let wrong = ValueError::new("goes with `sidecars = true` only");
        value.report(reader, wrong.hint("remove `sidecars = false`"));
    }
    f.archive = archive(table, f, reader);
    f.dictionaries = dictionaries(table, f, reader);
    f.uploads = uploads(table, auth, reader);
    if is_remote {
        refuse_keys_of_directories(table, f, reader);
    }
    Some(Files { root: directory?, ..files })
}

fn try_files(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Vec<TryFile>> {
    let items = value.items(reader);
    let last = items.len().saturating_sub(1);
    let mut tried = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let Some(element) = item.parse(reader, try_file) else { continue };
        if i < last && matches!(element, TryFile::Status(_)) {
            let wrong = ValueError::new("a status ends the search, so what follows is never tried");
            item.report(reader, wrong.hint("put it last"));
        }
        tried.push(element);
    }
    Some(tried)
}

fn try_file(text: &str) -> Result<TryFile, ValueError> {
    if let Some(status) = text.strip_prefix('=') {
        let known = status.parse::<u16>().ok().filter(|n| {
            status.len() == 3 && (FINAL_STATUS_MIN..=STATUS_MAX).contains(&u64::from(*n))
        });
        let known = known.and_then(|n| StatusCode::from_u16(n).ok()).map(TryFile::Status);
        return known.ok_or_else(|| {
            ValueError::new(format!("{} is not = and a final status", shown(text)))
                .hint("write for example \"=404\"")
        });
    }
    let around = text.replace(PATH_PLACEHOLDER, "x");
    if around.contains(['{', '}', '$']) {
        return Err(ValueError::new(format!("{} has an unknown placeholder", shown(text)))
            .hint(format!("the only one is {PATH_PLACEHOLDER}, the requested path")));
    }
    // The requested path begins with a slash, which it shares with the text before it.
    let beside_slash = format!("/{PATH_PLACEHOLDER}");
    let filled = text.replace(&beside_slash, PATH_PLACEHOLDER).replace(PATH_PLACEHOLDER, "/x");
    url_path(&filled)?;
    Ok(TryFile::Path(text.to_owned()))
}

fn media_types(
    value: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<BTreeMap<String, HeaderValue>> {
    let mut types = BTreeMap::new();
    for (extension, spot, value) in value.pairs(reader) {
        let plain = extension.trim_start_matches(['.', '*']).to_lowercase();
        if extension != plain || plain.is_empty() || plain.contains(['.', '/', '\0']) {
            let wrong = ValueError::new("not a file-name extension in lower case, without its dot");
            reader.report(&spot, wrong.hint("write it as in foo = \"text/x-foo\""));
        }
        types.extend(value.parse(reader, media_type).map(|value| (plain, value)));
    }
    Some(types)
}
