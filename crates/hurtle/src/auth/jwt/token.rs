//! Verifies a token (JSON Web Token, RFC 7519, as a JWS in compact form, RFC 7515) with the
//! practices of RFC 8725: the algorithm is one of the configured ones, and the key is of its kind.

use std::fmt;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::config::{KeySet, TokenRules};

/// Largest token, in bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Most signatures verified for one token, which needs more than one only if it names no key.
const TRIES_MAX: usize = 4;

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// The reason to refuse a token; its text is sent to the client (RFC 6750 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    Malformed,
    Critical,
    WrongAlgorithm,
    /// The issuer may have a new key.
    UnknownKey,
    BadSignature,
    /// A claim is missing or is not of its type.
    BadClaim(&'static str),
    Expired,
    NotYetValid,
    WrongIssuer,
    WrongAudience,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenError::Malformed => "the token is malformed",
            TokenError::Critical => "the token has extensions that are not understood",
            TokenError::WrongAlgorithm => "the algorithm of the token is not accepted",
            TokenError::UnknownKey => "the key of the token is unknown",
            TokenError::BadSignature => "the signature of the token is wrong",
            TokenError::BadClaim(name) => {
                return write!(f, "the claim {name} is missing or malformed");
            }
            TokenError::Expired => "the token has expired",
            TokenError::NotYetValid => "the token is not valid yet",
            TokenError::WrongIssuer => "the issuer of the token is not accepted",
            TokenError::WrongAudience => "the token is for another audience",
        })
    }
}

/// Verifies a token at this time, in seconds since 1970, and returns its claims.
///
/// # Errors
/// The reason to refuse it.
pub(super) fn verify(
    token: &[u8],
    keys: &KeySet,
    rules: &TokenRules,
    now: u64,
) -> Result<Claims, TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::Malformed);
    }
    let header = decode_header(token).map_err(|e| match e.kind() {
        // Algorithms that the library does not have, `none` among them.
        ErrorKind::Json(e) if e.is_data() => TokenError::WrongAlgorithm,
        _ => TokenError::Malformed,
    })?;
    if header.crit.is_some() {
        return Err(TokenError::Critical);
    }
    if !rules.algorithms.contains(&header.alg) {
        return Err(TokenError::WrongAlgorithm);
    }
    let mut candidates = keys.candidates(header.alg, header.kid.as_deref()).peekable();
    if candidates.peek().is_none() {
        return Err(TokenError::UnknownKey);
    }
    let mut error = TokenError::BadSignature;
    for key in candidates.take(TRIES_MAX) {
        match signed_claims(token, header.alg, key) {
            Ok(claims) => return check(&claims, rules, now).map(|()| claims),
            Err(why) => error = why,
        }
    }
    Err(error)
}

/// Verifies the signature only.
fn signed_claims(
    token: &[u8],
    algorithm: Algorithm,
    key: &DecodingKey,
) -> Result<Claims, TokenError> {
    let mut validation = Validation::new(algorithm);
    // `check` is stricter: the library ignores an audience that is no text, and the time of issue.
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    let decoded = decode::<Claims>(token, key, &validation);
    decoded.map(|token| token.claims).map_err(|e| match e.kind() {
        ErrorKind::Json(_) | ErrorKind::Base64(_) | ErrorKind::Utf8(_) => TokenError::Malformed,
        _ => TokenError::BadSignature,
    })
}

/// Checks the claims that RFC 7519 section 4.1 registers.
fn check(claims: &Claims, rules: &TokenRules, now: u64) -> Result<(), TokenError> {
    let (now, leeway) = (now as f64, rules.leeway.as_secs_f64());
    let time = |name: &'static str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(TokenError::BadClaim(name)),
    };
    let expires = time("exp")?.ok_or(TokenError::BadClaim("exp"))?;
    if now >= expires + leeway {
        return Err(TokenError::Expired);
    }
    for name in ["nbf", "iat"] {
        if time(name)?.is_some_and(|from| now + leeway < from) {
            return Err(TokenError::NotYetValid);
        }
    }
    let accepts = |accepted: &[String], value: &Value| {
        value.as_str().is_some_and(|text| accepted.iter().any(|other| other == text))
    };
    let issuer = claims.get("iss").unwrap_or(&Value::Null);
    if !rules.issuer.is_empty() && !accepts(&rules.issuer, issuer) {
        return Err(TokenError::WrongIssuer);
    }
    let is_meant = match claims.get("aud") {
        None => rules.audience.is_empty(),
        Some(Value::Array(list)) => list.iter().any(|value| accepts(&rules.audience, value)),
        Some(value) => accepts(&rules.audience, value),
    };
    if is_meant { Ok(()) } else { Err(TokenError::WrongAudience) }
}

