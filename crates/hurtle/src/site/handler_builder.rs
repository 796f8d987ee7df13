//! Builds the handler of a mount from its configuration.

use std::rc::Rc;
use std::sync::Arc;

use crate::compress::Policy;
use crate::config::{self, FIXED_CONTENT_TYPE, FastCgi, Files, MountHandler};
use crate::disk::{Disk, Lane};
use crate::edits::ResponseEdits;
use crate::files::Routes;
use crate::handler::Handler;
use crate::handler::app::App;
use crate::handler::directory::Directory;
use crate::handler::fixed::{Fixed, Redirect};
use crate::handler::gateway::Gateway;
use crate::handler::proxy::Proxy;
use crate::handler::resources::Resources;
use crate::handler::status::Status;
use crate::metrics::RouteMetrics;
use crate::wasm::NotLoaded;

/// The site and the process that a handler is built for.
pub(super) struct HandlerBuilder<'a> {
    /// The name of the site.
    pub site: &'a str,
    /// The name of the mount.
    pub name: &'a str,
    pub resources: &'a Resources<'a>,
    /// The routes of the site.
    pub routes: &'a Arc<Routes>,
    /// The edits of the mount's responses.
    pub edits: &'a Rc<ResponseEdits>,
    /// Counters of the mount's requests.
    pub metrics: &'a Arc<RouteMetrics>,
    /// The policy by which files are compressed; `None`: they are not.
    pub compress: Option<Policy>,
    /// The proxy that was at the mount's path; it stays if its configuration does.
    pub previous: Option<&'a Rc<Proxy>>,
}

impl HandlerBuilder<'_> {
    /// Builds the handler of the mount with this configuration.
    pub(super) fn build(&self, config: &config::Mount) -> Handler {
        let shared = self.resources.shared;
        match &config.handler {
            MountHandler::Files(files) => {
                let directory = self.directory((**files).clone());
                Handler::Directory(directory.within(&shared.disk, self.routes))
            }
            MountHandler::Redirect { status, to } => {
                let matcher = config.matcher.clone().filter(|_| config.given_name.is_some());
                Handler::Redirect(Redirect { status: *status, to: to.clone(), matcher })
            }
            MountHandler::Proxy(proxy) => Handler::Proxy(self.proxy(proxy)),
            MountHandler::FastCgi(app) => self.fastcgi(app),
            MountHandler::Uwsgi(app) => {
                let gateway = Rc::new(Gateway::uwsgi(app, &shared.disk, &self.place()));
                Handler::Gateway { gateway, beside: None }
            }
            MountHandler::Cgi(cgi) => {
                let gateway = Rc::new(Gateway::programs(cgi, &shared.disk, &shared.slots));
                Handler::Gateway { gateway, beside: None }
            }
            MountHandler::Wasm(_) => Handler::App(self.component(&config.path)),
            MountHandler::Status => Handler::Status(Status::new(&shared.status, &shared.disk)),
            MountHandler::Abort => Handler::Abort,
            MountHandler::Fixed { status, body, content_type } => Handler::Fixed(Fixed {
                status: *status,
                body: body.clone().into(),
                media_type: (!body.is_empty() || *content_type != FIXED_CONTENT_TYPE)
                    .then(|| content_type.clone()),
            }),
        }
    }

    fn directory(&self, files: Files) -> Directory {
        let directory = Directory::new(files, self.resources, self.compress.clone());
        directory.of_site(self.edits, self.metrics)
    }

    fn proxy(&self, config: &config::Proxy) -> Rc<Proxy> {
        let shared = self.resources.shared;
        let tls = self.resources.upstream_tls.of(config);
        let known = self.previous.filter(|known| known.is_as(config, tls)).cloned();
        let proxy = known.unwrap_or_else(|| {
            let (lane, cache) = (names_lane(&shared.disk), shared.caches.of(config, &shared.disk));
            let proxy = Proxy::new(config.clone(), &shared.disk, lane, tls.cloned(), cache);
            Rc::new(proxy.of_mount(&self.place()))
        });
        proxy.count_in(self.resources.metrics, self.site, self.name, None);
        proxy
    }

    fn fastcgi(&self, app: &FastCgi) -> Handler {
        let gateway = Gateway::fastcgi(app, &self.resources.shared.disk, &self.place());
        let beside = app.files_beside().map(|files| self.directory(files).beside_scripts());
        Handler::Gateway { gateway: Rc::new(gateway), beside }
    }

    /// The WebAssembly component of a mount with this path.
    fn component(&self, path: &str) -> App {
        match self.resources.wasm.service(self.site, self.name) {
            Some((service, threads)) => App::isolated(self.site, path, service, threads),
            None => App::new(self.site, path, NotLoaded),
        }
    }

    /// The mount's name in messages.
    fn place(&self) -> String {
        format!("{} {}", self.site, self.name)
    }
}

/// Returns the lane in which the names of upstreams are resolved.
pub(super) fn names_lane(disk: &Disk) -> Lane {
    disk.lane_of("host names".to_owned())
}
