//! `transport fastcgi` of `reverse_proxy`: one script that answers every path, such as gitweb.
//! Scripts with paths of their own are `php_fastcgi`.

use toml::Value;

use super::handlers::fastcgi_address;
use super::pattern::is_placeholder;
use super::proxy::duration;
use super::scope::Scope;
use crate::mount::{Keys, put, put_list};
use crate::report::Report;
use crate::syntax::Directive;

/// Variables that have these values anyway.
const GIVEN: [(&str, &str); 6] = [
    ("REQUEST_METHOD", "{method}"),
    ("REQUEST_METHOD", "{http.request.method}"),
    ("PATH_INFO", "{path}"),
    ("PATH_INFO", "{http.request.uri.path}"),
    ("QUERY_STRING", "{query}"),
    ("QUERY_STRING", "{http.request.uri.query}"),
];

/// Returns the transport of a proxy that speaks FastCGI.
pub(super) fn transport(proxy: &Directive) -> Option<&Directive> {
    let is_fastcgi = |line: &&Directive| line.name == "transport" && line.arg(0) == "fastcgi";
    proxy.children().iter().find(is_fastcgi)
}

/// Translates such a proxy to the keys of a mount without `root`.
///
/// # Errors
/// A script that depends on the path, or another setting of the proxy.
pub(super) fn translate(
    transport: &Directive,
    proxy: &Directive,
    addresses: &[String],
    scope: &Scope,
    report: &mut Report,
) -> Result<Keys, String> {
    if let Some(other) = proxy.children().iter().find(|line| line.name != "transport") {
        return Err(format!("of a proxy by FastCGI it knows the transport, not {}", other.name));
    }
    let has_path_of_client =
        scope.prefix.is_empty() && scope.try_files.is_empty() && scope.rewritten.is_none();
    if addresses.is_empty() || !has_path_of_client {
        return Err("it has an upstream, and the path as the client sent it".to_owned());
    }
    let addresses: Vec<String> = addresses.iter().map(|address| fastcgi_address(address)).collect();
    let (mut keys, mut params) = (Keys::new(), toml::Table::new());
    put_list(&mut keys, "fastcgi", &addresses);
    if addresses.len() > 1 {
        report.remark(proxy, "its addresses get requests in turn; Caddy chooses by chance");
    }
    if let Some(root) = &scope.root {
        params.insert("DOCUMENT_ROOT".to_owned(), Value::from(root.as_str()));
    }
    for line in transport.children() {
        let value = line.arg(0);
        match line.name.as_str() {
            "env" if GIVEN.contains(&(value, line.arg(1))) => {}
            "env" if line.args.len() == 2 && !is_placeholder(line.arg(1)) => {
                params.insert(value.to_owned(), Value::from(line.arg(1)));
            }
            "root" if !is_placeholder(value) => {
                params.insert("DOCUMENT_ROOT".to_owned(), Value::from(value));
            }
            "dial_timeout" => put(&mut keys, "connect_timeout", duration(value)?),
            "read_timeout" => put(&mut keys, "read_timeout", duration(value)?),
            "write_timeout" => put(&mut keys, "send_timeout", duration(value)?),
            "capture_stderr" => report.leave_out(line),
            _ => report.refuse(line, "hurtle's fastcgi has no such setting"),
        }
    }
    if !params.contains_key("SCRIPT_FILENAME") {
        return Err("without SCRIPT_FILENAME the path names the script: write php_fastcgi".into());
    }
    put(&mut keys, "params", Value::Table(params));
    if let Some(fields) = scope.request.request_fields("", scope.has_proxies)? {
        put(&mut keys, "request_fields", fields);
    }
    Ok(keys)
}
