//! Writes the figures as HTML. The page needs no JavaScript, and loads nothing from elsewhere.

use std::fmt::Write as _;

use crate::metrics::report::{Group, Report, Table, Text, Tone};

/// The Content-Security-Policy. It allows the style sheet and the script by their hashes, and the
/// stream of events.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
    style-src 'sha256-g879BvVYb4xJKLMem1vAHI2ZefxFQ9qbsaqQ4MFYNlE='; \
    script-src 'sha256-O4dbYH9V4c/nPtt1QlabTcPqPHgjwsN9JCQtFp2eI+8='; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The style sheet and the script. The policy pins their hashes; if one changes, a test prints the
/// new hash.
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Writes the page around the figures. Without JavaScript it is loaded again every 5 seconds.
pub fn document(fragment: &str) -> String {
    format!(
        "<!DOCTYPE html>\n\
        <html lang=\"en\">\n\
        <head>\n\
        <meta charset=\"utf-8\">\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
        <meta name=\"color-scheme\" content=\"light dark\">\n\
        <title>hurtle status</title>\n\
        <link rel=\"icon\" href=\"data:,\">\n\
        <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n\
        <style>{STYLE}</style>\n\
        </head>\n\
        <body>\n\
        <header><h1>hurtle status</h1><p role=\"status\"></p></header>\n\
        <main>{fragment}</main>\n\
        <footer><a href=\"?format=json\">JSON</a></footer>\n\
        <script>{SCRIPT}</script>\n\
        </body>\n\
        </html>\n"
    )
}

/// Writes the figures on one line.
pub(super) fn fragment(report: &Report) -> String {
    let mut out = String::new();
    out.push_str("<div class=\"groups\">");
    report.groups.iter().for_each(|group| write_group(&mut out, group));
    out.push_str("</div>");
    report.tables.iter().for_each(|table| write_table(&mut out, table));
    out
}

// Writing into a String cannot fail.

fn write_group(out: &mut String, group: &Group) {
    let _ = write!(out, "<section><h2>{}</h2><dl>", group.name);
    for (name, text) in &group.figures {
        let (class, text) = (class(text.tone), escaped(&text.text));
        let _ = write!(out, "<div><dt>{}</dt><dd{class}>{text}</dd></div>", escaped(name));
    }
    out.push_str("</dl></section>");
}

fn write_table(out: &mut String, table: &Table) {
    let name = table.name;
    let _ = write!(
        out,
        "<section><h2>{name}</h2><div class=\"wide\" tabindex=\"0\" role=\"region\" \
         aria-label=\"{name}\"><table><thead><tr>"
    );
    for (at, head) in table.heads.iter().enumerate() {
        let sorted = if table.sorted_by == Some(at) { " aria-sort=\"descending\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{sorted}>{head}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, Text { text, tone }) in row.iter().enumerate() {
            let (class, text) = (class(*tone), escaped(text));
            let _ = match at {
                0 => write!(out, "<th scope=\"row\"{class}>{text}</th>"),
                _ => write!(out, "<td{class}>{text}</td>"),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></section>");
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Faint => " class=\"faint\"",
        Tone::Bad => " class=\"bad\"",
    }
}

/// Escapes a text for HTML. A line break would end an event, so it becomes a space.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\r' | '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::metrics::Snapshot;
    use crate::metrics::rates::{Rates, SortKey};

    #[test]
    fn the_policy_allows_the_style_sheet_and_the_script() {
        for (directive, text) in [("style-src", STYLE), ("script-src", SCRIPT)] {
            let hash = BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
            let source = format!("{directive} 'sha256-{hash}';");
            assert!(CONTENT_SECURITY_POLICY.contains(&source), "changed: pin {source}");
            assert!(!text.contains("</") && !text.contains('\r'));
        }
    }

    #[test]
    fn names_are_escaped_and_an_event_is_one_line() {
        let mut snapshot = Snapshot::default();
        snapshot.upstreams.push(Default::default());
        snapshot.upstreams[0].upstream = "<b>'\n&\"".to_owned();
        let rates = Rates::between(None, &snapshot);
        let fragment = fragment(&Report::new(&rates, SortKey::default()));
        assert!(fragment.contains("&lt;b&gt;&#39; &amp;&quot;"), "{fragment}");
        assert!(!fragment.contains('\n'), "{fragment}");
    }
}
