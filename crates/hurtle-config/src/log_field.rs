//! The fields of the access log. `names` has their names, `observe::format` writes them.

/// A member of a JSON access log line; its name in the log is its name in snake_case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LogField {
    Time,
    Client,
    Method,
    Target,
    Protocol,
    Status,
    BodyBytes,
    DurationUs,
    Host,
    Referer,
    UserAgent,
    Cache,
    Completion,
    RequestId,
    TraceId,
    Site,
    Mount,
    HeadBytes,
    RequestBytes,
    RequestBufferedBytes,
    ResponseBufferedBytes,
    TlsVersion,
    TlsCipher,
    ServerName,
    Upstream,
    UpstreamConnectUs,
    UpstreamHeadUs,
    UpstreamUs,
    User,
}
