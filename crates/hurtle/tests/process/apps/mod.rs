//! Deployed applications: real programs that are added and removed while the server runs, and that
//! crash, hang and leave processes behind.

mod ends;
mod examples;
mod life;
mod limits;
mod meanwhile;
mod refused;
mod upgraded;

use std::fs;
use std::path::PathBuf;

use rustix::process::geteuid;

use crate::child::{Child, eventually, write_config};
use crate::support::{Dir, Response};

/// An HTTP server on descriptor 0 or HURTLE_SOCKET; it responds with the text of `tell(request)`.
const SERVE: &str = r#"
import http.server, os, signal, socket, subprocess, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = tell(self.command, self.path, sent).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer
    def log_message(self, *arguments):
        pass

def serve():
    server = http.server.ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False)
    server.daemon_threads = True
    server.socket.close()
    path = os.environ.get("HURTLE_SOCKET")
    if path is None:
        server.socket = socket.socket(fileno=0)
    else:
        server.socket = socket.socket(socket.AF_UNIX)
        server.socket.bind(path)
        server.socket.listen()
    server.serve_forever()
"#;

/// Responds with its process id and the request.
const ECHO: &str = r#"
def tell(method, path, sent):
    return f"{os.getpid()} {method} {path} {sent.decode()}"
serve()
"#;

/// Responds with process ids: its own, its keeper's, a process in another session, and an orphan.
const FAMILY: &str = r#"
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
left = subprocess.check_output(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"])
def tell(method, path, sent):
    if path.endswith("/crash"):
        os._exit(3)
    return f"{os.getpid()} {os.getppid()} {child.pid} {int(left)}"
"#;

/// A directory of applications.
struct Apps {
    dir: Dir,
}

impl Apps {
    /// Creates it with these files, which are served at `/`.
    fn new(files: &[(&str, &str)]) -> Apps {
        let dir = Dir::new(files);
        for name in ["../apps/.keep", "../staging/.keep"] {
            dir.write(name, "");
        }
        Apps { dir }
    }

    /// Path of an application's directory.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path(format!("../apps/{name}"))
    }

    /// Starts a server of the files and applications.
    #[track_caller]
    fn serve(&self) -> Child {
        Child::configured(&self.dir, "apps = \"{root}/../apps\"\nroot = \"{root}\"\n")
    }

    /// Starts a server as the user of the test, even if that is root.
    #[track_caller]
    fn serve_as_started(&self) -> Child {
        let path = write_config(&self.dir, "apps = \"{root}/../apps\"\nroot = \"{root}\"\n");
        let text = fs::read_to_string(&path).unwrap().replace("user = \"nobody\"\n", "");
        fs::write(&path, text).unwrap();
        Child::start(crate::child::hurtle().arg("--config").arg(path))
    }

    /// Deploys an application; all its files appear at once.
    fn deploy(&self, name: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            self.dir.write(format!("../staging/{name}/{file}"), text);
        }
        fs::rename(self.dir.path(format!("../staging/{name}")), self.path(name)).unwrap();
    }

    /// Deploys a Python program at a path; `more`: further lines of the manifest.
    fn deploy_python(&self, name: &str, path: &str, more: &str, program: &str) {
        let manifest = format!("path = \"{path}\"\ncommand = [\"python3\", \"app.py\"]\n{more}\n");
        self.deploy(name, &[("app.toml", &manifest), ("app.py", &format!("{SERVE}{program}"))]);
    }

    /// Removes an application at once.
    fn remove(&self, name: &str) {
        fs::rename(self.path(name), self.dir.path(format!("../staging/{name}"))).unwrap();
    }

    /// Rewrites a manifest like an editor.
    fn rewrite(&self, name: &str, text: &str) {
        self.dir.write("../staging/app.toml", text);
        let manifest = self.path(name).join("app.toml");
        fs::rename(self.dir.path("../staging/app.toml"), manifest).unwrap();
    }
}

/// Sends requests until the response has this status. An application that ends meanwhile may leave
/// a response without its end.
#[track_caller]
fn get_until(child: &Child, target: &str, status: u16) -> Response {
    let mut answer = None;
    eventually(&format!("{target} is answered {status}; {}", child.stderr()), || {
        let mut client = child.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        answer = client.try_answer("GET").ok().filter(|answer| answer.status == status);
        answer.is_some()
    });
    answer.unwrap()
}

/// Waits until the log contains the text.
#[track_caller]
fn logged(child: &Child, what: &str) {
    eventually(&format!("it says {what:?}"), || child.stderr().contains(what));
}

/// `true` if a process runs; a zombie does not count.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

/// The numbers in a response.
fn numbers(answer: &Response) -> Vec<u32> {
    answer.text().split_whitespace().map_while(|word| word.parse().ok()).collect()
}

/// The directory of the sockets of a running server's applications, by the server's process id. A
/// killed server of an earlier run, with the same number, may have left one.
fn socket_dir(server: u32) -> PathBuf {
    let begin = format!("hurtle-{server}-");
    let entries = fs::read_dir(std::env::temp_dir()).unwrap().filter_map(Result::ok);
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin));
    named.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap()).unwrap().path()
}

fn is_root() -> bool {
    geteuid().is_root()
}
