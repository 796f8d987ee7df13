//! A configuration as TOML that `check` reads back to an equal one.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use ipnet::IpNet;

use super::acme::Acme;
use super::auth::Auth;
use super::check_tls::AUTOMATIC;
use super::gateway::{FastCgi, Patience, ProgramLimits};
use super::listen::UNIX;
use super::names::Named;
use super::proxied::ProxyProtocol;
use super::tls::Tls;
use super::types::{
    Access, Config, Files, HeaderRule, HostName, Limits, Listen, LogFormat, LogTarget, Mount,
    MountHandler, Rule, RuleAction, Site, TryFile,
};
use super::units::{duration_text, size_text};
use super::upstream::Proxy;

/// The effective configuration: every key with the value that holds, defaults included. Paths that
/// are not UTF-8 (no configuration file can name one) are shown as nearly as can be.
pub fn print(config: &Config) -> String {
    let mut page = Page::default();
    page.top(config);
    if let Some(proxied) = &config.proxy_protocol {
        page.proxy_protocol(proxied);
    }
    if let Some(acme) = &config.acme {
        page.acme(acme);
    }
    page.limits(&config.limits);
    if let Some(log) = &config.access_log {
        page.header("[access_log]");
        page.key(
            "format",
            quoted(match log.format {
                LogFormat::Combined => "combined",
                LogFormat::Json(_) => "json",
                LogFormat::Brief => "brief",
            }),
        );
        if let LogFormat::Json(fields) = &log.format {
            page.key("fields", list(fields.iter().map(|field| quoted(field.name()))));
        }
        page.key("path", log_target(&log.to));
    }
    page.header("[error_log]");
    page.key("level", quoted(config.error_log.level.name()));
    page.key("path", log_target(&config.error_log.to));
    config.sites.iter().for_each(|site| page.site(site));
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn key(&mut self, name: &str, value: impl Display) {
        self.text.push_str(&format!("{name} = {value}\n"));
    }

    fn header(&mut self, header: &str) {
        self.text.push_str(&format!("\n{header}\n"));
    }

    fn top(&mut self, config: &Config) {
        self.addresses("listen", &config.listen);
        self.addresses("listen_tls", &config.listen_tls);
        self.key("workers", config.workers);
        self.key("backlog", config.backlog);
        self.key("sendfile", quoted(config.sendfile.name()));
        self.key("schedule", quoted(config.schedule.name()));
        self.key("disk_threads", config.disk_threads);
        self.key("revalidate", quoted(&duration_text(config.revalidate)));
        self.key("cache_bytes", quoted(&size_text(config.cache_bytes as u64)));
        self.key("drain", quoted(&duration_text(config.drain)));
        self.key("trusted_proxies", networks(&config.trusted_proxies));
        if let Some(apps) = &config.apps {
            self.key("apps", path(apps));
        }
        if let Some(admin) = &config.admin {
            self.key("admin", path(admin));
        }
        if let Some(user) = &config.user {
            self.key("user", quoted(user));
        }
        if let Some(group) = &config.group {
            self.key("group", quoted(group));
        }
    }

    fn proxy(&mut self, proxy: &Proxy) {
        self.key("proxy", list(proxy.upstreams.iter().map(|u| quoted(&u.to_string()))));
        self.key("balance", quoted(proxy.balance.name()));
        let times = [
            ("connect_timeout", proxy.connect_timeout),
            ("send_timeout", proxy.send_timeout),
            ("first_byte_timeout", proxy.first_byte_timeout),
            ("read_timeout", proxy.read_timeout),
            ("health_interval", proxy.health_interval),
        ];
        for (name, time) in times {
            if name != "health_interval" || proxy.health.is_some() {
                self.key(name, quoted(&duration_text(time)));
            }
        }
        if let Some(health) = &proxy.health {
            self.key("health", quoted(health));
        }
        self.key("upgrades", list(proxy.upgrades.iter().map(|name| quoted(name))));
        self.internal(proxy.internal.as_ref());
        if let Some(cache) = &proxy.cache {
            self.header("[site.mount.cache]");
            self.key("memory", quoted(&size_text(cache.memory)));
            if let Some(disk) = &cache.disk {
                self.key("disk", path(disk));
                self.key("disk_size", quoted(&size_text(cache.disk_size)));
            }
            self.key("max_object", quoted(&size_text(cache.max_object)));
        }
    }

    fn addresses(&mut self, name: &str, addresses: &[Listen]) {
        let address = |listen: &Listen| match listen {
            Listen::Tcp(address) => quoted(&address.to_string()),
            Listen::Unix(path) => quoted(&format!("{UNIX}{}", path.display())),
        };
        if !addresses.is_empty() {
            self.key(name, list(addresses.iter().map(address)));
        }
    }

    fn proxy_protocol(&mut self, proxied: &ProxyProtocol) {
        self.header("[proxy_protocol]");
        self.key("from", networks(&proxied.from));
        self.addresses("on", &proxied.on);
    }

    fn limits(&mut self, limits: &Limits) {
        self.header("[limits]");
        self.key("head_bytes", quoted(&size_text(limits.head_bytes as u64)));
        self.key("head_fields", limits.head_fields);
        self.key("target_bytes", quoted(&size_text(limits.target_bytes as u64)));
        self.key("head_timeout", quoted(&duration_text(limits.head_timeout)));
        self.key("handshake_timeout", quoted(&duration_text(limits.handshake_timeout)));
        self.key("idle_timeout", quoted(&duration_text(limits.idle_timeout)));
        self.key("body_bytes", quoted(&size_text(limits.body_bytes)));
        self.key("body_rate", quoted(&size_text(limits.body_rate)));
        self.key("body_grace", quoted(&duration_text(limits.body_grace)));
        self.key("write_stall", quoted(&duration_text(limits.write_stall)));
        let counts = [
            ("requests_per_connection", limits.requests_per_connection),
            ("connections_per_address", limits.connections_per_address.map(|n| n as u64)),
            ("connections", limits.connections.map(|n| n as u64)),
        ];
        self.key("address_rate", quoted(&size_text(limits.address_rate)));
        self.key("programs", limits.programs);
        for (name, count) in counts {
            if let Some(count) = count {
                self.key(name, count);
            }
        }
    }

    fn site(&mut self, site: &Site) {
        self.header("[[site]]");
        self.key(
            "hosts",
            list(site.hosts.iter().map(|host| match host {
                HostName::Exact(name) => quoted(name),
                HostName::Wildcard(suffix) => quoted(&format!("*.{suffix}")),
            })),
        );
        self.key("default", site.default);
        self.access(&site.access);
        self.auth(site.auth.as_ref());
        self.key("early_hints", quoted(site.early_hints.name()));
        site.rules.iter().for_each(|rule| self.rule(rule));
        site.headers.iter().for_each(|rule| self.header_rule(rule));
        if !site.error_pages.is_empty() {
            self.header("[site.errors]");
            for (status, path) in &site.error_pages {
                self.key(status.as_str(), quoted(path));
            }
        }
        if let Some(tls) = &site.tls {
            self.tls(tls);
        }
        site.mounts.iter().for_each(|mount| self.mount(mount));
    }

    fn tls(&mut self, tls: &Tls) {
        self.header("[site.tls]");
        let files = &tls.certificates;
        if tls.automatic {
            self.key("certificate", quoted(AUTOMATIC));
        } else {
            self.key("certificate", list(files.iter().map(|files| path(&files.chain))));
            self.key("key", list(files.iter().map(|files| path(&files.key))));
        }
        if let Some(auth) = &tls.client_auth {
            self.key("client_auth", quoted(if auth.required { "required" } else { "optional" }));
            self.key("client_ca", path(&auth.authorities));
        }
        self.key("redirect", tls.redirect);
        if let Some(hsts) = &tls.hsts {
            self.key("hsts", field_value(hsts));
        }
    }

    fn acme(&mut self, acme: &Acme) {
        self.header("[acme]");
        self.key("accept_terms", true);
        if let Some(email) = &acme.email {
            self.key("email", quoted(email));
        }
        self.key("storage", path(&acme.storage));
        self.key("challenge", list(acme.challenges.iter().map(|kind| quoted(kind.name()))));
        for authority in &acme.authorities {
            self.header("[[acme.authority]]");
            self.key("directory", quoted(&authority.directory));
            if let Some(binding) = &authority.binding {
                self.key("eab_id", quoted(&binding.id));
                self.key("eab_key", path(&binding.key));
            }
            if let Some(root) = &authority.root {
                self.key("root", path(root));
            }
        }
    }

    fn auth(&mut self, auth: Option<&Auth>) {
        match auth {
            None => {}
            Some(Auth::None) => self.key("auth", quoted("none")),
            Some(Auth::Basic(basic)) => {
                self.key("auth", quoted("basic"));
                self.key("users", path(&basic.users));
                self.key("realm", quoted(&basic.realm));
                self.key("auth_cleartext", basic.cleartext);
            }
        }
    }

    fn access(&mut self, access: &Access) {
        for (name, list) in [("allow", &access.allow), ("deny", &access.deny)] {
            self.key(name, networks(list));
        }
    }

    fn rule(&mut self, rule: &Rule) {
        self.header("[[site.rule]]");
        self.key("match", quoted(&rule.pattern.0));
        match &rule.action {
            RuleAction::Redirect(status, to) => {
                self.key("redirect", quoted(to));
                self.key("status", status.as_str());
            }
            RuleAction::Rewrite(to) => self.key("rewrite", quoted(to)),
        }
    }

    fn header_rule(&mut self, rule: &HeaderRule) {
        self.header("[[site.header]]");
        self.key("match", quoted(&rule.pattern.0));
        self.key("set", table(rule.set.iter().map(|(name, value)| (name.as_str(), value))));
        self.key("remove", list(rule.remove.iter().map(|name| quoted(name.as_str()))));
    }

    fn mount(&mut self, mount: &Mount) {
        self.header("[[site.mount]]");
        self.key("path", quoted(&mount.path));
        self.access(&mount.access);
        self.auth(mount.auth.as_ref());
        if let Some(authorizer) = &mount.authorizer {
            self.key("authorizer", quoted(&authorizer.plain()));
        }
        match &mount.handler {
            MountHandler::Files(files) => self.files(files),
            MountHandler::Redirect { status, to } => {
                self.key("redirect", quoted(to));
                self.key("status", status.as_str());
            }
            MountHandler::Proxy(proxy) => self.proxy(proxy),
            MountHandler::FastCgi(app) => self.fastcgi(app),
            MountHandler::Cgi(cgi) => {
                self.key("cgi", path(&cgi.root));
                self.internal(cgi.internal.as_ref());
                self.patience(&cgi.patience);
                self.params(&cgi.params);
                self.limits_of_programs(&cgi.limits);
            }
            MountHandler::Fixed { status, body, content_type } => {
                self.key("respond", quoted(body));
                self.key("status", status.as_str());
                self.key("content_type", field_value(content_type));
            }
        }
    }

    fn fastcgi(&mut self, app: &FastCgi) {
        self.key("fastcgi", quoted(&app.upstream.plain()));
        if let Some(root) = &app.root {
            self.key("root", path(root));
        }
        self.key("index", list(app.index.iter().map(|name| quoted(name))));
        self.key("suffix", quoted(&app.suffix));
        self.key("keep_connections", app.keep);
        self.internal(app.internal.as_ref());
        self.key("connect_timeout", quoted(&duration_text(app.patience.connect)));
        self.patience(&app.patience);
        self.params(&app.params);
    }

    fn limits_of_programs(&mut self, limits: &ProgramLimits) {
        self.key("cpu_time", quoted(&duration_text(limits.cpu_time)));
        self.key("memory", quoted(&size_text(limits.memory)));
        self.key("open_files", limits.open_files);
        if let Some(processes) = limits.processes {
            self.key("processes", processes);
        }
    }

    fn internal(&mut self, root: Option<&PathBuf>) {
        if let Some(root) = root {
            self.key("internal", path(root));
        }
    }

    fn patience(&mut self, patience: &Patience) {
        self.key("send_timeout", quoted(&duration_text(patience.send)));
        self.key("first_byte_timeout", quoted(&duration_text(patience.first_byte)));
        self.key("read_timeout", quoted(&duration_text(patience.read)));
    }

    fn params(&mut self, params: &BTreeMap<String, String>) {
        let pairs = params.iter().map(|(name, value)| format!("{name} = {}", quoted(value)));
        let pairs: Vec<_> = pairs.collect();
        self.key("params", if pairs.is_empty() { "{}".into() } else { braced(&pairs) });
    }

    fn files(&mut self, files: &Files) {
        self.key("files", path(&files.root));
        self.key("index", list(files.index.iter().map(|name| quoted(name))));
        self.key(
            "try_files",
            list(files.try_files.iter().map(|tried| match tried {
                TryFile::Path(path) => quoted(path),
                TryFile::Status(status) => quoted(&format!("={}", status.as_str())),
            })),
        );
        if let Some(spa) = &files.spa {
            self.key("spa", quoted(spa));
        }
        self.key("listing", files.listing);
        self.key("symlinks", quoted(files.symlinks.name()));
        self.key("dotfiles", files.dotfiles);
        self.key("sidecars", files.sidecars);
        self.key("etag", quoted(files.etag.name()));
        self.key("media_types", table(files.media_types.iter().map(|(k, v)| (k.as_str(), v))));
        self.key("rate", quoted(&size_text(files.rate)));
        if let Some(uploads) = &files.uploads {
            self.header("[site.mount.uploads]");
            self.key("file_bytes", quoted(&size_text(uploads.file_bytes)));
            self.key("free_bytes", quoted(&size_text(uploads.free_bytes)));
            self.key("rate", quoted(&size_text(uploads.rate)));
            self.key("resumable", uploads.resumable);
            self.key("resumable_bytes", quoted(&size_text(uploads.resumable_bytes)));
            self.key("fsync", uploads.fsync);
        }
    }
}

fn networks(networks: &[IpNet]) -> String {
    list(networks.iter().map(|network| quoted(&network.to_string())))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn table<'a>(entries: impl Iterator<Item = (&'a str, &'a HeaderValue)>) -> String {
    let entries: Vec<String> =
        entries.map(|(key, value)| format!("{} = {}", quoted(key), field_value(value))).collect();
    match entries.is_empty() {
        true => "{}".to_owned(),
        false => braced(&entries),
    }
}

fn braced(entries: &[String]) -> String {
    format!("{{ {} }}", entries.join(", "))
}

fn field_value(value: &HeaderValue) -> String {
    quoted(&String::from_utf8_lossy(value.as_bytes()))
}

fn log_target(target: &LogTarget) -> String {
    match target {
        LogTarget::Stdout => quoted("stdout"),
        LogTarget::Stderr => quoted("stderr"),
        LogTarget::File(file) => path(file),
    }
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A basic string (TOML 1.0, section "String").
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
