//! A site: its addresses, certificates, logs and error pages, and the mounts of its directives.

use super::address::{self, Address};
use super::block;
use super::errors;
use super::global::{BY_DNS, Global};
use super::parts::Parts;
use super::sites;
use crate::mount::{Keys, Site, put};
use crate::report::Report;
use crate::syntax::Directive;

/// A translated site, before the listeners of all are known.
#[derive(Debug)]
pub(super) struct CaddySite {
    pub(super) addresses: Vec<Address>,
    /// Addresses of `bind` or `default_bind`; empty: all interfaces.
    pub(super) interfaces: Vec<String>,
    pub(super) site: Site,
    /// `Some`: requests are logged, to this file or stream.
    pub(super) log: Option<Log>,
    /// `Some`: it only redirects to HTTPS, as hurtle may do by itself. The report has the problems
    /// and remarks of a translation as a site of its own.
    pub(super) redirect: Option<Report>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Log {
    pub(super) path: String,
    pub(super) is_json: bool,
}

pub(super) fn translate(d: &Directive, global: &mut Global, report: &mut Report) -> CaddySite {
    let addresses = address::of(d, global, report);
    let mut hosts: Vec<&str> = addresses.iter().map(|address| address.host.as_str()).collect();
    hosts.dedup();
    let host = match hosts.as_slice() {
        [host] if !host.contains(['*', '{']) => (*host).to_owned(),
        _ => String::new(),
    };
    let is_clear = addresses.iter().any(|address| !address.is_tls);
    let has_proxies = global.has_proxies();
    let config_files = global.config_files.clone();
    let mut parts = Parts { host, is_clear, has_proxies, config_files, ..Parts::default() };
    let mut redirect = is_redirect(d, &addresses).then(Report::default);
    let mut site = Site::default();
    let mut log = None;
    for line in d.children() {
        match line.name.as_str() {
            "log" => log = Some(access_log(line, report)),
            "tls" => tls(line, &addresses, &mut site.tls, global, report),
            _ => {}
        }
    }
    block::translate_site(d, &mut parts, redirect.as_mut().unwrap_or(report));
    if parts.missing.is_some() {
        report.refuse(d, "`not file` is before a file_server for all requests");
    }
    if addresses.iter().any(|address| address.is_tls) && site.tls.is_empty() {
        certificate(d, &addresses, &mut site.tls, global, report);
    }
    let mut of_errors: Vec<&Directive> =
        d.children().iter().filter(|line| line.name == "handle_errors").collect();
    // Caddy asks those with statuses first.
    of_errors.sort_by_key(|line| line.args.is_empty());
    let mut named = Site::default();
    let root = errors::root_of_all(d.children());
    for line in of_errors {
        errors::translate(line, root, &parts, &mut named, report);
    }
    for (d, status) in &parts.responses {
        if named.errors.contains_key(status) {
            let text =
                format!("its answer is the page of {status}, which Caddy sends for errors alone");
            report.remark(d, &text);
        }
    }
    // Pages of Caddy have no gates.
    if parts.keys.iter().any(|(name, _)| name == "auth") {
        named.mounts.iter_mut().for_each(|mount| put(&mut mount.keys, "auth", "none"));
    }
    site.errors = named.errors;
    site.keys = parts.keys;
    site.headers = parts.headers.all();
    site.rules = [parts.rules, named.rules].concat();
    site.mounts = [parts.mounts, named.mounts].concat();
    let interfaces = sites::interfaces(d, global);
    CaddySite { addresses, interfaces, site, log, redirect }
}

/// `true` for a site that is `redir https://{host}{uri}` for all requests.
pub(super) fn is_redirect(d: &Directive, addresses: &[Address]) -> bool {
    let [redir] = d.children() else { return false };
    let host = addresses.first().map_or("", |address| address.host.as_str());
    let to = match redir.args.as_slice() {
        [all, to, ..] if all == "*" => to.as_str(),
        [to, ..] => to.as_str(),
        [] => return false,
    };
    let is_https = ["https://{host}{uri}", "https://{hostport}{uri}"].contains(&to)
        || (addresses.len() == 1 && !host.is_empty() && to == format!("https://{host}{{uri}}"));
    redir.name == "redir" && is_https && addresses.iter().all(|address| !address.is_tls)
}

/// The certificate that Caddy gets for a site without `tls`.
fn certificate(
    d: &Directive,
    addresses: &[Address],
    keys: &mut Keys,
    global: &Global,
    report: &mut Report,
) {
    let tls = || addresses.iter().filter(|address| address.is_tls);
    let public = || tls().filter(|address| !address::is_local(&address.host));
    for address in tls().filter(|address| address::is_local(&address.host)) {
        if !address::is_signed(&address.host) {
            return report.refuse(d, format!("{}: {NOT_SIGNED}", address.host));
        }
    }
    if !global.is_automatic {
        report.refuse(d, "it has TLS and no certificate: auto_https is off");
    } else if global.is_local {
        return sign_locally(d, addresses, keys, report);
    } else if tls().any(|address| address.host.is_empty()) {
        report.refuse(
            d,
            "certificates for all names: write `tls { on_demand }`, and `ask` in on_demand_tls",
        );
    } else if public().any(|address| address.host.starts_with("*.")) {
        report.refuse(
            d,
            "a certificate for all names of a domain needs a proof by DNS, which hurtle makes by a program of \
             yours: name files with `tls FILE KEY`, then write certificate = \"auto\" and acme.dns_hook in their \
             place (docs/https.md)",
        );
    }
    put(keys, "certificate", "auto");
}

/// A certificate of the local authority for all names.
fn sign_locally(d: &Directive, addresses: &[Address], keys: &mut Keys, report: &mut Report) {
    for address in addresses.iter().filter(|address| address.is_tls) {
        if address.host.is_empty() {
            return report.refuse(d, "hurtle signs certificates for names in the configuration");
        }
        if !address::is_signed(&address.host) {
            return report.refuse(d, format!("{}: {NOT_SIGNED}", address.host));
        }
    }
    put(keys, "certificate", "local");
}

const NOT_SIGNED: &str = "the local authority of hurtle signs for private names only, such as those in \
     .internal or .lan: name the files of a certificate with `tls FILE KEY`";

fn tls(
    d: &Directive,
    addresses: &[Address],
    keys: &mut Keys,
    global: &mut Global,
    report: &mut Report,
) {
    match d.args.as_slice() {
        [] => {}
        [word] if word == "internal" => sign_locally(d, addresses, keys, report),
        [email] if email.contains('@') || email.contains("{env.") => global.mail_to(email),
        [certificate, key] => {
            put(keys, "certificate", certificate.as_str());
            if key != certificate {
                put(keys, "key", key.as_str());
            }
        }
        _ => return report.refuse(d, "it has an e-mail address, or a certificate and a key"),
    }
    let mut clients = Keys::new();
    for line in d.children() {
        match line.name.as_str() {
            "protocols" | "ciphers" | "curves" | "alpn" => report.leave_out(line),
            "client_auth" => client_auth(line, &mut clients, report),
            "dns" | "dns_ttl" | "propagation_delay" | "propagation_timeout" | "resolvers" => {
                report.general(BY_DNS.to_owned());
            }
            "on_demand" => on_demand(line, keys, global, report),
            _ => report.refuse(line, "hurtle's TLS has no such setting"),
        }
    }
    if !clients.is_empty() {
        if keys.is_empty() {
            certificate(d, addresses, keys, global, report);
        }
        keys.extend(clients);
    }
}

/// Certificates that handshakes order, if a server allows the name.
fn on_demand(d: &Directive, keys: &mut Keys, global: &Global, report: &mut Report) {
    match &global.ask {
        None => report.refuse(d, "hurtle asks a server about each name: `ask` in on_demand_tls"),
        Some(_) if !keys.is_empty() => {
            report.refuse(d, "hurtle orders certificates on demand from public authorities only");
        }
        Some(ask) => {
            put(keys, "certificate", "auto");
            let mut settings = toml::Table::new();
            settings.insert("ask".to_owned(), ask.as_str().into());
            put(keys, "on_demand", settings);
        }
    }
}

fn client_auth(d: &Directive, keys: &mut Keys, report: &mut Report) {
    let mut mode = "required";
    for line in d.children() {
        match (line.name.as_str(), line.arg(0)) {
            ("mode", "require_and_verify") => mode = "required",
            ("mode", "verify_if_given") => mode = "optional",
            ("trusted_ca_cert_file", file) => put(keys, "client_ca", file),
            ("trust_pool", "file") if line.args.len() == 2 => put(keys, "client_ca", line.arg(1)),
            _ => report.refuse(
                line,
                "of client_auth it knows the modes that verify, and a file of authorities",
            ),
        }
    }
    put(keys, "client_auth", mode);
}

fn access_log(d: &Directive, report: &mut Report) -> Log {
    let mut log = Log { path: "stderr".to_owned(), is_json: true };
    for line in d.children() {
        match (line.name.as_str(), line.arg(0)) {
            ("output", stream @ ("stdout" | "stderr")) => log.path = stream.to_owned(),
            ("output", "file") => {
                log.path = line.arg(1).to_owned();
                line.children().iter().for_each(|line| report.leave_out(line));
            }
            ("output", "discard") => log.path = String::new(),
            ("format", "json") => {}
            ("format", "console") => log.is_json = false,
            (
                "format",
                kind
                @ ("filter" | "transform" | "single_field" | "append" | "logfmt" | "formatted"),
            ) => {
                report.remark(
                    line,
                    &format!("the log is JSON with all of its fields, such as the target of GET /?token=x, without `{kind}`"),
                );
            }
            ("output", "net") => {
                report.remark(line, "the log of requests, such as GET /, is written to stderr");
            }
            ("level" | "hostnames" | "no_hostname" | "sampling", _) => report.leave_out(line),
            _ => report.refuse(
                line,
                "of logs it knows output (stdout, stderr, file) and format (json, console)",
            ),
        }
    }
    log
}
