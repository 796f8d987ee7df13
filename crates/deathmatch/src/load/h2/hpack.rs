//! HPACK (RFC 7541), as far as a generator needs it: requests' fields are written without the
//! table; of responses the statuses are read, and of other fields only what keeps the dynamic table
//! right. Fields that are not stored are skipped undecoded. Pure.

use std::collections::VecDeque;

use crate::load::huffman;

/// Size limit of the dynamic table: the protocol's default, for no other is announced.
const TABLE_BYTES_MAX: usize = 4096;

/// Overhead of each entry (4.1).
const ENTRY_BYTES: usize = 32;

/// The names of the static table (appendix A), from 1.
#[rustfmt::skip]
const NAMES: [&str; 61] = [
    ":authority", ":method", ":method", ":path", ":path", ":scheme", ":scheme", ":status", ":status",
    ":status", ":status", ":status", ":status", ":status", "accept-charset", "accept-encoding",
    "accept-language", "accept-ranges", "accept", "access-control-allow-origin", "age", "allow",
    "authorization", "cache-control", "content-disposition", "content-encoding", "content-language",
    "content-length", "content-location", "content-range", "content-type", "cookie", "date", "etag",
    "expect", "expires", "from", "host", "if-match", "if-modified-since", "if-none-match", "if-range",
    "if-unmodified-since", "last-modified", "link", "location", "max-forwards", "proxy-authenticate",
    "proxy-authorization", "range", "referer", "refresh", "retry-after", "server", "set-cookie",
    "strict-transport-security", "transfer-encoding", "user-agent", "vary", "via", "www-authenticate",
];

/// The statuses of the static table, from 8.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
const FIRST_STATUS: usize = 8;

/// The fields of a GET over HTTPS; no literal enters the server's table.
pub fn request(authority: &str, path: &str) -> Vec<u8> {
    const METHOD_GET: u8 = 0x82;
    const SCHEME_HTTPS: u8 = 0x87;
    const PATH: usize = 4;
    const AUTHORITY: usize = 1;
    const USER_AGENT: usize = 58;
    let mut block = vec![METHOD_GET, SCHEME_HTTPS];
    for (name, value) in [(PATH, path), (AUTHORITY, authority), (USER_AGENT, "deathmatch")] {
        write_number(&mut block, name, 4);
        write_number(&mut block, value.len(), 7);
        block.extend_from_slice(value.as_bytes());
    }
    block
}

/// The fields of any request. `fields` have lower-case names (RFC 9113, 8.2); none enters the
/// server's table.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// Method of the request.
    pub method: &'a str,
    /// `true`: the scheme is `https`, because the connection has TLS.
    pub is_secure: bool,
    /// Host and, if it is not the scheme's, port.
    pub authority: &'a str,
    /// Path and query of the target.
    pub path: &'a str,
    /// All other fields, names in lower case.
    pub fields: &'a [(String, String)],
}

impl Fields<'_> {
    /// The block to send.
    pub fn block(&self) -> Vec<u8> {
        let mut block = Vec::new();
        let pseudo = [
            (":method", self.method),
            (":scheme", if self.is_secure { "https" } else { "http" }),
            (":authority", self.authority),
            (":path", self.path),
        ];
        let fields = self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in pseudo.into_iter().chain(fields) {
            block.push(0); // a literal with a new name, not stored (RFC 7541, 6.2.2)
            for text in [name, value] {
                write_number(&mut block, text.len(), 7);
                block.extend_from_slice(text.as_bytes());
            }
        }
        block
    }
}

/// A number with a prefix of so many bits (5.1), the bits before it being 0.
fn write_number(block: &mut Vec<u8>, number: usize, bits: u32) {
    let most = (1 << bits) - 1;
    if number < most {
        return block.push(number as u8);
    }
    block.push(most as u8);
    let mut rest = number - most;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// A malformed block: a connection error (4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HpackError;

/// The reader of one connection's blocks.
#[derive(Debug)]
pub(super) struct Reader {
    /// The youngest first.
    entries: VecDeque<Entry>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    name_bytes: usize,
    value_bytes: usize,
    field: Field,
}

/// Classification of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Neither of the others.
    Other,
    /// `:status`; 0 if it is not a number of three digits.
    Status(u16),
    /// `grpc-status`; `None` if it is not a number.
    GrpcStatus(Option<u16>),
}

