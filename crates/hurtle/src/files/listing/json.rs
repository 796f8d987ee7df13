//! A page as JSON, for programs: the same entries in the same order as in `html`.

use serde::Serialize;

use super::text::{Href, Moment};
use super::{Entry, Kind, Page};

/// Writes a page as one JSON object (media type `application/json`, UTF-8).
///
/// Its members: `path`, `page` and `pages` (counted from 1), `total` (entries on all pages),
/// `truncated` (whether the directory holds more), and `entries`, each with `name`, `type`
/// (`directory` or `file`), `size` (bytes; null for a directory), `modified` (RFC 3339) and `href`
/// (relative to the listing). In `path` and `name`, what is not UTF-8 is U+FFFD; `href` always
/// leads to the entry.
pub fn json(page: &Page, url_path: &[u8]) -> Vec<u8> {
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
    modified: String,
    href: String,
}

impl From<&Entry> for Item {
    fn from(entry: &Entry) -> Item {
        let directory = entry.kind == Kind::Directory;
        Item {
            name: String::from_utf8_lossy(&entry.name).into(),
            kind: if directory { "directory" } else { "file" },
            size: (!directory).then_some(entry.size),
            modified: Moment::from_unix(entry.modified).to_string(),
            href: Href { name: &entry.name, directory }.to_string(),
        }
    }
}
