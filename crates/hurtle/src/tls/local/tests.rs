//! Tests of the names that a local authority may sign, and of the files that are kept or replaced.

use std::os::unix::fs::PermissionsExt;

use rcgen::KeyPair;

use super::*;
use crate::config::CertificateFiles;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("hurtle-{}-{name}", std::process::id()));
        Scratch(dir)
    }

    fn prepare(&self, sites: &[&[&str]]) -> Prepared {
        let sites: Vec<Vec<HostName>> = sites.iter().map(|names| hosts(names)).collect();
        prepare_for(&self.0, &sites).unwrap()
    }

    fn file(&self, names: &[&str]) -> PathBuf {
        certificate_file(&self.0, &hosts(names))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn hosts(names: &[&str]) -> Vec<HostName> {
    let host = |name: &&str| match name.strip_prefix("*.") {
        Some(suffix) => HostName::Wildcard(suffix.to_owned()),
        None => HostName::Exact((*name).to_owned()),
    };
    names.iter().map(host).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_authority_is_created_once_and_only_its_owner_can_read_the_keys() {
    let scratch = Scratch::new("local");
    let first = scratch.prepare(&[&[]]);
    assert!(first.created.is_some());
    for key in [scratch.0.join("authority.key"), scratch.file(&[]), scratch.0.join("lock")] {
        assert_eq!(mode(&key), 0o600, "{}", key.display());
    }
    let before = fs::read(scratch.file(&[])).unwrap();
    let again = scratch.prepare(&[&[]]);
    assert_eq!(again, Prepared { created: None, ..first });
    assert_eq!(fs::read(scratch.file(&[])).unwrap(), before, "it is still valid");
}

#[test]
fn a_broken_certificate_is_replaced_and_the_authority_kept() {
    let scratch = Scratch::new("broken");
    let first = scratch.prepare(&[&["nas.lab"]]);
    let authority = fs::read(&first.authorities[0]).unwrap();
    let file = scratch.file(&["nas.lab"]);
    fs::write(&file, "cut sho").unwrap();
    assert_eq!(scratch.prepare(&[&["nas.lab"]]).created, None);
    let names = hosts(&["nas.lab"]);
    assert!(IssuedCertificate::read(&fs::read(&file).unwrap(), &names).is_ok());
    assert_eq!(fs::read(&first.authorities[0]).unwrap(), authority);
    fs::remove_file(scratch.0.join("authority.key")).unwrap();
    let again = scratch.prepare(&[&["nas.lab"]]);
    assert!(again.created.is_some(), "an authority without its key is useless");
    let known = authorities(&scratch.0, now()).unwrap();
    assert!(issuer_of(&file, &names, &known).is_some());
}

#[test]
fn another_authority_is_made_for_a_name_that_the_first_may_not_sign() {
    let scratch = Scratch::new("another");
    let lab = ["nas.lab"];
    let first = scratch.prepare(&[&lab]).authorities;
    assert_eq!(scratch.prepare(&[&["10.1.2.3", "*.home.arpa"]]).authorities, first);
    let before = fs::read(scratch.file(&lab)).unwrap();
    let both = scratch.prepare(&[&lab, &["nas", "10.1.2.3", "tv"]]);
    let second = scratch.0.join("authority-2.pem");
    assert_eq!(both.authorities, [first[0].clone(), second.clone()]);
    let created = both.created.unwrap();
    assert_eq!(
        (created.certificate, created.names),
        (second.clone(), vec!["nas".into(), "tv".into()])
    );
    assert_eq!(fs::read(scratch.file(&lab)).unwrap(), before, "its authority stays");
    assert_eq!(scratch.prepare(&[&["tv"]]).authorities, [second]);
    assert_eq!(authority_certificates(&scratch.0).len(), 2);
}

#[test]
fn the_authority_cannot_sign_for_other_names() {
    let scratch = Scratch::new("constraint");
    scratch.prepare(&[&["media"]]);
    let known = authorities(&scratch.0, now()).unwrap();
    let table = [
        ("this machine", "localhost", true),
        ("a name below it", "app.localhost", true),
        ("a loopback address", "127.1.2.3", true),
        ("a home network", "nas.home.arpa", true),
        ("a private address", "192.168.1.1", true),
        ("a unique local address", "[fd00::1]", true),
        ("its own single label", "media", true),
        ("a name below it, which may be public", "www.media", false),
        ("another single label", "nas", false),
        ("a public name", "example.org", false),
        ("another name with the same end", "notlocalhost", false),
        ("a public address", "192.0.2.1", false),
        ("another IPv6 address", "[::2]", false),
    ];
    for (sentence, name, expected) in table {
        let signed = known[0].sign(&hosts(&[name]), now()).unwrap();
        assert_eq!(signed.is_some(), expected, "{sentence}");
    }
}

#[test]
fn a_certificate_is_valid_for_90_days_and_renewed_after_60() {
    let scratch = Scratch::new("lifetime");
    scratch.prepare(&[&["nas.lab"]]);
    let (file, names) = (scratch.file(&["nas.lab"]), hosts(&["nas.lab"]));
    let day = 24 * 60 * 60;
    let valid = IssuedCertificate::read(&fs::read(&file).unwrap(), &names).unwrap().valid;
    assert_eq!(valid.until - valid.from, 90 * day);
    assert_eq!(renewal(valid) - valid.from, 60 * day);
    let known = authorities(&scratch.0, now()).unwrap();
    let earlier = now() - 60 * day;
    fs::write(&file, known[0].sign(&names, earlier).unwrap().unwrap()).unwrap();
    let old = fs::read(&file).unwrap();
    assert_eq!(scratch.prepare(&[&["nas.lab"]]).created, None);
    assert_ne!(fs::read(&file).unwrap(), old);
}

#[test]
fn names_below_a_wildcard_get_certificates_of_their_own() {
    let scratch = Scratch::new("wildcard");
    let names = hosts(&["*.localhost", "*.nas.lan"]);
    prepare_for(&scratch.0, std::slice::from_ref(&names)).unwrap();
    let file = certificate_file(&scratch.0, &names);
    let files = CertificateFiles { chain: file.clone(), key: file };
    let on_demand = OnDemand::load(&scratch.0, &names, &files).unwrap().unwrap();
    let table = [
        ("below a wildcard that clients refuse", "App.localhost", true),
        ("the site's certificate has it", "tv.nas.lan", false),
        ("two labels below", "a.tv.nas.lan", true),
        ("not below", "tv.lan", false),
        ("the domain itself", "localhost", false),
    ];
    for (sentence, name, expected) in table {
        let found = on_demand.certificate(name);
        assert_eq!(found.is_some(), expected, "{sentence}");
        if let Some(found) = found {
            let known = authorities(&scratch.0, now()).unwrap();
            assert!(known[0].has_issued(&found.cert[0], now()), "{sentence}");
            let again = on_demand.certificate(name).unwrap();
            assert_eq!(again.cert, found.cert, "{sentence}: it is kept");
        }
    }
}

#[test]
fn an_authority_of_an_earlier_version_is_used_for_localhost() {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, GeneralSubtree, IsCa, NameConstraints,
    };
    let scratch = Scratch::new("earlier");
    create_directory(&scratch.0).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Hurtle on this machine only");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName("localhost".to_owned()),
            GeneralSubtree::IpAddress(rcgen::CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8)),
            GeneralSubtree::IpAddress(rcgen::CidrSubnet::from_v6_prefix(
                std::net::Ipv6Addr::LOCALHOST.octets(),
                128,
            )),
        ],
        excluded_subtrees: vec![],
    });
    let key = KeyPair::generate().unwrap();
    let files = Authority::files(&scratch.0, 1);
    fs::write(&files.chain, params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    let prepared = scratch.prepare(&[&[], &["nas.lab"]]);
    assert_eq!(prepared.authorities, [files.chain, scratch.0.join("authority-2.pem")]);
}
