//! Sets of keys that verify tokens (JWK Set, RFC 7517). `hurtle::auth` fetches them and verifies
//! tokens.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize as _;
use serde_json::Value;

/// Largest key set, in bytes. A key with its chain of certificates takes about 6 KiB.
pub const SET_BYTES_MAX: usize = 256 << 10;

/// Most keys of a set; issuers publish two or three.
const KEYS_MAX: usize = 64;

/// Shortest RSA modulus, in bytes (RFC 7518 section 3.3).
const RSA_BYTES_MIN: usize = 2048 / 8;

/// The keys of an issuer.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<VerificationKey>,
}

/// A key, with the algorithms that it verifies.
#[derive(Clone)]
pub struct VerificationKey {
    kid: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl fmt::Debug for VerificationKey {
    /// Leaves out the key, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kid, self.algorithms)
    }
}

/// Reads a file of keys; returns it with its bytes.
///
/// # Errors
/// The file and its problem.
pub fn read_jwks(file: &Path) -> Result<(KeySet, Vec<u8>), String> {
    let mut bytes = Vec::new();
    let limit = SET_BYTES_MAX as u64 + 1;
    let read = File::open(file).and_then(|f| f.take(limit).read_to_end(&mut bytes));
    let set = match read {
        Err(e) => Err(e.to_string()),
        Ok(n) if n > SET_BYTES_MAX => Err(format!("more than {} KiB", SET_BYTES_MAX >> 10)),
        Ok(_) => KeySet::parse(&bytes, true),
    };
    set.map(|set| (set, bytes)).map_err(|e| format!("{}: {e}", file.display()))
}

impl KeySet {
    /// Parses a JWK Set. Keys of unknown kinds, for other purposes, and too short ones are left out
    /// (RFC 7517 section 5). `has_secrets`: keys for HMAC are used; they must not be public.
    ///
    /// # Errors
    /// It is no JWK Set, it has more than 64 keys, or none that can verify a token.
    pub fn parse(json: &[u8], has_secrets: bool) -> Result<KeySet, String> {
        let document: Value =
            serde_json::from_slice(json).map_err(|e| format!("it is not JSON: {e}"))?;
        let Some(listed) = document.get("keys").and_then(Value::as_array) else {
            return Err("it is not a JWK Set: it has no list \"keys\"".to_owned());
        };
        if listed.len() > KEYS_MAX {
            return Err(format!("it has more than {KEYS_MAX} keys"));
        }
        let mut keys = Vec::new();
        let mut wrong = None;
        for (number, value) in listed.iter().enumerate() {
            match VerificationKey::parse(value, has_secrets) {
                Ok(key) => keys.push(key),
                Err(why) => wrong = wrong.or(Some(format!("key {number} {why}"))),
            }
        }
        if keys.is_empty() {
            let why = wrong.unwrap_or_else(|| "the list is empty".to_owned());
            return Err(format!("it has no key that verifies tokens: {why}"));
        }
        Ok(KeySet { keys })
    }

    /// Returns the keys that may have signed a token with this algorithm and key ID. A key without
    /// an ID, and any key for a token without one, may have.
    pub fn candidates<'a>(
        &'a self,
        algorithm: Algorithm,
        kid: Option<&'a str>,
    ) -> impl Iterator<Item = &'a DecodingKey> {
        let is_candidate = move |key: &&VerificationKey| {
            let is_named = match (&key.kid, kid) {
                (Some(own), Some(kid)) => own == kid,
                (None, _) | (_, None) => true,
            };
            is_named && key.algorithms.contains(&algorithm)
        };
        self.keys.iter().filter(is_candidate).map(|key| &key.key)
    }
}

impl VerificationKey {
    fn parse(value: &Value, has_secrets: bool) -> Result<VerificationKey, String> {
        let jwk = Jwk::deserialize(value).map_err(|e| format!("is malformed: {e}"))?;
        let common = &jwk.common;
        if common.public_key_use.as_ref().is_some_and(|purpose| *purpose != PublicKeyUse::Signature)
        {
            return Err("is not for signatures (use)".to_owned());
        }
        let operations = common.key_operations.as_ref();
        // The private key of a pair, or a secret, may be for both.
        if operations.is_some_and(|operations| !operations.contains(&KeyOperations::Verify)) {
            return Err("does not verify (key_ops)".to_owned());
        }
        let mut algorithms = algorithms(&jwk.algorithm, has_secrets)?;
        if let Some(declared) = common.key_algorithm {
            algorithms.retain(|algorithm| KeyAlgorithm::from(*algorithm) == declared);
            if algorithms.is_empty() {
                return Err("has an algorithm (alg) that is unknown or of another kind".to_owned());
            }
        }
        let key = DecodingKey::from_jwk(&jwk).map_err(|e| format!("is malformed: {e}"))?;
        Ok(VerificationKey { kid: common.key_id.clone(), algorithms, key })
    }
}

