//! A page as HTML, for people: works without JavaScript, loads nothing, and is safe to show
//! whatever the names are.

use std::fmt::{self, Display, Formatter};

use super::text::{Grouped, HumanSize, Href, MarkedText, Moment, Text};
use super::{Entry, Kind, Page, Sort, View};

/// The Content-Security-Policy under which a listing is sent: its own style sheet (by its hash)
/// and its own icon, nothing else; no forms, no frames around it.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
    style-src 'sha256-'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const STYLE: &str = include_str!("style.css");

/// A yellow folder.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 16 16'%3E%3Cpath fill='%23dda33b' d='M1 3h5l2 2h7v9H1z'/%3E%3C/svg%3E";

/// Writes a page as an HTML document (media type `text/html`, UTF-8).
///
/// `url_path` is the decoded path it is served under and ends in `/`. All references are relative,
/// so that they hold behind a proxy that serves the site under another path.
pub fn html(page: &Page, url_path: &[u8]) -> Vec<u8> {
    Document { page, url_path }.to_string().into_bytes()
}

struct Document<'a> {
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
        write_summary(f, self.page)?;
        write_pager(f, self.page)?;
        write_table(f, self.page, self.url_path != b"/")?;
        write_pager(f, self.page)?;
        f.write_str("</main>\n</body>\n</html>\n")
    }
}

/// The path, each directory above this one a link to its own listing.
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
            up => write!(f, "<a href=\"{}\"><bdi>{name}</bdi></a><span>/</span>", "../".repeat(up))?,
        }
    }
    f.write_str("</h1></nav>\n")
}

/// How much there is, and whether that is all.
fn write_summary(f: &mut Formatter<'_>, page: &Page) -> fmt::Result {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (folders, files) = (page.directories, page.total - page.directories);
    let counted = |count: usize| Grouped(count as u64);
    f.write_str("<p>")?;
    match (folders, files) {
        (0, 0) => f.write_str("This folder is empty.")?,
        (0, _) => write!(f, "{} file{}", counted(files), plural(files))?,
        (_, 0) => write!(f, "{} folder{}", counted(folders), plural(folders))?,
        _ => write!(
            f,
            "{} folder{}, {} file{}",
            counted(folders),
            plural(folders),
            counted(files),
            plural(files)
        )?,
    }
    f.write_str("</p>\n")?;
    if page.truncated {
        f.write_str(
            "<p class=\"few\">This folder holds more than can be listed: \
            the rest is left out, on all pages and in any order.</p>\n",
        )?;
    }
    Ok(())
}

/// Links to the other pages; nothing when there are none.
fn write_pager(f: &mut Formatter<'_>, page: &Page) -> fmt::Result {
    if page.pages == 1 {
        return Ok(());
    }
    let number = page.view.page;
    let link = |number| Link(View { page: number, ..page.view });
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

fn write_table(f: &mut Formatter<'_>, page: &Page, has_parent: bool) -> fmt::Result {
    f.write_str("<table>\n<thead><tr>")?;
    for (sort, title) in
        [(Sort::Name, "Name"), (Sort::Size, "Size"), (Sort::Time, "Modified (UTC)")]
    {
        write_column_head(f, page.view, sort, title)?;
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

/// A link that orders by this column, or turns its order round.
fn write_column_head(
    f: &mut Formatter<'_>,
    view: View,
    sort: Sort,
    title: &str,
) -> fmt::Result {
    let current = view.sort == sort;
    let aria_sort = match view.descending {
        _ if !current => "",
        true => " aria-sort=\"descending\"",
        false => " aria-sort=\"ascending\"",
    };
    // Names are first wanted from A on, sizes and dates from the largest and the latest on.
    let descending = if current { !view.descending } else { sort != Sort::Name };
    let link = Link(View { sort, descending, page: 1 });
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
    let moment = Moment::from_unix(entry.modified);
    let (date, minute) = (moment.date(), moment.minute());
    writeln!(f, "<td><time datetime=\"{moment}\">{date}<span> {minute}</span></time></td></tr>")
}

/// The reference to a view of the same directory, for an attribute; what is at its default is
/// left out, so that there is one address for each view.
struct Link(View);

impl Display for Link {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let View { sort, descending, page } = self.0;
        if self.0 == View::default() {
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
        if page > 1 {
            write(format_args!("page={page}"))?;
        }
        Ok(())
    }
}
