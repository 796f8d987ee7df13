//! Describes the server's process: its user, and the encryption of a site.

use nix::unistd::User;
use rustix::process::geteuid;

use super::line;
use crate::config::{Config, Sendfile};
use crate::sys;
use crate::tls::Keyring;
use crate::transport::TAKE_OVER_BYTES_MIN;

/// Describes as which user files are read, if it is not the server's.
pub(super) fn describe_user(out: &mut String, config: &Config) {
    let Some(user) = &config.user else { return };
    let own = User::from_uid(geteuid().as_raw().into()).ok().flatten();
    if own.as_ref().is_none_or(|own| own.name != *user) {
        let own = own.map_or_else(|| geteuid().as_raw().to_string(), |own| own.name);
        let what = format!("the server is {user}, but this is {own}: ask root for its view");
        line(out, "user", &what);
    }
}

/// Describes the certificates of a site and the encryption of its files.
pub(super) fn describe_tls(
    out: &mut String,
    config: &Config,
    keyring: Option<&Keyring>,
    number: usize,
) {
    let Some(tls) = &config.sites[number].tls else { return };
    for certificate in keyring.iter().flat_map(|keyring| keyring.describe(number)) {
        line(out, "tls", &certificate);
    }
    if let Some(dir) = tls.local_authority() {
        let what = "signed by the local authority in";
        line(
            out,
            "",
            &format!("{what} {}, which clients must trust: `hurtle trust`", dir.display()),
        );
    }
    line(out, "", "TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1");
    let udp: Vec<_> = config.http3_addresses().map(|address| address.to_string()).collect();
    if !udp.is_empty() {
        let what = format!("HTTP/3 over UDP at {}, which the firewall must admit", udp.join(", "));
        line(out, "", &what);
    }
    line(out, "", &describe_encryption(config.sendfile));
    if let Some(auth) = &tls.client_auth {
        let must = if auth.required { "must" } else { "may" };
        let authorities = auth.authorities.display();
        line(out, "", &format!("clients {must} present a certificate issued by {authorities}"));
    }
    if tls.redirect {
        line(out, "", "requests in clear are redirected to HTTPS; the following is over TLS");
    }
}

/// Describes whether the kernel or the server encrypts files.
fn describe_encryption(sendfile: Sendfile) -> String {
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
