//! Settings that blocks inherit: from `http` to `server` to `location`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hurtle_http::semantics::media;

use super::error_pages::{self, spa_of};
use super::files::script_of;
use super::gates::TlsSettings;
use super::kind::{FilesKind, GuardKind, Kind, ResponseKind, StructureKind, UpstreamKind};
use super::mount::ErrorPages;
use super::mount::Field;
use super::path::{Prefix, absolute, bytes, has_variable, seconds};
use super::report::Report;
use super::setting::Setting;
use super::shared::Shared;
use super::syntax::Directive;
use super::tuning::needs;
use super::type_map::{ExpiryMap, TypeMap};
use super::upstream_scope::{FASTCGI, HTTP, UWSGI, UpstreamScope};
use super::value_map::ValueMaps;

/// Settings in force in a block. A translation reads them by `Block::get`.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Directives that a translation has used in a server or in one of its locations.
    pub(super) used: Rc<RefCell<BTreeSet<Kind>>>,
    pub(super) root: Setting<Option<String>>,
    pub(super) index: Setting<Vec<String>>,
    /// `index` whose last element is a script, which answers for directories without an index.
    pub(super) index_script: Setting<Option<Directive>>,
    pub(super) listing: Setting<bool>,
    /// Fields of `add_header`, names in lower case.
    pub(super) headers: Setting<BTreeMap<String, Field>>,
    /// Cache-Control of `expires`.
    pub(super) expires: Setting<Option<String>>,
    /// That of a map of media types.
    pub(super) typed_expires: Setting<ExpiryMap>,
    /// Maps of media types, by their variables.
    pub(super) type_maps: Rc<BTreeMap<String, TypeMap>>,
    /// Maps to constants, by their variables.
    pub(super) value_maps: Rc<ValueMaps>,
    pub(super) errors: Setting<ErrorPages>,
    /// The page sent with 200 in place of 404.
    pub(super) spa: Setting<Option<String>>,
    pub(super) realm: Setting<Option<String>>,
    pub(super) users: Setting<Option<String>>,
    /// Client addresses in the order written; `true`: admitted.
    pub(super) access: Setting<Vec<(bool, String)>>,
    /// `satisfy any`: an admitted address needs no password, and a password no address.
    pub(super) satisfies_any: Setting<bool>,
    pub(super) default_type: Setting<Option<String>>,
    pub(super) media_types: Setting<BTreeMap<String, String>>,
    /// The extensions of `types` where HTML is none of them; all others have the default type.
    pub(super) only_types: Setting<Option<Vec<String>>>,
    /// Bytes a second of one response.
    pub(super) rate: Setting<u64>,
    /// Bytes of a request's body.
    pub(super) body_bytes: Setting<Option<u64>>,
    /// Seconds without progress of a response.
    pub(super) write_stall: Setting<Option<u64>>,
    pub(super) uploads: Setting<bool>,
    /// Settings of `proxy_pass`; the next two are those of `fastcgi_pass` and `uwsgi_pass`.
    pub(super) http: UpstreamScope,
    pub(super) fastcgi: UpstreamScope,
    pub(super) uwsgi: UpstreamScope,
    /// Statuses of `proxy_next_upstream`.
    pub(super) retry_status: Setting<Vec<i64>>,
    /// The Host that upstreams get is the client's, as hurtle sends it.
    pub(super) sends_client_host: Setting<bool>,
    /// The first name of the server, without wildcards.
    pub(super) server_name: Option<String>,
    /// Fields of requests to upstreams, as hurtle's templates; empty: the field is removed.
    pub(super) request_fields: Setting<BTreeMap<String, String>>,
    pub(super) proxy_redirects: Setting<Vec<Directive>>,
    /// The flags of cookies; `None`: not written.
    pub(super) proxy_cookies: Setting<Option<Directive>>,
    /// The zone of `proxy_cache`.
    pub(super) cache: Setting<Option<String>>,
    /// Those of `proxy_cache_valid`, and that of `proxy_cache_use_stale`.
    pub(super) cache_lifetimes: Setting<Vec<Directive>>,
    pub(super) cache_stale: Setting<Option<Directive>>,
    /// `gzip` or `brotli`; `None`: not written.
    pub(super) compress: Setting<Option<bool>>,
    /// TLS to upstreams.
    pub(super) tls: Setting<TlsSettings>,
    pub(super) rate_limits: Setting<Vec<toml::Table>>,
    /// The limits of `limit_conn` in force, which replace those around them.
    pub(super) limit_conns: Setting<Vec<Directive>>,
    /// The location of `auth_request`, and the directive.
    pub(super) auth_request: Setting<Option<(String, Directive)>>,
    /// Fields of its response by the variables of `auth_request_set`.
    pub(super) auth_fields: BTreeMap<String, String>,
    /// Those that the request gets.
    pub(super) copied: Setting<Vec<String>>,
    /// Proxies that may name the client's address, and their directives.
    pub(super) trusted_proxies: Setting<Vec<(String, Directive)>>,
    /// The field in which they name it; `None`: not written.
    pub(super) real_ip_header: Setting<Option<String>>,
    /// All trusted addresses in that field are skipped.
    pub(super) is_recursive: Setting<bool>,
}

