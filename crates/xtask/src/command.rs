//! Builds commands, formats them for display, and runs those whose output is not shown. `Console`
//! runs the others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::steps::Failure;
use crate::terminal::has_colours;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The `cargo` that started this program, in the root directory.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(args);
    // Its output is captured, so it does not detect the terminal.
    if has_colours() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

/// A program in PATH, run in the root directory.
pub(crate) fn program(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).args(args);
    command
}

/// Runs a command without showing its output. Returns its standard output, or the last line of its
/// standard error.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure(format!("`{shown}` did not start: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
    Err(Failure(format!("`{shown}`: {}", last.map_or("failed", str::trim))))
}

/// `true` if a program of this name is in PATH.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// The command as a person would type it at the root.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs().filter(|(name, _)| *name != "CARGO_TERM_COLOR") {
        let value = value.unwrap_or_default();
        words.push(quoted(&format!("{}={}", name.display(), value.display())));
    }
    let program = Path::new(command.get_program());
    words.extend(program.file_name().map(|name| name.display().to_string()));
    words.extend(command.get_args().map(|arg| quoted(&arg.display().to_string())));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    match word.split_once('=') {
        _ if !word.contains(' ') => word.to_owned(),
        Some((name, value)) => format!("{name}='{value}'"),
        None => format!("'{word}'"),
    }
}
