//! Conditions on requests: the matchers of mounts and rules. They are pure: the caller passes in
//! the request.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use hurtle_http::request::RequestHead;
use hurtle_http::semantics::{glob, host};
use ipnet::IpNet;
use serde::{Serialize, Serializer};

use super::path_regex::PathRegex;
use super::pattern::wildcards;
use super::request_place::RequestPlace;
use super::types::{Glob, HostName};

/// Conditions on a request; it matches if it meets all of them. A condition with several values is
/// met by one of them. Empty ones are met by every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Matcher {
    /// Patterns of the decoded path.
    #[serde(rename = "path", skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<Glob>,
    /// A regular expression that the decoded path contains a match of.
    pub regex: Option<PathRegex>,
    /// Methods, which are case-sensitive (RFC 9110 section 9.1).
    #[serde(rename = "method", skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Fields of the request by name in lower case, with the condition on their lines.
    #[serde(
        rename = "header",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "conditions"
    )]
    pub fields: Vec<(String, ValueMatcher)>,
    /// Cookies by name, each with the condition on its values.
    #[serde(
        rename = "cookie",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "conditions"
    )]
    pub cookies: Vec<(String, ValueMatcher)>,
    /// `Some`: there is a query that is not empty (`true`), or none (`false`).
    #[serde(rename = "query", skip_serializing_if = "Option::is_none")]
    pub has_query: Option<bool>,
    /// Parameters of the query, decoded.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "conditions")]
    pub query: Vec<(String, ValueMatcher)>,
    /// Host names, in lower case and without a port.
    #[serde(
        rename = "host",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "super::print::texts"
    )]
    pub hosts: Vec<HostName>,
    /// Networks of which one holds the client's address.
    #[serde(
        rename = "client",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "super::print::texts"
    )]
    pub clients: Vec<IpNet>,
    /// Networks of which one holds the peer's address.
    #[serde(
        rename = "peer",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "super::print::texts"
    )]
    pub peers: Vec<IpNet>,
    /// `Some`: the request came over TLS (`true`), or in clear.
    #[serde(rename = "scheme", skip_serializing_if = "Option::is_none", serialize_with = "scheme")]
    pub is_tls: Option<bool>,
    /// Conditions none of which must be met whole.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_several")]
    pub not: Vec<Matcher>,
}

/// The condition on the values of a field, a cookie or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueMatcher {
    /// The request has at least one value.
    Present,
    /// The request has no value.
    Absent,
    /// A value is like one of these patterns, in which `*` stands for any run of characters.
    OneOf(Vec<String>),
    /// A value contains a match of this regular expression.
    Regex(PathRegex),
}

/// A request as matchers see it, besides its path.
#[derive(Clone, Copy, Debug)]
pub struct MatchedRequest<'a> {
    /// The head, whose target is the one that is routed.
    pub head: &'a RequestHead<'a>,
    /// The address of the client; `None`: a unix socket.
    pub client: Option<IpAddr>,
    /// The address of the connection, or the one that a PROXY protocol header names; `None`: a unix
    /// socket.
    pub peer: Option<IpAddr>,
    /// `true` if the connection is encrypted.
    pub is_tls: bool,
}

impl<'a> MatchedRequest<'a> {
    /// Returns the query as sent.
    pub fn query(&self) -> Option<&'a [u8]> {
        self.head.target.path_and_query()?.1
    }

    /// Returns the parts of the request that a Location may repeat.
    pub fn place(&self) -> RequestPlace<'a> {
        let target = self.head.target.path_and_query().unwrap_or_default();
        RequestPlace { head: self.head, is_tls: self.is_tls, target }
    }

    fn has_query(&self) -> bool {
        self.query().is_some_and(|query| !query.is_empty())
    }
}

/// The placeholder of the query that was sent.
pub(super) const QUERY: &str = "query";

/// The parts of a path that a matcher's wildcards or groups have matched.
#[derive(Debug)]
pub struct Captures<'p> {
    /// The parts, in order; a group that took no part in the match is empty.
    pub parts: Vec<Cow<'p, [u8]>>,
    names: Vec<Option<String>>,
}

impl Matcher {
    /// The matcher of paths that are like a pattern.
    pub fn of_pattern(pattern: &str) -> Matcher {
        Matcher { paths: vec![Glob(pattern.to_owned())], ..Matcher::default() }
    }

    /// Returns whether there is no condition.
    pub fn is_empty(&self) -> bool {
        *self == Matcher::default()
    }

