//! Settings that blocks inherit: from `http` to `server` to `location`.

use std::collections::BTreeMap;

use super::gates::TlsSettings;
use super::mount::Field;
use super::path::{bytes, has_variable, seconds};
use super::report::Report;
use super::shared::Shared;
use super::syntax::Directive;
use super::tuning::needs;

/// Settings in force in a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) root: Option<String>,
    pub(super) index: Vec<String>,
    pub(super) listing: bool,
    /// Fields of `add_header`, names in lower case.
    pub(super) headers: BTreeMap<String, Field>,
    /// Cache-Control of `expires`.
    pub(super) expires: Option<String>,
    pub(super) errors: BTreeMap<u16, String>,
    /// The page sent with 200 in place of 404.
    pub(super) spa: Option<String>,
    pub(super) realm: Option<String>,
    pub(super) users: Option<String>,
    /// Client addresses in the order written; `true`: admitted.
    pub(super) access: Vec<(bool, String)>,
    pub(super) default_type: Option<String>,
    pub(super) media_types: BTreeMap<String, String>,
    /// Bytes a second of one response.
    pub(super) rate: u64,
    pub(super) uploads: bool,
    pub(super) connect_timeout: Option<u64>,
    pub(super) send_timeout: Option<u64>,
    pub(super) read_timeout: Option<u64>,
    /// The Host that upstreams get is the client's, as hurtle sends it.
    pub(super) sends_client_host: bool,
    pub(super) params: BTreeMap<String, String>,
    /// The zone of `proxy_cache`.
    pub(super) cache: Option<String>,
    /// `gzip` or `brotli`; `None`: not written.
    pub(super) compress: Option<bool>,
    /// TLS to upstreams.
    pub(super) tls: TlsSettings,
    pub(super) rate_limits: Vec<toml::Table>,
    /// The location of `auth_request`, and the directive.
    pub(super) auth_request: Option<(String, Directive)>,
    /// Fields of its response by the variables of `auth_request_set`.
    pub(super) auth_fields: BTreeMap<String, String>,
    /// Those that the request gets.
    pub(super) copied: Vec<String>,
}

/// Directives whose values in a block replace all those of the enclosing one.
const REPLACED: [&str; 6] =
    ["add_header", "error_page", "fastcgi_param", "limit_req", "proxy_set_header", "index"];

/// Most values of a list, beyond which a configuration is not written by people.
const LIST_MAX: usize = 10_000;

impl Scope {
    /// The settings of a block within this one.
    pub(super) fn enter(&self, block: &[Directive]) -> Scope {
        let mut scope = self.clone();
        let has = |name: &str| block.iter().any(|d| d.name == name);
        for name in REPLACED.into_iter().filter(|name| has(name)) {
            match name {
                "add_header" => scope.headers.clear(),
                "error_page" => scope.errors.clear(),
                "fastcgi_param" => scope.params.clear(),
                "limit_req" => scope.rate_limits.clear(),
                "proxy_set_header" => {
                    scope.sends_client_host = false;
                    scope.copied.clear();
                }
                _ => scope.index.clear(),
            }
        }
        if has("allow") || has("deny") {
            scope.access.clear();
        }
        scope
    }

