//! Settings of WebAssembly applications: the `wasm` table of a mount. `hurtle::wasm` runs them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::bounds::{
    TIME_MS_MAX, TIMEOUT_MS_MIN, WASM_INSTANCES_MAX, WASM_MEMORY_MAX, WASM_MEMORY_MIN,
};
use super::error::{ValueError, shown};
use super::gateway::{internal, params};
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::Required;
use super::schema::Kind::{Integer, List, Map, Size, Text, Time};
use super::schema::{Key, Section};
use super::settings::{ALWAYS, settings};
use super::table::Table;
use super::upstream::origin;
use super::upstream_timeouts::UpstreamTimeouts;
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
    pub timeouts: UpstreamTimeouts,
}

#[rustfmt::skip] // One paragraph for each key.
pub(super) static WASM: Section = Section {
    header: "[site.mount.wasm]",
    doc: "A WebAssembly component that answers requests; see [wasm.md](wasm.md). With the file alone, \
          `wasm = \"app.wasm\"`, it has no grants, and the default limits.",
    keys: &[&[
        Key::new("file", Text("a file"), Required, "\"app.wasm\"",
            "A component of the world `wasi:http/proxy` (WASI 0.2), in the binary format. It is \
             compiled at the start, and again by a reload when it has changed."),
    ], WASM_KEYS],
};

settings! {
    /// A WebAssembly component that answers requests, its grants and its limits.
    #[derive(Eq)]
    pub struct WasmComponent: WASM_KEYS with ALWAYS {
        /// Memory of an instance. An instance handles one request.
        #[serde(serialize_with = "print::memory_size")]
        memory: usize = 128 << 20, Size(WASM_MEMORY_MIN, WASM_MEMORY_MAX), "\"32 MiB\"";
        /// Processor time of a request (504).
        #[serde(serialize_with = "print::duration")]
        cpu_time: Duration = Duration::from_secs(10), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"500ms\"";
        /// Instances at once. More requests wait, at most 1000 of them and for 5 seconds (503).
        instances: u32 = 64, Integer(1, WASM_INSTANCES_MAX), "200";
        /// Origins that it may send requests to: a scheme, a host, and a port unless it is the
        /// scheme's own.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        outbound: Vec<String> = Vec::new(), List("origins"), "[\"https://api.example.org\"]",
            or "none", by |v, r| Some(v.list(r, outbound));
        /// Directories that it may read, by their paths in the component.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        dirs: BTreeMap<String, PathBuf> = BTreeMap::new(), Map("a table of paths and directories"),
            "{ \"/data\" = \"data\" }", or "none", by |v, r| Some(dirs(v, r));
        /// Directories that it may read and write, likewise. Nothing limits the space it takes.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        writable_dirs: BTreeMap<String, PathBuf> = BTreeMap::new(), Map("a table of paths and directories"),
            "{ \"/state\" = \"state\" }", or "none", by |v, r| Some(dirs(v, r));
        /// Its environment variables, in addition to `HURTLE_PATH`, the path of its mount.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String> = BTreeMap::new(), Map("a table of names and strings"),
            "{ APP_ENV = \"prod\" }", or "none", by |v, r| Some(params(v, r));
    }
    beside {
        /// Absolute path of the component's file.
        #[serde(serialize_with = "print::path")]
        file: PathBuf = PathBuf::new();
    }
}

impl WasmComponent {
    /// A component without grants, with the default limits.
    pub fn new(file: PathBuf) -> WasmComponent {
        WasmComponent { file, ..WasmComponent::default() }
    }
}

/// Reads the keys of a WebAssembly mount; `written` is the value of `wasm`: a table, or the file.
pub(super) fn wasm(
    mount: &Table<'_>,
    written: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<Wasm> {
    let (internal, timeouts) = (internal(mount, reader), UpstreamTimeouts::read(mount, reader));
    let component = match written.is_text() {
        true => file(written, reader).map(WasmComponent::new),
        false => component(&written.table(reader)?, reader),
    };
    Some(Wasm { component: component?, internal, timeouts })
}

fn component(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<WasmComponent> {
    let component = WasmComponent::read(table, reader);
    if let (Some(value), Some(twice)) = (
        table.get("writable_dirs"),
        component.writable_dirs.keys().find(|path| component.dirs.contains_key(*path)),
    ) {
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
