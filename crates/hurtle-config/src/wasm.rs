//! Settings of WebAssembly applications: the `wasm` table of a mount. `hurtle::wasm` runs them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::error::{ValueError, shown};
use super::gateway::{GatewayTimeouts, internal, params};
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::upstream::origin;
use super::value::Value;

/// A component of the world `wasi:http/proxy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wasm {
    /// The component, its grants and its limits.
    #[serde(rename = "wasm")]
    pub component: WasmComponent,
    /// Directory of files that it may name in X-Accel-Redirect or X-Sendfile; `None`: none.
    #[serde(serialize_with = "print::optional_path")]
    pub internal: Option<PathBuf>,
    /// Time limits of a request.
    #[serde(flatten)]
    pub timeouts: GatewayTimeouts,
}

/// The component, its grants and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WasmComponent {
    /// The file: absolute.
    #[serde(serialize_with = "print::path")]
    pub file: PathBuf,
    /// Memory of an instance.
    #[serde(serialize_with = "print::memory_size")]
    pub memory: usize,
    /// Processor time of a request.
    #[serde(serialize_with = "print::duration")]
    pub cpu_time: Duration,
    /// Instances at once.
    pub instances: u32,
    /// Origins of outbound requests: `http://` or `https://`, a host and a port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outbound: Vec<String>,
    /// Directories that it may read, by their paths in the component.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dirs: BTreeMap<String, PathBuf>,
    /// Directories that it may read and write, likewise.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub writable_dirs: BTreeMap<String, PathBuf>,
    /// Its environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

impl WasmComponent {
    /// A component without grants, with the default limits.
    pub fn new(file: PathBuf) -> WasmComponent {
        WasmComponent {
            file,
            memory: 128 << 20,
            cpu_time: Duration::from_secs(10),
            instances: 64,
            outbound: Vec::new(),
            dirs: BTreeMap::new(),
            writable_dirs: BTreeMap::new(),
            env: BTreeMap::new(),
        }
    }
}

/// Reads the keys of a WebAssembly mount; `written` is the value of `wasm`: a table, or the file.
pub(super) fn wasm(
    mount: &Table<'_>,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<Wasm> {
    let (internal, timeouts) = (internal(mount, reader), GatewayTimeouts::read(mount, reader));
    let component = match written.is_text() {
        true => file(written, reader).map(WasmComponent::new),
        false => component(&written.table(reader)?, reader),
    };
    Some(Wasm { component: component?, internal, timeouts })
}

fn component(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<WasmComponent> {
    let mut component = WasmComponent::new(PathBuf::new());
    let c = &mut component;
    table.set("memory", reader, Value::size, &mut c.memory);
    table.set("cpu_time", reader, Value::duration, &mut c.cpu_time);
    table.set("instances", reader, Value::integer, &mut c.instances);
    table.set("outbound", reader, |v, r| Some(v.list(r, outbound)), &mut c.outbound);
    table.set("dirs", reader, |v, r| Some(dirs(v, r)), &mut c.dirs);
    table.set("writable_dirs", reader, |v, r| Some(dirs(v, r)), &mut c.writable_dirs);
    table.set("env", reader, |v, r| Some(params(v, r)), &mut c.env);
    if let (Some(value), Some(twice)) =
        (table.get("writable_dirs"), c.writable_dirs.keys().find(|path| c.dirs.contains_key(*path)))
    {
        let wrong = ValueError::new(format!("{} is in dirs, too", shown(twice)));
        value.report(reader, wrong.hint("remove it from one of the two"));
    }
    let Some(written) = table.get("file") else {
        let wrong = ValueError::new("the component is missing").hint("write file = \"app.wasm\"");
        reader.report_missing(&table.spot, wrong);
        return None;
    };
    Some(WasmComponent { file: file(&written, reader)?, ..component })
}

fn file(written: &Value<'_>, reader: &mut Reader<'_>) -> Option<PathBuf> {
    let path = written.path(reader)?;
    reader.components.push((written.spot.clone(), path.clone()));
    Some(path)
}

fn outbound(written: &Value<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let wrong = |text: &str| {
        ValueError::new(format!("{} is no origin", shown(text)))
            .hint("write a scheme and a host, as in \"https://api.example.org\"")
    };
    written.parse(reader, |text| {
        for (scheme, port) in [("https://", 443), ("http://", 80)] {
            if let Some(rest) = text.strip_prefix(scheme) {
                let at = origin(text, rest, port).map_err(|_| wrong(text))?;
                return Ok(format!("{scheme}{}", at.plain()));
            }
        }
        Err(wrong(text))
    })
}

fn dirs(written: &Value<'_>, reader: &mut Reader<'_>) -> BTreeMap<String, PathBuf> {
    let mut dirs = BTreeMap::new();
    for (guest, spot, value) in written.pairs(reader) {
        if !guest.starts_with('/') || guest.contains('\0') {
            let wrong = ValueError::new("not an absolute path in the component");
            reader.report(&spot, wrong.hint("write it as in \"/data\" = \"data\""));
        }
        dirs.extend(value.directory(reader).map(|path| (guest.to_owned(), path)));
    }
    dirs
}
