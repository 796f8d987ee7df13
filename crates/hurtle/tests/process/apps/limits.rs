//! Applications that exceed the limits of their manifest.

use super::Apps;
use crate::child::{eventually, threads_of_the_user};

#[test]
fn an_application_is_refused_memory_beyond_its_limit() {
    let apps = Apps::new(&[("a.txt", "a\n")]);
    let program = "def tell(method, path, sent):\n    if path.endswith('/eat'):\n        \
                   return str(len(bytearray(1 << 30)))\n    return 'well'\nserve()\n";
    apps.deploy_python("a", "/a", "memory = \"500 MiB\"", program);
    let child = apps.serve();
    eventually("it answers", || child.get("/a/").status == 200);
    assert_eq!(child.get("/a/eat").status, 502);
    eventually("it is logged", || {
        child.stderr().lines().any(|line| line.contains("app a: ") && line.contains("MemoryError"))
    });
    assert_eq!(child.get("/a/").text(), "well", "the same process");
    assert_eq!(child.get("/a.txt").text(), "a\n");
}

#[test]
fn an_application_is_refused_processes_beyond_its_limit() {
    let apps = Apps::new(&[("a.txt", "a\n")]);
    let program = "import threading\nthreading.stack_size(1 << 16)\n\
                   def tell(method, path, sent):\n    bell, begun = threading.Event(), 0\n    \
                   try:\n        while begun < 3000 and path.endswith('/many'):\n            \
                   threading.Thread(target=bell.wait).start()\n            begun += 1\n    \
                   except RuntimeError as e:\n        return str(e)\n    finally:\n        \
                   bell.set()\n    return 'well'\nserve()\n";
    let limit = threads_of_the_user() + 300;
    apps.deploy_python("a", "/a", &format!("processes = {limit}"), program);
    let child = apps.serve();
    eventually("it answers", || child.get("/a/").status == 200);
    assert_eq!(child.get("/a/many").text(), "can't start new thread");
    eventually("it is well again", || child.get("/a/").text() == "well");
    assert_eq!(child.get("/a.txt").text(), "a\n");
}

/// The scan of the directory then took the manifests for missing, and ended every application.
#[test]
#[cfg(target_os = "linux")] // prlimit(2)
fn applications_outlive_a_server_without_free_descriptors() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    use super::{ECHO, get_until, is_root, logged, numbers};

    let apps = Apps::new(&[]);
    let user = if is_root() { "user = \"nobody\"" } else { "" };
    apps.deploy_python("a", "/a", user, ECHO);
    // Limits of another user's process are not this one's to change.
    let child = apps.serve_as_started();
    let process = numbers(&get_until(&child, "/a", 200));
    let server = Pid::from_raw(child.id().cast_signed());
    // The server has the maximum of this process.
    let none = Rlimit { current: Some(0), ..getrlimit(Resource::Nofile) };
    let before = prlimit(server, Resource::Nofile, none).unwrap();
    logged(&child, "Too many open files");
    let _ = prlimit(server, Resource::Nofile, before).unwrap();
    assert_eq!(numbers(&child.get("/a")), process, "{}", child.stderr());
}