impl Default for Scope {
    fn default() -> Scope {
        Scope {
            used: Rc::default(),
            root: Setting::of(&[Kind::Files(FilesKind::Root)]),
            index: Setting::of(&[Kind::Files(FilesKind::Index)]),
            index_script: Setting::of(&[Kind::Files(FilesKind::Index)]),
            listing: Setting::of(&[Kind::Files(FilesKind::Autoindex)]),
            headers: Setting::of(&[Kind::Response(ResponseKind::AddHeader)]),
            expires: Setting::of(&[Kind::Response(ResponseKind::Expires)]),
            typed_expires: Setting::of(&[Kind::Response(ResponseKind::Expires)]),
            type_maps: Rc::default(),
            value_maps: Rc::default(),
            errors: Setting::of(&[Kind::Response(ResponseKind::ErrorPage)]),
            spa: Setting::of(&[Kind::Response(ResponseKind::ErrorPage)]),
            realm: Setting::of(&[Kind::Guard(GuardKind::AuthBasic)]),
            users: Setting::of(&[Kind::Guard(GuardKind::AuthBasicUserFile)]),
            access: Setting::of(&[Kind::Guard(GuardKind::Allow), Kind::Guard(GuardKind::Deny)]),
            satisfies_any: Setting::of(&[Kind::Guard(GuardKind::Satisfy)]),
            default_type: Setting::of(&[Kind::Files(FilesKind::DefaultType)]),
            media_types: Setting::of(&[Kind::Files(FilesKind::Types)]),
            only_types: Setting::of(&[Kind::Files(FilesKind::Types)]),
            rate: Setting::of(&[Kind::Response(ResponseKind::LimitRate)]),
            body_bytes: Setting::of(&[Kind::Response(ResponseKind::ClientMaxBodySize)]),
            write_stall: Setting::of(&[Kind::Response(ResponseKind::SendTimeout)]),
            uploads: Setting::of(&[Kind::Files(FilesKind::DavMethods)]),
            http: UpstreamScope::of(&HTTP),
            fastcgi: UpstreamScope::of(&FASTCGI),
            uwsgi: UpstreamScope::of(&UWSGI),
            retry_status: Setting::of(&[Kind::Upstream(UpstreamKind::ProxyNextUpstream)]),
            sends_client_host: Setting::of(&[Kind::Upstream(UpstreamKind::ProxySetHeader)]),
            server_name: None,
            request_fields: Setting::of(&[Kind::Upstream(UpstreamKind::ProxySetHeader)]),
            proxy_redirects: Setting::of(&[Kind::Upstream(UpstreamKind::ProxyRedirect)]),
            proxy_cookies: Setting::of(&[Kind::Upstream(UpstreamKind::ProxyCookieFlags)]),
            cache: Setting::of(&[Kind::Upstream(UpstreamKind::ProxyCache)]),
            cache_lifetimes: Setting::of(&[Kind::Upstream(UpstreamKind::ProxyCacheValid)]),
            cache_stale: Setting::of(&[Kind::Upstream(UpstreamKind::ProxyCacheUseStale)]),
            compress: Setting::of(&[
                Kind::Response(ResponseKind::Gzip),
                Kind::Response(ResponseKind::Brotli),
            ]),
            tls: Setting::of(&[
                Kind::Upstream(UpstreamKind::ProxySslVerify),
                Kind::Upstream(UpstreamKind::ProxySslTrustedCertificate),
                Kind::Upstream(UpstreamKind::ProxySslCertificate),
                Kind::Upstream(UpstreamKind::ProxySslCertificateKey),
                Kind::Upstream(UpstreamKind::ProxySslName),
            ]),
            limit_conns: Setting::of(&[Kind::Response(ResponseKind::LimitConn)]),
            rate_limits: Setting::of(&[Kind::Guard(GuardKind::LimitReq)]),
            auth_request: Setting::of(&[Kind::Guard(GuardKind::AuthRequest)]),
            auth_fields: BTreeMap::new(),
            copied: Setting::of(&[Kind::Guard(GuardKind::AuthRequestSet)]),
            trusted_proxies: Setting::of(&[Kind::Structure(StructureKind::SetRealIpFrom)]),
            real_ip_header: Setting::of(&[Kind::Structure(StructureKind::RealIpHeader)]),
            is_recursive: Setting::of(&[Kind::Structure(StructureKind::RealIpRecursive)]),
        }
    }
}

