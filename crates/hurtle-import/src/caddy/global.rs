//! Global options of a Caddyfile.

use toml::Value;

use super::condition::networks;
use super::hidden::ConfigFiles;
use super::listeners::{Chosen, OF_SOME, choose};
use super::order;
use super::proxy::duration;
use crate::mount::{Keys, ServerConfig, put, put_list};
use crate::report::Report;
use crate::syntax::Directive;

/// Options that only tune Caddy, or are of parts that hurtle does not have.
const TUNING: &[&str] = &[
    "admin",
    "debug",
    "default_sni",
    "grace_period",
    "key_type",
    "log",
    "metrics",
    "ocsp_interval",
    "ocsp_stapling",
    "persist_config",
    "preferred_chains",
    "renew_interval",
    "shutdown_delay",
    "skip_install_trust",
    "storage",
    "storage_clean_interval",
];

/// Options of `servers` that are for tuning: without them responses are the same.
const TUNING_OF_LISTENERS: &[&str] = &[
    "enable_full_duplex",
    "keepalive_interval",
    "log_credentials",
    "max_header_size",
    "metrics",
    "name",
    "protocol",
    "strict_sni_host",
];

/// The remark where Caddy proves names by DNS.
pub(super) const BY_DNS: &str = "Caddy proves the names by DNS. hurtle does so by a program that you name in \
     acme.dns_hook, see docs/https.md. Without it, by HTTP or TLS: port 80 or 443 must be reachable for the \
     authority";

/// Options that matter to sites.
#[derive(Debug)]
pub(super) struct Global {
    pub(super) http_port: String,
    pub(super) https_port: String,
    /// Addresses of sites without `bind`; empty: all interfaces.
    pub(super) default_bind: Vec<String>,
    email: Option<String>,
    authority: Option<(String, Option<String>)>,
    /// `false`: names get no certificates by themselves.
    pub(super) is_automatic: bool,
    /// `false`: no redirects from HTTP to HTTPS.
    pub(super) redirects: bool,
    pub(super) is_local: bool,
    /// URL that is asked about names on demand.
    pub(super) ask: Option<String>,
    pub(super) config_files: ConfigFiles,
    keys: Keys,
    limits: Keys,
}

/// Reads the global options, which are the first block if it has no address.
pub(super) fn read(blocks: &[Directive], files: &ConfigFiles, report: &mut Report) -> Global {
    let mut global = Global {
        http_port: "80".to_owned(),
        https_port: "443".to_owned(),
        default_bind: Vec::new(),
        email: None,
        authority: None,
        is_automatic: true,
        redirects: true,
        is_local: false,
        ask: None,
        config_files: files.clone(),
        keys: Keys::new(),
        limits: Keys::new(),
    };
    let options = blocks.iter().filter(|block| block.name.is_empty());
    let (servers, others): (Vec<_>, Vec<_>) =
        options.flat_map(Directive::children).partition(|d| d.name == "servers");
    for d in others {
        if let Err(needs) = global.option(d, report) {
            report.refuse(d, needs);
        }
    }
    global.servers(&servers, blocks, report);
    global
}

impl Global {
    fn option(&mut self, d: &Directive, report: &mut Report) -> Result<(), String> {
        let value = d.arg(0).to_owned();
        match d.name.as_str() {
            "email" => self.email = Some(value),
            "http_port" => self.http_port = value,
            "https_port" => self.https_port = value,
            "default_bind" => self.default_bind.clone_from(&d.args),
            "order" if order::is_usual(&d.args) => {}
            "order" => {
                return Err(
                    "hurtle sorts directives in Caddy's own order: write them in a `route`, which \
                     keeps the order written"
                        .to_owned(),
                );
            }
            "local_certs" => self.is_local = true,
            "acme_ca" => self.authority = Some((value, None)),
            "acme_ca_root" => {
                if let Some((_, root)) = &mut self.authority {
                    *root = Some(value);
                }
            }
            "auto_https" => match value.as_str() {
                "off" => (self.is_automatic, self.redirects) = (false, false),
                "disable_redirects" => self.redirects = false,
                "disable_certs" => self.is_automatic = false,
                "ignore_loaded_certs" => {}
                _ => return Err("it is off, disable_redirects or disable_certs".to_owned()),
            },
            "on_demand_tls" => self.on_demand(d, report),
            "acme_dns" => report.remark(d, BY_DNS),
            "cert_issuer" if value == "internal" => self.is_local = true,
            "cert_issuer" => {
                report.remark(
                    d,
                    "certificates are those of Let's Encrypt; others are [[acme.authority]]",
                );
            }
            name if TUNING.contains(&name) => report.leave_out(d),
            _ => return Err("hurtle has no such option".to_owned()),
        }
        Ok(())
    }

