//! FastCGI and uWSGI applications, CGI programs and authorizers: finds the script of a path, builds
//! its variables and converts its response. `fastcgi`, `uwsgi` and `programs` are the protocols,
//! `exchange` is the exchange they share.

mod call;
mod exchange;
mod fastcgi;
mod peer;
mod peers;
mod programs;
mod stderr_log;
mod uwsgi;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use http_body::Body as _;
use hurtle_http::cgi::{Head, RequestInfo, Script, Variables};
use hurtle_http::fcgi::Role;
use hurtle_http::message::response::Fields;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::semantics::target::separate_slashes;

use self::exchange::{Exchange, GatewayError};
use self::peer::{ApplicationRequest, Peer, Protocol};
use self::peers::Peers;
use super::Answering;
use super::body_buffer::{BodyBuffer, BufferError, OutgoingBody, Taken, note_passed_on};
use super::request::{AuthorizerVariables, MatchedPath, RequestContext};
use crate::answer::{Answer, Needs};
use crate::body::{Body, RequestBody};
use crate::config::{
    self, Buffering, Cgi, Connecting, FastCgi, GatewayCall, ProgramLimits, RequestFields, Upstream,
    UpstreamTimeouts, Uwsgi,
};
use crate::disk::Disk;
use crate::files::{Found, ScriptTarget, Scripts};
use crate::observe::BufferedBytes;

pub(crate) use programs::Slots;

/// A FastCGI or uWSGI application, or a directory of CGI programs.
#[derive(Debug)]
pub(crate) struct Gateway {
    to: Backend,
    /// `None`: the application handles every path.
    scripts: Option<Scripts>,
    call: GatewayCall,
    keep: BodyBuffer,
    /// Bodies that are kept besides those of requests of unknown length.
    buffering: Buffering,
}

#[derive(Debug)]
enum Backend {
    FastCgi(Rc<Peers>),
    Uwsgi { peers: Rc<Peers>, strip_prefix: bool },
    Programs(Slots, ProgramLimits),
}

/// A FastCGI application in the authorizer role: it allows or refuses requests.
#[derive(Debug)]
pub(crate) struct Authorizer(Rc<Peer>);

/// Why a request is not authorized.
#[derive(Debug)]
pub(crate) enum Unauthorized {
    /// The authorizer's own response, which no page of the site replaces.
    Refused(Answer),
    /// This server's response, because the authorizer could not be asked.
    Undecided(Answer),
}

impl Gateway {
    /// The FastCGI application of a mount, which this name has in the whole process.
    pub(crate) fn fastcgi(config: &FastCgi, disk: &Disk, mount: &str) -> Gateway {
        let scripts = config.root.clone();
        let scripts = scripts.map(|root| {
            Scripts::new(root, &config.index, &config.suffix, disk)
                .following(&config.symlinks, config.real_path)
                .with_front(config.front_controller, config.front_for_scripts)
        });
        let (protocol, timeouts) = (Protocol::FastCgi(config.keep), config.call.timeouts);
        let peers = Peers::new(&config.upstreams, protocol, config.connecting, timeouts);
        Gateway {
            to: Backend::FastCgi(Rc::new(peers)),
            scripts,
            call: config.call.clone(),
            keep: BodyBuffer::new(disk, &config.buffer).of_mount(&config.buffer, mount),
            buffering: config.buffer.kind,
        }
    }

    /// The uWSGI application of a mount, which this name has in the whole process.
    pub(crate) fn uwsgi(config: &Uwsgi, disk: &Disk, mount: &str) -> Gateway {
        let timeouts = config.call.timeouts;
        let peers = Peers::new(&config.upstreams, Protocol::Uwsgi, config.connecting, timeouts);
        Gateway {
            to: Backend::Uwsgi { peers: Rc::new(peers), strip_prefix: config.strip_prefix },
            scripts: None,
            call: config.call.clone(),
            keep: BodyBuffer::new(disk, &config.buffer).of_mount(&config.buffer, mount),
            buffering: config.buffer.kind,
        }
    }

