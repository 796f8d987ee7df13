//! Network namespaces of the kernel (network_namespaces(7)). A thread enters one; processes that it
//! starts there are in it too.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The calling thread's namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// A namespace. It lives as long as this value, threads and processes inside, or sockets.
#[derive(Debug)]
pub(super) struct Namespace(File);

/// A thread is in another namespace while this value lives.
#[derive(Debug)]
pub struct Entered {
    before: File,
}

impl Namespace {
    /// A new one, without interfaces that are up.
    ///
    /// # Errors
    /// This process is not root, or util-linux is missing.
    pub(super) fn new() -> io::Result<Namespace> {
        // `cat` answers once it is in its namespace.
        let mut child = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let file = inside(&mut child);
        drop(child.stdin.take());
        let mut why = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut why)?;
        }
        child.wait()?;
        file.map(Namespace).map_err(|e| match why.trim() {
            "" => e,
            why => io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned()),
        })
    }

    /// Moves the calling thread into it.
    pub(super) fn enter(&self) -> io::Result<Entered> {
        let before = File::open(OWN)?;
        move_into(&self.0)?;
        Ok(Entered { before })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // A thread that could leave a namespace can return to it.
        let _ = move_into(&self.before);
    }
}

fn move_into(namespace: &File) -> io::Result<()> {
    let kind = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(namespace.as_fd(), kind)?)
}

/// The namespace of a process that returns what it is sent.
fn inside(child: &mut std::process::Child) -> io::Result<File> {
    let (Some(stdin), Some(stdout)) = (&mut child.stdin, &mut child.stdout) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    stdin.write_all(b".")?;
    stdout.read_exact(&mut [0])?;
    File::open(format!("/proc/{}/ns/net", child.id()))
}
