//! Tests of kernel TLS, or, if the kernel has none, that a failed attempt changes nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use hurtle::sys::{self, TlsKey, TlsKeys};

use super::{LOOPBACK, PATIENCE};

#[test]
fn sent_bytes_leave_in_tls_records_or_unchanged() {
    let keys =
        [TlsKey::Aes128Gcm([1; 16]), TlsKey::Aes256Gcm([2; 32]), TlsKey::ChaCha20Poly1305([3; 32])];
    for key in keys {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        let keys = TlsKeys { key, iv: [4; 12], records: 0 };
        let encrypts = sys::encrypt_sent(sender.as_fd(), &keys).is_ok();
        assert!(sys::offers_tls() || !encrypts, "it can what it does not offer");
        sender.write_all(b"hello").unwrap();
        if encrypts {
            sys::send_record(sender.as_fd(), 21, &[1, 0]).unwrap();
        }
        drop(sender);
        let mut received = Vec::new();
        receiver.read_to_end(&mut received).unwrap();
        if encrypts {
            // RFC 8446 5.2: the written bytes, the content type, and an authentication tag of 16
            // bytes.
            assert_eq!(received.len(), 5 + (5 + 1 + 16) + 5 + (2 + 1 + 16));
            assert_eq!(received[..5], [23, 3, 3, 0, 22]);
            assert_eq!(received[27..32], [23, 3, 3, 0, 19], "the alert is one only inside");
        } else {
            assert_eq!(received, b"hello");
        }
    }
}
