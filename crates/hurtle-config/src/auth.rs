//! Authentication settings of sites and mounts, and the check that passwords and tokens do not
//! cross a network in clear. `users` parses the file of users, `jwt` reads the settings of tokens;
//! `hurtle::auth` checks both.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, header};
use serde::Serialize;

use super::bounds::{TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::error::{ValueError, shown};
use super::field::field_name;
use super::jwt::{Jwt, TOKEN_KEYS, jwt};
use super::names::Named;
use super::print;
use super::reader::Reader;
use super::schema::Kind::{Flag, List, Text, Time};
use super::schema::{AUTH, Key, one_of};
use super::schema_access::{FORWARD, FORWARD_TLS, JWKS, USERS};
use super::settings::settings;
use super::table::Table;
use super::types::{Config, Listen, Mount, MountHandler, Site};
use super::upstream::Upstream;
use super::upstream_server::{UpstreamServer, server};
use super::upstream_tls::{UpstreamTls, upstream_tls};
use super::value::Value;

/// Authentication required of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "auth", rename_all = "lowercase")]
pub enum Auth {
    /// None, by an explicit setting.
    None,
    /// A name and a password (RFC 7617).
    Basic(Basic),
    /// The decision of an HTTP server about each request.
    Forward(ForwardAuth),
    /// A signed token (RFC 6750, RFC 7519).
    Jwt(Jwt),
}

/// Basic authentication (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Basic {
    /// File of names and hashes: absolute path.
    #[serde(serialize_with = "print::path")]
    pub users: PathBuf,
    /// The realm, and whether passwords may cross a network in clear.
    #[serde(flatten)]
    pub space: ProtectionSpace,
}

settings! {
    /// The resources for which credentials are valid (RFC 9110 section 11.5).
    pub struct ProtectionSpace: SPACE with AUTH {
        /// Name of the protected area, shown by browsers.
        realm: String = "hurtle".to_owned(), Text("a few words"), "\"staging\"",
            by |v, r| v.parse(r, realm);
        /// Allow passwords and tokens in clear over a network. Otherwise every address in `listen`
        /// must be a loopback address or a unix socket, unless the site redirects to HTTPS.
        cleartext ("auth_cleartext"): bool = false, Flag, "true";
    }
}

settings! {
    /// Authentication by a server that is asked about each request.
    #[derive(Eq)]
    pub struct ForwardAuth: FORWARD_KEYS with AUTH {
        /// Fields of the server's 2xx that the request gets. A client's own fields of
        /// these names are removed.
        #[serde(serialize_with = "print::field_names")]
        copy_headers: Vec<HeaderName> = Vec::new(), List("field names"),
            "[\"Remote-User\", \"Remote-Groups\"]", by |v, r| v.parse_list(r, copied_name);
        /// Time limit of the server's decision (504).
        #[serde(serialize_with = "print::duration")]
        timeout ("auth_timeout"): Duration = Duration::from_secs(10),
            Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"2s\"";
    }
    beside {
        /// The URL as it is printed: the upstream and the path.
        #[serde(rename = "forward")]
        url: String = String::new();
        /// The server that is asked.
        #[serde(skip)]
        upstream: UpstreamServer = Upstream::Unix(PathBuf::new()).into();
        /// The path of the subrequest, with its query.
        #[serde(skip)]
        path: String = String::new();
        /// TLS settings of an `https://` server; `None`: the defaults.
        #[serde(rename = "forward_tls")]
        tls: Option<UpstreamTls> = None;
    }
}

/// The values of the key `auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthName {
    None,
    Basic,
    Forward,
    Jwt,
}

impl Named for AuthName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("basic", Self::Basic),
        ("forward", Self::Forward),
        ("jwt", Self::Jwt),
    ];
}

/// The keys that belong to some values of `auth`, and those values.
const KEYS_OF: &[(&[AuthName], &[&[Key]])] = &[
    (&[AuthName::Basic], &[USERS]),
    (&[AuthName::Basic, AuthName::Jwt], &[SPACE]),
    (&[AuthName::Forward], &[FORWARD, FORWARD_KEYS, FORWARD_TLS]),
    (&[AuthName::Jwt], &[JWKS, TOKEN_KEYS]),
];

/// Returns whether a key belongs to `auth = "jwt"` only.
#[cfg(test)]
pub(super) fn is_of_tokens(name: &str) -> bool {
    [JWKS, TOKEN_KEYS].iter().copied().flatten().any(|key| key.name == name)
}

