//! Settings that hurtle has once for the whole server. `main_context` writes them.

use std::collections::BTreeMap;

use super::gates::{CompressSettings, RateZone};
use super::path::{bytes, has_variable};
use super::report::Report;
use super::scope::duration;
use super::syntax::Directive;
use super::tuning::{is_tuning, needs};

/// Settings that hurtle has once for the whole server.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) limits: BTreeMap<&'static str, u64>,
    pub(super) trusted_proxies: Vec<String>,
    pub(super) access_log: Option<String>,
    pub(super) error_log: Option<(String, String)>,
    /// Keys and rates of `limit_req_zone`, by zone.
    pub(super) rate_zones: BTreeMap<String, RateZone>,
    /// Media types and the least size of `gzip_types` and `gzip_min_length`.
    pub(super) compress: CompressSettings,
}

impl Shared {
    /// Applies a directive of the whole server, and refuses one that is unknown.
    pub(super) fn apply(&mut self, d: &Directive, report: &mut Report) {
        match d.name.as_str() {
            "client_max_body_size" => self.body_bytes(d, report),
            "client_header_timeout" => self.duration("head_timeout", d, report),
            "keepalive_timeout" => self.duration("idle_timeout", d, report),
            "send_timeout" => self.duration("write_stall", d, report),
            "client_body_timeout" => report.leave_out(d),
            "keepalive_requests" => match d.arg(0).parse() {
                Ok(requests) => self.limit("requests_per_connection", requests, d, report),
                Err(_) => report.refuse(d, "write a number"),
            },
            "set_real_ip_from" if d.arg(0) == "unix:" => report.leave_out(d),
            "set_real_ip_from" => {
                if !self.trusted_proxies.iter().any(|known| known == d.arg(0)) {
                    self.trusted_proxies.push(d.arg(0).to_owned());
                }
            }
            "real_ip_header" => {
                if !d.arg(0).eq_ignore_ascii_case("x-forwarded-for") {
                    report.refuse(d, "hurtle reads X-Forwarded-For and Forwarded");
                }
            }
            "limit_req_zone" => self.limit_req_zone(d, report),
            "gzip_types" | "brotli_types" => self.compress.types(d, report),
            "gzip_min_length" | "brotli_min_length" => self.compress.min_bytes(d, report),
            "access_log" => self.access_log(d, report),
            "log_format" => report.remark(d, "the access log has the combined or the JSON format"),
            "error_log" => self.error_log(d, report),
            name if is_tuning(name) => report.leave_out(d),
            name => report.refuse(d, needs(name)),
        }
    }

    fn limit(&mut self, key: &'static str, value: u64, d: &Directive, report: &mut Report) {
        match self.limits.insert(key, value) {
            Some(other) if other != value => {
                report.refuse(d, format!("hurtle has one {key} for the whole server"));
            }
            _ => {}
        }
    }

    fn duration(&mut self, key: &'static str, d: &Directive, report: &mut Report) {
        match duration(d, report) {
            Some(0) if key == "idle_timeout" => report.remark(d, "connections are kept"),
            Some(seconds) => self.limit(key, seconds, d, report),
            None => {}
        }
    }

    fn body_bytes(&mut self, d: &Directive, report: &mut Report) {
        /// The largest value of `body_bytes`.
        const LARGEST: u64 = 1 << 40;
        match bytes(d.arg(0)) {
            Some(0) => self.limit("body_bytes", LARGEST, d, report),
            Some(size) => self.limit("body_bytes", size, d, report),
            None => report.refuse(d, "write a size, such as 20m"),
        }
        report.general(
            "client_max_body_size: body_bytes does not limit what `proxy` passes on, nor uploads \
             (file_bytes)"
                .to_owned(),
        );
    }

    fn access_log(&mut self, d: &Directive, report: &mut Report) {
        let path = d.arg(0);
        if path == "off" {
            return report.leave_out(d);
        }
        if path.starts_with("syslog:") || has_variable(path) || !path.starts_with('/') {
            return report.refuse(d, "the access log is one file, named by an absolute path");
        }
        match &self.access_log {
            Some(other) if other != path => {
                report.remark(d, "hurtle has one access log for all sites; this file is left out");
            }
            _ => self.access_log = Some(path.to_owned()),
        }
        if !matches!(d.arg(1), "" | "combined" | "main") || d.args.len() > 2 {
            report.remark(d, "the format is combined, without buffers and conditions");
        }
    }

    fn error_log(&mut self, d: &Directive, report: &mut Report) {
        let level = match d.arg(1) {
            "debug" => "debug",
            "info" | "notice" => "info",
            "warn" => "warn",
            _ => "error",
        };
        match d.arg(0) {
            "stderr" => self.error_log = Some(("stderr".to_owned(), level.to_owned())),
            path if path.starts_with('/') => match &self.error_log {
                Some((other, _)) if other != path => {
                    report.remark(d, "hurtle has one error log; this file is left out");
                }
                _ => self.error_log = Some((path.to_owned(), level.to_owned())),
            },
            _ => report.refuse(d, "the error log is stderr or one file, named by an absolute path"),
        }
    }
}
