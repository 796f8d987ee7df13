//! Freshness lifetimes of upstream responses that give none, by status: `lifetimes` of a mount's
//! `cache`.

use std::time::Duration;

use http::StatusCode;
use hurtle_http::semantics::caching::{StatusLifetimes, is_never_stored};
use serde::Serializer;
use toml::de::DeValue;

use super::bounds::{FINAL_STATUS_MIN, STATUS_MAX};
use super::error::ValueError;
use super::reader::Reader;
use super::schema::DefaultValue::Toml;
use super::schema::Key;
use super::schema::Kind::Map;
use super::units::duration_text;
use super::value::Value;

/// The longest lifetime, in seconds: a year of 365 days.
const SECONDS_MAX: u64 = 365 * 24 * 60 * 60;

/// The key for all statuses that have no key of their own.
const ANY: &str = "any";

#[rustfmt::skip] // One paragraph for each key.
pub(super) const LIFETIMES: Key =
    Key::new("lifetimes", Map("a table of statuses, 200 to 599 or `any`, and durations up to `\"8760h\"`"),
        Toml("{}"), "{ 200 = \"10m\", 404 = \"1m\", any = \"5s\" }",
        "Freshness lifetimes of responses that give none, by status; 0: they are not stored. \
         `Cache-Control` and `Expires` of the response come first.");

pub(super) fn lifetimes(value: &Value<'_>, reader: &mut Reader<'_>) -> StatusLifetimes {
    let mut lifetimes = StatusLifetimes::default();
    for (name, spot, value) in value.pairs(reader) {
        let seconds = seconds(&value, reader);
        if name == ANY {
            lifetimes.any = seconds;
            continue;
        }
        match status(name) {
            Ok(status) => lifetimes.by_status.extend(seconds.map(|seconds| (status, seconds))),
            Err(wrong) => reader.report(&spot, wrong),
        }
    }
    lifetimes
}

fn status(name: &str) -> Result<StatusCode, ValueError> {
    let number = name.parse::<u16>().ok().filter(|number| {
        // "+404" and "0404" would be other spellings of the same status.
        name == number.to_string() && (FINAL_STATUS_MIN..=STATUS_MAX).contains(&u64::from(*number))
    });
    let Some(status) = number.and_then(|number| StatusCode::from_u16(number).ok()) else {
        let hint = format!("write one from {FINAL_STATUS_MIN} to {STATUS_MAX}, or {ANY}");
        return Err(ValueError::new("not a status of a response").hint(hint));
    };
    match status {
        // RFC 9111 section 3.3.
        StatusCode::PARTIAL_CONTENT => {
            Err(ValueError::new("a part has the lifetime of the whole").hint("write it for 200"))
        }
        status if is_never_stored(status) => {
            Err(ValueError::new("a response with this status is never stored").hint("remove it"))
        }
        status => Ok(status),
    }
}

/// Reads a lifetime: whole seconds.
fn seconds(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<u64> {
    let is_duration = matches!(value.toml, DeValue::String(_) | DeValue::Integer(_));
    let lifetime = if is_duration { value.duration(reader)? } else { Duration::MAX };
    let seconds = lifetime.as_secs();
    if lifetime.subsec_nanos() > 0 || seconds > SECONDS_MAX {
        let most = duration_text(Duration::from_secs(SECONDS_MAX));
        let wrong = ValueError::new("not a lifetime");
        value.report(reader, wrong.hint(format!("write whole seconds, \"0s\" to \"{most}\"")));
        return None;
    }
    Some(seconds)
}

pub(super) fn print_lifetimes<S: Serializer>(
    lifetimes: &StatusLifetimes,
    out: S,
) -> Result<S::Ok, S::Error> {
    let of_statuses =
        lifetimes.by_status.iter().map(|(status, seconds)| (status.as_str(), *seconds));
    let all = of_statuses.chain(lifetimes.any.map(|seconds| (ANY, seconds)));
    out.collect_map(all.map(|(name, seconds)| (name, duration_text(Duration::from_secs(seconds)))))
}