impl Basic {
    /// Basic authentication of these users, with defaults for all else.
    pub fn new(users: PathBuf) -> Basic {
        Basic { users, space: ProtectionSpace::default() }
    }
}

impl Config {
    /// Every authentication of the sites and mounts.
    pub fn auths(&self) -> impl Iterator<Item = &Auth> {
        self.sites.iter().flat_map(auths)
    }

    /// Returns whether passwords or tokens are required of requests in clear to a listener, against
    /// a setting. A site that redirects such requests to HTTPS requires none of them.
    pub fn needs_privacy(&self, listen: &Listen) -> bool {
        let redirects = |site: &Site| site.tls.as_ref().is_some_and(|tls| tls.redirect);
        let sites = self.sites.iter().filter(|site| !redirects(site) && site.answers_at(listen));
        sites.flat_map(auths).any(|auth| match auth {
            Auth::Basic(basic) => !basic.space.cleartext,
            Auth::Jwt(jwt) => !jwt.space.cleartext,
            Auth::None | Auth::Forward(_) => false,
        })
    }
}

fn auths(site: &Site) -> impl Iterator<Item = &Auth> {
    site.auth.iter().chain(site.mounts.iter().filter_map(|mount| mount.auth.as_ref()))
}

/// `true` if requests to this address may have crossed a network in clear.
pub fn is_exposed(listen: &Listen) -> bool {
    match listen {
        Listen::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        Listen::Unix(_) => false,
    }
}

impl Config {
    /// Returns the path of a status page at a listener that is neither for some clients nor behind
    /// a password.
    pub fn public_status_page(&self, listen: &Listen) -> Option<&str> {
        let is_public = |site: &&Site| !site.has_known_clients() && site.answers_at(listen);
        let sites = self.sites.iter().filter(is_public);
        let pages = sites.filter_map(|site| {
            site.mounts.iter().find(|mount| mount.is_public_status_page(site.auth.as_ref()))
        });
        pages.map(|mount| mount.path.as_str()).next()
    }
}

impl Site {
    /// `true` if it admits only some networks, or only clients with certificates.
    pub(super) fn has_known_clients(&self) -> bool {
        let client_auth = self.tls.as_ref().and_then(|tls| tls.client_auth.as_ref());
        !self.access.allow.is_empty() || client_auth.is_some_and(|auth| auth.required)
    }
}

impl Mount {
    /// `true` for a status page that admits every network and requires no password or certificate.
    /// `site` is the site's authentication.
    pub(super) fn is_public_status_page(&self, site: Option<&Auth>) -> bool {
        matches!(self.handler, MountHandler::Status)
            && self.access.allow.is_empty()
            && self.authorizer.is_none()
            && self.client_auth.is_none()
            && matches!(self.auth.as_ref().or(site), None | Some(Auth::None))
    }
}