    /// Returns whether the path alone decides.
    pub fn is_of_path(&self) -> bool {
        let Matcher {
            paths: _,
            regex: _,
            methods,
            fields,
            cookies,
            has_query,
            query,
            hosts,
            clients,
            peers,
            is_tls,
            not,
        } = self;
        methods.is_empty()
            && fields.is_empty()
            && cookies.is_empty()
            && has_query.is_none()
            && query.is_empty()
            && hosts.is_empty()
            && clients.is_empty()
            && peers.is_empty()
            && is_tls.is_none()
            && not.iter().all(Matcher::is_of_path)
    }

    /// Returns whether a request with this decoded path matches. Without a request, only the path
    /// is known, and other conditions are not met.
    pub fn matches(&self, path: &[u8], request: Option<&MatchedRequest<'_>>) -> bool {
        self.admits_path(path)
            && (self.is_of_path() || request.is_some_and(|request| self.admits(request)))
            && self.not.iter().all(|not| match request {
                None if !not.is_of_path() => false,
                _ => !not.matches(path, request),
            })
    }

    /// Returns whether requests with this path can match.
    pub fn may_match(&self, path: &[u8]) -> bool {
        let excludes = |not: &Matcher| not.is_of_path() && not.admits_path(path);
        self.admits_path(path) && !self.not.iter().any(excludes)
    }

    /// Returns the parts of the path that the groups of the regular expression have matched, or the
    /// wildcards of the pattern if there is none. `None`: the request does not match.
    pub fn captures<'p>(
        &self,
        path: &'p [u8],
        request: Option<&MatchedRequest<'_>>,
    ) -> Option<Captures<'p>> {
        if !self.matches(path, request) {
            return None;
        }
        if let Some(regex) = &self.regex {
            return Some(Captures { parts: regex.captures(path)?, names: regex.names() });
        }
        let parts = self.paths.iter().find_map(|pattern| glob::captures(&pattern.0, path));
        let parts = parts.unwrap_or_default().into_iter().map(Cow::Borrowed).collect();
        Some(Captures { parts, names: Vec::new() })
    }

    /// The number of parts that [`Matcher::captures`] returns, and the names of those that have
    /// one. With several patterns it is that of the one with the fewest.
    pub(super) fn captured(&self) -> (usize, Vec<String>) {
        match &self.regex {
            Some(regex) => (regex.names().len(), regex.names().into_iter().flatten().collect()),
            None => {
                let counts = self.paths.iter().map(|pattern| wildcards(&pattern.0));
                (counts.min().unwrap_or(0), Vec::new())
            }
        }
    }

    fn admits_path(&self, path: &[u8]) -> bool {
        (self.paths.is_empty() || self.paths.iter().any(|pattern| glob::matches(&pattern.0, path)))
            && self.regex.as_ref().is_none_or(|regex| regex.is_in(path))
    }

    /// Returns whether the request meets the conditions that are not about its path.
    fn admits(&self, request: &MatchedRequest<'_>) -> bool {
        let head = request.head;
        // An extended CONNECT has two: the one it has over HTTP/1.1, and its own.
        let methods = [head.method_text(), head.method.as_bytes()];
        (self.methods.is_empty()
            || self.methods.iter().any(|known| methods.contains(&known.as_bytes())))
            && (self.hosts.is_empty() || self.admits_host(head))
            && is_in(request.client, &self.clients)
            && is_in(request.peer, &self.peers)
            && self.has_query.is_none_or(|wanted| wanted == request.has_query())
            && self.is_tls.is_none_or(|wanted| wanted == request.is_tls)
            && self.fields.iter().all(|(name, values)| values.admits(head.values(name.as_bytes())))
            && self.cookies.iter().all(|(name, values)| {
                let own = cookies(head).filter(|(cookie, _)| *cookie == name.as_bytes());
                values.admits(own.map(|(_, value)| Cow::Borrowed(value)))
            })
            && self.query.iter().all(|(name, values)| {
                let pairs = form_urlencoded::parse(request.query().unwrap_or_default());
                let own = pairs.filter(|(parameter, _)| *parameter == **name);
                values.admits(own.map(|(_, value)| bytes_of(value)))
            })
    }

    fn admits_host(&self, head: &RequestHead<'_>) -> bool {
        let Some(named) = &head.host else { return false };
        let mut name = Vec::with_capacity(named.name.len());
        host::normalize_address(named.name, &mut name);
        self.hosts.iter().any(|known| known.matches(&name))
    }
}

