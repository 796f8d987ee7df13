//! The host's side of one instance: what it may use of the system.

use std::io;
use std::sync::Arc;

use http::Request;
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Result};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use crate::log::Output;
use crate::outbound::{Outbound, Reply, Requests};
use crate::progress::Progress;
use crate::settings::Settings;

/// Resources of the host that an instance holds at once: fields, bodies, streams, open files.
const RESOURCES_MAX: usize = 512;

/// Bytes of one section of header fields.
const FIELDS_BYTES_MAX: usize = 64 << 10;

/// Bytes of one write to a body. Two writes wait for their reader; then the component waits.
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Random bytes of one call, during which no other component runs.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// The data of an instance's store.
pub(crate) struct Host {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
    hooks: Hooks,
    pub(crate) memory: MemoryLimit,
    pub(crate) progress: Arc<Progress>,
}

impl Host {
    /// # Errors
    /// A granted directory cannot be opened.
    pub(crate) fn new(
        settings: &Settings,
        name: &Arc<str>,
        outbound: &Arc<Outbound>,
        progress: &Arc<Progress>,
    ) -> io::Result<Host> {
        let output = Output::new(name);
        let mut wasi = WasiCtxBuilder::new();
        wasi.max_random_size(RANDOM_BYTES_MAX);
        wasi.stdout(output.clone()).stderr(output).allow_tcp(false).allow_udp(false);
        for (name, value) in &settings.env {
            wasi.env(name, value);
        }
        crate::files::grant(settings, &mut wasi)?;
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(FIELDS_BYTES_MAX);
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        Ok(Host {
            wasi: wasi.build(),
            http,
            table,
            hooks: Hooks(Requests::new(outbound)),
            memory: MemoryLimit { used: 0, limit: settings.memory, progress: Arc::clone(progress) },
            progress: Arc::clone(progress),
        })
    }
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for Host {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

struct Hooks(Requests);

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Reply, Error>> + Send> {
        Box::new(self.0.send(request, options))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES_MAX
    }
}

/// Limits the memories of an instance, all together.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    used: usize,
    limit: usize,
    progress: Arc<Progress>,
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        // The runtime refuses that afterwards.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.limit {
            self.progress.note_memory();
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    /// The pool limits tables.
    fn table_growing(
        &mut self,
        _current: usize,
        _desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool> {
        Ok(true)
    }
}
