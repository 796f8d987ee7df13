//! Mounts of uWSGI applications.

use toml::Value;

use super::block::Block;
use super::fastcgi::application_settings;
use super::kind::{HandlerKind, Kind};
use super::mount::{Keys, Mount, put};
use super::report::Report;
use super::upstream::{Groups, application_pass};

/// Adds the keys of a location with `uwsgi_pass`; `None` if it was refused.
pub(super) fn mount(
    block: &Block<'_>,
    groups: &Groups,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let pass = block.take(Kind::Handler(HandlerKind::UwsgiPass))?;
    if pass.arg(0).starts_with("suwsgi://") {
        report.refuse(pass, "hurtle speaks uwsgi in clear; use a unix socket");
        return None;
    }
    put(keys, "uwsgi", application_pass(pass, groups, report)?);
    application_settings(block, |scope| &scope.uwsgi, keys, report);
    Some(())
}

/// Has the application of a mount that takes its path off not know of that path, as in nginx.
pub(super) fn hide_prefix(mount: &mut Mount) {
    let own = mount.keys.iter_mut().find(|(key, _)| key == "params");
    match own.and_then(|(_, params)| params.as_table_mut()) {
        Some(params) => {
            params.entry("SCRIPT_NAME").or_insert_with(|| Value::from(""));
        }
        None => {
            let name = ("SCRIPT_NAME".to_owned(), Value::from(""));
            put(&mut mount.keys, "params", toml::Table::from_iter([name]));
        }
    }
}
