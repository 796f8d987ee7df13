//! Names of a configuration that lead elsewhere while the server runs, such as the link to the
//! current release: the sandbox's permissions are for inodes, so only another process can have the
//! new ones. `control` replaces the process. Nothing here depends on requests.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::control::Reload;
use super::resolver;
use super::sandbox::{Name, Permissions, Sandbox};
use crate::config::Config;

/// Interval of looks at the names.
const PERIOD: Duration = Duration::from_millis(500);

/// Least pause after a look, as a multiple of the time that it took: at most one percent of a core.
const REST: u32 = 100;

/// Least time between two replacements of a process because of its names, in seconds.
const REPLACED_SECS_MIN: u64 = 60;

/// A name that leads to a file or directory that the sandbox refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StrayName {
    name: PathBuf,
    target: PathBuf,
}

impl fmt::Display for StrayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, target) = (self.name.display(), self.target.display());
        match self.name == self.target {
            true => write!(f, "{name} is another file or directory now, which ")?,
            false => write!(f, "{name} leads to {target} now, which ")?,
        }
        f.write_str("the sandbox of this process does not permit")
    }
}

/// Looks at the names of the configuration in force, again and again.
#[derive(Debug)]
pub(super) struct NameWatch {
    /// The configuration in force at the last look, without keeping it, and its names.
    known: Option<(Weak<Config>, Arc<BTreeSet<Name>>)>,
    /// Time of the next look.
    due: Instant,
    /// Earliest time of the next replacement.
    replaces_from: Instant,
    /// `true`: the log has the delay of the next replacement.
    is_delay_told: bool,
}

impl NameWatch {
    /// `is_replacement`: this process has replaced another one because of its names.
    pub(super) fn new(is_replacement: bool) -> NameWatch {
        let now = Instant::now();
        let pause = if is_replacement { REPLACED_SECS_MIN } else { 0 };
        let replaces_from = now + Duration::from_secs(pause);
        NameWatch { known: None, due: now + PERIOD, replaces_from, is_delay_told: false }
    }

    /// Waits until a name leads to what only the sandbox refuses, and the process may be replaced;
    /// without a sandbox, for ever.
    pub(super) async fn strayed(&mut self, reload: &Reload) {
        if matches!(*reload.sandbox, Sandbox::Absent(_)) {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep_until(self.due.into()).await;
            let (names, sandbox) = (self.names(&reload.config()), Arc::clone(&reload.sandbox));
            let begun = Instant::now();
            let look = move || {
                let resolver = resolver::looks_up_itself().then(Permissions::resolver_names);
                look(names.iter().cloned().chain(resolver.into_iter().flatten()), &sandbox)
            };
            // A look that panicked has found nothing.
            let found = tokio::task::spawn_blocking(look).await.ok().flatten();
            let now = Instant::now();
            self.due = now + PERIOD.max((now - begun) * REST);
            if found.is_some_and(|stray| self.decide(&stray, now)) {
                return;
            }
        }
    }

    /// Returns whether the process is replaced now, and tells the log.
    fn decide(&mut self, stray: &StrayName, now: Instant) -> bool {
        let delay = self.replaces_from.saturating_duration_since(now);
        if delay.is_zero() {
            tracing::warn!("{stray}: another process replaces it");
            self.replaces_from = now + Duration::from_secs(REPLACED_SECS_MIN);
            self.is_delay_told = false;
            return true;
        }
        if !std::mem::replace(&mut self.is_delay_told, true) {
            tracing::warn!(
                "{stray}: another process replaces it in {} s, because that happens once a minute \
                 at most; a reload does it at once",
                delay.as_secs() + 1
            );
        }
        false
    }

    /// The names of a configuration.
    fn names(&mut self, config: &Arc<Config>) -> Arc<BTreeSet<Name>> {
        if let Some((known, names)) = &self.known
            && known.as_ptr() == Arc::as_ptr(config)
        {
            return Arc::clone(names);
        }
        // A configuration without a sandbox is put in force by another process.
        let names = Permissions::of(config, None).map(Permissions::into_names);
        let names = Arc::new(names.unwrap_or_default());
        self.known = Some((Arc::downgrade(config), Arc::clone(&names)));
        names
    }
}

/// Returns the first name that leads to what only the sandbox refuses.
fn look(mut names: impl Iterator<Item = Name>, sandbox: &Sandbox) -> Option<StrayName> {
    names.find_map(|name| {
        let target = sandbox.refused(&name)?;
        Some(StrayName { name: name.path, target })
    })
}

/// Tells the log that a replacement has failed.
pub(super) fn tell_failed() {
    tracing::error!(
        "the sandbox still refuses what a name leads to; another process is started in \
         {REPLACED_SECS_MIN} s"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_replaced_at_most_once_a_minute() {
        let minute = Duration::from_secs(REPLACED_SECS_MIN);
        let stray = StrayName { name: "/a".into(), target: "/b".into() };
        let begun = Instant::now();
        let mut first = NameWatch::new(false);
        let rows = [(1, true), (2, false), (60, false), (61, true), (62, false)];
        for (secs, expected) in rows {
            let now = begun + Duration::from_secs(secs);
            assert_eq!(first.decide(&stray, now), expected, "after {secs} s");
        }
        let mut second = NameWatch::new(true);
        assert!(!second.decide(&stray, begun), "the process before was replaced just now");
        assert!(second.decide(&stray, begun + minute + PERIOD));
    }
}
