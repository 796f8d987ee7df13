//! Settings of certificates that handshakes order (`on_demand` of `[site.tls]`). `hurtle::acme`
//! orders them.

use http::Uri;

use super::error::{ValueError, shown};
use super::rate_limit::{Period, RequestRate, request_rate};
use super::reader::Reader;
use super::schema::DefaultValue::Required;
use super::schema::Kind::Text;
use super::schema::{Key, Section};
use super::settings::{ALWAYS, settings};
use super::table::Table;

/// Default rate of orders. Let's Encrypt allows an account 300 in three hours.
const RATE: RequestRate = RequestRate { count: 10, period: Period::Minute };

#[rustfmt::skip] // One paragraph for each key.
pub(super) static ON_DEMAND: Section = Section {
    header: "[site.tls.on_demand]",
    doc: "Certificates for names that the configuration does not have, with `certificate = \"auto\"`. \
          The first handshake for a name orders one, if your server at `ask` allows the name. See \
          [https.md](https.md#names-on-demand).",
    keys: &[&[
        Key::new("ask", Text("an `http://` or `https://` URL"), Required,
            "\"http://127.0.0.1:9000/allowed\"",
            "URL that decides about a name: `GET URL?domain=NAME` is requested before an order and \
             before a renewal. A response 2xx allows the name, any other refuses it."),
    ], ON_DEMAND_KEYS],
};

settings! {
    /// Settings of certificates on demand.
    #[derive(Eq)]
    pub struct OnDemand: ON_DEMAND_KEYS with ALWAYS {
        /// Limit of orders for names without a certificate, for the site. Failed orders count,
        /// renewals do not. Beyond it handshakes are refused.
        rate: RequestRate = RATE, Text("a rate"), "\"100/h\"", by |v, r| v.parse(r, order_rate);
    }
    beside {
        /// URL that is asked whether a name gets a certificate; `http` or `https`.
        ask: String = String::new();
    }
}

pub(super) fn on_demand(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<OnDemand> {
    table.check_companions(reader);
    let on_demand = OnDemand::read(table, reader);
    let Some(written) = table.get("ask") else {
        let wrong = ValueError::new("ask is missing: any client could have certificates ordered");
        let hint = "write for example ask = \"http://127.0.0.1:9000/allowed\"";
        reader.report_missing(&table.spot, wrong.hint(hint));
        return None;
    };
    Some(OnDemand { ask: written.parse(reader, ask)?, ..on_demand })
}

/// Parses the URL. Certificates need not be secret, so `http` is allowed.
fn ask(text: &str) -> Result<String, ValueError> {
    let is_usable = |uri: &Uri| {
        let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && !has_user
    };
    match text.parse::<Uri>().ok().filter(is_usable) {
        Some(_) if !text.contains('#') => Ok(text.to_owned()),
        _ => Err(ValueError::new(format!("{} is not an http or https URL", shown(text)))
            .hint("write for example \"http://127.0.0.1:9000/allowed\"")),
    }
}

fn order_rate(text: &str) -> Result<RequestRate, ValueError> {
    request_rate(text).map_err(|_| {
        ValueError::new(format!("{} is not a rate of orders", shown(text)))
            .hint("write a number and a period, such as \"10/m\" or \"100/h\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_to_ask_are_http_without_a_user() {
        let table = [
            ("an address of this machine", "http://127.0.0.1:9000/allowed", true),
            ("a query", "https://ask.example/?key=1", true),
            ("a host alone", "http://localhost", true),
            ("a path", "/allowed", false),
            ("another scheme", "ftp://a/", false),
            ("a user", "http://a:b@localhost/", false),
            ("a fragment", "http://localhost/#a", false),
            ("an empty host", "http:///a", false),
        ];
        for (sentence, text, expected) in table {
            assert_eq!(ask(text).is_ok(), expected, "{sentence}");
        }
    }
}
