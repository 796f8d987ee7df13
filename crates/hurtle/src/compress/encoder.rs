//! The encoders of the content-codings, with one interface: bytes in, bytes out, a flush at any
//! point. A panic of an encoder is an error.

use std::io::{self, Write};
use std::mem;

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;
use hurtle_http::semantics::accept::Coding;
use zstd::stream::raw::CParameter;

use crate::rt;

/// Processor time that an encoder spends on a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Fast, for bodies that are encoded for each response. The window has at most 256 KiB (32 KiB
    /// for gzip), which bounds the memory of a stream.
    Live,
    /// Thorough, for a file of this many bytes that is encoded once.
    Stored(u64),
}

/// Brotli, zstd and gzip levels for bodies that are encoded for each response.
const LIVE_LEVELS: (i32, i32, u32) = (4, 3, 4);

/// Brotli, zstd and gzip levels for files, which are encoded once.
const STORED_LEVELS: (i32, i32, u32) = (9, 15, 9);

/// Base-2 logarithm of the window for live bodies.
const LIVE_WINDOW_LOG: u32 = 18;

/// Base-2 logarithm of the largest window for files: browsers refuse larger ones for zstd (RFC
/// 9659).
const STORED_WINDOW_LOG: u32 = 22;

/// Base-2 logarithms of the windows with a dictionary. A decoder has 8 MiB at least, five quarters
/// of the dictionary, and 128 MiB at most (RFC 9842 section 5).
const DICTIONARY_WINDOW_LOGS: (u32, u32, u32) = (10, 23, 27);

/// Size of the buffer between the Brotli encoder and its output, in bytes.
const BROTLI_BUFFER_BYTES: usize = 8 << 10;

/// An encoder of one body.
pub(crate) struct Encoder<'a>(AnyEncoder<'a>);

enum AnyEncoder<'a> {
    Br(Box<CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'a, Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Encoder<'_> {
    /// Creates an encoder. `coding` is neither identity nor one with a dictionary.
    ///
    /// # Errors
    /// There is no memory, or the coding is another one.
    pub(crate) fn new(coding: Coding, effort: Effort) -> io::Result<Encoder<'static>> {
        let (levels, window) = match effort {
            Effort::Live => (LIVE_LEVELS, LIVE_WINDOW_LOG),
            Effort::Stored(_) => (STORED_LEVELS, STORED_WINDOW_LOG),
        };
        guard(|| {
            Ok(Encoder(match coding {
                Coding::Br => {
                    let mut params = BrotliEncoderParams {
                        quality: levels.0,
                        lgwin: window as i32,
                        ..BrotliEncoderParams::default()
                    };
                    if let Effort::Stored(len) = effort {
                        params.size_hint = usize::try_from(len).unwrap_or(usize::MAX);
                    }
                    let out = Vec::new();
                    let writer = CompressorWriter::with_params(out, BROTLI_BUFFER_BYTES, &params);
                    AnyEncoder::Br(Box::new(writer))
                }
                Coding::Zstd => {
                    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), levels.1)?;
                    if let Effort::Stored(len) = effort {
                        encoder.set_pledged_src_size(Some(len))?;
                    } else {
                        encoder.set_parameter(CParameter::WindowLog(window))?;
                    }
                    AnyEncoder::Zstd(encoder)
                }
                Coding::Gzip => {
                    AnyEncoder::Gzip(GzEncoder::new(Vec::new(), Compression::new(levels.2)))
                }
                Coding::Dcz | Coding::Identity => {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
            }))
        })
    }

    /// Creates an encoder of a file of `len` bytes for clients that have `dictionary`. Encoded
    /// bytes follow `head`.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn with_dictionary<'a>(
        dictionary: &'a [u8],
        len: u64,
        head: Vec<u8>,
    ) -> io::Result<Encoder<'a>> {
        guard(|| {
            let log = window_log(dictionary.len() as u64, len);
            // A prefix is raw, even if it begins like a trained dictionary.
            let mut encoder =
                zstd::stream::write::Encoder::with_ref_prefix(head, STORED_LEVELS.1, dictionary)?;
            encoder.set_parameter(CParameter::WindowLog(log))?;
            // The matcher of the level does not look as far back.
            encoder
                .set_parameter(CParameter::EnableLongDistanceMatching(log > STORED_WINDOW_LOG))?;
            encoder.set_pledged_src_size(Some(len))?;
            Ok(Encoder(AnyEncoder::Zstd(encoder)))
        })
    }

    /// Encodes bytes and appends to `out` what is ready.
    ///
    /// # Errors
    /// The encoder failed; it must not be used again.
    pub(crate) fn write(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        guard(|| self.writer().write_all(data))?;
        self.take(out);
        Ok(())
    }

    /// Appends everything that was written to `out`, so that a decoder can decode all of it.
    ///
    /// # Errors
    /// The encoder failed; it must not be used again.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        guard(|| self.writer().flush())?;
        self.take(out);
        Ok(())
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The encoder failed.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        let rest = guard(|| match self.0 {
            AnyEncoder::Br(encoder) => Ok(encoder.into_inner()),
            AnyEncoder::Zstd(encoder) => encoder.finish(),
            AnyEncoder::Gzip(encoder) => encoder.finish(),
        })?;
        out.extend_from_slice(&rest);
        Ok(())
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            AnyEncoder::Br(encoder) => encoder,
            AnyEncoder::Zstd(encoder) => encoder,
            AnyEncoder::Gzip(encoder) => encoder,
        }
    }

    fn take(&mut self, out: &mut Vec<u8>) {
        let made = match &mut self.0 {
            AnyEncoder::Br(encoder) => encoder.get_mut(),
            AnyEncoder::Zstd(encoder) => encoder.get_mut(),
            AnyEncoder::Gzip(encoder) => encoder.get_mut(),
        };
        if out.is_empty() {
            mem::swap(out, made);
        } else {
            out.append(made);
        }
    }
}

