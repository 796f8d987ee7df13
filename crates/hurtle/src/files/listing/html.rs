//! Writes a page of a listing as HTML. It needs no JavaScript, loads nothing, and escapes all
//! names.

use std::fmt::{self, Display, Formatter};

use super::text::{Escaped, Grouped, Href, HumanSize, MarkedText, Text, UtcTime};
use super::{Entry, Kind, Page, Sort, View};

/// The Content-Security-Policy of a listing. It allows the built-in style sheet and scripts (by
/// their hashes), the built-in icon, and forms and uploads to this origin. It forbids everything
/// else, including framing.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
    style-src 'sha256-1XKB4tQj/v2+0XUB+0iYM/WWQT+QKX3PYKqzq01Jc8U='; \
    script-src 'sha256-ixGIkw8FT4UTLTKw8MmVh4Pohsw40Swa/iB5CXGQog8=' \
    'sha256-dyX2QSmTpaF5FTEWQC8zECq514UYLYSXJtQH1CPUsPM='; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The style sheet. The policy above pins its hash; if it changes, a test prints the new hash.
const STYLE: &str = include_str!("style.css");

/// Filters the rows while the user types; without it, the form asks the server.
const FILTER_SCRIPT: &str = include_str!("filter.js");

/// Uploads dropped and chosen files with PUT and shows the progress; without it, the form sends
/// them.
const UPLOAD_SCRIPT: &str = include_str!("upload.js");

/// The controls of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Controls<'a> {
    /// Text that the names of the page contain; empty: the page is not filtered.
    pub filter: &'a [u8],
    /// True if the directory can be downloaded as an archive.
    pub has_archives: bool,
    /// True if files can be uploaded to the directory.
    pub takes_uploads: bool,
}

/// A yellow folder.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 16 16'%3E%3Cpath fill='%23dda33b' d='M1 3h5l2 2h7v9H1z'/%3E%3C/svg%3E";

/// Writes a page as an HTML document (media type `text/html`, UTF-8).
///
/// `url_path` is the decoded path of the listing and ends in `/`. All references are relative, so
/// that they work behind a proxy that maps the site to another path.
pub(crate) fn html(page: &Page, url_path: &[u8], controls: &Controls<'_>) -> Vec<u8> {
    Document { page, url_path, controls }.to_string().into_bytes()
}

struct Document<'a> {
    controls: &'a Controls<'a>,
    page: &'a Page,
    url_path: &'a [u8],
}

impl Display for Document<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<!DOCTYPE html>\n\
            <html lang=\"en\">\n\
            <head>\n\
            <meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
            <meta name=\"color-scheme\" content=\"light dark\">\n\
            <title>Index of {}</title>\n\
            <link rel=\"icon\" href=\"{ICON}\">\n\
            <style>{STYLE}</style>\n\
            </head>\n\
            <body>\n\
            <main>\n",
            Text(self.url_path)
        )?;
        write_breadcrumbs(f, self.url_path)?;
        let filter = self.controls.filter;
        write_summary(f, self.page, filter)?;
        write_tools(f, self.page, self.controls)?;
        if self.controls.takes_uploads {
            f.write_str(UPLOAD_FORM)?;
        }
        write_pager(f, self.page, filter)?;
        write_table(f, self.page, filter, self.url_path != b"/")?;
        write_pager(f, self.page, filter)?;
        write!(f, "</main>\n<script>{FILTER_SCRIPT}</script>\n")?;
        if self.controls.takes_uploads {
            writeln!(f, "<script>{UPLOAD_SCRIPT}</script>")?;
        }
        f.write_str("</body>\n</html>\n")
    }
}

/// Writes the path; each parent directory is a link to its listing.
fn write_breadcrumbs(f: &mut Formatter<'_>, url_path: &[u8]) -> fmt::Result {
    let inner = url_path.strip_prefix(b"/").unwrap_or(url_path);
    let inner = inner.strip_suffix(b"/").unwrap_or(inner);
    let mut names: Vec<&[u8]> = vec![b"Home"];
    if !inner.is_empty() {
        names.extend(inner.split(|byte| *byte == b'/'));
    }
    f.write_str("<nav aria-label=\"Breadcrumb\"><h1>")?;
    for (at, name) in names.iter().enumerate() {
        let name = MarkedText(name);
        match names.len() - 1 - at {
            0 => write!(f, "<bdi aria-current=\"page\">{name}</bdi>")?,
            // An empty segment, as in `/a//b/`, is not shown but counts as a level.
            _ if name.0.is_empty() => {}
            up => {
                let href = "../".repeat(up);
                write!(f, "<a href=\"{href}\"><bdi>{name}</bdi></a><span>/</span>")?;
            }
        }
    }
    f.write_str("</h1></nav>\n")
}

