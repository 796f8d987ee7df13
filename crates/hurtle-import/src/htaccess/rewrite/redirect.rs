//! Redirects of rules: to other paths and hosts, to HTTPS, and to a path without its last slash.

use toml::Value;

use super::super::NEEDS_HOSTS;
use super::super::pattern::escaped;
use super::Rewriting;
use super::condition::Requests;
use super::matching::Subject;
use super::results::Met;
use super::rule::{Query, Rule};
use super::target::is_location;
use crate::mount::put;

/// The reason for a refusal where both servers would end TLS.
const TWO_CHANNELS: &str = "either this server has the certificate, or a proxy that sends X-Forwarded-Proto: write one of them";

impl<'d> Rewriting<'d, '_> {
    /// A redirect; one to HTTPS is the site's own.
    pub(super) fn redirect(
        &mut self,
        rule: &Rule<'d>,
        requests: &Requests,
        to: &str,
        status: u16,
    ) -> Result<(), String> {
        let subject = Subject::of(rule, requests)?;
        if requests.is_clear && !requests.is_forwarded_clear {
            return self.https(rule, requests, &subject, to);
        }
        let mut requests = requests.clone();
        let depends_on_host = to.contains("%{HTTP_HOST}") || to.contains("%{SERVER_NAME}");
        if requests.is_forwarded_clear {
            if !self.parts.secure_hosts.is_empty() {
                return Err(TWO_CHANNELS.to_owned());
            }
            self.parts.is_forwarded = true;
            let names = Value::from(vec!["https".to_owned()]);
            requests.not_header.insert("X-Forwarded-Proto".to_owned(), names);
        }
        let hosts: Vec<(String, Vec<String>)> = match requests.hosts.take() {
            Some(hosts) => hosts,
            None if depends_on_host && self.options.hosts.is_empty() => {
                return Err(NEEDS_HOSTS.to_owned());
            }
            None if depends_on_host => {
                let hosts =
                    self.options.hosts.iter().filter(|host| !requests.not_hosts.contains(host));
                hosts.map(|host| (host.clone(), Vec::new())).collect()
            }
            None => Vec::new(),
        };
        // Hosts with one target have one rule.
        let mut targets: Vec<(String, Vec<String>)> = Vec::new();
        for (host, groups) in &hosts {
            let to = self.location(to, &subject, rule.query, Some(host), groups)?;
            match targets.iter_mut().find(|(known, _)| *known == to) {
                Some((_, names)) => names.push(host.clone()),
                None => targets.push((to, vec![host.clone()])),
            }
        }
        if hosts.is_empty() {
            targets.push((self.location(to, &subject, rule.query, None, &[])?, Vec::new()));
        }
        if depends_on_host && !hosts.is_empty() {
            requests.not_hosts.clear();
        }
        for (to, hosts) in targets {
            let mut keys = subject.place(&requests, Some(&hosts))?;
            put(&mut keys, "redirect", to);
            put(&mut keys, "status", i64::from(status));
            self.parts.rules.push(keys);
        }
        self.met.push(Met::of(rule, &subject, requests.not_regex));
        Ok(())
    }

    /// A redirect to HTTPS, which a site with a certificate makes.
    pub(super) fn https(
        &mut self,
        rule: &Rule<'d>,
        requests: &Requests,
        subject: &Subject,
        to: &str,
    ) -> Result<(), String> {
        if !requests.not_hosts.is_empty() {
            return Err(NEEDS_HOSTS.to_owned());
        }
        let others =
            Requests { is_clear: false, hosts: None, not_regex: Vec::new(), ..requests.clone() };
        if others != Requests::default() {
            return Err("the redirect to HTTPS has no other conditions here than names".to_owned());
        }
        let own_host = to.contains("%{HTTP_HOST}") || to.contains("%{SERVER_NAME}");
        let known: Vec<String> = match &requests.hosts {
            Some(hosts) => hosts.iter().map(|(host, _)| host.clone()).collect(),
            None => self.options.hosts.clone(),
        };
        let to = match known.first() {
            Some(first) if own_host => self.location(to, subject, rule.query, Some(first), &[])?,
            None if own_host => return Err(NEEDS_HOSTS.to_owned()),
            _ => self.location(to, subject, rule.query, None, &[])?,
        };
        let rest =
            to.strip_prefix("https://").ok_or("a request in clear is redirected to HTTPS only")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let exceptions = requests.not_regex.iter().filter(|regex| !regex.contains("well-known"));
        if path != "{1}" || !subject.is_everything() || exceptions.count() > 0 {
            return Err("the redirect to HTTPS is for all paths: https://HOST/$1 or https://HOST%{REQUEST_URI}".to_owned());
        }
        let hosts = if own_host { known } else { vec![host.to_owned()] };
        if self.parts.is_forwarded {
            return Err(TWO_CHANNELS.to_owned());
        }
        self.parts.secure(hosts, own_host);
        self.report.remark(
            rule.d,
            "HTTPS is a matter of `certificate`: this one is ordered from Let's Encrypt, whose terms you accept with \
             accept_terms; the redirect has the status 308, and precedes passwords and refusals: GET http://HOST/x",
        );
        Ok(())
    }

    /// A redirect that takes the slash off a path, except that of a directory.
    pub(super) fn slash(
        &mut self,
        rule: &Rule<'d>,
        mut requests: Requests,
        to: &str,
        status: u16,
    ) -> Result<(), String> {
        self.no_channel(&requests)?;
        let is_of_slash = |text: &str| text.ends_with("/$");
        let subject = Subject::of(rule, &requests)?;
        if !is_of_slash(&subject.regex()) {
            return Err(
                "of redirects that look at files it knows the one that takes a last slash off"
                    .to_owned(),
            );
        }
        let names: Vec<String> = self.tree.directories.iter().map(|name| escaped(name)).collect();
        let all = match names.as_slice() {
            [] => "directories are not known: write them in `not`, or GET /dir/ loops".to_owned(),
            _ => {
                requests.not_regex.push(format!("^/(?:{})/", names.join("|")));
                format!(
                    "it is not for paths beneath the directories that are there now: GET /{}/gone/ is not redirected; \
                     add others to `not`, or they loop",
                    self.tree.directories[0]
                )
            }
        };
        self.report.remark(rule.d, &all);
        requests.is_no_directory = false;
        requests.is_no_file = false;
        // The group of such a condition has the first slash, too.
        let is_whole =
            matches!(subject.regex().as_str(), "(.+)/$" | "(.*)/$" | "^(.+)/$" | "^(.*)/$");
        let (subject, to) = match to {
            "%1" if subject.is_of_condition() && is_whole => {
                let text = "^/(.+)/$".to_owned();
                (Subject::Regex { text, of_condition: true }, "/%1")
            }
            to => (subject, to),
        };
        let to = self.location(to, &subject, rule.query, None, &[])?;
        let mut keys = subject.place(&requests, requests.host_names().as_deref())?;
        put(&mut keys, "redirect", to);
        put(&mut keys, "status", i64::from(status));
        self.parts.rules.push(keys);
        Ok(())
    }

    /// The target of a redirect.
    pub(super) fn location(
        &self,
        to: &str,
        subject: &Subject,
        query: Query,
        host: Option<&str>,
        groups: &[String],
    ) -> Result<String, String> {
        let is_relative = !to.starts_with(['/', '%', '$']) && !to.contains("://");
        let to = match is_relative {
            true if !self.has_root_base => {
                return Err("without RewriteBase, Apache redirects to the directory's path on the disk: write /".to_owned());
            }
            true => format!("/{to}"),
            false => to.to_owned(),
        };
        let to = self.target(&to, subject, query, host, groups)?;
        match is_location(&to) {
            true => Ok(to),
            false => Err(format!("{to} is no target of a redirect")),
        }
    }
}
