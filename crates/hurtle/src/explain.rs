//! `hurtle explain URL-PATH`: the site, rule and handler of a request, the response's fields, and
//! how its body is sent. It calls the code that serves requests, so that it cannot disagree with
//! it.

mod client;
mod compression;
mod errors;
mod files;
mod gates;
mod links;
mod objects;
mod process;
mod request;
mod scripts;
mod upstreams;

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;

use http::Version;
use hurtle_http::h1;
use hurtle_http::h1::response;
use hurtle_http::message::response::{Delimiter, Fields, Persistence};
use hurtle_http::request::{HeadLimits, Joined, RequestHead};
use hurtle_http::semantics::host;
use hurtle_http::semantics::target::{self, Target as RequestTarget, append_query};
use hurtle_objects::Origins;
use rustix::process::geteuid;

pub use self::request::ExplainedRequest;

use self::client::NoClient;
use crate::answer::Answer;
use crate::auth::Guard;
use crate::body::Body;
use crate::cache::Caches;
use crate::clock;
use crate::compress::Compressor;
use crate::config::{Config, MatchedRequest, Sendfile};
use crate::disk::Disk;
use crate::files::{Cache, Changed, Found, Listings, Scripts, Store};
use crate::handler::client::ClientInfo;
use crate::handler::gateway::Slots;
use crate::handler::http_request::Buffers;
use crate::handler::proxy::cache::Shortcuts;
use crate::handler::request::{RequestContext, SiteInfo};
use crate::handler::resources::{HandlerServices, Resources};
use crate::handler::{Handler, HandlerError, Outcome, own_response};
use crate::lifecycle::sandbox::Permissions;
use crate::metrics::Snapshot;
use crate::observe::status::Feed;
use crate::pipeline::finish::finish;
use crate::server;
use crate::site::{Resolved, Route, Sites};
use crate::sys;
use crate::tls::{Keyring, UpstreamConfigs};
use crate::transport::TAKE_OVER_BYTES_MIN;
use crate::users::switch_user;
use crate::wasm::WasmApps;

/// Explains a request by a client on this machine. A process of root becomes the server's `user`
/// for good, after it has read the certificates, as the server does.
///
/// # Errors
/// An invalid target or host, a part of the server that cannot be started, or an unknown user.
pub fn explain(config: &Config, request: &ExplainedRequest<'_>) -> io::Result<String> {
    let keyring = Keyring::load(config, None).map_err(|e| io::Error::other(e.join("\n")))?;
    if geteuid().is_root()
        && let Some(user) = &config.user
    {
        switch_user(user, config.group.as_deref())?;
    }
    let explained = server::block_on(explain_request(config, keyring.as_ref(), request))?;
    explained.map(|text| config.placeholders.conceal(&text))
}

