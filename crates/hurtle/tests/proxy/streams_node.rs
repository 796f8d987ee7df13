//! WebSockets with Node.js on both sides: its HTTP/2 server as the upstream, and its WebSocket
//! client.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::secure::Authority;
use crate::support::Proxy;

/// `node FILE serve KEY PEM`: an echo of messages. KEY says which handshakes it takes. `node FILE
/// call ADDRESS`: a conversation with it.
const PROGRAM: &str = include_str!("websocket.js");

/// The conversation of the client: a text, a large message, an empty one, and a close by either
/// side.
const CONVERSATION: &str = "\
open chat
hello
300000 bytes, the same
empty
closed 1000 done true
server closed 4001 end true
refused
";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn messages_of_node_pass_through_streams_and_connections() {
    let authority = Authority::new("node");
    authority.sign("localhost", |_| ());
    let (pem, ca) = (authority.file("localhost.pem"), authority.file("ca.pem"));
    let program = authority.file("websocket.mjs");
    let plain = |name: &str| name.trim_matches('"').to_owned();
    std::fs::write(plain(&program), PROGRAM).unwrap();
    let node = |arguments: &[&str]| {
        let mut command = Command::new("node");
        command.args(["--experimental-websocket", "--no-warnings", &plain(&program)]);
        command.args(arguments).stdin(Stdio::null());
        command
    };
    let tls = format!("[site.mount.upstream_tls]\nca = {ca}\n");
    for (kind, url, tls) in [
        ("stream", "h2c://localhost", ""),
        ("secure-stream", "h2://localhost", &*tls),
        ("secure-upgrade", "h2://localhost", &tls),
    ] {
        let started = node(&["serve", kind, &plain(&pem)]).stdout(Stdio::piped()).spawn();
        let Ok(mut started) = started else {
            println!("skipped: Node.js is not installed");
            return;
        };
        let output = started.stdout.take().unwrap();
        let server = Server(started);
        let Some(Ok(port)) = BufReader::new(output).lines().next() else {
            println!("skipped: this Node.js has no WebSocket");
            return;
        };
        let proxy = Proxy::of("", &format!("proxy = '{url}:{port}'\n{tls}"));
        let called = node(&["call", &proxy.address.to_string()]).output().unwrap();
        let (output, errors) =
            (String::from_utf8_lossy(&called.stdout), String::from_utf8_lossy(&called.stderr));
        assert_eq!(output, CONVERSATION, "{kind}: {errors}");
        drop(server);
    }
}
