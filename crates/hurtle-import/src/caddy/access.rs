//! `basic_auth` and `forward_auth`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use toml::Value;

use super::proxy::url;
use crate::mount::{Keys, put};
use crate::report::Report;
use crate::syntax::Directive;

/// The realm of Caddy where none is written.
const REALM: &str = "restricted";

/// Translates passwords: hurtle reads them from a file, whose lines a remark has.
pub(super) fn basic(
    d: &Directive,
    args: &[String],
    is_clear: bool,
    keys: &mut Keys,
    report: &mut Report,
) -> Result<(), String> {
    let realm = match args {
        [] => REALM,
        [kind] if kind == "bcrypt" => REALM,
        [kind, realm] if kind == "bcrypt" => realm,
        _ => return Err("of hashes it knows bcrypt".to_owned()),
    };
    let users = d.children();
    if users.is_empty() {
        return Err("it has no user".to_owned());
    }
    let line = |user: &Directive| hash(user.arg(0)).map(|hash| format!("{}:{hash}", user.name));
    let lines: Option<Vec<String>> = users.iter().map(line).collect();
    let lines = lines.ok_or("a password is a hash that begins with $2")?;
    // Other users have another file, also where one line is imported twice.
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    let file = format!("users-{:016x}.htpasswd", hasher.finish());
    report.remark(
        d,
        &format!(
            "write to {file}, beside the configuration, one a line{}: {}",
            if lines.iter().any(|line| line.contains("{env.")) {
                ", with the values of the variables"
            } else {
                ""
            },
            lines.join(" ")
        ),
    );
    put(keys, "auth", "basic");
    put(keys, "users", file);
    if is_clear {
        report.remark(d, "passwords cross the network in clear (auth_cleartext), as in Caddy");
        put(keys, "auth_cleartext", true);
    }
    put(keys, "realm", realm);
    Ok(())
}

/// A hash of bcrypt; formerly it was written in base64.
fn hash(written: &str) -> Option<String> {
    // The value of a variable is for whoever writes the file.
    if written.starts_with("$2") || (written.starts_with("{env.") && written.ends_with('}')) {
        return Some(written.to_owned());
    }
    let decoded = STANDARD_NO_PAD.decode(written.trim_end_matches('=')).ok()?;
    String::from_utf8(decoded).ok().filter(|hash| hash.starts_with("$2"))
}

/// Translates the server that decides about requests.
pub(super) fn forward(
    d: &Directive,
    args: &[String],
    keys: &mut Keys,
    report: &mut Report,
) -> Result<(), String> {
    let [upstream] = args else { return Err("it has one upstream".to_owned()) };
    let (mut path, mut copied, mut insecure) = (None, Vec::new(), false);
    for line in d.children() {
        match line.name.as_str() {
            "uri" => path = Some(line.arg(0)),
            "copy_headers" => {
                copied.extend(line.args.iter().cloned());
                copied.extend(line.children().iter().map(|line| line.name.clone()));
            }
            "header_up" if matches!(line.arg(0), "Host" | "X-Real-IP" | "X-Forwarded-Host") => {
                report.leave_out(line);
            }
            "transport"
                if line.children().iter().all(|line| line.name == "tls_insecure_skip_verify") =>
            {
                insecure = !line.children().is_empty();
            }
            _ => report.refuse(line, "the request of hurtle to such a server has no such setting"),
        }
    }
    if copied.iter().any(|name| name.contains('>')) {
        return Err("a field is copied under its own name".to_owned());
    }
    let server = url(upstream)?;
    if server.starts_with("unix:") {
        return Err("a server on a unix socket is asked for / only".to_owned());
    }
    put(keys, "auth", "forward");
    put(keys, "forward", format!("{server}{}", path.ok_or("it has no uri")?));
    if !copied.is_empty() {
        put(keys, "copy_headers", copied);
    }
    if insecure {
        put(
            keys,
            "forward_tls",
            Value::Table(
                [("insecure_skip_verify".to_owned(), Value::from(true))].into_iter().collect(),
            ),
        );
    }
    Ok(())
}
