//! Turns TOML text into a [`Config`]: the top of the file, limits and logs. `check_site` reads
//! sites, `value` single values. Nothing here touches the file system.

use std::path::Path;

use super::acme::acme;
use super::auth::{check_privacy, check_status_pages};
use super::check_matcher::matcher;
use super::check_site::sites;
use super::compress::compress;
use super::config::TOP;
use super::document::document;
use super::error::{ConfigError, ValueError, shown};
use super::listen::listen;
use super::local::local_authority;
use super::monitoring::{Tracing, metrics};
use super::names::{FormatName, Named as _};
use super::placeholder;
use super::proxied::proxy_protocol;
use super::reader::Reader;
use super::rotation::rotation;
use super::site_defaults;
use super::site_listen::check_site_listens;
use super::sources::Sources;
use super::store::store;
use super::table::Table;
use super::types::{
    AccessLog, Config, ErrorLog, Limits, Listen, LogField, LogFormat, LogTarget, Site,
};
use super::value::Value;

/// Parses a configuration; the error holds every problem in it, in the order of the text.
///
/// `file` is the source of the text: problems repeat its name, and relative paths (roots, logs,
/// sockets) are relative to its directory. A relative `file` is taken from the working directory.
/// `load` checks that roots exist, and reads the files of `include`. Placeholders have their
/// defaults: the environment is empty for this function.
pub fn check(text: &str, file: &Path) -> Result<Config, Vec<ConfigError>> {
    let sources = Sources::new(text, file);
    let mut reader = Reader::new(&sources);
    let config = read(&mut reader);
    reader.finish(config)
}

/// Reads the configuration with defaults in place of wrong values; the reader collects the
/// problems.
pub(super) fn read(reader: &mut Reader<'_>) -> Config {
    let mut document = document(reader);
    site_defaults::apply(&mut document, reader);
    placeholder::replace(&mut document, &TOP, reader);
    let top = Table::document(&document, &TOP, reader);
    top.check_companions(reader);
    site_defaults::check(&top, reader);
    let sites = sites(&top, reader);
    let mut config = Config { sites, ..Config::read(&top, reader) };

    listeners(&top, &mut config, reader);
    if let Some(included) = top.get("include") {
        included.list(reader, |item, reader| item.text(reader).map(drop));
    }
    config.store = store(&top, reader);
    if let Some(table) = top.get("metrics").and_then(|value| value.table(reader)) {
        config.metrics = Some(metrics(&table, reader));
    }
    if let Some(table) = top.get("tracing").and_then(|value| value.table(reader)) {
        config.tracing = Some(Tracing::read(&table, reader));
    }
    top.set("compress", reader, compress, &mut config.compress);
    let limits =
        |v: &Value<'_>, r: &mut Reader<'_>| v.table(r).map(|table| Limits::read(&table, r));
    top.set("limits", reader, limits, &mut config.limits);
    top.set("access_log", reader, access_log, &mut config.access_log);
    top.set("error_log", reader, error_log, &mut config.error_log);
    if let Some(table) = top.get("proxy_protocol").and_then(|value| value.table(reader)) {
        let listening: Vec<&Listen> = config.listen.iter().chain(&config.listen_tls).collect();
        config.proxy_protocol = Some(proxy_protocol(&table, &listening, reader));
    }
    check_overlaps(&top, &config, reader);
    acme(&top, &mut config, reader);
    local_authority(&top, &mut config, reader);
    check_site_listens(&config, reader);
    check_privacy(&config.listen, reader);
    check_status_pages(&config, reader);
    config.placeholders = reader.placeholders.clone();
    config
}

fn listeners(top: &Table<'_>, config: &mut Config, reader: &mut Reader<'_>) {
    top.set("listen_tls", reader, addresses, &mut config.listen_tls);
    let written = top.get("listen_tls");
    if written.is_some() {
        config.listen.clear();
    }
    top.set("listen", reader, addresses, &mut config.listen);
    let both = config.listen.iter().find(|a| config.listen_tls.contains(a) && !is_any_port(a));
    let has_certificates = config.sites.iter().any(|site| site.tls.is_some());
    if let (Some(written), Some(both)) = (&written, both) {
        let wrong =
            ValueError::new(format!("{both} is in listen too")).hint("remove one of the two");
        written.report(reader, wrong);
    }
    // Connections of other sites reach a default one, by Host.
    let is_unreachable =
        |site: &&Site| site.tls.is_none() && site.listen.is_empty() && !site.default;
    // The certificate of a site may be the problem.
    let unreachable =
        config.sites.iter().filter(|_| reader.problem_count() == 0).find(is_unreachable);
    match written {
        Some(written)
            if has_certificates
                && config.listen.is_empty()
                && let Some(site) = unreachable =>
        {
            let name = site.name();
            let wrong =
                ValueError::new(format!("{name} has no certificate, and nothing listens in clear"));
            let hint = "write listen = \"0.0.0.0:80\", or a [site.tls] beneath that [[site]]";
            written.report(reader, wrong.hint(hint));
        }
        Some(written) if !has_certificates => {
            let wrong = ValueError::new("no site has a certificate");
            let hint = "write a [site.tls] beneath a [[site]]";
            reader.report_missing(&written.spot, wrong.hint(hint));
        }
        None if has_certificates => {
            let wrong = ValueError::new("a site has a certificate, but nothing listens with TLS");
            let hint = "write listen_tls = \"0.0.0.0:443\" at the top of the file";
            reader.report_missing(&top.spot, wrong.hint(hint));
        }
        _ => {}
    }
}

