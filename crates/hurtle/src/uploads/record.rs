//! The metadata of an unfinished upload, stored as text beside its content. Pure.

use serde::{Deserialize, Serialize};

use super::commit::Conditions;

/// Version of the format; other versions are not read.
const VERSION: u32 = 1;

/// Maximum time from creation to completion of an upload, in seconds: a day.
pub(super) const AGE_SECS_MAX: u64 = 24 * 60 * 60;

/// The metadata of an unfinished upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Time of creation, in seconds since 1970.
    pub(super) created: u64,
    /// The user who created it; `None` if anyone with the token may continue.
    pub(super) user: Option<String>,
    /// The path of the target, relative to the root.
    pub(super) rest: Vec<u8>,
    /// Length of the whole upload in bytes, once known.
    pub(super) length: Option<u64>,
    /// The preconditions of the request that created it.
    pub(super) conditions: Conditions,
}

/// The stored form. Bytes are written as Latin-1 characters.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRecord {
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
        let written = StoredRecord {
            version: VERSION,
            created: self.created,
            user: self.user.clone(),
            path: text(&self.rest),
            length: self.length,
            if_match: conditions.if_match.as_deref().map(text),
            if_none_match: conditions.if_none_match.as_deref().map(text),
            if_unmodified_since: conditions.if_unmodified_since.as_deref().map(text),
        };
        // Serializing strings and numbers cannot fail.
        serde_json::to_string_pretty(&written).unwrap_or_default()
    }

    /// Parses a stored record; `None` if it is malformed.
    pub(super) fn parse(written: &[u8]) -> Option<Record> {
        let written: StoredRecord = serde_json::from_slice(written).ok()?;
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

    /// Remaining lifetime, in seconds. A record of a far future is over, because the clock was
    /// wrong when the upload began.
    pub(super) fn left_secs(&self, now_secs: u64) -> u64 {
        if self.created > now_secs.saturating_add(AGE_SECS_MAX) {
            return 0;
        }
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
        fn a_written_record_is_read_back_equal(
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
    fn a_record_expires_after_a_day() {
        let conditions = Conditions::default();
        let record = Record { created: 1_000, user: None, rest: vec![], length: None, conditions };
        let rows = [(1_000, AGE_SECS_MAX), (1_001, AGE_SECS_MAX - 1), (1_000 + AGE_SECS_MAX, 0)];
        for (now, left) in rows {
            assert_eq!(record.left_secs(now), left);
        }
        assert_eq!(record.left_secs(u64::MAX), 0);
        assert_eq!(record.left_secs(0), AGE_SECS_MAX, "a clock that was set back");
        let record = Record { created: 2 * AGE_SECS_MAX, ..record };
        assert_eq!(record.left_secs(0), 0, "a clock that was set back by more than a lifetime");
    }
}
