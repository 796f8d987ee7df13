//! Formats a log record as a line of text. Pure: no clock and no I/O; only `out` allocates.
//!
//! Every line is printable ASCII with exactly one newline at its end. So a request can neither
//! forge a line nor send control sequences to a terminal.

use std::net::IpAddr;

use http::Version;
use hurtle_http::semantics::decimal;

use super::{Details, LogRecord, UpstreamTimes};
use crate::config::{LogField, LogFormat};

/// Maximum logged length of one field, in bytes; longer ones are cut and end in `...`. With raised
/// head limits a single request could otherwise fill the log's memory.
pub const FIELD_BYTES_MAX: usize = 8 << 10;

/// Marks a cut field.
const CUT: &[u8] = b"...";

/// Width of the target in a brief line, in bytes.
const BRIEF_TARGET_WIDTH: usize = 40;

/// Appends the line of `record` to `out`. `time` is its time in the style of the format; brief
/// lines have none. `colour` colours the status of a brief line.
pub fn line(
    format: &LogFormat,
    colour: bool,
    record: &LogRecord<'_>,
    time: &[u8],
    out: &mut Vec<u8>,
) {
    match format {
        LogFormat::Combined => combined(record, time, out),
        LogFormat::Json(fields) => json(fields, record, time, out),
        LogFormat::Brief => brief(colour, record, out),
    }
    out.push(b'\n');
}

/// The combined format of nginx and Apache. An absent value is `-`, an empty body `0`.
fn combined(record: &LogRecord<'_>, time: &[u8], out: &mut Vec<u8>) {
    match record.client {
        Some(address) => client(address, out),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b" - ");
    match record.user {
        Some(name) if !name.is_empty() => word(name, out),
        _ => out.push(b'-'),
    }
    out.extend_from_slice(b" [");
    out.extend_from_slice(time);
    out.extend_from_slice(b"] \"");
    if record.method.is_empty() && record.target.is_empty() {
        out.push(b'-');
    } else {
        hex_escaped(record.method, out);
        out.push(b' ');
        hex_escaped(record.target, out);
        out.push(b' ');
        protocol(record, out);
    }
    out.extend_from_slice(b"\" ");
    decimal::number(record.status, out);
    out.push(b' ');
    decimal::number(record.body_bytes, out);
    for field in [record.referer, record.user_agent] {
        out.extend_from_slice(b" \"");
        match field {
            Some(text) => hex_escaped(text, out),
            None => out.push(b'-'),
        }
        out.push(b'"');
    }
}

/// A JSON object (RFC 8259). An absent value is `null`.
fn json(fields: &[LogField], record: &LogRecord<'_>, time: &[u8], out: &mut Vec<u8>) {
    let mut before: &[u8] = b"{\"";
    for &field in fields {
        out.extend_from_slice(before);
        before = b",\"";
        out.extend_from_slice(name(field));
        out.extend_from_slice(b"\":");
        match field {
            LogField::Time => quoted(out, |out| out.extend_from_slice(time)),
            LogField::Client => match record.client {
                Some(address) => quoted(out, |out| client(address, out)),
                None => out.extend_from_slice(b"null"),
            },
            LogField::Method => json_text(Some(record.method), out),
            LogField::Target => json_text(Some(record.target), out),
            LogField::Protocol => quoted(out, |out| protocol(record, out)),
            LogField::Status => decimal::number(record.status, out),
            LogField::BodyBytes => decimal::number(record.body_bytes, out),
            LogField::DurationUs => decimal::number(record.duration_us, out),
            LogField::Host => json_text(Some(record.host), out),
            LogField::Referer => json_text(record.referer, out),
            LogField::UserAgent => json_text(record.user_agent, out),
            LogField::User => json_text(record.user, out),
            LogField::Cache => json_text(record.cache.map(str::as_bytes), out),
            LogField::Completion => {
                json_text(Some(record.completion.name().as_bytes()), out);
            }
            detail => json_detail(detail, &record.details, out),
        }
    }
    out.extend_from_slice(if fields.is_empty() { b"{}" } else { b"}" });
}

