//! The request target (RFC 9112 section 3.2) and its decoded path. `h1` limits its length. The
//! caller maps paths to files and handles symbolic links.

use std::borrow::Cow;
use std::{fmt, mem, ptr};

use super::host::{self, Host};
use super::set::ByteSet;

/// A request target in one of its four forms. Paths and queries are percent-encoded, as sent. A
/// path begins with `/`; a query lacks its `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`: the usual form.
    Origin {
        /// The path, percent-encoded.
        path: &'a [u8],
        /// The part after the first `?`, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `http://host/path?query`: sent to proxies. Its authority overrides Host.
    Absolute {
        /// `http` or `https`, in any case.
        scheme: &'a [u8],
        /// The authority, checked by [`host::parse`]; never empty.
        authority: &'a [u8],
        /// The path, percent-encoded; `/` if none was sent.
        path: &'a [u8],
        /// The part after the first `?`, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `*`: the server as a whole.
    Asterisk,
    /// `host:port`: the destination of a tunnel, checked by [`host::parse`]. A CONNECT with a path
    /// also gets this form, so that its method is refused (405), not its target.
    Authority(&'a [u8]),
}

impl<'a> Target<'a> {
    /// Returns the path and the query, if the target has them.
    pub fn path_and_query(&self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        match self {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => {
                Some((path, *query))
            }
            Target::Asterisk | Target::Authority(_) => None,
        }
    }
}

/// A malformed target; the status is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// The target is empty.
    Empty,
    /// The target has none of the four forms.
    Form,
    /// `*` with a method other than OPTIONS.
    Asterisk,
    /// An absolute form with a scheme other than http and https.
    Scheme,
    /// User information before the host.
    Userinfo,
    /// The host or port is malformed, or missing where it is required.
    Authority,
    /// A fragment, which clients must not send.
    Fragment,
    /// A space, a control character, or a byte beyond ASCII, which [`encode_beyond_ascii`] encodes.
    Byte(u8),
    /// `%` in the path is not followed by two hexadecimal digits.
    Escape,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::Empty => f.write_str("the target is empty"),
            TargetError::Form => f.write_str("the target is neither a path nor an http URL"),
            TargetError::Asterisk => f.write_str("the target '*' is for OPTIONS only"),
            TargetError::Scheme => f.write_str("the target's scheme is neither http nor https"),
            TargetError::Userinfo => f.write_str("the target holds user information"),
            TargetError::Authority => f.write_str("the target's host or port is malformed"),
            TargetError::Fragment => f.write_str("the target holds a fragment"),
            TargetError::Byte(byte) => {
                write!(f, "the target holds the byte '{}'", byte.escape_ascii())
            }
            TargetError::Escape => {
                f.write_str("the target's path holds a malformed percent-escape")
            }
        }
    }
}

impl std::error::Error for TargetError {}

/// A path that cannot be decoded safely; the status is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// `%` is not followed by two hexadecimal digits.
    Escape,
    /// The path has more `..` than segments before them.
    AboveRoot,
    /// A NUL byte, which ends a file name for some programs.
    Nul,
    /// `%2F`: no file name can hold a slash, and programs disagree on whether it separates
    /// segments.
    EncodedSlash,
    /// NUL, `.` or `/` in more bytes than UTF-8 allows. Lax decoders accept these.
    Overlong,
    /// `\\` or `;`, with which servers read another path.
    Ambiguous,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathError::Escape => "the path holds a malformed percent-escape",
            PathError::AboveRoot => "the path leads above the root",
            PathError::Nul => "the path holds a NUL",
            PathError::EncodedSlash => "the path holds an encoded slash",
            PathError::Overlong => "the path holds an overlong encoding",
            PathError::Ambiguous => "servers would read the path differently",
        })
    }
}

impl std::error::Error for PathError {}

/// Parses the target of a request (RFC 9112 section 3.2). Methods are case-sensitive.
///
/// More lenient than RFC 3986 in one point: printable bytes that a URL should encode are literal.
/// Browsers send some of them, such as quotes, angle brackets, braces and backslashes.
///
/// # Errors
/// [`TargetError`] names the defect.
pub fn parse<'a>(method: &[u8], raw: &'a [u8]) -> Result<Target<'a>, TargetError> {
    // RFC 9112 section 3.2.3: CONNECT uses the authority-form, and no other method does. A path is
    // accepted, so that the method is refused (405), not the form of its target.
    if method == b"CONNECT" {
        return match raw {
            [b'/', ..] => parse(b"GET", raw).map(|_| Target::Authority(raw)),
            _ => parse_authority_form(raw),
        };
    }
    match raw {
        [b'/', ..] if LITERAL.span(raw) == raw.len() => {
            Ok(Target::Origin { path: raw, query: None })
        }
        [b'/', ..] => {
            let (path, query) = split_query(raw);
            check_path(path)?;
            check_query(query)?;
            Ok(Target::Origin { path, query })
        }
        // RFC 9112 section 3.2.4: only OPTIONS uses the asterisk-form.
        b"*" if method == b"OPTIONS" => Ok(Target::Asterisk),
        b"*" => Err(TargetError::Asterisk),
        [] => Err(TargetError::Empty),
        _ => parse_absolute_form(raw),
    }
}

