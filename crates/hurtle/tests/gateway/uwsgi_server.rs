//! A uWSGI for one test, on a unix socket in the test's directory.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::dir::{Dir, eventually};

/// A program that returns the variables it got and the length of the body.
const PROGRAM: &str = r#"
import hashlib

def application(environ, start_response):
    if environ["PATH_INFO"].endswith("/stream"):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"%d\n" % n for n in range(3))
    body = environ["wsgi.input"].read()
    names = ["REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "HTTP_X_ONE"]
    # PEP 3333: an empty variable may be absent.
    lines = ["%s=%s" % (name, environ.get(name) or "") for name in names]
    lines.append("body=%d %s" % (len(body), hashlib.sha256(body).hexdigest()[:8]))
    text = "\n".join(lines).encode()
    start_response("200 Fine", [("Content-Type", "text/plain"), ("X-Docs", "app"), ("Content-Length", str(len(text)))])
    return [text]
"#;

/// A running uWSGI with one process, stopped when dropped.
pub(crate) struct UwsgiServer {
    child: Child,
    dir: Dir,
}

impl UwsgiServer {
    /// Starts it with the program.
    #[track_caller]
    pub(crate) fn start() -> UwsgiServer {
        let dir = Dir::new(&[("app.py", PROGRAM)]);
        let socket = dir.path("app.sock");
        let mut command = Command::new("uwsgi");
        command.args(["--plugin", "python3", "--master", "--processes", "1", "--die-on-term"]);
        command.arg("--socket").arg(&socket).arg("--wsgi-file").arg(dir.path("app.py"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(dir.path("log")).unwrap());
        let mut child = command.spawn().expect("uwsgi (Debian: uwsgi-core) starts");
        eventually("uWSGI listens", || {
            let ended = child.try_wait().unwrap();
            let log = || fs::read_to_string(dir.path("log"));
            assert!(ended.is_none(), "it ended, {ended:?}: {:?}", log());
            UnixStream::connect(&socket).is_ok()
        });
        UwsgiServer { child, dir }
    }

    /// The path of its socket.
    pub(crate) fn socket(&self) -> String {
        self.dir.path("app.sock").display().to_string()
    }
}

impl Drop for UwsgiServer {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = id.map(|id| kill_process(id, Signal::TERM));
        let _ = self.child.wait();
    }
}
