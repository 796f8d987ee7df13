//! Media types by file-name extension. The operator's own table takes precedence and belongs to the
//! caller.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The media type for an unknown extension.
pub const DEFAULT: &str = "application/octet-stream";

/// Corrections for extensions that `mime_guess` does not know or maps to a type the web does not
/// use.
const CORRECTIONS: &[(&str, &str)] = &[
    // RFC 9239: the registered type of JavaScript.
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("cjs", "text/javascript; charset=utf-8"),
    // RFC 7763 requires a charset.
    ("md", "text/markdown; charset=utf-8"),
    // Source maps are JSON (ECMA-426).
    ("map", "application/json"),
    ("webmanifest", "application/manifest+json"),
    ("wasm", "application/wasm"),
    ("avif", "image/avif"),
    ("webp", "image/webp"),
    // RFC 8081: the top-level type `font`.
    ("otf", "font/otf"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    // On the web these are media segments (RFC 8216), not translations or TypeScript.
    ("ts", "video/mp2t"),
    ("mts", "video/mp2t"),
    // RFC 8216 section 10.
    ("m3u8", "application/vnd.apple.mpegurl"),
    // RFC 6713: a compressed tar archive is gzip.
    ("tgz", "application/gzip"),
    // RFC 6350 section 10.1.
    ("vcf", "text/vcard; charset=utf-8"),
    ("rpm", "application/x-rpm"),
    ("usdz", "model/vnd.usdz+zip"),
];

/// The text types of `mime_guess`, each with its charset. They are built once, so that all types
/// are `'static`.
static TEXT: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
    let extensions = mime_guess::get_mime_extensions_str("text/*").unwrap_or_default();
    let types = extensions.iter().filter_map(|ext| mime_guess::from_ext(ext).first_raw());
    types.map(|text| (text, format!("{text}; charset=utf-8"))).collect()
});

/// Media type of files with this extension (lower case, without the dot), ready for Content-Type.
/// Text types have the charset UTF-8; types that define their own encoding (JSON, SVG) have none.
/// `None` if the extension is unknown; see [`DEFAULT`].
pub fn of_extension(ext: &str) -> Option<&'static str> {
    if let Some((_, corrected)) = CORRECTIONS.iter().find(|(known, _)| *known == ext) {
        return Some(corrected);
    }
    let guessed = mime_guess::from_ext(ext).first_raw()?;
    Some(TEXT.get(guessed).map_or(guessed, String::as_str))
}

/// True if a media type (parameters allowed) matches a pattern: `type/subtype`, `type/*`, or
/// `*+suffix` for a structured syntax suffix (RFC 6839). Case does not matter.
pub fn matches(pattern: &str, media_type: &[u8]) -> bool {
    let end = media_type.iter().position(|&b| b == b';').unwrap_or(media_type.len());
    let essence = media_type[..end].trim_ascii();
    let (pattern, whole) = (pattern.as_bytes(), essence);
    if let Some(kind) = pattern.strip_suffix(b"*") {
        return whole.get(..kind.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(kind));
    }
    if let Some(suffix) = pattern.strip_prefix(b"*") {
        let from = whole.len().checked_sub(suffix.len());
        return from.is_some_and(|from| whole[from..].eq_ignore_ascii_case(suffix));
    }
    whole.eq_ignore_ascii_case(pattern)
}

/// Extension of a path's last segment, in lower case; empty if there is none.
pub fn extension(path: &[u8]) -> Cow<'_, str> {
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    let extension = name.iter().rposition(|&b| b == b'.').map(|dot| &name[dot + 1..]);
    let extension = extension.and_then(|e| std::str::from_utf8(e).ok()).unwrap_or("");
    match extension.bytes().any(|b| b.is_ascii_uppercase()) {
        true => Cow::Owned(extension.to_ascii_lowercase()),
        false => Cow::Borrowed(extension),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let rows = [
            ("the type itself", "text/html", "text/html", true),
            ("with a parameter", "text/html", "text/html; charset=utf-8", true),
            ("in any case", "text/html", "Text/HTML ;x=y", true),
            ("another subtype", "text/html", "text/htm", false),
            ("a longer subtype", "text/html", "text/html5", false),
            ("every subtype", "text/*", "text/css", true),
            ("of that type only", "text/*", "texts/css", false),
            ("a suffix", "*+json", "application/ld+json; profile=x", true),
            ("only at the end", "*+json", "application/ld+jsonp", false),
            ("the type without its suffix", "*+json", "application/json", false),
            ("a suffix in a parameter", "*+json", "image/png; x=a+json", false),
            ("nothing", "text/*", "", false),
        ];
        for (why, pattern, media_type, expected) in rows {
            let matched = matches(pattern, media_type.as_bytes());
            assert_eq!(matched, expected, "{why}: {pattern} {media_type}");
        }
    }

    #[test]
    fn extensions() {
        let rows = [
            ("a page", "html", Some("text/html; charset=utf-8")),
            ("a page with a short name", "htm", Some("text/html; charset=utf-8")),
            ("a style sheet", "css", Some("text/css; charset=utf-8")),
            ("a script", "js", Some("text/javascript; charset=utf-8")),
            ("a module", "mjs", Some("text/javascript; charset=utf-8")),
            ("plain text", "txt", Some("text/plain; charset=utf-8")),
            ("Markdown", "md", Some("text/markdown; charset=utf-8")),
            ("a table", "csv", Some("text/csv; charset=utf-8")),
            ("JSON is UTF-8 by definition", "json", Some("application/json")),
            ("a source map", "map", Some("application/json")),
            ("a web app's manifest", "webmanifest", Some("application/manifest+json")),
            ("SVG names its own encoding", "svg", Some("image/svg+xml")),
            ("WebAssembly", "wasm", Some("application/wasm")),
            ("a font", "woff2", Some("font/woff2")),
            ("an older font", "woff", Some("font/woff")),
            ("AVIF", "avif", Some("image/avif")),
            ("WebP", "webp", Some("image/webp")),
            ("JPEG", "jpg", Some("image/jpeg")),
            ("PNG", "png", Some("image/png")),
            ("an icon", "ico", Some("image/x-icon")),
            ("a film", "mp4", Some("video/mp4")),
            ("a segment of one", "ts", Some("video/mp2t")),
            ("PDF", "pdf", Some("application/pdf")),
            ("an archive", "gz", Some("application/gzip")),
            ("an unknown extension", "nosuchtype", None),
            ("no extension", "", None),
        ];
        for (why, ext, expected) in rows {
            assert_eq!(of_extension(ext), expected, "{why}: {ext}");
        }
    }

    #[test]
    fn every_text_type_has_a_charset() {
        for ext in mime_guess::get_mime_extensions_str("*/*").unwrap() {
            let media_type = of_extension(ext).unwrap();
            let is_text = media_type.starts_with("text/");
            assert_eq!(is_text, media_type.contains("charset="), "{ext}: {media_type}");
        }
    }
}
