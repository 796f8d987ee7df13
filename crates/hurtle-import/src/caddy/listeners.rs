//! Which `servers` of the global options is for which listener. hurtle has its options for all of
//! them.

use super::global::Global;
use super::{address, metrics, site, sites};
use crate::report::Report;
use crate::syntax::Directive;

/// Why options of some listeners are refused.
pub(super) const OF_SOME: &str = "hurtle has it for all listeners, and not all sites have these options in Caddy: write \
     one `servers` without an address";

/// The options that the listeners of the sites have, as far as they are alike.
pub(super) enum Chosen<'d> {
    /// Those of all sites; `None`: they have none.
    OfAll(Option<&'d Directive>),
    /// Some listeners have others.
    OfSome(Vec<&'d Directive>),
}

/// Returns the options that the listeners of the sites have. As in Caddy, one with the address of a
/// listener replaces the one without.
pub(super) fn choose<'d>(
    options: &[&'d Directive],
    blocks: &[Directive],
    global: &Global,
) -> Chosen<'d> {
    let mut chosen: Vec<Option<&'d Directive>> = Vec::new();
    for block in blocks.iter().filter(|block| !block.name.is_empty()) {
        // Problems are those of the site.
        let scratch = &mut Report::default();
        let addresses = address::of(block, global, scratch);
        let is_other = site::is_redirect(block, &addresses)
            || metrics::listener(block, global, scratch).is_some();
        for address in addresses.iter().filter(|_| !is_other) {
            let listeners = names(&sites::interfaces(block, global), &address.port);
            let is_own = |d: &&&Directive| {
                listeners.iter().any(|name| d.arg(0).trim_start_matches("tcp/") == name)
            };
            let general = || options.iter().find(|d| d.args.is_empty());
            let its = options.iter().find(is_own).or_else(general).copied();
            if !chosen.contains(&its) {
                chosen.push(its);
            }
        }
    }
    match chosen.as_slice() {
        [] => Chosen::OfAll(options.iter().find(|d| d.args.is_empty()).copied()),
        [one] => Chosen::OfAll(*one),
        _ => Chosen::OfSome(chosen.into_iter().flatten().collect()),
    }
}

/// The names of Caddy for the listeners of a port.
fn names(interfaces: &[String], port: &str) -> Vec<String> {
    match interfaces {
        [] => vec![format!(":{port}")],
        _ => sites::listeners(interfaces, port),
    }
}
