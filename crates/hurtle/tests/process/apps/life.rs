//! Applications that are deployed, changed, crash, or are slow.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use rustix::process::Signal;

use super::{Apps, ECHO, get_until, lives, logged, numbers};
use crate::child::{Child, eventually, write_config};
use crate::support::reserved_address;

#[test]
fn an_encoded_slash_reaches_an_application_unchanged() {
    let apps = Apps::new(&[]);
    apps.deploy_python("blog", "/blog", "", ECHO);
    let child = apps.serve();
    eventually("it answers", || child.get("/blog/").status == 200);
    let said = child.get("/blog/group%2Fproject%20x?y=%2F");
    let (_, said) = said.text().split_once(' ').unwrap();
    assert_eq!(said, "GET /blog/group%2Fproject%20x?y=%2F ");
    assert_eq!(child.get("/blog%2Fx").status, 404, "whose that is depends on who reads it");
}

#[test]
fn an_application_is_added_and_removed_without_a_restart() {
    let apps = Apps::new(&[("a.txt", "a\n"), ("blog/index.html", "a file\n")]);
    let child = apps.serve();
    assert_eq!(child.get("/blog/").text(), "a file\n");
    apps.deploy_python("blog", "/blog", "", ECHO);
    let mut before = String::new();
    eventually("the application answers in the file's place", || {
        before = child.get("/blog/").text().to_owned();
        before.ends_with(" GET /blog/ ")
    });
    let pid: u32 = before.split(' ').next().unwrap().parse().unwrap();
    for method in ["OPTIONS", "DELETE", "PATCH", "PUT", "POST", "GET"] {
        let mut client = child.connect();
        client.send(format!(
            "{method} /blog/x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
        ));
        let answer = client.response();
        assert_eq!(answer.text(), format!("{pid} {method} /blog/x?y abc"));
    }
    assert_eq!(child.connect().request("HEAD", "/blog").status, 200);
    assert_eq!(child.connect().request("TRACE", "/blog").status, 405);
    assert_eq!(child.get("/a.txt").text(), "a\n");
    assert_eq!(child.get("/blogs").status, 404);
    apps.remove("blog");
    // SIGTERM ends this application within a response, if it has a request then.
    eventually("the file is back", || {
        let mut client = child.connect();
        client.send("GET /blog/ HTTP/1.1\r\nHost: a\r\n\r\n");
        client.try_answer("GET").is_ok_and(|answer| answer.text() == "a file\n")
    });
    eventually("the process is gone", || !lives(pid));
}

#[test]
fn python_and_node_listen_by_both_ways_of_socket_passing() {
    let listens = "import { createServer } from 'node:http';\n\
                   const where = process.env.HURTLE_SOCKET ?? { fd: 0 };\n\
                   createServer((q, a) => a.end(`node ${q.url}`)).listen(where);";
    let apps = Apps::new(&[]);
    for (name, socket) in [("stdin", ""), ("path", "socket = \"path\"\n")] {
        apps.deploy_python(&format!("p-{name}"), &format!("/p-{name}"), socket, ECHO);
        let manifest = format!("path = \"/n-{name}\"\ncommand = [\"node\", \"a.mjs\"]\n{socket}");
        apps.deploy(&format!("n-{name}"), &[("app.toml", &manifest), ("a.mjs", listens)]);
    }
    let child = apps.serve();
    for name in ["stdin", "path"] {
        let answer = get_until(&child, &format!("/p-{name}/x"), 200);
        assert!(answer.text().ends_with(&format!(" GET /p-{name}/x ")), "{}", answer.text());
        let answer = get_until(&child, &format!("/n-{name}/x"), 200);
        assert_eq!(answer.text(), format!("node /n-{name}/x"));
    }
}

#[test]
fn an_application_gets_a_clean_environment() {
    const CONFESS: &str = r#"
import resource
def tell(method, path, sent):
    limits = [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)]
    return "\n".join([
        "uid %d groups %r" % (os.getuid(), os.getgroups()),
        "leads %s" % (os.getpgrp() == os.getpid()),
        "cwd %s" % os.path.basename(os.getcwd()),
        "env %r" % sorted(os.environ),
        "first %r" % os.environ.get("FIRST"),
        "limits %r" % limits,
    ])
