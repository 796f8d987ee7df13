//! The keys of `[acme]`: automatic certificates; a part of `schema`.

use super::acme::ChallengeKind;
use super::names::names;
use super::schema::Absent::{Means, Required};
use super::schema::Kind::{Choices, Flag, Tables, Text};
use super::schema::{Key, Section};

#[rustfmt::skip] // A paragraph a key.
pub(super) static ACME: Section = Section {
    header: "[acme]",
    doc: "How certificates are got and renewed where `[site.tls]` says `certificate = \"auto\"`: \
          from an authority that speaks ACME (RFC 8555), for the names in `hosts`. The world must \
          reach this server by those names, on port 443 or 80. See https.md.",
    keys: &[
        Key::new("accept_terms", Flag, Required, "true",
            "That you have read the authorities' terms of service and accept them."),
        Key::new("email", Text("an address"), Means("none"), "\"admin@example.org\"",
            "Where an authority may write to you; not all do."),
        Key::new("storage", Text("a directory"),
            Means("`hurtle/acme` in the user's data directory; with `user`: `/var/lib/hurtle/acme`"),
            "\"/var/lib/hurtle/acme\"",
            "Where accounts, keys, certificates and what is under way are kept, for the server's \
             user only. Servers that answer to the same names share it."),
        Key::new("challenge", Choices(names::<ChallengeKind>),
            Means("both that the listeners allow"), "[\"http-01\"]",
            "How a name is shown to be this server's: in a handshake on port 443, or by a request \
             in clear on port 80. Where one fails, the next attempt takes the other."),
        Key::new("authority", Tables(&AUTHORITY), Means("Let's Encrypt"),
            "[{ directory = \"https://acme.example/directory\" }]",
            "Whom to ask; each is asked if those before it fail."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static AUTHORITY: Section = Section {
    header: "[[acme.authority]]",
    doc: "An authority, and the account with it if it wants one made elsewhere (external account \
          binding).",
    keys: &[
        Key::new("directory", Text("a URL"), Required, "\"https://acme.example/directory\"",
            "Its ACME directory."),
        Key::new("eab_id", Text("a word"), Means("none"), "\"kid-1\"",
            "The account's key identifier.").with(&["eab_key"]),
        Key::new("eab_key", Text("a file"), Means("none"), "\"eab.key\"",
            "The file with the account's HMAC key, in base64url as the authority gives it; read \
             when the server starts.").with(&["eab_id"]),
        Key::new("root", Text("a PEM file"), Means("the system's roots only"), "\"root.pem\"",
            "What the authority's own certificate is verified by, too; for one of your own."),
    ],
};