    /// A directory of programs; `slots` limits the number that run simultaneously.
    pub(crate) fn programs(config: &Cgi, disk: &Disk, slots: &Slots) -> Gateway {
        Gateway {
            to: Backend::Programs(slots.clone(), config.limits),
            scripts: Some(Scripts::new(config.root.clone(), &[], "", disk)),
            call: config.call.clone(),
            keep: BodyBuffer::new(disk, &config::Buffer::default()),
            buffering: Buffering::Off,
        }
    }

    /// `true` for the path of the directory of scripts without its slash, if files beside the
    /// scripts are served: relative links need that slash.
    pub(crate) fn is_directory(&self, matched: &MatchedPath<'_>) -> bool {
        let has_files = matches!(self.to, Backend::FastCgi(_)) && self.scripts.is_some();
        has_files && matched.is_without_slash()
    }

    /// Returns whether it is an application that bodies are kept for, and not a directory of
    /// programs.
    pub(crate) fn is_application(&self) -> bool {
        !matches!(self.to, Backend::Programs(..))
    }

    /// Returns the bodies that are kept, besides those of requests of unknown length.
    pub(crate) fn buffering(&self) -> Buffering {
        self.buffering
    }

    /// Describes the gateway for `hurtle explain` and the log.
    pub(crate) fn describe(&self) -> String {
        match (&self.to, &self.scripts) {
            (Backend::FastCgi(peers), _) => format!("FastCGI, {}", peers.name()),
            (Backend::Uwsgi { peers, .. }, _) => format!("uWSGI, {}", peers.name()),
            (Backend::Programs(..), scripts) => {
                let root = scripts.as_ref().map_or(PathBuf::new(), |s| s.root().to_owned());
                format!("CGI programs of {}", root.display())
            }
        }
    }

    /// Returns the edits of the fields that it gets.
    pub(crate) fn request_fields(&self) -> Option<&RequestFields> {
        self.call.request_fields.as_ref()
    }

    /// Returns the scripts; `None`: the application handles every path.
    pub(crate) fn scripts(&self) -> Option<&Scripts> {
        self.scripts.as_ref()
    }

