//! Content negotiation by Accept-Encoding and Accept (RFC 9110 section 12.5). The caller knows the
//! available variants and writes Vary.

use super::fields::{self, trim_ows};

/// Maximum weight. Weights are in thousandths: `q=0.5` is 500 (RFC 9110 section 12.4.2).
pub const WEIGHT_MAX: u16 = 1000;

/// A content-coding that the server can offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// `br`, Brotli (RFC 7932).
    Br,
    /// `zstd` (RFC 8878).
    Zstd,
    /// `gzip`, also called `x-gzip` (RFC 9110 section 8.4.1.3).
    Gzip,
    /// `dcz`, zstd with a dictionary that the client has (RFC 9842 section 5).
    Dcz,
    /// The representation without a coding, which is always available.
    Identity,
}

/// Selects the coding of a response: the one of `available` with the highest weight in the field.
/// `available` is in the server's order of preference, which decides a tie. Identity loses every
/// tie.
///
/// If nothing is acceptable, the result is identity, even for `identity;q=0`. RFC 9110 section
/// 12.5.3 lets a server disregard the field; a file in an unwanted coding is more useful than a
/// 406.
pub fn choose(accept_encoding: Option<&[u8]>, available: &[Coding]) -> Coding {
    let Some(field) = accept_encoding else { return Coding::Identity };
    let weights = CodingWeights::read(field);
    let mut best = (Coding::Identity, weights.of(Coding::Identity));
    for &coding in available.iter().filter(|&&coding| coding != Coding::Identity) {
        let weight = weights.of(coding);
        let wins_tie = best.0 == Coding::Identity && weight > 0;
        if weight > best.1 || (weight == best.1 && wins_tie) {
            best = (coding, weight);
        }
    }
    best.0
}

/// True if a client accepts a coding (RFC 9110 section 12.5.3): any without the field, and no
/// coding at all unless that is refused.
pub fn accepts_coding(accept_encoding: Option<&[u8]>, coding: Coding) -> bool {
    let Some(field) = accept_encoding else { return true };
    let weights = CodingWeights::read(field);
    match coding {
        Coding::Identity => weights.identity.or(weights.any) != Some(0),
        _ => weights.of(coding) > 0,
    }
}

/// Weight that a client gives to `media_type` (`type/subtype`, parameters allowed): 0, not
/// acceptable, to [`WEIGHT_MAX`]. The most specific media range that matches decides (RFC 9110
/// section 12.5.1). Without the field every type has the maximum weight.
pub fn quality(accept: Option<&[u8]>, media_type: &str) -> u16 {
    match accept {
        Some(field) if !trim_ows(field).is_empty() => rate(field, media_type).weight,
        _ => WEIGHT_MAX,
    }
}

/// True if a client asks for an HTML page: `text/html` or `text/*` is listed with a weight above 0.
/// `*/*` or a missing field is not enough. Clients fetch scripts, styles and images with those, and
/// a missing image must not be answered with a page.
pub fn accepts_html(accept: Option<&[u8]>) -> bool {
    let html = accept.map_or(Rating::UNLISTED, |field| rate(field, "text/html"));
    html.specificity >= Specificity::Type && html.weight > 0
}

/// True if a client prefers JSON to an HTML page: application/json is listed and weighs more than
/// text/html. At equal weights the more specific range wins, so `application/json, */*` means JSON.
pub fn prefers_json(accept: Option<&[u8]>) -> bool {
    let Some(field) = accept else { return false };
    let json = rate(field, "application/json");
    let html = rate(field, "text/html");
    json.specificity >= Specificity::Subtype
        && json.weight > 0
        && (json.weight, json.specificity) > (html.weight, html.specificity)
}

/// The weights that an Accept-Encoding gives to each coding; `None` if a coding is not listed.
#[derive(Default)]
struct CodingWeights {
    br: Option<u16>,
    zstd: Option<u16>,
    gzip: Option<u16>,
    dcz: Option<u16>,
    identity: Option<u16>,
    any: Option<u16>,
}

