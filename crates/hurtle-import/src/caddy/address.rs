//! Addresses of sites: names, ports and schemes.

use super::global::Global;
use super::pattern::is_placeholder;
use crate::report::Report;
use crate::syntax::Directive;
use hurtle_config::HostName;

/// A place where a site answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// A name, or an empty one for all.
    pub(super) host: String,
    pub(super) port: String,
    pub(super) is_tls: bool,
}

/// The addresses of a site.
pub(super) fn of(site: &Directive, global: &Global, report: &mut Report) -> Vec<Address> {
    let names = std::iter::once(&site.name).chain(&site.args);
    let mut all: Vec<Address> = Vec::new();
    for name in names {
        match address(name, global) {
            Ok(address) => {
                if !all.contains(&address) {
                    all.push(address);
                }
            }
            Err(needs) => report.refuse(site, format!("{name}: {needs}")),
        }
    }
    if let Some(address) = all.iter().find(|address| matches!(&*address.host, "0.0.0.0" | "[::]")) {
        report.remark(
            site,
            &format!("requests whose Host is {} are answered, as by Caddy, and no others: write :80 for all", address.host),
        );
    }
    if all.iter().any(|address| address.host.starts_with("{env.")) {
        report.remark(site, "the variable has a host name, not a port, a scheme or several names");
    }
    for address in &mut all {
        if let Some(host) = without_local_default(&address.host) {
            address.host = host;
            report.remark(
                site,
                "without the variable Caddy serves this machine, with a certificate that it signs itself; hurtle \
                 does not start then",
            );
        }
    }
    all
}

fn address(written: &str, global: &Global) -> Result<Address, String> {
    if is_placeholder(written) || written.contains(['<', '>', '"']) {
        return Err("this is not an address".to_owned());
    }
    // The default of a variable may be a port, which is no name for hurtle.
    match written.strip_prefix("{env.").and_then(|rest| rest.strip_suffix('}')) {
        Some(variable) if !variable.contains('{') => match variable.split_once(':') {
            Some((_, default)) if default.starts_with(':') || default.contains("://") => {
                return Err(format!(
                    "write {default} for the variable: in hurtle a name may be one, not an address"
                ));
            }
            _ => {}
        },
        _ => {}
    }
    let (scheme, rest) = match written.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some((scheme, _)) => return Err(format!("a site has no scheme {scheme}")),
        None => ("", written),
    };
    let (host, port) = split(rest);
    if host.contains('/') || port.contains('/') {
        return Err("a path of a site is a `handle` in it".to_owned());
    }
    let is_clear = scheme == "http" || port == global.http_port;
    // The authority of hurtle signs for no such name.
    if matches!(host, "0.0.0.0" | "[::]") && !is_clear {
        let everywhere = if port.is_empty() { ":80".to_owned() } else { format!(":{port}") };
        return Err(format!(
            "Caddy answers requests there whose Host is {host}, and no others; write {everywhere} for all"
        ));
    }
    // A port alone is served in clear, unless it is the one of HTTPS.
    let is_tls = !is_clear && (scheme == "https" || !host.is_empty() || port == global.https_port);
    let port = match (port, is_tls) {
        ("", true) => global.https_port.clone(),
        ("", false) => global.http_port.clone(),
        (port, _) => port.to_owned(),
    };
    Ok(Address { host: lower(host), port, is_tls })
}

/// A variable whose default is a name of this machine, without that default.
fn without_local_default(host: &str) -> Option<String> {
    let (name, default) = host.strip_prefix("{env.")?.strip_suffix('}')?.split_once(':')?;
    is_local(default).then(|| format!("{{env.{name}}}"))
}

/// Splits host and port; colons within braces and brackets are neither.
fn split(text: &str) -> (&str, &str) {
    let mut depth = 0;
    let mut at = None;
    for (n, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ':' if depth == 0 => at = Some(n),
            _ => {}
        }
    }
    match at {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

/// A host in lower case; names of variables keep theirs.
fn lower(host: &str) -> String {
    let mut depth = 0;
    let lower = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 { c.to_ascii_lowercase() } else { c }
    };
    host.chars().map(lower).collect()
}

/// `true` for a name for which Caddy signs certificates by an authority of its own, or for which no
/// public one does.
pub(super) fn is_local(host: &str) -> bool {
    let ends = [".localhost", ".local", ".internal", ".home.arpa"];
    let name = host.strip_prefix("*.").unwrap_or(host);
    !host.is_empty() && !host.contains('{') && !name.contains('.')
        || ends.iter().any(|end| host.ends_with(end))
        || hurtle_config::address(host).is_some()
}

/// `true`: the local authority of hurtle may sign for this name, as far as is known here.
pub(super) fn is_signed(host: &str) -> bool {
    host.contains('{')
        || hurtle_config::is_local(&match host.strip_prefix("*.") {
            Some(suffix) => HostName::Wildcard(suffix.to_owned()),
            None => HostName::Exact(host.to_owned()),
        })
}
