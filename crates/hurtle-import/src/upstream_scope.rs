//! Settings of upstreams that `proxy_pass`, `fastcgi_pass` and `uwsgi_pass` each have under names
//! of their own.

use std::collections::BTreeMap;

use super::kind::Kind;
use super::kind::UpstreamKind::{self, *};
use super::path::{has_variable, milliseconds};
use super::report::Report;
use super::setting::Setting;
use super::syntax::Directive;
use super::upstream_settings::template;
use hurtle_config::RequestFields;

/// The directives of these settings in one protocol.
#[derive(Debug)]
pub(super) struct UpstreamKinds {
    connect_timeout: &'static [Kind],
    send_timeout: &'static [Kind],
    read_timeout: &'static [Kind],
    buffering: &'static [Kind],
    request_buffering: &'static [Kind],
    intercept_errors: &'static [Kind],
    hide_header: &'static [Kind],
    /// Empty: the protocol has no variables.
    param: &'static [Kind],
}

/// Directives that go with `proxy_pass`.
pub(super) static HTTP: UpstreamKinds = UpstreamKinds {
    connect_timeout: &[Kind::Upstream(ProxyConnectTimeout)],
    send_timeout: &[Kind::Upstream(ProxySendTimeout)],
    read_timeout: &[Kind::Upstream(ProxyReadTimeout)],
    buffering: &[Kind::Upstream(ProxyBuffering)],
    request_buffering: &[Kind::Upstream(ProxyRequestBuffering)],
    intercept_errors: &[Kind::Upstream(ProxyInterceptErrors)],
    hide_header: &[Kind::Upstream(ProxyHideHeader)],
    param: &[],
};

/// Directives that go with `fastcgi_pass`.
pub(super) static FASTCGI: UpstreamKinds = UpstreamKinds {
    connect_timeout: &[Kind::Upstream(FastcgiConnectTimeout)],
    send_timeout: &[Kind::Upstream(FastcgiSendTimeout)],
    read_timeout: &[Kind::Upstream(FastcgiReadTimeout)],
    buffering: &[Kind::Upstream(FastcgiBuffering)],
    request_buffering: &[Kind::Upstream(FastcgiRequestBuffering)],
    intercept_errors: &[Kind::Upstream(FastcgiInterceptErrors)],
    hide_header: &[Kind::Upstream(FastcgiHideHeader)],
    param: &[Kind::Upstream(FastcgiParam)],
};

/// Directives that go with `uwsgi_pass`.
pub(super) static UWSGI: UpstreamKinds = UpstreamKinds {
    connect_timeout: &[Kind::Upstream(UwsgiConnectTimeout)],
    send_timeout: &[Kind::Upstream(UwsgiSendTimeout)],
    read_timeout: &[Kind::Upstream(UwsgiReadTimeout)],
    buffering: &[Kind::Upstream(UwsgiBuffering)],
    request_buffering: &[Kind::Upstream(UwsgiRequestBuffering)],
    intercept_errors: &[Kind::Upstream(UwsgiInterceptErrors)],
    hide_header: &[Kind::Upstream(UwsgiHideHeader)],
    param: &[Kind::Upstream(UwsgiParam)],
};

/// The settings of one protocol.
#[derive(Clone, Debug)]
pub(super) struct UpstreamScope {
    kinds: &'static UpstreamKinds,
    /// Milliseconds, as the other time limits.
    pub(super) connect_timeout: Setting<Option<u64>>,
    pub(super) send_timeout: Setting<Option<u64>>,
    pub(super) read_timeout: Setting<Option<u64>>,
    /// `true`: bodies of requests are passed on as they arrive.
    pub(super) passes_bodies_on: Setting<bool>,
    pub(super) passes_responses_on: Setting<bool>,
    /// `true`: error pages replace its errors.
    pub(super) intercepts: Setting<bool>,
    /// The directives that hide fields of its responses.
    pub(super) hidden: Setting<Vec<Directive>>,
    /// Constant variables of an application.
    pub(super) params: Setting<BTreeMap<String, String>>,
    /// Fields of requests to an application with variables of nginx, by name.
    pub(super) fields: Setting<BTreeMap<String, String>>,
    /// The directives of all variables of an application.
    pub(super) written: Setting<Vec<Directive>>,
}