/// Writes the number of entries, and a note if the listing is incomplete.
fn write_summary(f: &mut Formatter<'_>, page: &Page, filter: &[u8]) -> fmt::Result {
    let counted = |count: usize, noun: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{} {noun}{plural}", Grouped(count as u64))
    };
    let folders = counted(page.directories, "folder");
    let files = counted(page.total - page.directories, "file");
    match (page.directories, page.total - page.directories) {
        _ if !filter.is_empty() => {
            let all = Link(View { page: 1, ..page.view }, b"");
            let text = MarkedText(filter);
            writeln!(
                f,
                "<p>{folders}, {files} with <bdi>{text}</bdi> in the name. \
                <a href=\"{all}\">Show all</a></p>"
            )?;
        }
        (0, 0) => f.write_str("<p>This folder is empty.</p>\n")?,
        (0, _) => writeln!(f, "<p>{files}</p>")?,
        (_, 0) => writeln!(f, "<p>{folders}</p>")?,
        _ => writeln!(f, "<p>{folders}, {files}</p>")?,
    }
    if page.truncated {
        f.write_str(
            "<p class=\"few\">This folder holds more than can be listed; \
            the rest is left out.</p>\n",
        )?;
    }
    Ok(())
}

/// Writes the form that filters by name and the links to archives.
fn write_tools(f: &mut Formatter<'_>, page: &Page, controls: &Controls<'_>) -> fmt::Result {
    let Controls { filter, has_archives, .. } = controls;
    if page.total == 0 && filter.is_empty() {
        return Ok(());
    }
    write!(
        f,
        "<div class=\"tools\">\n<form class=\"filter\" role=\"search\">\
        <input type=\"search\" name=\"filter\" value=\"{}\" placeholder=\"Filter by name\" \
        aria-label=\"Filter by name\" maxlength=\"255\">",
        Text(filter)
    )?;
    // A form replaces the query, so it repeats the order.
    match page.view.sort {
        Sort::Name => {}
        Sort::Size => f.write_str("<input type=\"hidden\" name=\"sort\" value=\"size\">")?,
        Sort::Time => f.write_str("<input type=\"hidden\" name=\"sort\" value=\"time\">")?,
    }
    if page.view.descending {
        f.write_str("<input type=\"hidden\" name=\"order\" value=\"desc\">")?;
    }
    f.write_str("<button>Filter</button></form>\n")?;
    if *has_archives {
        f.write_str(
            "<span>Download all as <a href=\"?archive=zip\" rel=\"nofollow\">zip</a> \
            or <a href=\"?archive=tar\" rel=\"nofollow\">tar</a></span>\n",
        )?;
    }
    f.write_str("</div>\n")
}

/// The form that uploads files. `replace` precedes the files, because the server reads the parts in
/// order.
const UPLOAD_FORM: &str = "<form class=\"upload\" method=\"post\" \
    enctype=\"multipart/form-data\" action=\"./\">\n\
    <label>Upload files: <input type=\"file\" name=\"file\" multiple required></label>\n\
    <label><input type=\"checkbox\" name=\"replace\" value=\"1\"> Replace existing files</label>\n\
    <button>Upload</button>\n<small>Or drop files anywhere on this page.</small>\n</form>\n";

/// Writes links to the other pages; nothing if there is only one page.
fn write_pager(f: &mut Formatter<'_>, page: &Page, filter: &[u8]) -> fmt::Result {
    if page.pages == 1 {
        return Ok(());
    }
    let number = page.view.page;
    let link = |number| Link(View { page: number, ..page.view }, filter);
    f.write_str("<nav class=\"pages\" aria-label=\"Pages\">")?;
    if number > 1 {
        write!(f, "<a href=\"{}\">« First</a>", link(1))?;
        write!(f, "<a rel=\"prev\" href=\"{}\">‹ Previous</a>", link(number - 1))?;
    }
    let [first, last] = [*page.places().start(), *page.places().end()];
    let [first, last, total] = [first, last, page.total].map(|count| Grouped(count as u64));
    write!(f, "<span>{first}–{last} of {total}</span>")?;
    if number < page.pages {
        write!(f, "<a rel=\"next\" href=\"{}\">Next ›</a>", link(number + 1))?;
        write!(f, "<a href=\"{}\">Last »</a>", link(page.pages))?;
    }
    f.write_str("</nav>\n")
}

