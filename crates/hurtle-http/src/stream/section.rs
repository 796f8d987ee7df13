//! Collects the decoded fields of requests, responses and trailers, and checks their form (RFC 9113
//! sections 8.1 to 8.3, RFC 9114 sections 4.1 to 4.3) and size.

use super::fields::{
    AUTHORITY, FieldSection, LENGTHS_BYTES, METHOD, PATH, PROTOCOL, SCHEME, STATUS,
};
use crate::compression::{Class, Decoded, FIELD_OVERHEAD_BYTES};
use crate::semantics::priority::Priority;

/// Initial capacity of a section in bytes; most requests fit.
const SECTION_BYTES: usize = 768;

/// The result of reading a field block.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) fields: FieldSection,
    pub(crate) fault: Option<Fault>,
    pub(crate) content_length: Option<u64>,
    pub(crate) priority: Option<Priority>,
}

/// The reason for rejecting a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Malformed (RFC 9113 section 8.1.1).
    Malformed,
    /// Larger than the limit (section 10.5.1).
    TooLarge,
}

/// The purpose of reading a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// `connect_protocol`: `:protocol` is allowed (RFC 8441 section 3).
    Request {
        connect_protocol: bool,
    },
    Response,
    Trailers,
    /// Updating the compression tables only.
    Tables,
}

/// Reads a block of `block_len` bytes. `next_field` appends the next field's name and value to its
/// buffer, if `true`; `None` at the end. `list_bytes_max`: maximum size, counted as for
/// SETTINGS_MAX_HEADER_LIST_SIZE.
///
/// # Errors
/// The errors of `next_field`.
pub(crate) fn read<E>(
    mut next_field: impl FnMut(&mut Vec<u8>, bool) -> Result<Option<Decoded>, E>,
    block_len: usize,
    purpose: Purpose,
    list_bytes_max: usize,
) -> Result<Section, E> {
    let is_wanted = purpose != Purpose::Tables;
    let mut reader = Reader {
        section: Section {
            fields: FieldSection::default(),
            fault: None,
            content_length: None,
            priority: None,
        },
        purpose,
        list_bytes_left: list_bytes_max,
        cookie: None,
        crumbs: Vec::new(),
    };
    if is_wanted {
        reader.section.fields.bytes.reserve(SECTION_BYTES.max(block_len));
    }
    loop {
        let is_wanted = is_wanted && reader.section.fault.is_none();
        let bytes = &mut reader.section.fields.bytes;
        let begin = bytes.len();
        bytes.extend_from_slice(&[0; LENGTHS_BYTES]);
        let Some(field) = next_field(bytes, is_wanted)? else {
            bytes.truncate(begin);
            break;
        };
        if is_wanted {
            reader.field(begin, field);
        } else {
            bytes.truncate(begin);
        }
    }
    Ok(reader.finish())
}

struct Reader {
    section: Section,
    purpose: Purpose,
    list_bytes_left: usize,
    /// The offset of the cookie's field; `true` if it is the last field so far.
    cookie: Option<(usize, bool)>,
    /// Cookies that do not directly follow the first.
    crumbs: Vec<u8>,
}

impl Reader {
    /// Handles the field that was just appended. Its lengths are still to be written at `begin`.
    fn field(&mut self, begin: usize, field: Decoded) {
        let Decoded { name_len, value_len, verdict } = field;
        let cost = name_len + value_len + FIELD_OVERHEAD_BYTES;
        match self.list_bytes_left.checked_sub(cost) {
            Some(left) => self.list_bytes_left = left,
            None => return self.fail(Fault::TooLarge, begin),
        }
        let value_at = begin + LENGTHS_BYTES + name_len;
        let fields = &mut self.section.fields;
        let value = &fields.bytes[value_at..];
        let mut is_valid = verdict.is_value_valid;
        let which = match verdict.class {
            Class::Method => Some(METHOD),
            Class::Scheme => Some(SCHEME),
            Class::Authority => Some(AUTHORITY),
            Class::Path => Some(PATH),
            Class::Protocol => Some(PROTOCOL),
            Class::Status => {
                is_valid &= is_status(value);
                Some(STATUS)
            }
            Class::Regular => None,
            Class::UnknownPseudo | Class::Connection | Class::Invalid => {
                return self.fail(Fault::Malformed, begin);
            }
            // RFC 9113 section 8.2.2.
            Class::Te => {
                is_valid &= value.eq_ignore_ascii_case(b"trailers");
                None
            }
            Class::Cookie if is_valid => return self.cookie(begin, value_at),
            Class::Cookie => None,
            Class::ContentLength => {
                let length = decimal(value);
                is_valid &= length.is_some() && self.section.content_length.is_none();
                self.section.content_length = length;
                None
            }
            Class::Priority => {
                self.section.priority = Some(Priority::read(value));
                None
            }
        };
        if !is_valid {
            return self.fail(Fault::Malformed, begin);
        }
        match which {
            Some(which) => self.pseudo(which, begin, value_at),
            None => {
                if let Some((_, is_last)) = &mut self.cookie {
                    *is_last = false;
                }
                set_lengths(&mut fields.bytes, begin, name_len, value_len);
            }
        }
    }

