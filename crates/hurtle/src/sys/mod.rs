//! The differences between operating systems: one file for each system, with the same function
//! names. Their contract is written here once, and `tests/sys_contract.rs` tests it on each system.
//!
//! - `send_head_and_file(socket, head, file, offset, len)`: sends `head` (not empty) and then up to
//!   `len` bytes of `file` from `offset`, as one flow: no packet ends between them (on macOS one
//!   does). Returns how many bytes of the two together the kernel took; less than asked is no
//!   error. `Ok` with no more than `head.len()` bytes means the file sent nothing: at its end, or
//!   the socket is full. Interrupted calls are retried. `WouldBlock` only if not one byte was
//!   taken: a partial count is never lost.
//! - `send_file(socket, file, offset, len)`: the same without a head; `Ok(0)` is end of file, or
//!   `len` 0.
//! - `fill_segments(socket, on)`: has a TCP socket send full segments only, where the system can.
//!   Bytes held back are sent soon after it is switched off.
//! - `read_resident(file, buf, offset)`: reads bytes that are in the page cache; `WouldBlock` if
//!   the first byte is not, `Unsupported` if the system or the file system cannot tell. `Ok(0)` is
//!   end of file. A file system in memory has all bytes there.
//! - `page_in(file, offset, len)`: blocks until some of the `len` bytes of `file` from `offset` are
//!   in the page cache, the first among them; returns how many. `Ok(0)` is end of file, or `len` 0.
//! - `begin_reading(file, len)`: has the system read the first `len` bytes of `file` into the page
//!   cache, with as few requests to the disk as it can, and does not wait for them. `false` if it
//!   cannot.
//! - `open_beneath(dir, path, flags, follow)`: opens `path` beneath `dir`, never above or beside
//!   it, through any links. `flags` are `PROBE` or for reading, and neither create nor say
//!   `NOFOLLOW`. A path or link that leads out, or is absolute even if it comes back, is `EXDEV`.
//!   `follow` false: any link is `ELOOP`. Anything but a file or directory may be `ENXIO`.
//! - `PROBE`: flags for `open_beneath` that open a name without opening the file, so that no device
//!   wakes and no FIFO blocks. For `fstat`, and for directories to start from.
//! - `create_unnamed(dir, mode)`: creates a file without a name on `dir`'s file system, open for
//!   reading and writing; it is gone once closed. `EOPNOTSUPP` where the system has none.
//! - `link_unnamed(file, dir, name)`: gives such a file a name in `dir`; never replaces: `EEXIST`.
//! - `NO_SIGNAL`: flags for `send` that make a closed connection an error and not a signal. Where
//!   the system has none, sockets are created so, or the program must ignore SIGPIPE.
//! - `PROGRAM_MEMORY`: the resource limit of the memory of a program that is started, and the
//!   option of the shell's `ulimit` for it.
//! - `give_precedence()`: lowers the priority of this thread, where the system has priorities for
//!   threads; elsewhere nothing.
//! - `backlog_max()`: the system's limit of `listen(2)`'s backlog; `None` if it is unknown.
//! - `init_groups(user, group)`: gives the process the groups of `user` and `group`; `Unsupported`
//!   where the system has no safe call for it.
//! - `TRUST_STORES`: the stores of trusted authorities that the system may have; the first whose
//!   directory exists is in use.
//! - `coarse_ms()`: milliseconds of a monotonic clock; cheap, a few ms behind.
//! - `timer()`: a timer descriptor, not set and non-blocking; 8 bytes can be read from it once its
//!   time has passed. `Unsupported` where the system has none.
//! - `set_timer(timer, time)`: sets the timer to `time` from now; replaces an earlier setting.
//! - `watch()`: a non-blocking descriptor that is readable after a change in a directory that it
//!   watches: a file was written and closed, created, removed, renamed, or given other times or
//!   permissions. `Unsupported` where the system has none.
//! - `watch_directory(watch, path)`: watches a directory; again is no error.
//! - `take_changes(watch)`: reads all changes so far. `false` if some are missing, or if a
//!   directory is watched no more or has another path.
//! - `listen_tcp(addr, backlog, count)`: non-blocking sockets for `count` workers (at least 1), the
//!   kernel balancing between them where it can, else one socket and its duplicates. `AddrInUse` if
//!   a process, also one of the same user, listens there already.
//! - `UDP_BUFFER_SETTING`: the names of the system's settings that limit the buffers of UDP
//!   sockets.
//! - `bind_udp(addr, count)`: non-blocking UDP sockets for `count` workers, the kernel balancing
//!   clients between them where it can, else one. `AddrInUse` if a process, also one of the same
//!   user, has bound the address already.
//! - `adopt_orphans()`: makes descendants whose parent ends children of this process, not of init.
//!   `Unsupported` where the system cannot.
//! - `children()`: this process's children, and perhaps their descendants. `Unsupported` where the
//!   system cannot list them.
//! - `offers_tls()`: true if the kernel can encrypt what a TCP socket sends (TLS 1.3), as far as
//!   can be known without a connection. The result is kept: call it first as a user who may load
//!   modules.
//! - `encrypt_sent(socket, keys)`: has the kernel send all later writes to a connected TCP socket
//!   as TLS records of application data, of 16 KiB where there are enough bytes. It cannot be
//!   undone. After an error the socket is as it was. `Unsupported` where the system cannot.
//! - `send_record(socket, kind, bytes)`: sends one record of another type on such a socket, behind
//!   all bytes written before; never blocks.
//! - `end_handshakes(listener)`: has a TCP listener that is about to be closed begin no connection;
//!   those that have begun complete. It cannot be undone, so never call it on a socket that another
//!   process holds too. `false` where the system cannot: a close may then reset the newest
//!   connections.
//! - `restrict_files(readable, writable)`: for good, this thread and what it starts open only files
//!   and directories at or beneath these paths, and create, rename and remove only beneath the
//!   writable ones. Paths that do not exist are ignored. Descriptors that are open stay usable.
//!   `Unsupported` where the system cannot, also in part.
//! - `restrict_calls()`: for good, system calls that start programs, look into other processes or
//!   change the machine fail with `EPERM` in this thread and what it starts. `Unsupported` where
//!   the system cannot.

