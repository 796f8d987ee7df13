//! Explains which codings a response is sent in, and why there are none.

use http::header::CACHE_CONTROL;
use hurtle_http::semantics::accept::Coding;

use crate::body::Stamp;
use crate::compress::{CODINGS, Policy};
use crate::edits::ResponseEdits;
use crate::files::Target;
use crate::files::differences::VERSIONS_MAX;
use crate::handler::Handler;
use crate::handler::directory::Directory;
use crate::handler::request::MatchedPath;

/// Describes the codings of a path of files.
pub(super) fn of_files(directory: &Directory, matched: &MatchedPath<'_>) -> String {
    let Some((path, states)) = file(directory, matched) else {
        return "no: not a file".to_owned();
    };
    let Some(len) = original_len(&states) else { return ON_DISK.to_owned() };
    let others = CODINGS.iter().filter(|coding| states.iter().all(|(found, _)| found != *coding));
    let codings: Vec<String> = others.map(|coding| format!("{coding:?}").to_lowercase()).collect();
    match directory.compression(matched, &path, len) {
        Err(why) => format!("no: {why}"),
        Ok(()) if codings.is_empty() => ON_DISK.to_owned(),
        Ok(()) => {
            let codings = codings.join(", ");
            format!(
                "{codings}: made when a client first accepts one, which gets it encoded while it is sent"
            )
        }
    }
}

/// Describes how the file of a path is a dictionary. `None`: it is none, or it is not compressed.
pub(super) fn dictionary(
    edits: &ResponseEdits,
    directory: &Directory,
    matched: &MatchedPath<'_>,
) -> Option<String> {
    let (path, states) = file(directory, matched)?;
    let field = directory.dictionary(matched, &path)?;
    if directory.compression(matched, &path, original_len(&states)?).is_err() {
        return None;
    }
    let hint = match edits.value(&CACHE_CONTROL, matched.path).is_some() {
        true => "",
        false => "; clients use it while it is fresh, but no header rule sets Cache-Control",
    };
    let field = String::from_utf8_lossy(field.as_bytes());
    Some(format!(
        "a dictionary, {field}; dcz for clients that have one of the {VERSIONS_MAX} newest versions{hint}"
    ))
}

const ON_DISK: &str = "the variants on disk";

/// Returns the path and the states of a file. `None`: there is none, or the path is redirected.
fn file(
    directory: &Directory,
    matched: &MatchedPath<'_>,
) -> Option<(Vec<u8>, Vec<(Coding, Stamp)>)> {
    match directory.lookup(matched.rest).filter(|_| !matched.is_without_slash())?.probe().ok()? {
        Target::File { path, states } => Some((path, states)),
        _ => None,
    }
}

/// Returns the length of the file without a coding. `None`: it is missing.
fn original_len(states: &[(Coding, Stamp)]) -> Option<u64> {
    let original = states.first().filter(|(coding, _)| *coding == Coding::Identity);
    original.map(|(_, state)| state.len)
}

/// Describes the compression of a handler's responses. `None`: it has none of its own.
pub(super) fn of_handler(handler: &Handler, policy: Option<&Policy>) -> Option<&'static str> {
    match handler {
        Handler::Proxy(proxy) if proxy.cache().is_some() => {
            Some("no: the cache keeps what the upstream sends")
        }
        Handler::App(_) | Handler::Proxy(_) | Handler::Gateway { .. } => Some(match policy {
            Some(_) => "responses of the types in compress.types, while they are sent",
            None => "no: compress is off here",
        }),
        Handler::Directory(_)
        | Handler::Redirect(_)
        | Handler::Fixed(_)
        | Handler::Abort
        | Handler::Status(_) => None,
    }
}