impl Field {
    /// The field of the same name with another value.
    fn with_value(self, value: &Text<'_>) -> Result<Field, HpackError> {
        Ok(match self {
            Field::Other => Field::Other,
            Field::Status(_) => Field::Status(number(&value.text()?)),
            Field::GrpcStatus(_) => {
                let text = value.text()?;
                Field::GrpcStatus(
                    std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()),
                )
            }
        })
    }
}

/// The statuses in a block of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Statuses {
    /// `:status`; `None` in trailers.
    pub(super) http: Option<u16>,
    /// `grpc-status`, the last of several.
    pub(super) grpc: Option<u16>,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader { entries: VecDeque::new(), bytes: 0, bytes_max: TABLE_BYTES_MAX }
    }
}

impl Reader {
    /// The statuses in a block.
    pub(super) fn statuses(&mut self, mut block: &[u8]) -> Result<Statuses, HpackError> {
        let mut found = Statuses::default();
        while let Some(&first) = block.first() {
            let field = match first {
                0x80.. => {
                    let index = read_number(&mut block, 7)?;
                    self.entry(index)?.field
                }
                0x40.. => self.literal(&mut block, 6, true)?,
                0x20.. => {
                    let most = read_number(&mut block, 5)?;
                    if most > TABLE_BYTES_MAX {
                        return Err(HpackError);
                    }
                    self.bytes_max = most;
                    self.evict();
                    Field::Other
                }
                _ => self.literal(&mut block, 4, false)?,
            };
            match field {
                Field::Other => {}
                Field::GrpcStatus(status) => found.grpc = status,
                Field::Status(status) if found.http.is_none() && status >= 100 => {
                    found.http = Some(status);
                }
                // RFC 9113, 8.3: at most once, and a number.
                Field::Status(_) => return Err(HpackError),
            }
        }
        Ok(found)
    }

    /// A literal field, stored or not.
    fn literal(&mut self, block: &mut &[u8], bits: u32, kept: bool) -> Result<Field, HpackError> {
        let index = read_number(block, bits)?;
        let (name_bytes, named) = if index == 0 {
            let name = read_string(block)?;
            let name = name.text()?;
            let named = match &*name {
                b":status" => Field::Status(0),
                b"grpc-status" => Field::GrpcStatus(None),
                _ => Field::Other,
            };
            (name.len(), named)
        } else {
            let entry = self.entry(index)?;
            (entry.name_bytes, entry.field)
        };
        let value = read_string(block)?;
        let field = named.with_value(&value)?;
        if kept {
            let value_bytes = value.text()?.len();
            self.bytes += name_bytes + value_bytes + ENTRY_BYTES;
            self.entries.push_front(Entry { name_bytes, value_bytes, field });
            self.evict();
        }
        Ok(field)
    }

    /// The entry at an index of the static or dynamic table.
    fn entry(&self, index: usize) -> Result<Entry, HpackError> {
        let before = index.checked_sub(1).ok_or(HpackError)?;
        if let Some(name) = NAMES.get(before) {
            let field = match index.checked_sub(FIRST_STATUS).and_then(|at| STATUSES.get(at)) {
                Some(status) => Field::Status(*status),
                None => Field::Other,
            };
            // Values of the static table are never stored again.
            return Ok(Entry { name_bytes: name.len(), value_bytes: 0, field });
        }
        self.entries.get(before - NAMES.len()).copied().ok_or(HpackError)
    }

    fn evict(&mut self) {
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.bytes -= oldest.name_bytes + oldest.value_bytes + ENTRY_BYTES;
        }
    }
}

/// A string as received.
struct Text<'a> {
    bytes: &'a [u8],
    coded: bool,
}

impl Text<'_> {
    fn text(&self) -> Result<std::borrow::Cow<'_, [u8]>, HpackError> {
        match self.coded {
            true => huffman::decode(self.bytes).map(Into::into).ok_or(HpackError),
            false => Ok(self.bytes.into()),
        }
    }
}

fn read_string<'a>(block: &mut &'a [u8]) -> Result<Text<'a>, HpackError> {
    let coded = block.first().ok_or(HpackError)? & 0x80 != 0;
    let length = read_number(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length).ok_or(HpackError)?;
    *block = rest;
    Ok(Text { bytes, coded })
}