serve()
"#;
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "env = { FIRST = \"1 2\" }\nopen_files = 64", CONFESS);
    let list = "path = \"/fds\"\ncommand = [\"sh\", \"-c\", \"ls /proc/$$/fd; exec sleep 1000\"]\n";
    apps.deploy("fds", &[("app.toml", list)]);
    let config = write_config(&apps.dir, "apps = \"{root}/../apps\"\n");
    let mut command = Command::new("sh");
    // With an open descriptor and a variable that must not reach applications.
    command.args(["-c", "exec 9</etc/passwd; exec \"$0\" --config \"$1\""]);
    command.arg(env!("CARGO_BIN_EXE_hurtle")).arg(config).env("SECRET", "1");
    let child = Child::start(&mut command);
    assert!(child.descriptors().iter().any(|path| path.ends_with("passwd")), "it was handed over");
    let answer = get_until(&child, "/a", 200);
    let told = answer.text();
    let uid = child
        .proc("status")
        .lines()
        .find_map(|line| line.strip_prefix("Uid:\t").map(str::to_owned));
    let uid = uid.unwrap().split('\t').next().unwrap().to_owned();
    assert!(told.contains(&format!("uid {uid} ")), "{told}");
    assert_ne!(uid, "0");
    let wanted = [
        "leads True",
        "cwd a",
        "env ['FIRST', 'HURTLE_APP', 'HURTLE_PATH', 'LC_CTYPE', 'PATH']",
        "first '1 2'",
        "limits [(64, 64), (0, 0)]",
    ];
    for wanted in wanted {
        // Python sets LC_CTYPE itself if no locale is set (PEP 538).
        let plain = wanted.replace("'LC_CTYPE', ", "");
        assert!(told.contains(wanted) || told.contains(&plain), "{wanted}: {told}");
    }
    logged(&child, "app fds: 2\n");
    let log = child.stderr();
    let told = log.lines().filter_map(|line| Some(line.split_once("app fds: ")?.1));
    let open: Vec<u32> = told.filter_map(|told| told.parse().ok()).collect();
    assert_eq!(open, [0, 1, 2], "{log}");
}

#[test]
fn a_crashing_application_is_restarted_after_growing_pauses() {
    const CRASH: &str = r#"
if not os.path.exists("../good"):
    print("no luck", "x" * 5000)
    sys.exit(3)
def tell(method, path, sent):
    return "well"
serve()
"#;
    let apps = Apps::new(&[("a.txt", "a\n")]);
    apps.deploy_python("bad", "/bad", "", CRASH);
    let child = apps.serve();
    logged(&child, "app bad: it has ended (exit status: 3); it is started again in 1 s");
    let answer = get_until(&child, "/bad", 503);
    assert_eq!(answer.field("Retry-After"), Some("1"), "a client is told to come again");
    logged(&child, "app bad: it has ended (exit status: 3); it is started again in 2 s");
    assert_eq!(child.get("/a.txt").text(), "a\n");
    let log = child.stderr();
    let line = log.lines().find(|line| line.contains("app bad: no luck xxx")).unwrap();
    assert!(line.ends_with("x [cut]") && line.len() < 4_400, "{} bytes", line.len());
    // Now it can start; SIGHUP ends its pause.
    apps.dir.write("../apps/good", "");
    child.signal(Signal::HUP);
    assert_eq!(get_until(&child, "/bad", 200).text(), "well");
}

#[test]
fn a_changed_manifest_is_redeployed_and_a_broken_one_is_ignored() {
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/old", "", ECHO);
    let child = apps.serve();
    let old = numbers(&get_until(&child, "/old", 200))[0];
    apps.rewrite("a", "path = \"/new\"\ncommand = [\n");
    logged(&child, "app a: not deployed: ");
    assert_eq!(numbers(&child.get("/old"))[0], old);
    apps.rewrite("a", "path = \"/new\"\ncommand = [\"python3\", \"app.py\"]\n");
    let new = numbers(&get_until(&child, "/new", 200))[0];
    assert_ne!(old, new);
    assert_eq!(child.get("/old").status, 404);
    assert!(!lives(old), "one ends before the next begins");
}

/// The program has changed, or a file that it reads; the manifest has not.
#[test]
fn a_touched_manifest_is_redeployed() {
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "", ECHO);
    let child = apps.serve();
    let old = numbers(&get_until(&child, "/a", 200))[0];
    let manifest = fs::File::options().append(true).open(apps.path("a").join("app.toml")).unwrap();
    manifest.set_modified(std::time::SystemTime::now()).unwrap();
    eventually("another process answers", || numbers(&child.get("/a"))[0] != old);
    eventually("the old one has ended", || !lives(old));
}

