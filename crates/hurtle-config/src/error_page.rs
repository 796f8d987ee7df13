//! Replacements of the plain response of an error: a page of the site, or the response of a mount
//! with a name.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::{Serialize, Serializer};

use super::bounds::{ERROR_STATUS_MIN, FINAL_STATUS_MIN, STATUS_MAX};
use super::check_mount::final_status;
use super::error::{ValueError, shown};
use super::otherwise::mount_name;
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::{Required, Words};
use super::schema::Kind::{Integer, Text};
use super::schema::{Key, Section};
use super::target::url_path;
use super::value::Value;

#[rustfmt::skip] // One paragraph for each key.
pub(super) static ERROR_PAGE: Section = Section {
    header: "[site.errors.404]",
    doc: "An error page with a status of its own: `404 = { to = \"/empty.gif\", status = 200 }`.",
    keys: &[&[
        Key::new("to", Text("an absolute path, or @ and the name of a mount"), Required, "\"/404.html\"",
            "A path of this site, or `\"@NAME\"`: the mount with this `name`."),
        Key::new("status", Integer(FINAL_STATUS_MIN, STATUS_MAX),
            Words("the error's for a path, the mount's own for `\"@NAME\"`"), "503",
            "Status of the response."),
    ]],
};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static ERRORS: Section = Section {
    header: "[site.errors]",
    doc: "What replaces errors: `404 = \"/404.html\"`. The key is a status from 400 to 599; the value is a \
          path of this site, which is sent with that status, or `\"@NAME\"`: the mount with this `name` \
          responds. A table has a status, too: `404 = { to = \"/empty.gif\", status = 200 }`; see \
          [routing.md](routing.md#errors).",
    keys: &[&[]],
};

pub(super) static MOUNT_ERRORS: Section = Section {
    header: "[site.mount.errors]",
    doc: "What replaces errors of the mount, as in `[site.errors]`.",
    keys: &[&[]],
};

/// The pages of a site or mount, by the status of the error.
pub type ErrorPages = BTreeMap<StatusCode, ErrorPage>;

/// The replacement of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// The place of the response.
    pub to: ErrorTarget,
    /// Status of the response; `None`: the error's for a page, the mount's own for a mount.
    pub status: Option<StatusCode>,
}

/// The place of a response that replaces an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorTarget {
    /// A page: a path of the site.
    Page(String),
    /// A mount, by its name.
    Mount(String),
}

impl ErrorPage {
    /// Returns the path of the page; `None`: a mount responds.
    pub fn path(&self) -> Option<&str> {
        match &self.to {
            ErrorTarget::Page(path) => Some(path),
            ErrorTarget::Mount(_) => None,
        }
    }

    /// Returns the name of the mount; `None`: it is a page.
    pub fn mount(&self) -> Option<&str> {
        match &self.to {
            ErrorTarget::Page(_) => None,
            ErrorTarget::Mount(name) => Some(name),
        }
    }
}

/// A path of the site, sent with the status of the error.
impl From<&str> for ErrorPage {
    fn from(path: &str) -> ErrorPage {
        ErrorPage { to: ErrorTarget::Page(path.to_owned()), status: None }
    }
}

impl Serialize for ErrorPage {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            to: &'a str,
            #[serde(serialize_with = "print::status")]
            status: StatusCode,
        }
        let to = match &self.to {
            ErrorTarget::Page(path) => path.clone(),
            ErrorTarget::Mount(name) => format!("@{name}"),
        };
        match self.status {
            None => out.serialize_str(&to),
            Some(status) => Written { to: &to, status }.serialize(out),
        }
    }
}

/// Writes the pages of a site or mount.
pub(super) fn print_pages<S: Serializer>(pages: &ErrorPages, out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(pages.iter().map(|(status, page)| (status.as_str(), page)))
}

/// Reads the error pages of a site or mount.
pub(super) fn error_pages(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<ErrorPages> {
    let mut pages = BTreeMap::new();
    for (name, spot, value) in value.pairs(reader) {
        let page = error_page(&value, reader);
        let status = name.parse::<u16>().ok().filter(|status| {
            // "+404" and "0404" would be other spellings of the same status.
            *name == status.to_string()
                && (ERROR_STATUS_MIN..=STATUS_MAX).contains(&u64::from(*status))
        });
        match status.and_then(|status| StatusCode::from_u16(status).ok()) {
            Some(status) => pages.extend(page.map(|page| (status, page))),
            None => reader.report(
                &spot,
                ValueError::new("not an error status")
                    .hint(format!("write one from {ERROR_STATUS_MIN} to {STATUS_MAX}")),
            ),
        }
    }
    Some(pages)
}

fn error_page(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<ErrorPage> {
    let Some(table) = value.as_table_of(&ERROR_PAGE, reader) else {
        return Some(ErrorPage { to: value.parse(reader, target)?, status: None });
    };
    let mut status = None;
    table.set("status", reader, |v, r| page_status(v, r).map(Some), &mut status);
    let Some(to) = table.get("to") else {
        let wrong = ValueError::new("the page is missing").hint("write to = \"/404.html\"");
        reader.report_missing(&table.spot, wrong);
        return None;
    };
    Some(ErrorPage { to: to.parse(reader, target)?, status })
}

fn page_status(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<StatusCode> {
    let status = final_status(value, reader)?;
    // RFC 9110 sections 15.3.5, 15.3.6 and 15.4.5.
    if matches!(status.as_u16(), 204 | 205 | 304) {
        let wrong = ValueError::new("a response with this status has no content, but a page has");
        value.report(reader, wrong.hint("write 200, or leave it out for that of the error"));
        return None;
    }
    Some(status)
}

fn target(text: &str) -> Result<ErrorTarget, ValueError> {
    match text.strip_prefix('@') {
        Some(name) => mount_name(name).map(ErrorTarget::Mount),
        None if text.starts_with('/') => url_path(text).map(ErrorTarget::Page),
        None => Err(ValueError::new(format!("{} is no place of a response", shown(text)))
            .hint("write a path such as \"/404.html\", or @ and the name of a mount")),
    }
}