    /// Applies a directive that is valid in every block, and refuses one that is unknown.
    pub(super) fn apply(&mut self, d: &Directive, shared: &mut Shared, report: &mut Report) {
        let one = || d.arg(0).to_owned();
        match d.name.as_str() {
            name if d.block.is_some() && name != "types" => report.refuse(d, needs(name)),
            "root" => {
                if !d.arg(0).starts_with('/') {
                    report.refuse(d, "write an absolute path");
                } else if has_variable(d.arg(0)) {
                    report.refuse(d, "it needs variables");
                }
                // Also if it was refused, lest locations lack a root.
                self.root = Some(one());
            }
            "index" => self.index(d, report),
            "autoindex" => self.listing = d.arg(0) == "on",
            "add_header" => self.add_header(d, report),
            "expires" => self.expires(d, report),
            "error_page" => self.error_page(d, report),
            "auth_basic" if d.arg(0) == "off" => self.realm = None,
            "auth_basic" if has_variable(d.arg(0)) => report.refuse(d, "it needs variables"),
            "auth_basic" => self.realm = Some(one()),
            "auth_basic_user_file" if !d.arg(0).starts_with('/') => {
                report.refuse(d, "write an absolute path");
            }
            "auth_basic_user_file" => self.users = Some(one()),
            "allow" | "deny" if self.access.len() < LIST_MAX => match d.arg(0) {
                "unix:" => report.refuse(d, "clients of unix sockets have no address"),
                network => self.access.push((d.name == "allow", network.to_owned())),
            },
            "default_type" => self.default_type = Some(one()),
            "types" => self.types(d),
            "limit_rate" => match bytes(d.arg(0)) {
                Some(rate) => self.rate = rate,
                None => report.refuse(d, "write a size, such as 500k"),
            },
            "dav_methods" => self.dav_methods(d, report),
            "create_full_put_path" | "min_delete_depth" if self.uploads => report.leave_out(d),
            "proxy_connect_timeout" | "fastcgi_connect_timeout" => {
                self.connect_timeout = duration(d, report);
            }
            "proxy_send_timeout" | "fastcgi_send_timeout" => {
                self.send_timeout = duration(d, report);
            }
            "proxy_read_timeout" | "fastcgi_read_timeout" => {
                self.read_timeout = duration(d, report);
            }
            "proxy_set_header" => self.proxy_set_header(d, report),
            "proxy_cache" => self.cache = Some(one()).filter(|zone| zone != "off"),
            "fastcgi_param" => self.fastcgi_param(d, report),
            "charset" if d.arg(0) == "utf-8" || d.arg(0) == "off" => report.leave_out(d),
            "gzip" | "brotli" => self.compression(d),
            name if name.starts_with("proxy_ssl_") => self.tls.apply(d, report),
            "limit_req" => self.limit_req(d, shared, report),
            "auth_request" if d.arg(0) == "off" => self.auth_request = None,
            "auth_request" => self.auth_request = Some((one(), d.clone())),
            "auth_request_set" => self.auth_request_set(d, report),
            "merge_slashes" if d.arg(0) == "on" => {}
            "if_modified_since" if d.arg(0) == "exact" => {}
            _ => shared.apply(d, report),
        }
    }

    fn index(&mut self, d: &Directive, report: &mut Report) {
        let is_bad = |name: &String| has_variable(name) || name.contains('/');
        match d.args.iter().any(is_bad) {
            true => report.refuse(d, "write names of files only"),
            false => self.index = d.args.clone(),
        }
    }

    fn add_header(&mut self, d: &Directive, report: &mut Report) {
        let (name, value) = (d.arg(0).to_ascii_lowercase(), d.arg(1));
        let field = Field { value: value.to_owned(), always: d.arg(2) == "always" };
        if has_variable(value) {
            report.refuse(d, "it needs variables");
        } else if self.headers.insert(name, field).is_some() {
            report.refuse(d, "a header rule sets a field once; write one line with both values");
        }
    }

    fn expires(&mut self, d: &Directive, report: &mut Report) {
        const TEN_YEARS: u64 = 315_360_000;
        self.expires = match d.arg(0) {
            "off" => None,
            "max" => Some(format!("max-age={TEN_YEARS}")),
            "epoch" => Some("no-cache".to_owned()),
            text if text.starts_with('-') => Some("no-cache".to_owned()),
            text => {
                let age = seconds(text).filter(|_| d.args.len() == 1);
                if age.is_none() {
                    report.refuse(d, "write one duration, such as 30d");
                }
                age.map(|age| format!("max-age={age}"))
            }
        };
    }

