//! HTTP/3 over reloads: open connections get the new configuration, and the protocol can be turned
//! off and on.

use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::Reloaded;
use crate::h3_peer::{NAME, begin, endpoint, get, trusting, within_patience};
use crate::support::reserved_address;

#[test]
fn open_connections_get_the_new_configuration_and_http3_is_turned_off_and_on() {
    let pair = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pair.cert.der().to_vec())).unwrap();
    // The port stays the same over reloads.
    let address = reserved_address();
    let config = |top: &str, mount: &str| {
        format!(
            "listen_tls = '{address}'\n{top}[[site]]\nhosts = '{NAME}'\n[site.tls]\nredirect = false\n\
             certificate = '{{root}}/../chain.pem'\nkey = '{{root}}/../key.pem'\n\
             [[site.mount]]\nrespond = '{mount}'\n"
        )
    };
    let server = Reloaded::prepared(&config("", "first"), |dir| {
        dir.write("../chain.pem", pair.cert.pem());
        dir.write("../key.pem", pair.signing_key.serialize_pem());
    });
    let reload = |text: String| {
        let (code, said) = server.reload(&text);
        assert_eq!(code, Some(0), "{said}");
    };
    within_patience(async {
        let endpoint = endpoint(trusting(roots, &["h3"]));
        let mut client = begin(endpoint.connect(address, NAME).unwrap().await.unwrap()).await;
        assert_eq!(get(&mut client, "/").await.text(), "first");
        reload(config("", "second"));
        let second = get(&mut client, "/").await;
        assert_eq!(second.text(), "second");
        assert!(second.field("alt-svc").is_some());

        reload(config("http3 = false\n", "third"));
        let third = get(&mut client, "/").await;
        assert_eq!((third.text(), third.field("alt-svc")), ("third", None));
        let connecting = endpoint.connect(address, NAME).unwrap();
        let refused = tokio::time::timeout(Duration::from_secs(1), connecting).await;
        assert!(!matches!(refused, Ok(Ok(_))), "HTTP/3 is off");
        drop(client);

        reload(config("", "fourth"));
        let mut client = begin(endpoint.connect(address, NAME).unwrap().await.unwrap()).await;
        assert_eq!(get(&mut client, "/").await.text(), "fourth");
    });
}
