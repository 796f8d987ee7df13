//! `hurtle trust`: the databases of a home, and what it says about the rest. The system's own store
//! is never changed, because the command does not run as root.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Signal, geteuid};

use crate::child::{Child, eventually, hurtle};
use crate::local_sites::Household;

/// Has a command run as an ordinary user.
fn without_root(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
    }
    command
}

struct Home {
    household: Household,
    path: PathBuf,
}

impl Home {
    fn new() -> Home {
        let household = Household::new(
            "[[site]]\nhosts = \"nas.lab\"\ntls = { certificate = \"local\" }\n\
             mount = [{ respond = \"nas\" }]\n",
        );
        drop(household.start());
        let path = household.0.path("../a home");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        Home { household, path }
    }

    fn trust(&self, arguments: &[&str]) -> Output {
        let mut command = hurtle();
        command.args(["trust", "--config"]).arg(self.household.file()).args(arguments);
        command.env("HOME", &self.path).env_remove("SUDO_USER");
        without_root(&mut command).output().unwrap()
    }

    /// Makes a database; `false`: certutil is not installed.
    fn make_database(&self, name: &str) -> bool {
        let dir = self.path.join(name);
        let made = without_root(Command::new("mkdir").arg("-p").arg(&dir)).status().unwrap();
        assert!(made.success());
        let made = self.certutil(&dir, &["-N", "--empty-password"]);
        made.is_some_and(|output| output.status.success())
    }

    fn certutil(&self, dir: &Path, arguments: &[&str]) -> Option<Output> {
        let mut command = Command::new("certutil");
        command.args(arguments).arg("-d").arg(format!("sql:{}", dir.display()));
        without_root(command.env("HOME", &self.path)).output().ok()
    }

    /// The names in a database.
    fn names(&self, name: &str) -> String {
        let output = self.certutil(&self.path.join(name), &["-L"]).unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn databases_of_browsers_trust_the_authority_and_no_longer() {
    let home = Home::new();
    let databases = [".pki/nssdb", ".mozilla/firefox/a b.default"];
    if !databases.iter().all(|name| home.make_database(name)) {
        eprintln!("not run: no certutil; the package libnss3-tools has it");
        return;
    }
    let output = home.trust(&[]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for name in databases {
        assert!(said.contains(&format!("{name}: trusted; restart the browser")), "{said}");
        assert!(home.names(name).contains("C,,"), "{said}");
    }
    let authority = home.household.authority().join("authority.pem");
    assert!(said.contains(&format!("Certificate authority {}", authority.display())), "{said}");
    assert!(said.contains(&format!("copy {} there", authority.display())), "{said}");
    assert!(text(&home.trust(&[])).contains("firefox/a b.default: trusted already"));
    let output = home.trust(&["--remove"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for name in databases {
        assert!(said.contains(&format!("{name}: trusted no longer")), "{said}");
        assert!(!home.names(name).contains("hurtle-"), "{said}");
    }
    assert!(text(&home.trust(&["--remove"])).contains("nssdb: was not trusted"));
}

#[test]
fn a_failing_program_is_reported_in_its_words() {
    let home = Home::new();
    fs::create_dir_all(home.path.join(".pki/nssdb")).unwrap();
    fs::write(home.path.join(".pki/nssdb/cert9.db"), "no database").unwrap();
    if Command::new("certutil").output().is_err() {
        eprintln!("not run: no certutil; the package libnss3-tools has it");
        return;
    }
    let output = home.trust(&[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("failed: certutil -A") && said.contains("SEC_ERROR"), "{said}");
}

#[test]
fn without_root_the_command_for_the_system_is_printed() {
    let home = Home::new();
    let said = text(&home.trust(&[]));
    let has_store = ["/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"];
    if !has_store.iter().any(|dir| Path::new(dir).is_dir()) {
        eprintln!("not run: no store of a known system");
        return;
    }
    assert!(said.contains("the system's store: as root: sudo cp /"), "{said}");
    assert!(said.contains("start a browser once and repeat this"), "{said}");
    // It is not there, so nothing is to be removed.
    assert!(text(&home.trust(&["--remove"])).contains("the system's store: was not trusted"));
}

/// The response to a GET, head and body.
fn get(address: &str, path: &str) -> (String, Vec<u8>) {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut response = Vec::new();
    socket.read_to_end(&mut response).unwrap();
    let end = response.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
    let body = response.split_off(end + 4);
    (String::from_utf8(response).unwrap(), body)
}

#[test]
fn a_phone_gets_the_authority_from_a_page_whose_address_is_a_qr_code() {
    let home = Home::new();
    let mut command = hurtle();
    command.args(["trust", "--config"]).arg(home.household.file()).args(["--phone", "127.0.0.1:0"]);
    let mut page = Child::spawn(without_root(&mut command));
    eventually("it shows the address", || page.stdout().contains("Ctrl-C ends the page"));
    let said = page.stdout();
    let (_, rest) = said.split_once("Open http://").unwrap();
    let (address, _) = rest.split_once("/ on the phone").unwrap();
    assert!(said.lines().filter(|line| line.contains('\u{2588}')).count() > 10, "{said}");
    let (_, rest) = said.split_once("fingerprint ").unwrap();
    let fingerprint = rest.lines().next().unwrap();
    assert_eq!(fingerprint.split(':').count(), 32, "{said}");
    let (head, body) = get(address, "/");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/html"), "{head}");
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("href=\"/authority.crt\"") && body.contains(fingerprint), "{body}");
    let (head, body) = get(address, "/authority.crt");
    assert!(head.contains("Content-Type: application/x-x509-ca-cert\r\n"), "{head}");
    assert_eq!(body, fs::read(home.household.authority().join("authority.pem")).unwrap());
    assert!(get(address, "/authority.key").0.starts_with("HTTP/1.1 404 "));
    page.signal(Signal::INT);
    page.wait();
    assert!(!text(&home.trust(&["--phone", "--remove"])).contains("http://"));
}

#[test]
fn without_an_authority_the_command_says_what_to_do() {
    let household = Household::new(
        "[[site]]\nhosts = \"nas.lab\"\ntls = { certificate = \"local\" }\nmount = [{ respond = \"\" }]\n",
    );
    let output = household.command("trust");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output);
    assert!(said.contains("start the server once"), "{said}");
    fs::write(household.file(), "root = \".\"\n").unwrap();
    let said = text(&household.command("trust"));
    assert!(said.contains("hurtle.toml: no site in it has certificate = \"local\""), "{said}");
}
