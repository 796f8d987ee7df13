//! Checks the name of an uploaded file. Pure. The path is decoded and has no dot segments.

use super::error::UploadError;

/// Suffixes of encoded variants, which are served in place of the original (`files::lookup`).
const SIDECARS: [&[u8]; 3] = [b".br", b".zst", b".gz"];

/// The position of a file beneath the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Its directory; empty for the root.
    pub(super) directory: Vec<u8>,
    /// Its name: not empty, not `.` or `..`, without slash and NUL.
    pub(super) name: Vec<u8>,
}

impl Target {
    /// Parses a path relative to the mount. `sidecars` means that encoded variants are served.
    pub(super) fn of(rest: &[u8], sidecars: bool) -> Result<Target, UploadError> {
        let cut = rest.iter().rposition(|&b| b == b'/');
        let (directory, name) = match cut {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (&rest[..0], rest),
        };
        if name.is_empty() {
            return Err(UploadError::DIRECTORY);
        }
        // Uploads must not change `.well-known`, which proves control of the site, or hide files
        // from listings. This also excludes `.`, `..` and unfinished uploads.
        if rest.split(|&b| b == b'/').any(|segment| segment.starts_with(b".")) {
            return Err(UploadError::HIDDEN);
        }
        if rest.contains(&0) {
            return Err(UploadError::NAME);
        }
        if sidecars && SIDECARS.iter().any(|suffix| ends_with(name, suffix)) {
            return Err(UploadError::SIDECAR);
        }
        Ok(Target { directory: directory.to_vec(), name: name.to_vec() })
    }
}

/// Compares in any case: some file systems are case-insensitive.
fn ends_with(name: &[u8], suffix: &[u8]) -> bool {
    let end = name.len().checked_sub(suffix.len()).map(|at| &name[at..]);
    end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_has_a_directory_and_a_name() {
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
    fn refused_names() {
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
        fn accepted_names_are_one_file_beneath_the_root(rest: Vec<u8>) {
            if let Ok(Target { directory, name }) = Target::of(&rest, true) {
                prop_assert!(!name.is_empty() && !name.contains(&b'/') && !rest.contains(&0));
                prop_assert!(!name.starts_with(b".") && !directory.split(|b| *b == b'/').any(|s| s.starts_with(b".")));
            }
        }
    }
}
