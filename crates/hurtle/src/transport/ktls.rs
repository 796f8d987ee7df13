//! Moves encryption of sent data from rustls to the kernel (kTLS): the keys, the moment of the
//! switch, and the key's limit. rustls does the handshake and all reads. TLS 1.3 only, because
//! rustls does not export all key material of earlier versions. Record sizes are equal on both
//! sides.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, IoSlice, Write};
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use rustls::crypto::tls13::{HkdfExpander, OkmBlock};
use rustls::{CipherSuite, KeyLog, ServerConfig, ServerConnection, Tls13CipherSuite};

use crate::sys::{self, TlsKey, TlsKeys};
use crate::tls::HTTP2;

/// Minimum size of a file that makes the kernel take over, in bytes. Below it, the setup costs more
/// than the saved copy (an estimate, not measured).
pub(crate) const TAKE_OVER_BYTES_MIN: u64 = 256 << 10;

/// Maximum plaintext of a record, in bytes (RFC 8446 section 5.1); longer data fills its records.
const RECORD_BYTES: u64 = 16 << 10;

/// The outer type of encrypted records (RFC 8446 section 5.2).
const APPLICATION_DATA: u8 = 23;

/// Size of a record header in bytes: type, legacy version, length.
const HEADER_BYTES: usize = 5;

/// Length of an encrypted KeyUpdate without padding (RFC 8446 section 4.6.3): 5 bytes, the type,
/// and the tag.
const KEY_UPDATE_BYTES: u16 = 5 + 1 + 16;

/// The record type of alerts, and the close_notify alert (RFC 8446 section 6.1).
const ALERT: u8 = 21;
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// The key log label of the server's application traffic secret.
const SECRET: &str = "SERVER_TRAFFIC_SECRET_0";

/// The encryptor of sent data.
#[derive(Debug)]
pub(super) enum Sending {
    /// rustls, permanently.
    Own,
    /// rustls, until the kernel takes over.
    Either(Box<Either>),
    /// The kernel, permanently. `records` is an upper bound of those it has made; `records_max` is
    /// the limit of the key.
    Kernel { records: u64, records_max: u64 },
}

/// The state that the kernel needs to take over.
pub(super) struct Either {
    secret: OkmBlock,
    records: Records,
}

/// Prints no secret.
impl Debug for Either {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Either").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Sending {
    /// Creates the state of a session whose handshake is complete and that has sent nothing since.
    pub(super) fn new(session: &ServerConnection, overheard: Option<&Overheard>) -> Sending {
        let secret = overheard.and_then(|overheard| overheard.0.get());
        match secret {
            // HTTP/2 frames are built in this process, so no file can be sent by the kernel.
            Some(secret) if session.alpn_protocol() != Some(HTTP2) => {
                let (secret, records) = (secret.clone(), Records::default());
                Sending::Either(Box::new(Either { secret, records }))
            }
            _ => Sending::Own,
        }
    }

    pub(super) fn is_by_kernel(&self) -> bool {
        matches!(self, Sending::Kernel { .. })
    }