impl CodingWeights {
    fn read(field: &[u8]) -> CodingWeights {
        let mut weights = CodingWeights::default();
        for element in fields::list(field) {
            let (name, parameters) = split_once(element, b';');
            let Some(slot) = weights.slot(trim_ows(name)) else { continue };
            let weight = match parameters {
                None => Some(WEIGHT_MAX),
                Some(parameter) => weight_of(parameter).flatten(),
            };
            // An element with a malformed weight is ignored. If a coding is listed twice the lower
            // weight counts, so that a refusal holds.
            if let Some(weight) = weight {
                *slot = Some(slot.map_or(weight, |other| other.min(weight)));
            }
        }
        weights
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<u16>> {
        let is = |coding: &str| name.eq_ignore_ascii_case(coding.as_bytes());
        Some(match name.len() {
            2 if is("br") => &mut self.br,
            4 if is("zstd") => &mut self.zstd,
            4 if is("gzip") => &mut self.gzip,
            6 if is("x-gzip") => &mut self.gzip,
            3 if is("dcz") => &mut self.dcz,
            8 if is("identity") => &mut self.identity,
            1 if name == b"*" => &mut self.any,
            _ => return None,
        })
    }

    /// RFC 9110 section 12.5.3: an unlisted coding has the weight of `*`. Without `*` it is
    /// unacceptable, except identity, which is acceptable but loses to every listed coding.
    fn of(&self, coding: Coding) -> u16 {
        let listed = match coding {
            Coding::Br => self.br,
            Coding::Zstd => self.zstd,
            Coding::Gzip => self.gzip,
            // A client names it when it has a dictionary, so `*` does not mean it.
            Coding::Dcz => return self.dcz.unwrap_or(0),
            Coding::Identity => self.identity,
        };
        listed.or(self.any).unwrap_or(0)
    }
}

/// Specificity of a media range, least specific first (RFC 9110 section 12.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    Unlisted,
    /// `*/*`
    Any,
    /// `text/*`
    Type,
    /// `text/html`
    Subtype,
    /// `text/html;level=1`, with the number of parameters.
    Parameters(usize),
}

/// Result of matching one media type against an Accept field.
#[derive(Clone, Copy)]
struct Rating {
    specificity: Specificity,
    weight: u16,
}

impl Rating {
    const UNLISTED: Rating = Rating { specificity: Specificity::Unlisted, weight: 0 };
}

/// Rates `media_type` by the most specific range of `field` that matches it. Among equally specific
/// ranges the highest weight counts. Malformed ranges are ignored.
fn rate(field: &[u8], media_type: &str) -> Rating {
    let (offered, offered_parameters) = split_once(media_type.as_bytes(), b';');
    let mut best = Rating::UNLISTED;
    for element in split_unquoted(field, b',') {
        let (range, parameters) = split_once(element, b';');
        let Some(mut specificity) = match_range(trim_ows(range), trim_ows(offered)) else {
            continue;
        };
        let mut weight = Some(WEIGHT_MAX);
        let mut parameters_held = 0;
        let mut parameters_match = true;
        for parameter in split_unquoted(parameters.unwrap_or_default(), b';') {
            // RFC 9110 section 12.5.1: a parameter named q is the weight, at any position.
            if let Some(written) = weight_of(parameter) {
                weight = written;
            } else if !parameter.is_empty() {
                let offered = offered_parameters.unwrap_or_default();
                parameters_match &= has_parameter(offered, parameter);
                parameters_held += 1;
            }
        }
        if parameters_held > 0 && specificity == Specificity::Subtype {
            specificity = Specificity::Parameters(parameters_held);
        }
        let Some(weight) = weight.filter(|_| parameters_match) else { continue };
        if (specificity, weight) > (best.specificity, best.weight) {
            best = Rating { specificity, weight };
        }
    }
    best
}

