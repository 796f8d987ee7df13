//! The applications of a configuration. Those whose settings and component are as before are shared
//! with the configuration before, and so are their instances.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hurtle_wasm::{Application, Origin, Settings};
use xxhash_rust::xxh3::xxh3_128;

use super::service::WasmService;
use crate::config::{Config, Mount, MountHandler, Site, Wasm};
use crate::rt::Threads;
use crate::tls;

/// Size of the largest component. Those made from JavaScript and Python have some 15 and 40 MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Number of the next application that is compiled.
static NEXT_VERSION: AtomicU64 = AtomicU64::new(0);

/// The applications of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct WasmApps {
    apps: Arc<[LoadedApp]>,
    /// `None`: there are no applications.
    threads: Option<Arc<Threads>>,
}

/// An application of a mount.
#[derive(Clone, Debug)]
struct LoadedApp {
    /// The name of the site.
    site: String,
    /// The name of the mount, which is its path unless it has another.
    mount: String,
    config: Wasm,
    /// Hash of the component's file.
    hash: u128,
    /// Unique in this process.
    version: u64,
    application: Application,
}

impl WasmApps {
    /// Reads and compiles the components of a configuration, but for those that are as in the
    /// `previous` one. It takes seconds for large ones.
    ///
    /// # Errors
    /// Every component that cannot be used, one line each.
    pub(crate) fn load(
        config: &Config,
        previous: Option<&WasmApps>,
    ) -> Result<WasmApps, Vec<String>> {
        let known = previous.map_or(&[][..], |previous| &previous.apps);
        let (mut apps, mut problems) = (Vec::new(), Vec::new());
        for (site, mount, wasm) in config.sites.iter().flat_map(mounts) {
            match LoadedApp::load(&site, mount, wasm, known) {
                Ok(app) => apps.push(app),
                Err(e) => {
                    let (name, file) = (mount.name(), wasm.component.file.display());
                    problems.push(format!("{site}, mount {name}: {file}: {e}"));
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let threads = previous.and_then(|previous| previous.threads.clone());
        let threads = match (apps.is_empty(), threads) {
            (true, _) => None,
            (false, Some(threads)) => Some(threads),
            (false, None) => {
                let threads = Threads::start("wasm");
                Some(Arc::new(threads.map_err(|e| vec![format!("threads for wasm: {e}")])?))
            }
        };
        Ok(WasmApps { apps: apps.into(), threads })
    }

    /// The application of a mount, and the threads on which it runs. `None`: it is not loaded.
    pub(crate) fn service(&self, site: &str, path: &str) -> Option<(WasmService, Arc<Threads>)> {
        let app = self.apps.iter().find(|app| app.is_at(site, path))?;
        Some((WasmService(app.application.clone()), Arc::clone(self.threads.as_ref()?)))
    }

    /// Waits until no application is at work, also behind a response.
    pub(crate) async fn idle(&self) {
        for app in &*self.apps {
            app.application.idle().await;
        }
    }

    /// The versions of a site's applications. Equal versions are the same applications.
    pub(crate) fn versions(&self, site: &Site) -> Vec<u64> {
        let apps = mounts(site).filter_map(|(site, mount, _)| {
            self.apps.iter().find(|app| app.is_at(&site, &mount.name())).map(|app| app.version)
        });
        apps.collect()
    }
}

impl LoadedApp {
    fn is_at(&self, site: &str, path: &str) -> bool {
        self.site == site && self.mount == path
    }

    fn load(
        site: &str,
        mount: &Mount,
        config: &Wasm,
        known: &[LoadedApp],
    ) -> Result<LoadedApp, String> {
        let bytes = read(&config.component.file).map_err(|e| e.to_string())?;
        let (hash, name) = (xxh3_128(&bytes), mount.name());
        let same =
            |app: &&LoadedApp| app.is_at(site, &name) && app.config == *config && app.hash == hash;
        if let Some(app) = known.iter().find(same) {
            return Ok(app.clone());
        }
        let application = Application::compile(&bytes, settings(site, mount, config)?)?;
        let version = NEXT_VERSION.fetch_add(1, Relaxed);
        let site = site.to_owned();
        Ok(LoadedApp { site, mount: name, config: config.clone(), hash, version, application })
    }
}

/// The WebAssembly mounts of a site, each with the name of the site.
fn mounts(site: &Site) -> impl Iterator<Item = (String, &Mount, &Wasm)> {
    site.mounts.iter().filter_map(|mount| match &mount.handler {
        MountHandler::Wasm(wasm) => Some((site.name(), mount, &**wasm)),
        _ => None,
    })
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(io::Error::other(format!("more than {} MiB", FILE_BYTES_MAX >> 20))),
        false => Ok(bytes),
    }
}

fn settings(site: &str, mount: &Mount, config: &Wasm) -> Result<Settings, String> {
    let (component, timeouts) = (&config.component, &config.timeouts);
    let origins = component
        .outbound
        .iter()
        .map(|text| Origin::parse(text).ok_or_else(|| format!("{text} is no origin")));
    let needs_tls = component.outbound.iter().any(|origin| origin.starts_with("https:"));
    let mut env = component.env.clone();
    env.entry("HURTLE_PATH".to_owned()).or_insert_with(|| mount.path.clone());
    Ok(Settings {
        memory: component.memory,
        cpu_time: component.cpu_time,
        instances: component.instances,
        send_timeout: timeouts.send,
        first_byte_timeout: timeouts.first_byte,
        read_timeout: timeouts.read,
        outbound: origins.collect::<Result<_, _>>()?,
        outbound_tls: needs_tls.then(|| tls::outgoing(None)).transpose()?,
        dirs: component.dirs.clone(),
        writable_dirs: component.writable_dirs.clone(),
        env,
        ..Settings::new(&format!("{site}{}", mount.name()))
    })
}