async fn explain_request(
    config: &Config,
    keyring: Option<&Keyring>,
    request: &ExplainedRequest<'_>,
) -> io::Result<String> {
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let encoded = request.encoded_target();
    let parsed = target::parse(b"GET", encoded.as_bytes())
        .map_err(|e| bad(format!("{:?} is not a URL path: {e}", request.target)))?;
    let authority = match parsed {
        RequestTarget::Origin { .. } => None,
        RequestTarget::Absolute { authority, .. } => Some(authority),
        _ => return Err(bad("a path begins with /".to_owned())),
    };
    let name = authority.or(request.host.map(str::as_bytes));
    let name = name.map(host::parse).transpose().map_err(|e| bad(e.to_string()))?;
    let disk = Disk::start(NonZeroUsize::MIN)?;
    let shared = HandlerServices {
        disk: disk.clone(),
        listings: Listings::new(&disk),
        changed: Changed::default(),
        slots: Slots::new(0),
        caches: Caches::new(1),
        objects: Origins::default(),
        compressor: Compressor::default(),
        status: Feed::new(Snapshot::default),
    };
    let resources = Resources {
        shared: &shared,
        metrics: &Arc::default(),
        sendfile: config.sendfile,
        // Nothing is sent to upstreams.
        upstream_tls: &UpstreamConfigs::default(),
        // Applications are not called.
        wasm: &WasmApps::default(),
    };
    let sites = Sites::new(config, &resources, &Guard::closed(), None);
    let store = Store::new(Cache::new(0, 0), disk, 0, (Changed::default(), None));
    let mut out = String::new();
    let peer = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let (asked, joined) = (request.head(None)?, Joined::default());
    let asked = parse_head(&asked, &joined).map_err(bad)?;
    let is_tls = encoded.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let mut matched = MatchedRequest { head: &asked, client: peer, peer, is_tls };
    let confined = match Permissions::of(config, None) {
        Ok(permissions) => format!("the server {permissions}"),
        Err(reason) => format!("none: {reason}"),
    };
    let listen = request.listener(config);
    let name = name.map(|host| host.name);
    // The request that follows a redirect to HTTPS is described.
    let redirects = |resolved: &Resolved<'_>| {
        config.sites[resolved.number].tls.as_ref().is_some_and(|tls| tls.redirect)
    };
    if sites.resolve(listen, name, matched).is_some_and(|resolved| redirects(&resolved)) {
        matched.is_tls = true;
    }
    let Some(mut resolved) = sites.resolve(listen, name, matched) else {
        let mut text =
            "no site has this name, and there is no default site: 421 Misdirected Request"
                .to_owned();
        if listen.is_none() && config.sites.iter().any(|site| !site.listen.is_empty()) {
            text.push_str("; --listen chooses one of the listeners that sites name");
        }
        return Ok(text);
    };
    let number = resolved.number;
    line(&mut out, "site", &site_name(config, number));
    if let Some(listen) = listen {
        line(&mut out, "listener", &listen.to_string());
    }
    line(&mut out, "sandbox", &confined);
    process::describe_user(&mut out, config);
    process::describe_tls(&mut out, config, keyring, number);
    if let Some(apps) = &config.apps {
        let apps = apps.display();
        let what =
            format!("deployed applications ({apps}) are not included; one may have a longer path");
        line(&mut out, "apps", &what);
    }
    loop {
        let answered = describe_route(&mut out, &resolved, request.is_safe()).await;
        let is_refused = gates::describe(&mut out, &resolved, config.store.as_ref(), peer);
        match answered {
            Answered::Otherwise if !is_refused => match resolved.handed_on() {
                Some(next) => resolved = next,
                None => return Ok(out),
            },
            Answered::Here if !is_refused && request.is_safe() => break,
            _ => return Ok(out),
        }
    }
    // A GET would fetch the object into the cache of a server that may run as another user.
    let head = request.head(is_remote(&resolved).then_some("HEAD"))?;
    let answer = answer(&head, matched.is_tls, &mut resolved, &store).await;
    let Some(answer) = answer.map_err(bad)? else { return Ok(out) };
    let sendfile = match (&config.sites[number].tls, &answer.body) {
        (Some(_), Body::File(file)) if sys::offers_tls() && file.len >= TAKE_OVER_BYTES_MIN => {
            config.sendfile
        }
        (Some(_), _) => Sendfile::Off,
        (None, _) => config.sendfile,
    };
    describe_answer(&mut out, &answer, sendfile);
    errors::describe(&mut out, &resolved, &answer);
    Ok(out)
}

/// Parses the head of an explained request.
fn parse_head<'a>(head: &'a str, joined: &'a Joined) -> Result<RequestHead<'a>, String> {
    let any = usize::MAX;
    let limits = HeadLimits { head_bytes: any, target_bytes: any, fields: any };
    h1::request::parse(head.as_bytes(), joined, &limits).map_err(|error| error.to_string())
}

/// `true` if the route's files are objects of a store.
fn is_remote(resolved: &Resolved<'_>) -> bool {
    let mount = resolved.mount();
    mount.is_some_and(|(mount, _)| match mount.handler() {
        Handler::Directory(directory) => directory.is_remote(),
        _ => false,
    })
}

/// Returns the response of a route that needs no client. `None`: there is none.
async fn answer(
    head: &str,
    is_tls: bool,
    resolved: &mut Resolved<'_>,
    store: &Rc<Store>,
) -> Result<Option<Answer>, String> {
    let joined = Joined::default();
    let head = parse_head(head, &joined)?;
    let own = resolved.take_answer();
    let handled = match (own, resolved.mount()) {
        (Some(answer), _) => own_response(answer),
        (None, None) => return Ok(None),
        (None, Some((mount, matched))) => {
            let context = RequestContext {
                head: &head,
                target: resolved.target().unwrap_or_default(),
                matched,
                site: SiteInfo {
                    key: resolved.site.key(),
                    early_hints: resolved.site.early_hints(),
                },
                client: ClientInfo {
                    peer: None,
                    address: None,
                    trusted: None,
                    is_tls,
                    version: Version::HTTP_11,
                    port: None,
                },
                passwords: None,
                granted: &[],
                place: None,
                replaced: None,
                has_internal_files: false,
                store,
                buffers: &Buffers::default(),
                shortcuts: &Shortcuts::default(),
                body_bytes_max: 0,
                now_ms: clock::now_ms(),
            };
            mount.handler().call(&context, &mut NoClient::default()).await
        }
    };
    let mut answer = match handled {
        Ok(Outcome::Answer(answer)) => Some(answer),
        Err(HandlerError::Answer(answer)) => {
            Some(errors::replaced(resolved, store, head.accept_encoding, *answer).await)
        }
        Ok(_) | Err(HandlerError::Exchange(_)) => None,
    };
    if let Some(answer) = &mut answer {
        finish(answer, &head, Some(resolved), is_tls);
    }
    Ok(answer)
}

fn line(out: &mut String, label: &str, text: &str) {
    // Writing into a String cannot fail.
    let _ = writeln!(out, "{label:<9}{text}");
}