#[test]
fn a_new_version_that_dies_or_is_deaf_leaves_the_old_one_in_place() {
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "", ECHO);
    let child = apps.serve();
    let old = numbers(&get_until(&child, "/a", 200))[0];
    let rows = [
        ("[\"false\"]", "the new version has failed: it has ended"),
        ("[\"/nonexistent\"]", "the new version has failed"),
        ("[\"sleep\", \"1000\"]\nstart_timeout = \"200ms\"", "it does not listen in time"),
    ];
    for (command, said) in rows {
        apps.rewrite("a", &format!("path = \"/a\"\ncommand = {command}\n"));
        logged(&child, said);
        assert_eq!(numbers(&child.get("/a"))[0], old, "{command}");
    }
    // The program is broken, the manifest as it was; then both are whole again.
    let program = fs::read_to_string(apps.path("a").join("app.py")).unwrap();
    let failures = |child: &Child| child.stderr().matches("the new version has failed").count();
    let before = failures(&child);
    fs::write(apps.path("a").join("app.py"), "import none\n").unwrap();
    let manifest = "path = \"/a\"\ncommand = [\"python3\", \"app.py\"]\n";
    apps.rewrite("a", manifest);
    eventually("it is said", || failures(&child) > before);
    assert_eq!(numbers(&child.get("/a"))[0], old);
    fs::write(apps.path("a").join("app.py"), program).unwrap();
    apps.rewrite("a", manifest);
    eventually("the new version answers", || numbers(&child.get("/a"))[0] != old);
    eventually("the old one has ended", || !lives(old));
}

#[test]
fn requests_wait_for_a_starting_application_with_a_limit() {
    let slow = format!("time.sleep(1)\n{ECHO}");
    let deaf = "time.sleep(1000)\n";
    let apps = Apps::new(&[]);
    apps.deploy_python("slow", "/slow", "socket = \"path\"", &slow);
    apps.deploy_python("deaf", "/deaf", "socket = \"path\"\nstart_timeout = \"1500ms\"", deaf);
    let child = apps.serve();
    let begun = Instant::now();
    let (slow, deaf) = (child.get("/slow"), child.get("/deaf"));
    assert_eq!(slow.status, 200, "it waited: {}", child.stderr());
    assert_eq!(deaf.status, 503);
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    logged(&child, "app deaf: it does not listen in time (start_timeout)");
}

#[test]
fn an_external_application_is_only_mounted() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = elsewhere.local_addr().unwrap();
    let apps = Apps::new(&[]);
    let manifest = format!("path = \"/e\"\nupstream = \"http://{address}\"\n");
    apps.deploy("e", &[("app.toml", &manifest)]);
    let child = apps.serve();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = elsewhere.accept().unwrap();
            let mut head = [0; 1024];
            let len = stream.read(&mut head).unwrap();
            assert!(head[..len].starts_with(b"GET /e/x HTTP/1.1\r\n"));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
        });
        assert_eq!(child.get("/e/x").text(), "hi");
    });
}

#[test]
fn an_unhealthy_application_gets_no_requests_until_it_recovers() {
    const SICK: &str = r#"
def answer(self):
    well = self.path != "/a/health" or os.path.exists("../well")
    self.send_response(200 if well else 500)
    self.send_header("Content-Length", "0")
    self.end_headers()
Handler.do_GET = answer
serve()
"#;
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "health = \"/a/health\"", SICK);
    let child = apps.serve();
    get_until(&child, "/a", 503);
    logged(&child, "is not healthy and gets no requests: it answered 500");
    apps.dir.write("../apps/well", "");
    get_until(&child, "/a", 200);
}

#[test]
fn an_application_has_the_users_of_the_configuration_in_force() {
    let apps = Apps::new(&[]);
    let user = |password: &str| {
        let hash = bcrypt::hash_with_salt(password, 4, [7; 16]).unwrap();
        apps.dir.write("../users", format!("anna:{hash}\n"));
    };
    user("old");
    // Nothing listens there: a request that passes the password is 502.
    let gone = reserved_address();
    apps.deploy("e", &[("app.toml", &format!("path = \"/e\"\nupstream = \"http://{gone}\"\n"))]);
    let child = Child::configured(
        &apps.dir,
        "apps = \"{root}/../apps\"\n[[site]]\nauth = \"basic\"\nusers = \"{root}/../users\"\n\
         [[site.mount]]\nfiles = \"{root}\"\n",
    );
    let status = |password: &str| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("anna:{password}"));
        let mut client = child.connect();
        client.send(format!("GET /e/ HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {pair}\r\n\r\n"));
        client.response().status
    };
    eventually("the application is deployed", || status("old") == 502);
    assert_eq!(status("new"), 401);
    user("new");
    child.signal(Signal::HUP);
    eventually("the new users are in force", || status("new") == 502);
    assert_eq!(status("old"), 401);
}
