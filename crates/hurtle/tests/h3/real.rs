//! Tests with HTTP/3 clients that others wrote: Chromium, aioquic (Python) and quic-go. A test
//! passes over a client that is not installed and cannot be fetched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, PublicKeyData as _};
use sha2::{Digest as _, Sha256};

use crate::go;
use crate::peer::NAME;
use crate::server::Server;
use crate::support::Dir;
use crate::support::client::PATIENCE;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Loads 30 files; the title has the protocols that carried them and the page, and their bytes.
const PAGE: &str = "<title>loading</title><script type=module>
const names = [...Array(30).keys()].map((n) => `/f${n}.bin`);
const sizes = await Promise.all(names.map(async (name) => {
  return (await (await fetch(name)).arrayBuffer()).byteLength;
}));
const entries = ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind));
const protocols = [...new Set(entries.map((entry) => entry.nextHopProtocol))];
document.title = `${protocols} ${sizes.reduce((sum, size) => sum + size)}`;
</script>";

#[test]
fn chromium_loads_a_page_and_its_files() {
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = BROWSERS.iter().find(is_there) else {
        println!("skipped: none of {BROWSERS:?} is installed");
        return;
    };
    let server = Server::start(&[("index.html", PAGE)]);
    for n in 0..30 {
        server.dir.write(format!("f{n}.bin"), vec![b'x'; 50_000]);
    }
    let key = KeyPair::from_pem(&fs::read_to_string(server.dir.path("../a.key")).unwrap()).unwrap();
    let trusted = BASE64_STANDARD.encode(Sha256::digest(key.subject_public_key_info()));
    let (port, profile) = (server.address.port(), Dir::new(&[]));
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).arg(browser).args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--virtual-time-budget=30000",
        &format!("--user-data-dir={}", profile.root().display()),
        &format!("--host-resolver-rules=MAP {NAME} 127.0.0.1"),
        &format!("--origin-to-force-quic-on={NAME}:{port}"),
        &format!("--ignore-certificate-errors-spki-list={trusted}"),
        "--dump-dom",
        &format!("https://{NAME}:{port}/"),
    ]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(page.contains("<title>h3 1500000</title>"), "{page}\n{errors}");
}

/// Sends 20 requests at once, a request for each of the other targets, and an upload; prints the
/// statuses and the bytes.
const AIOQUIC: &str = include_str!("aioquic.py");

#[test]
fn aioquic_gets_and_uploads_files() {
    let Some(python) = python_with_aioquic() else {
        println!("skipped: aioquic is not installed, and pip cannot fetch it");
        return;
    };
    let server = uploads();
    let script = server.dir.path("../client.py");
    fs::write(&script, AIOQUIC).unwrap();
    let output = Command::new(python).arg(script).arg(server.address.port().to_string()).output();
    expect_lines(&output.unwrap());
    assert_eq!(fs::read(server.dir.path("new.bin")).unwrap().len(), 300_000);
}

const GO: &str = include_str!("client.go");

#[test]
fn quic_go_gets_and_uploads_files() {
    let Some(program) = go::built("quic-go", "github.com/quic-go/quic-go@v0.54.0", GO) else {
        println!("skipped: there is no Go, or quic-go cannot be fetched");
        return;
    };
    let server = uploads();
    let output = Command::new(program).arg(server.address.port().to_string()).output();
    expect_lines(&output.unwrap());
    assert_eq!(fs::read(server.dir.path("new.bin")).unwrap().len(), 300_000);
}

fn uploads() -> Server {
    let server = Server::configured(
        &[("a.txt", "0123456789"), ("large.bin", "")],
        "listen_tls = \"127.0.0.1:1\"\n[[site]]\n[site.tls]\ncertificate = \"a\"\nkey = \"b\"\n\
         [[site.mount]]\nfiles = \"{root}\"\nauth = \"none\"\n[site.mount.uploads]\nfree_bytes = 0\n",
    );
    server.dir.write("large.bin", vec![b'x'; 5_000_000]);
    server
}

#[track_caller]
fn expect_lines(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines = String::from_utf8_lossy(&output.stdout);
    let expected = "20 times /a.txt 200 10\n/large.bin 200 5000000\n/none 404\nPUT 201\n";
    assert_eq!(lines, expected, "{errors}");
}

/// Returns a Python that has aioquic: that of the system, or one with it in a directory of the
/// tests.
fn python_with_aioquic() -> Option<PathBuf> {
    let has_it = |python: &Path| {
        let check = Command::new(python).args(["-c", "import aioquic"]).output();
        check.is_ok_and(|output| output.status.success())
    };
    let system = PathBuf::from("python3");
    if has_it(&system) {
        return Some(system);
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aioquic");
    let python = directory.join("bin/python");
    if !has_it(&python) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
        let install = ["-m", "pip", "install", "--quiet", "--timeout", "20", "aioquic==1.*"];
        run(Command::new(&python).args(install))?;
    }
    has_it(&python).then_some(python)
}

fn run(command: &mut Command) -> Option<()> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then_some(())
}
