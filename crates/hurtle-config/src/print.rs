//! Prints a configuration as TOML that `check` reads back to an equal one.
//!
//! The types of a configuration derive [`Serialize`] in the shape of the file; this module holds
//! the forms of values that serde cannot derive.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::absent::add_comments;
use super::acme::Acme;
use super::check_tls::AUTOMATIC;
use super::local::LOCAL;
use super::names::Named as _;
use super::tls::{ClientAuth, ClientAuthMode, Tls};
use super::types::{Config, RuleAction};
use super::units::{duration_text, size_text};
use super::upstream::Upstream;

/// Prints the effective configuration: every key with its value, defaults included. A key without a
/// value, such as a limit that is unlimited, is a comment. A path that is not UTF-8 is printed with
/// replacement characters; no configuration file can name one. Placeholders are printed in place of
/// their values.
pub fn print(config: &Config) -> String {
    let values = toml::to_string(config);
    let values = values.expect("every value below is text, a number, a list or a table");
    add_comments(&config.placeholders.conceal_printed(values))
}

pub(super) fn duration<S: Serializer>(duration: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&duration_text(*duration))
}

pub(super) fn optional_duration<S: Serializer>(
    duration: &Option<Duration>,
    out: S,
) -> Result<S::Ok, S::Error> {
    duration.map(duration_text).serialize(out)
}

pub(super) fn size<S: Serializer>(bytes: &u64, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&size_text(*bytes))
}

pub(super) fn optional_size<S: Serializer>(bytes: &Option<u64>, out: S) -> Result<S::Ok, S::Error> {
    bytes.map(size_text).serialize(out)
}

pub(super) fn memory_size<S: Serializer>(bytes: &usize, out: S) -> Result<S::Ok, S::Error> {
    size(&(*bytes as u64), out)
}

pub(super) fn path<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&path.to_string_lossy())
}

pub(super) fn optional_path<S: Serializer>(
    path: &Option<PathBuf>,
    out: S,
) -> Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(out)
}

/// Each item as it displays itself.
pub(super) fn texts<T: Display, S: Serializer>(items: &[T], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(items.iter().map(T::to_string))
}

pub(super) fn status<S: Serializer>(status: &StatusCode, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u16(status.as_u16())
}

/// A status page: `status = true`.
pub(super) fn status_page<S: Serializer>(out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(1))?;
    map.serialize_entry("status", &true)?;
    map.end()
}

/// A mount that gives no response: `abort = true`.
pub(super) fn abort<S: Serializer>(out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(1))?;
    map.serialize_entry("abort", &true)?;
    map.end()
}

pub(super) fn field_value<S: Serializer>(value: &HeaderValue, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&value_text(value))
}

pub(super) fn field_names<S: Serializer>(names: &[HeaderName], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(names.iter().map(HeaderName::as_str))
}

pub(super) fn fields<S: Serializer>(
    fields: &[(HeaderName, HeaderValue)],
    out: S,
) -> Result<S::Ok, S::Error> {
    out.collect_map(fields.iter().map(|(name, value)| (name.as_str(), value_text(value))))
}

pub(super) fn media_types<S: Serializer>(
    types: &BTreeMap<String, HeaderValue>,
    out: S,
) -> Result<S::Ok, S::Error> {
    out.collect_map(types.iter().map(|(extension, value)| (extension, value_text(value))))
}

/// Upstreams that do not speak HTTP: without a scheme. One alone is no list.
pub(super) fn plain_upstreams<S: Serializer>(
    upstreams: &[Upstream],
    out: S,
) -> Result<S::Ok, S::Error> {
    match upstreams {
        [one] => out.serialize_str(&one.plain()),
        _ => out.collect_seq(upstreams.iter().map(Upstream::plain)),
    }
}

pub(super) fn authorizer<S: Serializer>(
    authorizer: &Option<Upstream>,
    out: S,
) -> Result<S::Ok, S::Error> {
    authorizer.as_ref().map(Upstream::plain).serialize(out)
}

/// A checked `[acme]` table implies that the terms are accepted.
pub(super) fn acme<S: Serializer>(acme: &Option<Acme>, out: S) -> Result<S::Ok, S::Error> {
    #[derive(serde::Serialize)]
    struct Accepted<'a> {
        accept_terms: bool,
        #[serde(flatten)]
        acme: &'a Acme,
    }
    acme.as_ref().map(|acme| Accepted { accept_terms: true, acme }).serialize(out)
}

impl Serialize for RuleAction {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(None)?;
        match self {
            RuleAction::Redirect(status, to) => {
                map.serialize_entry("redirect", to)?;
                map.serialize_entry("status", &status.as_u16())?;
            }
            RuleAction::Rewrite(path, None) => map.serialize_entry("rewrite", path)?,
            RuleAction::Rewrite(path, Some(query)) => {
                map.serialize_entry("rewrite", &format!("{path}?{query}"))?;
            }
        }
        map.end()
    }
}

impl Serialize for Tls {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut map = out.serialize_map(None)?;
        if self.uses_acme() {
            map.serialize_entry("certificate", AUTOMATIC)?;
        } else if self.local_authority().is_some() {
            map.serialize_entry("certificate", LOCAL)?;
        } else {
            let (chains, keys): (Vec<_>, Vec<_>) = self
                .certificates
                .iter()
                .map(|files| (text(&files.chain), text(&files.key)))
                .unzip();
            map.serialize_entry("certificate", &chains)?;
            map.serialize_entry("key", &keys)?;
        }
        if let Some(ClientAuth { required, authorities, revocation_lists }) = &self.client_auth {
            let mode = if *required { ClientAuthMode::Required } else { ClientAuthMode::Optional };
            map.serialize_entry("client_auth", mode.name())?;
            map.serialize_entry("client_ca", &text(authorities))?;
            let lists: Vec<_> = revocation_lists.iter().map(text).collect();
            map.serialize_entry("client_crl", &lists)?;
        }
        map.serialize_entry("redirect", &self.redirect)?;
        map.serialize_entry("hsts", &self.hsts.as_ref().map(value_text))?;
        map.serialize_entry("ticket_secret", &self.ticket_secret.as_ref().map(text))?;
        if let Some(on_demand) = self.on_demand() {
            map.serialize_entry("on_demand", on_demand)?;
        }
        map.end()
    }
}

fn value_text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
