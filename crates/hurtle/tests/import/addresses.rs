//! Servers of nginx on several addresses: the sites that answer on each of them.

use hurtle::import::nginx;
use hurtle::import::syntax::parse;

use crate::caddy_table::without_comments;

/// A sentence, servers of nginx, where `TLS` has a certificate, and parts of the configuration.
const ROWS: &[(&str, &str, &[&str])] = &[
    (
        "a site in clear has no TLS, beside another one with it",
        "server { listen 8080; server_name a.example; root /a; }
         server { listen 443 ssl; server_name b.example; TLS root /b; }",
        &[
            "hosts = \"a.example\"\nlisten = \"0.0.0.0:8080\"\ndefault = true\n",
            "hosts = \"b.example\"\nlisten = \"0.0.0.0:443\"\ndefault = true\n",
        ],
    ),
    (
        "no default where TLS for unknown names is rejected",
        "server { listen 443 ssl default_server; server_name _; ssl_reject_handshake on; }
         server { listen 80; listen 443 ssl; server_name b.example; TLS root /b; }",
        &[
            "listen = \"0.0.0.0:80\"\nlisten_tls = \"0.0.0.0:443\"\n",
            "[[site]]\nhosts = \"b.example\"\n[site.tls]\n",
        ],
    ),
    (
        "no default for TLS alone",
        "server { listen 80 default_server; listen 443 ssl default_server; ssl_reject_handshake on; return 444; }
         server { listen 443 ssl; server_name b.example; TLS root /b; }",
        &[
            "[[site]]\nlisten = \"0.0.0.0:80\"\ndefault = true\n[[site.mount]]\nabort = true",
            "hosts = \"b.example\"\nlisten = \"0.0.0.0:443\"\n[site.tls]\n",
        ],
    ),
    (
        "a site in clear has no TLS, beside another one with both",
        "server { listen 80; server_name a.example; root /a; }
         server { listen 80; listen 443 ssl; server_name b.example; TLS root /b; }",
        &[
            "hosts = \"a.example\"\nlisten = \"0.0.0.0:80\"\ndefault = true\n",
            "hosts = \"b.example\"\nlisten = [\"0.0.0.0:80\", \"0.0.0.0:443\"]\n[site.tls]\n",
        ],
    ),
    (
        "a site in clear, beside the redirect of all names to HTTPS",
        "server { listen 80; return 301 https://$host$request_uri; }
         server { listen 80; server_name a.example; root /a; }
         server { listen 443 ssl; server_name b.example; TLS root /b; }",
        &[
            "hosts = \"a.example\"\nlisten = \"0.0.0.0:80\"\n[[",
            "hosts = \"b.example\"\nlisten = [\"0.0.0.0:443\", \"0.0.0.0:80\"]\n",
            "redirect = true",
        ],
    ),
    (
        "a site by TLS and another in clear, beside the redirect of all names to HTTPS",
        "server { listen 80 default_server; return 301 https://$host$request_uri; }
         server { listen 443 ssl; server_name a.example; TLS root /a; }
         server { listen 127.0.0.1:8080; server_name a.example; root /backend; }",
        &[
            "hosts = \"a.example\"\nlisten = \"0.0.0.0:443\"\ndefault = true\n[site.tls]\n",
            "hosts = \"a.example\"\nlisten = \"127.0.0.1:8080\"\ndefault = true\n[[",
        ],
    ),
    (
        "a site by TLS and in clear, beside the redirect of all names to HTTPS",
        "server { listen 80 default_server; return 301 https://$host$request_uri; }
         server { listen 443 ssl; listen 8080; server_name a.example; TLS root /a; }",
        &["hosts = \"a.example\"\nlisten = [\"0.0.0.0:8080\", \"0.0.0.0:443\"]\n"],
    ),
    (
        "a site by TLS and in clear, beside the redirect of its name to HTTPS",
        "server { listen 80; server_name a.example; return 301 https://$host$request_uri; }
         server { listen 443 ssl; listen 8080; server_name a.example; TLS root /a; }",
        &["hosts = \"a.example\"\nlisten = [\"0.0.0.0:8080\", \"0.0.0.0:443\"]\n"],
    ),
    (
        "a site in clear that redirects, beside the redirect of all names to HTTPS",
        "server { listen 80 default_server; server_name _; return 301 https://$host$request_uri; }
         server { listen 80; server_name a.example;
           location /.well-known/acme-challenge/ { root /var/www/certbot; }
           location / { return 301 https://$host$request_uri; } }
         server { listen 443 ssl; server_name a.example; TLS root /a; }",
        &[
            "hosts = \"a.example\"\nlisten = \"0.0.0.0:80\"\n[[",
            "hosts = \"a.example\"\nlisten = \"0.0.0.0:443\"\ndefault = true\n[site.tls]\n",
        ],
    ),
    (
        "a default server of another address",
        "server { listen 80; server_name a.example; root /a; }
         server { listen 80; listen 8080 default_server; server_name b.example; root /b; }",
        &[
            "hosts = \"a.example\"\nlisten = \"0.0.0.0:80\"\ndefault = true\n",
            "hosts = \"b.example\"\nlisten = [\"0.0.0.0:80\", \"0.0.0.0:8080\"]\n[[",
        ],
    ),
    (
        "default servers of two addresses that all servers have",
        "server { listen 80; listen 8080 default_server; server_name a.example; root /a; }
         server { listen 80 default_server; listen 8080; server_name b.example; root /b; }",
        &["hosts = \"a.example\"\n[[", "hosts = \"b.example\"\ndefault = true\n"],
    ),
    (
        "sockets of IPv6 that take IPv4, too, as one server says",
        "server { listen [::]:80 ipv6only=off; server_name a.example; root /a; }
         server { listen [::]:80; server_name b.example; root /b; }
         server { listen [::]:81 ipv6only=on; server_name c.example; root /c; }",
        &[
            "listen = [\"[::]:80\", \"0.0.0.0:80\", \"[::]:81\"]\n[[",
            "hosts = \"a.example\"\nlisten = [\"[::]:80\", \"0.0.0.0:80\"]\ndefault = true\n",
            "hosts = \"b.example\"\nlisten = [\"[::]:80\", \"0.0.0.0:80\"]\n[[",
        ],
    ),
    (
        "one site in clear and by TLS",
        "server { listen 80; server_name a.example; root /a; }
         server { listen 443 ssl; server_name a.example; TLS root /a; }",
        &["hosts = \"a.example\"\ndefault = true\n[site.tls]\n", "redirect = false"],
    ),
];

#[test]
fn sites_answer_where_their_servers_listen() {
    let mut faults = Vec::new();
    for (sentence, servers, expected) in ROWS {
        let text = servers.replace("TLS", "ssl_certificate /c; ssl_certificate_key /k;");
        let found = nginx(&parse(&text, "nginx.conf").expect(sentence));
        let found = found.unwrap_or_else(|problems| panic!("{sentence}: {}", problems.join("\n")));
        let found = without_comments(&found);
        for part in expected.iter().filter(|part| !found.contains(**part)) {
            faults.push(format!("{sentence}: no {part:?} in\n{found}\n"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
