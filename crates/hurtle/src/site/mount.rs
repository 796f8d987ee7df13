//! A mount: a handler at a path of a site, with its access rules and helpers.

use std::rc::Rc;

use super::internal::Internal;
use crate::auth::Gate;
use crate::config::{self, Access, MountHandler};
use crate::disk::{Disk, Lane};
use crate::handler::Handler;
use crate::handler::app::App;
use crate::handler::directory::{Directory, Resources};
use crate::handler::fixed::{Fixed, Redirect};
use crate::handler::gateway::{Authorizer, Gateway, Slots};
use crate::handler::proxy::Proxy;

/// A handler at a path.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) path: Vec<u8>,
    pub(super) access: Access,
    /// The authentication of this mount, which replaces the site's.
    pub(super) gate: Option<Rc<Gate>>,
    pub(super) handler: Handler,
    /// Internal files that its upstreams may name.
    pub(super) internal: Option<Internal>,
    /// Files beside an application's scripts.
    pub(super) beside: Option<Directory>,
    /// The authorizer that is called before the handler.
    pub(super) authorizer: Option<Rc<Authorizer>>,
}

impl Mount {
    /// Creates a mount. `previous` is the proxy that was at its path; it stays if its configuration
    /// does.
    pub(super) fn new(
        config: &config::Mount,
        (resources, slots): (&Resources, &Slots),
        gate: Option<Rc<Gate>>,
        previous: Option<&Rc<Proxy>>,
    ) -> Mount {
        let named = match &config.handler {
            MountHandler::Proxy(proxy) => proxy.internal.as_ref(),
            MountHandler::FastCgi(app) => app.internal.as_ref(),
            MountHandler::Cgi(cgi) => cgi.internal.as_ref(),
            _ => None,
        };
        let internal = named.map(|root| Internal::new(root, resources));
        let mut beside = None;
        let handler = match &config.handler {
            MountHandler::Files(files) => {
                Handler::Directory(Directory::new(files.clone(), resources))
            }
            MountHandler::Redirect { status, to } => {
                Handler::Redirect(Redirect { status: *status, to: to.clone() })
            }
            MountHandler::Proxy(proxy) => {
                let known = previous.filter(|known| *known.config() == **proxy);
                Handler::Proxy(known.cloned().unwrap_or_else(|| {
                    let names = (&resources.disk, names_lane(&resources.disk));
                    let cache = resources.caches.of(proxy, &resources.disk);
                    Rc::new(Proxy::new((**proxy).clone(), names, cache))
                }))
            }
            MountHandler::FastCgi(app) => {
                beside = app.files_beside().map(|files| Directory::new(files, resources));
                Handler::Gateway(Rc::new(Gateway::fastcgi(app, &resources.disk)))
            }
            MountHandler::Cgi(cgi) => {
                Handler::Gateway(Rc::new(Gateway::programs(cgi, &resources.disk, slots)))
            }
            MountHandler::Fixed { status, body, content_type } => Handler::Fixed(Fixed {
                status: *status,
                body: body.clone().into(),
                media_type: content_type.clone(),
            }),
        };
        let access = config.access.clone();
        let authorizer =
            config.authorizer.clone().map(|upstream| Rc::new(Authorizer::new(upstream)));
        let path = mount_path(&config.path);
        Mount { path, access, gate, handler, internal, beside, authorizer }
    }

    /// Creates the mount of an application.
    pub(super) fn of_app(app: App, gate: Option<Rc<Gate>>) -> Mount {
        Mount {
            path: mount_path(app.mount()),
            access: Access::default(),
            gate,
            handler: Handler::App(app),
            internal: None,
            beside: None,
            authorizer: None,
        }
    }

    pub(super) fn takes_uploads(&self) -> bool {
        matches!(&self.handler, Handler::Directory(directory) if directory.takes_uploads())
    }

    pub(super) fn reads_bodies(&self) -> bool {
        matches!(&self.handler, Handler::App(_) | Handler::Proxy(_) | Handler::Gateway(_))
            || self.takes_uploads()
    }

    pub(super) fn is_proxy(&self) -> bool {
        matches!(&self.handler, Handler::Proxy(_))
    }

    pub(super) fn has_cache(&self) -> bool {
        matches!(&self.handler, Handler::Proxy(proxy) if proxy.cache().is_some())
    }

    pub(super) fn has_files(&self) -> bool {
        matches!(&self.handler, Handler::Directory(_)) || self.beside.is_some()
    }

    pub(super) fn holds(&self, path: &[u8]) -> bool {
        holds(&self.path, path)
    }
}

/// Returns the lane in which the names of upstreams are resolved.
pub(super) fn names_lane(disk: &Disk) -> Lane {
    disk.lane_of("host names".to_owned())
}

/// Returns whether a path is the mount's or beneath it.
pub(super) fn holds(mount: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Returns a mount's path; the root is empty, because its slash begins the rest.
pub(super) fn mount_path(path: &str) -> Vec<u8> {
    if path == "/" { vec![] } else { path.as_bytes().to_vec() }
}