/// Returns the algorithms that a key can be used with, by its kind and size.
fn algorithms(key: &AlgorithmParameters, has_secrets: bool) -> Result<Vec<Algorithm>, String> {
    use Algorithm::{
        ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512,
    };
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).map_or(0, |bytes| bytes.len());
    let is_point = |x: &str, y: &str, len| bytes(x) == len && bytes(y) == len;
    match key {
        AlgorithmParameters::RSA(rsa) if bytes(&rsa.n) < RSA_BYTES_MIN => {
            Err("is an RSA key of fewer than 2048 bits".to_owned())
        }
        AlgorithmParameters::RSA(_) => Ok(vec![RS256, RS384, RS512, PS256, PS384, PS512]),
        AlgorithmParameters::EllipticCurve(ec) => match ec.curve {
            EllipticCurve::P256 if is_point(&ec.x, &ec.y, 32) => Ok(vec![ES256]),
            EllipticCurve::P384 if is_point(&ec.x, &ec.y, 48) => Ok(vec![ES384]),
            _ => Err("is not a point of the curves P-256 or P-384".to_owned()),
        },
        AlgorithmParameters::OctetKeyPair(pair) => match pair.curve {
            EllipticCurve::Ed25519 if bytes(&pair.x) == 32 => Ok(vec![EdDSA]),
            _ => Err("is not an Ed25519 key".to_owned()),
        },
        AlgorithmParameters::OctetKey(_) if !has_secrets => {
            Err("is a secret that was published".to_owned())
        }
        // RFC 7518 section 3.2: a key is at least as long as the hash.
        AlgorithmParameters::OctetKey(secret) => {
            let len = bytes(&secret.value);
            let by_size = [(HS256, 32), (HS384, 48), (HS512, 64)];
            let fitting: Vec<Algorithm> =
                by_size.iter().filter(|(_, least)| *least <= len).map(|(name, _)| *name).collect();
            match fitting.is_empty() {
                true => Err("is a secret of fewer than 32 bytes".to_owned()),
                false => Ok(fitting),
            }
        }
        _ => Err("is of an unknown kind (kty)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modulus of 2048 bits of RFC 7515 appendix A.2.
    const N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

    fn outcome(key: &str, has_secrets: bool) -> String {
        match KeySet::parse(format!("{{\"keys\":[{key}]}}").as_bytes(), has_secrets) {
            Ok(set) => format!("{:?}", set.keys[0].algorithms),
            Err(e) => e.replace("it has no key that verifies tokens: ", ""),
        }
    }

    #[test]
    fn a_key_is_used_for_the_algorithms_of_its_kind() {
        let rsa = |more: &str| format!(r#"{{"kty":"RSA","n":"{N}","e":"AQAB"{more}}}"#);
        let all = "[RS256, RS384, RS512, PS256, PS384, PS512]";
        let c32 = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
        let rows = [
            ("RSA", rsa(""), all),
            ("RSA for one algorithm", rsa(r#","alg":"PS256","use":"sig""#), "[PS256]"),
            (
                "RSA for an algorithm of secrets",
                rsa(r#","alg":"HS256""#),
                "key 0 has an algorithm (alg) that is unknown or of another kind",
            ),
            ("for encryption", rsa(r#","use":"enc""#), "key 0 is not for signatures (use)"),
            ("only for signing", rsa(r#","key_ops":["sign"]"#), "key 0 does not verify (key_ops)"),
            (
                "a short modulus",
                r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#.to_owned(),
                "key 0 is an RSA key of fewer than 2048 bits",
            ),
            (
                "P-256",
                format!(r#"{{"kty":"EC","crv":"P-256","x":"{c32}","y":"{c32}"}}"#),
                "[ES256]",
            ),
            (
                "a coordinate of P-256 on P-384",
                format!(r#"{{"kty":"EC","crv":"P-384","x":"{c32}","y":"{c32}"}}"#),
                "key 0 is not a point of the curves P-256 or P-384",
            ),
            ("Ed25519", format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{c32}"}}"#), "[EdDSA]"),
            ("a secret of 32 bytes", format!(r#"{{"kty":"oct","k":"{c32}"}}"#), "[HS256]"),
            (
                "a short secret",
                r#"{"kty":"oct","k":"AQAB"}"#.to_owned(),
                "key 0 is a secret of fewer than 32 bytes",
            ),
            (
                "an unknown kind",
                r#"{"kty":"PQC","k":"AQAB"}"#.to_owned(),
                "key 0 is of an unknown kind (kty)",
            ),
            ("no key", String::new(), "the list is empty"),
        ];
        for (sentence, key, want) in rows {
            assert_eq!(outcome(&key, true), want, "{sentence}");
        }
        let secret = format!(r#"{{"kty":"oct","k":"{c32}"}}"#);
        assert_eq!(outcome(&secret, false), "key 0 is a secret that was published");
        let unknown_and_known = format!(r#"{{"kty":"PQC"}},{}"#, rsa(""));
        assert_eq!(outcome(&unknown_and_known, true), all, "an unknown key beside a known one");
    }

    #[test]
    fn sets_are_bounded_and_of_their_form() {
        let many = format!("{{\"keys\":[{}]}}", vec!["{}"; KEYS_MAX + 1].join(","));
        for (json, want) in [
            ("no", "it is not JSON: "),
            ("[]", "it is not a JWK Set: it has no list \"keys\""),
            ("{\"keys\":{}}", "it is not a JWK Set: it has no list \"keys\""),
            (&many, "it has more than 64 keys"),
        ] {
            let error = KeySet::parse(json.as_bytes(), true).unwrap_err();
            assert!(error.starts_with(want), "{json}: {error}");
        }
    }
}
