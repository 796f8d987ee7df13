//! A uWSGI application: the `uwsgi` key of a mount. `hurtle::handler::gateway` connects to it.

use serde::Serialize;

use super::buffering::Buffer;
use super::gateway::{GatewayCall, call, upstreams};
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::Words;
use super::schema::Key;
use super::schema::Kind::List;
use super::table::Table;
use super::upstream::Upstream;
use super::upstream_timeouts::Connecting;
use super::value::Value;

#[rustfmt::skip] // One paragraph for each key.
pub(super) const UWSGI: Key =
    Key::new("uwsgi", List("addresses"), Words("see `files`, `proxy`, `fastcgi`"),
        "\"unix:/run/uwsgi/app.sock\"",
        "Forward requests to this uWSGI application by the uwsgi protocol (uWSGI's `socket`): a host \
         with its port, or `unix:` and the path of a socket. Several get requests in turn; see \
         [fastcgi.md](fastcgi.md#uwsgi).");

/// A uWSGI application, the handler of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Uwsgi {
    /// Its addresses, which get requests in turn.
    #[serde(rename = "uwsgi", serialize_with = "print::plain_upstreams")]
    pub upstreams: Vec<Upstream>,
    /// `true`: the path of the mount is `SCRIPT_NAME`, and the rest of the path `PATH_INFO`.
    /// `false`: the whole path is `PATH_INFO`.
    pub strip_prefix: bool,
    /// Bodies that are kept for slow clients.
    #[serde(flatten)]
    pub buffer: Buffer,
    /// Time limits of connecting to it.
    #[serde(flatten)]
    pub connecting: Connecting,
    /// Settings of its requests.
    #[serde(flatten)]
    pub call: GatewayCall,
}

impl Uwsgi {
    /// An application with default settings.
    pub fn new(upstreams: Vec<Upstream>) -> Uwsgi {
        Uwsgi { upstreams, ..Uwsgi::default() }
    }
}

/// Reads the keys of a uWSGI mount; `written` is the value of `uwsgi`.
pub(super) fn uwsgi(
    table: &Table<'_>,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<Uwsgi> {
    let mut uwsgi = Uwsgi {
        upstreams: upstreams(written, "unix:/run/uwsgi/app.sock", reader),
        strip_prefix: false,
        buffer: Buffer::read(table, reader),
        connecting: Connecting::read(table, reader),
        call: call(table, reader),
    };
    table.set("strip_prefix", reader, Value::flag, &mut uwsgi.strip_prefix);
    Some(uwsgi).filter(|uwsgi| !uwsgi.upstreams.is_empty())
}
