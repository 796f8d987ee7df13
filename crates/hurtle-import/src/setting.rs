//! A setting that blocks inherit, with the directives that set it.

use std::collections::BTreeSet;

use super::kind::Kind;

/// A value that can be read only by a translation, which thereby takes its directives.
#[derive(Clone, Debug)]
pub(super) struct Setting<T> {
    kinds: &'static [Kind],
    value: T,
}

impl<T: Default> Setting<T> {
    /// The default value of what these directives set.
    pub(super) fn of(kinds: &'static [Kind]) -> Setting<T> {
        Setting { kinds, value: T::default() }
    }
}

impl<T> Setting<T> {
    /// Reads the value, and adds its directives to those that are translated.
    pub(super) fn take(&self, taken: &mut BTreeSet<Kind>) -> &T {
        taken.extend(self.kinds);
        &self.value
    }

    /// The directives that set it.
    pub(super) fn kinds(&self) -> &'static [Kind] {
        self.kinds
    }

    /// The value, to choose a translation that takes its directives.
    pub(super) fn peek(&self) -> &T {
        &self.value
    }

    /// The value, to be changed by a directive.
    pub(super) fn edit(&mut self) -> &mut T {
        &mut self.value
    }

    pub(super) fn set(&mut self, value: T) {
        self.value = value;
    }
}