impl std::fmt::Debug for Encoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

/// Base-2 logarithm of the window that holds the dictionary and the file, as far as decoders have
/// it.
fn window_log(dictionary_len: u64, len: u64) -> u32 {
    let (least, most, bound) = DICTIONARY_WINDOW_LOGS;
    let wanted = (dictionary_len + len).max(2).next_power_of_two().ilog2();
    let has = (dictionary_len / 4 * 5).max(1).ilog2().clamp(most, bound);
    wanted.clamp(least, has)
}

/// Runs an encoder and turns a panic into an error.
fn guard<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    rt::catch(work).unwrap_or_else(|panic| Err(io::Error::other(format!("panicked: {panic}"))))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    const CODINGS: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

    /// Decodes as far as the bytes allow.
    fn decode(coding: Coding, coded: &[u8]) -> (Vec<u8>, bool) {
        let mut plain = Vec::new();
        let mut reader: Box<dyn Read> = match coding {
            Coding::Br => Box::new(brotli::Decompressor::new(coded, 4096)),
            Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(coded).unwrap()),
            Coding::Gzip => Box::new(flate2::read::GzDecoder::new(coded)),
            Coding::Dcz | Coding::Identity => unreachable!(),
        };
        let mut piece = [0; 777];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return (plain, true),
                Ok(n) => plain.extend_from_slice(&piece[..n]),
                Err(_) => return (plain, false),
            }
        }
    }

    /// Text that compresses, with some noise.
    fn text(len: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 24
        };
        let words = ["alpha ", "beta ", "<p class=x>", "\n", "0123456789"];
        let mut text = Vec::new();
        while text.len() < len {
            text.extend_from_slice(words[next() as usize % words.len()].as_bytes());
            text.push(next() as u8);
        }
        text.truncate(len);
        text
    }

    #[test]
    fn every_coding_effort_and_size_decodes_to_the_original() {
        for coding in CODINGS {
            for len in [0, 1, 100, 1_023, 65_536, 300_000, 1 << 20] {
                let plain = text(len);
                for effort in [Effort::Live, Effort::Stored(len as u64)] {
                    let mut coded = Vec::new();
                    let mut encoder = Encoder::new(coding, effort).unwrap();
                    encoder.write(&plain, &mut coded).unwrap();
                    encoder.finish(&mut coded).unwrap();
                    let (decoded, is_whole) = decode(coding, &coded);
                    assert!(is_whole && decoded == plain, "{coding:?} {len} {effort:?}");
                    assert!(len < 1_023 || coded.len() < len, "{coding:?} {len} {effort:?}");
                }
            }
        }
    }

    #[test]
    fn a_flush_makes_all_bytes_decodable() {
        for coding in CODINGS {
            let (mut plain, mut coded) = (Vec::new(), Vec::new());
            let mut encoder = Encoder::new(coding, Effort::Live).unwrap();
            for n in 0..20 {
                let event = format!("data: event {n}\n\n");
                plain.extend_from_slice(event.as_bytes());
                encoder.write(event.as_bytes(), &mut coded).unwrap();
                encoder.flush(&mut coded).unwrap();
                assert_eq!(decode(coding, &coded).0, plain, "{coding:?} after event {n}");
            }
        }
    }

    #[test]
    fn a_dictionary_and_its_window_decode_to_the_original() {
        for (old_len, new_len, log) in [
            (1, 2_000, 11),
            (50_000, 51_000, 17),
            (3 << 20, 2 << 20, 23),
            (9 << 20, 3 << 20, 23),
            (14 << 20, 3 << 20, 24),
        ] {
            assert_eq!(window_log(old_len as u64, new_len as u64), log);
            let old = text(old_len);
            let mut new = old[..old_len.min(new_len)].to_vec();
            new.resize(new_len, b'-');
            let mut coded = b"head".to_vec();
            let mut encoder =
                Encoder::with_dictionary(&old, new_len as u64, coded.split_off(0)).unwrap();
            encoder.write(&new, &mut coded).unwrap();
            encoder.finish(&mut coded).unwrap();
            assert_eq!(&coded[..4], b"head");
            assert!(old_len < 1_000 || coded.len() < 4_000, "{old_len}: {} bytes", coded.len());
            let mut decoder =
                zstd::stream::read::Decoder::with_ref_prefix(&coded[4..], &old).unwrap();
            decoder.window_log_max(log).unwrap();
            let mut plain = Vec::new();
            decoder.read_to_end(&mut plain).unwrap();
            assert!(plain == new, "{old_len} {new_len}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_split_decodes_to_the_same(
            pieces in prop::collection::vec((0_usize..5_000, any::<bool>()), 0..12),
        ) {
            let plain = text(pieces.iter().map(|(len, _)| len).sum());
            for coding in CODINGS {
                let (mut rest, mut coded) = (&plain[..], Vec::new());
                let mut encoder = Encoder::new(coding, Effort::Live).unwrap();
                for (len, flushes) in &pieces {
                    let (piece, behind) = rest.split_at(*len);
                    rest = behind;
                    encoder.write(piece, &mut coded).unwrap();
                    if *flushes {
                        encoder.flush(&mut coded).unwrap();
                    }
                }
                encoder.finish(&mut coded).unwrap();
                prop_assert!(decode(coding, &coded) == (plain.clone(), true), "{:?}", coding);
            }
        }
    }
}
