//! Who must say who he is: `auth` of a site or a mount, and where passwords would pass in clear.
//! The file of users is `users`'; what a password is worth, `crate::auth`'s.

use std::path::PathBuf;

use super::names::Named;
use super::problem::{Wrong, shown};
use super::reader::Reader;
use super::table::Table;
use super::types::{Config, Listen, Site};
use super::value::Value;

/// What a client must show before it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Nothing, and somebody said so.
    None,
    /// A name and a password (RFC 7617).
    Basic(Basic),
}

/// Basic authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basic {
    /// The file of names and hashes: absolute.
    pub users: PathBuf,
    /// What the client is told it is for.
    pub realm: String,
    /// Whether passwords may come in clear over a network.
    pub cleartext: bool,
}

/// The ways, as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthName {
    None,
    Basic,
}

impl Named for AuthName {
    const NAMES: &'static [(&'static str, Self)] = &[("none", Self::None), ("basic", Self::Basic)];
}

/// What the client is told when nobody said.
pub(super) const REALM: &str = "hurtle";

impl Basic {
    /// These users, all else at its default.
    pub fn new(users: PathBuf) -> Basic {
        Basic { users, realm: REALM.to_owned(), cleartext: false }
    }
}

impl Config {
    /// Everything that asks for a password.
    pub fn gates(&self) -> impl Iterator<Item = &Basic> {
        self.sites.iter().flat_map(gates)
    }

    /// Of these, what is asked of requests in clear, too: a site that redirects them asks nothing.
    pub fn gates_in_clear(&self) -> impl Iterator<Item = &Basic> {
        let redirects = |site: &&Site| site.tls.as_ref().is_some_and(|tls| tls.redirect);
        self.sites.iter().filter(move |site| !redirects(site)).flat_map(gates)
    }
}

fn gates(site: &Site) -> impl Iterator<Item = &Basic> {
    let auths = site.auth.iter().chain(site.mounts.iter().filter_map(|mount| mount.auth.as_ref()));
    auths.filter_map(|auth| match auth {
        Auth::Basic(basic) => Some(basic),
        Auth::None => None,
    })
}

/// Whether what comes in there may have crossed a network in clear.
pub fn is_exposed(listen: &Listen) -> bool {
    match listen {
        Listen::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        Listen::Unix(_) => false,
    }
}

/// `auth` of a site or a mount, with its companions; `None`: nothing is written, or it is wrong.
pub(super) fn auth(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Auth> {
    let written = table.get("auth")?;
    let users = table.get("users");
    match written.choice::<AuthName>(reader)? {
        AuthName::None => {
            if let Some(users) = users {
                let wrong = Wrong::new("goes with auth = \"basic\" only");
                users.wrong(reader, wrong.hint("remove it, or write auth = \"basic\""));
            }
            Some(Auth::None)
        }
        AuthName::Basic => {
            let Some(users) = users else {
                let wrong = Wrong::new("there is nobody to let in");
                let hint = "write users =, a file with a line of `htpasswd -nB NAME` for each";
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

/// Reports every place where a password would come in clear over a network.
pub(super) fn check_privacy(listen: &[Listen], reader: &mut Reader<'_>) {
    let Some(exposed) = listen.iter().find(|listen| is_exposed(listen)) else { return };
    for spot in std::mem::take(&mut reader.needs_privacy) {
        reader.report(&spot, in_clear(exposed));
    }
}

/// What is wrong with asking for passwords there.
pub(super) fn in_clear(exposed: &Listen) -> Wrong {
    Wrong::new(format!("passwords would cross the network in clear to {exposed}")).hint(
        "listen on 127.0.0.1 or a unix socket behind something that speaks TLS, or write \
         auth_cleartext = true",
    )
}

/// A realm: it goes into a quoted string of a field (RFC 9110 5.6.4).
fn realm(text: &str) -> Result<String, Wrong> {
    let fits = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
    if text.is_empty() || !text.chars().all(fits) {
        return Err(Wrong::new(format!("{} is not a realm", shown(text)))
            .hint("write a few plain ASCII words, without quotes"));
    }
    Ok(text.to_owned())
}
