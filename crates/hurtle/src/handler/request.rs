//! A request as handlers get it.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{StatusCode, Version};
use hurtle_http::request::fields::pairs;
use hurtle_http::request::{Method, RequestFields, RequestHead};
use hurtle_http::semantics::conditional::Preconditions;

use super::client::{self, ClientInfo};
use super::http_request::Buffers;
use super::proxy::cache::Shortcuts;
use crate::auth::PasswordGate;
use crate::config::EarlyHints;
use crate::files::{FileQuery, Key, Store};
use crate::limits::concurrency::Place;

/// Variables that an authorizer adds to the request.
pub(crate) type AuthorizerVariables = Vec<(Vec<u8>, Vec<u8>)>;

/// A request with the context that handlers need.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    /// The parsed head, whose target is as sent.
    pub head: &'a RequestHead<'a>,
    /// The path and the query as sent.
    pub target: (&'a [u8], Option<&'a [u8]>),
    /// The path after decoding and the site's rules.
    pub matched: MatchedPath<'a>,
    /// The properties of its site.
    pub site: SiteInfo,
    /// The client by its connection, and by fields of trusted proxies.
    pub client: ClientInfo,
    /// The authentication that the request has passed.
    pub passwords: Option<&'a Rc<PasswordGate>>,
    /// Variables from the authorizer.
    pub granted: &'a [(Vec<u8>, Vec<u8>)],
    /// The request's place of `concurrency`, which a handler that takes the body whole takes after
    /// it.
    pub place: Option<&'a Rc<Place>>,
    /// The status of the error that the response replaces; `None`: it replaces none.
    pub replaced: Option<StatusCode>,
    /// `true` if the response may name an internal file.
    pub has_internal_files: bool,
    /// The worker's file cache.
    pub store: &'a Rc<Store>,
    /// The worker's reusable buffers.
    pub buffers: &'a Buffers,
    /// The worker's recent targets that caches have answered.
    pub shortcuts: &'a Shortcuts,
    /// Maximum size of a request's body, in bytes.
    pub body_bytes_max: u64,
    /// Time at which the request was read, on the scale of `clock`.
    pub now_ms: u64,
}

/// The properties of a site that its handlers use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteInfo {
    /// The site's number in keys of the file cache.
    pub key: usize,
    /// The clients that get early hints.
    pub early_hints: EarlyHints,
}

/// The parts of a request for files that do not depend on the protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandlerRequest<'a> {
    /// `true` if the method is GET, not HEAD; handlers respond to both alike.
    pub get: bool,

    /// The target's path as sent, with its cache key.
    pub key: Key<'a>,
    /// Preconditions, ranges and accepted codings of the request.
    pub file: FileQuery<'a>,
    /// Value of the Accept field (RFC 9110 section 12.5.1).
    pub accept: Option<&'a [u8]>,
    /// The status that the response will have in place of 200, for the fields of files.
    pub status: StatusCode,
}

/// A path after decoding and the site's rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchedPath<'a> {
    /// The whole decoded path.
    pub path: &'a [u8],
    /// The rest of the path beneath the mount, without a leading `/`.
    pub rest: &'a [u8],
    /// The query after the site's rules, without `?`.
    pub query: Option<&'a [u8]>,
    /// The mount's number in its site.
    pub mount: usize,
    /// `true` if the response may be cached under the request's key.
    pub cacheable: bool,
}

impl<'a> RequestContext<'a> {
    /// Returns a new Sec-WebSocket-Key (RFC 6455 section 4.1) for a WebSocket over HTTP/2 or
    /// HTTP/3, whose request has none.
    pub(crate) fn websocket_key(&self) -> Option<String> {
        self.head.protocol?;
        let mut key = [0; 16];
        // It is no secret: the answer to it shows that the server understands WebSocket.
        let _ = getrandom::fill(&mut key);
        Some(STANDARD.encode(key))
    }

    /// Returns the request for files.
    pub(crate) fn for_files(&self) -> HandlerRequest<'a> {
        let (path, _) = self.target;
        let is_private = client::is_private(self.client.is_tls, self.client.peer);
        let key = Key { site: self.site.key, path };
        let request = HandlerRequest::new(self.head, key, is_private);
        HandlerRequest { status: self.replaced.unwrap_or(StatusCode::OK), ..request }
    }

    /// Returns the protocol version of the request.
    pub(crate) fn version(&self) -> Version {
        if self.head.http10 { Version::HTTP_10 } else { self.client.version }
    }

    /// Returns whether the client gets early hints from this server.
    pub(crate) fn gets_early_hints(&self) -> bool {
        match self.site.early_hints {
            EarlyHints::Http2 => self.client.version >= Version::HTTP_2,
            // RFC 9110 section 15.2: HTTP/1.0 has no interim responses.
            EarlyHints::Always => !self.head.http10,
            EarlyHints::Off => false,
        }
    }

    /// Formats the request for the log: its method and path as sent. The query is omitted, because
    /// it may hold secrets.
    pub(crate) fn describe(&self) -> String {
        describe(self.head, self.target.0)
    }
}

/// Formats a request for the log: its method and path as sent.
pub(crate) fn describe(head: &RequestHead<'_>, path: &[u8]) -> String {
    format!("{} {}", head.method.as_bytes().escape_ascii(), path.escape_ascii())
}

impl<'a> HandlerRequest<'a> {
    /// Creates the request for files from a head. `is_private`: see [`client::is_private`].
    pub(crate) fn new(
        head: &'a RequestHead<'_>,
        key: Key<'a>,
        is_private: bool,
    ) -> HandlerRequest<'a> {
        let get = head.method == Method::Get;
        let file = file_query(head, is_private);
        HandlerRequest { get, key, file, accept: head.accept, status: StatusCode::OK }
    }
}

/// Collects preconditions, the range, and accepted codings. `is_private`: see
/// [`client::is_private`].
pub(crate) fn file_query<'a>(request: &'a RequestHead<'_>, is_private: bool) -> FileQuery<'a> {
    FileQuery {
        preconditions: Preconditions {
            if_match: request.if_match,
            if_none_match: request.if_none_match,
            if_modified_since: request.if_modified_since,
            if_unmodified_since: request.if_unmodified_since,
            if_range: request.if_range,
        },
        // RFC 9110 section 14.2: Range applies to GET only.
        range: if request.method == Method::Get { request.range } else { None },
        accept_encoding: request.accept_encoding,
        admits_stream: !request.http10,
        fields: request.fields,
        is_private,
    }
}

impl MatchedPath<'_> {
    /// Returns whether it is the path of the mount itself, without a slash at its end.
    pub(crate) fn is_without_slash(&self) -> bool {
        self.rest.is_empty() && !self.path.ends_with(b"/")
    }

    /// Returns the path without `rest`: that of the mount.
    pub(crate) fn base(&self) -> &[u8] {
        &self.path[..self.path.len() - self.rest.len()]
    }
}

/// Returns a request with these field lines in place of its own.
pub(crate) fn with_fields<'a>(request: &RequestHead<'a>, lines: &'a [u8]) -> RequestHead<'a> {
    let authorization = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"authorization");
    RequestHead {
        authorization: pairs(lines).find(authorization).map(|(_, value)| value),
        fields: RequestFields::Lines(lines),
        field_count: pairs(lines).count(),
        section: None,
        ..request.clone()
    }
}