/// Appends the value of a detail.
fn json_detail(field: LogField, details: &Details<'_>, out: &mut Vec<u8>) {
    let text = |text: Option<&str>, out: &mut Vec<u8>| json_text(text.map(str::as_bytes), out);
    let time = |of: fn(UpstreamTimes<'_>) -> Option<u64>, out: &mut Vec<u8>| match details
        .upstream
        .and_then(of)
    {
        Some(us) => decimal::number(us, out),
        None => out.extend_from_slice(b"null"),
    };
    match field {
        LogField::RequestId => json_text(details.request_id, out),
        LogField::TraceId => json_text(details.trace_id, out),
        LogField::Site => text(details.site, out),
        LogField::Mount => text(details.mount, out),
        LogField::HeadBytes => decimal::number(details.head_bytes, out),
        LogField::RequestBytes => decimal::number(details.request_bytes, out),
        LogField::RequestBufferedBytes => decimal::number(details.buffered.0, out),
        LogField::ResponseBufferedBytes => decimal::number(details.buffered.1, out),
        LogField::TlsVersion => text(details.tls.map(|(version, _)| version), out),
        LogField::TlsCipher => text(details.tls.map(|(_, cipher)| cipher), out),
        LogField::ServerName => text(details.server_name, out),
        LogField::Upstream => text(details.upstream.map(|of| of.name), out),
        LogField::UpstreamConnectUs => time(|of| of.connect_us, out),
        LogField::UpstreamHeadUs => time(|of| Some(of.head_us), out),
        LogField::UpstreamUs => time(|of| Some(of.whole_us), out),
        // The others are no details.
        _ => out.extend_from_slice(b"null"),
    }
}

/// `GET  /path    200    1.2 KiB      0.3 ms`: aligned columns without a time, for a terminal.
fn brief(colour: bool, record: &LogRecord<'_>, out: &mut Vec<u8>) {
    left(4, out, |out| hex_escaped(record.method, out));
    out.push(b' ');
    left(BRIEF_TARGET_WIDTH, out, |out| hex_escaped(record.target, out));
    out.push(b' ');
    if colour {
        out.extend_from_slice(match record.status {
            0..=299 => b"\x1b[32m",
            300..=399 => b"\x1b[36m",
            400..=499 => b"\x1b[33m",
            500.. => b"\x1b[31m",
        });
    }
    decimal::number(record.status, out);
    if colour {
        out.extend_from_slice(b"\x1b[0m");
    }
    out.push(b' ');
    right(10, out, |out| size(record.body_bytes, out));
    out.push(b' ');
    right(10, out, |out| {
        // Tenths of a millisecond, rounded.
        tenths(record.duration_us.saturating_add(50) / 100, out);
        out.extend_from_slice(b" ms");
    });
}

/// Name of a field in a JSON line.
fn name(field: LogField) -> &'static [u8] {
    match field {
        LogField::Time => b"time",
        LogField::Client => b"client",
        LogField::Method => b"method",
        LogField::Target => b"target",
        LogField::Protocol => b"protocol",
        LogField::Status => b"status",
        LogField::BodyBytes => b"body_bytes",
        LogField::DurationUs => b"duration_us",
        LogField::Host => b"host",
        LogField::Referer => b"referer",
        LogField::UserAgent => b"user_agent",
        LogField::Cache => b"cache",
        LogField::Completion => b"completion",
        LogField::RequestId => b"request_id",
        LogField::TraceId => b"trace_id",
        LogField::Site => b"site",
        LogField::Mount => b"mount",
        LogField::HeadBytes => b"head_bytes",
        LogField::RequestBytes => b"request_bytes",
        LogField::RequestBufferedBytes => b"request_buffered_bytes",
        LogField::ResponseBufferedBytes => b"response_buffered_bytes",
        LogField::TlsVersion => b"tls_version",
        LogField::TlsCipher => b"tls_cipher",
        LogField::ServerName => b"server_name",
        LogField::Upstream => b"upstream",
        LogField::UpstreamConnectUs => b"upstream_connect_us",
        LogField::UpstreamHeadUs => b"upstream_head_us",
        LogField::UpstreamUs => b"upstream_us",
        LogField::User => b"user",
    }
}