impl ValueMatcher {
    fn admits<'v>(&self, mut values: impl Iterator<Item = Cow<'v, [u8]>>) -> bool {
        match self {
            ValueMatcher::Present => values.next().is_some(),
            ValueMatcher::Absent => values.next().is_none(),
            ValueMatcher::OneOf(patterns) => values.any(|value| {
                patterns.iter().any(|pattern| glob::is_like(pattern.as_bytes(), &value))
            }),
            ValueMatcher::Regex(regex) => values.any(|value| regex.is_in(&value)),
        }
    }
}

/// Returns whether one of the networks holds the address. Without networks, every address is held.
fn is_in(address: Option<IpAddr>, networks: &[IpNet]) -> bool {
    let holds = |address: IpAddr| networks.iter().any(|network| network.contains(&address));
    networks.is_empty() || address.is_some_and(holds)
}

fn bytes_of(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// The names and values of a request's cookies (RFC 6265 section 4.2.1).
fn cookies<'a>(head: &RequestHead<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let lines = head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
    lines.flat_map(|(_, line)| line.split(|&b| b == b';')).filter_map(|pair| {
        let at = pair.iter().position(|&b| b == b'=')?;
        Some((pair[..at].trim_ascii(), pair[at + 1..].trim_ascii()))
    })
}

impl Captures<'_> {
    /// Replaces `{1}`, `{2}` ... and the names of groups in a template by the parts, after
    /// `change`, and other names by their values in `others`.
    pub fn expand(
        &self,
        template: &str,
        change: impl Fn(&[u8]) -> Vec<u8>,
        others: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Vec<u8> {
        glob::expand_with(template, |name| self.part(name).map(&change).or_else(|| others(name)))
    }

    /// Makes the query of a template, after `change` of the parts; `{query}` stands for the query
    /// that was sent.
    pub fn expand_query(
        &self,
        template: &str,
        sent: &[u8],
        change: impl Fn(&[u8]) -> Vec<u8>,
        others: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Vec<u8> {
        let expanded = glob::expand_with(template, |name| match self.part(name) {
            None if name == QUERY => Some(sent.to_vec()),
            None => others(name),
            part => part.map(&change),
        });
        // Without a query, `a=b&{query}` has no end.
        match sent.is_empty() {
            true => {
                let begin = expanded.iter().position(|&b| b != b'&').unwrap_or(expanded.len());
                let end = expanded.iter().rposition(|&b| b != b'&').map_or(begin, |at| at + 1);
                expanded[begin..end].to_vec()
            }
            false => expanded,
        }
    }

    /// Returns the part with this number or name; `None`: there is no such placeholder.
    fn part(&self, name: &str) -> Option<&[u8]> {
        let named = self.names.iter().position(|known| known.as_deref() == Some(name));
        let number = named.map_or_else(|| glob::capture_number(name), |at| Some(at + 1))?;
        Some(self.parts.get(number - 1).map_or(b"", |part| part))
    }
}

impl Serialize for ValueMatcher {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            ValueMatcher::Present => out.serialize_bool(true),
            ValueMatcher::Absent => out.serialize_bool(false),
            ValueMatcher::OneOf(patterns) => out.collect_seq(patterns),
            ValueMatcher::Regex(regex) => out.collect_map([("regex", regex)]),
        }
    }
}

/// Prints a matcher that is a single pattern as a string.
pub(super) fn print<S: Serializer>(matcher: &Matcher, out: S) -> Result<S::Ok, S::Error> {
    match &matcher.paths[..] {
        [only] if *matcher == Matcher::of_pattern(&only.0) => out.serialize_str(&only.0),
        _ => matcher.serialize(out),
    }
}

pub(super) fn print_optional<S: Serializer>(
    matcher: &Option<Matcher>,
    out: S,
) -> Result<S::Ok, S::Error> {
    match matcher {
        Some(matcher) => print(matcher, out),
        None => out.serialize_none(),
    }
}

fn conditions<S: Serializer>(
    conditions: &[(String, ValueMatcher)],
    out: S,
) -> Result<S::Ok, S::Error> {
    out.collect_map(conditions.iter().map(|(name, values)| (name, values)))
}

/// Prints the scheme of a request, for which `is_tls` stands.
fn scheme<S: Serializer>(is_tls: &Option<bool>, out: S) -> Result<S::Ok, S::Error> {
    match is_tls {
        Some(is_tls) => out.serialize_str(scheme_name(*is_tls)),
        None => out.serialize_none(),
    }
}

fn scheme_name(is_tls: bool) -> &'static str {
    if is_tls { "https" } else { "http" }
}