fn write_table(f: &mut Formatter<'_>, page: &Page, filter: &[u8], has_parent: bool) -> fmt::Result {
    f.write_str("<table>\n<thead><tr>")?;
    for (sort, title) in
        [(Sort::Name, "Name"), (Sort::Size, "Size"), (Sort::Time, "Modified<span> (UTC)</span>")]
    {
        write_column_head(f, page.view, filter, sort, title)?;
    }
    f.write_str("</tr></thead>\n<tbody>\n")?;
    if has_parent {
        f.write_str("<tr><td colspan=\"3\"><a href=\"../\">Parent folder</a></td></tr>\n")?;
    }
    for entry in &page.entries {
        write_row(f, entry)?;
    }
    f.write_str("</tbody>\n</table>\n")
}

/// Writes a column title that links to this order, or reverses the current one.
fn write_column_head(
    f: &mut Formatter<'_>,
    view: View,
    filter: &[u8],
    sort: Sort,
    title: &str,
) -> fmt::Result {
    let current = view.sort == sort;
    let aria_sort = match view.descending {
        _ if !current => "",
        true => " aria-sort=\"descending\"",
        false => " aria-sort=\"ascending\"",
    };
    // Names start in ascending order, sizes and times in descending order.
    let descending = if current { !view.descending } else { sort != Sort::Name };
    let link = Link(View { sort, descending, page: 1 }, filter);
    write!(f, "<th scope=\"col\"{aria_sort}><a href=\"{link}\">{title}</a></th>")
}

fn write_row(f: &mut Formatter<'_>, entry: &Entry) -> fmt::Result {
    let directory = entry.kind == Kind::Directory;
    let href = Href { name: &entry.name, directory };
    let (name, slash) = (MarkedText(&entry.name), if directory { "/" } else { "" });
    write!(f, "<tr><td><a href=\"{href}\"><bdi>{name}</bdi>{slash}</a></td>")?;
    match entry.kind {
        Kind::Directory => f.write_str("<td></td>")?,
        Kind::File => {
            let (exact, size) = (Grouped(entry.size), HumanSize(entry.size));
            let unit = if entry.size == 1 { "byte" } else { "bytes" };
            write!(f, "<td title=\"{exact} {unit}\">{size}</td>")?;
        }
    }
    let Some(modified) = entry.modified else { return f.write_str("<td></td></tr>\n") };
    let time = UtcTime::from_unix(modified);
    let (date, minute) = (time.date(), time.minute());
    writeln!(f, "<td><time datetime=\"{time}\">{date}<span> {minute}</span></time></td></tr>")
}

/// A relative reference to a filtered view of this directory, for an attribute. Default values are
/// omitted, so that each view has one address.
struct Link<'a>(View, &'a [u8]);