    /// Reads the server to ask about names on demand.
    fn on_demand(&mut self, of: &Directive, report: &mut Report) {
        for d in of.children() {
            match (d.name.as_str(), d.args.as_slice(), d.children()) {
                ("ask", [url], []) => self.ask = Some(url.clone()),
                ("permission", [module, url], []) if module == "http" => {
                    self.ask = Some(url.clone());
                }
                ("permission", [module], [endpoint])
                    if module == "http" && endpoint.name == "endpoint" =>
                {
                    self.ask = Some(endpoint.arg(0).to_owned());
                }
                ("interval" | "burst", ..) => report.leave_out(d),
                _ => report.refuse(d, "hurtle asks a URL: `ask URL`, or `permission http URL`"),
            }
        }
    }

    /// Reads the options of listeners.
    fn servers(&mut self, all: &[&Directive], blocks: &[Directive], report: &mut Report) {
        let (own, others) = match choose(all, blocks, self) {
            Chosen::OfAll(own) => (own, Vec::new()),
            Chosen::OfSome(others) => (None, others),
        };
        for d in own.into_iter().flat_map(Directive::children) {
            if let Err(needs) = self.server(d, report) {
                report.refuse(d, needs);
            }
        }
        for d in others.iter().flat_map(|others| others.children()) {
            match TUNING_OF_LISTENERS.contains(&d.name.as_str()) {
                true => report.leave_out(d),
                false => report.refuse(d, OF_SOME),
            }
        }
        for d in all.iter().filter(|d| own != Some(**d) && !others.contains(*d)) {
            report.remark(d, "it is left out: no site listens there");
        }
    }

    fn server(&mut self, d: &Directive, report: &mut Report) -> Result<(), String> {
        match d.name.as_str() {
            "trusted_proxies" if d.arg(0) == "static" => {
                let list = networks(&d.args[1..], d, report)?;
                put_list(&mut self.keys, "trusted_proxies", &list);
                report.remark(
                    d,
                    "{remote_host} in header_up is the client that these proxies name, in Caddy the proxy itself",
                );
            }
            "trusted_proxies" => {
                return Err("of its sources hurtle knows static, with the networks".to_owned());
            }
            "client_ip_headers" => {
                match d.args.iter().find(|name| !name.eq_ignore_ascii_case("x-forwarded-for")) {
                    None => {}
                    Some(name)
                        if d.args
                            .iter()
                            .any(|name| name.eq_ignore_ascii_case("x-forwarded-for")) =>
                    {
                        report.remark(
                            d,
                            &format!(
                                "the client's address is read from X-Forwarded-For, not from {name}"
                            ),
                        );
                    }
                    Some(_) => {
                        return Err("hurtle reads X-Forwarded-For or Forwarded of trusted proxies"
                            .to_owned());
                    }
                }
            }
            "trusted_proxies_strict" | "trusted_proxies_unix" => {}
            "timeouts" => {
                for line in d.children() {
                    let key = match line.name.as_str() {
                        "read_header" => "head_timeout",
                        "idle" => "idle_timeout",
                        _ => {
                            report.leave_out(line);
                            continue;
                        }
                    };
                    match duration(line.arg(0)) {
                        Ok(value) => put(&mut self.limits, key, value),
                        Err(needs) => report.refuse(line, needs),
                    }
                }
            }
            "protocols" => put(&mut self.keys, "http3", d.args.iter().any(|name| name == "h3")),
            name if TUNING_OF_LISTENERS.contains(&name) => report.leave_out(d),
            _ => return Err("hurtle's listeners have no such option".to_owned()),
        }
        Ok(())
    }

    /// `true`: peers may be proxies that name their client.
    pub(super) fn has_proxies(&self) -> bool {
        self.keys.iter().any(|(name, _)| name == "trusted_proxies")
    }

    /// Takes the address of a `tls` directive.
    pub(super) fn mail_to(&mut self, email: &str) {
        self.email.get_or_insert_with(|| email.to_owned());
    }

    /// Writes the keys of the whole configuration.
    pub(super) fn write(&self, uses_acme: bool, out: &mut ServerConfig, report: &mut Report) {
        out.keys.extend(self.keys.clone());
        if !self.limits.is_empty() {
            out.tables.push(("limits", self.limits.clone()));
        }
        if !uses_acme {
            return;
        }
        report.general(
            "accept_terms: Caddy accepts the terms of the authority without a word; read those of \
             https://letsencrypt.org/repository/"
                .to_owned(),
        );
        let mut acme = Keys::new();
        put(&mut acme, "accept_terms", true);
        if let Some(email) = &self.email {
            put(&mut acme, "email", email.as_str());
        }
        if let Some((directory, root)) = &self.authority {
            let mut authority = toml::Table::new();
            authority.insert("directory".to_owned(), Value::from(directory.as_str()));
            if let Some(root) = root {
                authority.insert("root".to_owned(), Value::from(root.as_str()));
            }
            put(&mut acme, "authority", Value::Array(vec![Value::Table(authority)]));
        }
        out.tables.push(("acme", acme));
    }
}
