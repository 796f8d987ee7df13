//! The fields that a site adds to its responses, or takes from them, as its configuration says:
//! header rules, Strict-Transport-Security, and the preset of security headers. CORS is in `cors`.
//! Pure: `pipeline::finish` applies them to responses, and files keep ready field lines with them.

mod cookies;
pub(crate) mod cors;
pub(crate) mod fields;

use std::borrow::Cow;

use http::{HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::semantics::media;
use memchr::memmem;

pub(crate) use self::fields::{FieldEdits, OwnFields, ReadyEdits, edit_fields};
use crate::config::{self, HeaderRule};

/// The preset of `security_headers`. A response that has a field keeps its own value.
const SECURITY: [(HeaderName, HeaderValue); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("strict-origin-when-cross-origin")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The edits of a site's responses.
#[derive(Debug, Default)]
pub(crate) struct ResponseEdits {
    rules: Vec<HeaderRule>,
    has_security: bool,
    /// Strict-Transport-Security of the site's TLS settings.
    hsts: Option<HeaderValue>,
    /// `true`: the site has TLS, so that responses in clear have no Strict-Transport-Security (RFC
    /// 6797 section 7.2).
    withholds_hsts: bool,
}

impl ResponseEdits {
    /// Compiles the edits of a site.
    pub(crate) fn new(site: &config::Site) -> ResponseEdits {
        let rules = settable(&site.headers);
        let hsts = site.tls.as_ref().and_then(|tls| tls.hsts.clone());
        let sets_hsts = |rule: &HeaderRule| {
            rule.set.iter().any(|(name, _)| *name == header::STRICT_TRANSPORT_SECURITY)
        };
        let mut all = rules.iter().chain(site.mounts.iter().flat_map(|mount| &mount.headers));
        let withholds_hsts = site.tls.is_some() && (hsts.is_some() || all.any(sets_hsts));
        ResponseEdits { rules, has_security: site.security_headers, hsts, withholds_hsts }
    }

    /// The edits of a mount: those of its site, then its own.
    #[must_use]
    pub(crate) fn of_mount(&self, mount: &config::Mount) -> ResponseEdits {
        let rules = [self.rules.clone(), settable(&mount.headers)].concat();
        ResponseEdits { rules, hsts: self.hsts.clone(), ..*self }
    }

    /// Returns the value of Strict-Transport-Security (RFC 6797).
    pub(crate) fn hsts(&self) -> Option<&HeaderValue> {
        self.hsts.as_ref()
    }

    /// Returns whether responses in clear lack a field that those over TLS have.
    pub(crate) fn withholds_hsts(&self, is_secure: bool) -> bool {
        self.withholds_hsts && !is_secure
    }

    /// Edits the fields of a response with this status. `path` is the decoded path of the request,
    /// after the site's rules.
    pub(crate) fn edit<'p>(
        &self,
        fields: &mut dyn FieldEdits,
        path: impl FnOnce() -> Cow<'p, [u8]>,
        status: StatusCode,
        is_secure: bool,
    ) {
        if !self.rules.is_empty() {
            let path = path();
            for rule in self.rules_for(&path).filter(|rule| rule.applies_to(status)) {
                if !rule.types.is_empty() && !is_of_type(fields, &rule.types) {
                    continue;
                }
                rule.remove.iter().for_each(|name| fields.remove(name));
                for (name, value) in &rule.set {
                    if !(rule.if_absent && fields.has(name)) {
                        fields.set(name, value);
                    }
                }
                cookies::flag(fields, &rule.cookie_flags);
            }
        }
        match &self.hsts {
            Some(hsts) if is_secure => fields.set(&header::STRICT_TRANSPORT_SECURITY, hsts),
            _ if self.withholds_hsts(is_secure) => {
                fields.remove(&header::STRICT_TRANSPORT_SECURITY);
            }
            _ => {}
        }
        if self.has_security {
            for (name, value) in &SECURITY {
                if !fields.has(name) {
                    fields.append(name, value);
                }
            }
        }
    }

    /// Returns the value that the rules of a path give a field of a response of any type; `None`:
    /// they leave it or remove it.
    pub(crate) fn value(&self, name: &HeaderName, path: &[u8]) -> Option<&HeaderValue> {
        let mut value = None;
        for rule in self.rules_for(path).filter(|rule| rule.types.is_empty()) {
            let set = rule.set.iter().find(|(other, _)| other == name);
            let is_kept = rule.if_absent && value.is_some() && !rule.remove.contains(name);
            if !is_kept && (set.is_some() || rule.remove.contains(name)) {
                value = set.map(|(_, value)| value);
            }
        }
        value
    }

    /// Returns whether a rule of a path may set a field to this value for some media type.
    pub(crate) fn may_set(
        &self,
        name: &HeaderName,
        path: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> bool {
        self.rules_for(path)
            .flat_map(|rule| &rule.set)
            .any(|(other, value)| other == name && is_wanted(value.as_bytes()))
    }

    /// Returns the Link value of the path's rules, if it has a preload or preconnect: it is worth a
    /// 103 (RFC 8297).
    pub(crate) fn hint<'p>(&self, path: impl FnOnce() -> Cow<'p, [u8]>) -> Option<HeaderValue> {
        if self.rules.is_empty() {
            return None;
        }
        let link = self.value(&header::LINK, &path())?;
        let has = |rel: &[u8]| memmem::find(link.as_bytes(), rel).is_some();
        (has(b"preload") || has(b"preconnect")).then(|| link.clone())
    }

    fn rules_for(&self, path: &[u8]) -> impl Iterator<Item = &HeaderRule> {
        self.rules.iter().filter(move |rule| rule.matcher.matches(path, None))
    }
}

/// Returns whether a response has one of these media types.
fn is_of_type(fields: &dyn FieldEdits, types: &[String]) -> bool {
    let media_type = fields.media_type();
    media_type.is_some_and(|own| types.iter().any(|pattern| media::matches(pattern, &own)))
}

/// Returns rules without fields that frame bodies, which are the protocol's.
fn settable(rules: &[HeaderRule]) -> Vec<HeaderRule> {
    let mut rules = rules.to_vec();
    rules.iter_mut().for_each(|rule| rule.set.retain(|(name, _)| *name != header::CONTENT_LENGTH));
    rules
}
