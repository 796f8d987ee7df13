//! Values with placeholders that each request fills: `{host}`, `{client}`, `{request.NAME}` and the
//! like. They are parsed and checked when the configuration is read.

use std::fmt;

use http::HeaderName;
use serde::{Serialize, Serializer};

use super::error::{ValueError, shown};

/// A value with placeholders; one without is a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    written: String,
    pieces: Vec<Piece>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that is the same for all requests.
    Text(String),
    /// A property of the request.
    Variable(Variable),
}

/// A property of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// The requested host, without its port.
    Host,
    /// `http` or `https`.
    Scheme,
    /// The address of the client.
    Client,
    /// The path for the upstream, percent-encoded.
    Path,
    /// The query as sent, without `?`.
    Query,
    /// The path and the query as the client sent them.
    Uri,
    /// The method of the request.
    Method,
    /// The port of the listener.
    ServerPort,
    /// The subject of the client's certificate (RFC 4514).
    TlsClientSubject,
    /// The client's certificate, as in the field Client-Cert (RFC 9440 section 2.2).
    TlsClientCertificate,
    /// The value of a field of the request.
    Request(HeaderName),
}

/// The names of the variables but `request.NAME`.
const NAMES: [(&str, Variable); 10] = [
    ("host", Variable::Host),
    ("scheme", Variable::Scheme),
    ("client", Variable::Client),
    ("path", Variable::Path),
    ("query", Variable::Query),
    ("uri", Variable::Uri),
    ("method", Variable::Method),
    ("server.port", Variable::ServerPort),
    ("tls.client.subject", Variable::TlsClientSubject),
    ("tls.client.certificate", Variable::TlsClientCertificate),
];

impl Variable {
    /// Returns whether requests with the same scheme, host and target, as sent and behind the
    /// site's rules, have the same value.
    pub fn is_of_target(&self) -> bool {
        matches!(
            self,
            Variable::Host | Variable::Scheme | Variable::Path | Variable::Query | Variable::Uri
        )
    }
}

impl Template {
    /// Parses a template; `{{` means a brace.
    ///
    /// # Errors
    /// An unknown variable, or a placeholder without an end.
    pub(super) fn parse(written: &str) -> Result<Template, ValueError> {
        let (mut pieces, mut text, mut rest) = (Vec::new(), String::new(), written);
        while let Some(at) = rest.find('{') {
            text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('{') {
                text.push('{');
                rest = after;
                continue;
            }
            let Some((name, after)) = rest.split_once('}') else {
                let wrong = ValueError::new(format!("{} has no end", shown(&format!("{{{rest}"))));
                return Err(wrong.hint("write a } behind it, or {{ to mean a brace"));
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Variable(variable(name)?));
            rest = after;
        }
        text.push_str(rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Template { written: written.to_owned(), pieces })
    }

    /// The parts, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The properties of the request.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(variable),
            Piece::Text(_) => None,
        })
    }
}

/// As it was written.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.written)
    }
}

fn variable(name: &str) -> Result<Variable, ValueError> {
    if let Some((_, variable)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Ok(variable.clone());
    }
    if let Some(field) = name.strip_prefix("request.")
        && let Ok(field) = HeaderName::from_bytes(field.as_bytes())
    {
        return Ok(Variable::Request(field));
    }
    let known: Vec<String> = NAMES.iter().map(|(known, _)| format!("{{{known}}}")).collect();
    let wrong = ValueError::new(format!("{} is no placeholder", shown(&format!("{{{name}}}"))));
    Err(wrong
        .hint(format!("known are {} and {{request.NAME}}; {{{{ means a brace", known.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_texts_and_variables() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let rows = [
            ("a constant", "80", vec![text("80")]),
            ("empty", "", vec![]),
            ("a variable", "{host}", vec![Piece::Variable(Variable::Host)]),
            (
                "one within text",
                "a {request.X-Id} b",
                vec![
                    text("a "),
                    Piece::Variable(Variable::Request(HeaderName::from_static("x-id"))),
                    text(" b"),
                ],
            ),
            ("braces", "{{host} }", vec![text("{host} }")]),
        ];
        for (sentence, written, pieces) in rows {
            let template = Template::parse(written).unwrap();
            assert_eq!(template.pieces(), pieces, "{sentence}");
            assert_eq!(template.to_string(), written, "{sentence}");
        }
    }

    #[test]
    fn unknown_placeholders_are_refused() {
        for (sentence, written) in [
            ("an unknown name", "{hots}"),
            ("no name", "{}"),
            ("no end", "{host"),
            ("no field name", "{request.a b}"),
        ] {
            assert!(Template::parse(written).is_err(), "{sentence}");
        }
    }
}