    /// Records that the first `n` bytes of rustls' output were sent.
    pub(super) fn passed(&mut self, bufs: &[IoSlice<'_>], n: usize) {
        let Sending::Either(either) = self else { return };
        let mut left = n;
        for buf in bufs {
            let some = left.min(buf.len());
            either.records.pass(&buf[..some]);
            left -= some;
        }
    }

    /// Makes the kernel take over; the socket must have all of rustls' output. Returns whether it
    /// did; if not, rustls stays permanently.
    pub(super) fn take_over(&mut self, session: &ServerConnection, to: BorrowedFd<'_>) -> bool {
        let Sending::Either(either) = mem::replace(self, Sending::Own) else { return false };
        let suite = session.negotiated_cipher_suite().and_then(|suite| suite.tls13());
        let Some(suite) = suite.filter(|_| !either.records.perhaps_rekeyed) else { return false };
        let records = either.records.count;
        let Some(keys) = keys(suite, &either.secret, records) else { return false };
        match sys::encrypt_sent(to, &keys) {
            Ok(()) => {
                let records_max = suite.common.confidentiality_limit;
                *self = Sending::Kernel { records, records_max };
                true
            }
            Err(e) => {
                tracing::debug!("kTLS setup of a connection failed: {e}");
                false
            }
        }
    }

    /// Checks that the kernel's key may encrypt more records. The kernel cannot change its key.
    ///
    /// # Errors
    /// The key has reached its limit (RFC 8446 section 5.5).
    pub(super) fn check(&self) -> io::Result<()> {
        match self {
            Sending::Kernel { records, records_max } if records >= records_max => {
                Err(io::Error::other("the TLS key has reached its record limit"))
            }
            _ => Ok(()),
        }
    }

    /// Counts bytes that the kernel took in one call.
    pub(super) fn took(&mut self, bytes: usize) {
        if let Sending::Kernel { records, .. } = self {
            // The bytes may complete one record and begin another.
            *records = records.saturating_add(bytes as u64 / RECORD_BYTES + 2);
        }
    }

    /// Returns whether the connection should end soon, because the kernel cannot change its key.
    /// Either the peer has requested a new key, which must precede other data (RFC 8446 section
    /// 4.6.3), or half of the key's limit is used.
    pub(super) fn is_over(&self, session: &mut ServerConnection) -> bool {
        match self {
            Sending::Kernel { records, records_max } => {
                *records > records_max / 2 || has_to_say(session)
            }
            _ => false,
        }
    }
}

/// Returns whether rustls has output to send. rustls answers a peer's KeyUpdate at a write only,
/// so this writes 0 bytes.
pub(super) fn has_to_say(session: &mut ServerConnection) -> bool {
    // The next read returns the error.
    let _ = session.writer().write(&[]);
    session.wants_write()
}

/// Sends close_notify on a socket with kernel encryption.
///
/// # Errors
/// Errors of the socket; `WouldBlock` if it is full.
pub(super) fn say_goodbye(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::send_record(socket, ALERT, &CLOSE_NOTIFY)
}

/// Returns the configuration for one handshake. If the kernel has TLS, the configuration captures
/// the secret.
pub(super) fn overhear(terms: Arc<ServerConfig>) -> (Arc<ServerConfig>, Option<Arc<Overheard>>) {
    if !sys::offers_tls() {
        return (terms, None);
    }
    let (terms, overheard) = overheard(&terms);
    (Arc::new(terms), Some(overheard))
}

fn overheard(terms: &ServerConfig) -> (ServerConfig, Arc<Overheard>) {
    let overheard = Arc::new(Overheard::default());
    let mut terms = terms.clone();
    terms.key_log = Arc::clone(&overheard) as _;
    (terms, overheard)
}

/// The secret of one handshake, which rustls reports through its key log. It leaves the process
/// only for the kernel.
#[derive(Default)]
pub(super) struct Overheard(OnceLock<OkmBlock>);

impl Debug for Overheard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overheard").finish_non_exhaustive()
    }
}

impl KeyLog for Overheard {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label == SECRET {
            // A handshake has exactly one such secret.
            let _ = self.0.set(OkmBlock::new(secret));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == SECRET
    }
}

/// Counts the records in a byte stream that arrives in pieces of any size.
#[derive(Debug, Default)]
struct Records {
    /// Number of encrypted records; each uses a sequence number.
    count: u64,
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that have arrived.
    header_len: usize,
    /// Bytes of the record that are still to come.
    left: u16,
    /// `true` if a record had the length of a KeyUpdate: the secret may be outdated.
    perhaps_rekeyed: bool,
}

impl Records {
    fn pass(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.left > 0 {
                let n = bytes.len().min(self.left.into());
                self.left -= n as u16;
                bytes = &bytes[n..];
                continue;
            }
            self.header[self.header_len] = *first;
            self.header_len += 1;
            bytes = rest;
            if self.header_len == HEADER_BYTES {
                self.begin();
            }
        }
    }

    fn begin(&mut self) {
        let [kind, _, _, high, low] = self.header;
        self.header_len = 0;
        self.left = u16::from_be_bytes([high, low]);
        if kind == APPLICATION_DATA {
            self.count += 1;
            self.perhaps_rekeyed |= self.left == KEY_UPDATE_BYTES;
        }
    }
}

/// Derives the kernel's keys (RFC 8446 section 7.3). `None`: the kernel lacks the cipher.
fn keys(suite: &Tls13CipherSuite, secret: &OkmBlock, records: u64) -> Option<TlsKeys> {
    let expander = suite.hkdf_provider.expander_for_okm(secret);
    let expander = &*expander;
    let key = match suite.common.suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => TlsKey::Aes128Gcm(expanded(expander, b"key")?),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => TlsKey::Aes256Gcm(expanded(expander, b"key")?),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
            TlsKey::ChaCha20Poly1305(expanded(expander, b"key")?)
        }
        _ => return None,
    };
    Some(TlsKeys { key, iv: expanded(expander, b"iv")?, records })
}

/// HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
fn expanded<const N: usize>(expander: &dyn HkdfExpander, label: &[u8]) -> Option<[u8; N]> {
    const PREFIX: &[u8] = b"tls13 ";
    let label_len = (PREFIX.len() + label.len()) as u8;
    let mut okm = [0; N];
    let info = [&(N as u16).to_be_bytes(), &[label_len][..], PREFIX, label, &[0]];
    expander.expand_slice(&info, &mut okm).ok()?;
    Some(okm)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use aws_lc_rs::aead;
    use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// RFC 8448 section 3: the server's "derive write traffic keys for application data".
    #[test]
    fn keys_equal_the_example_of_rfc_8448() {
        let secret = hex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
        let suite = provider::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().expect("TLS 1.3");
        let derived =
            keys(suite, &OkmBlock::new(&secret), 7).expect("a cipher that the kernel has");
        let TlsKey::Aes128Gcm(key) = derived.key else { panic!("another cipher") };
        assert_eq!(key.to_vec(), hex("9f02283b6c9c07efc26bb9f2ac92e356"));
        assert_eq!(derived.iv.to_vec(), hex("cf782b88dd83549aadf1e984"));
        assert_eq!(derived.records, 7);
    }

    #[test]
    fn records_are_counted_in_pieces_of_any_size() {
        let record = |kind: u8, len: u16| {
            let [high, low] = len.to_be_bytes();
            [vec![kind, 3, 3, high, low], vec![kind; len.into()]].concat()
        };
        let stream = [record(20, 1), record(23, 300), record(23, 0), record(23, 16_401)].concat();
        for piece in [1, 2, 3, 5, 7, 300, 4096, stream.len()] {
            let mut records = Records::default();
            stream.chunks(piece).for_each(|piece| records.pass(piece));
            assert_eq!(
                records.count, 3,
                "in pieces of {piece}; an unencrypted record does not count"
            );
            assert!(!records.perhaps_rekeyed && records.left == 0, "in pieces of {piece}");
        }
        let mut records = Records::default();
        records.pass(&record(23, KEY_UPDATE_BYTES));
        assert!(records.perhaps_rekeyed);
    }

    /// Encrypts records as the kernel would. The client must decrypt them after those of rustls.
    #[test]
    fn a_client_decrypts_records_made_with_the_kernels_keys() {
        let suites = provider::ALL_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_some());
        for suite in suites {
            let mut pair = Pair::new(*suite);
            for len in [1, 5_000, 40_000] {
                pair.server.writer().write_all(&vec![b'x'; len]).expect("memory has room");
                assert_eq!(pair.client_reads(), vec![b'x'; len]);
            }
            let keys = pair.keys();
            let sent = pair.records.count;
            assert!(sent >= 5, "{suite:?}: 1 + 1 + 3 records, and tickets");
            let mut wire = encrypted(&keys, sent, APPLICATION_DATA, b"by another");
            wire.extend(encrypted(&keys, sent + 1, ALERT, &CLOSE_NOTIFY));
            pair.client.read_tls(&mut &wire[..]).expect("memory");
            let state = pair.client.process_new_packets().expect("it can be decrypted");
            assert_eq!(pair.client_read(), b"by another", "{suite:?}");
            assert!(state.peer_has_closed(), "{suite:?}: close_notify was received");
        }
    }

    #[test]
    fn a_key_update_is_noticed_before_and_after_the_switch() {
        let suite = provider::cipher_suite::TLS13_AES_256_GCM_SHA384;
        let mut pair = Pair::new(suite);
        assert!(has_to_say(&mut pair.server), "tickets");
        pair.client_reads();
        assert!(!has_to_say(&mut pair.server));
        let by_kernel = Sending::Kernel { records: 9, records_max: 1 << 24 };
        assert!(!by_kernel.is_over(&mut pair.server), "no KeyUpdate was requested");
        pair.client.refresh_traffic_keys().expect("the handshake is over");
        pair.server_reads();
        assert!(by_kernel.is_over(&mut pair.server), "after the switch, the connection ends");
        pair.client_reads();
        assert!(pair.records.perhaps_rekeyed, "before the switch, rustls keeps encrypting");
    }

    #[test]
    fn a_key_is_not_used_beyond_its_limit() {
        let mut pair = Pair::new(provider::cipher_suite::TLS13_AES_256_GCM_SHA384);
        pair.client_reads();
        let mut sending = Sending::Kernel { records: 0, records_max: 100 };
        sending.took(30 * RECORD_BYTES as usize);
        assert!(sending.check().is_ok() && !sending.is_over(&mut pair.server));
        sending.took(30 * RECORD_BYTES as usize);
        assert!(sending.check().is_ok(), "the current response continues");
        assert!(sending.is_over(&mut pair.server), "no further request is read");
        sending.took(40 * RECORD_BYTES as usize);
        assert!(sending.check().is_err());
    }

    /// A client and a server, and the server's output since the handshake.
    struct Pair {
        client: ClientConnection,
        server: ServerConnection,
        overheard: Arc<Overheard>,
        records: Records,
    }

    impl Pair {
        /// Completes a handshake between client and server.
        fn new(suite: rustls::SupportedCipherSuite) -> Pair {
            let own = CryptoProvider { cipher_suites: vec![suite], ..provider::default_provider() };
            let own = Arc::new(own);
            let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
            let generated = generated.expect("a certificate");
            let mut roots = RootCertStore::empty();
            roots.add(generated.cert.der().clone()).expect("a root");
            let config = ClientConfig::builder_with_provider(Arc::clone(&own))
                .with_safe_default_protocol_versions()
                .expect("TLS 1.3")
                .with_root_certificates(roots)
                .with_no_client_auth();
            let name = ServerName::try_from("localhost").expect("a name");
            let client = ClientConnection::new(Arc::new(config), name).expect("a client");
            let key =
                PrivateKeyDer::try_from(generated.signing_key.serialize_der()).expect("a key");
            let config = ServerConfig::builder_with_provider(own)
                .with_safe_default_protocol_versions()
                .expect("TLS 1.3")
                .with_no_client_auth()
                .with_single_cert(vec![generated.cert.der().clone()], key)
                .expect("a pair");
            let (config, overheard) = overheard(&config);
            let server = ServerConnection::new(Arc::new(config)).expect("a server");
            let mut pair = Pair { client, server, overheard, records: Records::default() };
            while pair.server.is_handshaking() {
                // Records of the handshake do not count.
                pair.records = Records::default();
                pair.client_reads();
                pair.server_reads();
            }
            pair.records = Records::default();
            pair
        }

        fn server_reads(&mut self) {
            let mut wire = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut wire).expect("memory");
            }
            let mut wire = &wire[..];
            while !wire.is_empty() {
                self.server.read_tls(&mut wire).expect("memory");
                self.server.process_new_packets().expect("a valid message of the client");
            }
        }

        /// Moves all of the server's output to the client; returns the decrypted bytes.
        fn client_reads(&mut self) -> Vec<u8> {
            let mut wire = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut wire).expect("memory");
            }
            self.records.pass(&wire);
            let (mut wire, mut read) = (&wire[..], Vec::new());
            while !wire.is_empty() {
                self.client.read_tls(&mut wire).expect("memory");
                self.client.process_new_packets().expect("a valid message of the server");
                read.extend(self.client_read());
            }
            read
        }

        fn client_read(&mut self) -> Vec<u8> {
            let mut read = Vec::new();
            // `WouldBlock` marks the end of the decrypted bytes.
            let _ = self.client.reader().read_to_end(&mut read);
            read
        }

        fn keys(&self) -> TlsKeys {
            let suite = self.server.negotiated_cipher_suite().and_then(|suite| suite.tls13());
            let secret = self.overheard.0.get().expect("a captured secret");
            keys(suite.expect("agreed on"), secret, self.records.count)
                .expect("a cipher that the kernel has")
        }
    }

    /// Encrypts a record like the kernel (RFC 8446 section 5.2).
    fn encrypted(keys: &TlsKeys, number: u64, kind: u8, bytes: &[u8]) -> Vec<u8> {
        let (algorithm, key): (_, &[u8]) = match &keys.key {
            TlsKey::Aes128Gcm(key) => (&aead::AES_128_GCM, key),
            TlsKey::Aes256Gcm(key) => (&aead::AES_256_GCM, key),
            TlsKey::ChaCha20Poly1305(key) => (&aead::CHACHA20_POLY1305, key),
        };
        let key = aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, key).expect("a key"));
        let mut nonce = keys.iv;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, of)| *byte ^= of);
        let mut inner = [bytes, &[kind]].concat();
        let [high, low] = (inner.len() as u16 + 16).to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, high, low];
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, aead::Aad::from(header), &mut inner).expect("sealed");
        [&header[..], &inner].concat()
    }

    fn hex(digits: &str) -> Vec<u8> {
        let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
        (0..digits.len()).step_by(2).map(pair).collect()
    }
}
