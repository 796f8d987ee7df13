//! Translates the directives of a `server` that are its own: addresses, names and
//! certificates.

use toml::Value;

use super::mount::{Keys, put};
use super::path::{Prefix, absolute};
use super::report::Report;
use super::server::Server;
use super::syntax::Directive;

/// Adds an address; `is_tls`: TLS is on for all addresses of the server.
pub(super) fn listen(
    d: &Directive,
    mut is_tls: bool,
    server: &mut Server<'_>,
    report: &mut Report,
) {
    let address = address(d.arg(0));
    for option in &d.args[1.min(d.args.len())..] {
        match option.split('=').next().unwrap_or_default() {
            "ssl" => is_tls = true,
            "default_server" | "default" => server.defaults.push(address.clone()),
            "ipv6only" if option == "ipv6only=off" => server.dual.push(address.clone()),
            "http2" | "reuseport" | "deferred" | "ipv6only" | "backlog" | "fastopen"
            | "so_keepalive" | "rcvbuf" | "sndbuf" | "bind" => {}
            // The TLS listener of the same port serves HTTP/3 too.
            "quic" => return,
            "proxy_protocol" => report.refuse(d, "write [proxy_protocol] for this address"),
            _ => report.refuse(d, format!("it does not know `{option}`")),
        }
    }
    if is_tls { server.tls.push(address) } else { server.clear.push(address) }
}

/// An address of `listen` with its interface and port.
fn address(text: &str) -> String {
    match text.strip_prefix("*:").or(Some(text).filter(|t| t.parse::<u16>().is_ok())) {
        Some(port) => format!("0.0.0.0:{port}"),
        None if text.starts_with("unix:") => text.to_owned(),
        None => {
            let text = text.replacen("localhost", "127.0.0.1", 1);
            let has_port = text.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
            if has_port { text } else { format!("{text}:80") }
        }
    }
}

pub(super) fn names(d: &Directive, hosts: &mut Vec<String>, report: &mut Report) {
    for name in &d.args {
        match name.as_str() {
            "" | "_" => {}
            name if name.starts_with('~') => {
                report.refuse(d, "names are exact, begin with *. or end with .*");
            }
            name => match name.strip_prefix('.') {
                Some(name) => hosts.extend([name.to_owned(), format!("*.{name}")]),
                None => hosts.push(name.to_owned()),
            },
        }
    }
}

pub(super) fn certificate(d: &Directive, tls: &mut Keys, report: &mut Report) {
    let path = match d.name.as_str() {
        "ssl_verify_client" => Some(d.arg(0).to_owned()),
        _ => absolute(d, Prefix::Configuration, report).filter(|path| !path.contains('$')),
    };
    let Some(value) = path.as_deref() else {
        return report.refuse(d, "write an absolute path");
    };
    let key = match d.name.as_str() {
        "ssl_certificate" => "certificate",
        "ssl_certificate_key" => "key",
        "ssl_client_certificate" => "client_ca",
        "ssl_crl" => "client_crl",
        _ => "client_auth",
    };
    let value = match (key, value) {
        ("client_auth", "on") => "required",
        ("client_auth", "off") => return,
        ("client_auth", "optional") => "optional",
        ("client_auth", _) => return report.refuse(d, "write on, off or optional"),
        (_, value) => value,
    };
    if key == "client_crl" {
        report.remark(
            d,
            "nginx refuses clients of authorities without a list, or with an expired one; hurtle admits them",
        );
    }
    // A second certificate has another type of key.
    match tls.iter_mut().find(|(known, _)| known == key) {
        Some((_, Value::Array(list))) => list.push(Value::from(value)),
        Some((_, known)) => *known = Value::from(vec![known.clone(), Value::from(value)]),
        None => put(tls, key, value),
    }
}
