//! The default value of every key. (`Limits` has its own beside its fields.)

use std::collections::BTreeMap;
use std::mem;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{self, Path, PathBuf};
use std::thread;

use http::header::ALT_SVC;
use http::{HeaderValue, StatusCode};

use super::files::Files;
use super::matcher::Matcher;
use super::names::Named;
use super::rate_limit::{MountLimits, SiteLimits};
use super::request_policy::RequestPolicy;
use super::rotation::Rotation;
use super::tls::{CertificateSource, MountClientAuth, Tls};
use super::try_file::TryFile;
use super::types::{
    Access, AccessLog, Config, EarlyHints, ErrorLog, HeaderRule, Listen, LogField, LogFormat,
    LogLevel, LogTarget, Mount, MountHandler, Rule, RuleAction, Site,
};

/// Default port with TLS.
const TLS_PORT: u16 = 8443;

/// Status of a redirect: temporary, so that browsers do not remember a mistake.
pub(super) const REDIRECT_STATUS: StatusCode = StatusCode::FOUND;
/// Status of a fixed response.
pub(super) const FIXED_STATUS: StatusCode = StatusCode::OK;
/// Content-Type of a fixed response.
pub const FIXED_CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// Path of a mount.
pub(super) const MOUNT_PATH: &str = "/";
/// Path of the mount of a single file.
const FILE_MOUNT: &str = "/.single-file";
/// Pattern of a header rule: every path.
pub(super) const HEADER_PATTERN: &str = "**";

impl Config {
    /// A configuration of these sites, with defaults for all else.
    pub fn new(sites: Vec<Site>) -> Config {
        Config { sites, ..Config::default() }
    }

    /// Replaces listeners in clear by TLS listeners, with a certificate of the local authority in
    /// this directory for every site. `any_port`: the address was not chosen by the user, so the
    /// default TLS address is used.
    pub fn enable_local_tls(&mut self, authority: &Path, any_port: bool) {
        self.listen_tls = mem::take(&mut self.listen);
        if any_port {
            self.listen_tls = vec![Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, TLS_PORT)))];
        }
        for site in &mut self.sites {
            let source = CertificateSource::Local(authority.to_owned());
            site.tls = Some(Tls { source, ..Tls::default() });
        }
        self.set_local_authority(authority);
    }

    /// Returns the addresses whose UDP ports serve HTTP/3. Datagrams have no PROXY protocol header,
    /// so the listeners of load balancers are not among them.
    pub fn http3_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let is_proxied = |listen: &Listen| {
            let is_on = |on: &[Listen]| on.is_empty() || on.contains(listen);
            self.proxy_protocol.as_ref().is_some_and(|proxied| is_on(&proxied.on))
        };
        let tls = self.listen_tls.iter().filter(|_| self.http3);
        tls.filter(move |listen| !is_proxied(listen)).filter_map(|listen| match listen {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        })
    }

    /// Has responses of the sites with TLS name a UDP port for HTTP/3 (RFC 7838), unless a rule of
    /// the site sets or removes Alt-Svc. `port_of`: the port at which a site is served.
    pub fn announce_http3(&mut self, port_of: impl Fn(&Site) -> Option<u16>) {
        for site in self.sites.iter_mut().filter(|site| site.tls.is_some()) {
            let Some(port) = port_of(site) else { continue };
            let text = format!("h3=\":{port}\"; ma=86400");
            let Ok(value) = HeaderValue::try_from(text) else { continue };
            let set = vec![(ALT_SVC, value)];
            let matcher = Matcher::of_pattern(HEADER_PATTERN);
            // The first rule, so that those of the site come after it.
            site.headers.insert(0, HeaderRule::setting(matcher, set));
        }
    }

    /// The configuration of `hurtle DIR`: one site for every name, the directory at `/`, listings
    /// on, no access log. A relative `dir` is relative to the working directory.
    pub fn for_directory(dir: PathBuf) -> Config {
        let root = path::absolute(&dir).unwrap_or(dir);
        let files = Files { listing: true, ..Files::new(root) };
        Config::new(vec![Site::of_files(files)])
    }

    /// Configuration for `hurtle FILE`: the file has its own name and `/`, and nothing beside it is
    /// served. `None`: its name is not UTF-8, or it does not exist.
    pub fn for_file(file: &Path) -> Option<Config> {
        let path = format!("/{}", file.file_name()?.to_str()?);
        // A link may lead anywhere: the user has named it.
        let real = file.canonicalize().ok()?;
        let files = Files {
            try_files: vec![TryFile::Path(format!("/{}", real.file_name()?.to_str()?))],
            dotfiles: true,
            ..Files::new(real.parent()?.to_owned())
        };
        let mut site = Site::of_files(files);
        let handler = MountHandler::Fixed {
            status: StatusCode::NOT_FOUND,
            body: "Not Found\n".to_owned(),
            content_type: FIXED_CONTENT_TYPE,
        };
        site.mounts.push(Mount { handler, ..site.mounts[0].clone() });
        site.mounts[0].path = FILE_MOUNT.to_owned();
        // A mount's own path would be redirected to a trailing slash.
        let to = || RuleAction::Rewrite(format!("{FILE_MOUNT}{path}"), None);
        let rule = |pattern: &str| Rule { matcher: Matcher::of_pattern(pattern), action: to() };
        site.rules = vec![rule(MOUNT_PATH), rule(&path)];
        Some(Config::new(vec![site]))
    }
}

