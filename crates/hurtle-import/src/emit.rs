//! Writes the translated configuration as TOML, with the remarks as comments.

use std::fmt::Write;

use hurtle_config::PathRegex;
use toml::Value;

use super::mount::{Keys, ServerConfig, Site};
use super::report::Report;

/// Width of comments in the written TOML, in bytes.
const WIDTH: usize = 96;

/// The server whose configuration is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Nginx,
    Apache,
    /// Its values may have variables of the environment, which are hurtle's placeholders.
    Caddy,
}

/// Returns the configuration as TOML. `general`: differences that no directive controls.
pub(super) fn text(
    server: &ServerConfig,
    report: &Report,
    source: Source,
    general: &[&str],
) -> String {
    let name = match source {
        Source::Nginx => "nginx",
        Source::Apache => "Apache",
        Source::Caddy => "Caddy",
    };
    let mut out = String::new();
    if !report.left_out.is_empty() {
        comment(&mut out, &format!("NOT WHOLE. These directives of {name} are not translated:"));
        report.left_out.iter().for_each(|line| comment(&mut out, &format!("- {line}")));
        out.push_str("#\n");
    }
    comment(&mut out, &format!("Translated from {name}'s configuration. Differences to know:"));
    for general in general.iter().copied().chain(report.remarks.iter().map(String::as_str)) {
        comment(&mut out, &format!("- {general}"));
    }
    if !report.tuning.is_empty() {
        let names = report.tuning.join(", ");
        comment(&mut out, &format!("- Left out, because hurtle has no such setting: {names}"));
    }
    out.push('\n');
    let mut writer = Writer { out, source };
    writer.keys(&server.keys);
    for (name, table) in &server.tables {
        writer.section(&format!("[{name}]"), table);
    }
    server.sites.iter().for_each(|one| writer.site(one));
    writer.out
}

/// Writes tables and values.
struct Writer {
    out: String,
    source: Source,
}

impl Writer {
    fn site(&mut self, site: &Site) {
        let mut own: Keys = Vec::new();
        super::mount::put_list(&mut own, "hosts", &site.hosts);
        super::mount::put_list(&mut own, "listen", &site.listen);
        if site.is_default {
            super::mount::put(&mut own, "default", true);
        }
        own.extend(site.keys.iter().cloned());
        self.section("[[site]]", &own);
        if !site.tls.is_empty() {
            self.section("[site.tls]", &site.tls);
        }
        if !site.errors.is_empty() {
            let pages = site.errors.iter();
            let pages: Keys =
                pages.map(|(status, page)| (status.to_string(), page.clone())).collect();
            self.section("[site.errors]", &pages);
        }
        site.rules.iter().for_each(|rule| self.section("[[site.rule]]", rule));
        site.headers.iter().for_each(|rule| self.section("[[site.header]]", rule));
        for mount in &site.mounts {
            let path: Keys = match mount.path.as_str() {
                // One with a name has no path.
                "/" | "" => Vec::new(),
                path => vec![("path".to_owned(), Value::from(path))],
            };
            let keys = [path, mount.place.clone(), mount.keys.clone()].concat();
            self.section("[[site.mount]]", &keys);
        }
    }

    fn section(&mut self, name: &str, table: &Keys) {
        let _ = writeln!(self.out, "\n{name}");
        self.keys(table);
    }

    fn keys(&mut self, table: &Keys) {
        for (key, value) in table {
            let value = self.inline(value);
            let _ = writeln!(self.out, "{} = {value}", name(key));
        }
    }

    /// A value of a table on one line.
    fn condition(&self, key: &str, value: &Value) -> String {
        match value {
            Value::String(text) if key == "regex" => {
                self.inline(&Value::from(PathRegex::imported(text)))
            }
            value => self.inline(value),
        }
    }

    /// A value on one line, tables included.
    fn inline(&self, value: &Value) -> String {
        match value {
            Value::Table(table) => {
                let pairs: Vec<String> = table
                    .iter()
                    .map(|(key, value)| format!("{} = {}", name(key), self.condition(key, value)))
                    .collect();
                match pairs.is_empty() {
                    true => "{}".to_owned(),
                    false => format!("{{ {} }}", pairs.join(", ")),
                }
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.inline(item)).collect();
                format!("[{}]", items.join(", "))
            }
            // One line in any case: a value may have line breaks.
            Value::String(text) => match self.source {
                // There such text means itself.
                Source::Nginx | Source::Apache => {
                    quoted(&text.replace("{env.", "{{env.").replace("{file.", "{{file."))
                }
                Source::Caddy => quoted(text),
            },
            other => other.to_string(),
        }
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
