//! An attempt to get a certificate. It is recorded as a failure before it begins, so that a crash
//! counts as one. One that a reload or a stop ends is taken back.

use super::storage::{Storage, Trial};

/// An attempt in progress.
pub(super) struct Attempt<'a> {
    storage: &'a Storage,
    /// The name and the names of the certificate.
    of: (&'a str, &'a [String]),
    /// The URL of the authority's directory.
    directory: String,
    /// The attempts before this one.
    before: Trial,
    /// The authority has issued or refused the certificate.
    pub(super) has_ended: bool,
}

impl<'a> Attempt<'a> {
    /// An attempt that is recorded already.
    pub(super) fn recorded(
        storage: &'a Storage,
        of: (&'a str, &'a [String]),
        directory: &str,
        before: Trial,
    ) -> Attempt<'a> {
        Attempt { storage, of, directory: directory.to_owned(), before, has_ended: false }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let (name, names) = self.of;
        // With an error the attempt counts, which only delays the next one.
        if let Ok(mut record) = self.storage.record(name, names) {
            record.trials.insert(self.directory.clone(), self.before.clone());
            let _ = self.storage.write_record(name, &record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::storage::Record;
    use super::*;

    #[test]
    fn an_attempt_that_a_reload_ends_does_not_delay_the_next_one() {
        let dir = std::env::temp_dir().join(format!("hurtle-attempt-{}", std::process::id()));
        let storage = Storage::open(&dir).unwrap();
        let names = ["a.example".to_owned()];
        for has_ended in [false, true] {
            let trial = Trial { attempts: 1, next: 77 };
            let trials = [("https://ca.example".to_owned(), trial)].into();
            let record = Record { names: names.to_vec(), trials, ..Record::default() };
            storage.write_record("a.example", &record).unwrap();
            let of = ("a.example", &names[..]);
            let before = Trial::default();
            let mut attempt = Attempt::recorded(&storage, of, "https://ca.example", before);
            attempt.has_ended = has_ended;
            drop(attempt);
            let kept = storage.record("a.example", &names).unwrap();
            let next = kept.trials["https://ca.example"].next;
            assert_eq!(next, if has_ended { 77 } else { 0 });
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
