//! What is kept of an unfinished upload beside its bytes, as text: pure.

use serde::{Deserialize, Serialize};

use super::commit::Conditions;

/// The form of the text; another one is not read.
const VERSION: u32 = 1;

/// How long an upload may take from its creation to its end, in seconds: a day.
pub(super) const AGE_SECS_MAX: u64 = 24 * 60 * 60;

/// An unfinished upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Seconds since 1970.
    pub(super) created: u64,
    /// Whose it is; `None`: anybody's who knows its name.
    pub(super) user: Option<String>,
    /// Where the file is to be, beneath the root.
    pub(super) rest: Vec<u8>,
    /// Bytes of the whole, once they are known.
    pub(super) length: Option<u64>,
    /// Of the request that began it.
    pub(super) conditions: Conditions,
}

/// As it is written. Bytes are Latin-1.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    created: u64,
    user: Option<String>,
    path: String,
    length: Option<u64>,
    if_match: Option<String>,
    if_none_match: Option<String>,
    if_unmodified_since: Option<String>,
}

impl Record {
    pub(super) fn to_text(&self) -> String {
        let conditions = &self.conditions;
        let written = Written {
            version: VERSION,
            created: self.created,
            user: self.user.clone(),
            path: text(&self.rest),
            length: self.length,
            if_match: conditions.if_match.as_deref().map(text),
            if_none_match: conditions.if_none_match.as_deref().map(text),
            if_unmodified_since: conditions.if_unmodified_since.as_deref().map(text),
        };
        // Strings and numbers can always be written.
        serde_json::to_string_pretty(&written).unwrap_or_default()
    }

    /// `None`: it was not written here.
    pub(super) fn parse(written: &[u8]) -> Option<Record> {
        let written: Written = serde_json::from_slice(written).ok()?;
        let optional =
            |text: Option<String>| text.map_or(Some(None), |text| bytes(&text).map(Some));
        Some(Record {
            created: (written.version == VERSION).then_some(written.created)?,
            user: written.user,
            rest: bytes(&written.path)?,
            length: written.length,
            conditions: Conditions {
                if_match: optional(written.if_match)?,
                if_none_match: optional(written.if_none_match)?,
                if_unmodified_since: optional(written.if_unmodified_since)?,
            },
        })
    }

    /// How long it has left.
    pub(super) fn left_secs(&self, now_secs: u64) -> u64 {
        self.created.saturating_add(AGE_SECS_MAX).saturating_sub(now_secs).min(AGE_SECS_MAX)
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            rest: Vec<u8>,
            user: Option<String>,
            length: Option<u64>,
            if_match: Option<Vec<u8>>,
            created: u64,
        ) {
            let conditions = Conditions { if_match, ..Conditions::default() };
            let record = Record { created, user, rest, length, conditions };
            prop_assert_eq!(Record::parse(record.to_text().as_bytes()), Some(record));
        }

        #[test]
        fn no_bytes_make_it_panic(written: Vec<u8>) {
            Record::parse(&written);
        }
    }

    #[test]
    fn a_day_after_its_creation_it_has_nothing_left() {
        let conditions = Conditions::default();
        let record = Record { created: 1_000, user: None, rest: vec![], length: None, conditions };
        let rows = [(1_000, AGE_SECS_MAX), (1_001, AGE_SECS_MAX - 1), (1_000 + AGE_SECS_MAX, 0)];
        for (now, left) in rows {
            assert_eq!(record.left_secs(now), left);
        }
        assert_eq!(record.left_secs(u64::MAX), 0);
        assert_eq!(record.left_secs(0), AGE_SECS_MAX, "a clock that was set back");
    }
}
