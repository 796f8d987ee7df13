//! Tests of authentication by tokens that the tests sign, with keys in files and at scripted
//! servers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process};

use crate::support::{Proxy, Upstream};
use crate::tokens::{Signer, base64, now, set};

/// A file of keys, removed when dropped.
struct KeyFile(PathBuf);

impl KeyFile {
    fn new(keys: &[String]) -> KeyFile {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = env::temp_dir().join(format!("hurtle-jwks-{}-{number}", process::id()));
        fs::write(&file, set(keys)).unwrap();
        KeyFile(file)
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

const HELLO: &str = "respond = \"hello\"";

fn bearer(token: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n")
}

/// The value of WWW-Authenticate.
fn challenge(head: &str) -> Option<&str> {
    let named = |line: &&str| line.to_lowercase().starts_with("www-authenticate: ");
    head.lines().find(named).map(|line| &line["www-authenticate: ".len()..])
}

#[test]
fn tokens_are_accepted_and_refused() {
    let (rsa, ec) = (Signer::rs256(), Signer::es256());
    let (ed, secret) = (Signer::ed_dsa(), Signer::hs256());
    let stranger = Signer::es256();
    let keys = [rsa.jwk("r"), ec.jwk("e"), ed.jwk("d"), secret.jwk("s")];
    let file = KeyFile::new(&keys);
    let site = format!(
        "auth = \"jwt\"\njwks = {:?}\nissuer = \"https://login.example/\"\naudience = \"api\"\n\
         algorithms = [\"RS256\", \"ES256\", \"EdDSA\", \"HS256\"]\nrealm = \"the api\"",
        file.0
    );
    let server = Proxy::of_site(&site, HELLO);
    let claims = r#","iss":"https://login.example/","aud":["x","api"],"sub":"anna""#;
    let ok = |signer: &Signer, kid: &str| signer.token(&format!(r#","kid":"{kid}""#), claims);
    let es256 = r#"{"alg":"ES256","kid":"e"}"#;
    let payload = |times: &str| format!("{{{times}{claims}}}");
    let later = now() + 3_600;
    let (good, good_rsa) = (ok(&ec, "e"), ok(&rsa, "r"));
    let part = |token: &str, number: usize| token.split('.').nth(number).unwrap().to_owned();
    // The public key as an HMAC secret: a server that takes the algorithm from the token accepts
    // it.
    let confused = |public: Vec<u8>, kid: &str| ok(&Signer::Hs256(public), kid);
    let accepted = [
        ("RS256", good_rsa.clone()),
        ("ES256", good.clone()),
        ("EdDSA", ok(&ed, "d")),
        ("HS256 with a secret of the file", ok(&secret, "s")),
        ("no key ID: the keys of the algorithm are tried", ec.token("", claims)),
        ("expired within the leeway", ec.sign(es256, &payload(&format!("\"exp\":{}", now() - 30)))),
    ];
    for (sentence, token) in &accepted {
        let (head, body) = server.send(bearer(token)).answer();
        assert!(head.starts_with("HTTP/1.1 200 "), "{sentence}: {head}");
        assert_eq!(body, "hello", "{sentence}");
    }
    let expired = format!("\"exp\":{}", now() - 61);
    let refused = [
        ("expired", ec.sign(es256, &payload(&expired)), "the token has expired"),
        (
            "not valid yet",
            ec.sign(es256, &payload(&format!("\"exp\":{later},\"nbf\":{}", now() + 120))),
            "the token is not valid yet",
        ),
        (
            "issued in the future",
            ec.sign(es256, &payload(&format!("\"exp\":{later},\"iat\":{}", now() + 120))),
            "the token is not valid yet",
        ),
        ("no expiry", ec.sign(es256, &payload("\"a\":1")), "the claim exp is missing or malformed"),
        (
            "another issuer",
            ec.token(r#","kid":"e""#, r#","iss":"https://evil.example/","aud":"api""#),
            "the issuer of the token is not accepted",
        ),
        (
            "another audience",
            ec.token(r#","kid":"e""#, r#","iss":"https://login.example/","aud":"web""#),
            "the token is for another audience",
        ),
        (
            "a changed payload",
            format!(
                "{}.{}.{}",
                part(&good, 0),
                base64(payload(&format!("\"exp\":{}", later + 9))),
                part(&good, 2)
            ),
            "the signature of the token is wrong",
        ),
        ("a stranger's key", ok(&stranger, "e"), "the signature of the token is wrong"),
        ("an unknown key ID", ok(&ec, "f"), "the key of the token is unknown"),
        ("the key ID of another kind", ok(&ec, "r"), "the key of the token is unknown"),
        (
            "no signature",
            format!("{}.{}.", base64(r#"{"alg":"none"}"#), part(&good, 1)),
            "the algorithm of the token is not accepted",
        ),
        (
            "an algorithm that is not allowed",
            rsa.sign(r#"{"alg":"RS512","kid":"r"}"#, &payload(&format!("\"exp\":{later}"))),
            "the algorithm of the token is not accepted",
        ),
        (
            "HS256 with the RSA key as secret",
            confused(rsa.public(), "r"),
            "the key of the token is unknown",
        ),
        (
            "HS256 with the point as secret, without a key ID",
            Signer::Hs256(ec.public()).token("", claims),
            "the signature of the token is wrong",
        ),
        (
            "RS256 in the header of an EC signature",
            ec.sign(r#"{"alg":"RS256","kid":"r"}"#, &payload(&format!("\"exp\":{later}"))),
            "the signature of the token is wrong",
        ),
        (
            "a key of its own in the header",
            stranger.token(&format!(r#","jwk":{}"#, stranger.jwk("e")), claims),
            "the signature of the token is wrong",
        ),
        (
            "an extension that must be understood",
            ec.token(r#","kid":"e","crit":["b64"],"b64":false"#, claims),
            "the token has extensions that are not understood",
        ),
        ("two parts", format!("{}.{}", part(&good, 0), part(&good, 1)), "the token is malformed"),
        ("four parts", format!("{good}.x"), "the token is malformed"),
        ("no base64", "a*b.c.d".to_owned(), "the token is malformed"),
        ("an empty token", String::new(), ""),
        ("a payload that is no object", ec.sign(es256, "[1]"), "the token is malformed"),
    ];
    for (sentence, token, description) in refused {
        let (head, _) = server.send(bearer(&token)).answer();
        assert!(head.starts_with("HTTP/1.1 401 "), "{sentence}: {head}");
        let detail = match description {
            "" => String::new(),
            _ => format!(", error=\"invalid_token\", error_description=\"{description}\""),
        };
        let want = format!("Bearer realm=\"the api\"{detail}");
        assert_eq!(challenge(&head), Some(want.as_str()), "{sentence}");
    }
    // RFC 6750 section 3.1: no error without a token.
    for authorization in ["", "Authorization: Basic YTpi\r\n", "Cookie: session=x\r\n"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{authorization}\r\n");
        let (head, _) = server.send(request).answer();
        assert!(head.starts_with("HTTP/1.1 401 "), "{authorization}: {head}");
        assert_eq!(challenge(&head), Some("Bearer realm=\"the api\""), "{authorization}");
    }
}

#[test]
fn claims_are_request_fields_that_no_client_can_set() {
    let key = Signer::ed_dsa();
    let file = KeyFile::new(&[key.jwk("d")]);
    let upstream = Upstream::new();
    let site = format!(
        "auth = \"jwt\"\njwks = {:?}\ntoken_cookie = \"session\"\nclaims = {{ sub = \"X-User\", \
         roles = \"X-Roles\", name = \"X-Name\", \"https://a.example/team\" = \"X-Team\" }}",
        file.0
    );
    let server = Proxy::of_site(&site, &format!("proxy = \"http://{}\"", upstream.address));
    let token = key.token(
        "",
        r#","sub":"anna","roles":["a","b"],"name":"x\r\nX-Admin: 1","https://a.example/team":7"#,
    );
    // A client that lists a field in Connection would have it removed (RFC 9110 section 7.6.1).
    let spoofed = "X-User: evil\r\nx_user: evil\r\nX-Roles: evil\r\nx-name: evil\r\nX-Other: 1\r\n\
                   Connection: X-User, x_roles, X-Roles, X-Hop\r\nX-Hop: evil\r\n";
    for credentials in [
        format!("Authorization: bearer {token}"),
        format!("Cookie: a=b; session={token}; c=d"),
        format!("Cookie: a=b\r\nCookie: session={token}"),
        format!("Authorization: Basic YTpi\r\nCookie: session={token}"),
    ] {
        let mut client =
            server.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{credentials}\r\n{spoofed}\r\n"));
        let (mut peer, head) = upstream.next_request();
        for line in ["x-user: anna", "x-roles: a,b", "x-team: 7", "X-Other: 1"] {
            assert!(head.lines().any(|other| other.eq_ignore_ascii_case(line)), "{line}: {head}");
        }
        assert!(!head.contains("evil"), "{head}");
        assert!(!head.to_lowercase().contains("x-name") && !head.contains("X-Admin"), "{head}");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        assert_eq!(client.answer().1, "ok");
    }
    // An upstream may read another token than the first.
    let forged = Signer::ed_dsa().token("", r#","sub":"evil""#);
    for credentials in [
        format!("Authorization: Bearer x\r\nCookie: session={token}"),
        format!("Authorization: Bearer {token}\r\nCookie: session={forged}"),
        format!("Authorization: Bearer\t{forged}\r\nCookie: session={token}"),
        format!("Authorization: Bearer {token}\r\nAuthorization: Bearer {forged}"),
        format!(
            "Authorization: Bearer {forged}\r\nAuthorization: Basic eA==\r\nCookie: session={token}"
        ),
        format!("Cookie: session={token}; session={forged}"),
        format!("Cookie: session={token}\r\nCookie: session ={forged}"),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{credentials}\r\n\r\n");
        let (head, _) = server.send(request).answer();
        assert!(head.starts_with("HTTP/1.1 401 "), "{credentials}: {head}");
    }
}

#[test]
fn a_known_file_needs_a_token_each_time() {
    let key = Signer::es256();
    let file = KeyFile::new(&[key.jwk("e")]);
    let name = file.0.file_name().unwrap().to_str().unwrap();
    let site = format!("auth = \"jwt\"\njwks = {:?}", file.0);
    let server = Proxy::of_site(&site, &format!("files = {:?}", env::temp_dir()));
    let mut client = server.connect();
    let with = bearer(&key.token("", "")).replace("GET /", &format!("GET /{name}"));
    let without = format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..3 {
        client.send(&with);
        assert!(client.answer().0.starts_with("HTTP/1.1 200 "));
        client.send(&without);
        assert!(client.answer().0.starts_with("HTTP/1.1 401 "));
    }
}

/// Answers the next fetch of keys.
fn serve_keys(issuer: &Upstream, keys: &[String]) {
    let (mut peer, head) = issuer.next_request();
    assert!(head.starts_with("GET /keys?v=1 HTTP/1.1\n"), "{head}");
    let body = set(keys);
    peer.send(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=86400\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
}

/// The status of a request with this token.
fn status(server: &Proxy, token: &str) -> String {
    let (head, _) = server.send(bearer(token)).answer();
    head.split(' ').nth(1).unwrap().to_owned()
}

/// Repeats a request until its status changes; returns the new one.
fn next_status(server: &Proxy, token: &str, from: &str) -> String {
    for _ in 0..2_000 {
        let status = status(server, token);
        if status != from {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    from.to_owned()
}

#[test]
fn keys_of_a_url_are_fetched_again_for_a_new_key() {
    let (old, new) = (Signer::es256(), Signer::es256());
    let issuer = Upstream::new();
    let site = format!("auth = \"jwt\"\njwks = \"http://{}/keys?v=1\"", issuer.address);
    let server = Proxy::of_site(&site, HELLO);
    let of_old = old.token(r#","kid":"old""#, "");
    let of_new = new.token(r#","kid":"new""#, "");
    // The first fetch has no response yet.
    let (mut head, _) = server.send(bearer(&of_old)).answer();
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("\nRetry-After: "), "{head}");
    head = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().0;
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    // It fails, and the next one succeeds.
    let (mut peer, _) = issuer.next_request();
    peer.send("HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    drop(peer);
    serve_keys(&issuer, &[old.jwk("old")]);
    assert_eq!(next_status(&server, &of_old, "503"), "200");
    issuer.expect_no_connection();
    // A new key is fetched when a token names it.
    assert_eq!(status(&server, &of_new), "401");
    serve_keys(&issuer, &[old.jwk("old"), new.jwk("new")]);
    assert_eq!(next_status(&server, &of_new, "401"), "200");
    assert_eq!(status(&server, &of_old), "200");
    // Unknown keys cause one fetch a minute.
    assert_eq!(status(&server, &new.token(r#","kid":"none""#, "")), "401");
    assert_eq!(status(&server, &new.token(r#","kid":"more""#, "")), "401");
    assert!(issuer.next_request_if_any().is_none(), "a second fetch within a minute");
    assert_eq!(status(&server, &of_new), "200", "the keys stay");
}

/// Regression: the page of one user was sent to others, if no claim became a field.
#[test]
fn a_page_for_the_user_of_a_token_is_not_stored() {
    let key = Signer::es256();
    let file = KeyFile::new(&[key.jwk("e")]);
    let upstream = Upstream::new();
    let empty = env::temp_dir().join(format!("hurtle-jwt-empty-{}", process::id()));
    fs::create_dir_all(&empty).unwrap();
    let server = Proxy::written(
        1,
        &format!(
            "[[site]]\n[[site.mount]]\nfiles = {empty:?}\notherwise = 'app'\nauth = 'jwt'\n\
             jwks = {:?}\ntoken_cookie = 'session'\n\
             [[site.mount]]\nname = 'app'\nproxy = 'http://{}'\ncache = {{}}\n",
            file.0, upstream.address
        ),
    );
    for user in ["anna", "bob"] {
        let token = key.token("", &format!(r#","sub":"{user}""#));
        let mut client = server
            .send(format!("GET /page HTTP/1.1\r\nHost: a\r\nCookie: session={token}\r\n\r\n"));
        let (mut peer, _) = upstream.next_request();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{user}",
            user.len()
        ));
        assert_eq!(client.answer().1, user);
    }
    fs::remove_dir(&empty).unwrap();
}
