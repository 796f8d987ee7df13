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