impl UpstreamScope {
    pub(super) fn of(kinds: &'static UpstreamKinds) -> UpstreamScope {
        UpstreamScope {
            kinds,
            connect_timeout: Setting::of(kinds.connect_timeout),
            send_timeout: Setting::of(kinds.send_timeout),
            read_timeout: Setting::of(kinds.read_timeout),
            passes_bodies_on: Setting::of(kinds.request_buffering),
            passes_responses_on: Setting::of(kinds.buffering),
            intercepts: Setting::of(kinds.intercept_errors),
            hidden: Setting::of(kinds.hide_header),
            params: Setting::of(kinds.param),
            fields: Setting::of(kinds.param),
            written: Setting::of(kinds.param),
        }
    }

    /// Drops the values of the enclosing block that a directive of this kind replaces.
    pub(super) fn enter(&mut self, kind: Kind) {
        if self.kinds.param.contains(&kind) {
            self.params.edit().clear();
            self.fields.edit().clear();
            self.written.edit().clear();
        }
        if self.kinds.hide_header.contains(&kind) {
            self.hidden.edit().clear();
        }
    }

    /// Applies a setting, if it is of this protocol.
    pub(super) fn apply(
        &mut self,
        kind: UpstreamKind,
        d: &Directive,
        server_name: Option<&str>,
        report: &mut Report,
    ) {
        let (kind, kinds) = (Kind::Upstream(kind), self.kinds);
        let (is_on, is_off) = (d.arg(0) == "on", d.arg(0) == "off");
        if kinds.connect_timeout.contains(&kind) {
            self.connect_timeout.set(time_limit(d, report));
        } else if kinds.send_timeout.contains(&kind) {
            self.send_timeout.set(time_limit(d, report));
        } else if kinds.read_timeout.contains(&kind) {
            self.read_timeout.set(time_limit(d, report));
        } else if kinds.buffering.contains(&kind) {
            self.passes_responses_on.set(is_off);
        } else if kinds.request_buffering.contains(&kind) {
            self.passes_bodies_on.set(is_off);
        } else if kinds.intercept_errors.contains(&kind) {
            self.intercepts.set(is_on);
        } else if kinds.hide_header.contains(&kind) {
            self.hidden.edit().push(d.clone());
        } else if kinds.param.contains(&kind) {
            self.param(d, server_name, report);
        }
    }

    fn param(&mut self, d: &Directive, server_name: Option<&str>, report: &mut Report) {
        let (name, value) = (d.arg(0), d.arg(1));
        self.written.edit().push(d.clone());
        // Those of fastcgi_params and uwsgi_params, which hurtle makes itself.
        let usual = USUAL_PARAMS.iter().find(|(usual, _)| *usual == name);
        let is_host = name == "HTTP_HOST" && matches!(value, "$host" | "$http_host");
        match usual {
            Some((_, values)) if has_variable(value) => self.usual_param(d, values, report),
            Some((_, values)) if values.contains(&value) => drop(self.params.edit().remove(name)),
            Some(_) if value.is_empty() && self.has_own(name) => report.general(format!(
                "{} {name}: applications get the path of their location, such as /app, and the rest of the path in \
                 PATH_INFO",
                d.name
            )),
            None if OWN_PARAMS.contains(&name) && has_variable(value) => {
                self.params.edit().remove(name);
            }
            // As Debian's fastcgi_params has it.
            None if is_host => report.general(format!(
                "{} HTTP_HOST: applications get Host as the client sent it, with its port",
                d.name
            )),
            None if has_variable(value) => {
                if !self.field(name, value, server_name) {
                    report.refuse(d, "it needs variables");
                }
            }
            _ => drop(self.params.edit().insert(name.to_owned(), value.to_owned())),
        }
    }

