//! Translates a cache of upstreams' responses: `proxy_cache` and `proxy_cache_valid`.

use std::collections::BTreeMap;

use http::StatusCode;
use hurtle_http::semantics::caching::is_never_stored;
use toml::{Table, Value};

use super::block::Block;
use super::location::Context;
use super::mount::{Keys, put};
use super::path::seconds;
use super::report::Report;
use super::syntax::Directive;

/// Statuses of a lifetime without any (`ngx_http_file_cache_valid_set_slot`).
const DEFAULT_STATUSES: [&str; 3] = ["200", "301", "302"];

/// The word for all other statuses, in both.
const ANY: &str = "any";

/// The longest lifetime of hurtle, in seconds.
const SECONDS_MAX: u64 = 365 * 24 * 60 * 60;

/// Adds the key `cache` of a proxy. `None`: it was refused.
pub(super) fn cache(
    pass: &Directive,
    path: &str,
    block: &Block<'_>,
    context: &Context<'_>,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let (lifetimes, stale) =
        (block.get(|scope| &scope.cache_lifetimes), block.get(|scope| &scope.cache_stale));
    let Some(zone) = block.get(|scope| &scope.cache) else {
        // Without a cache they have no effect.
        lifetimes.iter().chain(stale).for_each(|d| report.leave_out(d));
        return Some(());
    };
    let Some((disk, size)) = context.zones.get(zone) else {
        report.refuse(pass, format!("proxy_cache_path has no zone {zone}"));
        return None;
    };
    let mut table = Table::new();
    table.insert("disk".to_owned(), Value::from(disk.clone()));
    if let Some(size) = size {
        table.insert("disk_size".to_owned(), Value::from(i64::try_from(*size).ok()?));
    }
    let lifetimes = statuses(lifetimes, path, report);
    if !lifetimes.is_empty() {
        let lifetimes = lifetimes
            .into_iter()
            .map(|(status, seconds)| (status, Value::from(format!("{seconds}s"))));
        table.insert("lifetimes".to_owned(), Value::from(lifetimes.collect::<Table>()));
    }
    put(keys, "cache", table);
    differences(pass, path, report);
    if let Some(d) = stale {
        stale_responses(d, path, report);
    }
    Some(())
}

/// Returns seconds by status. nginx takes the first line that has the status or `any`.
fn statuses(lines: &[Directive], path: &str, report: &mut Report) -> BTreeMap<String, u64> {
    let mut lifetimes = BTreeMap::new();
    for d in lines {
        let Some((time, statuses)) = d.args.split_last() else {
            report.refuse(d, "write a duration, such as 10m");
            continue;
        };
        let Some(seconds) = seconds(time).filter(|seconds| *seconds <= SECONDS_MAX) else {
            report.refuse(d, "write a duration in seconds, of a year at most");
            continue;
        };
        let defaults = DEFAULT_STATUSES.map(str::to_owned);
        for status in if statuses.is_empty() { defaults.as_slice() } else { statuses } {
            if lifetimes.contains_key(ANY) || lifetimes.contains_key(status) {
                report.remark(
                    d,
                    &format!("{status} has its lifetime by an earlier line, as in nginx"),
                );
            } else if let Some(status) = known(d, path, status, seconds, report) {
                lifetimes.insert(status, seconds);
            }
        }
    }
    lifetimes
}

/// Returns a status that has a lifetime in hurtle, too. A remark names the difference of others.
fn known(
    d: &Directive,
    path: &str,
    status: &str,
    seconds: u64,
    report: &mut Report,
) -> Option<String> {
    let number = status
        .parse()
        .ok()
        .filter(|number: &u16| (200..=599).contains(number) && number.to_string() == status);
    let code = number.and_then(|number| StatusCode::from_u16(number).ok());
    if code.is_none() && status != ANY {
        report.refuse(d, "write statuses from 200 to 599, or any");
        return None;
    }
    if code.is_some_and(is_never_stored) {
        if seconds > 0 {
            let text = format!(
                "{status} is never stored: GET {path} is forwarded each time; nginx answers it for \
                 {seconds} s"
            );
            report.remark(d, &text);
        }
        return None;
    }
    if seconds > 0 {
        not_stored(d, path, status, seconds, report);
    }
    Some(status.to_owned())
}

/// Names the responses that nginx stores by a line for this status, and hurtle does not.
fn not_stored(d: &Directive, path: &str, status: &str, seconds: u64, report: &mut Report) {
    let own_errors = match status {
        ANY => "502 and 504",
        "502" | "504" => status,
        _ => return,
    };
    let text = format!(
        "{own_errors} of the proxy itself is never stored: GET {path} asks the upstream again; nginx \
         answers it for {seconds} s"
    );
    report.remark(d, &text);
    if status == ANY {
        let text = format!(
            "401, 407, 412, 416, 421, 428, 429, 431 and 511 are never stored: GET {path} is \
             forwarded each time; nginx answers it for {seconds} s"
        );
        report.remark(d, &text);
    }
}

/// Names the requests and responses for which nginx's cache differs, at the location's directive.
fn differences(d: &Directive, path: &str, report: &mut Report) {
    let get = format!("GET {path}");
    for text in [
        format!(
            "{get} with Authorization, with Cache-Control: no-cache, or after a POST of the same path asks \
             the upstream; nginx answers from its cache"
        ),
        format!(
            "{get} with Range is passed on with it while nothing is stored; nginx asks for the whole response"
        ),
        format!(
            "{get} is stored for each Host; nginx's proxy_cache_key has the upstream's name in place \
             of it"
        ),
        format!(
            "a response to {get} is as old as its Date and Age say, and is stored with Set-Cookie \
             if it is public, but not without a length; nginx counts from its arrival, reads \
             X-Accel-Expires, and stores none with Set-Cookie"
        ),
    ] {
        report.remark(d, &text);
    }
}

/// Names what becomes of `proxy_cache_use_stale`.
fn stale_responses(d: &Directive, path: &str, report: &mut Report) {
    if d.arg(0) == "off" {
        return report.leave_out(d);
    }
    let text = format!(
        "a stale response is sent only if its Cache-Control has stale-if-error or \
         stale-while-revalidate: GET {path} gets 502 while the upstream cannot be reached; nginx \
         sends the stale one"
    );
    report.remark(d, &text);
}

/// Names what clients get in place of a field with the status of nginx's cache.
pub(super) fn status_field(d: &Directive, report: &mut Report) {
    let text = format!(
        "{0} is left out: where there is a cache, GET / gets `Cache-Status: hurtle; hit` in place of \
         `{0}: HIT`",
        d.arg(0)
    );
    report.remark(d, &text);
}
