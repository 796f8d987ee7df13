//! The schema of `[acme]`, automatic certificates.

use super::acme::{AUTHORITY_KEYS, ChallengeKind};
use super::dns_hook::HOOK_KEYS;
use super::names::names;
use super::schema::DefaultValue::{Required, Words};
use super::schema::Kind::{Choices, Flag, Tables, Text};
use super::schema::{Key, Section};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static ACME: Section = Section {
    header: "[acme]",
    doc: "Issues and renews the certificates of sites with `certificate = \"auto\"` in \
          `[site.tls]`. An authority issues them by ACME (RFC 8555) for the names in `hosts`. It \
          must reach this server by those names on port 443 or 80, or `dns_hook` writes records in \
          the DNS. See https.md.",
    keys: &[&[
        Key::new("accept_terms", Flag, Required, "true",
            "`true`: you have read the authorities' terms of service and accept them."),
        Key::new("email", Text("an address"), Words("none"), "\"admin@example.org\"",
            "Your contact address for the authority; not all send mail."),
        Key::new("storage", Text("a directory"),
            Words(
            "`hurtle/acme` in the user's data directory; with `user`: `/var/lib/hurtle/acme`"),
            "\"/var/lib/hurtle/acme\"",
            "Accounts, keys, certificates and pending challenges, readable by the server's user \
             only. Servers of the same host names share it."),
        Key::new("challenge", Choices(names::<ChallengeKind>),
            Words("with `dns_hook`: `dns-01`; otherwise both others that the listeners allow"),
            "[\"http-01\"]",
            "Method of proving control of a name: in a TLS handshake on port 443, by a request \
             in clear on port 80, or by a record in the DNS. If one fails, the next attempt uses \
             the other. `dns-01` needs `dns_hook`, and excludes the others."),
        Key::new("dns_hook", Text("a program"), Words("none"), "\"/etc/hurtle/dns-hook\"",
            "Program that writes and removes the records of `dns-01`. All names are then validated \
             by DNS, and `hosts` may have wildcard names. It is called as by lego: \
             `present|cleanup FQDN VALUE`, as the server's user and outside of its sandbox. See \
             [https.md](https.md#wildcard-names)."),
    ], HOOK_KEYS, &[
        Key::new("authority", Tables(&AUTHORITY), Words("Let's Encrypt"),
            "[{ directory = \"https://acme.example/directory\" }]",
            "Authorities in order of preference; the next is used when one fails."),
    ]],
};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static AUTHORITY: Section = Section {
    header: "[[acme.authority]]",
    doc: "A certificate authority, with its external account binding if it requires one.",
    keys: &[&[
        Key::new("directory", Text("a URL"), Required, "\"https://acme.example/directory\"",
            "Its ACME directory."),
    ], AUTHORITY_KEYS],
};
