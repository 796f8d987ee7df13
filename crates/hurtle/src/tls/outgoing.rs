//! TLS for requests of the server itself: to certificate authorities, and for keys of tokens.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};

use super::pem;

/// Makes a configuration that trusts the system's authorities and those in the file `root`.
///
/// # Errors
/// The system has no certificate authorities, or their file is unusable.
pub fn outgoing(root: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(root) = root {
        for certificate in pem::certificates(root)? {
            roots.add(certificate).map_err(|e| format!("{}: {e}", root.display()))?;
        }
    }
    if roots.is_empty() {
        return Err(
            "the system has no trusted authorities; install ca-certificates, or configure \
                    the authority's `root`"
                .to_owned(),
        );
    }
    from_roots(roots)
}

/// Makes a configuration that accepts no certificate, for requests without TLS.
///
/// # Errors
/// None in practice: the versions of TLS suit the provider.
pub fn trusting_nobody() -> Result<ClientConfig, String> {
    from_roots(RootCertStore::empty())
}

fn from_roots(roots: RootCertStore) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
