//! Upstreams whose own certificate is in `upstream_tls.ca`.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::log;
use crate::secure::{Authority, Secure, builder};
use crate::support::{GET, OK};

#[test]
fn a_pinned_certificate_may_be_marked_as_an_authoritys() {
    log::begin();
    let authority = Authority::new("pinned");
    // `openssl req -x509` marks its certificates so.
    let own = |name: &str, change: fn(&mut CertificateParams)| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let signed = params.self_signed(&key).unwrap();
        fs::write(authority.dir.join("ca.pem"), signed.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let chain = vec![signed.der().clone()];
        builder().with_no_client_auth().with_single_cert(chain, key).unwrap()
    };
    let upstream = Secure::new(own("localhost", |_| ()));
    let proxy = upstream.proxy(&authority, "");
    let mut client = proxy.send(GET);
    let mut peer = upstream.accept();
    peer.head();
    peer.send(OK);
    assert!(client.head().starts_with("HTTP/1.1 200 "), "exactly this certificate is trusted");
    let rows: [(&str, fn(&mut CertificateParams), &str); 2] = [
        ("other.example", |_| (), "its certificate is not for localhost"),
        (
            "localhost",
            |params| params.not_after = date_time_ymd(2020, 1, 1),
            "its certificate has expired",
        ),
    ];
    for (name, change, reason) in rows {
        let upstream = Secure::new(own(name, change));
        let proxy = upstream.proxy(&authority, "");
        let mut client = proxy.send(GET);
        upstream.accept_broken();
        assert!(client.head().starts_with("HTTP/1.1 502 "), "{reason}");
        let lines =
            log::lines_with(&format!("upstream https://localhost:{}", upstream.address.port()));
        assert!(lines.iter().any(|line| line.contains(reason)), "{reason}: {lines:?}");
    }
    // Another certificate of the same name and key usage is not trusted.
    let upstream = Secure::new(own("localhost", |_| ()));
    own("localhost", |_| ());
    let proxy = upstream.proxy(&authority, "");
    let mut client = proxy.send(GET);
    upstream.accept_broken();
    assert!(client.head().starts_with("HTTP/1.1 502 "));
}
