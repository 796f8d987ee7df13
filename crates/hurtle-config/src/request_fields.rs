//! Fields that the operator sets, adds and removes on requests to upstreams: the schema of
//! `[site.mount.request_fields]`.

use http::{HeaderName, header};
use serde::{Serialize, Serializer};

use super::error::{ValueError, shown};
use super::field::field_name;
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::Toml;
use super::schema::Kind::{List, Map};
use super::schema::{Key, Section};
use super::table::Table;
use super::template::{Template, Variable};
use super::value::Value;

#[rustfmt::skip] // One paragraph for each key.
pub(super) static REQUEST_FIELDS: Section = Section {
    header: "[site.mount.request_fields]",
    doc: "Fields of requests to upstreams and to FastCGI and CGI applications (`HTTP_NAME`). Values may have placeholders: `{host}`, `{scheme}`, `{client}`, \
          `{path}`, `{query}`, `{uri}`, `{method}`, `{server.port}`, `{tls.client.subject}` (RFC 4514), `{tls.client.certificate}` (RFC 9440) \
          and `{request.NAME}`; `{{` means a brace. See [proxy.md](proxy.md#request-fields).",
    keys: &[&[
        Key::new("set", Map("a table of names and values"), Toml("{}"),
            "{ X-Forwarded-Port = \"{server.port}\" }",
            "Fields to set, `Host` included. The client's fields of these names are removed, and those that \
             hurtle adds."),
        Key::new("add", Map("a table of names and values"), Toml("{}"), "{ X-Tag = \"a\" }",
            "Fields to add beside those of the client."),
        Key::new("remove", List("field names"), Toml("[]"), "[\"Cookie\"]",
            "Fields to remove, also from trailers."),
    ]],
};

/// Edits of the fields of requests to upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestFields {
    /// Fields in place of the client's and of the server's.
    #[serde(serialize_with = "templates")]
    pub set: Vec<(HeaderName, Template)>,
    /// Fields beside the client's.
    #[serde(serialize_with = "templates")]
    pub add: Vec<(HeaderName, Template)>,
    /// Fields that the upstream does not get.
    #[serde(serialize_with = "print::field_names")]
    pub remove: Vec<HeaderName>,
}

impl RequestFields {
    /// The names of the fields that the client cannot send.
    pub fn own_names(&self) -> impl Iterator<Item = &HeaderName> {
        let set = self.set.iter().map(|(name, _)| name).filter(|name| **name != header::HOST);
        set.chain(&self.remove)
    }

    /// Returns whether this field can be set to this value.
    pub fn takes(field: &str, value: &str) -> bool {
        name(field, true).is_ok() && template(value).is_ok()
    }

    /// Describes the edits in one line.
    pub fn describe(&self) -> String {
        let pairs = |fields: &[(HeaderName, Template)]| {
            fields.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>()
        };
        let removed = self.remove.iter().map(ToString::to_string).collect();
        [("sets", pairs(&self.set)), ("adds", pairs(&self.add)), ("removes", removed)]
            .iter()
            .filter(|(_, fields)| !fields.is_empty())
            .map(|(what, fields): &(_, Vec<String>)| format!("{what} {}", fields.join(", ")))
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Returns whether a value depends on the target as the client sent it.
    pub fn has_sent_target(&self) -> bool {
        self.variables().any(|variable| *variable == Variable::Uri)
    }

    /// The variables of all values.
    fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.set.iter().chain(&self.add).flat_map(|(_, value)| value.variables())
    }
}

fn templates<S: Serializer>(fields: &[(HeaderName, Template)], out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(fields.iter().map(|(name, value)| (name.as_str(), value)))
}

/// Reads the table; `is_cached`: responses are stored for other requests.
pub(super) fn request_fields(
    table: &Table<'_>,
    is_cached: bool,
    reader: &mut Reader<'_>,
) -> RequestFields {
    let mut fields = RequestFields::default();
    table.set("set", reader, |v, r| Some(read(v, true, r)), &mut fields.set);
    table.set("add", reader, |v, r| Some(read(v, false, r)), &mut fields.add);
    let name =
        |item: &Value<'_>, reader: &mut Reader<'_>| item.parse(reader, |text| name(text, false));
    table.set("remove", reader, |v, r| Some(v.list(r, name)), &mut fields.remove);
    if is_cached && !fields.variables().all(Variable::is_of_target) {
        let wrong =
            ValueError::new("a value differs between requests that share a stored response");
        let hint = "with cache, use {host}, {scheme}, {path}, {query} and {uri} only";
        reader.report(&table.spot, wrong.hint(hint));
    }
    fields
}

fn read(
    value: &Value<'_>,
    takes_host: bool,
    reader: &mut Reader<'_>,
) -> Vec<(HeaderName, Template)> {
    let mut fields: Vec<(HeaderName, Template)> = Vec::new();
    for (text, spot, value) in value.pairs(reader) {
        let name = name(text, takes_host).map_err(|wrong| reader.report(&spot, wrong)).ok();
        let Some((name, value)) = name.zip(value.parse(reader, template)) else { continue };
        if fields.iter().any(|(other, _)| *other == name) {
            let wrong = ValueError::new(format!("{name} is set twice"));
            reader.report(&spot, wrong.hint("names are case-insensitive: remove one"));
        }
        fields.push((name, value));
    }
    fields
}

/// Parses the name of a field that an upstream may get from the operator.
fn name(text: &str, takes_host: bool) -> Result<HeaderName, ValueError> {
    let name = field_name(text)?;
    let wrong = |what| Err(ValueError::new(format!("{} {what}", shown(text))));
    match name {
        // RFC 9110 sections 10.1.1 and 10.1.4: these are about the connection and the body.
        header::EXPECT | header::TE => wrong("is set by the server only"),
        header::HOST if !takes_host => wrong("can only be set"),
        name => Ok(name),
    }
}

fn template(text: &str) -> Result<Template, ValueError> {
    let is_printable = text.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b));
    if !is_printable || text.trim() != text {
        return Err(ValueError::new(format!("{} is not a field value", shown(text)))
            .hint("write one line of printable ASCII characters, without spaces around"));
    }
    Template::parse(text)
}