fn match_range(range: &[u8], offered: &[u8]) -> Option<Specificity> {
    if range == b"*/*" {
        return Some(Specificity::Any);
    }
    if range.eq_ignore_ascii_case(offered) {
        return Some(Specificity::Subtype);
    }
    let (range_type, range_subtype) = split_once(range, b'/');
    let (offered_type, _) = split_once(offered, b'/');
    (range_subtype == Some(b"*") && range_type.eq_ignore_ascii_case(offered_type))
        .then_some(Specificity::Type)
}

/// True if `parameters` of a media type contain `wanted`. Names and values are compared without
/// regard to case, values quoted or not (RFC 9110 sections 5.6.6 and 8.3.1).
fn has_parameter(parameters: &[u8], wanted: &[u8]) -> bool {
    let unquoted = |value: Option<&'_ [u8]>| -> Vec<u8> {
        let value = value.unwrap_or_default();
        let inner = value.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\""));
        inner.unwrap_or(value).to_ascii_lowercase()
    };
    let (wanted_name, wanted_value) = split_once(wanted, b'=');
    split_unquoted(parameters, b';').any(|parameter| {
        let (name, value) = split_once(parameter, b'=');
        name.eq_ignore_ascii_case(wanted_name) && unquoted(value) == unquoted(wanted_value)
    })
}

/// Parses a weight parameter: `None` if the parameter has another name, `Some(None)` if its value
/// is malformed.
fn weight_of(parameter: &[u8]) -> Option<Option<u16>> {
    match trim_ows(parameter) {
        [b'q' | b'Q', b'=', value @ ..] => Some(weight(value)),
        _ => None,
    }
}

/// Parses a qvalue (RFC 9110 section 12.4.2): 0 or 1 with at most three decimals, which must be
/// zeros after 1.
fn weight(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] => (whole, [].as_slice()),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |place: usize| decimals.get(place).map_or(0, |digit| u16::from(digit - b'0'));
    let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
    match (whole, thousandths) {
        (b'0', thousandths) => Some(thousandths),
        (b'1', 0) => Some(WEIGHT_MAX),
        _ => None,
    }
}

