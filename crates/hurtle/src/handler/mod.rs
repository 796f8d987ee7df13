//! The closed set of handlers. A handler returns an `Answer`; it knows no protocol and writes to no
//! socket. Handlers do not use each other.

pub mod app;
pub mod directory;
pub mod fixed;
pub mod gateway;
pub mod proxy;

use std::pin::Pin;
use std::rc::Rc;

use http::{HeaderMap, StatusCode, header};
use hurtle_http::semantics::glob;

use crate::answer::Answer;
use crate::config::HeaderRule;
use crate::files::{FileQuery, Key, Store};

/// A future of a response.
pub type Answering = Pin<Box<dyn Future<Output = Answer>>>;

/// The protocol-independent request that a handler gets.
#[derive(Clone, Copy, Debug)]
pub struct HandlerRequest<'a> {
    /// `true` if the method is GET, not HEAD; handlers respond to both alike.
    pub get: bool,

    /// The target's path as sent, with its cache key.
    pub key: Key<'a>,
    /// The query as sent, without `?`.
    pub query: Option<&'a [u8]>,
    /// Preconditions, ranges, codings.
    pub file: FileQuery<'a>,
    /// The Accept field.
    pub accept: Option<&'a [u8]>,
}

/// A path after decoding and the site's rules.
#[derive(Clone, Copy, Debug)]
pub struct MatchedPath<'a> {
    /// The whole decoded path.
    pub path: &'a [u8],
    /// The rest of the path beneath the mount, without a leading `/`.
    pub rest: &'a [u8],
    /// The mount's number in its site.
    pub mount: usize,
    /// The site's header rules.
    pub headers: &'a [HeaderRule],
    /// `true` if the response may be cached under the request's key.
    pub cacheable: bool,
}

impl MatchedPath<'_> {
    /// Returns the header rules that apply to the path.
    pub fn rules(&self) -> impl Iterator<Item = &HeaderRule> {
        self.headers.iter().filter(|rule| glob::matches(&rule.pattern.0, self.path))
    }
}

/// The handlers.
#[derive(Debug)]
pub enum Handler {
    /// Files of a directory.
    Directory(directory::Directory),
    /// A redirect.
    Redirect(fixed::Redirect),
    /// A constant response.
    Fixed(fixed::Fixed),
    /// An application.
    App(app::App),
    /// Upstream servers.
    Proxy(Rc<proxy::Proxy>),
    /// FastCGI or CGI applications.
    Gateway(Rc<gateway::Gateway>),
}

impl Handler {
    /// Answers a GET or HEAD.
    pub async fn call(
        &self,
        store: &Rc<Store>,
        ask: &HandlerRequest<'_>,
        place: &MatchedPath<'_>,
    ) -> Answer {
        match self {
            Handler::Directory(directory) => directory.call(store, ask, place).await,
            Handler::Redirect(redirect) => redirect.call(ask, place),
            Handler::Fixed(fixed) => fixed.call(),
            // `pipeline` calls these before it dispatches to the others.
            Handler::App(_) | Handler::Proxy(_) | Handler::Gateway(_) => {
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
            }
        }
    }
}

/// Sets and removes fields according to the rules. Framing fields are the protocol's.
pub fn apply_header_rules<'a>(map: &mut HeaderMap, rules: impl Iterator<Item = &'a HeaderRule>) {
    for rule in rules {
        for name in &rule.remove {
            map.remove(name);
        }
        for (name, value) in &rule.set {
            if *name != header::CONTENT_LENGTH {
                map.insert(name.clone(), value.clone());
            }
        }
    }
}
