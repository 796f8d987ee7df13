//! Extensible priorities (RFC 9218 section 4): the value of a `Priority` field or of a
//! PRIORITY_UPDATE frame.

use super::structured::{boolean, integer};

/// The priority that a client requests for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Urgency from 0, the most urgent, to 7.
    pub urgency: u8,
    /// True if partial content is useful to the client: incremental responses of equal urgency
    /// share the connection.
    pub incremental: bool,
}

/// Default urgency (RFC 9218 section 4.1).
const URGENCY: u8 = 3;
const URGENCY_MAX: u8 = 7;

impl Priority {
    /// Priority of a request without the field. It is incremental, unlike the RFC's default: a
    /// client without priorities may wait for a small response while it slowly reads a large one.
    pub const UNSPECIFIED: Priority = Priority { urgency: URGENCY, incremental: true };

    /// Parses a Dictionary (RFC 9651 section 3.2). Unknown members and values out of range are
    /// ignored (RFC 9218 section 4).
    pub fn read(value: &[u8]) -> Priority {
        let mut read = Priority { urgency: URGENCY, incremental: false };
        for member in value.split(|&b| b == b',') {
            let member = member.trim_ascii();
            if let Some(urgency) = member.strip_prefix(b"u=").and_then(integer) {
                if let Some(urgency) = u8::try_from(urgency).ok().filter(|u| *u <= URGENCY_MAX) {
                    read.urgency = urgency;
                }
            } else if let Some(flag) = member.strip_prefix(b"i=").and_then(boolean) {
                read.incremental = flag;
            } else if member == b"i" || member.starts_with(b"i;") {
                read.incremental = true;
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values() {
        let rows = [
            ("nothing", "", 3, false),
            ("both", "u=5, i", 5, true),
            ("the other way round", "i,u=0", 0, true),
            ("the least urgent", "u=7", 7, false),
            ("no such urgency", "u=8, i", 3, true),
            ("far from it", "u=999999999999999", 3, false),
            ("below all", "u=-1", 3, false),
            ("no number", "u=x", 3, false),
            ("a flag with its value", "i=?1", 3, true),
            ("that it is not", "u=2, i=?0", 2, false),
            ("no flag", "i=1", 3, false),
            ("parameters", "u=1;a=b, i;c", 1, true),
            ("unknown members", "x=\"u=1\", in, ux=2, u=4", 4, false),
            ("the last one counts", "u=1, u=6", 6, false),
        ];
        for (why, value, urgency, incremental) in rows {
            assert_eq!(
                Priority::read(value.as_bytes()),
                Priority { urgency, incremental },
                "{why}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(value: Vec<u8>) {
            prop_assert!(Priority::read(&value).urgency <= URGENCY_MAX);
        }
    }
}