/// The use of a directive of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It waits for a translation that takes it.
    Held,
    /// It is translated, left out or refused.
    Done,
}

impl Scope {
    /// The settings of a block within this one. Some of its directives replace all values of the
    /// enclosing block.
    pub(super) fn enter(&self, block: &[Directive]) -> Scope {
        let mut scope = self.clone();
        for kind in block.iter().filter_map(|d| Kind::named(&d.name)) {
            for own in [&mut scope.http, &mut scope.fastcgi, &mut scope.uwsgi] {
                own.enter(kind);
            }
            match kind {
                Kind::Response(ResponseKind::AddHeader) => scope.headers.edit().clear(),
                Kind::Response(ResponseKind::ErrorPage) => {
                    scope.errors.edit().clear();
                    scope.spa.set(None);
                }
                Kind::Upstream(UpstreamKind::ProxyRedirect) => scope.proxy_redirects.edit().clear(),
                Kind::Upstream(UpstreamKind::ProxyCacheValid) => {
                    scope.cache_lifetimes.edit().clear();
                }
                Kind::Guard(GuardKind::LimitReq) => scope.rate_limits.edit().clear(),
                Kind::Response(ResponseKind::LimitConn) => scope.limit_conns.edit().clear(),
                Kind::Upstream(UpstreamKind::ProxySetHeader) => {
                    scope.sends_client_host.set(false);
                    scope.request_fields.edit().clear();
                    scope.copied.edit().clear();
                }
                Kind::Files(FilesKind::Index) => {
                    scope.index.edit().clear();
                    scope.index_script.set(None);
                }
                Kind::Guard(GuardKind::Allow) | Kind::Guard(GuardKind::Deny) => {
                    scope.access.edit().clear();
                }
                Kind::Structure(StructureKind::SetRealIpFrom) => {
                    scope.trusted_proxies.edit().clear();
                }
                Kind::Files(FilesKind::Types) => {
                    scope.media_types.edit().clear();
                    let only = extensions(block);
                    let has_html = only.iter().any(|ext| ext == "html");
                    scope.only_types.set(Some(only).filter(|_| !has_html));
                }
                _ => {}
            }
        }
        scope
    }

    /// Applies a directive of a block.
    pub(super) fn apply(
        &mut self,
        kind: Kind,
        d: &Directive,
        shared: &mut Shared,
        report: &mut Report,
    ) -> Use {
        if d.block.is_some() && !kind.has_block() {
            report.refuse(d, needs(&d.name));
            return Use::Done;
        }
        match kind {
            Kind::Handler(_) | Kind::Path(_) => Use::Held,
            Kind::Structure(kind) => self.structure(kind, d, report),
            Kind::Guard(kind) => self.guard(kind, d, shared, report),
            Kind::Files(kind) => self.files(kind, d, report),
            Kind::Upstream(kind) => self.upstream(kind, d, report),
            Kind::Response(kind) => self.response(kind, d, report),
            Kind::Whole(kind) => {
                shared.apply(kind, d, report);
                Use::Done
            }
        }
    }

    fn structure(&mut self, kind: StructureKind, d: &Directive, report: &mut Report) -> Use {
        match kind {
            StructureKind::SetRealIpFrom if d.arg(0) == "unix:" => {
                report.leave_out(d);
                return Use::Done;
            }
            StructureKind::SetRealIpFrom => {
                self.trusted_proxies.edit().push((d.arg(0).to_owned(), d.clone()));
            }
            StructureKind::RealIpHeader => {
                self.real_ip_header.set(Some(d.arg(0).to_ascii_lowercase()));
            }
            StructureKind::RealIpRecursive => self.is_recursive.set(d.arg(0) == "on"),
            // Those of the blocks themselves.
            StructureKind::Http
            | StructureKind::Server
            | StructureKind::Location
            | StructureKind::Upstream
            | StructureKind::Map
            | StructureKind::Geo
            | StructureKind::ProxyCachePath
            | StructureKind::LimitReqZone
            | StructureKind::LimitConnZone
            | StructureKind::Listen
            | StructureKind::ServerName
            | StructureKind::SslCertificate
            | StructureKind::Ssl
            | StructureKind::SslCertificateKey
            | StructureKind::SslClientCertificate
            | StructureKind::SslVerifyClient
            | StructureKind::SslCrl
            | StructureKind::SslRejectHandshake
            | StructureKind::User
            | StructureKind::WorkerProcesses => {}
        }
        Use::Held
    }

