//! Mounts with a name in place of a path: other mounts hand requests without a file on to them, and
//! errors lead to them.

use super::check_matcher::matcher;
use super::error::{ValueError, shown};
use super::error_page::{ErrorPage, ErrorPages};
use super::files::Files;
use super::matcher::Matcher;
use super::reader::Reader;
use super::suggest::nearest;
use super::table::Table;
use super::try_file::TryFile;
use super::types::{Mount, MountHandler};
use super::value::Value;

/// The keys that say which requests a mount has, and which one with a name has no use for.
const OF_PLACE: [&str; 4] = ["path", "exact", "match", "final"];

/// Reads the name of a mount.
pub(super) fn given_name(
    written: &Value<'_>,
    table: &Table<'_>,
    reader: &mut Reader<'_>,
) -> Option<String> {
    for key in OF_PLACE {
        // A redirect has the parts of the path from its match.
        if key == "match" && table.get("redirect").is_some() {
            continue;
        }
        let Some(value) = table.get(key).filter(|value| !value.is_false()) else { continue };
        let wrong = ValueError::new("a mount with a name has the requests that others hand on");
        value.report(reader, wrong.hint(format!("remove {key} or name")));
    }
    written.parse(reader, mount_name)
}

/// Reads the paths that a mount with a name redirects.
pub(super) fn redirected(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Matcher> {
    let written = table.get("match").filter(|_| table.get("redirect").is_some())?;
    let matcher = matcher(&written, reader)?;
    if !matcher.is_of_path() {
        let wrong =
            ValueError::new("a redirect with a name is for paths: path, regex, and not of these");
        written.report(reader, wrong.hint("remove the other conditions"));
        return None;
    }
    Some(matcher)
}

/// Reads the key of a mount of files.
pub(super) fn set(table: &Table<'_>, files: &mut Files, reader: &mut Reader<'_>) {
    let Some(written) = table.get("otherwise") else { return };
    files.otherwise = written.parse(reader, mount_name);
    let other = if files.spa.is_some() {
        Some("spa has a page for these requests")
    } else if let Some(TryFile::Status(_)) = files.try_files.last() {
        Some("try_files ends with a status for these requests")
    } else {
        None
    };
    if let Some(other) = other {
        written.report(reader, ValueError::new(other).hint("remove one of the two"));
    }
}

/// Parses the name of a mount.
pub(super) fn mount_name(text: &str) -> Result<String, ValueError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || !text.chars().all(is_plain) {
        let wrong = ValueError::new(format!("{} is not a name of a mount", shown(text)));
        return Err(wrong.hint("write letters, digits, -, _ and . only"));
    }
    Ok(text.to_owned())
}

/// Reports names that no mount has, circles, and names that nothing leads to. `errors` is the key
/// with the error pages of the site, and `pages` are those pages.
pub(super) fn check(
    tables: &[Table<'_>],
    mounts: &[Mount],
    errors: Option<Value<'_>>,
    pages: &ErrorPages,
    reader: &mut Reader<'_>,
) {
    let leading = tables.iter().filter_map(|table| table.get("otherwise"));
    // All of them are checked.
    let wrong = leading.filter(|written| !leads(written, mounts, reader)).count();
    let of_mounts = tables.iter().map(|table| table.get("errors"));
    let of_mounts = of_mounts.zip(mounts.iter().map(|mount| &mount.error_pages));
    let mut named = Vec::new();
    let mut is_wrong = wrong > 0;
    for (written, pages) in [(errors, pages)].into_iter().chain(of_mounts) {
        for name in pages.values().filter_map(ErrorPage::mount) {
            named.push(name);
            if of_name(name, mounts).is_none()
                && let Some(written) = &written
            {
                report_unknown(name, written, mounts, reader);
                is_wrong = true;
            }
        }
    }
    if is_wrong {
        return;
    }
    for written in tables.iter().filter_map(|table| table.get("name")) {
        let Some(text) = written.as_text() else { continue };
        let is_led_to = mounts.iter().any(|mount| mount.otherwise() == Some(text));
        if !is_led_to && !named.contains(&text) {
            let wrong = ValueError::new("no mount hands requests on to this one");
            let hint = format!(
                "write otherwise = {text:?} in a mount of files, \"@{text}\" in errors, or a path here"
            );
            written.report(reader, wrong.hint(hint));
        }
    }
}

fn of_name<'m>(name: &str, mounts: &'m [Mount]) -> Option<&'m Mount> {
    mounts.iter().find(|mount| mount.given_name.as_deref() == Some(name))
}

fn report_unknown(name: &str, written: &Value<'_>, mounts: &[Mount], reader: &mut Reader<'_>) {
    let names = mounts.iter().filter_map(|mount| mount.given_name.as_deref());
    let wrong = ValueError::new(format!("no mount of this site has the name {}", shown(name)));
    let hint = match nearest(name, names) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("add a [[site.mount]] with name = {name:?}"),
    };
    written.report(reader, wrong.hint(hint));
}

/// Returns whether an `otherwise` leads to a mount that answers.
fn leads(written: &Value<'_>, mounts: &[Mount], reader: &mut Reader<'_>) -> bool {
    let Some(text) = written.as_text() else { return false };
    let Some(mut next) = of_name(text, mounts) else {
        report_unknown(text, written, mounts, reader);
        return false;
    };
    for _ in mounts {
        match next.otherwise().and_then(|name| of_name(name, mounts)) {
            None => return true,
            Some(other) => next = other,
        }
    }
    let wrong = ValueError::new("the request would come back to this mount");
    written.report(reader, wrong.hint("end the circle with a mount that answers"));
    false
}

impl Mount {
    /// Returns whether clients may put files.
    pub fn takes_uploads(&self) -> bool {
        matches!(&self.handler, MountHandler::Files(files) if files.uploads.is_some())
    }

    /// Returns the name of the mount that has its requests for which there is no file.
    pub fn otherwise(&self) -> Option<&str> {
        match &self.handler {
            MountHandler::Files(files) => files.otherwise.as_deref(),
            _ => None,
        }
    }
}
