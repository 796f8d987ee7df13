//! Attributes that header rules add to cookies (RFC 6265 section 4.1.2).

use std::fmt;

use super::error::{ValueError, shown};

/// An attribute of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieFlag {
    name: &'static str,
    /// Empty: it has no value.
    value: &'static str,
}

/// The attributes that a rule may add.
const KNOWN: [CookieFlag; 6] = [
    CookieFlag { name: "Secure", value: "" },
    CookieFlag { name: "HttpOnly", value: "" },
    CookieFlag { name: "Partitioned", value: "" },
    CookieFlag { name: "SameSite", value: "Strict" },
    CookieFlag { name: "SameSite", value: "Lax" },
    CookieFlag { name: "SameSite", value: "None" },
];

impl CookieFlag {
    /// Parses an attribute, in any case of letters.
    ///
    /// # Errors
    /// It is none that a rule may add.
    pub(super) fn parse(text: &str) -> Result<CookieFlag, ValueError> {
        let known = KNOWN.into_iter().find(|known| known.to_string().eq_ignore_ascii_case(text));
        known.ok_or_else(|| {
            let names: Vec<String> = KNOWN.iter().map(ToString::to_string).collect();
            ValueError::new(format!("{} is no attribute to add to cookies", shown(text)))
                .hint(format!("write one of {}", names.join(", ")))
        })
    }

    /// Returns the name of the attribute.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Display for CookieFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.value {
            "" => Ok(()),
            value => write!(f, "={value}"),
        }
    }
}
