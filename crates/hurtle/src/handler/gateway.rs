//! Applications that are asked by FastCGI or CGI: which script a path names, what it is told, and
//! its answer in HTTP's terms. `fastcgi` and `programs` are the two ways to ask, `asking` what they
//! share.

mod asking;
mod complaints;
mod fastcgi;
mod input;
mod programs;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use http_body::Body as _;

use self::asking::{Asking, Fault};
use self::fastcgi::{Call, Peer};
use self::input::{Input, Keep, Unkept};
use super::{Answering, dress};
use crate::answer::Answer;
use crate::body::{Body, RequestBody};
use crate::cgi::{Asked, Head, Script, Variables};
use crate::config::{Cgi, FastCgi, HeaderRule, Patience, ProgramLimits, Upstream};
use crate::disk::Disk;
use crate::fcgi::Role;
use crate::files::{Found, Scripts};
use crate::h1::response::Fields;
use crate::semantics::target::separate_slashes;

pub use programs::Slots;

/// Names and values that an authorizer gives with its leave.
pub type Granted = Vec<(Vec<u8>, Vec<u8>)>;

/// An application, or a directory of them.
#[derive(Debug)]
pub struct Gateway {
    to: To,
    /// `None`: it is asked for every path.
    scripts: Option<Scripts>,
    params: BTreeMap<String, String>,
    patience: Patience,
    /// Whether it may name a file to be sent in its answer's place.
    names_files: bool,
    keep: Keep,
}

#[derive(Debug)]
enum To {
    FastCgi(Rc<Peer>),
    Programs(Slots, ProgramLimits),
}

/// A FastCGI application that is asked whether others may answer.
#[derive(Debug)]
pub struct Authorizer(Rc<Peer>);

/// What answers a path, and as what.
#[derive(Debug)]
pub struct Named {
    /// The script's file beneath the root; empty: there are no files.
    pub file: Vec<u8>,
    /// What of the path is behind its name.
    pub info: Vec<u8>,
}

impl Gateway {
    /// A FastCGI application.
    pub fn fastcgi(config: &FastCgi, disk: &Disk) -> Gateway {
        let scripts = config.root.clone();
        let scripts = scripts.map(|root| Scripts::new(root, &config.index, &config.suffix, disk));
        let peer = Peer::new(config.upstream.clone(), config.keep, config.patience);
        Gateway {
            to: To::FastCgi(Rc::new(peer)),
            scripts,
            params: config.params.clone(),
            patience: config.patience,
            names_files: config.internal.is_some(),
            keep: Keep::new(disk),
        }
    }

    /// A directory of programs, of which so many may run as there are slots.
    pub fn programs(config: &Cgi, disk: &Disk, slots: &Slots) -> Gateway {
        Gateway {
            to: To::Programs(slots.clone(), config.limits),
            scripts: Some(Scripts::new(config.root.clone(), &[], "", disk)),
            params: config.params.clone(),
            patience: config.patience,
            names_files: config.internal.is_some(),
            keep: Keep::new(disk),
        }
    }

    /// Whether files that are no scripts are served beside them, and slashes matter as there.
    pub fn has_files_beside(&self) -> bool {
        matches!(self.to, To::FastCgi(_)) && self.scripts.is_some()
    }

    /// What it is, for people.
    pub fn describe(&self) -> String {
        match (&self.to, &self.scripts) {
            (To::FastCgi(peer), _) => format!("FastCGI, {}", peer.name()),
            (To::Programs(..), scripts) => {
                let root = scripts.as_ref().map_or(PathBuf::new(), |s| s.root().to_owned());
                format!("CGI programs of {}", root.display())
            }
        }
    }

    /// Its scripts, if it has any.
    pub fn scripts(&self) -> Option<&Scripts> {
        self.scripts.as_ref()
    }

    /// What a decoded path beneath the mount names. `Ok(None)`: no script.
    ///
    /// # Errors
    /// What is answered in an application's place.
    pub async fn find(&self, rest: &[u8]) -> Result<Option<Named>, Answer> {
        let Some(scripts) = &self.scripts else {
            let info = separate_slashes(rest);
            let info = info.map_err(|_| Answer::error(StatusCode::NOT_FOUND, None))?;
            return Ok(Some(Named { file: Vec::new(), info }));
        };
        match scripts.find(rest).await {
            Ok(Found::Script { file, info }) => Ok(Some(Named { file, info })),
            Ok(Found::Other) => Ok(None),
            Ok(Found::Missing) => Err(Answer::error(StatusCode::NOT_FOUND, None)),
            Ok(Found::Denied) => Err(Answer::error(StatusCode::FORBIDDEN, None)),
            Err(trouble) => Err(trouble.answer(rest)),
        }
    }

