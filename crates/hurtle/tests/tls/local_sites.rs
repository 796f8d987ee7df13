//! Sites with `certificate = "local"`: names of a private network, their authority, and renewals.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustix::process::geteuid;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::child::{Child, eventually, hurtle};
use crate::peer::{Options, Peer};
use crate::support::Dir;

const SITES: &str = "[[site]]\nhosts = [\"nas.lab\", \"nas\", \"127.0.0.1\"]\n\
    tls = { certificate = \"local\" }\nmount = [{ respond = \"nas\" }]\n\
    [[site]]\nhosts = [\"*.localhost\", \"*.photos.lan\"]\ntls = { certificate = \"local\" }\n\
    mount = [{ respond = \"below\" }]\n";

/// A configuration whose authority is beside the served directory.
pub(crate) struct Household(pub(crate) Dir);

impl Household {
    pub(crate) fn new(sites: &str) -> Household {
        let household = Household(Dir::new(&[("a.txt", "a")]));
        household.write(sites);
        household
    }

    /// Writes the configuration. A server started by root gives it up.
    pub(crate) fn write(&self, sites: &str) {
        let user = if geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
        let (authority, admin) = (self.authority(), self.0.path("../admin.sock"));
        let text = format!(
            "listen_tls = \"127.0.0.1:0\"\nworkers = 1\n{user}local_authority = {authority:?}\n\
             admin = {admin:?}\n{sites}"
        );
        fs::write(self.file(), text).unwrap();
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path("../hurtle.toml")
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.0.path("../authority")
    }

    pub(crate) fn start(&self) -> Child {
        Child::start(hurtle().arg("--config").arg(self.file()))
    }

    pub(crate) fn command(&self, name: &str) -> Output {
        hurtle().arg(name).arg("--config").arg(self.file()).output().unwrap()
    }

    /// A client that trusts an authority.
    fn trusting(&self, name: &str) -> Options {
        let mut roots = RootCertStore::empty();
        let file = self.authority().join(name);
        roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
        Options::trusting(roots)
    }

    /// The file with the certificate of a site.
    fn certificate(&self, first_name: &str) -> PathBuf {
        let entries = fs::read_dir(self.authority()).unwrap().map(|entry| entry.unwrap().path());
        let is_of = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(&format!("site-{first_name}-"))
        };
        entries.into_iter().find(is_of).unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[track_caller]
fn body(child: &Child, name: &str, options: &Options) -> String {
    let mut peer = Peer::connect(child.address(), name, options).unwrap();
    String::from_utf8(peer.get_of(name, "/").body.to_vec()).unwrap()
}

#[test]
fn a_client_that_trusts_the_authority_reaches_every_private_name() {
    let household = Household::new(SITES);
    let said = text(&household.command("check"));
    assert!(said.contains("ok\nwarning: a start makes a local certificate authority"), "{said}");
    let child = household.start();
    assert!(child.stderr().contains("authority.pem: new local certificate authority; clients"));
    let options = household.trusting("authority.pem");
    for (name, expected) in [
        ("nas.lab", "nas"),
        ("nas", "nas"),
        // Without SNI.
        ("127.0.0.1", "nas"),
        ("app.localhost", "below"),
        ("2026.photos.lan", "below"),
        ("summer.2026.photos.lan", "below"),
    ] {
        assert_eq!(body(&child, name, &options), expected, "{name}");
    }
    // The name is another site's: there is none of the local domain itself.
    assert!(Peer::connect(child.address(), "tv.lab", &options).is_err());
    assert_eq!(text(&household.command("check")), "ok\n");
    let mut explain = hurtle();
    explain.args(["explain", "/", "--host", "app.localhost", "--config"]).arg(household.file());
    let said = text(&explain.output().unwrap());
    let expected = format!("signed by the local authority in {}", household.authority().display());
    assert!(said.contains(&expected), "{said}");
    let entries = fs::read_dir(household.authority()).unwrap().map(|entry| entry.unwrap());
    for entry in entries {
        let (name, metadata) = (entry.file_name(), entry.metadata().unwrap());
        let expected = if name == "authority.pem" { 0o644 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, expected, "{name:?}");
        let directory = fs::metadata(household.authority()).unwrap();
        assert_eq!(metadata.uid(), directory.uid(), "{name:?} is the server's");
    }
}

#[test]
fn a_second_start_uses_the_same_authority_and_certificates() {
    let household = Household::new(SITES);
    drop(household.start());
    let read = || {
        let entries = fs::read_dir(household.authority()).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> =
            entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect();
        files.sort();
        files
    };
    let before = read();
    let child = household.start();
    assert_eq!(read(), before);
    assert!(!child.stderr().contains("certificate authority"), "{}", child.stderr());
    assert_eq!(body(&child, "nas.lab", &household.trusting("authority.pem")), "nas");
}

#[test]
fn a_public_name_is_refused() {
    let household = Household::new(
        "[[site]]\nhosts = \"example.com\"\ntls = { certificate = \"local\" }\nmount = [{ respond = \"\" }]\n",
    );
    let output = household.command("check");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output);
    assert!(said.contains("example.com is a public name"), "{said}");
    assert!(said.contains("write certificate = \"auto\""), "{said}");
}

/// The server is in its sandbox, and no longer root, when it makes the files.
#[test]
fn a_reload_adds_a_name_that_needs_another_authority() {
    let household = Household::new(SITES);
    let child = household.start();
    let first = household.trusting("authority.pem");
    let tv = "[[site]]\nhosts = \"tv\"\ntls = { certificate = \"local\" }\nmount = [{ respond = \"tv\" }]\n";
    household.write(&format!("{SITES}{tv}"));
    let said = text(&household.command("check"));
    assert!(said.contains("may sign for tv: a start makes another one"), "{said}");
    let output = household.command("reload");
    assert!(output.status.success(), "{}", text(&output));
    eventually("the log tells of the authority", || {
        child.stderr().contains("authority-2.pem: another local certificate authority, for tv;")
    });
    assert_eq!(body(&child, "tv", &household.trusting("authority-2.pem")), "tv");
    assert_eq!(body(&child, "nas", &first), "nas", "trusted as before");
}

#[test]
fn a_certificate_near_its_end_is_replaced_while_the_server_runs() {
    let household = Household::new(SITES);
    // The test signs too, so it makes the authority.
    fs::create_dir(household.authority()).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "A test");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let day = Duration::from_secs(24 * 60 * 60);
    params.not_after = (SystemTime::now() + 3_650 * day).into();
    let key = KeyPair::generate().unwrap();
    let file = |name: &str| household.authority().join(name);
    fs::write(file("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(file("authority.key"), key.serialize_pem()).unwrap();
    let issuer = Issuer::new(params, key);

    let child = household.start();
    let options = household.trusting("authority.pem");
    let certificate = || Peer::connect(child.address(), "nas.lab", &options).unwrap().certificate();
    let first = certificate();
    let names = ["nas.lab", "nas", "127.0.0.1"].map(str::to_owned);
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = (SystemTime::now() - 61 * day).into();
    params.not_after = (SystemTime::now() + 29 * day).into();
    let key = KeyPair::generate().unwrap();
    let ending = params.signed_by(&key, &issuer).unwrap();
    let path = household.certificate("nas.lab");
    fs::write(&path, key.serialize_pem() + &ending.pem()).unwrap();
    eventually("there is a third certificate", || {
        let now = certificate();
        now != first && now != ending.der().to_vec()
    });
    assert_eq!(body(&child, "nas", &options), "nas");
    // The file is replaced when it is lost, too.
    fs::remove_file(&path).unwrap();
    eventually("the file is there again", || path.exists());
}