    /// Splits a decoded path into the application's own, without a slash at its end, and the rest.
    fn split<'a>(&self, path: &'a [u8], rest: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        if let Backend::Uwsgi { strip_prefix: false, .. } = self.to {
            return (b"", path);
        }
        let base = &path[..path.len() - rest.len()];
        (base.strip_suffix(b"/").unwrap_or(base), rest)
    }

    /// Finds the script of a path.
    ///
    /// # Errors
    /// The error response.
    async fn find(&self, matched: &MatchedPath<'_>, rest: &[u8]) -> Result<Found, Answer> {
        if self.is_directory(matched) {
            return Ok(Found::SlashMissing);
        }
        let Some(scripts) = &self.scripts else {
            let info = separate_slashes(rest);
            let info = info.map_err(|_| Answer::error(StatusCode::NOT_FOUND, None))?;
            let target = ScriptTarget { root: PathBuf::new(), file: Vec::new(), info };
            return Ok(Found::Script(target));
        };
        scripts.find(rest).await.map_err(|trouble| trouble.answer(rest))
    }

    /// Returns the variables of a request with these fields of its client, and with the operator's
    /// own. `base` is the mount's path without a trailing slash.
    fn variables(
        &self,
        info: &RequestInfo<'_>,
        fields: &HeaderMap,
        own: &[(&HeaderName, Vec<u8>)],
        base: &[u8],
        target: &ScriptTarget,
    ) -> Variables {
        let root = self.scripts.as_ref().map(|_| target.root.as_os_str().as_bytes());
        let name = match target.file.is_empty() {
            true => base.to_vec(),
            false => [base, b"/", &target.file].concat(),
        };
        let script = Script { root, file: &target.file, name: &name, info: &target.info };
        let mut variables = Variables::new(info, fields);
        variables.set_script(info, &script, fields);
        own.iter().for_each(|(name, value)| variables.add_field(name, value));
        if let Backend::Programs(..) = self.to {
            variables.set("PATH", PROGRAMS_PATH);
        }
        let params =
            self.call.params.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        params.for_each(|(name, value)| variables.set(name, value));
        variables
    }

    /// Starts a request. Nothing happens before the result is polled. If the application may name
    /// files, the response may still hold the field that names one; the caller handles it.
    fn call(
        self: &Rc<Self>,
        method: Method,
        body: RequestBody,
        context: &RequestContext<'_>,
        mut variables: Variables,
        target: &ScriptTarget,
        counted: Option<Arc<BufferedBytes>>,
    ) -> Answering {
        context.granted.iter().for_each(|(name, value)| variables.set(name, value));
        let file = self
            .scripts
            .as_ref()
            .map(|scripts| scripts.root().join(OsStr::from_bytes(&target.file)));
        let (gateway, place) = (Rc::clone(self), context.place.cloned());
        let (body_bytes_max, description) = (context.body_bytes_max, context.describe());
        let keep = self.keep.counting(counted);
        Box::pin(async move {
            match gateway.input(&keep, body, body_bytes_max, &mut variables).await {
                Ok(input) => {
                    if let Some(place) = place
                        && let Err(error) = place.take().await
                    {
                        let why = error.to_string();
                        return Err(Answer::error(StatusCode::SERVICE_UNAVAILABLE, Some(&why)));
                    }
                    gateway.answer(keep, method, &description, file, variables, input).await
                }
                Err(error) => {
                    let status = error.status();
                    if status == StatusCode::PAYLOAD_TOO_LARGE {
                        tracing::warn!(
                            "a request's body is longer than `body_bytes` ({description}: 413)"
                        );
                    }
                    if status.is_server_error() {
                        tracing::error!(
                            "a request's body: {error} ({description}: {})",
                            status.as_u16()
                        );
                    }
                    Err(Answer::error(status, None))
                }
            }
        })
    }

    /// Returns whether the body of a request is taken whole before the application is asked.
    pub(crate) fn takes_body(&self, body: BodyLength) -> bool {
        self.buffering.of_requests() || body == BodyLength::Chunked
    }

    /// Returns the request's body for the application: whole if its length is unknown, or if bodies
    /// are buffered.
    async fn input(
        &self,
        keep: &BodyBuffer,
        body: RequestBody,
        bytes_max: u64,
        variables: &mut Variables,
    ) -> Result<OutgoingBody, BufferError> {
        let is_known = body.size_hint().exact().is_some();
        if is_known && (!self.buffering.of_requests() || body.is_end_stream()) {
            return Ok(OutgoingBody::live(body));
        }
        let bytes_max = Some(bytes_max).filter(|_| !is_known);
        let Taken { body, len, stopped } = keep.take(body, bytes_max).await?;
        match stopped {
            None if is_known => {}
            None => variables.set("CONTENT_LENGTH", len.to_string()),
            Some(error) if is_known => {
                note_passed_on(&error, || "the body of a request".to_owned());
            }
            Some(error) => return Err(error),
        }
        Ok(body)
    }

    /// Asks the application.
    ///
    /// # Errors
    /// This server's own response.
    async fn answer(
        &self,
        keep: BodyBuffer,
        method: Method,
        description: &str,
        file: Option<PathBuf>,
        variables: Variables,
        body: OutgoingBody,
    ) -> Result<Answer, Answer> {
        let (silent, variables) = (method == Method::HEAD, variables.pairs());
        let buffer = Some(keep).filter(|_| self.buffering.of_responses());
        let within = self.call.timeouts.read;
        let exchange = match (&self.to, &self.scripts, file) {
            (Backend::FastCgi(peers) | Backend::Uwsgi { peers, .. }, ..) => {
                let (peers, may_repeat) = (Rc::clone(peers), method.is_safe());
                let call =
                    ApplicationRequest { role: Role::Responder, variables, body, may_repeat };
                Exchange::start(silent, buffer, within, async move |sink| {
                    peers.request(call, sink).await
                })
            }
            (Backend::Programs(slots, limits), Some(scripts), Some(file)) => {
                let (disk, lane) = scripts.disk();
                let run = programs::Run {
                    slots: slots.clone(),
                    timeouts: self.call.timeouts,
                    disk_lane: (disk.clone(), lane),
                    file,
                    limits: *limits,
                };
                Exchange::start(silent, buffer, within, async move |sink| {
                    run.run(variables, body, sink).await
                })
            }
            (Backend::Programs(..), ..) => return Err(Answer::error(StatusCode::NOT_FOUND, None)),
        };
        match exchange.head().await {
            Ok((head, body)) => {
                let Head { status, mut fields, file, .. } = head;
                if let (Some(_), Some((name, value))) = (&self.call.internal, file) {
                    fields.insert(name, value);
                    body.discard();
                    return Ok(Answer::new(status, Fields::Map(fields), Body::Empty));
                }
                Ok(Answer::new(status, Fields::Map(fields), body.into_body()))
            }
            Err(error) => Err(failed(&self.describe(), &error, description)),
        }
    }
}