impl Display for Link<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let View { sort, descending, page } = self.0;
        if self.0 == View::default() && self.1.is_empty() {
            return f.write_str("./");
        }
        let mut separator = "?";
        let mut write = |pair: fmt::Arguments<'_>| {
            write!(f, "{}{pair}", std::mem::replace(&mut separator, "&amp;"))
        };
        match sort {
            Sort::Name => {}
            Sort::Size => write(format_args!("sort=size"))?,
            Sort::Time => write(format_args!("sort=time"))?,
        }
        if descending {
            write(format_args!("order=desc"))?;
        }
        if !self.1.is_empty() {
            write(format_args!("filter={}", Escaped(self.1)))?;
        }
        if page > 1 {
            write(format_args!("page={page}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::ffi::OsStringExt;

    use sha2::{Digest, Sha256};

    use super::*;
    use crate::files::listing::tests::Scratch;
    use crate::files::listing::{page, scan};

    fn page_of(entries: Vec<Entry>) -> Page {
        let directories = entries.iter().filter(|entry| entry.kind == Kind::Directory).count();
        let total = entries.len();
        Page { view: View::default(), pages: 1, total, directories, truncated: false, entries }
    }

    fn file(name: &[u8]) -> Entry {
        Entry { name: name.into(), kind: Kind::File, size: 12_345, modified: Some(784_111_777) }
    }

    fn document(page: &Page, url_path: &[u8]) -> String {
        String::from_utf8(html(page, url_path, &Controls::default())).unwrap()
    }

    /// Returns the values of all `href` attributes in the body, unescaped.
    fn hrefs(document: &str) -> Vec<String> {
        let body = document.split_once("<body>").unwrap().1;
        let after = body.split("href=\"").skip(1);
        after.map(|rest| rest.split_once('"').unwrap().0.replace("&amp;", "&")).collect()
    }

    #[test]
    fn the_policy_allows_the_style_sheet_and_the_scripts() {
        let texts =
            [("style.css", STYLE), ("filter.js", FILTER_SCRIPT), ("upload.js", UPLOAD_SCRIPT)];
        for (name, text) in texts {
            let source = format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())));
            assert!(CONTENT_SECURITY_POLICY.contains(&source), "{name} changed: pin {source}");
            assert!(!text.contains("</") && !text.contains("<!--") && !text.contains('\r'));
        }
    }

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let at = |index: usize| u32::from(*three.get(index).unwrap_or(&0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            let digit = |index| char::from(DIGITS[(bits >> (18 - 6 * index)) as usize % 64]);
            text.extend((0..4).map(|index| if index <= three.len() { digit(index) } else { '=' }));
        }
        text
    }

    #[test]
    fn every_name_is_one_link_to_its_entry() {
        let scratch = Scratch::new();
        let mut names: Vec<Vec<u8>> = (1..=255_u8)
            .filter(|byte| *byte != b'/')
            .map(|byte| [format!("{byte:03}").as_bytes(), &[byte]].concat())
            .collect();
        names.push((1..=255_u8).rev().filter(|byte| *byte != b'/').collect());
        names.extend(
            ["javascript:alert(1)", "a:b", "...", "%2e%2e", "?q", "#f", " x ", "\\\\evil", "&amp;"]
                .map(Vec::from),
        );
        let path = |name: &[u8]| scratch.path().join(OsString::from_vec(name.to_vec()));
        // Some file systems accept only UTF-8.
        names.retain(|name| fs::write(path(name), name).is_ok());
        let listing = scan(scratch.open(), true, &|_| true).unwrap();
        let shown = page(&listing, scratch.open(), &View::default(), &|_| true);
        let document = document(&shown, b"/");

        let hrefs = hrefs(&document);
        let entries = hrefs.iter().filter(|href| href.len() > 2 && href.starts_with("./"));
        let mut found: Vec<_> = entries.map(|href| percent_decoded(&href[2..])).collect();
        for name in &found {
            assert_eq!(&fs::read(path(name)).unwrap(), name);
        }
        found.sort_unstable();
        names.sort_unstable();
        assert_eq!(found, names);
        assert!(document.chars().all(|c| c == '\n' || !c.is_control()), "no control gets through");
    }

    fn percent_decoded(text: &str) -> Vec<u8> {
        let mut pieces = text.split('%');
        let mut bytes = pieces.next().unwrap().as_bytes().to_vec();
        for piece in pieces {
            bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
            bytes.extend(piece[2..].bytes());
        }
        bytes
    }

    #[test]
    fn hostile_names_add_no_element() {
        let names: [&[u8]; 5] = [
            b"<script>alert(1)<",
            b"\" onmouseover=\"alert(1)",
            b"' '><b>",
            b"<!--",
            "\u{202E}fdp.exe".as_bytes(),
        ];
        // The only element within a name marks an escaped character.
        let tags =
            |document: &str| document.replace("<i>", "").replace("</i>", "").matches('<').count();
        for name in names {
            let path = [b"/", name, b"/"].concat();
            let hostile = document(&page_of(vec![file(name)]), &path);
            let plain = document(&page_of(vec![file(b"x")]), b"/x/");
            assert_eq!(tags(&hostile), tags(&plain), "{}", String::from_utf8_lossy(name));
            assert!(!hostile.contains('\u{202E}'), "shown as what it is");
        }
        let title = document(&page_of(vec![]), b"/</title><script>/");
        assert!(title.contains("<title>Index of /&lt;/title&gt;&lt;script&gt;/</title>"));
    }

    #[test]
    fn breadcrumbs_link_to_every_parent() {
        let table: [(&str, &[u8], &[&str]); 4] = [
            ("the root has none, nor a parent", b"/", &[]),
            ("one below, the root is also the parent", b"/a/", &["../", "../"]),
            ("further below", b"/a/b c/d/", &["../../../", "../../", "../", "../"]),
            (
                "an empty segment counts but is not shown",
                b"/a//d/",
                &["../../../", "../../", "../"],
            ),
        ];
        for (sentence, path, expected) in table {
            let hrefs = hrefs(&document(&page_of(vec![]), path));
            let up: Vec<_> = hrefs.iter().filter(|href| href.starts_with("..")).collect();
            assert_eq!(up, expected, "{sentence}");
        }
    }

    #[test]
    fn column_titles_link_to_orders() {
        let links = |view| {
            let document = document(&Page { view, ..page_of(vec![]) }, b"/");
            (hrefs(&document), document)
        };
        let (hrefs, page) = links(View::default());
        assert_eq!(hrefs, ["?order=desc", "?sort=size&order=desc", "?sort=time&order=desc"]);
        assert!(
            page.contains("<th scope=\"col\" aria-sort=\"ascending\"><a href=\"?order=desc\">Name")
        );
        assert_eq!(page.matches("aria-sort=\"").count(), 1);

        let (hrefs, page) = links(View { sort: Sort::Size, descending: true, page: 1 });
        assert_eq!(hrefs, ["./", "?sort=size", "?sort=time&order=desc"]);
        assert!(page.contains(" aria-sort=\"descending\"><a href=\"?sort=size\">Size"));
    }

    #[test]
    fn pages_link_to_each_other_in_the_same_order() {
        let view = View { sort: Sort::Time, descending: true, page: 2 };
        let page = Page { view, pages: 200, total: 1_000_000, ..page_of(vec![]) };
        let shown = document(&page, b"/");
        assert_eq!(shown.matches("5,001–10,000 of 1,000,000").count(), 2, "above and below");
        let to = |number| format!("?sort=time&order=desc{number}");
        let expected = ["", "", "&page=3", "&page=200"].map(to);
        let hrefs = hrefs(&shown);
        assert_eq!(hrefs[..4], expected);
        assert_eq!(hrefs[hrefs.len() - 4..], expected);
        for (href, number) in hrefs.iter().zip([1, 1, 3, 200]) {
            let read = View::from_query(href.strip_prefix('?').map(str::as_bytes));
            assert_eq!(read, View { page: number, ..view }, "a link is read as it was written");
        }

        let first = document(&Page { view: View::default(), ..page.clone() }, b"/");
        assert!(!first.contains("rel=\"prev\"") && first.contains("rel=\"next\""));
        let last = Page { view: View { page: 200, ..view }, ..page };
        let last = document(&last, b"/");
        assert!(last.contains("rel=\"prev\"") && !last.contains("rel=\"next\""));
        assert!(
            !document(&page_of(vec![]), b"/").contains("class=\"pages\""),
            "one page needs none"
        );
    }

    #[test]
    fn a_row_shows_size_and_time() {
        let folder = Entry { kind: Kind::Directory, ..file(b"docs") };
        let shown = document(&page_of(vec![folder, file(b"a.txt")]), b"/");
        assert!(shown.contains("<p>1 folder, 1 file</p>"));
        let time =
            "<td><time datetime=\"1994-11-06T08:49:37Z\">1994-11-06<span> 08:49</span></time>";
        assert!(shown.contains(&format!("<bdi>docs</bdi>/</a></td><td></td>{time}")));
        assert!(shown.contains(&format!(
            "<bdi>a.txt</bdi></a></td><td title=\"12,345 bytes\">12.1 KiB</td>{time}"
        )));
    }

    #[test]
    fn missing_entries_are_mentioned() {
        let empty = document(&page_of(vec![]), b"/");
        assert!(empty.contains("This folder is empty."));
        let truncated = Page { truncated: true, ..page_of(vec![file(b"x")]) };
        assert!(document(&truncated, b"/").contains("more than can be listed"));
        assert!(!document(&page_of(vec![file(b"x")]), b"/").contains("more than can be listed"));
    }
}
