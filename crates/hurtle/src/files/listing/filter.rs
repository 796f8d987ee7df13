//! Selects the entries of a listing whose names contain a text.

use std::sync::Arc;

use memchr::memmem::Finder;

use super::{Kind, Listing, NAME_BYTES_MAX};

/// A text that names must contain; ASCII letters match in either case. The empty text selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(Box<[u8]>);

impl Filter {
    /// Parses `filter=TEXT` of a query in the encoding of forms; of repeated ones the last counts.
    pub(crate) fn from_query(query: Option<&[u8]>) -> Filter {
        let pairs = query.unwrap_or_default().split(|byte| *byte == b'&');
        let text = pairs.filter_map(|pair| pair.strip_prefix(b"filter=")).next_back();
        Filter(text.map(form_decoded).unwrap_or_default().into())
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.0
    }

    /// True if all entries are selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The selected entries of a listing, which shares its names.
    pub(crate) fn apply(&self, listing: &Listing) -> Listing {
        let text = self.0.to_ascii_lowercase();
        let finder = Finder::new(&text);
        let mut folded = Vec::with_capacity(NAME_BYTES_MAX);
        let mut contains = |name: &[u8]| {
            folded.clear();
            folded.extend(name.iter().map(u8::to_ascii_lowercase));
            finder.find(&folded).is_some()
        };
        let order = listing.order.iter().copied();
        let order: Box<[u32]> = order.filter(|at| contains(listing.names.at(*at).1)).collect();
        let directories = order.partition_point(|at| listing.names.at(*at).0 == Kind::Directory);
        let names = Arc::clone(&listing.names);
        Listing { names, order, directories, truncated: listing.truncated }
    }
}

/// Decodes a value of a form (WHATWG URL, application/x-www-form-urlencoded). An incomplete escape
/// is literal.
fn form_decoded(value: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, digit(tail.first()), digit(tail.get(1))) {
            (b'%', Some(high), Some(low)) => {
                // Two hexadecimal digits fit a byte.
                decoded.push((high << 4 | low) as u8);
                rest = &tail[2..];
            }
            (b'+', ..) => decoded.push(b' '),
            _ => decoded.push(*first),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::listing::tests::listing_of;

    #[test]
    fn a_filter_is_parsed() {
        let rows: [(&[u8], &[u8]); 7] = [
            (b"filter=a", b"a"),
            (b"sort=size&filter=a+b%2Bc&order=desc", b"a b+c"),
            (b"filter=a&filter=b", b"b"),
            (b"filter=", b""),
            (b"filter", b""),
            (b"filter=%C3%a9%", "é%".as_bytes()),
            (b"filter=%zz%4", b"%zz%4"),
        ];
        for (query, expected) in rows {
            assert_eq!(Filter::from_query(Some(query)).text(), expected);
        }
        assert!(Filter::from_query(None).is_empty());
    }

    #[test]
    fn names_that_contain_the_text_are_selected() {
        let listing =
            listing_of([&b"Report/"[..], b"other/", b"a-report.txt", b"b", b"REPORT", b"repor"]);
        let selected = Filter(b"rePort"[..].into()).apply(&listing);
        let names: Vec<_> = (0..selected.len()).map(|at| selected.name(at)).collect();
        assert_eq!(names, [&b"Report"[..], b"a-report.txt", b"REPORT"]);
        assert_eq!(selected.directories(), 1);
        assert_eq!(Filter(b"/"[..].into()).apply(&listing).len(), 0, "a slash is in no name");
    }
}
