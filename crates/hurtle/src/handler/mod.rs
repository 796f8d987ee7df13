//! Who answers a request: one closed set, one `match`. A handler returns an `Answer`; it knows no
//! protocol and writes to no socket. Handlers never use each other.

pub mod app;
pub mod directory;
pub mod fixed;
pub mod gateway;
pub mod proxy;

use std::pin::Pin;
use std::rc::Rc;

use http::{HeaderMap, StatusCode, header};

use crate::answer::Answer;
use crate::config::HeaderRule;
use crate::files::{FileQuery, Key, Store};
use crate::semantics::glob;

/// An answer in the making.
pub type Answering = Pin<Box<dyn Future<Output = Answer>>>;

/// A request as a handler sees it, whatever protocol brought it.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// GET, not HEAD; the handlers answer both alike.
    pub get: bool,

    /// The target's path as sent, and where it is kept in the cache.
    pub key: Key<'a>,
    /// The query as sent, without `?`.
    pub query: Option<&'a [u8]>,
    /// Conditions, ranges, codings.
    pub file: FileQuery<'a>,
    /// Accept.
    pub accept: Option<&'a [u8]>,
}

/// What the path meant once it was decoded and the site's rules were applied.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The whole decoded path.
    pub path: &'a [u8],
    /// What of it is beneath the mount, without a leading `/`.
    pub rest: &'a [u8],
    /// The mount's number in its site.
    pub mount: usize,
    /// The site's header rules.
    pub headers: &'a [HeaderRule],
    /// Whether the answer may be kept under the request's key.
    pub cacheable: bool,
}

impl Place<'_> {
    /// The header rules that hold here.
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
    /// Always the same.
    Fixed(fixed::Fixed),
    /// An application.
    App(app::App),
    /// Servers behind this one.
    Proxy(Rc<proxy::Proxy>),
    /// Applications that are asked by FastCGI or CGI.
    Gateway(Rc<gateway::Gateway>),
}

impl Handler {
    /// Answers a GET or HEAD.
    pub async fn call(&self, store: &Rc<Store>, ask: &Ask<'_>, place: &Place<'_>) -> Answer {
        match self {
            Handler::Directory(directory) => directory.call(store, ask, place).await,
            Handler::Redirect(redirect) => redirect.call(ask, place),
            Handler::Fixed(fixed) => fixed.call(),
            // These need more than an `Ask`: the engine calls them before it comes to this.
            Handler::App(_) | Handler::Proxy(_) | Handler::Gateway(_) => {
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
            }
        }
    }
}

/// Sets and removes fields as the rules say. Framing stays the engine's.
pub fn dress<'a>(map: &mut HeaderMap, rules: impl Iterator<Item = &'a HeaderRule>) {
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