    /// Stores a pseudo-field's value. Pseudo-fields precede all others, occur once, and are not
    /// allowed in trailers (section 8.3).
    fn pseudo(&mut self, which: usize, begin: usize, value_at: usize) {
        let fields = &mut self.section.fields;
        let is_first = begin == fields.begin as usize;
        let is_allowed = match self.purpose {
            Purpose::Request { connect_protocol } => {
                which != STATUS && (connect_protocol || which != PROTOCOL)
            }
            Purpose::Response => which == STATUS,
            Purpose::Trailers | Purpose::Tables => false,
        };
        if !is_allowed || !is_first || fields.pseudo[which].is_some() {
            return self.fail(Fault::Malformed, begin);
        }
        let len = fields.bytes.len() - value_at;
        fields.bytes.copy_within(value_at.., begin);
        fields.bytes.truncate(begin + len);
        fields.pseudo[which] = Some((begin as u32, len as u32));
        fields.begin = fields.bytes.len() as u32;
    }

    /// Joins cookies (section 8.2.3).
    fn cookie(&mut self, begin: usize, value_at: usize) {
        let bytes = &mut self.section.fields.bytes;
        match self.cookie {
            None => {
                let (name_len, value_len) =
                    (value_at - begin - LENGTHS_BYTES, bytes.len() - value_at);
                set_lengths(bytes, begin, name_len, value_len);
                self.cookie = Some((begin, true));
            }
            Some((first, true)) => {
                // The separator replaces the lengths and the name.
                bytes[begin..begin + 2].copy_from_slice(b"; ");
                bytes.copy_within(value_at.., begin + 2);
                bytes.truncate(bytes.len() + 2 + begin - value_at);
                let value_len = bytes.len() - first - LENGTHS_BYTES - COOKIE.len();
                set_lengths(bytes, first, COOKIE.len(), value_len);
            }
            Some((_, false)) => {
                self.crumbs.extend_from_slice(b"; ");
                self.crumbs.extend_from_slice(&bytes[value_at..]);
                bytes.truncate(begin);
            }
        }
    }

    fn fail(&mut self, fault: Fault, begin: usize) {
        self.section.fault = Some(fault);
        self.section.fields.bytes.truncate(begin);
    }

    fn finish(mut self) -> Section {
        if let (Some((begin, _)), false) = (self.cookie, self.crumbs.is_empty()) {
            let bytes = &mut self.section.fields.bytes;
            let lengths = begin + 4..begin + LENGTHS_BYTES;
            let len = bytes[lengths].first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
            let value_len = len as usize + self.crumbs.len();
            let end = begin + LENGTHS_BYTES + COOKIE.len() + len as usize;
            set_lengths(bytes, begin, COOKIE.len(), value_len);
            bytes.splice(end..end, self.crumbs);
        }
        let is_complete = match self.purpose {
            Purpose::Request { .. } => is_request_line(&self.section.fields),
            Purpose::Response => self.section.fields.pseudo[STATUS].is_some(),
            Purpose::Trailers | Purpose::Tables => true,
        };
        if self.section.fault.is_none() && !is_complete {
            self.section.fault = Some(Fault::Malformed);
        }
        self.section
    }
}

const COOKIE: &[u8] = b"cookie";

fn set_lengths(bytes: &mut [u8], begin: usize, name_len: usize, value_len: usize) {
    bytes[begin..begin + 4].copy_from_slice(&(name_len as u32).to_le_bytes());
    bytes[begin + 4..begin + LENGTHS_BYTES].copy_from_slice(&(value_len as u32).to_le_bytes());
}

/// Returns `true` if the pseudo-fields are those of a request (RFC 9113 sections 8.3.1 and 8.5, RFC
/// 9114 sections 4.3.1 and 4.4, RFC 8441 section 4).
fn is_request_line(fields: &FieldSection) -> bool {
    let [method, scheme, authority, path, protocol, _] = fields.pseudo.map(|span| span.is_some());
    if fields.method() == b"CONNECT" && !protocol {
        return authority && !scheme && !path;
    }
    let is_extended = fields.method() == b"CONNECT" && authority;
    if protocol && !(is_extended && fields.protocol().is_some_and(is_token)) {
        return false;
    }
    let is_path = matches!(fields.path(), [b'/', ..] | b"*");
    method && is_token(fields.method()) && scheme && is_scheme(fields.scheme()) && path && is_path
}

/// Tests for a status code (RFC 9110 section 15): three digits of a known class.
fn is_status(text: &[u8]) -> bool {
    matches!(text, [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9'])
}

/// Tests for a token (RFC 9110 section 5.6.2).
fn is_token(text: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_token)
}

/// Tests for a URI scheme (RFC 3986 section 3.1).
fn is_scheme(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(is_part)
}

/// Parses Content-Length (RFC 9110 section 8.6).
fn decimal(text: &[u8]) -> Option<u64> {
    let digit = |value: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, digit) }
}
