//! Writes the reference page, docs/config.md, from the schema.

use std::fmt::Write as _;

use super::schema::{DefaultValue, Key, Kind, SECTIONS, Section, one_of};

/// A complete short configuration, shown first.
const EXAMPLE: &str = r#"listen = ["0.0.0.0:80", "[::]:80"]
user = "www-data"

[access_log]
path = "/var/log/hurtle/access.log"

[[site]]
hosts = ["example.org", "www.example.org"]

[[site.rule]]
match = "/old/*"
redirect = "/new/{1}"
status = 301

[[site.header]]
match = "*.css"
set = { Cache-Control = "max-age=3600" }

[[site.mount]]
files = "public"

[[site.mount]]
path = "/healthz"
respond = "ok"
"#;

const SMALLEST: &str = "root = \"public\"\n";

const VALUES: &str = "\
- **Sizes** are text with a unit, `\"32 KiB\"` or `\"16MB\"`, or a plain number of bytes. KiB, MiB, GiB
  and TiB count by 1024; KB, MB, GB and TB by 1000.
- **Durations** are text with a unit, `\"250ms\"`, `\"75s\"`, `\"2m\"` or `\"1h\"`, or a plain number of
  seconds.
- **Lists** of one may be written as the value alone: `hosts = \"example.org\"`.
- **Files and directories** that are not absolute are relative to the configuration file.
- **Patterns** match a path: `*` any run of characters but `/`, `**` any run at all. A pattern\n  without `/` is compared with the last segment only, so `*.css` matches in every directory.
- **Networks** are addresses, `\"192.0.2.1\"`, or address ranges, `\"10.0.0.0/8\"`.
- **Paths** of requests are written decoded: `/a b`, not `/a%20b`.
- **Placeholders** make one file serve many machines, see below.
";

const PLACEHOLDERS: &str = "\
```toml
listen = \"0.0.0.0:{env.PORT:8080}\"
workers = \"{env.WORKERS:2}\"
trusted_proxies = \"{env.PROXIES:10.0.0.0/8, ::1}\"

[[site]]
hosts = \"{env.HOST:example.org}\"