fn read_number(block: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let (&first, mut rest) = block.split_first().ok_or(HpackError)?;
    let most = (1usize << bits) - 1;
    let mut number = usize::from(first) & most;
    if number == most {
        // A length of more than four continuation bytes exceeds any string here.
        for at in 0.. {
            let (&byte, behind) = rest.split_first().filter(|_| at < 4).ok_or(HpackError)?;
            rest = behind;
            number += usize::from(byte & 127) << (7 * at);
            if byte < 128 {
                break;
            }
        }
    }
    *block = rest;
    Ok(number)
}

/// A number of three digits, or 0.
fn number(digits: &[u8]) -> u16 {
    let plain = digits.len() == 3 && digits.iter().all(u8::is_ascii_digit);
    match plain {
        true => digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn http(reader: &mut Reader, block: &str) -> Result<Option<u16>, HpackError> {
        reader.statuses(&bytes(block)).map(|statuses| statuses.http)
    }

    #[test]
    fn the_status_of_grpc_is_read_in_every_form() {
        let fields = |value: &str| {
            let fields = [("grpc-status".to_owned(), value.to_owned())];
            let all =
                Fields { method: "", is_secure: false, authority: "", path: "", fields: &fields };
            all.block()
        };
        for (value, want) in
            [("0", Some(0)), ("14", Some(14)), ("x", None), ("", None), ("70000", None)]
        {
            let statuses = Reader::default().statuses(&fields(value)).unwrap();
            assert_eq!((statuses.http, statuses.grpc), (None, want), "{value}");
        }
        // Kept, then from the table, then with its name from the table.
        let mut reader = Reader::default();
        let kept = [&b"\x40\x0bgrpc-status\x01"[..], b"0"].concat();
        for (block, want) in [(&kept[..], Some(0)), (b"\xbe", Some(0)), (b"\x0f\x2f\x015", Some(5))]
        {
            assert_eq!(reader.statuses(block).unwrap().grpc, want, "{block:?}");
        }
    }

    /// RFC 7541, C.5 and C.6: three answers on one connection, its table no larger than 256 bytes.
    #[test]
    fn answers_of_the_rfc_are_read() {
        let plain = [
            "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120\
             474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            "4803333037c1c0bf",
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738\
             666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d33\
             3630303b2076657273696f6e3d31",
        ];
        let coded = [
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad1718\
             63c78f0b97c8e9ae82ae43d3",
            "4883640effc1c0bf",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7\
             b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        ];
        for (name, blocks) in [("plain", plain), ("Huffman", coded)] {
            let mut reader = Reader { bytes_max: 256, ..Reader::default() };
            for (block, (status, table)) in blocks.iter().zip([(302, 222), (307, 222), (200, 215)])
            {
                assert_eq!(http(&mut reader, block), Ok(Some(status)), "{name}");
                assert_eq!(reader.bytes, table, "{name}: the table after {status}");
            }
        }
    }

    #[test]
    fn a_status_is_read_in_every_form() {
        let rows: [(&str, &str, Result<Option<u16>, HpackError>); 12] = [
            ("indexed", "88", Ok(Some(200))),
            ("a literal, its name indexed", "0803343136", Ok(Some(416))),
            ("never to be kept", "1803343136", Ok(Some(416))),
            ("its name spelled", "00073a7374617475730332 3031", Ok(Some(201))),
            ("behind another field", "0f0d0131 88", Ok(Some(200))),
            ("kept, and then from the table", "4803343136 ", Ok(Some(416))),
            ("none", "0f0d0131", Ok(None)),
            ("twice", "8888", Err(HpackError)),
            ("no number", "0803343178", Err(HpackError)),
            ("an index beyond the table", "be", Err(HpackError)),
            ("index 0", "80", Err(HpackError)),
            ("cut short", "080334", Err(HpackError)),
        ];
        for (name, block, want) in rows {
            assert_eq!(http(&mut Reader::default(), block), want, "{name}");
        }
        let mut reader = Reader::default();
        assert_eq!(http(&mut reader, "4803343136"), Ok(Some(416)));
        assert_eq!(http(&mut reader, "be"), Ok(Some(416)), "from the table");
        assert_eq!(http(&mut reader, "2088"), Ok(Some(200)), "the table is emptied");
        assert_eq!(http(&mut reader, "be"), Err(HpackError), "so it is not there any more");
    }

    #[test]
    fn long_numbers_are_written_as_they_are_read() {
        for number in [0, 1, 126, 127, 128, 254, 255, 300, 20_000] {
            let mut block = Vec::new();
            write_number(&mut block, number, 7);
            assert_eq!(read_number(&mut &block[..], 7), Ok(number));
        }
    }
}
