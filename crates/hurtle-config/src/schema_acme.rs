//! The schema of `[acme]`, automatic certificates.

use super::acme::ChallengeKind;
use super::dns_hook::HOOK_MS_MAX;
use super::names::names;
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Choices, Flag, List, Tables, Text, Time};
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
        Key::new("dns_timeout", Time(1_000, HOOK_MS_MAX), Toml("\"2m\""), "\"10m\"",
            "Time limit of one call of the hook, and of the wait for a record at the zone's servers.")
            .with(&["dns_hook"]),
        Key::new("dns_resolvers", List("addresses"), Words("the system's, and the zone's servers"),
            "[\"192.0.2.53\", \"[2001:db8::53]:5353\"]",
            "Resolvers that are asked for the records in place of the system's and of the zone's \
             servers; port 53 by default.").with(&["dns_hook"]),
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
        Key::new("profile", Text("a word"), Words("the authority's choice"), "\"shortlived\"",
            "Profile of the certificates, one of those that the authority names in its directory, \
             such as Let's Encrypt's `tlsserver`, or `shortlived` for six days."),
        Key::new("eab_id", Text("a word"), Words("none"), "\"kid-1\"",
            "Key identifier of the external account.").with(&["eab_key"]),
        Key::new("eab_key", Text("a file"), Words("none"), "\"eab.key\"",
            "File with the HMAC key of the external account, in base64url as the authority gives \
             it; read when the server starts.").with(&["eab_id"]),
        Key::new("root", Text("a PEM file"), Words("the system's roots only"), "\"root.pem\"",
            "Additional root that verifies the authority's own certificate, for a private \
             authority."),
    ]],
};
