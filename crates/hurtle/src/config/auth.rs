//! Authentication settings of sites and mounts, and the check that passwords do not cross a network
//! in clear. `users` parses the file of users; `crate::auth` checks passwords.

use std::path::PathBuf;

use serde::Serialize;

use super::error::{ValueError, shown};
use super::names::Named;
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::types::{Config, Listen, Mount, MountHandler, Site};
use super::value::Value;

/// Authentication required of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "auth", rename_all = "lowercase")]
pub enum Auth {
    /// None, by an explicit setting.
    None,
    /// A name and a password (RFC 7617).
    Basic(Basic),
}

/// Basic authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Basic {
    /// File of names and hashes: absolute path.
    #[serde(serialize_with = "print::path")]
    pub users: PathBuf,
    /// The realm sent to the client.
    pub realm: String,
    /// `true`: passwords may cross a network in clear.
    #[serde(rename = "auth_cleartext")]
    pub cleartext: bool,
}

/// The values of the key `auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthName {
    None,
    Basic,
}

impl Named for AuthName {
    const NAMES: &'static [(&'static str, Self)] = &[("none", Self::None), ("basic", Self::Basic)];
}

/// The default realm.
pub(super) const REALM: &str = "hurtle";

impl Basic {
    /// Basic authentication of these users, with defaults for all else.
    pub fn new(users: PathBuf) -> Basic {
        Basic { users, realm: REALM.to_owned(), cleartext: false }
    }
}

impl Config {
    /// Every Basic authentication of the sites and mounts.
    pub fn basic_auths(&self) -> impl Iterator<Item = &Basic> {
        self.sites.iter().flat_map(basic_auths)
    }

    /// Those that also apply to requests in clear; a site that redirects such requests to HTTPS
    /// requires no password of them.
    pub fn basic_auths_in_clear(&self) -> impl Iterator<Item = &Basic> {
        let redirects = |site: &&Site| site.tls.as_ref().is_some_and(|tls| tls.redirect);
        self.sites.iter().filter(move |site| !redirects(site)).flat_map(basic_auths)
    }
}

fn basic_auths(site: &Site) -> impl Iterator<Item = &Basic> {
    let auths = site.auth.iter().chain(site.mounts.iter().filter_map(|mount| mount.auth.as_ref()));
    auths.filter_map(|auth| match auth {
        Auth::Basic(basic) => Some(basic),
        Auth::None => None,
    })
}

/// `true` if requests to this address may have crossed a network in clear.
pub fn is_exposed(listen: &Listen) -> bool {
    match listen {
        Listen::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        Listen::Unix(_) => false,
    }
}

impl Config {
    /// Returns the path of a status page that is neither for some clients nor behind a password.
    pub fn public_status_page(&self) -> Option<&str> {
        let sites = self.sites.iter().filter(|site| !site.has_known_clients());
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
    /// `true` for a status page that admits every network and requires no password. `site` is the
    /// site's authentication.
    pub(super) fn is_public_status_page(&self, site: Option<&Auth>) -> bool {
        matches!(self.handler, MountHandler::Status)
            && self.access.allow.is_empty()
            && self.authorizer.is_none()
            && !matches!(self.auth.as_ref().or(site), Some(Auth::Basic(_)))
    }
}

/// Reads `auth` of a site or mount and the keys that belong to it; `None`: unset or wrong.
pub(super) fn auth(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Auth> {
    let written = table.get("auth")?;
    let users = table.get("users");
    match written.choice::<AuthName>(reader)? {
        AuthName::None => {
            if let Some(users) = users {
                let wrong = ValueError::new("goes with auth = \"basic\" only");
                users.report(reader, wrong.hint("remove it, or write auth = \"basic\""));
            }
            Some(Auth::None)
        }
        AuthName::Basic => {
            let Some(users) = users else {
                let wrong = ValueError::new("the file of users is missing");
                let hint =
                    "write users = and a file with a line of `htpasswd -nB NAME` for each user";
                reader.report_missing(&written.spot, wrong.hint(hint));
                return None;
            };
            let mut basic = Basic::new(users.path(reader)?);
            table.set("realm", reader, |v, r| v.parse(r, realm), &mut basic.realm);
            table.set("auth_cleartext", reader, Value::flag, &mut basic.cleartext);
            reader.users.push((users.spot, basic.users.clone()));
            if !basic.cleartext {
                reader.needs_privacy.push(written.spot);
            }
            Some(Auth::Basic(basic))
        }
    }
}

/// Reports every setting that would let a password cross a network in clear.
pub(super) fn check_privacy(listen: &[Listen], reader: &mut Reader<'_>) {
    let Some(exposed) = listen.iter().find(|listen| is_exposed(listen)) else { return };
    for spot in std::mem::take(&mut reader.needs_privacy) {
        reader.report(&spot, exposed_error(exposed));
    }
}

/// Reports every status page that everybody on a network may see: it discloses internals.
pub(super) fn check_status_pages(config: &Config, reader: &mut Reader<'_>) {
    let mut listen = config.listen.iter().chain(&config.listen_tls);
    let Some(exposed) = listen.find(|listen| is_exposed(listen)) else { return };
    for spot in std::mem::take(&mut reader.status_pages) {
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

/// The problem of requiring passwords at an exposed address.
pub(super) fn exposed_error(exposed: &Listen) -> ValueError {
    ValueError::new(format!("passwords would cross the network in clear to {exposed}")).hint(
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
