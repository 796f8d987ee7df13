//! Emulators of Azure Blob Storage (Azurite, an npm package) and of Google Cloud Storage
//! (fake-gcs-server, a program in Go), and a server whose files are their objects.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::store::{cache_directory, tools};
use crate::support::{Client, Dir, Response, reserved_address};

/// The account of the emulator, and its documented key.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A key file of a service account without a token: the emulator asks for none.
pub(crate) const SERVICE_ACCOUNT: &str = r#"{ "private_key": "none", "private_key_id": "none",
    "client_email": "none", "disable_oauth": true }"#;

/// Version of the protocol in which the container is created.
const AZURE_VERSION: &str = "2021-08-06";

/// Starts a program that ends when standard input is closed: also when the test program is killed.
const UNTIL_CLOSED: &str =
    r#"exec 3<&0; "$@" & pid=$!; (cat <&3; kill $pid) >/dev/null 2>&1 & wait $pid"#;

/// Attempts to find a port that no other program takes meanwhile.
const ATTEMPTS: usize = 5;

/// A store on loopback, without objects.
pub(crate) struct Emulator {
    pub(crate) address: SocketAddr,
    process: process::Child,
    dir: Dir,
}

impl Emulator {
    /// `None`: Azurite or Node is not installed, which is said.
    pub(crate) fn azure() -> Option<Emulator> {
        let script = tools().join("azurite/node_modules/azurite/dist/src/blob/main.js");
        let has_node = Command::new("node").arg("--version").output().is_ok();
        if !script.exists() || !has_node {
            eprintln!("no Azurite in {}: not tested", script.display());
            return None;
        }
        let emulator = Emulator::start(Path::new("node"), |port| {
            let script = script.display().to_string();
            let port = port.to_string();
            let host = ["--blobHost", "127.0.0.1", "--blobPort"].map(str::to_owned);
            let rest = ["--inMemoryPersistence", "--silent", "--disableTelemetry"];
            let rest = rest.map(str::to_owned);
            [vec![script], host.to_vec(), vec![port], rest.to_vec()].concat()
        });
        emulator.create_container();
        Some(emulator)
    }

    /// `None`: fake-gcs-server is not installed, which is said.
    pub(crate) fn google() -> Option<Emulator> {
        let program = tools().join("bin/fake-gcs-server");
        if !program.exists() {
            eprintln!("no fake-gcs-server in {}: not tested", program.display());
            return None;
        }
        let emulator = Emulator::start(&program, |port| {
            let host = format!("127.0.0.1:{port}");
            let fixed = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port"];
            let rest = [port.to_string(), "-public-host".to_owned(), host];
            [fixed.map(str::to_owned).to_vec(), rest.to_vec()].concat()
        });
        let bucket = br#"{ "name": "site" }"#;
        let fields = "Content-Type: application/json\r\n";
        let response = emulator.direct("POST", "/storage/v1/b?project=p", fields, bucket);
        assert_eq!(response.status, 200, "{response:?}");
        Some(emulator)
    }

    fn start(program: &Path, arguments: impl Fn(u16) -> Vec<String>) -> Emulator {
        for _ in 0..ATTEMPTS {
            let address = reserved_address();
            let mut command = Command::new("sh");
            command.args(["-c", UNTIL_CLOSED, "sh"]).arg(program).args(arguments(address.port()));
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = command.spawn().unwrap();
            let mut has_ended = false;
            eventually("the emulator listens", || {
                has_ended = process.try_wait().unwrap().is_some();
                has_ended || TcpStream::connect(address).is_ok()
            });
            if !has_ended {
                return Emulator { address, process, dir: cache_directory() };
            }
        }
        panic!("{} does not start", program.display());
    }

    /// Creates the container `site`, which anyone may read. The request has a Shared Key.
    fn create_container(&self) {
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        let fields = format!(
            "x-ms-blob-public-access:container\nx-ms-date:{date}\nx-ms-version:{AZURE_VERSION}\n"
        );
        let resource = format!("/{ACCOUNT}/{ACCOUNT}/site\nrestype:container");
        let text = format!("PUT{}{fields}{resource}", "\n".repeat(12));
        let key = BASE64_STANDARD.decode(ACCOUNT_KEY).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let signature = BASE64_STANDARD.encode(hmac::sign(&key, text.as_bytes()));
        let fields = fields.replace('\n', "\r\n");
        let fields = format!("{fields}Authorization: SharedKey {ACCOUNT}:{signature}\r\n");
        let target = format!("/{ACCOUNT}/site?restype=container");
        let response = self.direct("PUT", &target, &fields, b"");
        assert_eq!(response.status, 201, "{response:?}");
    }

    /// Puts an object into the bucket `site` of Google.
    pub(crate) fn put_google(&self, key: &str, content: &[u8]) {
        let target = format!("/upload/storage/v1/b/site/o?uploadType=media&name={key}");
        let fields = "Content-Type: application/octet-stream\r\n";
        assert_eq!(self.direct("POST", &target, fields, content).status, 200, "{key}");
    }

    /// Gets an object of Azure, not through the server.
    pub(crate) fn stored_azure(&self, key: &str) -> Response {
        self.direct("GET", &format!("/{ACCOUNT}/site/{key}"), "", b"")
    }

    fn direct(&self, method: &str, target: &str, fields: &str, content: &[u8]) -> Response {
        let mut client = Client::connect(self.address);
        let (host, len) = (self.address, content.len());
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: {len}\r\n\r\n"
        ));
        client.send(content);
        client.answer(method)
    }

    /// Starts a server for `files`, `az://site` or `gs://site`, with listings and uploads.
    pub(crate) fn serve(&self, files: &str, store: &str) -> Child {
        let is_azure = files.starts_with("az:");
        let path = if is_azure { format!("/{ACCOUNT}") } else { String::new() };
        let account = if is_azure { format!("account = '{ACCOUNT}'\n") } else { String::new() };
        let cache: PathBuf = self.dir.path("cache");
        let config = format!(
            "revalidate = '10ms'\n[[site]]\n[[site.mount]]\nfiles = '{files}'\nlisting = true\n\
             auth = 'none'\nuploads = {{ free_bytes = 0 }}\n[site.mount.object_store]\n{account}\
             endpoint = 'http://{}{path}'\nallow_http = true\nrevalidate = '100ms'\n\
             cache_dir = '{}'\n{store}",
            self.address,
            cache.display()
        );
        let file = write_config(&self.dir, &config);
        let mut command = hurtle();
        command.env("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY);
        if !store.contains("anonymous") {
            command.env("GOOGLE_SERVICE_ACCOUNT_KEY", SERVICE_ACCOUNT);
        }
        Child::start(command.arg("--config").arg(file))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