/// Returns a claim as a field value; `None`: it has no unambiguous one. The elements of a list are
/// separated by commas.
pub(super) fn field_value(claim: &Value) -> Option<String> {
    let text = match claim {
        Value::Array(list) => {
            let texts: Option<Vec<String>> = list.iter().map(scalar).collect();
            let texts = texts.filter(|texts| texts.iter().all(|text| !text.contains(',')))?;
            texts.join(",")
        }
        scalar_claim => scalar(scalar_claim)?,
    };
    // A line break would begin another field, and recipients strip surrounding whitespace.
    let is_kept = !text.contains(char::is_control) && text.trim() == text;
    is_kept.then_some(text)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn rules() -> TokenRules {
        let issuer = vec!["https://login.example/".to_owned()];
        let audience = vec!["api".to_owned(), "web".to_owned()];
        let leeway = Duration::from_secs(10);
        TokenRules { issuer, audience, leeway, ..TokenRules::default() }
    }

    #[test]
    fn claims_are_checked() {
        use TokenError::{BadClaim, Expired, NotYetValid, WrongAudience, WrongIssuer};
        let now = 1_000;
        let rows = [
            ("all as it should be", json!({}), Ok(())),
            ("within the leeway", json!({ "exp": 991 }), Ok(())),
            ("expired", json!({ "exp": 990 }), Err(Expired)),
            ("a fraction", json!({ "exp": 990.5 }), Ok(())),
            ("no end", json!({ "exp": null }), Err(BadClaim("exp"))),
            ("an end in text", json!({ "exp": "2000" }), Err(BadClaim("exp"))),
            ("valid from now", json!({ "nbf": 1_010 }), Ok(())),
            ("valid later", json!({ "nbf": 1_011 }), Err(NotYetValid)),
            ("a start in text", json!({ "nbf": "1" }), Err(BadClaim("nbf"))),
            ("issued in the future", json!({ "iat": 1_011 }), Err(NotYetValid)),
            ("another issuer", json!({ "iss": "https://login.example" }), Err(WrongIssuer)),
            ("a list of issuers", json!({ "iss": ["https://login.example/"] }), Err(WrongIssuer)),
            ("one of two audiences", json!({ "aud": ["x", "web"] }), Ok(())),
            ("another audience", json!({ "aud": "Api" }), Err(WrongAudience)),
            ("no audience", json!({ "aud": [] }), Err(WrongAudience)),
            ("a number for an audience", json!({ "aud": 5 }), Err(WrongAudience)),
        ];
        let base = json!({ "exp": 2_000, "iss": "https://login.example/", "aud": "api" });
        for (sentence, changes, want) in rows {
            let mut claims = base.as_object().unwrap().clone();
            claims.extend(changes.as_object().unwrap().clone());
            assert_eq!(check(&claims, &rules(), now), want, "{sentence}");
        }
        let without = |name: &str| {
            let mut claims = base.as_object().unwrap().clone();
            claims.remove(name);
            check(&claims, &rules(), now)
        };
        assert_eq!(without("exp"), Err(BadClaim("exp")));
        assert_eq!(without("iss"), Err(WrongIssuer));
        assert_eq!(without("aud"), Err(WrongAudience));
        let open = TokenRules { issuer: vec![], audience: vec![], ..rules() };
        let claims = base.as_object().unwrap();
        assert_eq!(check(claims, &open, now), Err(WrongAudience), "an audience that is not ours");
    }

    #[test]
    fn claims_become_field_values_only_if_nothing_is_lost() {
        let rows = [
            ("text", json!("anna"), Some("anna")),
            ("UTF-8", json!("björn"), Some("björn")),
            ("a number", json!(5), Some("5")),
            ("a flag", json!(true), Some("true")),
            ("a list", json!(["a", 1, "b c"]), Some("a,1,b c")),
            ("an element with a comma", json!(["a,b"]), None),
            ("a line break", json!("a\r\nX-Admin: 1"), None),
            ("surrounding spaces", json!(" admin"), None),
            ("an object", json!({ "a": 1 }), None),
            ("a list in a list", json!([["a"]]), None),
            ("nothing", json!(null), None),
        ];
        for (sentence, claim, want) in rows {
            assert_eq!(field_value(&claim).as_deref(), want, "{sentence}");
        }
    }

    #[test]
    fn a_long_token_is_not_read() {
        let token = [b"e30.e30.", &[b'A'; TOKEN_BYTES_MAX][..]].concat();
        let error = verify(&token, &KeySet::default(), &rules(), 0);
        assert_eq!(error, Err(TokenError::Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(token: Vec<u8>, text in "[A-Za-z0-9_.-]{0,60}") {
            let keys = KeySet::default();
            prop_assert!(verify(&token, &keys, &rules(), 0).is_err());
            prop_assert!(verify(text.as_bytes(), &keys, &rules(), 0).is_err());
        }
    }
}
