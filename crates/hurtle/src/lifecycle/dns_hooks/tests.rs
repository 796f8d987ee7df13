//! Calls of hooks as the server makes them: what they get, how they fail, and that nothing of them
//! stays.

use std::fs;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;
use std::time::Instant;

use super::*;

const VALUE: &str = "LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ";

/// A hook in a directory of its own.
struct Hook {
    dir: PathBuf,
    options: HookOptions,
}

impl Hook {
    /// A script with these lines; `$DIR` is its directory.
    fn new(name: &str, timeout: Duration, lines: &str) -> Hook {
        let dir = env::temp_dir().join(format!("hurtle-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let program = dir.join("hook");
        fs::write(&program, format!("#!/bin/sh\nDIR={}\n{lines}", dir.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Hook {
            dir,
            options: HookOptions {
                user: None,
                group: None,
                resolvers: vec![nowhere()],
                timeout,
                program,
            },
        }
    }

    /// Sends requests for these names and closes; returns the answers.
    fn answers(&self, names: &[&str]) -> Vec<String> {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || attend(&self.options, None, &theirs));
            let mut answers = Vec::new();
            for name in names {
                writeln!(ours, "_acme-challenge.{name}. {VALUE}").unwrap();
                let mut line = String::new();
                BufReader::new(&ours).read_line(&mut line).unwrap();
                answers.push(line.trim_end().to_owned());
            }
            ours.shutdown(Shutdown::Write).unwrap();
            answers.extend(BufReader::new(&ours).lines().map(Result::unwrap));
            answers
        })
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap_or_default()
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

const PATIENT: Duration = Duration::from_secs(60);

#[test]
fn records_are_written_and_removed_in_reverse_with_a_fixed_environment() {
    let hook = Hook::new(
        "dns-order",
        PATIENT,
        "echo \"$# $*\" >> $DIR/calls\nenv | grep -v '^_=\\|^PWD=\\|^SHLVL=' | sort > $DIR/env\npwd > $DIR/pwd\n",
    );
    assert_eq!(hook.answers(&["a.example", "b.example"]), ["ok"; 4]);
    let expected = format!(
        "3 present _acme-challenge.a.example. {VALUE}\n\
         3 present _acme-challenge.b.example. {VALUE}\n\
         3 cleanup _acme-challenge.b.example. {VALUE}\n\
         3 cleanup _acme-challenge.a.example. {VALUE}\n"
    );
    assert_eq!(hook.read("calls"), expected);
    let environment = hook.read("env");
    let names: Vec<_> = environment.lines().filter_map(|line| line.split_once('=')).collect();
    assert_eq!(names.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["LANG", "PATH"]);
    assert_eq!(hook.read("pwd").trim_end(), env::current_dir().unwrap().to_str().unwrap());
}

#[test]
fn a_failure_has_what_the_hook_says_and_the_record_is_removed() {
    let hook = Hook::new(
        "dns-fails",
        PATIENT,
        "echo \"$1\" >> $DIR/calls\n[ $1 = cleanup ] && exit 0\necho out\necho \"no zone for $3\" >&2\nexit 3\n",
    );
    let program = hook.options.program.display();
    let expected = format!("failed {program} present: exit status: 3: no zone for VALUE");
    assert_eq!(hook.answers(&["a.example"]), [expected.as_str(), "ok"]);
    assert_eq!(hook.read("calls"), "present\ncleanup\n");
}

/// The child ignores SIGTERM, and holds standard error open.
const HANGS: &str = "[ $1 = cleanup ] && exit 0\n\
    (trap '' TERM; echo $(exec sh -c 'echo $PPID') > $DIR/child; echo started >&2; while :; do sleep 1; done) &\n\
    wait\n";

#[test]
fn a_hook_that_hangs_is_ended_with_its_children() {
    let mut hook = Hook::new("dns-hangs", Duration::from_millis(250), HANGS);
    // A busy machine may take longer to start the child.
    while hook.read("child").is_empty() {
        hook.options.timeout *= 2;
        let answers = hook.answers(&["a.example"]);
        assert!(answers[0].contains("s; its processes were ended"), "{answers:?}");
        assert_eq!(answers.len(), 2, "the record is removed: {answers:?}");
    }
    wait_for_end(&hook.read("child"));
}

#[test]
fn a_hook_is_ended_when_the_server_has_gone() {
    let hook = Hook::new("dns-gone", PATIENT, HANGS);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    writeln!(ours, "_acme-challenge.a.example. {VALUE}").unwrap();
    thread::scope(|scope| {
        let attending = scope.spawn(|| attend(&hook.options, None, &theirs));
        while hook.read("child").is_empty() {
            assert!(!attending.is_finished(), "the hook has started no child");
            thread::sleep(Duration::from_millis(5));
        }
        drop(ours);
        attending.join().unwrap();
    });
    wait_for_end(&hook.read("child"));
}

#[test]
fn megabytes_of_output_do_not_block_and_are_not_kept() {
    let hook = Hook::new(
        "dns-megabytes",
        PATIENT,
        "[ $1 = cleanup ] && exit 0\nhead -c 8000000 /dev/zero | tr '\\0' x\n\
         head -c 8000000 /dev/zero | tr '\\0' y >&2\necho end > $DIR/end\nexit 1\n",
    );
    let answers = hook.answers(&["a.example"]);
    assert!(answers[0].len() < 2_000 && answers[0].contains(": yyyy"), "{}", answers[0].len());
    assert_eq!(hook.read("end"), "end\n");
}

#[test]
fn malformed_requests_and_missing_programs_fail() {
    let mut hook = Hook::new("dns-missing", PATIENT, "");
    assert_eq!(hook.answers(&["a;b"]), ["failed a malformed request"]);
    hook.options.program = Path::new("/nonexistent/hook").to_owned();
    let expected = "failed /nonexistent/hook present: No such file or directory (os error 2)";
    let answers = hook.answers(&["a.example"]);
    assert_eq!(answers[0], expected);
    assert!(answers[1].contains("/nonexistent/hook cleanup: No such file"), "{answers:?}");
}

/// Waits until a process that was sent SIGKILL has ended. If it was not, this fails after the time
/// of a hook.
fn wait_for_end(id: &str) {
    let end = Instant::now() + PATIENT;
    let is_running = || {
        let ps = Command::new("ps").args(["-o", "stat=", "-p", id.trim()]).output().unwrap();
        !ps.stdout.is_empty() && !ps.stdout.starts_with(b"Z")
    };
    while is_running() {
        assert!(Instant::now() < end, "process {id} is still there");
        thread::sleep(Duration::from_millis(5));
    }
}

/// An address at which nothing answers.
fn nowhere() -> SocketAddr {
    ([127, 0, 0, 1], 1).into()
}