    /// Takes a variable that hurtle gives to applications, if its value is one of these.
    fn usual_param(&mut self, d: &Directive, values: &[&str], report: &mut Report) {
        let (name, value) = (d.arg(0), d.arg(1));
        let is_version = name == "SERVER_SOFTWARE" && value.contains("$nginx_version");
        if !is_version && !values.contains(&value) {
            let why = format!(
                "hurtle gives applications {name} itself, with the value {}: write that, or a constant",
                values.first().copied().unwrap_or_default()
            );
            return report.refuse(d, why);
        }
        // The last value counts, unless it is empty.
        if d.arg(2) != "if_not_empty" {
            self.params.edit().remove(name);
        }
        let difference = match (name, value) {
            ("SERVER_NAME", "$server_name") => {
                "the name that the client asked, such as that of GET / with Host: www.a.example; nginx writes the first \
                 server_name"
            }
            ("SERVER_NAME", "$http_host") => "the name that the client asked, without the port",
            ("SERVER_SOFTWARE", value) if !values.contains(&value) => "the name of hurtle",
            _ => return,
        };
        report.general(format!("{} {name}: applications get {difference}", d.name));
    }

    /// Returns whether hurtle has the value of a variable that is empty in nginx: the name of a
    /// script. An application behind uWSGI may be anywhere.
    fn has_own(&self, name: &str) -> bool {
        name == "SCRIPT_NAME" && self.kinds.param != UWSGI.param
    }

    /// Translates a field of the request with variables. `false`: it is another parameter.
    fn field(&mut self, name: &str, value: &str, server_name: Option<&str>) -> bool {
        let name =
            name.strip_prefix("HTTP_").map(|name| name.to_ascii_lowercase().replace('_', "-"));
        let value = template(value, server_name);
        let Some((name, value)) = name.zip(value) else { return false };
        let is_taken = RequestFields::takes(&name, &value);
        if is_taken {
            self.fields.edit().insert(name, value);
        }
        is_taken
    }
}

/// Milliseconds of a time limit; `None` if it was refused.
fn time_limit(d: &Directive, report: &mut Report) -> Option<u64> {
    let limit = milliseconds(d.arg(0)).filter(|ms| *ms > 0);
    if limit.is_none() {
        report.refuse(d, "write a duration, such as 30s");
    }
    limit
}

/// Variables that depend on the path, which hurtle finds itself.
const OWN_PARAMS: &[&str] = &["SCRIPT_FILENAME", "PATH_INFO", "PATH_TRANSLATED"];

/// Variables that hurtle gives to every application, with the values of nginx that are alike.
const USUAL_PARAMS: &[(&str, &[&str])] = &[
    ("QUERY_STRING", &["$query_string", "$args"]),
    ("REQUEST_METHOD", &["$request_method"]),
    ("CONTENT_TYPE", &["$content_type", "$http_content_type"]),
    ("CONTENT_LENGTH", &["$content_length", "$http_content_length"]),
    ("SCRIPT_NAME", &["$fastcgi_script_name", "$script_name", "$document_uri", "$uri"]),
    ("REQUEST_URI", &["$request_uri"]),
    ("DOCUMENT_URI", &["$document_uri", "$uri"]),
    ("DOCUMENT_ROOT", &["$document_root", "$realpath_root"]),
    ("SERVER_PROTOCOL", &["$server_protocol"]),
    ("REQUEST_SCHEME", &["$scheme"]),
    ("UWSGI_SCHEME", &["$scheme"]),
    ("HTTPS", &["$https"]),
    ("GATEWAY_INTERFACE", &["CGI/1.1"]),
    ("SERVER_SOFTWARE", &["nginx/$nginx_version"]),
    ("REMOTE_ADDR", &["$remote_addr"]),
    ("REMOTE_PORT", &["$remote_port"]),
    ("REMOTE_USER", &["$remote_user"]),
    ("SERVER_ADDR", &["$server_addr"]),
    ("SERVER_PORT", &["$server_port"]),
    ("SERVER_NAME", &["$server_name", "$host", "$http_host"]),
    ("REDIRECT_STATUS", &["200"]),
    ("HTTP_PROXY", &["\"\"", ""]),
];
