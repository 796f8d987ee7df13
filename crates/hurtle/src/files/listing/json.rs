//! Writes a page of a listing as JSON, with the same entries and order as `html`.

use serde::Serialize;

use super::text::{Href, UtcTime};
use super::{Entry, Kind, Page};

/// Writes a page as one JSON object (media type `application/json`, UTF-8).
///
/// Members: `path`, `page` and `pages` (counted from 1), `total` (entries on all pages),
/// `truncated` (the directory holds more), and `entries`. Each entry has `name`, `type`
/// (`directory` or `file`), `size` (bytes; null for a directory), `modified` (RFC 3339; null for a
/// prefix of an object store) and `href` (relative to the listing). In `path` and `name`, bytes
/// that are not UTF-8 become U+FFFD; `href` is always exact.
pub(crate) fn json(page: &Page, url_path: &[u8]) -> Vec<u8> {
    let document = Document {
        path: String::from_utf8_lossy(url_path).into(),
        page: page.view.page,
        pages: page.pages,
        total: page.total,
        truncated: page.truncated,
        entries: page.entries.iter().map(Item::from).collect(),
    };
    serde_json::to_vec(&document).expect("strings, numbers and booleans always have a JSON form")
}

#[derive(Serialize)]
struct Document {
    path: String,
    page: usize,
    pages: usize,
    total: usize,
    truncated: bool,
    entries: Vec<Item>,
}

#[derive(Serialize)]
struct Item {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    size: Option<u64>,
    modified: Option<String>,
    href: String,
}

impl From<&Entry> for Item {
    fn from(entry: &Entry) -> Item {
        let directory = entry.kind == Kind::Directory;
        Item {
            name: String::from_utf8_lossy(&entry.name).into(),
            kind: if directory { "directory" } else { "file" },
            size: (!directory).then_some(entry.size),
            modified: entry.modified.map(|secs| UtcTime::from_unix(secs).to_string()),
            href: Href { name: &entry.name, directory }.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;
    use crate::files::listing::View;

    #[test]
    fn a_page_as_json() {
        let entry = |name: &[u8], kind, size, modified| Entry {
            name: name.into(),
            kind,
            size,
            modified: Some(modified),
        };
        let page = Page {
            view: View { page: 2, ..View::default() },
            pages: 3,
            total: 10_007,
            directories: 1,
            truncated: false,
            entries: vec![
                entry(b"docs", Kind::Directory, 4096, 0),
                entry(b"a \"b\"\n.txt", Kind::File, 12, 784_111_777),
                entry(b"\xFF", Kind::File, u64::MAX, -1),
            ],
        };
        let document: serde_json::Value = serde_json::from_slice(&json(&page, b"/x\xFE/")).unwrap();
        let expected = value!({
            "path": "/x\u{FFFD}/", "page": 2, "pages": 3, "total": 10_007, "truncated": false,
            "entries": [
                { "name": "docs", "type": "directory", "size": null,
                  "modified": "1970-01-01T00:00:00Z", "href": "./docs/" },
                { "name": "a \"b\"\n.txt", "type": "file", "size": 12,
                  "modified": "1994-11-06T08:49:37Z", "href": "./a%20%22b%22%0A.txt" },
                { "name": "\u{FFFD}", "type": "file", "size": u64::MAX,
                  "modified": "1969-12-31T23:59:59Z", "href": "./%FF" },
            ],
        });
        assert_eq!(document, expected);
    }
}