/// Appends an address. An IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) is written as IPv4.
fn client(address: IpAddr, out: &mut Vec<u8>) {
    decimal::address(address.to_canonical(), out);
}

fn protocol(record: &LogRecord<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(match record.version {
        Version::HTTP_2 => b"HTTP/2.0",
        Version::HTTP_3 => b"HTTP/3.0",
        Version::HTTP_10 => b"HTTP/1.0",
        _ => b"HTTP/1.1",
    });
}

/// Appends text for a quoted value. Special bytes become `\xHH`, as in nginx.
fn hex_escaped(text: &[u8], out: &mut Vec<u8>) {
    escaped(text, out, |text, out| {
        for &byte in text {
            if needs_escape(byte) {
                out.extend_from_slice(b"\\x");
                hex(byte, out);
            } else {
                out.push(byte);
            }
        }
    });
}

/// Appends text for a value without quotes: spaces are special, too.
fn word(text: &[u8], out: &mut Vec<u8>) {
    for (number, part) in text.split(|&byte| byte == b' ').enumerate() {
        if number > 0 {
            out.extend_from_slice(b"\\x20");
        }
        hex_escaped(part, out);
    }
}

/// Appends a JSON string (RFC 8259 section 7) or null. Characters beyond ASCII become `\uXXXX`, so
/// that the reader's encoding does not matter. Bytes that are not UTF-8 become `\u00XX`.
fn json_text(text: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(text) = text else {
        out.extend_from_slice(b"null");
        return;
    };
    quoted(out, |out| {
        escaped(text, out, |text, out| {
            for chunk in text.utf8_chunks() {
                for unit in chunk.valid().encode_utf16() {
                    match u8::try_from(unit) {
                        Ok(byte) if !needs_escape(byte) => out.push(byte),
                        _ => json_unit(unit, out),
                    }
                }
                for &byte in chunk.invalid() {
                    json_unit(byte.into(), out);
                }
            }
        });
    });
}

/// Appends a UTF-16 code unit as a JSON escape.
fn json_unit(unit: u16, out: &mut Vec<u8>) {
    let [high, low] = unit.to_be_bytes();
    out.extend_from_slice(b"\\u");
    hex(high, out);
    hex(low, out);
}

/// Appends `text`, cut to `FIELD_BYTES_MAX`, with `escape` only if it holds a special byte.
fn escaped(text: &[u8], out: &mut Vec<u8>, escape: impl FnOnce(&[u8], &mut Vec<u8>)) {
    let (text, cut) = text.split_at(text.len().min(FIELD_BYTES_MAX));
    // The fold has no early exit, so that it compiles to vector instructions.
    if text.iter().fold(false, |any, &byte| any | needs_escape(byte)) {
        escape(text, out);
    } else {
        out.extend_from_slice(text);
    }
    if !cut.is_empty() {
        out.extend_from_slice(CUT);
    }
}

