//! The standard output of a command. Files, also one that is written to the standard output, are
//! left to the commands.

use std::io::{self, Write};

/// The standard output. Once its reader has closed it, the rest is dropped: the command goes on,
/// and its exit code tells its outcome.
pub(super) struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(io::stdout().write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(io::stdout().flush(), ())
    }
}

fn unless_closed<T>(written: io::Result<T>, dropped: T) -> io::Result<T> {
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(dropped),
        written => written,
    }
}
