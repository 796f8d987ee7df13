//! A site's TLS: certificates with their keys, client authentication, and what leads clients to
//! HTTPS. Whether the files can be used is `crate::tls`'s to say.

use std::path::PathBuf;

use super::acme::check_names;
use super::field::field_value;
use super::problem::{Wrong, shown};
use super::reader::Reader;
use super::table::Table;
use super::tls::{CertificateFiles, ClientAuth, ClientAuthMode, Tls};
use super::types::{HostName, Site};
use super::value::Value;

/// In place of a certificate: the server gets one. A file of that name is `./auto`.
pub(super) const AUTOMATIC: &str = "auto";

/// Reads `[site.tls]` of a site whose names are known.
pub(super) fn tls(table: &Table<'_>, site: &Site, reader: &mut Reader<'_>) -> Option<Tls> {
    table.check_companions(reader);
    let client_auth = client_auth(table, reader);
    let named = site.hosts.iter().any(|name| matches!(name, HostName::Exact(_)));
    let mut redirect = named;
    table.set("redirect", reader, Value::flag, &mut redirect);
    if let Some(written) = table.get("redirect")
        && redirect
        && !named
    {
        let wrong = Wrong::new("there is no name to redirect to");
        let hint = "write one in hosts that is no pattern, or redirect = false";
        written.wrong(reader, wrong.hint(hint));
    }
    let hsts = table.get("hsts");
    if let Some(written) = &hsts
        && !redirect
    {
        let wrong = Wrong::new("a site that is also served in clear cannot ask for TLS only");
        written.wrong(reader, wrong.hint("write redirect = true"));
    }
    let hsts = hsts.and_then(|value| value.parse(reader, hsts_value));
    let written = table.get("certificate");
    let automatic = written.filter(|written| written.as_text() == Some(AUTOMATIC));
    let Some(written) = &automatic else {
        let certificates = certificates(table, reader)?;
        return Some(Tls { certificates, automatic: false, client_auth, redirect, hsts });
    };
    check_names(site, written, reader);
    if let Some(key) = table.get("key") {
        let wrong = Wrong::new("the key of an automatic certificate is made with it");
        key.wrong(reader, wrong.hint("remove it"));
    }
    // Where it will be `acme` says.
    Some(Tls { certificates: Vec::new(), automatic: true, client_auth, redirect, hsts })
}

/// RFC 6797 6.1: `max-age` is required, and comes first here so that it is seen.
fn hsts_value(text: &str) -> Result<http::HeaderValue, Wrong> {
    let seconds = text.strip_prefix("max-age=").map(|rest| rest.split(';').next().unwrap_or(rest));
    match seconds.map(|seconds| seconds.trim().parse::<u64>()) {
        Some(Ok(_)) => field_value(text),
        _ => Err(Wrong::new(format!("{} does not say for how long", shown(text)))
            .hint("write \"max-age=31536000\", the seconds of a year")),
    }
}

fn certificates(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Vec<CertificateFiles>> {
    let Some(written) = table.get("certificate") else {
        let wrong = Wrong::new("certificate is missing");
        let hint = "write for example certificate = \"example.org.pem\"";
        reader.report_missing(&table.spot, wrong.hint(hint));
        return None;
    };
    if written.is_empty_list() {
        written.wrong(reader, Wrong::new("no certificate").hint("name a PEM file"));
    }
    let chains: Vec<PathBuf> = written.list(reader, Value::path);
    let Some(keys) = table.get("key") else {
        let together = |chain: PathBuf| CertificateFiles { key: chain.clone(), chain };
        return Some(chains.into_iter().map(together).collect());
    };
    let (asked, given) = (written.items(reader).len(), keys.items(reader).len());
    let paths: Vec<PathBuf> = keys.list(reader, Value::path);
    if asked != given {
        let wrong = Wrong::new(format!("{asked} certificates need as many keys, not {given}"));
        keys.wrong(reader, wrong.hint("write one for each, in the same order"));
    }
    let pair = |(chain, key)| CertificateFiles { chain, key };
    Some(chains.into_iter().zip(paths).map(pair).collect())
}

fn client_auth(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<ClientAuth> {
    let mut mode = ClientAuthMode::Off;
    table.set("client_auth", reader, Value::choice, &mut mode);
    let authorities = table.get("client_ca");
    if mode == ClientAuthMode::Off {
        return None;
    }
    let Some(authorities) = authorities else {
        let wrong = Wrong::new("client_ca is missing");
        let hint = "name the PEM file with the authorities whose certificates are believed";
        reader.report_missing(&table.spot, wrong.hint(hint));
        return None;
    };
    let authorities = authorities.path(reader)?;
    Some(ClientAuth { required: mode == ClientAuthMode::Required, authorities })
}
