//! Directories of the system that an application may use.

use std::io;

use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use crate::settings::Settings;

/// Opens the granted directories for one instance.
///
/// # Errors
/// A directory cannot be opened.
pub(crate) fn grant(settings: &Settings, wasi: &mut WasiCtxBuilder) -> io::Result<()> {
    let readable = settings.dirs.iter().map(|dir| (dir, FsPerms::ReadOnly));
    let writable = settings.writable_dirs.iter().map(|dir| (dir, FsPerms::ReadWrite));
    for ((guest, path), permissions) in readable.chain(writable) {
        wasi.preopened_dir(path, guest, permissions)
            .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))?;
    }
    Ok(())
}
