//! CGI programs: their variables and how they are run.

use crate::client::Client;
use crate::dir::{Dir, eventually};
use crate::support::Proxy;

pub(crate) fn server(dir: &Dir, keys: &str) -> Proxy {
    Proxy::of("", &format!("path = \"/cgi-bin\"\ncgi = {:?}\n{keys}", dir.path("bin")))
}

#[track_caller]
pub(crate) fn get(client: &mut Client, path: &str) -> (String, String) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nProxy: http://evil\r\n\r\n"));
    client.answer()
}

const ENV: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv | sort\n";

#[test]
fn the_environment_has_the_requests_variables_only() {
    let dir = Dir::new(&[]);
    dir.program("bin/sub/env.sh", ENV);
    let server = server(&dir, "params = { GREETING = \"hello\" }");
    let (head, body) = get(&mut server.connect(), "/cgi-bin/sub/env.sh/more%20x?q=1&r");
    assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{head}");
    let bin = dir.path("bin").display().to_string();
    for line in [
        "GATEWAY_INTERFACE=CGI/1.1",
        "REQUEST_METHOD=GET",
        "QUERY_STRING=q=1&r",
        "SCRIPT_NAME=/cgi-bin/sub/env.sh",
        "PATH_INFO=/more x",
        "SERVER_NAME=a.example",
        "SERVER_PORT=80",
        "REMOTE_ADDR=127.0.0.1",
        "HTTP_HOST=a.example",
        "GREETING=hello",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        &format!("SCRIPT_FILENAME={bin}/sub/env.sh"),
        &format!("PATH_TRANSLATED={bin}/more x"),
        &format!("PWD={bin}/sub"),
    ] {
        assert!(body.lines().any(|l| l == line), "{line} in {body}");
    }
    for name in ["HTTP_PROXY=", "HOME=", "CARGO", "CONTENT_LENGTH="] {
        assert!(!body.lines().any(|line| line.starts_with(name)), "{name} in {body}");
    }
}

#[test]
fn executable_files_are_programs() {
    let dir = Dir::new(&[("bin/text.txt", "text"), ("bin/broken.sh", "no interpreter")]);
    dir.program("bin/env.sh", ENV);
    dir.program("bin/.hidden.sh", ENV);
    dir.program("outside.sh", ENV);
    dir.program("bin/bad.sh", "#!/no/such/interpreter\n");
    dir.link("bin/out.sh", "../outside.sh");
    dir.link("bin/in.sh", "env.sh");
    let server = server(&dir, "");
    let mut client = server.connect();
    for (path, status) in [
        ("/cgi-bin/env.sh", 200),
        ("/cgi-bin/in.sh", 200),
        ("/cgi-bin/env.sh/x/y", 200),
        ("/cgi-bin/env.sh/x%2Fy", 200),
        ("/cgi-bin/env.sh%2Fx", 404),
        ("/cgi-bin%2Fenv.sh", 404),
        ("/cgi-bin/", 404),
        ("/cgi-bin", 404),
        ("/cgi-bin/missing.sh", 404),
        ("/cgi-bin/out.sh", 404),
        ("/cgi-bin/.hidden.sh", 404),
        ("/cgi-bin/text.txt", 403),
        ("/cgi-bin/bad.sh", 502),
        ("/cgi-bin/../outside.sh", 404),
    ] {
        let (head, _) = get(&mut client, path);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
    }
}

#[test]
fn a_program_reads_the_body_and_streams_its_response() {
    let dir = Dir::new(&[]);
    dir.program(
        "bin/echo.py",
        "#!/usr/bin/env python3\nimport os, sys\n\
         out = sys.stdout.buffer\n\
         out.write(b'Status: 201 Created\\r\\nContent-Type: a/b\\r\\n\\r\\n')\nout.flush()\n\
         left = int(os.environ['CONTENT_LENGTH'])\n\
         while left:\n    piece = sys.stdin.buffer.read1(min(left, 65536))\n    left -= len(piece)\n    \
         out.write(piece)\n    out.flush()\n",
    );
    let server = server(&dir, "");
    let mut client = server
        .send("POST /cgi-bin/echo.py HTTP/1.1\r\nHost: a\r\nContent-Length: 400003\r\n\r\none");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 201 Created\n"), "{head}");
    assert_eq!(client.chunk(), "one", "before the rest is sent");
    let body: Vec<u8> = (0..400_000u32).map(|n| (n % 251) as u8).collect();
    std::thread::scope(|scope| {
        let (sender, sent) = (client.stream.try_clone().unwrap(), body.clone());
        scope.spawn(move || std::io::Write::write_all(&mut &sender, &sent).unwrap());
        assert!(client.chunks() == body, "the same bytes");
    });
    // A program that does not read its input can still respond.
    dir.program("bin/deaf.sh", "#!/bin/sh\nexec <&-\nprintf 'Content-Type: a/b\\n\\ndeaf'\n");
    let mut client = server
        .send("POST /cgi-bin/deaf.sh HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nunwanted!");
    assert_eq!(client.answer().1, "deaf");
}

#[test]
fn a_program_inherits_no_descriptor_of_the_server() {
    let dir = Dir::new(&[]);
    dir.program(
        "bin/fds.py",
        "#!/usr/bin/env python3\nimport os\n\
         fds = [f for f in range(3, 1024) if os.path.exists('/proc/self/fd/%d' % f)]\n\
         print('Content-Type: text/plain\\n')\nprint(fds)\n",
    );
    // Descriptors inherited from the test runner are not the server's.
    let before = open_to_children();
    let server = server(&dir, "");
    let others: Vec<_> = (0..5).map(|_| server.connect()).collect();
    let (_, body) = get(&mut server.connect(), "/cgi-bin/fds.py");
    assert_eq!(body, format!("{before:?}\n"), "listing them takes none");
    drop(others);
}

/// Descriptors of this process above 2 that its children inherit.
fn open_to_children() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let numbers = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    let is_open = |fd: &i32| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        // O_CLOEXEC of Linux.
        flags.is_some_and(|flags| flags & 0o2_000_000 == 0)
    };
    let mut open: Vec<i32> = numbers.filter(|fd| *fd > 2).filter(is_open).collect();
    open.sort_unstable();
    open
}

#[test]
fn standard_error_and_the_exit_of_a_program_are_logged() {
    crate::log::begin();
    let dir = Dir::new(&[]);
    let text = "#!/bin/sh\necho this is amiss >&2\nprintf 'Content-Type: a/b\\n\\nok'\nexit 3\n";
    dir.program("bin/grumble.sh", text);
    let server = server(&dir, "");
    assert_eq!(get(&mut server.connect(), "/cgi-bin/grumble.sh").1, "ok");
    let name = dir.path("bin/grumble.sh").display().to_string();
    eventually("both are logged", || {
        let lines = crate::log::lines_with(&name);
        lines.iter().any(|line| line.contains("this is amiss"))
            && lines.iter().any(|line| line.contains("exit status: 3"))
    });
}