/// Clears `out` and writes the decoded path of a target. It decodes percent-escapes once, then
/// merges runs of slashes, then removes dot segments, encoded ones too (RFC 3986 section 5.2.4).
///
/// The result begins with `/`. It ends with `/` if the path names a directory by a trailing slash,
/// `.` or `..`. It holds no NUL, no `.` or `..` segment and no empty segment.
///
/// # Errors
/// [`PathError`] names the defect; the content of `out` is then unspecified.
pub fn decode(path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    decode_as(path, None, out)
}

/// Decodes a path like [`decode`], but borrows it if decoding would not change it.
///
/// # Errors
/// See [`decode`].
pub fn decoded(path: &[u8]) -> Result<Cow<'_, [u8]>, PathError> {
    if is_canonical(path) {
        return Ok(Cow::Borrowed(path));
    }
    let mut out = Vec::new();
    decode(path, &mut out)?;
    Ok(Cow::Owned(out))
}

/// True if decoding would neither change nor refuse the path, as for most paths.
fn is_canonical(path: &[u8]) -> bool {
    let mut before = b'/';
    let Some((b'/', rest)) = path.split_first() else { return false };
    rest.iter().all(|&byte| {
        let begins_segment = mem::replace(&mut before, byte) == b'/';
        byte.is_ascii()
            && !matches!(byte, b'%' | 0)
            && !(begins_segment && matches!(byte, b'/' | b'.'))
    })
}

/// Stands for an encoded slash within a segment of a decoded path. No other decoded path holds this
/// byte. [`encode_path`] writes it as `%2F`.
pub const ENCODED_SLASH: u8 = 0;

/// Decodes a path like [`decode`], but replaces an encoded slash with [`ENCODED_SLASH`]. Use it for
/// paths that are forwarded; no file has such a name.
///
/// # Errors
/// See [`decode`].
pub fn decode_keeping_slashes(path: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    decode_as(path, Some(ENCODED_SLASH), out)
}

/// Replaces the encoded slashes of an encoded path with slashes.
pub fn with_plain_slashes(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        let is_slash = byte == b'%' && unhex(after) == Some(b'/');
        out.push(if is_slash { b'/' } else { byte });
        rest = if is_slash { &after[2..] } else { after };
    }
    out
}

/// Converts a path from [`decode_keeping_slashes`] to one whose encoded slashes separate segments.
/// The result begins with `/`; dot segments that this creates are removed.
///
/// # Errors
/// [`PathError::AboveRoot`] and [`PathError::Overlong`], which can appear only now.
pub fn separate_slashes(kept: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut out = Vec::new();
    decode(&with_plain_slashes(encode_path(kept).as_bytes()), &mut out)?;
    Ok(out)
}

/// True if `sent` is a spelling of `decoded` (from [`decode_keeping_slashes`]) without dot
/// segments: it differs only in percent-escapes, in bytes that a URL should encode, and in runs of
/// slashes. False for a raw backslash, which some servers read as a slash.
pub fn is_spelling_of(sent: &[u8], decoded: &[u8]) -> bool {
    // Most paths need no escape.
    if sent == decoded {
        return PATH.span(sent) == sent.len();
    }
    let (mut sent, mut decoded) = (sent, decoded.iter());
    let mut is_after_slash = false;
    while let Some((&first, after)) = sent.split_first() {
        let is_slash = first == b'/';
        let byte = match (first, unhex(after)) {
            (b'%', Some(b'/')) => ENCODED_SLASH,
            (b'%', Some(byte)) => byte,
            // A raw `?` would begin a query, a raw `#` a fragment.
            (b'%' | b'\\' | b'?' | b'#', _) => return false,
            _ if is_printable(&first) => first,
            _ => return false,
        };
        sent = if first == b'%' { &after[2..] } else { after };
        if is_slash && mem::replace(&mut is_after_slash, true) {
            continue;
        }
        is_after_slash = is_slash;
        if decoded.next() != Some(&byte) {
            return false;
        }
    }
    decoded.next().is_none()
}

