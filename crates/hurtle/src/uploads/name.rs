//! Which names may be uploaded to: pure. A path comes decoded, its dots resolved.

use super::refusal::Refusal;

/// How a name ends that is served in place of the one without (`files::lookup`).
const SIDECARS: [&[u8]; 3] = [b".br", b".zst", b".gz"];

/// A file's place beneath the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Its directory; empty is the root.
    pub(super) directory: Vec<u8>,
    /// Its name in there: not empty, not `.` or `..`, no slash and no NUL.
    pub(super) name: Vec<u8>,
}

impl Target {
    /// Of a path beneath the mount. `sidecars`: encoded variants are served here.
    pub(super) fn of(rest: &[u8], sidecars: bool) -> Result<Target, Refusal> {
        let cut = rest.iter().rposition(|&b| b == b'/');
        let (directory, name) = match cut {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (&rest[..0], rest),
        };
        if name.is_empty() {
            return Err(Refusal::DIRECTORY);
        }
        // Whoever may upload must not become the one that `.well-known` speaks for, or leave what
        // no listing shows. It also keeps out `.`, `..` and the names of unfinished files.
        if rest.split(|&b| b == b'/').any(|segment| segment.starts_with(b".")) {
            return Err(Refusal::HIDDEN);
        }
        if rest.contains(&0) {
            return Err(Refusal::NAME);
        }
        if sidecars && SIDECARS.iter().any(|suffix| ends_with(name, suffix)) {
            return Err(Refusal::SIDECAR);
        }
        Ok(Target { directory: directory.to_vec(), name: name.to_vec() })
    }
}

/// In any case: not every file system knows one.
fn ends_with(name: &[u8], suffix: &[u8]) -> bool {
    let end = name.len().checked_sub(suffix.len()).map(|at| &name[at..]);
    end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_has_a_place() {
        let rows =
            [("a.txt", "", "a.txt"), ("d/e/a", "d/e", "a"), ("a b", "", "a b"), ("gz", "", "gz")];
        for (rest, directory, name) in rows {
            let target = Target::of(rest.as_bytes(), true).unwrap();
            assert_eq!(
                (&*target.directory, &*target.name),
                (directory.as_bytes(), name.as_bytes())
            );
        }
        assert!(Target::of(b"a.tar.gz", false).is_ok(), "where none are served, none is one");
    }

    #[test]
    fn what_is_not_for_uploads() {
        let rows: [&[u8]; 14] = [
            b"",
            b"d/",
            b".",
            b"..",
            b"../a",
            b".hidden",
            b"d/.hidden",
            b".git/config",
            b".well-known/acme-challenge/x",
            b".hurtle-upload-1",
            b"a.gz",
            b"A.BR",
            b"a.html.zst",
            b"a\0b",
        ];
        for rest in rows {
            assert!(Target::of(rest, true).is_err(), "{}", rest.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_names_one_file_beneath_the_root(rest: Vec<u8>) {
            if let Ok(Target { directory, name }) = Target::of(&rest, true) {
                prop_assert!(!name.is_empty() && !name.contains(&b'/') && !rest.contains(&0));
                prop_assert!(!name.starts_with(b".") && !directory.split(|b| *b == b'/').any(|s| s.starts_with(b".")));
            }
        }
    }
}
