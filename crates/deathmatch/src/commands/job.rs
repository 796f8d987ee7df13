//! The job that the arguments of a load describe.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use deathmatch::cli::UrlArgs;
use deathmatch::figures::{Described, Offer};
use deathmatch::load::{
    ANY_LENGTH, ANY_STATUS, Client, Expected, Job, Step, protocol, websocket_message,
    websocket_ping,
};
use deathmatch::sample::{ConnectionUse, Offered, Version};
use deathmatch::target::archive::read_archive;
use deathmatch::target::grpc::Services;
use deathmatch::target::scenario::Scenario;
use deathmatch::target::targets::{check_targets, order, read_body, read_targets};
use deathmatch::target::{Request, Target, Url};
use deathmatch::tls::Protocol;

use super::interrupt::on_signal;

/// Duration if neither it nor a number of requests is given.
const DURATION: Duration = Duration::from_secs(10);

/// Duration of a load that ends with its requests.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// The requests of a load, and how they are told in its figures.
struct Requested {
    targets: Vec<Target>,
    /// The URL that figures are shown for.
    url: String,
    /// Names of what is counted apart; empty: nothing is.
    names: Vec<String>,
    /// The steps of visits; empty: there are single requests.
    steps: Vec<Step>,
    /// Connections of a visitor over HTTP/1.1.
    connections: u32,
}

impl Requested {
    /// The requests as the arguments name them.
    fn by(args: &UrlArgs) -> Result<Requested, String> {
        let mut all = match &args.scenario {
            Some(file) => Requested::steps(file)?,
            None => Requested::single(args)?,
        };
        for Target { url, request } in &mut all.targets {
            request.add_fields(&args.headers)?;
            request.is_last = args.disable_keepalive;
            *url = args.routed(url)?;
        }
        make_calls(args, &mut all.targets)?;
        Ok(all)
    }

    fn single(args: &UrlArgs) -> Result<Requested, String> {
        let targets = if let Some(file) = &args.targets {
            read_targets(file)?
        } else if let Some(file) = &args.har {
            let (targets, others) = read_archive(file)?;
            note_others(file, others);
            targets
        } else {
            let body = args.body.as_deref().map(body).transpose()?;
            let request = Request::new(args.method.as_deref(), &[], body)?;
            let target = |url: &Url| Target { url: url.clone(), request: request.clone() };
            args.urls.iter().map(target).collect()
        };
        if targets.is_empty() && args.targets.is_none() && args.har.is_none() {
            return Err("write a URL or a command; --help lists them".to_owned());
        }
        check_targets(&targets)?;
        let first = &targets[0].url;
        let (url, names) = match targets.len() {
            1 => (first.to_string(), Vec::new()),
            count => {
                let server = Url { path: String::new(), ..first.clone() };
                let names = targets.iter().map(Target::name).collect();
                (format!("{count} requests of {server}"), names)
            }
        };
        Ok(Requested { targets, url, names, steps: Vec::new(), connections: 1 })
    }

    fn steps(file: &Path) -> Result<Requested, String> {
        let Scenario { steps, connections, others } = Scenario::read(file)?;
        note_others(file, others);
        let (mut targets, mut names, mut numbered) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            let from = targets.len();
            targets.extend(step.targets);
            names.push(step.name);
            let requests = (from..targets.len()).collect();
            numbered.push(Step { requests, pause: step.pause });
        }
        check_targets(&targets)?;
        let server = Url { path: String::new(), ..targets[0].url.clone() };
        let url = format!("{} of {server}", file.display());
        Ok(Requested { targets, url, names, steps: numbered, connections })
    }

    /// The methods in use.
    fn methods(&self) -> String {
        let all: BTreeSet<&str> =
            self.targets.iter().map(|one| one.request.method.as_str()).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The name of what is spoken, and the use of connections.
    fn spoken(&self, args: &UrlArgs) -> (&'static str, Option<ConnectionUse>) {
        let anew = ConnectionUse::Anew { resumed: false };
        let is_visit = !self.steps.is_empty();
        let visits = |version| {
            let connections = if version == Version::Http1 { self.connections } else { 1 };
            Some(ConnectionUse::Visits { version, connections })
        };
        match () {
            () if self.targets[0].url.is_websocket => ("WebSocket", Some(ConnectionUse::WebSocket)),
            () if args.grpc => ("gRPC", Some(ConnectionUse::Grpc(args.streams))),
            () if args.h2 && is_visit => ("HTTP/2", visits(Version::Http2)),
            () if args.h3 && is_visit => ("HTTP/3", visits(Version::Http3)),
            () if is_visit => ("HTTP/1.1", visits(Version::Http1)),
            () if args.h2 => ("HTTP/2", Some(ConnectionUse::Streams(args.streams))),
            () if args.h3 => ("HTTP/3", Some(ConnectionUse::Http3(args.streams))),
            () if args.disable_keepalive => ("HTTP/1.1 without keep-alive", Some(anew)),
            () => ("HTTP/1.1", None),
        }
    }
}

/// Tells that an archive has requests to other servers.
fn note_others(file: &Path, others: usize) {
    if others > 0 {
        let shown = file.display();
        // Without a reader of the note the load goes on.
        let _ = writeln!(
            io::stderr(),
            "note: {others} requests of {shown} are of other servers, and left out"
        );
    }
}