/// Returns a decoded path as servers read it that take `\\` for `/` and ignore parameters of
/// segments (`/a;x=1/b` is `/a/b`), such as Tomcat. `Ok(None)`: they read it alike.
///
/// # Errors
/// They would find a dot segment, or another path than each other: those that take parameters off
/// first read a `\\` behind `;` as a part of the parameter.
pub fn read_leniently(decoded: &[u8]) -> Result<Option<Vec<u8>>, PathError> {
    if !decoded.iter().any(|byte| matches!(byte, b';' | b'\\')) {
        return Ok(None);
    }
    let is_split = |segment: &[u8]| {
        let parameters = segment.iter().skip_while(|byte| **byte != b';');
        parameters.copied().any(|byte| matches!(byte, b'\\' | ENCODED_SLASH))
    };
    if decoded.split(|byte| *byte == b'/').any(is_split) {
        return Err(PathError::Ambiguous);
    }
    let mut out = Vec::with_capacity(decoded.len());
    for segment in decoded.split(|byte| matches!(byte, b'/' | b'\\' | &ENCODED_SLASH)) {
        let name = segment.split(|&byte| byte == b';').next().unwrap_or(segment);
        match name {
            b"" => {}
            b"." | b".." => return Err(PathError::Ambiguous),
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if out.is_empty() || decoded.ends_with(b"/") {
        out.push(b'/');
    }
    Ok(Some(out))
}

/// Returns the index in `sent` of the slash before `rest`, the decoded end of the path. `None` if
/// [`encode_path`] would encode it differently.
pub fn find_encoded(sent: &[u8], rest: &[u8]) -> Option<usize> {
    let start = sent.len().checked_sub(rest.len() + 1)?;
    let tail = &sent[start + 1..];
    // Fast path: usually both are the same bytes.
    let same = sent[start] == b'/' && (ptr::eq(tail, rest) || tail == rest);
    let plain = rest.first() != Some(&b'/') && rest.iter().all(|&byte| is_path_byte(byte));
    (same && plain).then_some(start)
}

fn decode_as(path: &[u8], slash: Option<u8>, out: &mut Vec<u8>) -> Result<(), PathError> {
    out.clear();
    out.reserve(path.len() + 1);
    out.push(b'/');
    let mut is_directory = true;
    for segment in path.split(|&byte| byte == b'/') {
        // Here `out` always ends with a slash.
        let start = out.len();
        decode_segment(segment, slash, out)?;
        is_directory = true;
        match &out[start..] {
            b"" => {}
            b"." => out.truncate(start),
            b".." => {
                let parent = out[..start - 1].iter().rposition(|&byte| byte == b'/');
                out.truncate(parent.ok_or(PathError::AboveRoot)? + 1);
            }
            name if holds_overlong(name) => return Err(PathError::Overlong),
            _ => {
                out.push(b'/');
                is_directory = false;
            }
        }
    }
    if !is_directory {
        out.pop();
    }
    Ok(())
}

/// Encodes a decoded path for Location and links. Unreserved bytes, sub-delims, `:`, `@` and `/`
/// are literal (RFC 3986 section 3.3). A run of slashes at the front becomes one, since `//` would
/// begin a host.
///
/// Put `./` before a relative name, which may hold a colon. Escape the result for HTML: it may hold
/// `&` and `'`.
pub fn encode_path(decoded: &[u8]) -> Cow<'_, str> {
    let slashes = decoded.iter().take_while(|&&byte| byte == b'/').count();
    let path = &decoded[slashes.saturating_sub(1)..];
    if PATH.span(path) == path.len()
        && let Ok(path) = std::str::from_utf8(path)
    {
        return Cow::Borrowed(path);
    }
    let mut out = String::with_capacity(path.len());
    for &byte in path {
        if is_path_byte(byte) {
            out.push(char::from(byte));
        } else if byte == ENCODED_SLASH {
            out.push_str("%2F");
        } else {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend(['%', char::from(digits[0]), char::from(digits[1])]);
        }
    }
    Cow::Owned(out)
}

/// Percent-encodes the bytes beyond ASCII of a target. Some clients send them raw, and other
/// servers take them; RFC 3986 has no place for them.
pub fn encode_beyond_ascii(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() * 3);
    for &byte in raw {
        match byte.is_ascii() {
            true => out.push(byte),
            false => out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
    out
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn parse_authority_form(raw: &[u8]) -> Result<Target<'_>, TargetError> {
    if raw.is_empty() {
        return Err(TargetError::Empty);
    }
    // RFC 9110 section 9.3.6: a CONNECT to an empty or invalid port must be rejected.
    match check_authority(raw)?.port {
        None | Some(0) => Err(TargetError::Authority),
        Some(_) => Ok(Target::Authority(raw)),
    }
}

fn parse_absolute_form(raw: &[u8]) -> Result<Target<'_>, TargetError> {
    let colon = raw.iter().position(|&byte| byte == b':').ok_or(TargetError::Form)?;
    let (scheme, rest) = raw.split_at(colon);
    let rest = rest.strip_prefix(b"://").ok_or(TargetError::Form)?;
    // RFC 3986 section 3.1: schemes are case-insensitive.
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return Err(TargetError::Scheme);
    }
    let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    check_authority(authority)?;
    let (path, query) = split_query(rest);
    check_path(path)?;
    check_query(query)?;
    // RFC 9110 section 4.2.3: an empty path means `/`.
    let path = if path.is_empty() { b"/" } else { path };
    Ok(Target::Absolute { scheme, authority, path, query })
}

