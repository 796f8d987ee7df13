//! Counts the bytes of a head and a file that a socket took, from system calls that report it in
//! different ways.

use std::io;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use rustix::io::retry_on_intr;
use rustix::net::SendFlags;

/// Sends `head`; if the socket takes all of it, calls `send_file` for the file's bytes.
pub(super) fn head_then_file(
    socket: BorrowedFd<'_>,
    head: &[u8],
    flags: SendFlags,
    send_file: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    let sent = retry_on_intr(|| rustix::net::send(socket, head, flags))?;
    if sent < head.len() {
        return Ok(sent);
    }
    match send_file() {
        Ok(n) => Ok(sent + n),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(sent),
        Err(e) => Err(e),
    }
}

/// The count of a `sendfile(2)` that reports one beside an error: a socket that fills up, or a
/// signal, in the middle of a call is `EAGAIN` or `EINTR` *and* the bytes sent before.
///
/// After any other error the connection is lost and the count is meaningless: a call refused before
/// it began leaves the requested length in place of the count.
pub(super) fn retry_sendfile(
    mut call: impl FnMut() -> (nix::Result<()>, i64),
) -> io::Result<usize> {
    loop {
        let (result, count) = call();
        let count = usize::try_from(count).unwrap_or(0);
        match result {
            Ok(()) => return Ok(count),
            Err(Errno::EAGAIN | Errno::EINTR) if count > 0 => return Ok(count),
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_beside_an_error_is_kept() {
        let rows: [(&str, &[(nix::Result<()>, i64)], Result<usize, io::ErrorKind>); 8] = [
            ("all of it", &[(Ok(()), 7)], Ok(7)),
            ("the end of the file", &[(Ok(()), 0)], Ok(0)),
            ("the socket filled up half way", &[(Err(Errno::EAGAIN), 7)], Ok(7)),
            ("it was full", &[(Err(Errno::EAGAIN), 0)], Err(io::ErrorKind::WouldBlock)),
            ("a signal half way", &[(Err(Errno::EINTR), 7)], Ok(7)),
            ("a signal before the first byte", &[(Err(Errno::EINTR), 0), (Ok(()), 9)], Ok(9)),
            ("refused; the count is what was asked", &[(Err(Errno::EPIPE), 7)], {
                Err(io::ErrorKind::BrokenPipe)
            }),
            ("a count no kernel gives", &[(Ok(()), -1)], Ok(0)),
        ];
        for (why, calls, expected) in rows {
            let mut calls = calls.iter().copied();
            let count = retry_sendfile(|| calls.next().unwrap()).map_err(|e| e.kind());
            assert_eq!(count, expected, "{why}");
            assert_eq!(calls.len(), 0, "{why}: too few calls");
        }
    }
}
