//! Attributes that header rules add to the cookies of a response.

use http::{HeaderValue, header};

use super::FieldEdits;
use crate::config::CookieFlag;

/// Gives each cookie of a response these attributes. One of the same name is replaced.
pub(super) fn flag(fields: &mut dyn FieldEdits, flags: &[CookieFlag]) {
    if flags.is_empty() || !fields.has(&header::SET_COOKIE) {
        return;
    }
    let mut cookies = Vec::new();
    fields.each(&mut |name, value| {
        if name.eq_ignore_ascii_case(header::SET_COOKIE.as_str().as_bytes()) {
            cookies.push(with_flags(value, flags));
        }
    });
    fields.remove(&header::SET_COOKIE);
    for cookie in cookies {
        if let Ok(value) = HeaderValue::from_bytes(&cookie) {
            fields.append(&header::SET_COOKIE, &value);
        }
    }
}

fn with_flags(cookie: &[u8], flags: &[CookieFlag]) -> Vec<u8> {
    let mut parts = cookie.split(|&b| b == b';');
    // The first part is the cookie itself, whatever its name.
    let mut flagged = parts.next().unwrap_or_default().to_vec();
    let is_replaced = |part: &[u8]| {
        let name = part.split(|&b| b == b'=').next().unwrap_or_default().trim_ascii();
        flags.iter().any(|flag| name.eq_ignore_ascii_case(flag.name().as_bytes()))
    };
    for part in parts.filter(|part| !is_replaced(part)) {
        flagged.push(b';');
        flagged.extend_from_slice(part);
    }
    for flag in flags {
        flagged.extend_from_slice(format!("; {flag}").as_bytes());
    }
    flagged
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::check;

    #[test]
    fn attributes_are_added_and_replaced() {
        let flags = |names: &[&str]| {
            let text = format!(
                "[[site]]\n[[site.header]]\ncookie_flags = {names:?}\n[[site.mount]]\nrespond = \"\"\n"
            );
            let config = check(&text, Path::new("/nowhere/hurtle.toml")).unwrap();
            config.sites[0].headers[0].cookie_flags.clone()
        };
        let rows: [(&str, &[&str], &str); 7] = [
            ("a=b", &["Secure"], "a=b; Secure"),
            ("a=b; Path=/; secure", &["Secure", "HttpOnly"], "a=b; Path=/; Secure; HttpOnly"),
            ("a=b; SameSite=None; Secure", &["samesite=lax"], "a=b; Secure; SameSite=Lax"),
            ("secure=1", &["Secure"], "secure=1; Secure"),
            ("a=\"b;c\"", &["HttpOnly"], "a=\"b;c\"; HttpOnly"),
            ("a=b;httponly ;Max-Age=3", &["HttpOnly"], "a=b;Max-Age=3; HttpOnly"),
            ("", &["Partitioned"], "; Partitioned"),
        ];
        for (cookie, names, expected) in rows {
            let flagged = with_flags(cookie.as_bytes(), &flags(names));
            assert_eq!(String::from_utf8(flagged).unwrap(), expected, "{cookie}");
        }
    }
}
