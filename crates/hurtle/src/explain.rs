//! `hurtle explain URL-PATH`: which file or rule answers, with which headers, how the body would be
//! sent, and why. It asks the same code that serves, so it cannot disagree with it.

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::path::Path;

use crate::answer::Answer;
use crate::auth::Guard;
use crate::body::Body;
use crate::cache::Caches;
use crate::clock;
use crate::config::{Config, Sendfile};
use crate::disk::Disk;
use crate::files::{Cache, Changed, FileQuery, Found, Key, Listings, Scripts, Store, Target};
use crate::h1::response::{self, Delimiter, Fields, Persistence};
use crate::handler::directory::Means;
use crate::handler::gateway::{Gateway, Slots};
use crate::handler::{Ask, Handler};
use crate::semantics::host;
use crate::semantics::target::{self, Target as RequestTarget};
use crate::server;
use crate::site::{Route, Site, Sites};
use crate::sys;
use crate::tls::Keyring;
use crate::transport::TAKE_OVER_BYTES_MIN;

/// What is to be explained: a GET.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// A path with or without a query, or a whole http:// URL.
    pub target: &'a str,
    /// The host asked for, if the target does not say.
    pub host: Option<&'a str>,
    /// Accept-Encoding.
    pub accept_encoding: Option<&'a str>,
}

/// Explains a GET by a client on this machine.
///
/// # Errors
/// A target or host that is none, or what keeps the server's parts from starting.
pub fn explain(config: &Config, question: &Question<'_>) -> io::Result<String> {
    server::block_on(asked(config, question))?
}

