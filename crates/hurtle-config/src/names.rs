//! The written names of every enumerated value: one list each, used to read, print and document it.

use hurtle_http::semantics::forwarded::Family;
use serde::{Serialize, Serializer};

use super::acme::ChallengeKind;
use super::balance::Balance;
use super::buffering::Buffering;
use super::congestion::Congestion;
use super::files::EtagSource;
use super::manifest::SocketPassing;
use super::sandbox::Sandbox;
use super::send_proxy::ProxyProtocolVersion;
use super::tls::{ClientAuthMode, MountClientAuth};
use super::types::{EarlyHints, LogField, LogLevel, Schedule, Sendfile};

/// An enumeration whose values have names.
pub(super) trait Named: Copy + PartialEq + 'static {
    /// Every value with its name, in the order of the documentation.
    const NAMES: &'static [(&'static str, Self)];

    /// The value's name in `NAMES`; empty if it has none.
    fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, value)| *value == self);
        named.map_or("", |(name, _)| name)
    }
}

/// Serializes values by their names.
macro_rules! serialize_by_name {
    ($($set:ty),*) => {$(
        impl Serialize for $set {
            fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.serialize_str(self.name())
            }
        }
    )*};
}

serialize_by_name!(
    Balance,
    Buffering,
    ChallengeKind,
    EarlyHints,
    EtagSource,
    LogField,
    LogLevel,
    MountClientAuth,
    Congestion,
    Sandbox,
    ProxyProtocolVersion,
    Schedule,
    Sendfile
);

/// Serializes a value of another crate by its name.
pub(super) fn serialize<T: Named, S: Serializer>(value: &T, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(value.name())
}

/// Every name of an enumeration.
pub(super) fn names<T: Named>() -> Vec<&'static str> {
    T::NAMES.iter().map(|(name, _)| *name).collect()
}

/// The format of an access log line, without the fields of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatName {
    Combined,
    Json,
    Brief,
}

impl Named for FormatName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("combined", Self::Combined), ("json", Self::Json), ("brief", Self::Brief)];
}

impl Named for Family {
    const NAMES: &'static [(&'static str, Self)] =
        &[("x-forwarded", Self::XForwarded), ("forwarded", Self::Forwarded)];
}

impl Named for Sendfile {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

impl Named for Schedule {
    const NAMES: &'static [(&'static str, Self)] =
        &[("wait", Self::Wait), ("eager", Self::Eager), ("yield", Self::Yield)];
}

impl Named for EarlyHints {
    const NAMES: &'static [(&'static str, Self)] =
        &[("h2", Self::Http2), ("always", Self::Always), ("off", Self::Off)];
}

impl Named for SocketPassing {
    const NAMES: &'static [(&'static str, Self)] = &[("stdin", Self::Stdin), ("path", Self::Path)];
}

impl Named for Balance {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("round-robin", Self::RoundRobin),
        ("least-connections", Self::LeastConnections),
        ("hash-address", Self::HashAddress),
        ("hash-path", Self::HashPath),
        ("hash-header", Self::HashHeader),
        ("cookie", Self::Cookie),
    ];
}

impl Named for ClientAuthMode {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("optional", Self::Optional), ("required", Self::Required)];
}

impl Named for MountClientAuth {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("required", Self::Required)];
}

impl Named for ChallengeKind {
    const NAMES: &'static [(&'static str, Self)] =
        &[("tls-alpn-01", Self::TlsAlpn01), ("http-01", Self::Http01), ("dns-01", Self::Dns01)];
}

impl Named for LogLevel {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl LogLevel {
    /// Returns the level with this name.
    pub fn named(name: &str) -> Option<LogLevel> {
        LogLevel::NAMES.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
    }
}

impl Named for LogField {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("time", Self::Time),
        ("client", Self::Client),
        ("method", Self::Method),
        ("target", Self::Target),
        ("protocol", Self::Protocol),
        ("status", Self::Status),
        ("body_bytes", Self::BodyBytes),
        ("duration_us", Self::DurationUs),
        ("host", Self::Host),
        ("referer", Self::Referer),
        ("user_agent", Self::UserAgent),
        ("cache", Self::Cache),
        ("completion", Self::Completion),
        ("request_id", Self::RequestId),
        ("trace_id", Self::TraceId),
        ("site", Self::Site),
        ("mount", Self::Mount),
        ("head_bytes", Self::HeadBytes),
        ("request_bytes", Self::RequestBytes),
        ("request_buffered_bytes", Self::RequestBufferedBytes),
        ("response_buffered_bytes", Self::ResponseBufferedBytes),
        ("tls_version", Self::TlsVersion),
        ("tls_cipher", Self::TlsCipher),
        ("server_name", Self::ServerName),
        ("upstream", Self::Upstream),
        ("upstream_connect_us", Self::UpstreamConnectUs),
        ("upstream_head_us", Self::UpstreamHeadUs),
        ("upstream_us", Self::UpstreamUs),
        ("user", Self::User),
    ];
}