/// Prints a single matcher as a table, and several ones as a list of tables.
fn one_or_several<S: Serializer>(matchers: &[Matcher], out: S) -> Result<S::Ok, S::Error> {
    match matchers {
        [only] => only.serialize(out),
        several => several.serialize(out),
    }
}

/// A short form, which differs between unequal matchers.
impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut conditions = Vec::new();
        if !self.paths.is_empty() {
            conditions.push(joined(self.paths.iter().map(|pattern| &pattern.0)));
        }
        conditions.extend(self.regex.iter().map(|regex| format!("regex {:?}", regex.text())));
        if !self.methods.is_empty() {
            conditions.push(joined(self.methods.iter()));
        }
        for (kind, pairs) in
            [("header", &self.fields), ("cookie", &self.cookies), ("query", &self.query)]
        {
            conditions.extend(pairs.iter().map(|(name, values)| format!("{kind} {name}{values}")));
        }
        conditions
            .extend(self.has_query.map(|any| if any { "a query" } else { "no query" }.into()));
        if !self.hosts.is_empty() {
            conditions.push(format!("host {}", joined(self.hosts.iter())));
        }
        for (kind, networks) in [("client", &self.clients), ("peer", &self.peers)] {
            if !networks.is_empty() {
                conditions.push(format!("{kind} {}", joined(networks.iter())));
            }
        }
        conditions.extend(self.is_tls.map(|is_tls| format!("scheme {}", scheme_name(is_tls))));
        conditions.extend(self.not.iter().map(|not| format!("not ({not})")));
        f.write_str(&conditions.join(" "))
    }
}

impl fmt::Display for ValueMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueMatcher::Present => Ok(()),
            ValueMatcher::Absent => f.write_str(" absent"),
            ValueMatcher::OneOf(patterns) => write!(f, "={}", joined(patterns.iter())),
            ValueMatcher::Regex(regex) => write!(f, " regex {:?}", regex.text()),
        }
    }
}

fn joined(items: impl Iterator<Item = impl fmt::Display>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use hurtle_http::h1;
    use hurtle_http::request::{HeadLimits, Joined};
    use proptest::prelude::*;

    use super::*;

    fn matcher() -> impl Strategy<Value = Matcher> {
        let pattern = prop::sample::select(vec!["/a/*", "**.b", "/a", "*.b", "/**/b"]);
        let regex = prop::sample::select(vec![None, Some("^/a"), Some("(?i)B$"), Some("(a)|(b)")]);
        let field = prop::sample::select(vec![
            None,
            Some(ValueMatcher::Present),
            Some(ValueMatcher::Absent),
            Some(ValueMatcher::OneOf(vec!["1".to_owned(), "2*".to_owned()])),
            PathRegex::parse("^[12]$").ok().map(ValueMatcher::Regex),
        ]);
        (prop::collection::vec(pattern, 0..3), regex, field).prop_map(|(patterns, regex, field)| {
            Matcher {
                paths: patterns.into_iter().map(|text| Glob(text.to_owned())).collect(),
                regex: regex.and_then(|text| PathRegex::parse(text).ok()),
                fields: field.into_iter().map(|value| ("x-a".to_owned(), value)).collect(),
                ..Matcher::default()
            }
        })
    }

    proptest! {
        #[test]
        fn parts_agree(
            own in matcher(),
            not in prop::collection::vec(matcher(), 0..3),
            path in "/[ab./B]{0,8}",
            value in prop::option::of("[123]{1,2}"),
        ) {
            let not = not.into_iter().filter(|not| !not.is_empty()).collect();
            let matcher = Matcher { not, ..own };
            let line = value.map_or(String::new(), |value| format!("X-A: {value}\r\n"));
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n");
            let joined = Joined::default();
            let limits = HeadLimits { head_bytes: 1 << 10, target_bytes: 1 << 10, fields: 9 };
            let head = h1::request::parse(head.as_bytes(), &joined, &limits).unwrap();
            let request = MatchedRequest { head: &head, client: None, peer: None, is_tls: false };
            let matches = matcher.matches(path.as_bytes(), Some(&request));
            prop_assert!(!matches || matcher.may_match(path.as_bytes()), "it may match what it matches");
            let captured = matcher.captures(path.as_bytes(), Some(&request));
            prop_assert_eq!(captured.is_some(), matches, "what matches has parts");
            if let Some(captured) = captured {
                prop_assert!(captured.parts.len() >= matcher.captured().0, "as many as are promised");
            }
            if matcher.is_of_path() {
                let alone = matcher.matches(path.as_bytes(), None);
                prop_assert_eq!(alone, matches, "the path alone decides");
            }
        }
    }
}