async fn asked(config: &Config, question: &Question<'_>) -> io::Result<String> {
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let parsed = target::parse(b"GET", question.target.as_bytes())
        .map_err(|e| bad(format!("{:?} is no URL path: {e}", question.target)))?;
    let (authority, path, query) = match parsed {
        RequestTarget::Origin { path, query } => (None, path, query),
        RequestTarget::Absolute { authority, path, query, .. } => (Some(authority), path, query),
        _ => return Err(bad("a path begins with /".to_owned())),
    };
    let name = authority.or(question.host.map(str::as_bytes));
    let name = name.map(host::parse).transpose().map_err(|e| bad(e.to_string()))?;
    let disk = Disk::start(NonZeroUsize::MIN)?;
    let listings = Listings::new(&disk);
    let means = Means {
        disk: disk.clone(),
        listings,
        sendfile: config.sendfile,
        changed: Changed::default(),
        caches: Caches::new(1),
    };
    let sites = Sites::new(config, &means, &Guard::closed(), &Slots::new(0));
    let store = Store::new(Cache::new(0, 0), disk, 0, Changed::default());
    let mut out = String::new();
    let Some((number, site)) = sites.find(name.map(|host| host.name)) else {
        return Ok("no site has this name, and none is the default: 421 Misdirected Request".into());
    };
    line(&mut out, "site", &site_name(config, number));
    describe_tls(&mut out, config, number)?;
    let peer = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    if let Some(apps) = &config.apps {
        let apps = apps.display();
        let what = format!("those of {apps} are not asked; one may be mounted at a longer path");
        line(&mut out, "apps", &what);
    }
    let answered_here = describe_route(&mut out, site, path, query, peer);
    if let Some(gate) = site.gate(path, query, peer) {
        line(&mut out, "auth", &format!("a password for {:?}, else 401", gate.realm()));
    }
    if let Some(authorizer) = site.authorizer(path, query, peer) {
        line(&mut out, "asked", &format!("the authorizer {} first", authorizer.name()));
    }
    if !answered_here {
        return Ok(out);
    }
    let accept_encoding = question.accept_encoding.map(str::as_bytes);
    let ask = Ask {
        get: true,
        key: Key { site: number, path },
        query,
        file: FileQuery { accept_encoding, ..FileQuery::default() },
        accept: None,
    };
    let answer = site.answer(&store, &ask, peer).await;
    let sendfile = match (&config.sites[number].tls, &answer.body) {
        (Some(_), Body::File(file)) if sys::offers_tls() && file.len >= TAKE_OVER_BYTES_MIN => {
            config.sendfile
        }
        (Some(_), _) => Sendfile::Off,
        (None, _) => config.sendfile,
    };
    describe_answer(&mut out, &answer, sendfile);
    Ok(out)
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

/// Who encrypts files.
fn by_whom(sendfile: Sendfile) -> String {
    let why = match (sys::offers_tls(), sendfile) {
        (true, Sendfile::Off) => "sendfile is off",
        (true, _) => {
            let least = TAKE_OVER_BYTES_MIN >> 10;
            return format!(
                "over HTTP/1.1 and TLS 1.3 the kernel encrypts, from the first file of {least} KiB or \
                 more on, and files go by sendfile; else the server does, and files are copied"
            );
        }
        (false, _) => "this kernel offers no TLS to this user",
    };
    format!("encrypted by the server, so files are copied, not sent by the kernel: {why}")
}

fn describe_tls(out: &mut String, config: &Config, number: usize) -> io::Result<()> {
    let Some(tls) = &config.sites[number].tls else { return Ok(()) };
    let keyring = Keyring::load(config).map_err(|e| io::Error::other(e.join("\n")))?;
    for certificate in keyring.iter().flat_map(|keyring| keyring.describe(number)) {
        line(out, "tls", &certificate);
    }
    line(out, "", "TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1");
    line(out, "", &by_whom(config.sendfile));
    if let Some(auth) = &tls.client_auth {
        let must = if auth.required { "must" } else { "may" };
        let authorities = auth.authorities.display();
        line(out, "", &format!("clients {must} have a certificate of those in {authorities}"));
    }
    if tls.redirect {
        line(out, "", "in clear, requests are redirected to HTTPS; what follows is over TLS");
    }
    Ok(())
}

/// Says who answers; whether that is the server itself, and what it answers can be shown.
fn describe_route(
    out: &mut String,
    site: &Site,
    raw: &[u8],
    query: Option<&[u8]>,
    peer: Option<IpAddr>,
) -> bool {
    let (path, number, rules) = match site.route(raw, query, peer) {
        Route::Answer(_, why) => {
            line(out, "answer", &why);
            return true;
        }
        // Only a running server has any.
        Route::Deployed { .. } => return false,
        Route::Mount { path, number, rules } => (path, number, rules),
    };
    if !rules.is_empty() {
        let rewritten = String::from_utf8_lossy(&path);
        line(out, "rule", &format!("{} -> {rewritten}", rules.join(", ")));
    }
    let (at, handler) = site.mount(number);
    let place = site.place(&path, number);
    let what = match handler {
        Handler::Redirect(_) => format!("{at}: a redirect"),
        Handler::Fixed(_) => format!("{at}: a fixed answer"),
        Handler::App(_) => format!("{at}: an application"),
        Handler::Proxy(proxy) => {
            let upstreams: Vec<_> =
                proxy.config().upstreams.iter().map(ToString::to_string).collect();
            format!("{at}: passed on to {}", upstreams.join(", "))
        }
        Handler::Gateway(gateway) => {
            line(out, "mount", &format!("{at}: {}", gateway.describe()));
            let found = gateway.scripts().map(|scripts| scripts.find_now(place.rest));
            line(out, "found", &describe_script(gateway, found.as_ref()));
            return matches!(found, Some(Ok(Found::Other)));
        }
        Handler::Directory(directory) => {
            let found = match directory.lookup(place.rest) {
                None => "a hidden name".to_owned(),
                Some(lookup) => match lookup.probe() {
                    Ok(target) => describe_target(&lookup.root, &target),
                    Err(e) => format!("the look-up failed: {e}"),
                },
            };
            line(out, "mount", &format!("{at}: files"));
            line(out, "found", &found);
            return true;
        }
    };
    line(out, "mount", &what);
    !matches!(handler, Handler::App(_) | Handler::Proxy(_))
}

fn describe_script(gateway: &Gateway, found: Option<&io::Result<Found>>) -> String {
    let root = gateway.scripts().map_or(Path::new(""), Scripts::root);
    match found {
        None => "whatever the application answers".to_owned(),
        Some(Ok(Found::Script { file, info })) => {
            let file = in_root(root, file);
            let info = String::from_utf8_lossy(info);
            if info.is_empty() { file } else { format!("{file}, PATH_INFO {info}") }
        }
        Some(Ok(Found::Other)) => "no script: what the files say".to_owned(),
        Some(Ok(Found::Missing)) => "no such script: 404 Not Found".to_owned(),
        Some(Ok(Found::Denied)) => "a file this user may not read: 403 Forbidden".to_owned(),
        Some(Err(e)) => format!("the look-up failed: {e}"),
    }
}

fn in_root(root: &Path, path: &[u8]) -> String {
    use std::os::unix::ffi::OsStrExt;
    root.join(std::ffi::OsStr::from_bytes(path)).display().to_string()
}

fn describe_target(root: &Path, target: &Target) -> String {
    let in_root = |path: &[u8]| in_root(root, path);
    match target {
        Target::File { path, states } => {
            let mut text = in_root(path);
            for (coding, state) in states.iter().skip(1) {
                let _ = write!(text, "; {coding:?} variant, {} bytes", state.len);
            }
            text
        }
        Target::Directory(path, _) => format!("the directory {}, without index", in_root(path)),
        Target::SlashMissing => "a directory, asked for without its slash".to_owned(),
        Target::Missing => "nothing that is served".to_owned(),
        Target::Denied => "a file this user may not read".to_owned(),
        Target::Status(status) => format!("nothing; try_files ends with {status}"),
    }
}

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
