//! Applications that come and go while the server runs, mounted beside what the configuration says.
//! Starting them, and telling each worker of them, is the server's.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::Sites;
use super::mount::{holds, mount_path};
use crate::config;
use crate::disk::{Disk, Lane};
use crate::handler::proxy::{Proxy, Standing};

/// An application, as the workers are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// What tells it from all others, and from what it was before it was changed.
    pub serial: u64,
    /// Its site's number.
    pub site: usize,
    /// Where it is mounted; nothing else of that site is.
    pub path: String,
    /// Who answers.
    pub proxy: config::Proxy,
    /// Whether it can be asked.
    pub standing: Standing,
}

/// A site's, as one worker knows them.
#[derive(Debug, Default)]
pub(super) struct Deployed(RefCell<Vec<Mounted>>);

#[derive(Debug)]
struct Mounted {
    serial: u64,
    path: Vec<u8>,
    proxy: Rc<Proxy>,
}

/// The lane that a worker's look their upstreams' names up in, once there is one.
#[derive(Debug, Default)]
pub(super) struct NamesLane(Cell<Option<Lane>>);

impl NamesLane {
    fn of(&self, disk: &Disk) -> Lane {
        let lane = self.0.get().unwrap_or_else(|| disk.lane());
        self.0.set(Some(lane));
        lane
    }
}

impl Deployed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Who answers for a path, if he is mounted closer to it than a mount with a path of so many
    /// bytes.
    pub(super) fn holding(&self, path: &[u8], other: Option<usize>) -> Option<Rc<Proxy>> {
        let mounted = self.0.borrow();
        let closer = |app: &&Mounted| other.is_none_or(|bytes| app.path.len() > bytes);
        let found = mounted.iter().filter(closer).find(|app| holds(&app.path, path));
        found.map(|app| Rc::clone(&app.proxy))
    }

    /// Takes these in place of those known before, of whom those that stay keep their connections.
    fn update(&self, list: &[&Deployment], disk: &Disk, lane: &NamesLane) {
        let mut before = self.0.take();
        let mut mounted: Vec<Mounted> = Vec::new();
        for deployment in list {
            let known = before.iter().position(|app| app.serial == deployment.serial);
            let app = known.map(|at| before.swap_remove(at)).unwrap_or_else(|| {
                let proxy = Proxy::new(deployment.proxy.clone(), (disk, lane.of(disk)), None);
                proxy.watch();
                let path = mount_path(&deployment.path);
                Mounted { serial: deployment.serial, path, proxy: Rc::new(proxy) }
            });
            app.proxy.stand(deployment.standing);
            mounted.push(app);
        }
        // The first that matches is then the longest.
        mounted.sort_by_key(|app| std::cmp::Reverse(app.path.len()));
        self.0.replace(mounted);
        // Who waits for one of those waits in vain.
        before.iter().for_each(|app| app.proxy.stand(Standing::Down));
    }
}

impl Sites {
    /// Takes these applications in place of those deployed before.
    pub fn deploy(&self, list: &[Deployment], disk: &Disk) {
        for (number, site) in self.sites.iter().enumerate() {
            let own: Vec<&Deployment> = list.iter().filter(|app| app.site == number).collect();
            site.deployed.update(&own, disk, &self.names_lane);
        }
    }
}