/// True for bytes that must be escaped: controls, quote, backslash, and bytes beyond ASCII.
fn needs_escape(byte: u8) -> bool {
    !(0x20..=0x7e).contains(&byte) | (byte == b'"') | (byte == b'\\')
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

fn quoted(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    content(out);
    out.push(b'"');
}

/// Appends a number of tenths as a decimal fraction.
fn tenths(number: u64, out: &mut Vec<u8>) {
    decimal::number(number / 10, out);
    out.push(b'.');
    decimal::number(number % 10, out);
}

/// Appends a size: bytes below 1 KiB, else the largest unit with a value of at least 1, to a tenth.
fn size(bytes: u64, out: &mut Vec<u8>) {
    const UNITS: [&[u8]; 4] = [b" KiB", b" MiB", b" GiB", b" TiB"];
    if bytes < 1 << 10 {
        decimal::number(bytes, out);
        out.extend_from_slice(b" B");
        return;
    }
    let mut unit = 0;
    let mut whole = bytes;
    // A value that rounds to 1024.0 is shown in the next unit.
    while unit + 1 < UNITS.len() && in_tenths(whole) >= 10_240 {
        unit += 1;
        whole >>= 10;
    }
    tenths(in_tenths(whole), out);
    out.extend_from_slice(UNITS[unit]);
}

/// Converts 1/1024 units to tenths, rounded.
fn in_tenths(number: u64) -> u64 {
    ((u128::from(number) * 10 + 512) >> 10) as u64
}

/// Appends `content`, padded on the right with spaces.
fn left(width: usize, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    content(out);
    out.resize(out.len().max(start + width), b' ');
}

/// Appends `content`, padded on the left with spaces.
fn right(width: usize, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    content(out);
    let length = out.len() - start;
    if length < width {
        out.resize(start + width, b' ');
        out[start..].rotate_right(width - length);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::Completion;
    use super::*;

    const DETAILS: [LogField; 15] = [
        LogField::RequestId,
        LogField::TraceId,
        LogField::Site,
        LogField::Mount,
        LogField::HeadBytes,
        LogField::RequestBytes,
        LogField::RequestBufferedBytes,
        LogField::ResponseBufferedBytes,
        LogField::TlsVersion,
        LogField::TlsCipher,
        LogField::ServerName,
        LogField::Upstream,
        LogField::UpstreamConnectUs,
        LogField::UpstreamHeadUs,
        LogField::UpstreamUs,
    ];

    const ALL: [LogField; 13] = [
        LogField::Time,
        LogField::Client,
        LogField::Method,
        LogField::Target,
        LogField::Protocol,
        LogField::Status,
        LogField::BodyBytes,
        LogField::DurationUs,
        LogField::Host,
        LogField::Referer,
        LogField::UserAgent,
        LogField::Cache,
        LogField::Completion,
    ];

    const GET: LogRecord<'_> = LogRecord {
        client: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        method: b"GET",
        target: b"/a",
        version: Version::HTTP_11,
        status: 200,
        body_bytes: 2326,
        duration_us: 312,
        host: b"example.org",
        referer: Some(b"ref"),
        user_agent: Some(b"ua"),
        user: None,
        cache: None,
        completion: Completion::Complete,
        unix_secs: 971_186_136,
        details: Details::NONE,
    };

    fn text(format: &LogFormat, time: &str, record: &LogRecord<'_>) -> String {
        let mut out = b"before ".to_vec();
        line(format, false, record, time.as_bytes(), &mut out);
        let text = String::from_utf8(out).expect("ASCII");
        let text = text.strip_prefix("before ").expect("appended, not replaced");
        text.strip_suffix('\n').expect("a line").to_owned()
    }

    #[test]
    fn combined_is_the_format_of_nginx_and_apache() {
        let v6 = |text: &str| Some(IpAddr::V6(text.parse().expect("an address")));
        #[rustfmt::skip]
        let rows = [
            (GET, r#"127.0.0.1 - - [T] "GET /a HTTP/1.1" 200 2326 "ref" "ua""#, "the ordinary"),
            (LogRecord { version: Version::HTTP_2, ..GET }, r#"127.0.0.1 - - [T] "GET /a HTTP/2.0" 200 2326 "ref" "ua""#, "HTTP/2, as nginx writes it"),
            (LogRecord { referer: None, user_agent: None, ..GET }, r#"127.0.0.1 - - [T] "GET /a HTTP/1.1" 200 2326 "-" "-""#, "absent fields"),
            (LogRecord { referer: Some(b""), ..GET }, r#"127.0.0.1 - - [T] "GET /a HTTP/1.1" 200 2326 "" "ua""#, "an empty field is not an absent one"),
            (LogRecord { user: Some(b"anna"), ..GET }, r#"127.0.0.1 - anna [T] "GET /a HTTP/1.1" 200 2326 "ref" "ua""#, "a user"),
            (LogRecord { user: Some(b"a [T] \"x\n"), ..GET }, r#"127.0.0.1 - a\x20[T]\x20\x22x\x0A [T] "GET /a HTTP/1.1" 200 2326 "ref" "ua""#, "a name with spaces is one word"),
            (LogRecord { user: Some(b""), ..GET }, r#"127.0.0.1 - - [T] "GET /a HTTP/1.1" 200 2326 "ref" "ua""#, "a user without a name"),
            (LogRecord { client: None, ..GET }, r#"- - - [T] "GET /a HTTP/1.1" 200 2326 "ref" "ua""#, "a unix socket"),
            (LogRecord { client: v6("2001:db8::1"), ..GET }, r#"2001:db8::1 - - [T] "GET /a HTTP/1.1" 200 2326 "ref" "ua""#, "IPv6"),
            (LogRecord { client: v6("::ffff:192.0.2.255"), ..GET }, r#"192.0.2.255 - - [T] "GET /a HTTP/1.1" 200 2326 "ref" "ua""#, "IPv4 on a dual-stack socket"),
            (LogRecord { version: Version::HTTP_10, status: 304, body_bytes: 0, ..GET }, r#"127.0.0.1 - - [T] "GET /a HTTP/1.0" 304 0 "ref" "ua""#, "no body is 0, as in nginx"),
            (LogRecord { body_bytes: u64::MAX, ..GET }, r#"127.0.0.1 - - [T] "GET /a HTTP/1.1" 200 18446744073709551615 "ref" "ua""#, "the largest body"),
            (LogRecord { method: b"", target: b"", status: 408, ..GET }, r#"127.0.0.1 - - [T] "-" 408 2326 "ref" "ua""#, "no request line was read"),
            (LogRecord { target: b"/\"\\ \xc3\xa9\x7f\r\n", ..GET }, r#"127.0.0.1 - - [T] "GET /\x22\x5C \xC3\xA9\x7F\x0D\x0A HTTP/1.1" 200 2326 "ref" "ua""#, "escaped as nginx does"),
            (LogRecord { user_agent: Some(b"x\" 200 1 \"-\" \"\n::1 - -"), ..GET }, r#"127.0.0.1 - - [T] "GET /a HTTP/1.1" 200 2326 "ref" "x\x22 200 1 \x22-\x22 \x22\x0A::1 - -""#, "a forged line stays in its field"),
        ];
        for (record, expected, why) in rows {
            assert_eq!(text(&LogFormat::Combined, "T", &record), expected, "{why}");
        }
    }

    #[test]
    fn json_holds_the_fields_chosen_in_their_order() {
        use LogField::*;
        #[rustfmt::skip]
        let rows = [
            (&ALL[..], GET, r#"{"time":"T","client":"127.0.0.1","method":"GET","target":"/a","protocol":"HTTP/1.1","status":200,"body_bytes":2326,"duration_us":312,"host":"example.org","referer":"ref","user_agent":"ua","cache":null,"completion":"complete"}"#, "all of them"),
            (&[Status, Method], GET, r#"{"status":200,"method":"GET"}"#, "two, turned round"),
            (&[], GET, "{}", "none is still an object"),
            (&[Client, Referer, UserAgent], LogRecord { client: None, referer: None, user_agent: None, ..GET }, r#"{"client":null,"referer":null,"user_agent":null}"#, "absent is null"),
            (&[User], LogRecord { user: Some(b"anna"), ..GET }, r#"{"user":"anna"}"#, "a user"),
            (&[Cache], LogRecord { cache: Some("hit"), ..GET }, r#"{"cache":"hit"}"#, "what a cache did"),
            (&[Referer, Host], LogRecord { referer: Some(b""), host: b"", ..GET }, r#"{"referer":"","host":""}"#, "empty is empty"),
            (&[Target], LogRecord { target: b"/\"\\\n\x00\x7f", ..GET }, r#"{"target":"/\u0022\u005C\u000A\u0000\u007F"}"#, "nothing ends the string"),
            (&[Target], LogRecord { target: "/é€😀".as_bytes(), ..GET }, r#"{"target":"/\u00E9\u20AC\uD83D\uDE00"}"#, "UTF-8, a surrogate pair too"),
            (&[Target], LogRecord { target: b"/\xff\xc3", ..GET }, r#"{"target":"/\u00FF\u00C3"}"#, "bytes that are not UTF-8"),
        ];
        for (fields, record, expected, why) in rows {
            let line = text(&LogFormat::Json(fields.to_vec()), "T", &record);
            assert_eq!(line, expected, "{why}");
            serde_json::from_str::<Value>(&line).expect(why);
        }
    }

    #[test]
    fn json_holds_details_where_they_are_named() {
        let upstream = UpstreamTimes {
            name: "http://127.0.0.1:3000",
            connect_us: None,
            head_us: 900,
            whole_us: 1_200,
        };
        let details = Details {
            request_id: Some(b"abc"),
            trace_id: Some(b"0af7"),
            site: Some("example.org"),
            mount: Some("/"),
            head_bytes: 210,
            request_bytes: 17,
            buffered: (16, 2_000),
            tls: Some(("TLSv1.3", "TLS13_AES_128_GCM_SHA256")),
            server_name: Some("www.example.org"),
            upstream: Some(upstream),
        };
        let line = |details| {
            let record = LogRecord { details, ..GET };
            text(&LogFormat::Json(DETAILS.to_vec()), "T", &record)
        };
        assert_eq!(
            line(details),
            r#"{"request_id":"abc","trace_id":"0af7","site":"example.org","mount":"/","head_bytes":210,"request_bytes":17,"request_buffered_bytes":16,"response_buffered_bytes":2000,"tls_version":"TLSv1.3","tls_cipher":"TLS13_AES_128_GCM_SHA256","server_name":"www.example.org","upstream":"http://127.0.0.1:3000","upstream_connect_us":null,"upstream_head_us":900,"upstream_us":1200}"#
        );
        assert_eq!(
            line(Details::NONE),
            r#"{"request_id":null,"trace_id":null,"site":null,"mount":null,"head_bytes":0,"request_bytes":0,"request_buffered_bytes":0,"response_buffered_bytes":0,"tls_version":null,"tls_cipher":null,"server_name":null,"upstream":null,"upstream_connect_us":null,"upstream_head_us":null,"upstream_us":null}"#
        );
    }

    #[test]
    fn brief_lines_are_aligned() {
        #[rustfmt::skip]
        let rows = [
            (GET, "GET  /a                                       200    2.3 KiB     0.3 ms", "the ordinary"),
            (LogRecord { method: b"HEAD", body_bytes: 0, duration_us: 0, ..GET }, "HEAD /a                                       200        0 B     0.0 ms", "nothing"),
            (LogRecord { status: 404, body_bytes: 1023, duration_us: 949, ..GET }, "GET  /a                                       404     1023 B     0.9 ms", "bytes below a KiB"),
            (LogRecord { body_bytes: 1024, duration_us: 950, ..GET }, "GET  /a                                       200    1.0 KiB     1.0 ms", "a KiB; rounded"),
            (LogRecord { body_bytes: (1 << 20) - 1, ..GET }, "GET  /a                                       200    1.0 MiB     0.3 ms", "never 1024.0 KiB"),
            (LogRecord { body_bytes: 5 << 30, duration_us: 61_000_000, ..GET }, "GET  /a                                       200    5.0 GiB 61000.0 ms", "a large download"),
            (LogRecord { target: b"/a-name-so-long-that-it-does-not-fit-its-column", ..GET }, "GET  /a-name-so-long-that-it-does-not-fit-its-column 200    2.3 KiB     0.3 ms", "a long name is not cut"),
            (LogRecord { body_bytes: u64::MAX, duration_us: u64::MAX, ..GET }, "GET  /a                                       200 16777216.0 TiB 18446744073709551.6 ms", "the largest of everything"),
        ];
        for (record, expected, why) in rows {
            assert_eq!(text(&LogFormat::Brief, "", &record), expected, "{why}");
        }
    }

    #[test]
    fn only_the_status_is_coloured_and_only_on_request() {
        #[rustfmt::skip]
        let rows = [
            (200, "\x1b[32m200\x1b[0m", "green"),
            (304, "\x1b[36m304\x1b[0m", "cyan"),
            (404, "\x1b[33m404\x1b[0m", "yellow"),
            (503, "\x1b[31m503\x1b[0m", "red"),
        ];
        for (status, expected, why) in rows {
            let record = LogRecord { status, ..GET };
            let mut out = Vec::new();
            line(&LogFormat::Brief, true, &record, b"", &mut out);
            let out = String::from_utf8(out).expect("ASCII");
            assert!(out.contains(expected), "{why}: {out:?}");
            assert_eq!(out.matches('\x1b').count(), 2, "{why}: {out:?}");
        }
    }

    #[test]
    fn the_names_of_fields_are_their_snake_case_names() {
        for field in ALL.into_iter().chain(DETAILS) {
            let camel = format!("{field:?}");
            let mut snake = String::new();
            for (at, letter) in camel.char_indices() {
                if letter.is_ascii_uppercase() && at > 0 {
                    snake.push('_');
                }
                snake.push(letter.to_ascii_lowercase());
            }
            assert_eq!(name(field), snake.as_bytes());
        }
    }

    #[test]
    fn a_field_longer_than_the_bound_is_cut_and_marked() {
        let long = vec![b'a'; FIELD_BYTES_MAX + 1];
        let record = LogRecord { target: &long, user_agent: Some(&long), ..GET };
        for format in [LogFormat::Combined, LogFormat::Json(ALL.to_vec()), LogFormat::Brief] {
            let line = text(&format, "T", &record);
            assert!(line.contains("aaa..."), "{format:?}");
            assert!(line.len() < 2 * FIELD_BYTES_MAX + 512, "{format:?}");
        }
        let exact = LogRecord { target: &long[1..], ..GET };
        assert!(
            !text(&LogFormat::Brief, "", &exact).contains("..."),
            "a field that fits is not marked"
        );
    }

    proptest! {
        #[test]
        fn any_request_is_one_printable_line_and_json_that_restores_it(
            sent in proptest::collection::vec(any::<u8>(), 0..200),
            utf8 in ".{0,100}",
        ) {
            let record = LogRecord {
                method: &sent, target: &sent, host: &sent, referer: Some(&sent),
                user_agent: Some(utf8.as_bytes()), ..GET
            };
            for format in [LogFormat::Combined, LogFormat::Json(ALL.to_vec()), LogFormat::Brief] {
                let line = text(&format, "T", &record);
                prop_assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line:?}");
            }
            let line = text(&LogFormat::Combined, "T", &record);
            prop_assert_eq!(line.matches('"').count(), 6, "{}", line);
            let line = text(&LogFormat::Json(ALL.to_vec()), "T", &record);
            let object: Value = serde_json::from_str(&line).expect("JSON");
            prop_assert_eq!(&object["user_agent"], &json!(utf8));
            if let Ok(sent) = str::from_utf8(&sent) {
                prop_assert_eq!(&object["target"], &json!(sent));
            }
        }
    }
}
