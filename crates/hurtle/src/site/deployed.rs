//! Applications that are deployed at run time, in addition to the configured mounts. The server
//! starts them and informs each worker.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::Sites;
use super::handler_builder::names_lane;
use super::mount::Mount;
use crate::config;
use crate::disk::Disk;
use crate::files::Routes;
use crate::handler::Handler;
use crate::handler::proxy::{Availability, Proxy};
use crate::metrics::WorkerMetrics;

/// An application in the form that workers receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deployment {
    /// A unique number of the application and its version.
    pub serial: u64,
    /// The name under which its requests are counted, because each version has another address;
    /// `None`: its addresses.
    pub name: Option<String>,
    /// The name of the site ([`config::Site::name`]).
    pub site: String,
    /// The path of its mount; unique in its site.
    pub path: String,
    /// The proxy configuration for its process.
    pub proxy: config::Proxy,
    /// The state of its process.
    pub availability: Availability,
}

/// The deployed applications of a site in one worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Deployed {
    mounted: RefCell<Vec<Mounted>>,
    /// Informed of the paths, so that archives leave them out.
    routes: Arc<Routes>,
}

#[derive(Clone, Debug)]
struct Mounted {
    serial: u64,
    mount: Rc<Mount>,
}

impl Mounted {
    fn is_up(&self) -> bool {
        matches!(&self.mount.handler, Handler::Proxy(proxy) if proxy.is_open())
    }

    fn set_availability(&self, availability: Availability) {
        if let Handler::Proxy(proxy) = &self.mount.handler {
            proxy.set_availability(availability);
        }
    }
}

impl Deployed {
    /// Returns the routes of the site.
    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Has `routes` know the deployed paths.
    pub(super) fn with_routes(self, routes: Arc<Routes>) -> Deployed {
        let paths = self.mounted.borrow().iter().map(|app| app.mount.path.clone()).collect();
        routes.deploy(paths);
        Deployed { routes, ..self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mounted.borrow().is_empty()
    }

    /// Returns the mount of a path if it is longer than `other`, the length of the configured
    /// mount.
    pub(super) fn holding(&self, path: &[u8], other: Option<usize>) -> Option<Rc<Mount>> {
        let mounted = self.mounted.borrow();
        let closer = |app: &&Mounted| other.is_none_or(|bytes| app.mount.path.len() > bytes);
        let found = mounted.iter().filter(closer).find(|app| app.mount.holds(path));
        found.map(|app| Rc::clone(&app.mount))
    }

    /// Publishes the state of the applications' upstreams.
    pub(super) fn publish(&self, now_ms: u64) {
        for app in &*self.mounted.borrow() {
            if let Handler::Proxy(proxy) = &app.mount.handler {
                proxy.publish(now_ms);
            }
        }
    }

    /// Replaces the list. Applications that stay keep their connections.
    fn update(&self, list: &[&Deployment], disk: &Disk, metrics: &WorkerMetrics) {
        let mut before = self.mounted.take();
        let mut mounted: Vec<Mounted> = Vec::new();
        for deployment in list {
            let known = before.iter().position(|app| app.serial == deployment.serial);
            let app = known.map(|at| before.swap_remove(at)).unwrap_or_else(|| {
                let lane = names_lane(disk);
                let proxy = Proxy::new(deployment.proxy.clone(), disk, lane, None, None);
                let Deployment { site, path, .. } = deployment;
                let proxy = proxy.of_mount(&format!("{site} {path}"));
                proxy.watch();
                proxy.count_in(metrics, site, path, deployment.name.as_deref());
                let route = metrics.route(site, path);
                let mount = Mount::of_deployment(path, proxy, route);
                Mounted { serial: deployment.serial, mount: Rc::new(mount) }
            });
            app.set_availability(deployment.availability);
            mounted.push(app);
        }
        // Longest first, so that the first match is the longest.
        mounted.sort_by_key(|app| std::cmp::Reverse(app.mount.path.len()));
        self.routes.deploy(mounted.iter().map(|app| app.mount.path.clone()).collect());
        self.mounted.replace(mounted);
        // Ends the waits for removed applications, and for those that were starting. One that is
        // replaced goes on for requests that came before.
        let mounted = self.mounted.borrow();
        let is_replaced =
            |app: &Mounted| mounted.iter().any(|new| new.mount.path == app.mount.path);
        let ended = before.iter().filter(|app| !(app.is_up() && is_replaced(app)));
        ended.for_each(|app| app.set_availability(Availability::Down));
    }
}

impl Sites {
    /// Replaces the deployed applications of all sites.
    pub(crate) fn deploy(&self, list: &[Deployment], disk: &Disk, metrics: &WorkerMetrics) {
        for site in &self.sites {
            let name = site.config.name();
            let own: Vec<&Deployment> = list.iter().filter(|app| app.site == name).collect();
            site.deployed.update(&own, disk, metrics);
        }
        metrics.retain_used();
    }
}
