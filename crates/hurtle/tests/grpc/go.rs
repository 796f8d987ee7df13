//! Builds peers in Go, which use libraries of others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Builds a program with a library, such as `google.golang.org/grpc@v1.72.0`, in a directory of the
/// tests called `name`. `None`: there is no Go, or the library cannot be fetched.
pub(crate) fn built(name: &str, library: &str, source: &str) -> Option<PathBuf> {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let program = directory.join("peer");
    fs::create_dir_all(&directory).unwrap();
    let is_same = fs::read_to_string(directory.join("main.go")).is_ok_and(|text| text == source);
    if is_same && program.exists() {
        return Some(program);
    }
    // A program of a former source must not be taken for this one.
    let _ = fs::remove_file(&program);
    fs::write(directory.join("main.go"), source).unwrap();
    if !directory.join("go.mod").exists() {
        go(&directory, &["mod", "init", "peer"])?;
    }
    go(&directory, &["get", library])?;
    go(&directory, &["mod", "tidy"])?;
    go(&directory, &["build", "-o", "peer", "."])?;
    Some(program)
}

fn go(directory: &Path, arguments: &[&str]) -> Option<()> {
    let mut command = Command::new("go");
    let output = command.args(arguments).current_dir(directory).stdin(Stdio::null()).output();
    output.ok()?.status.success().then_some(())
}