fn check_authority(authority: &[u8]) -> Result<Host<'_>, TargetError> {
    // RFC 9110 section 4.2.4: userinfo from an untrusted source is an error.
    if authority.contains(&b'@') {
        return Err(TargetError::Userinfo);
    }
    // `host::parse` ignores whitespace around a field; a target must not contain any.
    if !authority.iter().all(is_printable) {
        return Err(TargetError::Authority);
    }
    // RFC 9110 section 4.2.1: a URL without a host is an error.
    let host = host::parse(authority).map_err(|_| TargetError::Authority)?;
    if host.name.is_empty() { Err(TargetError::Authority) } else { Ok(host) }
}

fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

fn check_path(path: &[u8]) -> Result<(), TargetError> {
    check_bytes(path)?;
    let mut rest = path;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        rest = &rest[at + 1..];
        if unhex(rest).is_none() {
            return Err(TargetError::Escape);
        }
    }
    Ok(())
}

/// Percent-escapes in queries are not checked: the application decodes them, and many clients send
/// a bare `%`.
fn check_query(query: Option<&[u8]>) -> Result<(), TargetError> {
    query.map_or(Ok(()), check_bytes)
}

fn check_bytes(part: &[u8]) -> Result<(), TargetError> {
    match part.get(PART.span(part)) {
        None => Ok(()),
        Some(b'#') => Err(TargetError::Fragment),
        Some(&byte) => Err(TargetError::Byte(byte)),
    }
}

/// Bytes allowed in a path and in a query.
static PART: ByteSet = ByteSet::printable_but(b"#");

/// Bytes of a path that need no decoding and do not end it.
static LITERAL: ByteSet = ByteSet::printable_but(b"#%?");

fn is_printable(byte: &u8) -> bool {
    matches!(byte, 0x21..=0x7e)
}

/// `pchar` without escapes, and `/` (RFC 3986 section 3.3).
static PATH: ByteSet = ByteSet::alphanumeric_and(b"/-._~!$&'()*+,;=:@");

fn is_path_byte(byte: u8) -> bool {
    PATH.holds(byte)
}

