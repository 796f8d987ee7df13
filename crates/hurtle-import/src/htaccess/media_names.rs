//! Extensions of names by media type, for directives that select responses by their types.

use std::collections::BTreeMap;

use hurtle_http::semantics::media;

/// Extensions of files on the web.
const EXTENSIONS: &[&str] = &[
    "aac",
    "appcache",
    "atom",
    "avif",
    "avifs",
    "bmp",
    "css",
    "csv",
    "cur",
    "doc",
    "docx",
    "eot",
    "flac",
    "gif",
    "htm",
    "html",
    "ico",
    "ics",
    "jpe",
    "jpeg",
    "jpg",
    "js",
    "json",
    "jsonld",
    "m4a",
    "m4v",
    "manifest",
    "map",
    "mjs",
    "mov",
    "mp3",
    "mp4",
    "mpeg",
    "mpg",
    "oga",
    "ogg",
    "ogv",
    "opus",
    "otf",
    "pdf",
    "png",
    "rdf",
    "rss",
    "svg",
    "svgz",
    "swf",
    "tif",
    "tiff",
    "ttc",
    "ttf",
    "txt",
    "vcf",
    "vtt",
    "wasm",
    "wav",
    "webm",
    "webmanifest",
    "webp",
    "woff",
    "woff2",
    "xhtml",
    "xml",
    "zip",
];

/// Other names of types.
const SYNONYMS: &[(&str, &str)] = &[
    ("application/font-woff", "font/woff"),
    ("application/font-woff2", "font/woff2"),
    ("application/javascript", "text/javascript"),
    ("application/vnd.microsoft.icon", "image/x-icon"),
    ("application/x-font-otf", "font/otf"),
    ("application/x-font-ttf", "font/ttf"),
    ("application/x-font-woff", "font/woff"),
    ("application/x-javascript", "text/javascript"),
    ("application/xml", "text/xml"),
    ("font/opentype", "font/otf"),
    ("font/truetype", "font/ttf"),
    ("font/x-woff", "font/woff"),
    ("image/jpg", "image/jpeg"),
    ("image/vnd.microsoft.icon", "image/x-icon"),
    ("image/ico", "image/x-icon"),
    ("image/icon", "image/x-icon"),
    ("text/x-javascript", "text/javascript"),
    ("application/x-font-opentype", "font/otf"),
    ("application/x-font-truetype", "font/ttf"),
];

/// Returns the extensions of files of a type, such as `image/png` or `image/*`. `types`: those of
/// the configuration, by extension.
pub(super) fn names_of(written: &str, types: &BTreeMap<String, String>) -> Vec<String> {
    let wanted = canonical(written);
    let of = |ext: &&str| {
        let own = types.get(*ext).map(String::as_str).or_else(|| media::of_extension(ext));
        let own = canonical(own.unwrap_or_default().split(';').next().unwrap_or_default());
        match wanted.strip_suffix("/*") {
            Some(begin) => own.split('/').next() == Some(begin),
            None => own == wanted,
        }
    };
    let known = EXTENSIONS.iter().copied();
    let added = types.keys().map(String::as_str).filter(|ext| !EXTENSIONS.contains(ext));
    known.chain(added).filter(of).map(str::to_owned).collect()
}

fn canonical(media: &str) -> &str {
    SYNONYMS.iter().find(|(other, _)| *other == media).map_or(media, |(_, name)| name)
}
