//! Linux's TLS in the kernel, for what is sent (Documentation/networking/tls.rst).

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::LazyLock;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpTlsTx, TcpUlp, TlsCryptoInfo};
use socket2::{Domain, MsgHdr, SockRef, Socket, Type};

use super::{TlsKey, TlsKeys};

/// Its name among the protocols that can be laid over TCP.
const ULP: &[u8; 3] = b"tls";

/// See the contract in `sys`. The kernel loads its module `tls` for whoever may administer the
/// network.
pub fn offers_tls() -> bool {
    static OFFERED: LazyLock<bool> = LazyLock::new(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
        // Where it is known, it wants a connection first.
        let asked = socket.map(|socket| setsockopt(&socket, TcpUlp::default(), ULP));
        matches!(asked, Ok(Err(Errno::ENOTCONN)))
    });
    *OFFERED
}

/// See the contract in `sys`. Until there are keys, the protocol changes nothing.
pub fn encrypt_sent(socket: BorrowedFd<'_>, keys: &TlsKeys) -> io::Result<()> {
    setsockopt(&socket, TcpUlp::default(), ULP)?;
    setsockopt(&socket, TcpTlsTx, &crypto_info(keys))?;
    Ok(())
}

/// Of AES-GCM the kernel wants the first bytes of the IV apart, as TLS 1.2 has them.
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

/// What the kernel aligns control messages to.
const WORD: usize = size_of::<usize>();

/// A control message's header: length, level and type.
const HEADER: usize = (WORD + 2 * size_of::<libc::c_int>()).next_multiple_of(WORD);

/// A control message that says the record's type (cmsg(3)).
fn control(kind: u8) -> [u8; HEADER + WORD] {
    let (level, name) = (libc::SOL_TLS.to_ne_bytes(), libc::TLS_SET_RECORD_TYPE.to_ne_bytes());
    let mut control = [0; HEADER + WORD];
    control[..WORD].copy_from_slice(&(HEADER + 1).to_ne_bytes());
    control[WORD..][..level.len()].copy_from_slice(&level);
    control[WORD + level.len()..][..name.len()].copy_from_slice(&name);
    control[HEADER] = kind;
    control
}