    fn files(&mut self, kind: FilesKind, d: &Directive, report: &mut Report) -> Use {
        match kind {
            FilesKind::Root => {
                let path = absolute(d, Prefix::Files, report);
                if path.is_none() && !has_variable(d.arg(0)) {
                    report.refuse(d, "write an absolute path");
                } else if has_variable(d.arg(0)) {
                    report.refuse(d, "it needs variables");
                }
                // Also if it was refused, lest locations lack a root.
                self.root.set(Some(path.unwrap_or_else(|| d.arg(0).to_owned())));
            }
            FilesKind::Index => self.index(d, report),
            FilesKind::Autoindex => self.listing.set(d.arg(0) == "on"),
            FilesKind::DefaultType => self.default_type.set(Some(d.arg(0).to_owned())),
            FilesKind::Types => self.types(d),
            FilesKind::DavMethods => self.dav_methods(d, report),
            FilesKind::CreateFullPutPath | FilesKind::MinDeleteDepth => {
                report.leave_out(d);
                return Use::Done;
            }
        }
        Use::Held
    }

    fn response(&mut self, kind: ResponseKind, d: &Directive, report: &mut Report) -> Use {
        match kind {
            ResponseKind::AddHeader => self.add_header(d, report),
            ResponseKind::Expires => self.expires(d, report),
            ResponseKind::ErrorPage => self.error_page(d, report),
            ResponseKind::LimitRate => match bytes(d.arg(0)) {
                Some(rate) => self.rate.set(rate),
                None => report.refuse(d, "write a size, such as 500k"),
            },
            ResponseKind::ClientMaxBodySize => self.client_max_body_size(d, report),
            ResponseKind::SendTimeout => self.client_send_timeout(d, report),
            ResponseKind::LimitConn => self.limit_conns.edit().push(d.clone()),
            ResponseKind::LimitConnStatus => {
                report.leave_out(d);
                return Use::Done;
            }
            ResponseKind::Gzip | ResponseKind::Brotli => self.compression(d),
        }
        Use::Held
    }

    fn index(&mut self, d: &Directive, report: &mut Report) {
        let is_bad = |name: &String| has_variable(name) || name.contains('/');
        let (last, others) = d.args.split_last().unzip();
        let front = last.filter(|_| script_of(d).is_some());
        let names = if front.is_some() { others.unwrap_or_default() } else { &d.args };
        match names.iter().any(is_bad) {
            true => report.refuse(d, "write names of files only"),
            false => {
                let index = self.index.edit();
                for name in names {
                    if !index.contains(name) {
                        index.push(name.clone());
                    }
                }
            }
        }
        if self.index_script.peek().is_some() {
            return report.refuse(d, "a script before it answers: write the names in one line");
        }
        self.index_script.set(front.map(|_| d.clone()));
    }

    fn error_page(&mut self, d: &Directive, report: &mut Report) {
        if let Some(page) = spa_of(d) {
            return self.spa.set(Some(page.clone()));
        }
        if let Some(pages) = error_pages::of(d, report) {
            self.errors.edit().extend(pages);
        }
    }

    fn types(&mut self, d: &Directive) {
        for types in d.children() {
            // hurtle has many of them itself.
            let is_own = |ext: &String| {
                let own = media::of_extension(ext).unwrap_or_default();
                own.split(';').next() == Some(types.name.as_str())
            };
            let extensions = types.args.iter().map(|ext| ext.to_ascii_lowercase());
            let extensions = extensions.filter(|ext| !is_own(ext));
            self.media_types.edit().extend(extensions.map(|ext| (ext, types.name.clone())));
        }
    }

    fn dav_methods(&mut self, d: &Directive, report: &mut Report) {
        let is_known = |method: &String| matches!(method.as_str(), "PUT" | "DELETE" | "off");
        if !d.args.iter().all(is_known) {
            return report.refuse(d, "hurtle has PUT and DELETE, of WebDAV nothing else");
        }
        let uploads = d.args.iter().any(|method| method == "PUT");
        self.uploads.set(uploads);
        if uploads && !d.args.iter().any(|method| method == "DELETE") {
            report.remark(d, "uploads allow DELETE, too");
        }
    }
}

pub(super) fn duration(d: &Directive, report: &mut Report) -> Option<u64> {
    let seconds = seconds(d.arg(0));
    if seconds.is_none() {
        report.refuse(d, "write a duration in seconds, such as 30s");
    }
    seconds
}

/// The extensions that `types` of a block name.
fn extensions(block: &[Directive]) -> Vec<String> {
    let all = block.iter().filter(|d| d.name == "types").flat_map(Directive::children);
    all.flat_map(|types| types.args.iter().map(|ext| ext.to_ascii_lowercase())).collect()
}
