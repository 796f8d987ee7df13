//! Mounts that require client certificates.

use std::fs;

use hurtle::config::{ClientAuth, MountClientAuth};
use rustls::ClientConfig;
use rustls::version::TLS13;

use crate::authority::Authority;
use crate::peer::{NAME, begin, endpoint, get, trusting, within_patience};
use crate::server::Server;

#[test]
fn a_mount_refuses_clients_without_a_certificate() {
    let clients = Authority::new("clients");
    let server = Server::with(&[("a.txt", "secret")], |config| {
        let site = &mut config.sites[0];
        let tls = site.tls.as_mut().unwrap();
        let authorities = tls.certificates[0].chain.with_file_name("clients.pem");
        fs::write(&authorities, clients.pem()).unwrap();
        tls.client_auth =
            Some(ClientAuth { required: false, authorities, revocation_lists: Vec::new() });
        site.mounts[0].client_auth = MountClientAuth::Required;
    });
    // The file is known to the second request of each client.
    for (options, status) in
        [(alice(&server, &clients), 200), (trusting(server.roots(), &["h3"]), 403)]
    {
        within_patience(async {
            let endpoint = endpoint(options);
            let connection = endpoint.connect(server.address, NAME).unwrap().await.unwrap();
            let mut client = begin(connection).await;
            for _ in 0..2 {
                let response = get(&mut client, "/a.txt").await;
                assert_eq!(response.status, status, "{}", response.text());
            }
        });
    }
}

/// A client with a certificate.
fn alice(server: &Server, clients: &Authority) -> ClientConfig {
    let (chain, key) = clients.issue_client("alice").der();
    let mut config = ClientConfig::builder_with_protocol_versions(&[&TLS13])
        .with_root_certificates(server.roots())
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h3".to_vec()];
    config
}
