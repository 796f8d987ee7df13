//! The schema of a WebAssembly application.

use super::bounds::{
    TIME_MS_MAX, TIMEOUT_MS_MIN, WASM_INSTANCES_MAX, WASM_MEMORY_MAX, WASM_MEMORY_MIN,
};
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Integer, List, Map, Size, Text, Time};
use super::schema::{Key, Section};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static WASM: Section = Section {
    header: "[site.mount.wasm]",
    doc: "A WebAssembly component that answers requests; see [wasm.md](wasm.md). With the file alone, \
          `wasm = \"app.wasm\"`, it has no grants, and the default limits.",
    keys: &[&[
        Key::new("file", Text("a file"), Required, "\"app.wasm\"",
            "A component of the world `wasi:http/proxy` (WASI 0.2), in the binary format. It is \
             compiled at the start, and again by a reload when it has changed."),
        Key::new("memory", Size(WASM_MEMORY_MIN, WASM_MEMORY_MAX), Toml("\"128 MiB\""), "\"32 MiB\"",
            "Memory of an instance. An instance handles one request."),
        Key::new("cpu_time", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"10s\""), "\"500ms\"",
            "Processor time of a request (504)."),
        Key::new("instances", Integer(1, WASM_INSTANCES_MAX), Toml("64"), "200",
            "Instances at once. More requests wait, at most 1000 of them and for 5 seconds (503)."),
        Key::new("outbound", List("origins"), Words("none"), "[\"https://api.example.org\"]",
            "Origins that it may send requests to: a scheme, a host, and a port unless it is the \
             scheme's own."),
        Key::new("dirs", Map("a table of paths and directories"), Toml("{}"),
            "{ \"/data\" = \"data\" }",
            "Directories that it may read, by their paths in the component."),
        Key::new("writable_dirs", Map("a table of paths and directories"), Toml("{}"),
            "{ \"/state\" = \"state\" }",
            "Directories that it may read and write, likewise. Nothing limits the space it takes."),
        Key::new("env", Map("a table of names and strings"), Toml("{}"),
            "{ APP_ENV = \"prod\" }",
            "Its environment variables, in addition to `HURTLE_PATH`, the path of its mount."),
    ]],
};
