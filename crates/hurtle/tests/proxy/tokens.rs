//! Makes keys and signs tokens without the library that the server verifies them with.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A key that signs.
pub(crate) enum Signer {
    Rs256(RsaKeyPair),
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Hs256(Vec<u8>),
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Signer {
    pub(crate) fn rs256() -> Signer {
        Signer::Rs256(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    pub(crate) fn es256() -> Signer {
        Signer::Es256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn ed_dsa() -> Signer {
        Signer::EdDsa(Ed25519KeyPair::generate().unwrap())
    }

    pub(crate) fn hs256() -> Signer {
        let mut secret = vec![0; 32];
        rand::fill(&mut secret).unwrap();
        Signer::Hs256(secret)
    }

    /// The public key: the point, the RSA modulus, or the secret.
    pub(crate) fn public(&self) -> Vec<u8> {
        match self {
            // RSAPublicKey (RFC 8017 appendix A.1.1): 9 bytes, the modulus, then 65537.
            Signer::Rs256(pair) => pair.public_key().as_ref()[9..9 + 256].to_vec(),
            Signer::Es256(pair) => pair.public_key().as_ref().to_vec(),
            Signer::EdDsa(pair) => pair.public_key().as_ref().to_vec(),
            Signer::Hs256(secret) => secret.clone(),
        }
    }

    /// The key as a JWK, with this key ID.
    pub(crate) fn jwk(&self, kid: &str) -> String {
        let public = self.public();
        let members = match self {
            Signer::Rs256(_) => format!(r#""kty":"RSA","n":"{}","e":"AQAB""#, base64(public)),
            Signer::Es256(_) => {
                let (x, y) = public[1..].split_at(32);
                format!(r#""kty":"EC","crv":"P-256","x":"{}","y":"{}""#, base64(x), base64(y))
            }
            Signer::EdDsa(_) => {
                format!(r#""kty":"OKP","crv":"Ed25519","x":"{}""#, base64(public))
            }
            Signer::Hs256(_) => format!(r#""kty":"oct","k":"{}""#, base64(public)),
        };
        format!(r#"{{{members},"kid":"{kid}"}}"#)
    }

    /// Signs this header and payload.
    pub(crate) fn sign(&self, header: &str, payload: &str) -> String {
        let message = format!("{}.{}", base64(header), base64(payload));
        let bytes = message.as_bytes();
        let random = SystemRandom::new();
        let signature = match self {
            Signer::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature).unwrap();
                signature
            }
            Signer::Es256(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Signer::EdDsa(pair) => pair.sign(bytes).as_ref().to_vec(),
            Signer::Hs256(secret) => {
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), bytes).as_ref().to_vec()
            }
        };
        format!("{message}.{}", base64(signature))
    }

    /// Signs a token that is valid for an hour, with these further members of header and payload.
    pub(crate) fn token(&self, header: &str, claims: &str) -> String {
        let algorithm = match self {
            Signer::Rs256(_) => "RS256",
            Signer::Es256(_) => "ES256",
            Signer::EdDsa(_) => "EdDSA",
            Signer::Hs256(_) => "HS256",
        };
        let expires = now() + 3_600;
        self.sign(
            &format!(r#"{{"alg":"{algorithm}"{header}}}"#),
            &format!(r#"{{"exp":{expires}{claims}}}"#),
        )
    }
}

/// A JWK Set of these keys (RFC 7517 section 5).
pub(crate) fn set(keys: &[String]) -> String {
    format!("{{\"keys\":[{}]}}", keys.join(","))
}