/// Decodes two hexadecimal digits at the front of `text`.
fn unhex(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// Appends one decoded segment.
fn decode_segment(segment: &[u8], slash: Option<u8>, out: &mut Vec<u8>) -> Result<(), PathError> {
    let mut rest = segment;
    while let Some(at) = rest.iter().position(|&byte| matches!(byte, b'%' | 0)) {
        out.extend_from_slice(&rest[..at]);
        if rest[at] == 0 {
            return Err(PathError::Nul);
        }
        match unhex(&rest[at + 1..]).ok_or(PathError::Escape)? {
            0 => return Err(PathError::Nul),
            b'/' => out.push(slash.ok_or(PathError::EncodedSlash)?),
            byte => out.push(byte),
        }
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// True if a name holds NUL, `.` or `/` encoded in two to six bytes. Other names that are not UTF-8
/// are allowed: a file may have such a name.
fn holds_overlong(name: &[u8]) -> bool {
    if name.is_ascii() {
        return false;
    }
    const PREFIXES: [&[u8]; 5] = [
        &[0xc0],
        &[0xe0, 0x80],
        &[0xf0, 0x80, 0x80],
        &[0xf8, 0x80, 0x80, 0x80],
        &[0xfc, 0x80, 0x80, 0x80, 0x80],
    ];
    (0..name.len()).any(|at| {
        matches!(name[at], 0x80 | 0xae | 0xaf)
            && PREFIXES.iter().any(|prefix| name[..at].ends_with(prefix))
    })
}

/// Appends `?` and the query of a request to a redirect's location. The query was checked with the
/// target: it holds no space and no control character.
pub fn append_query(location: &mut String, query: Option<&[u8]>) {
    if let Some(query) = query {
        location.push('?');
        location.push_str(&String::from_utf8_lossy(query));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn origin<'a>(path: &'a str, query: Option<&'a str>) -> Target<'a> {
        Target::Origin { path: path.as_bytes(), query: query.map(str::as_bytes) }
    }

    #[test]
    fn paths_and_queries() {
        let rows = [
            ("the root", "/", origin("/", None)),
            ("a path", "/a/b.html", origin("/a/b.html", None)),
            ("a path and a query", "/a?b=c", origin("/a", Some("b=c"))),
            ("an empty query is one", "/a?", origin("/a", Some(""))),
            ("a second question mark is the query's", "/a?b?c", origin("/a", Some("b?c"))),
            ("escapes stay", "/%41?%42", origin("/%41", Some("%42"))),
            ("a bad escape in a query", "/?100%&%zz", origin("/", Some("100%&%zz"))),
            ("two slashes begin a path, not a host", "//evil/", origin("//evil/", None)),
            ("bytes that browsers send raw", "/\"<>|{}^`[]\\", origin("/\"<>|{}^`[]\\", None)),
            ("and in a query", "/?q=\"<>|{}^`[]\\", origin("/", Some("q=\"<>|{}^`[]\\"))),
            ("a colon", "/a:b@c", origin("/a:b@c", None)),
            ("a URL in a path", "/http://x/", origin("/http://x/", None)),
        ];
        for (why, raw, expected) in rows {
            assert_eq!(parse(b"GET", raw.as_bytes()), Ok(expected), "{why}: {raw}");
        }
    }

    #[test]
    fn other_forms() {
        fn absolute<'a>(
            scheme: &'a str,
            authority: &'a str,
            path: &'a str,
            query: Option<&'a str>,
        ) -> Target<'a> {
            Target::Absolute {
                scheme: scheme.as_bytes(),
                authority: authority.as_bytes(),
                path: path.as_bytes(),
                query: query.map(str::as_bytes),
            }
        }
        let rows = [
            ("a URL", "GET", "http://a/b?c", absolute("http", "a", "/b", Some("c"))),
            ("with a port", "GET", "http://a:8080/", absolute("http", "a:8080", "/", None)),
            ("https", "PUT", "https://a/", absolute("https", "a", "/", None)),
            ("in capitals", "GET", "HTTP://A/", absolute("HTTP", "A", "/", None)),
            ("IPv6", "GET", "http://[::1]:80/", absolute("http", "[::1]:80", "/", None)),
            ("no path", "GET", "http://a", absolute("http", "a", "/", None)),
            ("a query without a path", "GET", "http://a?b", absolute("http", "a", "/", Some("b"))),
            ("a path of slashes", "GET", "http://a//b", absolute("http", "a", "//b", None)),
            ("an @ in the path", "GET", "http://a/b@c", absolute("http", "a", "/b@c", None)),
            ("the server itself", "OPTIONS", "*", Target::Asterisk),
            ("OPTIONS of a path", "OPTIONS", "/a", origin("/a", None)),
            ("a tunnel", "CONNECT", "a:443", Target::Authority(b"a:443")),
            ("a tunnel to IPv6", "CONNECT", "[::1]:443", Target::Authority(b"[::1]:443")),
            ("CONNECT to a path", "CONNECT", "/a?b", Target::Authority(b"/a?b")),
        ];
        for (why, method, raw, expected) in rows {
            let parsed = parse(method.as_bytes(), raw.as_bytes());
            assert_eq!(parsed, Ok(expected), "{why}: {method} {raw}");
        }
    }

    #[test]
    fn refused_targets() {
        use TargetError::*;
        let rows: &[(&str, &str, &[u8], TargetError)] = &[
            ("nothing", "GET", b"", Empty),
            ("nothing to connect to", "CONNECT", b"", Empty),
            ("no slash", "GET", b"a/b", Form),
            ("a query alone", "GET", b"?a", Form),
            ("an authority for GET", "GET", b"example.org:80", Form),
            ("an asterisk for GET", "GET", b"*", Asterisk),
            ("an asterisk for a lower-case method", "options", b"*", Asterisk),
            ("an asterisk and more", "OPTIONS", b"*/", Form),
            ("another scheme", "GET", b"ftp://a/", Scheme),
            ("a scheme with one slash", "GET", b"http:/a/", Form),
            ("userinfo", "GET", b"http://u@a/", Userinfo),
            ("userinfo with a password", "GET", b"http://u:p@a/", Userinfo),
            ("an empty host", "GET", b"http:///a", Authority),
            ("a port without a host", "GET", b"http://:80/", Authority),
            ("a bad port", "GET", b"http://a:99999/", Authority),
            ("a backslash in the host", "GET", b"http://a\\b/", Authority),
            ("whitespace before the host", "GET", b"http:// a/", Authority),
            ("a fragment", "GET", b"/a#b", Fragment),
            ("a fragment in a query", "GET", b"/a?b#c", Fragment),
            ("a fragment after a host", "GET", b"http://a#b", Fragment),
            ("a space", "GET", b"/a b", Byte(b' ')),
            ("a tab in a query", "GET", b"/?a\tb", Byte(b'\t')),
            ("a NUL", "GET", b"/\0", Byte(0)),
            ("a line break", "GET", b"/a\r", Byte(b'\r')),
            ("DEL", "GET", b"/\x7f", Byte(0x7f)),
            ("raw UTF-8", "GET", b"/\xc3\xa9", Byte(0xc3)),
            ("raw Latin-1 in a query", "GET", b"/?\xe9", Byte(0xe9)),
            ("an escape cut short", "GET", b"/a%4", Escape),
            ("a bare percent", "GET", b"/100%", Escape),
            ("an escape that is none", "GET", b"/%zz", Escape),
            ("an escape with a sign", "GET", b"/%+1", Escape),
            ("an escape into the query", "GET", b"/%4?1", Escape),
            ("CONNECT without a port", "CONNECT", b"example.org", Authority),
            ("CONNECT with an empty port", "CONNECT", b"example.org:", Authority),
            ("CONNECT to port 0", "CONNECT", b"example.org:0", Authority),
            ("CONNECT to a malformed path", "CONNECT", b"/%zz", Escape),
            ("CONNECT to a URL", "CONNECT", b"http://a/", Authority),
            ("CONNECT with userinfo", "CONNECT", b"u@a:1", Userinfo),
            ("CONNECT with a tab", "CONNECT", b"\ta:1", Authority),
            ("CONNECT to the server itself", "CONNECT", b"*", Authority),
        ];
        for (why, method, raw, expected) in rows {
            let parsed = parse(method.as_bytes(), raw);
            assert_eq!(parsed, Err(*expected), "{why}: {method} {}", raw.escape_ascii());
        }
    }

    #[test]
    fn decoded_paths() {
        use PathError::*;
        type Row<'a> = (&'a str, &'a str, Result<&'a [u8], PathError>);
        let rows: &[Row<'_>] = &[
            ("the root", "/", Ok(b"/")),
            ("a file", "/a/b.txt", Ok(b"/a/b.txt")),
            ("a directory", "/a/", Ok(b"/a/")),
            ("an escape", "/a%20b", Ok(b"/a b")),
            ("either case of hexadecimal", "/%c3%A9", Ok(b"/\xc3\xa9")),
            ("a name that is not UTF-8", "/%ff%80", Ok(b"/\xff\x80")),
            ("a plus is a plus", "/a+b", Ok(b"/a+b")),
            ("an escaped percent is decoded once", "/%252e%252e/", Ok(b"/%2e%2e/")),
            ("an encoded question mark", "/a%3fb", Ok(b"/a?b")),
            ("a backslash separates nothing", "/a\\..\\b", Ok(b"/a\\..\\b")),
            ("runs of slashes", "//a///b//", Ok(b"/a/b/")),
            ("a dot segment", "/a/./b", Ok(b"/a/b")),
            ("a dot at the end", "/a/.", Ok(b"/a/")),
            ("two dots", "/a/../b", Ok(b"/b")),
            ("two dots at the end", "/a/b/..", Ok(b"/a/")),
            ("up to the root", "/a/..", Ok(b"/")),
            ("down and up again", "/a/b/../../c/", Ok(b"/c/")),
            ("slashes merge before dots count", "/a//../b", Ok(b"/b")),
            ("encoded dots", "/a/%2e%2E/b", Ok(b"/b")),
            ("half-encoded dots", "/a/.%2e/b", Ok(b"/b")),
            ("an encoded dot", "/a/%2e/b", Ok(b"/a/b")),
            ("three dots are a name", "/.../a", Ok(b"/.../a")),
            ("dots within a name", "/a..b/..c/d..", Ok(b"/a..b/..c/d..")),
            ("a path without a leading slash gets one", "a/b", Ok(b"/a/b")),
            ("an empty path", "", Ok(b"/")),
            ("above the root", "/..", Err(AboveRoot)),
            ("above the root, then down", "/../etc/passwd", Err(AboveRoot)),
            ("above the root in the middle", "/a/../../b", Err(AboveRoot)),
            ("above the root, encoded", "/%2e%2e/", Err(AboveRoot)),
            ("above the root past slashes", "//..", Err(AboveRoot)),
            ("a NUL", "/a%00.html", Err(Nul)),
            ("a raw NUL", "/a\0", Err(Nul)),
            ("an encoded slash", "/a%2fb", Err(EncodedSlash)),
            ("an encoded slash that would climb", "/..%2F..%2Fetc", Err(EncodedSlash)),
            ("an overlong slash", "/..%c0%af..", Err(Overlong)),
            ("overlong dots", "/%c0%ae%c0%ae/", Err(Overlong)),
            ("an overlong NUL", "/a%c0%80", Err(Overlong)),
            ("an overlong slash of three bytes", "/a%e0%80%afb", Err(Overlong)),
            ("an overlong slash of four bytes", "/a%f0%80%80%af", Err(Overlong)),
            ("a sound sequence that resembles one", "/%e0%a0%80", Ok(b"/\xe0\xa0\x80")),
            ("an escape cut short", "/a%4", Err(Escape)),
            ("a bare percent", "/%", Err(Escape)),
            ("an escape that is none", "/%zz", Err(Escape)),
        ];
        let mut out = b"left over".to_vec();
        for (why, path, expected) in rows {
            let path = path.as_bytes();
            let read = decode(path, &mut out).map(|()| out.as_slice());
            assert_eq!(read, *expected, "{why}: {}", path.escape_ascii());
            assert_eq!(decoded(path).as_deref(), expected.as_ref().map(|e| &**e), "{why}");
        }
    }

    #[test]
    fn encoded_paths() {
        let rows: &[(&str, &[u8], &str)] = &[
            ("what a path may hold", b"/aZ9-._~!$&'()*+,;=:@", "/aZ9-._~!$&'()*+,;=:@"),
            ("a space", b"/a b/", "/a%20b/"),
            ("a percent", b"/100%", "/100%25"),
            ("what would begin a query or fragment", b"/?#", "/%3F%23"),
            ("what browsers take for a slash", b"/\\evil", "/%5Cevil"),
            ("quotes and angle brackets", b"/\"<>", "/%22%3C%3E"),
            ("a line break", b"/\r\n", "/%0D%0A"),
            ("any byte", b"/\x01\xff", "/%01%FF"),
            ("an encoded slash that was kept", b"/a\0b/c", "/a%2Fb/c"),
            ("what would begin a host", b"//evil.example/", "/evil.example/"),
            ("however many slashes", b"////evil", "/evil"),
            ("slashes further on", b"/a//b", "/a//b"),
            ("a relative name", b"a b", "a%20b"),
            ("nothing", b"", ""),
        ];
        for (why, decoded, expected) in rows {
            assert_eq!(encode_path(decoded), *expected, "{why}");
        }
    }

    #[test]
    fn encoded_slashes_can_be_kept_or_made_plain() {
        let rows: &[(&str, &str, Result<&[u8], PathError>, &str)] = &[
            ("part of a name", "/a%2fb%2F", Ok(b"/a\0b\0"), "/a/b/"),
            ("none", "/a%252Fb", Ok(b"/a%2Fb"), "/a%252Fb"),
            ("dots beside it are no segment", "/a/..%2Fb", Ok(b"/a/..\0b"), "/a/../b"),
            ("a NUL is none", "/a%00", Err(PathError::Nul), "/a%00"),
        ];
        let mut out = Vec::new();
        for (why, path, kept, plain) in rows {
            let decoded = decode_keeping_slashes(path.as_bytes(), &mut out);
            assert_eq!(decoded.map(|()| out.as_slice()), *kept, "{why}");
            assert_eq!(with_plain_slashes(path.as_bytes()), plain.as_bytes(), "{why}");
        }
    }

    #[test]
    fn kept_slashes_can_be_separated_later() {
        let rows: &[(&str, &[u8], Result<&[u8], PathError>)] = &[
            ("beneath a mount", b"a\0b", Ok(b"/a/b")),
            ("at both ends", b"/a b\0", Ok(b"/a b/")),
            ("a run of them", b"http:\0\0a", Ok(b"/http:/a")),
            ("dots that were part of a name", b"/a\0..\0b", Ok(b"/b")),
            ("above the root", b"a/..\0..\0b", Err(PathError::AboveRoot)),
            ("none", b"/a/b/", Ok(b"/a/b/")),
        ];
        for (why, kept, expected) in rows {
            assert_eq!(separate_slashes(kept).as_deref(), expected.as_deref(), "{why}");
        }
    }

    #[test]
    fn spellings_of_a_path() {
        let rows: &[(&str, &str, bool)] = &[
            ("as it would be encoded here", "/a~b%20c", true),
            ("escapes that need not be", "/%61%7E%62%20%63", true),
            ("small letters", "/a%7eb%20c", true),
            ("a dot segment", "/./a~b%20c", false),
            ("an encoded one", "/x/%2e%2e/a~b%20c", false),
            ("two slashes", "//a~b%20c", true),
            ("dots between slashes", "/.//a~b%20c", false),
            ("more behind it", "/a~b%20c/", false),
            ("less", "/a~b%20", false),
            ("another path", "/a~b%20d", false),
            ("an escape of an escape", "/a~b%2520c", false),
            ("an escape cut short", "/a~b%2", false),
            ("raw", "/a~b c", false),
        ];
        for (why, sent, expected) in rows {
            assert_eq!(is_spelling_of(sent.as_bytes(), b"/a~b c"), *expected, "{why}");
        }
        assert!(is_spelling_of(b"/a%2fb", b"/a\0b"), "an encoded slash that was kept");
        assert!(!is_spelling_of(b"/a%2fb", b"/a/b"), "and one that was not");
        assert!(!is_spelling_of(b"/a%2Fb/%2e%2E%2Fc", b"/c"));
        assert!(!is_spelling_of(b"/a\\b", b"/a\\b"), "a slash for some servers");
        assert!(is_spelling_of(b"/a\"%7c|b", b"/a\"||b"), "what a URL has to encode");
        assert!(is_spelling_of(b"/p/https://h//x/", b"/p/https:/h/x/"), "a URL in the path");
        assert!(!is_spelling_of(b"/a/%2Fb", b"/a/b"), "an encoded slash is in no run");
    }

    #[test]
    fn lenient_readings_of_a_path() {
        let refused = Err(PathError::Ambiguous);
        let read = |path: &str| Ok(Some(path.as_bytes().to_vec()));
        let rows: &[(&str, &[u8], Result<Option<Vec<u8>>, PathError>)] = &[
            ("read alike", b"/a/b..c/.d", Ok(None)),
            ("parameters of a segment", b"/a;x=1/b;jsessionid=2", read("/a/b")),
            ("a directory", b"/a;x/", read("/a/")),
            ("parameters alone", b"/;x", read("/")),
            ("a backslash", b"/a\\b", read("/a/b")),
            ("dots with parameters", b"/a/..;/b", refused.clone()),
            ("one dot with parameters", b"/a/.;x=1/b", refused.clone()),
            ("dots between backslashes", b"/a\\..\\b", refused.clone()),
            ("dots behind a backslash", b"/a\\..", refused.clone()),
            ("a backslash within parameters", b"/a;x\\ b/", refused.clone()),
            ("an encoded slash within parameters", b"/a;x\0b", refused.clone()),
            ("dots with parameters behind an encoded slash", b"/a\0..;\0b", refused),
        ];
        for (why, decoded, expected) in rows {
            assert_eq!(read_leniently(decoded), *expected, "{why}");
        }
    }

    /// Generates paths mostly of bytes that a decoder treats specially.
    fn tricky_path() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"/".to_vec()),
            Just(b"..".to_vec()),
            Just(b".".to_vec()),
            Just(b"%2e".to_vec()),
            Just(b"%2F".to_vec()),
            Just(b"%25".to_vec()),
            Just(b"%c0%ae".to_vec()),
            Just(b"%00".to_vec()),
            Just(b"a".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn borrowed_paths_equal_decoded_ones(path in tricky_path()) {
            let mut out = Vec::new();
            let read = decode(&path, &mut out).map(|()| out.as_slice());
            let spared = decoded(&path);
            prop_assert_eq!(spared.as_deref(), read.as_ref().map(|read| &**read));
        }

        #[test]
        fn decoded_paths_are_clean(path in tricky_path()) {
            let mut out = Vec::new();
            if decode(&path, &mut out).is_ok() {
                prop_assert_eq!(out.first(), Some(&b'/'));
                prop_assert!(!out.contains(&0));
                let segments: Vec<_> = out[1..].split(|&byte| byte == b'/').collect();
                let (last, inner) = segments.split_last().unwrap();
                prop_assert!(inner.iter().all(|segment| !segment.is_empty()));
                let dots = |name: &&[u8]| *name == b"." || *name == b"..";
                prop_assert!(!dots(last) && !inner.iter().any(dots));
            }
        }

        #[test]
        fn an_encoding_decodes_to_the_same_path(path in tricky_path()) {
            let mut out = Vec::new();
            if decode_keeping_slashes(&path, &mut out).is_ok() {
                prop_assert!(is_spelling_of(encode_path(&out).as_bytes(), &out));
                let mut again = Vec::new();
                if is_spelling_of(&path, &out) {
                    let parsed = Target::Origin { path: &path, query: None };
                    prop_assert_eq!(parse(b"GET", &path), Ok(parsed));
                    let names = path.split(|&byte| byte == b'/');
                    prop_assert!(!names.into_iter().any(|name| matches!(name, b"." | b"..")));
                    prop_assert_eq!(decode_keeping_slashes(encode_path(&out).as_bytes(), &mut again), Ok(()));
                    prop_assert_eq!(again, out);
                }
            }
        }

        #[test]
        fn encoded_paths_decode_to_themselves(
            names in proptest::collection::vec(proptest::collection::vec(1_u8.., 1..8), 0..5),
            slash: bool,
        ) {
            let clean = names.iter().all(|name| {
                !name.contains(&b'/') && name != b"." && name != b".." && !holds_overlong(name)
            });
            prop_assume!(clean);
            let mut path = b"/".to_vec();
            path.extend(names.join(&b'/'));
            if slash && !names.is_empty() {
                path.push(b'/');
            }
            let encoded = encode_path(&path);
            prop_assert!(parse(b"GET", encoded.as_bytes()).is_ok(), "a target the server accepts");
            let mut out = Vec::new();
            decode(encoded.as_bytes(), &mut out).unwrap();
            prop_assert_eq!(out, path);
        }

        #[test]
        fn no_location_names_another_host(decoded: Vec<u8>, slashes in 0_usize..4) {
            let path = [b"/".repeat(slashes), decoded].concat();
            let encoded = encode_path(&path);
            prop_assert!(!encoded.starts_with("//") && !encoded.contains('\\'));
            prop_assert!(encoded.bytes().all(|byte| is_printable(&byte)));
        }

        #[test]
        fn parsed_targets_have_no_malformed_escape(raw in "/[ -~]{0,20}") {
            if let Ok(Target::Origin { path, .. }) = parse(b"GET", raw.as_bytes()) {
                prop_assert_ne!(decode(path, &mut Vec::new()), Err(PathError::Escape));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(raw: Vec<u8>, text in "(https?://)?[ -~]{0,30}") {
            for method in [b"GET".as_slice(), b"CONNECT", b"OPTIONS"] {
                let _ = parse(method, &raw);
                let _ = parse(method, text.as_bytes());
            }
        }
    }

    #[test]
    fn an_unencoded_rest_is_found_only_if_encoding_keeps_it() {
        for (sent, rest, start) in [
            ("/app/a/b", "a/b", Some(4)),
            ("/app/", "", Some(4)),
            ("/a", "a", Some(0)),
            ("/app", "", None),
            ("/app/a%20b", "a b", None),
            ("/app/a%2Fb", "a/b", None),
            ("/app//x", "/x", None),
            ("/app/a\"b", "a\"b", None),
        ] {
            let found = find_encoded(sent.as_bytes(), rest.as_bytes());
            assert_eq!(found, start, "{sent} {rest}");
            if let Some(start) = found {
                assert_eq!(encode_path(format!("/{rest}").as_bytes()), sent[start..]);
            }
        }
    }
}
