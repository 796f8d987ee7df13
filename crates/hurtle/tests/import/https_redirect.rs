//! Servers of nginx that redirect to HTTPS: to the host that they name.

use hurtle::import::nginx;
use hurtle::import::syntax::parse;

use crate::caddy_table::without_comments;

/// A server without TLS, and whether sites with TLS redirect as it does by themselves.
const ROWS: &[(&str, bool)] = &[
    ("server_name a.example b.example; return 301 https://$host$request_uri;", true),
    ("server_name a.example b.example; return 301 https://a.example$request_uri;", false),
    ("server_name a.example b.example; return 301 https://$server_name$request_uri;", false),
    ("server_name a.example; return 301 https://a.example$request_uri;", true),
    ("server_name a.example; return 301 https://$server_name$request_uri;", true),
    (
        "server_name a.example b.example; location / { return 301 https://a.example$request_uri; }",
        false,
    ),
    (
        "server_name a.example b.example; if ($host = b.example) { return 301 https://b.example$request_uri; }
         if ($host = a.example) { return 301 https://a.example$request_uri; } return 404;",
        true,
    ),
    // The other names are 404.
    (
        "server_name a.example b.example; if ($host = a.example) { return 301 https://$host$request_uri; } return 404;",
        false,
    ),
    ("if ($host = a.example) { return 301 https://$host$request_uri; } return 404;", false),
];

#[test]
fn a_redirect_to_one_of_several_names_leads_there() {
    for (server, is_own) in ROWS {
        let text = format!(
            "events {{}} http {{ server {{ listen 80; {server} }} server {{ listen 443 ssl; server_name a.example b.example; \
             ssl_certificate /c; ssl_certificate_key /k; root /srv; }} }}"
        );
        let found = nginx(&parse(&text, "nginx.conf").expect(server));
        let found = without_comments(&found.unwrap_or_else(|e| panic!("{server}: {e:?}")));
        let leads = found.contains("redirect = \"https://a.example/\"");
        assert_eq!(leads, !is_own, "{server}:\n{found}");
        let is_missing = found.contains("status = 404");
        assert_eq!(is_missing, !is_own && server.contains("404"), "{server}:\n{found}");
    }
}

/// Regression: it was taken for the site's own redirect, to the port 8443.
#[test]
fn a_redirect_beside_another_port_leads_to_the_default_one() {
    let text = "events {} http { server { listen 8080; server_name a.example; return 301 https://$host$request_uri; }
                server { listen 8443 ssl; server_name a.example; ssl_certificate /c; ssl_certificate_key /k; root /srv; } }";
    let found = nginx(&parse(text, "nginx.conf").expect("it is valid")).expect("it is translated");
    assert!(without_comments(&found).contains("redirect = \"https://{host}/\""), "{found}");
}

/// Regression: clients got 308, which they may keep.
#[test]
fn a_redirect_for_now_keeps_its_status() {
    for (status, is_own) in [(301, true), (302, false), (307, false), (308, true)] {
        let text = format!(
            "events {{}} http {{ server {{ listen 80; server_name a.example; return {status} https://$host$request_uri; }}
             server {{ listen 443 ssl; server_name a.example; ssl_certificate /c; ssl_certificate_key /k; root /srv; }} }}"
        );
        let found = nginx(&parse(&text, "nginx.conf").expect("it is valid"));
        let found = without_comments(&found.unwrap_or_else(|e| panic!("{status}: {e:?}")));
        let redirect = format!("redirect = \"https://{{host}}/\"\nstatus = {status}");
        assert_eq!(found.contains(&redirect), !is_own, "{status}:\n{found}");
    }
}