/// Reads `auth` of a site or mount and the keys that belong to it; `None`: unset or wrong.
pub(super) fn auth(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Auth> {
    let written = table.get("auth")?;
    let users = table.get("users");
    let name = written.choice::<AuthName>(reader)?;
    for (of, keys) in KEYS_OF.iter().filter(|(of, _)| !of.contains(&name)) {
        let values: Vec<&str> = of.iter().map(|name| name.name()).collect();
        let values = one_of(&values);
        for other in keys.iter().copied().flatten().filter_map(|key| table.get(key.name)) {
            let wrong = ValueError::new(format!("goes with auth = {values} only"));
            other.report(reader, wrong.hint(format!("remove it, or write auth = {values}")));
        }
    }
    match name {
        AuthName::None => Some(Auth::None),
        AuthName::Forward => forward_auth(table, &written, reader).map(Auth::Forward),
        AuthName::Jwt => jwt(table, &written, reader).map(Auth::Jwt),
        AuthName::Basic => {
            let Some(users) = users else {
                let wrong = ValueError::new("the file of users is missing");
                let hint =
                    "write users = and a file with a line of `htpasswd -nB NAME` for each user";
                reader.report_missing(&written.spot, wrong.hint(hint));
                return None;
            };
            let path = users.path(reader)?;
            reader.users.push((users.spot, path.clone()));
            let space = ProtectionSpace::read(table, reader);
            if !space.cleartext {
                reader.needs_privacy.push((written.spot, Vec::new()));
            }
            Some(Auth::Basic(Basic { users: path, space }))
        }
    }
}

/// Reads `forward` and the keys that belong to it.
fn forward_auth(
    table: &Table<'_>,
    auth: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<ForwardAuth> {
    let Some(written) = table.get("forward") else {
        let wrong = ValueError::new("the server to ask is missing");
        let hint = "write for example forward = \"http://127.0.0.1:4180/verify\"";
        reader.report_missing(&auth.spot, wrong.hint(hint));
        return None;
    };
    let text = written.text(reader)?;
    let (origin, path) = match text.split_once("://") {
        Some((scheme, rest)) => match rest.split_once('/') {
            Some((host, path)) => (format!("{scheme}://{host}"), format!("/{path}")),
            None => (text.to_owned(), "/".to_owned()),
        },
        // A unix socket has no room for a path of the request.
        None => (text.to_owned(), "/".to_owned()),
    };
    let found = server(&origin, written.spot.at, reader)
        .map_err(|wrong| written.report(reader, wrong))
        .ok();
    let tls =
        table.get("forward_tls").and_then(|value| upstream_tls(&value, found.as_slice(), reader));
    if !path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        let wrong = ValueError::new(format!("{} has a path that cannot be sent", shown(text)));
        written.report(reader, wrong.hint("write it percent-encoded, without #"));
        return None;
    }
    let settings = ForwardAuth::read(table, reader);
    let upstream = found?;
    let url = match &upstream.upstream {
        Upstream::Unix(_) => upstream.to_string(),
        _ => format!("{upstream}{path}"),
    };
    Some(ForwardAuth { url, upstream, path, tls, ..settings })
}

/// Parses the name of a field that a request gets from its authentication.
pub(super) fn copied_name(text: &str) -> Result<HeaderName, ValueError> {
    let name = field_name(text)?;
    let is_special = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    if let Some(special) = name.as_str().chars().find(|c| is_special(*c)) {
        let why = format!("{} has a {special}, which many programs take for -", shown(text));
        return Err(ValueError::new(why).hint("write - in its place"));
    }
    if name == header::HOST {
        return Err(ValueError::new("Host routes the request").hint("remove it"));
    }
    if name.as_str().starts_with("x-forwarded-") || name == "forwarded" || name == "x-real-ip" {
        return Err(ValueError::new(format!("{} is a forwarding field", shown(text)))
            .hint("use another name, such as Remote-User"));
    }
    Ok(name)
}

/// Reports every setting that would let a password or token cross a network in clear.
pub(super) fn check_privacy(listen: &[Listen], reader: &mut Reader<'_>) {
    for (spot, of_site) in std::mem::take(&mut reader.needs_privacy) {
        let exposed = exposed(listen.iter(), &of_site).map(exposed_error);
        exposed.into_iter().for_each(|wrong| reader.report(&spot, wrong));
    }
}

/// Reports every status page that everybody on a network may see: it discloses internals.
pub(super) fn check_status_pages(config: &Config, reader: &mut Reader<'_>) {
    for (spot, of_site) in std::mem::take(&mut reader.status_pages) {
        let listen = config.listen.iter().chain(&config.listen_tls);
        let Some(exposed) = exposed(listen, &of_site) else { continue };
        let wrong = ValueError::new(format!("everybody who reaches {exposed} could see this page"));
        reader.report(
            &spot,
            wrong.hint(
                "write allow = and the networks that may, or auth = \"basic\", or listen on \
                 127.0.0.1 only",
            ),
        );
    }
}

/// Returns the first exposed address at which a site answers; it names its addresses, or none.
fn exposed<'l>(
    mut listen: impl Iterator<Item = &'l Listen>,
    of_site: &[Listen],
) -> Option<&'l Listen> {
    let answers = |listen: &Listen| of_site.is_empty() || of_site.contains(listen);
    listen.find(|listen| is_exposed(listen) && answers(listen))
}

/// The problem of requiring passwords or tokens at an exposed address.
pub(super) fn exposed_error(exposed: &Listen) -> ValueError {
    ValueError::new(format!("passwords and tokens would cross the network in clear to {exposed}"))
        .hint(
            "listen on 127.0.0.1 or a unix socket behind a TLS proxy, or write \
         auth_cleartext = true",
        )
}

/// Parses a realm; it is sent in a quoted string (RFC 9110 section 5.6.4).
fn realm(text: &str) -> Result<String, ValueError> {
    let fits = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
    if text.is_empty() || !text.chars().all(fits) {
        return Err(ValueError::new(format!("{} is not a realm", shown(text)))
            .hint("write a few plain ASCII words, without quotes"));
    }
    Ok(text.to_owned())
}