    fn error_page(&mut self, d: &Directive, report: &mut Report) {
        let Some((page, statuses)) = d.args.split_last() else { return };
        if let ([status, replaced], true) = (statuses, page.starts_with('/'))
            && status == "404"
            && (replaced == "=200" || replaced == "=")
        {
            self.spa = Some(page.clone());
            return;
        }
        if !page.starts_with('/') || has_variable(page) {
            return report.refuse(d, "an error page is a path of the site");
        }
        for status in statuses {
            match status.parse() {
                Ok(status @ 400..=599) => {
                    self.errors.insert(status, page.clone());
                }
                _ => report.refuse(d, "an error page keeps its status, 400 to 599"),
            }
        }
    }

    fn types(&mut self, d: &Directive) {
        for types in d.children() {
            let extensions = types.args.iter().map(|ext| ext.to_ascii_lowercase());
            self.media_types.extend(extensions.map(|ext| (ext, types.name.clone())));
        }
    }

    fn dav_methods(&mut self, d: &Directive, report: &mut Report) {
        let is_known = |method: &String| matches!(method.as_str(), "PUT" | "DELETE" | "off");
        if !d.args.iter().all(is_known) {
            return report.refuse(d, "hurtle has PUT and DELETE, of WebDAV nothing else");
        }
        self.uploads = d.args.iter().any(|method| method == "PUT");
        if self.uploads && !d.args.iter().any(|method| method == "DELETE") {
            report.remark(d, "uploads allow DELETE, too");
        }
    }

    fn proxy_set_header(&mut self, d: &Directive, report: &mut Report) {
        let value = d.arg(1);
        if let Some(field) = value.strip_prefix('$').and_then(|name| self.auth_fields.get(name)) {
            if !field.eq_ignore_ascii_case(d.arg(0)) {
                let why = format!("the request gets the field {field} under its own name");
                return report.refuse(d, why);
            }
            return self.copied.push(d.arg(0).to_owned());
        }
        match (d.arg(0).to_ascii_lowercase().as_str(), value) {
            ("host", "$host" | "$http_host" | "$host:$server_port") => {
                self.sends_client_host = true;
            }
            ("host", "$proxy_host") => self.sends_client_host = false,
            ("x-real-ip", "$remote_addr")
            | ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
            | ("x-forwarded-proto", "$scheme")
            | ("x-forwarded-host", "$host" | "$http_host")
            | ("upgrade", "$http_upgrade")
            | ("connection", "upgrade" | "Upgrade" | "$connection_upgrade" | "")
            | ("accept-encoding", "$http_accept_encoding") => {}
            _ => report.refuse(
                d,
                "hurtle sets Host, X-Real-IP, X-Forwarded-For, -Proto and -Host and Forwarded; \
                 other fields of requests cannot be set",
            ),
        }
    }

    fn fastcgi_param(&mut self, d: &Directive, report: &mut Report) {
        let (name, value) = (d.arg(0), d.arg(1));
        // Those of fastcgi_params and fastcgi.conf, which hurtle makes itself.
        if has_variable(value) {
            let is_usual = matches!(name, "SCRIPT_FILENAME" | "PATH_INFO" | "PATH_TRANSLATED")
                || USUAL_PARAMS.contains(&name);
            if !is_usual {
                report.refuse(d, "it needs variables");
            }
        } else if !USUAL_PARAMS.contains(&name) {
            self.params.insert(name.to_owned(), value.to_owned());
        }
    }
}

/// Variables that hurtle gives to every FastCGI application.
const USUAL_PARAMS: &[&str] = &[
    "QUERY_STRING",
    "REQUEST_METHOD",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "SCRIPT_NAME",
    "REQUEST_URI",
    "DOCUMENT_URI",
    "DOCUMENT_ROOT",
    "SERVER_PROTOCOL",
    "REQUEST_SCHEME",
    "HTTPS",
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "SERVER_ADDR",
    "SERVER_PORT",
    "SERVER_NAME",
    "REDIRECT_STATUS",
    "HTTP_PROXY",
];

pub(super) fn duration(d: &Directive, report: &mut Report) -> Option<u64> {
    let seconds = seconds(d.arg(0));
    if seconds.is_none() {
        report.refuse(d, "write a duration in seconds, such as 30s");
    }
    seconds
}
