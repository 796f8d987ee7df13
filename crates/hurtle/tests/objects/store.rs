//! An S3 service (moto, a Python package), and a server whose files are objects of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::child::{Child, hurtle, write_config};
use crate::emulator::SERVICE_ACCOUNT;
use crate::proxy::Proxy;
use crate::support::{Client, Dir, Response};

/// The service, one for all tests of the program; it ends when its standard input
/// is closed.
struct Moto {
    address: SocketAddr,
    _process: Mutex<process::Child>,
}

/// The service does not verify signatures.
pub(crate) const AUTHORIZATION: &str = "Authorization: AWS4-HMAC-SHA256 \
    Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n";

/// Ends the service when the test program has ended: this pipe is closed then.
const START: &str = "
import os, sys, threading
def watch():
    sys.stdin.buffer.read()
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
from moto.server import main
main(['-H', '127.0.0.1', '-p', '0'])
";

/// Address of the service. `None`: it is not installed, which is said.
pub(crate) fn service() -> Option<SocketAddr> {
    static MOTO: OnceLock<Option<Moto>> = OnceLock::new();
    MOTO.get_or_init(start).as_ref().map(|moto| moto.address)
}

fn start() -> Option<Moto> {
    let directory = tools().join("moto");
    if !directory.join("moto").exists() {
        eprintln!("no moto in {}: not tested; `cargo xtask test` installs it", directory.display());
        return None;
    }
    let mut process = Command::new("python3")
        .args(["-c", START])
        .env("PYTHONPATH", &directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let mut said = String::new();
    let address = loop {
        let Some(Ok(line)) = lines.next() else { panic!("moto does not start: {said}") };
        if let Some((_, address)) = line.split_once("Running on http://") {
            break address.trim().parse().unwrap();
        }
        said += &line;
    };
    // Its log of requests must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some(Moto { address, _process: Mutex::new(process) })
}

/// The directory of programs that `cargo xtask test` installs.
pub(crate) fn tools() -> PathBuf {
    let mut target = PathBuf::from(env!("CARGO_BIN_EXE_hurtle"));
    target.pop();
    target.pop();
    target.join("tools")
}

/// A bucket with a proxy before it, and the directory of a server's cache.
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) proxy: Proxy,
    pub(crate) dir: Dir,
    service: SocketAddr,
}

impl Bucket {
    /// Creates a bucket with these objects. `None`: there is no service.
    pub(crate) fn new(objects: &[(&str, &[u8])]) -> Option<Bucket> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let service = service()?;
        let name = format!("bucket{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = cache_directory();
        let bucket = Bucket { name, proxy: Proxy::start(service), dir, service };
        assert_eq!(bucket.direct("PUT", "", b"").status, 200);
        for (key, content) in objects {
            bucket.put(key, content);
        }
        Some(bucket)
    }

    /// Puts an object, not through the proxy.
    pub(crate) fn put(&self, key: &str, content: &[u8]) {
        assert_eq!(self.direct("PUT", key, content).status, 200, "{key}");
    }

    /// Deletes an object, not through the proxy.
    pub(crate) fn delete(&self, key: &str) {
        assert_eq!(self.direct("DELETE", key, b"").status, 204, "{key}");
    }

    /// Gets an object, not through the proxy.
    pub(crate) fn stored(&self, key: &str) -> Response {
        self.direct("GET", key, b"")
    }

    fn direct(&self, method: &str, key: &str, content: &[u8]) -> Response {
        let mut client = Client::connect(self.service);
        let head = format!(
            "{method} /{}/{key} HTTP/1.1\r\nHost: {}\r\n{AUTHORIZATION}Content-Length: {}\r\n\r\n",
            self.name,
            self.service,
            content.len()
        );
        client.send(head.replace(&format!("/{}/ ", self.name), &format!("/{} ", self.name)));
        client.send(content);
        client.answer(method)
    }

    /// The configuration of a mount with the objects, and these lines in its table.
    pub(crate) fn mount(&self, store: &str, mount: &str) -> String {
        let endpoint = self.proxy.address();
        let cache = self.dir.path("cache").display().to_string();
        format!(
            "[[site.mount]]\nfiles = \"s3://{}\"\n{mount}\n[site.mount.object_store]\n\
             endpoint = \"http://{endpoint}\"\nallow_http = true\ncache_dir = \"{cache}\"\n{store}\n",
            self.name
        )
    }

    /// Starts a server with these lines in the tables of the store and of the mount.
    pub(crate) fn serve(&self, store: &str, mount: &str) -> Child {
        self.start(&format!("[[site]]\n{}", self.mount(store, mount)))
    }

    /// Starts a server with this configuration.
    pub(crate) fn start(&self, config: &str) -> Child {
        let path = write_config(&self.dir, &format!("revalidate = \"10ms\"\n{config}"));
        let mut command = hurtle();
        Child::start(with_credentials(command.arg("--config").arg(path)))
    }

    /// The files of the cache.
    pub(crate) fn cached(&self) -> Vec<PathBuf> {
        let read = |path| fs::read_dir(path).into_iter().flatten().flatten();
        let stores = read(self.dir.path("cache"));
        stores.flat_map(|store| read(store.path())).map(|entry| entry.path()).collect()
    }

    /// The whole objects in the cache.
    pub(crate) fn whole(&self) -> Vec<PathBuf> {
        let is_whole = |path: &PathBuf| path.extension().is_none();
        self.cached().into_iter().filter(is_whole).collect()
    }
}

/// A directory with `cache` in it.
pub(crate) fn cache_directory() -> Dir {
    let dir = Dir::new(&[("cache/", "")]);
    // The server may run as another user.
    fs::set_permissions(dir.path("cache"), fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

/// Sets credentials that the service takes.
pub(crate) fn with_credentials(command: &mut Command) -> &mut Command {
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command.env("GOOGLE_SERVICE_ACCOUNT_KEY", SERVICE_ACCOUNT)
}

/// Bytes of this length that differ at every place.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}
