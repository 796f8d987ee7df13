//! Reads a site's TLS settings: certificates with their keys, client authentication, redirect and
//! HSTS. `hurtle::tls` checks the files.

use std::path::PathBuf;

use super::acme;
use super::error::{ValueError, shown};
use super::field::field_value;
use super::local::{self, LOCAL};
use super::on_demand;
use super::reader::Reader;
use super::table::Table;
use super::tls::{CertificateFiles, CertificateSource, ClientAuth, ClientAuthMode, Tls};
use super::types::Site;
use super::value::Value;

/// Value of `certificate` that asks for an automatic one. A file of that name is `./auto`.
pub(super) const AUTOMATIC: &str = "auto";

/// Reads `[site.tls]` of a site whose names are known.
pub(super) fn tls(table: &Table<'_>, site: &Site, reader: &mut Reader<'_>) -> Option<Tls> {
    table.check_companions(reader);
    let client_auth = client_auth(table, reader);
    let mut redirect = !site.hosts.is_empty() || table.get("on_demand").is_some();
    table.set("redirect", reader, Value::flag, &mut redirect);
    let hsts = table.get("hsts");
    if let Some(written) = &hsts
        && !redirect
    {
        let wrong =
            ValueError::new("hsts needs redirect, because the site is also served in clear");
        written.report(reader, wrong.hint("write redirect = true"));
    }
    let hsts = hsts.and_then(|value| value.parse(reader, hsts_value));
    let ticket_secret = table.get("ticket_secret").and_then(|value| value.secret_file(reader));
    let written = table.get("certificate");
    let source = match written.as_ref().and_then(Value::as_text) {
        Some(AUTOMATIC) => on_demand(table, reader)?,
        // `local` fills in the directory.
        Some(LOCAL) => CertificateSource::Local(PathBuf::new()),
        _ => CertificateSource::Files,
    };
    if !matches!(source, CertificateSource::Automatic | CertificateSource::OnDemand(_))
        && let Some(extra) = table.get("on_demand")
    {
        let wrong = ValueError::new("only automatic certificates are ordered on demand");
        extra.report(reader, wrong.hint("write certificate = \"auto\", or remove it"));
    }
    let certificates = match (&written, &source) {
        (Some(written), CertificateSource::Automatic | CertificateSource::OnDemand(_)) => {
            let is_on_demand = source != CertificateSource::Automatic;
            acme::check_names(site, is_on_demand, written, reader);
            // `acme` fills in the path.
            without_key(table, "an automatic certificate", reader)
        }
        (Some(written), CertificateSource::Local(_)) => {
            local::check_names(site, written, reader);
            without_key(table, "a local certificate", reader)
        }
        _ => certificates(table, reader)?,
    };
    Some(Tls { certificates, source, client_auth, redirect, hsts, ticket_secret })
}

/// Reads how automatic certificates are ordered.
fn on_demand(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<CertificateSource> {
    let Some(written) = table.get("on_demand") else { return Some(CertificateSource::Automatic) };
    let table = written.table(reader)?;
    on_demand::on_demand(&table, reader).map(CertificateSource::OnDemand)
}

/// Reports a key beside a certificate that the server makes.
fn without_key(table: &Table<'_>, what: &str, reader: &mut Reader<'_>) -> Vec<CertificateFiles> {
    if let Some(key) = table.get("key") {
        let wrong = ValueError::new(format!("{what} brings its own key"));
        key.report(reader, wrong.hint("remove it"));
    }
    Vec::new()
}

/// Parses a Strict-Transport-Security value; `max-age` is required (RFC 6797 section 6.1) and must
/// come first.
fn hsts_value(text: &str) -> Result<http::HeaderValue, ValueError> {
    let seconds = text.strip_prefix("max-age=").map(|rest| rest.split(';').next().unwrap_or(rest));
    match seconds.map(|seconds| seconds.trim().parse::<u64>()) {
        Some(Ok(_)) => field_value(text),
        _ => Err(ValueError::new(format!("{} has no max-age", shown(text)))
            .hint("begin with \"max-age=31536000\", which is a year in seconds")),
    }
}

fn certificates(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Vec<CertificateFiles>> {
    let Some(written) = table.get("certificate") else {
        let wrong = ValueError::new("certificate is missing");
        let hint = "write for example certificate = \"example.org.pem\"";
        reader.report_missing(&table.spot, wrong.hint(hint));
        return None;
    };
    if written.is_empty_list() {
        written.report(reader, ValueError::new("no certificate").hint("name a PEM file"));
    }
    let chains: Vec<PathBuf> = written.list(reader, Value::file);
    let Some(keys) = table.get("key") else {
        let together = |chain: PathBuf| CertificateFiles { key: chain.clone(), chain };
        return Some(chains.into_iter().map(together).collect());
    };
    let (certificate_count, key_count) = (written.items(reader).len(), keys.items(reader).len());
    let paths: Vec<PathBuf> = keys.list(reader, Value::file);
    if certificate_count != key_count {
        let wrong = ValueError::new(format!(
            "{certificate_count} certificates need as many keys, not {key_count}"
        ));
        keys.report(reader, wrong.hint("write one for each, in the same order"));
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
        let wrong = ValueError::new("client_ca is missing");
        let hint = "name the PEM file with the trusted authorities";
        reader.report_missing(&table.spot, wrong.hint(hint));
        return None;
    };
    let authorities = authorities.file(reader)?;
    let lists = table.get("client_crl");
    let revocation_lists = lists.map(|lists| lists.list(reader, Value::file)).unwrap_or_default();
    let required = mode == ClientAuthMode::Required;
    Some(ClientAuth { required, authorities, revocation_lists })
}

/// Reports each `client_auth` of a mount that the TLS settings of its site, `written`, do not
/// allow. `tls` is `None` without usable settings.
pub(super) fn check_mounts(
    mounts: &[Table<'_>],
    written: Option<&Table<'_>>,
    tls: Option<&Tls>,
    reader: &mut Reader<'_>,
) {
    // Other problems of the same settings have been reported.
    let is_broken = written.is_some() && tls.is_none();
    let has_mode = written.is_some_and(|table| {
        table.get("client_auth").is_some_and(|mode| mode.as_text() != Some("off"))
    });
    let is_required = tls.and_then(|tls| tls.client_auth.as_ref()).is_some_and(|a| a.required);
    for value in mounts.iter().filter_map(|mount| mount.get("client_auth")) {
        match value.as_text() {
            Some("required") if written.is_none() => {
                let wrong = ValueError::new("without TLS no client presents a certificate");
                let hint = "write a [site.tls] with client_auth = \"optional\" and client_ca";
                value.report(reader, wrong.hint(hint));
            }
            Some("required") if !is_broken && !has_mode => {
                let wrong = ValueError::new("the site asks no client for a certificate");
                let hint = "write client_auth = \"optional\" and client_ca in [site.tls]";
                value.report(reader, wrong.hint(hint));
            }
            Some("none") if is_required => {
                let wrong = ValueError::new(
                    "the site refuses clients without a certificate in the handshake",
                );
                let hint = "write client_auth = \"optional\" in [site.tls], and \"required\" in the \
                            mounts that need one";
                value.report(reader, wrong.hint(hint));
            }
            _ => {}
        }
    }
}
