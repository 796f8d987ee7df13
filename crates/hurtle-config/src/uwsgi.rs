//! A uWSGI application: the `uwsgi` key of a mount. `hurtle::handler::gateway` connects to it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::buffering::Buffer;
use super::gateway::{
    FASTCGI_CONNECT_TIMEOUT, GatewayTimeouts, edits, internal, params, upstreams,
};
use super::print;
use super::reader::Reader;
use super::request_fields::RequestFields;
use super::schema::DefaultValue::Words;
use super::schema::Key;
use super::schema::Kind::List;
use super::table::Table;
use super::upstream::Upstream;
use super::value::Value;

#[rustfmt::skip] // One paragraph for each key.
pub(super) const UWSGI: Key =
    Key::new("uwsgi", List("addresses"), Words("see `files`, `proxy`, `fastcgi`"),
        "\"unix:/run/uwsgi/app.sock\"",
        "Forward requests to this uWSGI application by the uwsgi protocol (uWSGI's `socket`): a host \
         with its port, or `unix:` and the path of a socket. Several get requests in turn; see \
         [fastcgi.md](fastcgi.md#uwsgi).");

/// A uWSGI application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uwsgi {
    /// Its addresses, which get requests in turn.
    #[serde(rename = "uwsgi", serialize_with = "print::plain_upstreams")]
    pub upstreams: Vec<Upstream>,
    /// `true`: the path of the mount is `SCRIPT_NAME`, and the rest of the path `PATH_INFO`.
    /// `false`: the whole path is `PATH_INFO`.
    pub strip_prefix: bool,
    /// Directory of files that it may name in X-Accel-Redirect or X-Sendfile; `None`: none.
    #[serde(serialize_with = "print::optional_path")]
    pub internal: Option<PathBuf>,
    /// Edits of the fields that it gets; `None`: as the client sent them.
    pub request_fields: Option<RequestFields>,
    /// Bodies that are kept for slow clients.
    #[serde(flatten)]
    pub buffer: Buffer,
    /// Time for which a request waits while no address accepts connections; 0: it fails at once.
    #[serde(serialize_with = "print::duration")]
    pub retry_for: Duration,
    /// Time limit of connecting to it.
    #[serde(serialize_with = "print::duration")]
    pub connect_timeout: Duration,
    /// Time limits of a request.
    #[serde(flatten)]
    pub timeouts: GatewayTimeouts,
    /// Variables added to the request's; they replace those of the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

impl Uwsgi {
    /// An application with default settings.
    pub fn new(upstreams: Vec<Upstream>) -> Uwsgi {
        Uwsgi {
            upstreams,
            strip_prefix: false,
            internal: None,
            request_fields: None,
            buffer: Buffer::default(),
            retry_for: Duration::ZERO,
            connect_timeout: FASTCGI_CONNECT_TIMEOUT,
            timeouts: GatewayTimeouts::default(),
            params: BTreeMap::new(),
        }
    }
}

/// Reads the keys of a uWSGI mount; `written` is the value of `uwsgi`.
pub(super) fn uwsgi(
    table: &Table<'_>,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<Uwsgi> {
    let mut uwsgi = Uwsgi::new(upstreams(written, "unix:/run/uwsgi/app.sock", reader));
    let u = &mut uwsgi;
    table.set("strip_prefix", reader, Value::flag, &mut u.strip_prefix);
    u.internal = internal(table, reader);
    u.request_fields = edits(table, reader);
    u.buffer = Buffer::read(table, reader);
    table.set("retry_for", reader, Value::duration, &mut u.retry_for);
    table.set("connect_timeout", reader, Value::duration, &mut u.connect_timeout);
    u.timeouts = GatewayTimeouts::read(table, reader);
    table.set("params", reader, |v, r| Some(params(v, r)), &mut u.params);
    Some(uwsgi).filter(|uwsgi| !uwsgi.upstreams.is_empty())
}
