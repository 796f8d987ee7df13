//! CGI programs that exceed their limits: they end, and the server is not affected.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::child::{Child, eventually, threads_of_the_user};
use crate::support::Dir;

/// A server that runs these programs with these keys of the mount. If started by root it switches
/// to another user, because root has no limit of processes.
fn server(programs: &[(&str, &str)], keys: &str) -> (Dir, Child) {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    for (name, text) in programs {
        dir.write(format!("../bin/{name}"), text);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(dir.path(format!("../bin/{name}")), mode).unwrap();
    }
    let config = format!(
        "[[site]]\n[[site.mount]]\nfiles = '{{root}}'\n[[site.mount]]\npath = '/bin'\n\
         cgi = '{{root}}/../bin'\n{keys}\n"
    );
    let child = Child::configured(&dir, &config);
    (dir, child)
}

#[test]
fn limits_are_set_before_a_program_begins() {
    let show = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
                echo $(ulimit -St) $(ulimit -d) $(ulimit -n) $(ulimit -c)\n";
    let table = [
        ("by default", "", "60 1048576 1024 0\n"),
        (
            "as they are written",
            "cpu_time = '90s'\nmemory = '100 MiB'\nopen_files = 99\n",
            "90 102400 99 0\n",
        ),
    ];
    for (sentence, keys, expected) in table {
        let (_dir, child) = server(&[("show.sh", show)], keys);
        assert_eq!(child.get("/bin/show.sh").text(), expected, "{sentence}");
    }
}

#[test]
fn a_program_beyond_its_limits_is_ended_and_the_server_goes_on() {
    let table = [
        (
            "memory",
            "#!/usr/bin/env python3\nhoard = []\nwhile True:\n    hoard.append(bytearray(1 << 20))\n",
            "memory = '200 MiB'",
            "MemoryError",
        ),
        ("time", "#!/bin/sh\nwhile :; do :; done\n", "cpu_time = '1s'", "SIGXCPU"),
        (
            "descriptors",
            "#!/usr/bin/env python3\nfiles = []\nwhile True:\n    files.append(open('/dev/null'))\n",
            "open_files = 64",
            "Too many open files",
        ),
    ];
    for (sentence, text, keys, complaint) in table {
        let (_dir, child) = server(&[("greedy", text)], keys);
        assert_eq!(child.get("/bin/greedy").status, 502, "{sentence}");
        assert_eq!(child.get("/a.txt").text(), "a\n", "{sentence}");
        eventually(sentence, || {
            let said = child.stderr();
            said.lines().any(|line| line.contains("bin/greedy: ") && line.contains(complaint))
        });
    }
}

#[test]
fn a_response_of_a_killed_program_is_incomplete() {
    let text = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\npart'\nwhile :; do :; done\n";
    let (_dir, child) = server(&[("greedy", text)], "cpu_time = '1s'");
    let mut client = child.connect();
    client.send("GET /bin/greedy HTTP/1.1\r\nHost: a\r\n\r\n");
    let came = String::from_utf8(client.rest()).unwrap();
    assert!(came.contains("part") && !came.ends_with("0\r\n\r\n"), "{came}");
}

#[test]
fn the_number_of_processes_of_a_program_is_limited() {
    let text = "#!/usr/bin/env python3\nimport threading\nbell = threading.Event()\n\
                threading.stack_size(1 << 16)\nbegun = 0\ntry:\n    while begun < 3000:\n        \
                threading.Thread(target=bell.wait).start()\n        begun += 1\n\
                except RuntimeError as e:\n    print('Content-Type: text/plain\\n')\n    print(e)\n\
                bell.set()\n";
    let limit = threads_of_the_user() + 300;
    let keys = format!("memory = '16 GiB'\nprocesses = {limit}");
    let (_dir, child) = server(&[("many.py", text)], &keys);
    assert_eq!(child.get("/bin/many.py").text(), "can't start new thread\n");
}
