//! Leaves out of a store's listing the keys that no URL reaches: those with empty segments, dot
//! segments or control characters. The stores' clients refuse a whole listing for one such key, so
//! it is removed from the text of the response.

use bytes::Bytes;
use object_store::path::Path;

/// The elements of a listing that describe a key or a prefix (of S3 and Google, then of Azure), and
/// the elements in them that name it.
const ENTRIES: [(&str, &str); 4] =
    [("Contents", "Key"), ("CommonPrefixes", "Prefix"), ("Blob", "Name"), ("BlobPrefix", "Name")];

/// `true` if a request with this query is for a listing.
pub(crate) fn is_listing(query: &str) -> bool {
    query.split('&').any(|parameter| matches!(parameter, "list-type=2" | "comp=list"))
}

/// Returns a listing without the keys that no URL reaches.
pub(crate) fn reachable(listing: Bytes) -> Bytes {
    match std::str::from_utf8(&listing) {
        Ok(text) => filtered(text).into(),
        // The client names the error.
        Err(_) => listing,
    }
}

fn filtered(listing: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(listing.len()), listing);
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        kept.push_str(before);
        let found = ENTRIES.iter().find_map(|(name, key)| entry(tag, name, key));
        // Everything else is kept, tag by tag.
        let (len, is_kept) = found.map_or((1, true), |(len, key)| (len, is_reachable(key)));
        let (taken, after) = tag.split_at(len);
        if is_kept {
            kept.push_str(taken);
        }
        rest = after;
    }
    kept + rest
}

/// Returns the length of the element that begins here, and the key in it, as it is written. `None`:
/// another element begins here.
fn entry<'t>(text: &'t str, name: &str, key: &str) -> Option<(usize, &'t str)> {
    let inner = text.strip_prefix('<')?.strip_prefix(name)?.strip_prefix('>')?;
    let (inner, _) = inner.split_once(&format!("</{name}>"))?;
    let (_, named) = inner.split_once(&format!("<{key}>"))?;
    let (named, _) = named.split_once(&format!("</{key}>"))?;
    Some((inner.len() + 2 * name.len() + "<></>".len(), named))
}

fn is_reachable(key: &str) -> bool {
    Path::parse(resolved(key)).is_ok()
}

/// Resolves references to characters by their numbers, such as `&#13;`. Names, such as `&amp;`, are
/// of characters that any key may have.
fn resolved(key: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(key.len()), key);
    while let Some((before, reference)) = rest.split_once("&#") {
        let Some((number, after)) = reference.split_once(';') else { break };
        text.push_str(before);
        let number = match number.strip_prefix('x') {
            Some(number) => u32::from_str_radix(number, 16),
            None => number.parse(),
        };
        text.extend(number.ok().and_then(char::from_u32));
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_url_reaches_are_left_out() {
        let table = [
            ("a key", "a/b.txt", true),
            ("dots in names", "a/.b/..c/d..", true),
            ("a marker of a directory", "a/", true),
            ("characters with names", "a &amp; b/&lt;c&gt;", true),
            ("an apostrophe by its number", "it&#39;s", true),
            ("a name like a reference", "a&amp;#10;", true),
            ("an empty segment", "a//b", false),
            ("a dot segment", "a/./b", false),
            ("a parent segment", "a/../b", false),
            ("a parent segment at the end", "a/..", false),
            ("a marker with an empty segment", "a//", false),
            ("a line feed", "a\nb", false),
            ("a carriage return by its number", "a&#13;b", false),
            ("a line feed by its number", "a&#xA;b", false),
        ];
        for (sentence, key, is_kept) in table {
            for (name, of_key) in ENTRIES {
                let entry = format!("<{name}><Size>1</Size><{of_key}>{key}</{of_key}></{name}>");
                let (head, tail) = ("<?xml version=\"1.0\"?><All><Prefix>a/</Prefix>", "</All>\n");
                let listing = format!("{head}{entry}<B>{entry}{entry}</B>{tail}");
                let rest = if is_kept { listing.clone() } else { format!("{head}<B></B>{tail}") };
                assert_eq!(reachable(listing.into()), rest, "{sentence}: {name}");
            }
        }
    }

    #[test]
    fn other_responses_stay_as_they_are() {
        let table: [&[u8]; 5] =
            [b"", b"<", b"a < b <Contents>", b"<Blob><Name>a//b</Blob>", b"<Key>a//b</Key>\xff"];
        for text in table {
            assert_eq!(reachable(Bytes::from_static(text)), text, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn listings_are_known_by_their_query() {
        assert!(is_listing("delimiter=%2F&list-type=2&prefix=a%2F"));
        assert!(is_listing("restype=container&comp=list"));
        assert!(!is_listing("comp=blocklist") && !is_listing("prefix=list-type=2"));
    }
}
