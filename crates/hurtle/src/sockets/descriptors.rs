//! Descriptors over unix sockets.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::{FdFlags, fcntl_setfd, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, getsockname, recvmsg, sendmsg,
};

use crate::sys;

/// Takes standard input if it is a unix socket; then standard input is empty.
///
/// # Errors
/// The system's.
pub(crate) fn take_stdin() -> io::Result<Option<UnixStream>> {
    let stdin = io::stdin();
    let is_unix = getsockname(stdin.as_fd())
        .is_ok_and(|address| address.address_family() == AddressFamily::UNIX);
    if !is_unix {
        return Ok(None);
    }
    let socket = stdin.as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Some(socket.into()))
}

/// Sends one byte with a descriptor.
///
/// # Errors
/// The other end is closed.
pub(crate) fn send_descriptor(channel: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    send_with(channel, &[0], descriptor)
}

/// Sends bytes with a descriptor.
///
/// # Errors
/// The other end is closed.
pub(super) fn send_with(
    channel: impl AsFd,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let descriptors = [descriptor];
    let send = || {
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&channel, &[IoSlice::new(bytes)], &mut control, sys::NO_SIGNAL)
    };
    retry_on_intr(send)?;
    Ok(())
}

/// Receives one byte with a descriptor, and keeps the descriptor from programs that this process
/// starts.
///
/// # Errors
/// `UnexpectedEof`: the other end is closed. `InvalidData`: the byte has no descriptor.
pub(crate) fn receive_descriptor(channel: &UnixStream) -> io::Result<OwnedFd> {
    let missing = || io::Error::new(io::ErrorKind::InvalidData, "a descriptor is missing");
    receive_byte(channel)?.1.ok_or_else(missing)
}

/// Receives one byte, and its descriptor if it has one.
///
/// # Errors
/// `UnexpectedEof`: the other end is closed.
pub(crate) fn receive_byte(channel: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let read = loop {
        let mut into = [IoSliceMut::new(&mut byte)];
        match recvmsg(channel, &mut into, &mut control, RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if let Some(descriptor) = &descriptor {
        // Programs are started by this thread, under the lock that it holds, or not yet, so none
        // inherits the descriptor before this.
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok((byte[0], descriptor)) }
}