fn site_name(config: &Config, number: usize) -> String {
    let site = &config.sites[number];
    let names: Vec<String> = site.hosts.iter().map(ToString::to_string).collect();
    let default = if site.default { " (the default)" } else { "" };
    match names.is_empty() {
        true => format!("every name{default}"),
        false => format!("{}{default}", names.join(", ")),
    }
}

/// The source of a response.
enum Answered {
    /// This server itself, so the response can be shown.
    Here,
    /// An upstream, an application or a program.
    Elsewhere,
    /// The mount that `otherwise` names.
    Otherwise,
}

/// Describes the route of a request and its handler. `reads`: the method is GET or HEAD.
async fn describe_route(out: &mut String, resolved: &Resolved<'_>, reads: bool) -> Answered {
    let site = resolved.site;
    let (path, query, mount, rules) = match resolved.route() {
        None => return Answered::Here,
        Some(Route::Answer(_, why)) => {
            line(out, "answer", why);
            return Answered::Here;
        }
        Some(Route::Mount { path, query, mount, rules }) => (path, query, mount, rules),
    };
    if !rules.is_empty() {
        let mut rewritten = String::from_utf8_lossy(path).into_owned();
        append_query(&mut rewritten, query.as_deref());
        line(out, "rule", &format!("{} -> {rewritten}", rules.join(", ")));
    }
    if let Some(why) = site.reason_of(mount) {
        line(out, "why", why);
    }
    let (at, handler) = (mount.name(), mount.handler());
    let matched = site.matched_path(path, mount);
    let what = match handler {
        Handler::Redirect(redirect) if !redirect.takes(path) => {
            format!("{at}: 404, because its match is for other paths")
        }
        Handler::Redirect(_) => format!("{at}: a redirect"),
        Handler::Fixed(_) => format!("{at}: a fixed response"),
        Handler::Abort => format!("{at}: no response, and the end of the connection"),
        Handler::Status(_) => format!("{at}: the status page of the server"),
        Handler::App(_) => format!("{at}: an application"),
        Handler::Proxy(proxy) => {
            upstreams::describe(out, at, proxy);
            if let Some(what) = compression::of_handler(handler, site.compress(mount)) {
                line(out, "compress", what);
            }
            return Answered::Elsewhere;
        }
        Handler::Gateway { gateway, .. } => {
            line(out, "mount", &format!("{at}: {}", gateway.describe()));
            if let Some(fields) = gateway.request_fields() {
                line(out, "fields", &format!("of the request: {}", fields.describe()));
            }
            if gateway.is_application() {
                upstreams::describe_buffering(out, gateway.buffering());
            }
            let found = gateway.scripts().map(|scripts| match gateway.is_directory(&matched) {
                true => Ok(Found::SlashMissing),
                false => scripts.find_now(matched.rest),
            });
            line(
                out,
                "found",
                &scripts::describe(
                    found.as_ref(),
                    gateway.scripts().map(Scripts::root),
                    matched.rest,
                ),
            );
            if let Some(what) = compression::of_handler(handler, site.compress(mount)) {
                line(out, "compress", what);
            }
            return match found {
                Some(Ok(Found::Other | Found::SlashMissing)) => Answered::Here,
                _ => Answered::Elsewhere,
            };
        }
        Handler::Directory(directory) => {
            line(out, "mount", &format!("{at}: files"));
            return files::describe(out, directory, &matched, resolved.edits(), reads).await;
        }
    };
    line(out, "mount", &what);
    if let Some(what) = compression::of_handler(handler, site.compress(mount)) {
        line(out, "compress", what);
    }
    match handler {
        Handler::App(_) => Answered::Elsewhere,
        _ => Answered::Here,
    }
}

/// Describes which responses of an upstream the cache stores, as far as the configuration tells.
fn describe_answer(out: &mut String, answer: &Answer, sendfile: Sendfile) {
    let delimiter = match answer.fields {
        Fields::Ready(_) | Fields::Dated(_) => Delimiter::Given,
        Fields::Map(_) => answer.body.exact_len().map_or(Delimiter::Chunked, Delimiter::Length),
    };
    let mut head = Vec::new();
    let date = clock::date(clock::now_ms());
    let implied = Persistence::Implied;
    response::encode(&mut head, answer.status, &date, &answer.fields, delimiter, implied);
    let how = match (&answer.body, sendfile) {
        (Body::Empty, _) => "no body".to_owned(),
        (Body::Bytes(bytes), _) => {
            format!("{} bytes from memory, with the head in one call", bytes.len())
        }
        (Body::File(slice), Sendfile::Off) => {
            format!("{} bytes copied from the file (no sendfile)", slice.len)
        }
        (Body::File(slice), _) => {
            format!("{} bytes by sendfile behind the head, in bounded turns", slice.len)
        }
        (body, _) => match body.exact_len() {
            Some(len) => format!("{len} bytes"),
            None => "frames as they come".to_owned(),
        },
    };
    line(out, "sent", &how);
    let _ = write!(out, "\n{}", String::from_utf8_lossy(&head));
}