/// Search path of a program's shell.
const PROGRAMS_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

impl Authorizer {
    /// Creates an authorizer at this address, with default time limits.
    pub(crate) fn new(upstream: Upstream) -> Authorizer {
        let connect = Connecting::default().timeout;
        let timeouts = UpstreamTimeouts::default();
        Authorizer(Rc::new(Peer::new(upstream, Protocol::FastCgi(0), connect, timeouts)))
    }

    /// Returns the authorizer's address.
    pub(crate) fn name(&self) -> String {
        self.0.name()
    }

    /// Asks whether a request is allowed; returns variables for its handler.
    async fn authorize(
        &self,
        info: &RequestInfo<'_>,
        fields: &HeaderMap,
    ) -> Result<AuthorizerVariables, Unauthorized> {
        // An authorizer gets neither the body nor script variables (FastCGI section 6.3).
        let variables = Variables::new(info, fields).pairs();
        let body = OutgoingBody::default();
        let call = ApplicationRequest { role: Role::Authorizer, variables, body, may_repeat: true };
        let (peer, within) = (Rc::clone(&self.0), UpstreamTimeouts::default().read);
        let exchange =
            Exchange::start(false, None, within, async move |sink| peer.request(call, sink).await);
        let (Head { status, mut fields, .. }, body) = exchange.head().await.map_err(|error| {
            let name = format!("the authorizer {}", self.name());
            Unauthorized::Undecided(failed(&name, &error, info.method))
        })?;
        let granted = take_variables(&mut fields);
        if status == StatusCode::OK {
            return Ok(granted);
        }
        let answer = Answer::new(status, Fields::Map(fields), body.into_body());
        Err(Unauthorized::Refused(Answer { needs: Needs::Edits, ..answer }))
    }
}

/// Moves the variables out of an authorizer's response (FastCGI section 6.3). Those that would
/// replace request fields (HTTP_*) are dropped.
fn take_variables(fields: &mut HeaderMap) -> AuthorizerVariables {
    let names: Vec<HeaderName> =
        fields.keys().filter(|name| name.as_str().starts_with("variable-")).cloned().collect();
    let mut granted = AuthorizerVariables::new();
    for name in names {
        let Some(value) = fields.remove(&name) else { continue };
        let variable = name.as_str()["variable-".len()..].replace('-', "_").to_ascii_uppercase();
        if !variable.starts_with("HTTP_") {
            granted.push((variable.into_bytes(), value.as_bytes().to_vec()));
        }
    }
    granted
}

/// Logs a failure and returns the error response.
fn failed(name: &str, error: &GatewayError, description: &str) -> Answer {
    let status = error.status();
    tracing::error!("{name}: {error} ({description}: {})", status.as_u16());
    Answer::error(status, None)
}
