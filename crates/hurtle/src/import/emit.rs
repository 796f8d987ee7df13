//! Writes the translated configuration as TOML, with the remarks as comments.

use std::fmt::Write;

use toml::Value;

use super::mount::{Keys, ServerConfig, Site};
use super::report::Report;

/// Width of comments.
const WIDTH: usize = 96;

/// Returns the configuration as TOML.
pub(super) fn text(server: &ServerConfig, report: &Report) -> String {
    let mut out = String::new();
    if !report.left_out.is_empty() {
        comment(&mut out, "NOT WHOLE. These directives of nginx are not translated:");
        report.left_out.iter().for_each(|line| comment(&mut out, &format!("- {line}")));
        out.push_str("#\n");
    }
    comment(&mut out, "Translated from nginx's configuration. Differences to know:");
    for general in GENERAL.iter().copied().chain(report.remarks.iter().map(String::as_str)) {
        comment(&mut out, &format!("- {general}"));
    }
    if !report.tuning.is_empty() {
        let names = report.tuning.join(", ");
        comment(&mut out, &format!("- Left out, because hurtle has no such setting: {names}"));
    }
    out.push('\n');
    keys(&mut out, &server.keys);
    for (name, table) in &server.tables {
        section(&mut out, &format!("[{name}]"), table);
    }
    for one in &server.sites {
        site(&mut out, one);
    }
    out
}

/// Differences between the two servers that no directive controls.
const GENERAL: [&str; 2] = [
    "A location /name is nginx's prefix of names, /name-other too; a mount is the path and all \
     beneath it.",
    "Names that begin with a dot are not served, and symbolic links must stay beneath the directory \
     (dotfiles, symlinks).",
];

fn site(out: &mut String, site: &Site) {
    let mut own: Keys = Vec::new();
    super::mount::put_list(&mut own, "hosts", &site.hosts);
    super::mount::put_list(&mut own, "listen", &site.listen);
    if site.is_default {
        super::mount::put(&mut own, "default", true);
    }
    section(out, "[[site]]", &own);
    if !site.tls.is_empty() {
        section(out, "[site.tls]", &site.tls);
    }
    if !site.errors.is_empty() {
        let pages = site.errors.iter();
        let pages: Keys =
            pages.map(|(status, page)| (status.to_string(), Value::from(page.clone()))).collect();
        section(out, "[site.errors]", &pages);
    }
    site.rules.iter().for_each(|rule| section(out, "[[site.rule]]", rule));
    site.headers.iter().for_each(|rule| section(out, "[[site.header]]", rule));
    for mount in &site.mounts {
        let path: Keys = match mount.path.as_str() {
            // One with a name has no path.
            "/" | "" => Vec::new(),
            path => vec![("path".to_owned(), Value::from(path))],
        };
        let keys = [path, mount.place.clone(), mount.keys.clone()].concat();
        section(out, "[[site.mount]]", &keys);
    }
}

fn section(out: &mut String, name: &str, table: &Keys) {
    let _ = writeln!(out, "\n{name}");
    keys(out, table);
}

fn keys(out: &mut String, table: &Keys) {
    for (key, value) in table {
        let _ = writeln!(out, "{} = {}", name(key), inline(value));
    }
}

/// A value on one line, tables included.
fn inline(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let pairs: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{} = {}", name(key), inline(value)))
                .collect();
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        // One line in any case: a value may have line breaks. A placeholder means itself.
        Value::String(text) => {
            quoted(&text.replace("{env.", "{{env.").replace("{file.", "{{file."))
        }
        other => other.to_string(),
    }
}

/// A key, quoted unless it is a bare key.
fn name(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) }
}

/// A basic string (TOML 1.0).
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes text as comment lines, broken at spaces.
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if line.len() + word.len() >= WIDTH && line.len() > 1 {
            out.push_str(&line);
            out.push_str("\n#  ");
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(line.trim_end());
    out.push('\n');
}