    /// Begins to answer a request; `base`: the mount's path, without a slash at its end; `granted`:
    /// what an authorizer has to say; `body_bytes_max`: the longest body whose length was not told.
    /// Nothing happens before the answer is awaited. Where the application may name files, the answer
    /// may still hold the field that names one, which is the engine's to act on.
    pub fn call(
        self: &Rc<Self>,
        request: Request<RequestBody>,
        (asked, base, named): (&Asked<'_>, &[u8], &Named),
        granted: &Granted,
        rules: Vec<HeaderRule>,
        body_bytes_max: u64,
    ) -> Answering {
        let root = self.scripts.as_ref().map(|scripts| scripts.root().as_os_str());
        let root = root.map(OsStr::as_bytes);
        let name = match named.file.is_empty() {
            true => base.to_vec(),
            false => [base, b"/", &named.file].concat(),
        };
        let script = Script { root, file: &named.file, name: &name, info: &named.info };
        let mut variables = Variables::new(asked, request.headers());
        variables.set_script(asked, &script, request.headers());
        if let To::Programs(..) = self.to {
            variables.set("PATH", PROGRAMS_PATH);
        }
        let params = self.params.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        params.for_each(|(name, value)| variables.set(name, value));
        granted.iter().for_each(|(name, value)| variables.set(name, value));
        let file = self
            .scripts
            .as_ref()
            .map(|scripts| scripts.root().join(OsStr::from_bytes(&named.file)));
        let this = Rc::clone(self);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let what = format!("{} {}", head.method, head.uri.path());
            match this.input(body, body_bytes_max, &mut variables).await {
                Ok(input) => {
                    this.answer((head.method, &what), file, variables, input, &rules).await
                }
                Err(unkept) => {
                    let status = unkept.status();
                    if status.is_server_error() {
                        tracing::error!("a request's body: {unkept} ({what}: {})", status.as_u16());
                    }
                    Answer::error(status, None)
                }
            }
        })
    }

    /// What the application reads, once it can be told how long that is.
    async fn input(
        &self,
        body: RequestBody,
        bytes_max: u64,
        variables: &mut Variables,
    ) -> Result<Input, Unkept> {
        if body.size_hint().exact().is_some() {
            return Ok(Input::Live(body));
        }
        let (input, len) = self.keep.whole(body, bytes_max).await?;
        variables.set("CONTENT_LENGTH", len.to_string());
        Ok(input)
    }

    async fn answer(
        &self,
        (method, what): (Method, &str),
        file: Option<PathBuf>,
        variables: Variables,
        body: Input,
        rules: &[HeaderRule],
    ) -> Answer {
        let (silent, variables) = (method == Method::HEAD, variables.pairs());
        let asking = match (&self.to, &self.scripts, file) {
            (To::FastCgi(peer), ..) => {
                let (peer, may_repeat) = (Rc::clone(peer), method.is_safe());
                let call = Call { role: Role::Responder, variables, body, may_repeat };
                Asking::start(silent, async move |sink| peer.ask(call, sink).await)
            }
            (To::Programs(slots, limits), Some(scripts), Some(file)) => {
                let (disk, lane) = scripts.disk();
                let run = programs::Run {
                    slots: slots.clone(),
                    patience: self.patience,
                    place: (disk.clone(), lane),
                    file,
                    limits: *limits,
                };
                Asking::start(silent, async move |sink| run.ask(variables, body, sink).await)
            }
            (To::Programs(..), ..) => return Answer::error(StatusCode::NOT_FOUND, None),
        };
        match asking.head().await {
            Ok((head, body)) => {
                let Head { status, mut fields, file } = head;
                if let (true, Some((name, value))) = (self.names_files, file) {
                    fields.insert(name, value);
                    return Answer { status, fields: Fields::Map(fields), body: Body::Empty };
                }
                if status.as_u16() < 400 {
                    dress(&mut fields, rules.iter());
                }
                Answer { status, fields: Fields::Map(fields), body }
            }
            Err(fault) => failed(&self.describe(), &fault, what),
        }
    }
}

/// What a program's shell finds its commands by.
const PROGRAMS_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

impl Authorizer {
    /// One that listens there; it is waited for as long as others are by default.
    pub fn new(upstream: Upstream) -> Authorizer {
        Authorizer(Rc::new(Peer::new(upstream, 0, Patience::default())))
    }

    /// Where it listens.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Asks whether a request may be answered.
    ///
    /// # Errors
    /// What it is answered if not.
    pub async fn ask(&self, asked: &Asked<'_>, fields: &HeaderMap) -> Result<Granted, Answer> {
        // FastCGI 6.3: neither of the body nor of what will answer.
        let variables = Variables::new(asked, fields).pairs();
        let body = Input::Live(RequestBody::default());
        let call = Call { role: Role::Authorizer, variables, body, may_repeat: true };
        let peer = Rc::clone(&self.0);
        let asking = Asking::start(false, async move |sink| peer.ask(call, sink).await);
        let (Head { status, mut fields, .. }, body) = asking.head().await.map_err(|fault| {
            failed(&format!("the authorizer {}", self.name()), &fault, asked.method)
        })?;
        let granted = variables_of(&mut fields);
        if status == StatusCode::OK {
            return Ok(granted);
        }
        Err(Answer { status, fields: Fields::Map(fields), body })
    }
}

/// Takes the variables of an authorizer's answer out of it (FastCGI 6.3). None may stand for what
/// the client said.
fn variables_of(fields: &mut HeaderMap) -> Granted {
    let names: Vec<HeaderName> =
        fields.keys().filter(|name| name.as_str().starts_with("variable-")).cloned().collect();
    let mut granted = Granted::new();
    for name in names {
        let Some(value) = fields.remove(&name) else { continue };
        let variable = name.as_str()["variable-".len()..].replace('-', "_").to_ascii_uppercase();
        if !variable.starts_with("HTTP_") {
            granted.push((variable.into_bytes(), value.as_bytes().to_vec()));
        }
    }
    granted
}

/// Says whose fault it was, to the operator: the client is told a status.
fn failed(whom: &str, fault: &Fault, what: &str) -> Answer {
    let status = fault.status();
    tracing::error!("{whom}: {fault} ({what}: {})", status.as_u16());
    Answer::error(status, None)
}