impl Mount {
    /// A mount of a path and all beneath it, with default settings. The path begins with `/`, and
    /// ends without one unless it is `/`.
    pub fn new(path: &str, handler: MountHandler) -> Mount {
        Mount {
            path: path.to_owned(),
            given_name: None,
            exact: false,
            matcher: None,
            is_final: false,
            handler,
            access: Access::default(),
            auth: None,
            client_auth: MountClientAuth::None,
            authorizer: None,
            limits: MountLimits::default(),
            policy: RequestPolicy::default(),
            error_pages: BTreeMap::new(),
            intercept_errors: false,
            cors: None,
            compress: None,
            headers: Vec::new(),
        }
    }

    /// The directory of a mount of files, or the file of `Config::for_file`.
    pub fn served(&self) -> Option<PathBuf> {
        let MountHandler::Files(files) = &self.handler else { return None };
        Some(match files.try_files.as_slice() {
            [TryFile::Path(path)] if self.path == FILE_MOUNT => {
                files.root.join(path.trim_start_matches('/'))
            }
            _ => files.root.clone(),
        })
    }
}

impl Site {
    /// A site without names, rules or mounts.
    pub fn new() -> Site {
        Site {
            hosts: Vec::new(),
            listen: Vec::new(),
            default: false,
            rules: Vec::new(),
            mounts: Vec::new(),
            headers: Vec::new(),
            error_pages: BTreeMap::new(),
            maintenance: None,
            access: Access::default(),
            tls: None,
            auth: None,
            early_hints: EarlyHints::default(),
            limits: SiteLimits::default(),
            policy: RequestPolicy::default(),
            cors: None,
            security_headers: false,
            compress: None,
        }
    }

    /// A default site that serves these files only.
    pub(super) fn of_files(files: Files) -> Site {
        let mount = Mount::new(MOUNT_PATH, MountHandler::Files(Box::new(files)));
        Site { default: true, mounts: vec![mount], ..Site::new() }
    }
}

impl Default for Site {
    fn default() -> Site {
        Site::new()
    }
}

impl Default for AccessLog {
    fn default() -> AccessLog {
        AccessLog {
            format: LogFormat::Combined,
            to: LogTarget::Stdout,
            rotation: Rotation::default(),
            matcher: None,
        }
    }
}

impl Default for ErrorLog {
    fn default() -> ErrorLog {
        ErrorLog { level: LogLevel::Info, to: LogTarget::Stderr, rotation: Rotation::default() }
    }
}

/// The value of `workers = "auto"`: the processors this process may use, container quotas included.
pub(super) fn workers() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl LogField {
    /// The default fields of a JSON access log: those of every request, whatever answers it.
    pub fn common() -> Vec<LogField> {
        let common = LogField::NAMES.iter().filter(|(_, field)| !field.is_detail());
        common.map(|(_, field)| *field).collect()
    }

    /// Returns whether the field must be named to be logged.
    pub fn is_detail(self) -> bool {
        self as usize > LogField::Completion as usize
    }
}
