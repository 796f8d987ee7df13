//! A program without WebAssembly has no such applications; `apps` has the contract.

use std::sync::Arc;

use super::NotLoaded;
use crate::config::{Config, Site};
use crate::rt::Threads;

/// An empty list: `config::load` refuses the configuration of applications.
#[derive(Clone, Debug, Default)]
pub(crate) struct WasmApps(());

impl WasmApps {
    pub(crate) fn load(_: &Config, _: Option<&WasmApps>) -> Result<WasmApps, Vec<String>> {
        Ok(WasmApps(()))
    }

    pub(crate) fn service(&self, _site: &str, _path: &str) -> Option<(NotLoaded, Arc<Threads>)> {
        None
    }

    pub(crate) async fn idle(&self) {}

    pub(crate) fn versions(&self, _: &Site) -> Vec<u64> {
        Vec::new()
    }
}
