//! Linux's kernel TLS, for sending (Documentation/networking/tls.rst).

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::LazyLock;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpTlsTx, TcpUlp, TlsCryptoInfo};
use socket2::{Domain, MsgHdr, SockRef, Socket, Type};

use super::{TlsKey, TlsKeys};

/// The name of its upper-layer protocol (TCP_ULP).
const ULP: &[u8; 3] = b"tls";

/// See the contract in `sys`. The kernel loads its module `tls` for a process with CAP_NET_ADMIN.
pub fn offers_tls() -> bool {
    static OFFERED: LazyLock<bool> = LazyLock::new(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
        // A kernel that has it requires a connected socket first.
        let result = socket.map(|socket| setsockopt(&socket, TcpUlp::default(), ULP));
        matches!(result, Ok(Err(Errno::ENOTCONN)))
    });
    *OFFERED
}

/// See the contract in `sys`. Until keys are set, the protocol changes nothing.
pub fn encrypt_sent(socket: BorrowedFd<'_>, keys: &TlsKeys) -> io::Result<()> {
    setsockopt(&socket, TcpUlp::default(), ULP)?;
    setsockopt(&socket, TcpTlsTx, &crypto_info(keys))?;
    Ok(())
}

/// For AES-GCM the kernel takes the first bytes of the IV apart, as in TLS 1.2.
fn crypto_info(keys: &TlsKeys) -> TlsCryptoInfo {
    let info = |cipher_type| libc::tls_crypto_info { version: libc::TLS_1_3_VERSION, cipher_type };
    let [a, b, c, d, iv @ ..] = keys.iv;
    let (salt, rec_seq) = ([a, b, c, d], keys.records.to_be_bytes());
    match keys.key {
        TlsKey::Aes128Gcm(key) => TlsCryptoInfo::Aes128Gcm(libc::tls12_crypto_info_aes_gcm_128 {
            info: info(libc::TLS_CIPHER_AES_GCM_128),
            iv,
            key,
            salt,
            rec_seq,
        }),
        TlsKey::Aes256Gcm(key) => TlsCryptoInfo::Aes256Gcm(libc::tls12_crypto_info_aes_gcm_256 {
            info: info(libc::TLS_CIPHER_AES_GCM_256),
            iv,
            key,
            salt,
            rec_seq,
        }),
        TlsKey::ChaCha20Poly1305(key) => {
            TlsCryptoInfo::Chacha20Poly1305(libc::tls12_crypto_info_chacha20_poly1305 {
                info: info(libc::TLS_CIPHER_CHACHA20_POLY1305),
                iv: keys.iv,
                key,
                salt: [],
                rec_seq,
            })
        }
    }
}

/// See the contract in `sys`.
pub fn send_record(socket: BorrowedFd<'_>, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let (bytes, control) = ([IoSlice::new(bytes)], control(kind));
    let message = MsgHdr::new().with_buffers(&bytes).with_control(&control);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    SockRef::from(&socket).sendmsg(&message, flags).map(drop)
}

/// Alignment of control messages.
const WORD: usize = size_of::<usize>();

/// A control message's header: length, level and type.
const HEADER: usize = (WORD + 2 * size_of::<libc::c_int>()).next_multiple_of(WORD);

/// A control message with the record's type (cmsg(3)).
fn control(kind: u8) -> [u8; HEADER + WORD] {
    let (level, name) = (libc::SOL_TLS.to_ne_bytes(), libc::TLS_SET_RECORD_TYPE.to_ne_bytes());
    let mut control = [0; HEADER + WORD];
    control[..WORD].copy_from_slice(&(HEADER + 1).to_ne_bytes());
    control[WORD..][..level.len()].copy_from_slice(&level);
    control[WORD + level.len()..][..name.len()].copy_from_slice(&name);
    control[HEADER] = kind;
    control
}