/// Makes the requests calls of gRPC, or upgrades to WebSockets, if the arguments or URLs say so.
fn make_calls(args: &UrlArgs, targets: &mut [Target]) -> Result<(), String> {
    let services = args.proto.as_deref().map(Services::read).transpose()?;
    for Target { url, request } in targets {
        if url.is_websocket {
            check_websocket(args, url)?;
            request.make_websocket();
        } else if args.grpc {
            let message = match &services {
                Some(services) => services.encode(&url.path, &request.body)?,
                None => std::mem::take(&mut request.body),
            };
            request.make_grpc(&message)?;
        }
    }
    Ok(())
}

/// Checks that nothing is asked for that a WebSocket does not have.
fn check_websocket(args: &UrlArgs, url: &Url) -> Result<(), String> {
    let rows = [
        (args.grpc, "--grpc: gRPC is spoken over http:// and https://"),
        (args.h2 || args.h3, "--h2 and --h3: WebSockets are opened over HTTP/1.1"),
        (args.disable_keepalive, "--disable-keepalive: a WebSocket carries many messages"),
        (args.method.is_some(), "-m: a WebSocket has messages, which -b names"),
        (args.urls.len() != 1, "a load on a WebSocket has one URL, with which each is opened"),
    ];
    match rows.iter().find(|(is_asked, _)| *is_asked) {
        Some((_, why)) => Err(format!("{url}: {why}; leave it out")),
        None => Ok(()),
    }
}

/// The job, and its description, for a server that accepts connections.
pub(super) fn prepare(args: &UrlArgs) -> Result<(Job, Described), String> {
    args.check_files()?;
    let requested = Requested::by(args)?;
    let (name, over) = requested.spoken(args);
    let methods = requested.methods();
    let Requested { targets, url: shown, names, steps, connections: each } = requested;
    let url = &targets[0].url;
    let protocol = protocol(over);
    if protocol == Protocol::Http3 && !url.is_secure {
        return Err("--h3: HTTP/3 is spoken over https only; write https://".to_owned());
    }
    if args.latency_correction && args.rate.is_some() {
        let why = "--latency-correction is for a closed loop; with -r every latency counts from the \
                   intended start: leave it out";
        return Err(why.to_owned());
    }
    let order = if steps.is_empty() { order(targets.len(), &args.weights)? } else { Vec::new() };
    let requests = targets.iter().map(|one| one.request.bytes(&one.url, protocol)).collect();
    let reached = url.reach(protocol, args.insecure).map_err(|e| e.to_string())?;
    if url.is_websocket {
        url.upgrade(&reached, &targets[0].request).map_err(|e| e.to_string())?;
    }
    let streams = if protocol == Protocol::Http1 { 1 } else { args.streams };
    let connections = connections(args, streams);
    let offered = match args.rate {
        Some(rate) => Offered::Open { rate, poisson: false, connections },
        None => Offered::Closed { connections },
    };
    let duration = args.duration.unwrap_or(match args.requests {
        Some(_) => DURATION_MAX,
        None => DURATION,
    });
    let is_visit = !steps.is_empty();
    let described = Described {
        url: shown,
        address: match &args.unix_socket {
            Some(socket) => socket.display().to_string(),
            None => reached.address.to_string(),
        },
        method: methods,
        protocol: name.to_owned(),
        offered: Offer {
            connections,
            connections_each: is_visit.then_some(each),
            streams,
            is_anew: args.disable_keepalive || is_visit,
            rate: args.rate,
            requests_max: args.requests,
            seconds_max: (duration < DURATION_MAX).then_some(duration.as_secs_f64()),
        },
        is_interrupted: false,
        corrects: args.latency_correction,
        conditions: args.fail_if.clone(),
        requests: names,
    };
    let stop: Arc<AtomicBool> = on_signal().map_err(|e| e.to_string())?;
    let job = Job {
        target: reached.address,
        client: Client { socket: args.unix_socket.clone(), sleeps: args.sleep, steps },
        requests,
        bodies: bodies(&targets, protocol),
        order,
        expected: Expected { status: ANY_STATUS, body_bytes: ANY_LENGTH, body: None },
        offered,
        tls: reached.tls,
        over,
        beside: None,
        draw: 0,
        warm_up: Duration::ZERO,
        duration,
        timeout: args.timeout,
        stop,
    };
    Ok((job, described))
}

/// Connections, or visitors. A closed loop has a request on every connection, or stream, at once:
/// not more than it makes.
fn connections(args: &UrlArgs, streams: u32) -> u32 {
    let places = args.connections.saturating_mul(streams);
    match args.requests {
        Some(most) if args.rate.is_none() && u64::from(places) > most => {
            u32::try_from(most).unwrap_or(args.connections).min(args.connections)
        }
        _ => args.connections,
    }
}

/// The content that is sent apart from the requests: of a WebSocket the frame of its message.
fn bodies(targets: &[Target], protocol: Protocol) -> Vec<Bytes> {
    let content = |Target { url, request }: &Target| match request.body.as_slice() {
        [] if url.is_websocket => websocket_ping(),
        message if url.is_websocket => websocket_message(message),
        body => Bytes::copy_from_slice(body),
    };
    let is_apart = protocol != Protocol::Http1 || targets.iter().any(|one| one.url.is_websocket);
    if is_apart { targets.iter().map(content).collect() } else { Vec::new() }
}

/// The text, or the content of the file after `@`.
fn body(text: &str) -> Result<Vec<u8>, String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.as_bytes().to_vec()) };
    read_body(file).map_err(|e| format!("-b {text}: {e}"))
}
