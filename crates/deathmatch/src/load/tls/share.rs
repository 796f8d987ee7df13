//! X25519 with one key for all handshakes of this process. A server's work does not depend on
//! whether it has seen a key share before; a new one each time would cost the generator a third of
//! a handshake.

use std::sync::OnceLock;

use aws_lc_rs::agreement::{PrivateKey, PublicKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::error::Unspecified;
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};

/// The group X25519 with one key for all handshakes.
#[derive(Debug)]
pub(super) struct OneShare;

/// The key pair of all handshakes.
struct Share {
    key: PrivateKey,
    public: PublicKey,
}

static SHARE: OnceLock<Share> = OnceLock::new();

impl Share {
    fn get() -> Result<&'static Share, Unspecified> {
        if let Some(share) = SHARE.get() {
            return Ok(share);
        }
        let key = PrivateKey::generate(&X25519)?;
        let public = key.compute_public_key()?;
        Ok(SHARE.get_or_init(|| Share { key, public }))
    }
}

impl SupportedKxGroup for OneShare {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let share = Share::get().map_err(|_| Error::FailedToGetRandomBytes)?;
        Ok(Box::new(SharedExchange(share)))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// The share of one handshake.
struct SharedExchange(&'static Share);

impl ActiveKeyExchange for SharedExchange {
    fn complete(self: Box<Self>, theirs: &[u8]) -> Result<SharedSecret, Error> {
        let refused = Error::from(PeerMisbehaved::InvalidKeyShare);
        let theirs = UnparsedPublicKey::new(&X25519, theirs);
        agree(&self.0.key, theirs, refused, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        self.0.public.as_ref()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}
