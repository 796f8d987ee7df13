//! The schema of `[site.tls]`, of client certificates of a mount, `[site.mount.upstream_tls]` and
//! `[proxy_protocol]`.

use super::names::names;
use super::on_demand::ON_DEMAND;
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Choice, Flag, List, Table, Text};
use super::schema::{Key, Section};
use super::tls::{ClientAuthMode, MountClientAuth};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static TLS: Section = Section {
    header: "[site.tls]",
    doc: "Certificates and TLS settings of the site, for the addresses in `listen_tls`. Changed \
          files are read again; if the new ones are unusable, the old ones stay. See https.md.",
    keys: &[&[
        Key::new("certificate", List("PEM files, \"auto\" or \"local\""), Required, "\"example.org.pem\"",
            "The site's certificate and its intermediates, one file for each type of key (ECDSA, \
             RSA). A client gets the first it supports. `\"auto\"`: the server obtains and renews a \
             certificate for the names in `hosts`, see `[acme]`. `\"local\"`: it signs one itself, by an \
             authority of its own, for private names and addresses, see `local_authority`."),
        Key::new("on_demand", Table(&ON_DEMAND), Words("certificates for `hosts` only"),
            "{ ask = \"http://127.0.0.1:9000/allowed\" }",
            "With `certificate = \"auto\"`: each name of the site gets a certificate of its own, \
             ordered by the first handshake for it."),
        Key::new("key", List("PEM files"), Words("in the certificate's file"),
            "\"example.org.key\"", "The private keys, in the order of the certificates."),
        Key::new("client_auth", Choice(names::<ClientAuthMode>), Toml("\"off\""), "\"required\"",
            "Client authentication: whether a certificate is requested, and whether it is \
             required."),
        Key::new("client_ca", Text("a PEM file"), Words("see `client_auth`"),
            "\"clients.pem\"", "Trusted authorities of client certificates.")
            .with(&["client_auth"]),
        Key::new("client_crl", List("PEM files"), Toml("[]"), "\"revoked.pem\"",
            "Lists of revoked client certificates (CRLs) of the authorities in `client_ca`. Clients with a revoked \
             certificate are refused; see [https.md](https.md#revoked-certificates).")
            .with(&["client_auth"]),
        Key::new("redirect", Flag, Words("true with `hosts`, or `on_demand`"), "false",
            "Redirect requests in clear to HTTPS (308), at the port of the first address in `listen_tls`. The \
             name is the requested one if it is in `hosts`, else the first of them without a wildcard."),
        Key::new("hsts", Text("a field value"), Words("off"), "\"max-age=31536000\"",
            "Strict-Transport-Security: how long browsers use HTTPS only for this site. It cannot \
             be revoked sooner. It needs `redirect`."),
        Key::new("ticket_secret", Text("a file"), Words("random keys"), "\"/etc/hurtle/tickets\"",
            "File with at least 32 random bytes, from which the keys of session tickets are derived. \
             Servers with the same file resume each other's sessions. Only its owner and its group \
             may have access. See fleet.md."),
    ]],
};

/// The key of a mount that requires client certificates.
#[rustfmt::skip] // One paragraph for each key.
pub(super) const MOUNT_CLIENT_AUTH: Key =
    Key::new("client_auth", Choice(names::<MountClientAuth>), Toml("\"none\""), "\"required\"",
        "Require a client certificate (403), in a site with `client_auth = \"optional\"`; see \
         [https.md](https.md#clients-with-certificates).");

#[rustfmt::skip] // One paragraph for each key.
pub(super) static PROXY_PROTOCOL: Section = Section {
    header: "[proxy_protocol]",
    doc: "Load balancers that send the client's address in a header before all else (PROXY \
          protocol, version 1 or 2). That address is used in logs, `allow` and `deny`, limits and \
          applications. A connection without the header is closed: see https.md.",
    keys: &[&[
        Key::new("from", List("networks"), Words("required unless all are unix sockets"),
            "[\"10.0.0.0/24\", \"2001:db8::/64\"]",
            "Addresses of the load balancers; connections from others are closed."),
        Key::new("on", List("addresses"), Words("every address listened on"),
            "\"127.0.0.1:8080\"",
            "Addresses of `listen` and `listen_tls` whose connections begin with the header. Every \
             peer of a unix socket is trusted."),
    ]],
};

#[rustfmt::skip] // One paragraph for each key.
const UPSTREAM_TLS_KEYS: &[Key] = &[
    Key::new("ca", Text("a PEM file"), Words("the system's authorities"), "\"ca.pem\"",
        "Trusted authorities of the upstreams' certificates, in place of the system's."),
    Key::new("server_name", Text("a host name or an address"), Words("the host in the URL"),
        "\"api.example.org\"",
        "Name to request (SNI) and to verify, for upstreams that are reached by another."),
    Key::new("certificate", Text("a PEM file"), Words("none"), "\"client.pem\"",
        "Client certificate to present, with its intermediates."),
    Key::new("key", Text("a PEM file"), Words("in the certificate's file"), "\"client.key\"",
        "The private key of `certificate`.").with(&["certificate"]),
    Key::new("insecure_skip_verify", Flag, Toml("false"), "true",
        "Accept any certificate: everyone on the path to the upstream can read and change \
         requests and responses. For tests only; the start logs a warning."),
];

pub(super) static UPSTREAM_TLS: Section = Section {
    header: "[site.mount.upstream_tls]",
    doc: "TLS settings of `https://` upstreams. The files are read when the server starts and on a \
          reload. See proxy.md.",
    keys: &[UPSTREAM_TLS_KEYS],
};

pub(super) static FORWARD_TLS: Section = Section {
    header: "[site.forward_tls]",
    doc: "TLS settings of an authentication server with `https://`, as in `upstream_tls`. See \
          access.md.",
    keys: &[UPSTREAM_TLS_KEYS],
};
