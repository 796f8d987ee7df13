//! What differs between operating systems, and nothing else: one file each, the same function
//! names in each, the contract written here once and tested, on each, by `tests/sys_contract.rs`.
//!
//! - `send_head_and_file(socket, head, file, offset, len)`: sends `head` (not empty) and then up to
//!   `len` bytes of `file` from `offset`, as one flow: no packet ends between them (on macOS one
//!   does). Returns how many bytes of the two together the kernel took; less than asked is no
//!   error. `Ok` with no more than `head.len()` bytes means the file sent nothing: at its end, or
//!   the socket is full. Interrupted calls are retried. `WouldBlock` only if not one byte was
//!   taken: a partial count is never lost.
//! - `send_file(socket, file, offset, len)`: the same without a head; `Ok(0)` is end of file, or
//!   `len` 0.
//! - `fill_segments(socket, on)`: whether only full segments leave on a TCP socket, where the system
//!   has that; what is held back leaves, soon, when it is put off.
//! - `read_resident(file, buf, offset)`: reads only what needs no disk; `WouldBlock` if the first
//!   byte needs one, or if the system cannot tell. `Ok(0)` is end of file.
//! - `page_in(file, offset, len)`: waits until the kernel has some of the `len` bytes of `file` from
//!   `offset` in its memory, the first among them; how many. `Ok(0)` is end of file, or `len` 0.
//! - `open_beneath(dir, path, flags, follow)`: opens `path` beneath `dir`, never above or beside it,
//!   whatever links are met. `flags` are `PROBE` or for reading, and neither create nor say
//!   `NOFOLLOW`. A path or link that leads out, or is absolute even if it comes back, is `EXDEV`.
//!   `follow` false: any link is `ELOOP`. What is neither file nor directory may be `ENXIO`.
//! - `PROBE`: flags for `open_beneath` that open a name without opening the file (no device wakes,
//!   no FIFO waits), for `fstat` and as a directory to start from.
//! - `create_unnamed(dir, mode)`: a file on `dir`'s file system that has no name, open for reading
//!   and writing, gone when it is closed. `EOPNOTSUPP` where there are none.
//! - `link_unnamed(file, dir, name)`: gives such a file a name in `dir`; never replaces: `EEXIST`.
//! - `NO_SIGNAL`: flags for `send` by which a peer that is gone is an error and no signal. Where the
//!   system has none, sockets are made so, or the program is not to be ended by it.
//! - `give_precedence()`: from now on this thread has a processor after the others that want it, where
//!   the system tells threads apart; elsewhere nothing.
//! - `backlog_max()`: what `listen(2)`'s backlog is cut to; `None` where the system does not say.
//! - `init_groups(user, group)`: gives the process the groups of `user` and `group`; `Unsupported`
//!   where the system has no safe call for it.
//! - `data_dir()`: where the programs of this user keep what is theirs; `None` without a home.
//! - `trust_command(file)`: what a person types to have an authority's certificate trusted.
//! - `coarse_ms()`: milliseconds of a clock that never goes back; cheap, a few ms behind.
//! - `timer()`: a descriptor, not set, of which 8 bytes can be read when a time has passed, and which
//!   never blocks. `Unsupported` where the system has none.
//! - `set_timer(timer, time)`: the time, from now; one set before is forgotten.
//! - `listen_tcp(addr, backlog, count)`: non-blocking sockets for `count` workers (at least 1), the
//!   kernel balancing between them where it can, else one socket and its duplicates. `AddrInUse` if
//!   anybody, the same user too, already listens there.
//! - `adopt_orphans()`: from now on a descendant whose parent ends becomes this process's child, and
//!   not init's. `Unsupported` where the system cannot.
//! - `children()`: this process's children, and perhaps theirs. `Unsupported` where the system does
//!   not say.
//! - `offers_tls()`: whether the kernel can encrypt what a TCP socket sends (TLS 1.3), as far as it
//!   says without a connection. Asked once: first as who may have it loaded.
//! - `encrypt_sent(socket, keys)`: from now on what is written to a connected TCP socket leaves as
//!   TLS records of application data, of 16 KiB where there is as much. For good. After an error,
//!   the socket is as it was. `Unsupported` where the system cannot.
//! - `send_record(socket, kind, bytes)`: sends one record of another type on such a socket, behind
//!   all that was written; never waits.
//! - `end_handshakes(listener)`: from now on no connection is begun on a TCP listener that is about
//!   to be closed; those begun still complete. For good, so never on a socket that another process
//!   holds too. False where the system cannot: then a close may reset who came last.

pub mod beneath;
// What two systems share, a third may do without.
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
mod timer;

#[cfg(not(target_os = "linux"))]
#[path = "no_timer.rs"]
mod timer;

#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod system;

#[cfg(target_os = "freebsd")]
#[path = "freebsd.rs"]
mod system;

#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd")))]
compile_error!("hurtle runs on Linux, macOS and FreeBSD: add a file under src/sys/");

pub use ktls::{encrypt_sent, offers_tls, send_record};
pub use system::{
    NO_SIGNAL, PROBE, adopt_orphans, backlog_max, children, create_unnamed, data_dir,
    end_handshakes, fill_segments, give_precedence, init_groups, link_unnamed, listen_tcp,
    open_beneath, page_in, read_resident, send_file, send_head_and_file, trust_command,
};
pub use timer::{set_timer, timer};

/// What one side's TLS 1.3 records are encrypted with (RFC 8446 7.3).
pub struct TlsKeys {
    /// The cipher and its key.
    pub key: TlsKey,
    /// What nonces are made of.
    pub iv: [u8; 12],
    /// Records that were encrypted with it before: the next one's sequence number.
    pub records: u64,
}

/// A key, by its cipher.
pub enum TlsKey {
    /// AES-128-GCM.
    Aes128Gcm([u8; 16]),
    /// AES-256-GCM.
    Aes256Gcm([u8; 32]),
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305([u8; 32]),
}

/// See the contract above.
pub fn coarse_ms() -> u64 {
    let t = rustix::time::clock_gettime(system::COARSE);
    // Since boot, so never negative.
    t.tv_sec as u64 * 1_000 + t.tv_nsec as u64 / 1_000_000
}