pub mod beneath;
// Code that two systems share is unused on the third.
#[allow(dead_code)]
mod bind;
#[allow(dead_code)]
mod count;
mod paging;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;

#[cfg(target_os = "linux")]
mod ktls;

#[cfg(not(target_os = "linux"))]
#[path = "no_ktls.rs"]
mod ktls;

#[cfg(target_os = "linux")]
mod sandbox;

#[cfg(not(target_os = "linux"))]
#[path = "no_sandbox.rs"]
mod sandbox;

#[cfg(target_os = "linux")]
mod timer;

#[cfg(not(target_os = "linux"))]
#[path = "no_timer.rs"]
mod timer;

#[cfg(target_os = "linux")]
mod watch;

#[cfg(not(target_os = "linux"))]
#[path = "no_watch.rs"]
mod watch;

#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod system;

#[cfg(target_os = "freebsd")]
#[path = "freebsd.rs"]
mod system;

#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd")))]
compile_error!("hurtle runs on Linux, macOS and FreeBSD: add a file under src/sys/");

pub use ktls::{encrypt_sent, offers_tls, send_record};
pub use sandbox::{restrict_calls, restrict_files};
pub use system::{
    NO_SIGNAL, PROBE, PROGRAM_MEMORY, TRUST_STORES, UDP_BUFFER_SETTING, adopt_orphans, backlog_max,
    begin_reading, bind_udp, children, create_unnamed, end_handshakes, fill_segments,
    give_precedence, init_groups, link_unnamed, listen_tcp, open_beneath, page_in, read_resident,
    send_file, send_head_and_file,
};
pub use timer::{set_timer, timer};
pub use watch::{take_changes, watch, watch_directory};

/// A store of authorities that the system's programs trust.
#[derive(Debug)]
pub struct TrustStore {
    /// The directory for certificates; `None`: the commands read the file.
    pub directory: Option<&'static str>,
    /// Extension of a certificate in the directory.
    pub extension: &'static str,
    /// Command after a certificate was copied to the directory. An empty word stands for the file.
    pub add: &'static [&'static str],
    /// Command after a certificate was removed from the directory, likewise.
    pub remove: &'static [&'static str],
}

/// The traffic keys of one side of a TLS 1.3 connection (RFC 8446 7.3).
pub struct TlsKeys {
    /// The cipher and its key.
    pub key: TlsKey,
    /// The IV that nonces are made of.
    pub iv: [u8; 12],
    /// Records encrypted with these keys so far: the sequence number of the next one.
    pub records: u64,
}

/// A key, by its cipher.
pub enum TlsKey {
    Aes128Gcm([u8; 16]),
    Aes256Gcm([u8; 32]),
    ChaCha20Poly1305([u8; 32]),
}

/// See the contract above.
pub fn coarse_ms() -> u64 {
    let t = rustix::time::clock_gettime(system::COARSE);
    // Since boot, so never negative.
    t.tv_sec as u64 * 1_000 + t.tv_nsec as u64 / 1_000_000
}