/// Splits `text` at the first `separator`.
fn split_once(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == separator) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Splits `text` at separators outside quoted strings (RFC 9110 section 5.6.4) and trims the parts.
/// An unterminated quoted string extends to the end.
fn split_unquoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text.split(move |&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
        byte == separator && !quoted
    });
    parts.map(trim_ows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Coding::{Br, Dcz, Gzip, Identity, Zstd};
    use super::*;

    #[test]
    fn accepted_codings() {
        use Coding::{Dcz, Gzip, Identity};
        let rows: &[(&str, Option<&str>, Coding, bool)] = &[
            ("no field", None, Gzip, true),
            ("no field, no coding", None, Identity, true),
            ("listed", Some("gzip"), Gzip, true),
            ("not listed", Some("br"), Gzip, false),
            ("any", Some("*"), Gzip, true),
            ("any is no dictionary", Some("*"), Dcz, false),
            ("refused", Some("gzip;q=0, *"), Gzip, false),
            ("no coding need not be listed", Some("gzip"), Identity, true),
            ("an empty field", Some(""), Identity, true),
            ("no coding refused", Some("gzip, identity;q=0"), Identity, false),
            ("everything else refused", Some("gzip, *;q=0"), Identity, false),
            ("else but no coding", Some("identity;q=0.1, *;q=0"), Identity, true),
        ];
        for (why, field, coding, expected) in rows {
            let field = field.map(str::as_bytes);
            assert_eq!(accepts_coding(field, *coding), *expected, "{why}");
        }
    }

    #[test]
    fn codings() {
        let all: &[Coding] = &[Br, Zstd, Gzip];
        let rows: &[(&str, Option<&str>, &[Coding], Coding)] = &[
            ("no field", None, all, Identity),
            ("an empty field", Some(""), all, Identity),
            ("what browsers send", Some("gzip, deflate, br, zstd"), all, Br),
            ("the server's preference breaks a tie", Some("br, gzip"), &[Gzip, Br], Gzip),
            ("the client's preference comes first", Some("br;q=0.5, gzip"), all, Gzip),
            ("by a thousandth", Some("br;q=0.998, gzip;q=0.999"), all, Gzip),
            ("only one there is", Some("br, zstd, gzip"), &[Zstd], Zstd),
            ("none there is", Some("br"), &[Gzip], Identity),
            ("none available", Some("br"), &[], Identity),
            ("unknown codings", Some("deflate, compress"), all, Identity),
            ("a refused coding", Some("gzip;q=0"), all, Identity),
            ("a refused coding, in thousandths", Some("gzip;q=0.000"), all, Identity),
            ("refused among others", Some("br;q=0, gzip, *;q=0"), all, Gzip),
            ("the old name", Some("x-gzip"), all, Gzip),
            ("any case", Some("GZip;Q=1.0"), all, Gzip),
            ("whitespace around the weight", Some("gzip ;\tq=0"), all, Identity),
            ("anything", Some("*"), all, Br),
            ("anything but one", Some("br;q=0, *"), all, Zstd),
            ("nothing but one", Some("gzip, *;q=0"), all, Gzip),
            ("a small weight beats an unlisted identity", Some("gzip;q=0.001"), all, Gzip),
            ("identity preferred", Some("gzip;q=0.5, identity"), all, Identity),
            ("identity by asterisk preferred", Some("gzip;q=0.5, *"), &[Gzip], Identity),
            ("identity loses a tie", Some("identity, gzip"), all, Gzip),
            ("identity refused", Some("identity;q=0, gzip"), all, Gzip),
            ("everything refused is disregarded", Some("identity;q=0, *;q=0"), all, Identity),
            ("identity refused, nothing else there", Some("gzip, identity;q=0"), &[], Identity),
            ("listed twice, once refused", Some("gzip, x-gzip;q=0"), all, Identity),
            ("a weight above 1", Some("gzip;q=1.5"), all, Identity),
            ("a weight of four decimals", Some("gzip;q=0.1234"), all, Identity),
            ("a weight that is no number", Some("gzip;q=high, br;q=0.1"), all, Br),
            ("a parameter that is no weight", Some("gzip;level=9"), all, Identity),
            ("a longer name", Some("gzipped, brr"), all, Identity),
            ("identity listed as available changes nothing", Some("gzip"), &[Identity, Gzip], Gzip),
            (
                "a dictionary",
                Some("gzip, deflate, br, zstd, dcb, dcz"),
                &[Dcz, Br, Zstd, Gzip],
                Dcz,
            ),
            ("a dictionary, less wanted", Some("br, dcz;q=0.9"), &[Dcz, Br], Br),
            ("a dictionary refused", Some("br, dcz;q=0"), &[Dcz, Br], Br),
            ("no dictionary unless it is listed", Some("*"), &[Dcz, Br], Br),
        ];
        for (why, field, available, expected) in rows {
            let chosen = choose(field.map(str::as_bytes), available);
            assert_eq!(chosen, *expected, "{why}: {field:?}");
        }
    }

    #[test]
    fn the_example_of_rfc_9110_12_5_1() {
        let accept = b"text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, \
            text/plain;format=fixed;q=0.4, */*;q=0.5";
        let rows = [
            ("text/plain;format=flowed", 1000),
            ("text/plain", 700),
            ("text/html", 300),
            ("image/jpeg", 500),
            ("text/plain;format=fixed", 400),
            ("text/html;level=3", 300),
        ];
        for (media_type, expected) in rows {
            assert_eq!(quality(Some(accept), media_type), expected, "{media_type}");
        }
    }

    #[test]
    fn qualities_of_html() {
        let rows = [
            ("no field", None, 1000),
            ("an empty field", Some(" "), 1000),
            ("itself", Some("text/html"), 1000),
            ("in any case", Some("Text/HTML;Q=0.5"), 500),
            ("not listed", Some("image/png"), 0),
            ("refused, though its type is wanted", Some("text/*, text/html;q=0"), 0),
            ("a parameter it has not", Some("text/html;level=1"), 0),
            ("the weight before another parameter", Some("text/html;q=0.5;level=1"), 0),
            ("half a wildcard is none", Some("*/html"), 0),
            ("a comma in a quoted string", Some("a/b;x=\",text/html\", */*;q=0.2"), 200),
            ("an escaped quote", Some("a/b;x=\"\\\",text/html,\", */*;q=0.2"), 200),
            ("a quote left open", Some("a/b;x=\", text/html"), 0),
            ("an empty parameter", Some("text/html; ;q=0.5"), 500),
            ("a malformed weight", Some("text/html;q=2, */*;q=0.1"), 100),
            ("twice: the higher", Some("text/html;q=0.2, text/html;q=0.4"), 400),
        ];
        for (why, accept, expected) in rows {
            let quality = quality(accept.map(str::as_bytes), "text/html");
            assert_eq!(quality, expected, "{why}: {accept:?}");
        }
    }

    #[test]
    fn parameters_compare_without_quotes_or_case() {
        let accept = Some(b"text/html;CharSet=\"UTF-8\", */*;q=0.1".as_slice());
        assert_eq!(quality(accept, "text/html; charset=utf-8"), 1000);
        assert_eq!(quality(accept, "text/html; charset=latin1"), 100);
    }

    #[test]
    fn pages() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let rows = [
            ("a browser's navigation", Some(browser), true),
            ("any text", Some("text/*"), true),
            ("a script, a style, curl", Some("*/*"), false),
            ("an image", Some("image/avif,image/webp,*/*;q=0.8"), false),
            ("no field", None, false),
            ("an empty field", Some(""), false),
            ("refused", Some("text/html;q=0, */*"), false),
            ("refused, though other text is wanted", Some("text/*, text/html;q=0"), false),
            ("a style sheet", Some("text/css,*/*;q=0.1"), false),
        ];
        for (why, accept, expected) in rows {
            assert_eq!(accepts_html(accept.map(str::as_bytes)), expected, "{why}: {accept:?}");
        }
    }

    #[test]
    fn json() {
        let rows = [
            ("JSON alone", Some("application/json"), true),
            ("JSON, else anything", Some("application/json, text/plain, */*"), true),
            ("JSON, anything less", Some("application/json, */*;q=0.1"), true),
            ("JSON above pages", Some("text/html;q=0.9, application/json"), true),
            ("both alike", Some("application/json, text/html"), false),
            ("pages above JSON", Some("application/json;q=0.9, text/html"), false),
            ("anything above JSON", Some("application/json;q=0.1, */*"), false),
            ("anything", Some("*/*"), false),
            ("any application", Some("application/*"), false),
            ("JSON refused", Some("application/json;q=0"), false),
            ("another JSON", Some("application/ld+json"), false),
            ("no field", None, false),
        ];
        for (why, accept, expected) in rows {
            assert_eq!(prefers_json(accept.map(str::as_bytes)), expected, "{why}: {accept:?}");
        }
    }

    proptest! {
        #[test]
        fn only_available_codings_are_chosen(
            field in "((br|gzip|zstd|\\*|identity)(;q=[01](\\.[0-9]{0,4})?)?,? ?){0,5}",
        ) {
            let chosen = choose(Some(field.as_bytes()), &[Gzip]);
            prop_assert!(matches!(chosen, Gzip | Identity));
        }

        #[test]
        fn no_bytes_make_it_panic(field: Vec<u8>, text in "[ -~]{0,60}") {
            for field in [field.as_slice(), text.as_bytes()] {
                choose(Some(field), &[Br, Zstd, Gzip]);
                prop_assert!(quality(Some(field), "text/html; charset=utf-8") <= WEIGHT_MAX);
                accepts_html(Some(field));
                prefers_json(Some(field));
            }
        }
    }
}
