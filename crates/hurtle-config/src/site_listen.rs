//! Reads the addresses at which a site answers, and checks them against the listeners.

use super::check::addresses;
use super::error::ValueError;
use super::reader::{KeyPosition, Reader};
use super::table::Table;
use super::types::{Config, Listen, Site};

/// The `listen` of a site, as it was written.
#[derive(Clone, Debug)]
pub(super) struct SiteListen {
    spot: KeyPosition,
    listen: Vec<Listen>,
    /// `true`: the site has a certificate.
    has_certificate: bool,
}

/// Reads `listen` of a site; empty: every listener.
pub(super) fn site_listen(table: &Table<'_>, reader: &mut Reader<'_>) -> Vec<Listen> {
    let mut listen = Vec::new();
    let Some(written) = table.get("listen") else { return listen };
    table.set("listen", reader, addresses, &mut listen);
    let (listed, has_certificate) = (listen.clone(), table.get("tls").is_some());
    let recorded = SiteListen { spot: written.spot, listen: listed, has_certificate };
    reader.site_listens.push(recorded);
    listen
}

/// Reports addresses without a listener, and sites that have TLS on one side only.
pub(super) fn check_site_listens(config: &Config, reader: &mut Reader<'_>) {
    for SiteListen { spot, listen, has_certificate } in std::mem::take(&mut reader.site_listens) {
        let (clear, tls) = (&config.listen, &config.listen_tls);
        let missing = listen.iter().find(|at| !clear.contains(at) && !tls.contains(at));
        let is_secure = |at: &Listen| tls.contains(at);
        let wrong = match (missing, has_certificate) {
            (Some(missing), _) => ValueError::new(format!("nothing listens on {missing}"))
                .hint("add it to listen or listen_tls at the top of the file"),
            (None, true) if !listen.iter().any(is_secure) => {
                ValueError::new("the site has a certificate, but listens in clear only")
                    .hint("add an address of listen_tls, or remove [site.tls]")
            }
            (None, false) if !listen.is_empty() && listen.iter().all(is_secure) => {
                ValueError::new("the site listens with TLS only, but has no certificate")
                    .hint("write a [site.tls] beneath the [[site]]")
            }
            (None, _) => continue,
        };
        reader.report(&spot, wrong);
    }
}

impl Site {
    /// Returns whether the site answers on a listener with this configured address.
    pub fn answers_at(&self, listen: &Listen) -> bool {
        self.listen.is_empty() || self.listen.contains(listen)
    }

    /// Returns whether both sites name a listener, or neither names any.
    pub(super) fn has_listener_of(&self, other: &[Listen]) -> bool {
        match (self.listen.is_empty(), other.is_empty()) {
            (false, false) => self.listen.iter().any(|listen| other.contains(listen)),
            // On the listeners of a site that names them, it precedes one that does not.
            (this, other) => this == other,
        }
    }
}
