//! Explains which codings a response is sent in, and why there are none.

use http::header::CACHE_CONTROL;

use crate::compress::{CODINGS, Policy};
use crate::edits::ResponseEdits;
use crate::files::Target;
use crate::files::differences::VERSIONS_MAX;
use crate::handler::Handler;
use crate::handler::directory::Directory;
use crate::handler::request::MatchedPath;

/// Describes the codings of a path of files.
pub(super) fn of_files(directory: &Directory, matched: &MatchedPath<'_>) -> String {
    let found = directory.lookup(matched.rest).and_then(|lookup| lookup.probe().ok());
    let Some(Target::File { path, states }) = found else { return "no: not a file".to_owned() };
    let Some((_, stamp)) = states.first() else { return "no: not a file".to_owned() };
    let others = CODINGS.iter().filter(|coding| states.iter().all(|(found, _)| found != *coding));
    let codings: Vec<String> = others.map(|coding| format!("{coding:?}").to_lowercase()).collect();
    match directory.compression(matched, &path, stamp.len) {
        Err(why) => format!("no: {why}"),
        Ok(()) if codings.is_empty() => "the variants on disk".to_owned(),
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
    let found = directory.lookup(matched.rest)?.probe().ok()?;
    let Target::File { path, states } = found else { return None };
    let field = directory.dictionary(matched, &path)?;
    if directory.compression(matched, &path, states.first()?.1.len).is_err() {
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