[[site.mount]]
proxy = \"http://{env.APP_HOST:127.0.0.1}:3000\"
```

Every string may hold `{env.NAME}`, a variable of the environment, `{env.NAME:default}`, with a value
for when it is not set, and `{file.PATH}`, the contents of a file without its last line end. They are
replaced once, before the value is read: numbers, durations, sizes, `true` and `false` are written as
strings then, and lists with commas, networks also with spaces. `{{env.` and `{{file.` mean the brace itself; all other braces stay
as they are.

A variable that is not set, and has no default, is a problem of the file, and so is an empty value in
`allow`, `deny`, `auth`, `users` or `trusted_proxies`. `hurtle print-config`, `hurtle explain` and the
messages about problems show the placeholder, never the value. A reload reads files anew; the
environment is that of the start (systemd: `EnvironmentFile=`). Applications' `app.toml` has no
placeholders.
";

const SEVERAL_FILES: &str = "\
```toml
include = [\"sites/*.toml\", \"/etc/hurtle/logs.toml\"]

[defaults.site]
security_headers = true

[defaults.mount]
index = [\"index.html\", \"index.htm\"]

[[site]]
default = true

[[site.mount]]
files = \"public\"
```

The files of `include` are parts of one configuration. Each may have every key; the sites of all files
together are its sites, in the order of the files, and every other key stands in one file only.
`*` stands for any part of one name that does not begin with a dot, so `sites/*/hurtle.toml` works,
too; the files of a pattern are sorted by name. A pattern with `*` may match nothing. An included file
may include others, and one that is found twice is read once. Paths in a file are relative to its own
directory.

Messages name the file and the line. Their keys count the sites of all files: `site[3]` is the fourth
one, as in `hurtle print-config`, which prints all files as one. A reload reads all files, also new ones.

`[defaults.site]` and `[defaults.mount]` have keys for all sites and mounts that do not set them. A
list or a table of a site replaces that of the defaults, it is not added to it. A mistake in a default
is reported once, where it stands, if a site or a mount takes the key.
";

/// The command that regenerates the page.
const REFRESH: &str = "HURTLE_BLESS=1 cargo test -p hurtle --test config_golden";

/// The text of docs/config.md.
pub fn reference() -> String {
    let mut page = String::from("# Configuration\n\n");
    let _ = write!(page, "<!-- Generated from the schema: {REFRESH} -->\n\n");
    let _ = write!(
        page,
        "The smallest configuration serves one directory:\n\n```toml\n{SMALLEST}```\n\n"
    );
    let _ = write!(page, "A configuration with a bit of everything:\n\n```toml\n{EXAMPLE}```\n\n");
    page.push_str(
        "`hurtle check` reports every problem of a file at once, each with its line, its key and a \
         hint.\n`hurtle print-config` prints the configuration with all defaults filled in.\n\n",
    );
    let _ = write!(page, "## Values\n\n{VALUES}");
    let _ = write!(page, "\n## Placeholders\n\n{PLACEHOLDERS}");
    let _ = write!(page, "\n## Several files\n\n{SEVERAL_FILES}");
    SECTIONS.iter().for_each(|section| write_section(&mut page, section));
    page
}

fn write_section(page: &mut String, section: &Section) {
    let title = match section.header {
        "" => "The server".to_owned(),
        header => format!("`{header}`"),
    };
    let _ = write!(page, "\n## {title}\n\n{}\n", wrapped(section.doc));
    if section.keys().next().is_none() {
        return;
    }
    page.push_str("\n| Key | Default | Example | Meaning |\n|---|---|---|---|\n");
    for key in section.keys() {
        write_key(page, section, key);
    }
}

/// The header of a key's table, and where it is described: several sections may have it.
fn table(parent: &Section, key: &Key, of: &Section, is_list: bool) -> (String, String) {
    let path = parent.header.trim_matches(['[', ']']);
    let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
    let header = if is_list { format!("[[{path}]]") } else { format!("[{path}]") };
    let is_own = header == of.header;
    let place = if is_own { "see below".to_owned() } else { format!("see `{}`", of.header) };
    let kind = if is_list { "Tables of their own" } else { "A table of its own" };
    (format!("`{header}`"), format!("{kind}, {place}"))
}

fn write_key(page: &mut String, parent: &Section, key: &Key) {
    let default = match (key.default_value(), &key.absent) {
        (Some(value), _) => format!("`{value}`"),
        (None, DefaultValue::Words(words)) => (*words).to_owned(),
        (None, _) => "required".to_owned(),
    };
    let (example, kind) = match key.kind {
        Kind::Table(section) => table(parent, key, section, false),
        Kind::Tables(section) => table(parent, key, section, true),
        ref kind => (format!("`{}`", key.example), capitalized(&kind.to_string())),
    };
    let with = match key.with {
        [] => String::new(),
        with if matches!(key.kind, Kind::TrueOrInteger(..)) => {
            format!(" A number requires {}.", one_of(with).replace('"', "`"))
        }
        with => format!(" Requires {}.", one_of(with).replace('"', "`")),
    };
    let cells = [
        format!("`{}`", key.name),
        default,
        example,
        format!("{}{with} *{kind}.*", key.doc.trim_start()),
    ];
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// Wraps a paragraph at 100 columns.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.len() + word.len() < WIDTH);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => line.extend([" ", word]),
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::check;

    #[test]
    fn the_examples_of_the_page_are_valid() {
        for text in [EXAMPLE, SMALLEST] {
            assert_eq!(check(text, Path::new("/etc/hurtle.toml")).err(), None);
        }
    }

    #[test]
    fn every_table_has_one_section_on_the_page() {
        let page = reference();
        for section in SECTIONS.iter().filter(|section| !section.header.is_empty()) {
            let title = format!("## `{}`\n", section.header);
            assert_eq!(page.matches(&title).count(), 1, "{title}");
        }
    }
}
