//! The settings of a server: what a configuration decides, with its certificates, users and
//! components read. `lifecycle::reload` puts others in force.

use std::io;
use std::sync::Arc;

use super::address_counts::AddressCounts;
use super::certificates;
use crate::auth::Guard;
use crate::config::Config;
use crate::shared_store;
use crate::tls::{Keyring, UpstreamConfigs};
use crate::transport::Addresses;
use crate::wasm::WasmApps;

/// The parts of the server's state that a configuration decides.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Arc<Config>,
    pub(crate) guard: Guard,
    pub(crate) keyring: Option<Arc<Keyring>>,
    pub(crate) upstream_tls: UpstreamConfigs,
    pub(crate) wasm: WasmApps,
    /// The store that several servers share; `None`: there is none.
    pub(crate) store: Option<Arc<shared_store::Settings>>,
    /// Rate limits of client addresses; `None`: unlimited.
    pub(crate) addresses: Option<Addresses>,
    /// `None`: an address may have any number of connections.
    pub(crate) connections_by_address: Option<AddressCounts>,
}

impl Settings {
    /// Makes the state for a configuration. What is equal under the `previous` one is shared.
    ///
    /// # Errors
    /// The problems, one line each.
    pub(crate) fn new(
        config: Config,
        previous: Option<&Settings>,
    ) -> Result<Settings, Vec<String>> {
        let line = |e: io::Error| vec![e.to_string()];
        let known = previous.and_then(|previous| previous.keyring.as_deref());
        let keyring = certificates::load(&config, known).map_err(line)?;
        let upstream_tls =
            UpstreamConfigs::load(&config, previous.map(|previous| &previous.upstream_tls))?;
        let wasm = WasmApps::load(&config, previous.map(|previous| &previous.wasm))?;
        let store = store(&config, previous).map_err(|e| vec![e])?;
        let guard = Guard::read(&config, previous.map(|previous| &previous.guard)).map_err(line)?;
        let rate = config.limits.address_rate;
        let same_rate = previous.filter(|known| known.config.limits.address_rate == rate);
        let addresses = match same_rate {
            Some(known) => known.addresses.clone(),
            None => (rate > 0).then(|| Addresses::new(rate)),
        };
        let known = previous.and_then(|previous| previous.connections_by_address.as_ref());
        let connections_by_address = config.limits.connections_per_address.map(|max| match known {
            Some(known) => known.with_max(max),
            None => AddressCounts::new(max),
        });
        let config = Arc::new(config);
        Ok(Settings {
            config,
            guard,
            keyring,
            upstream_tls,
            wasm,
            store,
            addresses,
            connections_by_address,
        })
    }
}

/// Reads the settings of the store; those that are as before are shared.
fn store(
    config: &Config,
    previous: Option<&Settings>,
) -> Result<Option<Arc<shared_store::Settings>>, String> {
    let Some(store) = &config.store else { return Ok(None) };
    let settings = shared_store::Settings::load(store)?;
    let known = previous.and_then(|previous| previous.store.as_ref());
    Ok(Some(match known.filter(|known| ***known == settings) {
        Some(known) => Arc::clone(known),
        None => Arc::new(settings),
    }))
}
