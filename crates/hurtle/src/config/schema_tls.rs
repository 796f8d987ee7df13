//! The keys of `[site.tls]` and `[proxy_protocol]`: what comes before a request; a part of `schema`.

use super::names::names;
use super::schema::Absent::{Is, Means, Required};
use super::schema::Kind::{Choice, Flag, List, Text};
use super::schema::{Key, Section};
use super::tls::ClientAuthMode;

#[rustfmt::skip] // A paragraph a key.
pub(super) static TLS: Section = Section {
    header: "[site.tls]",
    doc: "The site's certificates, for the addresses in `listen_tls`. Files are read again when \
          they change; where the new ones cannot be used, the old ones stay. See https.md.",
    keys: &[
        Key::new("certificate", List("PEM files, or \"auto\""), Required, "\"example.org.pem\"",
            "The site's certificate and those between it and its root; one for each kind of key \
             (ECDSA, RSA). Clients get the first kind they understand. A staple (OCSP, DER) is in \
             the file of the same name and `.ocsp`. `\"auto\"`: the server gets one for the names \
             in `hosts` and renews it, see `[acme]`."),
        Key::new("key", List("PEM files"), Means("in the certificate's file"),
            "\"example.org.key\"", "The private keys, in the order of the certificates."),
        Key::new("client_auth", Choice(names::<ClientAuthMode>), Is("\"off\""), "\"required\"",
            "Whether clients are asked for certificates, and turned away without."),
        Key::new("client_ca", Text("a PEM file"), Means("see `client_auth`"),
            "\"clients.pem\"", "The authorities whose client certificates are believed.")
            .with(&["client_auth"]),
        Key::new("redirect", Flag, Means("true if a name in `hosts` is no pattern"), "false",
            "Whether requests in clear are redirected (308) to HTTPS: to the configured name, and \
             the port of the first address in `listen_tls`."),
        Key::new("hsts", Text("a field value"), Means("off"), "\"max-age=31536000\"",
            "Strict-Transport-Security: for how long browsers shall know the site by HTTPS only. \
             It cannot be taken back sooner."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static PROXY_PROTOCOL: Section = Section {
    header: "[proxy_protocol]",
    doc: "Load balancers that say whom they connect for, with a header before all else (the PROXY \
          protocol, version 1 or 2). The address in it is then the client's: for logs, `allow` and \
          `deny`, limits and applications. Without a header there is no service: see https.md.",
    keys: &[
        Key::new("from", List("networks"), Means("required unless all are unix sockets"),
            "[\"10.0.0.0/24\", \"2001:db8::/64\"]",
            "The balancers' addresses; connections from any other are closed."),
        Key::new("on", List("addresses"), Means("every address listened on"),
            "\"127.0.0.1:8080\"",
            "The addresses of `listen` and `listen_tls` where it is spoken. Whoever may connect to \
             a unix socket is believed."),
    ],
};