/// Reports an address of the metrics that the server has itself.
fn check_overlaps(top: &Table<'_>, config: &Config, reader: &mut Reader<'_>) {
    let metrics = config.metrics.iter().flat_map(|metrics| &metrics.listen);
    for address in metrics.filter(|address| !is_any_port(address)) {
        let is_own = config.listen.contains(address) || config.listen_tls.contains(address);
        if let (true, Some(written)) = (is_own, top.get("metrics")) {
            let wrong = ValueError::new(format!("the server listens on {address} already"));
            written.report(reader, wrong.hint("choose another port"));
        }
    }
}

/// Returns warnings of addresses that include another one: Linux permits a process to listen on one
/// of the two only.
pub fn overlaps(config: &Config) -> Vec<String> {
    let metrics = config.metrics.iter().flat_map(|metrics| &metrics.listen);
    let all: Vec<&Listen> = config.listen.iter().chain(&config.listen_tls).chain(metrics).collect();
    let mut warnings = Vec::new();
    for (at, address) in all.iter().enumerate() {
        if let Some(other) = all[..at].iter().find(|other| other.overlaps(address)) {
            warnings.push(format!(
                "{address} and {other} have addresses in common; on Linux the second one cannot be \
                 listened on"
            ));
        }
    }
    warnings
}

pub(super) fn addresses(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Vec<Listen>> {
    let items = value.items(reader);
    if items.is_empty() && value.is_empty_list() {
        value.report(
            reader,
            ValueError::new("no address").hint("leave the key out for 127.0.0.1:8080"),
        );
    }
    let mut addresses: Vec<Listen> = Vec::new();
    for item in items {
        let Some(text) = item.text(reader) else { continue };
        match listen(text, |path| reader.absolute(path, item.spot.at)) {
            Ok(address) if addresses.contains(&address) && !is_any_port(&address) => {
                let wrong = ValueError::new(format!("{} is listed twice", shown(text)));
                item.report(reader, wrong.hint("remove one"));
            }
            Ok(address) => addresses.push(address),
            Err(wrong) => item.report(reader, wrong),
        }
    }
    Some(addresses)
}

/// Port 0 is a different free port each time, so it may be listed twice.
fn is_any_port(address: &Listen) -> bool {
    matches!(address, Listen::Tcp(address) if address.port() == 0)
}

fn access_log(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Option<AccessLog>> {
    let table = value.table(reader)?;
    let mut log = AccessLog::default();
    let mut name = FormatName::Combined;
    let mut fields = LogField::common();
    table.set("format", reader, Value::choice, &mut name);
    table.set("fields", reader, json_fields, &mut fields);
    table.set("path", reader, log_target, &mut log.to);
    log.rotation = rotation(&table, &log.to, reader);
    log.matcher = table.get("match").and_then(|value| matcher(&value, reader));
    if let Some(written) = table.get("fields")
        && name != FormatName::Json
    {
        let wrong = ValueError::new("goes with format = \"json\" only");
        written.report(reader, wrong.hint("remove it"));
    }
    log.format = match name {
        FormatName::Combined => LogFormat::Combined,
        FormatName::Json => LogFormat::Json(fields),
        FormatName::Brief => LogFormat::Brief,
    };
    Some(Some(log))
}

fn json_fields(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Vec<LogField>> {
    let mut fields = Vec::new();
    for item in value.items(reader) {
        match item.choice::<LogField>(reader) {
            Some(field) if fields.contains(&field) => {
                let wrong = ValueError::new(format!("\"{}\" is listed twice", field.name()));
                item.report(reader, wrong.hint("remove one"));
            }
            Some(field) => fields.push(field),
            None => {}
        }
    }
    if value.is_empty_list() {
        value.report(
            reader,
            ValueError::new("no field").hint("leave the key out for the common ones"),
        );
    }
    Some(fields)
}

fn error_log(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<ErrorLog> {
    let table = value.table(reader)?;
    let mut log = ErrorLog::default();
    table.set("level", reader, Value::choice, &mut log.level);
    table.set("path", reader, log_target, &mut log.to);
    log.rotation = rotation(&table, &log.to, reader);
    Some(log)
}

fn log_target(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<LogTarget> {
    match value.text(reader)? {
        // The names of the same streams in a container, where links lead to them.
        "stdout" | "/dev/stdout" | "/dev/fd/1" => Some(LogTarget::Stdout),
        "stderr" | "/dev/stderr" | "/dev/fd/2" => Some(LogTarget::Stderr),
        _ => {
            let path = value.path(reader)?;
            reader.logs.push((value.spot.clone(), path.clone()));
            Some(LogTarget::File(path))
        }
    }
}
