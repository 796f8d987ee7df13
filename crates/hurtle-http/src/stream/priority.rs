//! Priorities of streams that are not open yet (RFC 9218 section 7).

use std::collections::VecDeque;

use crate::semantics::priority::Priority;

/// Maximum number of kept priorities; the oldest are dropped.
const EARLY_MAX: usize = 32;

/// Priorities of streams that are not open yet; the oldest first.
#[derive(Debug, Default)]
pub(crate) struct EarlyPriorities(VecDeque<(u64, Priority)>);

impl EarlyPriorities {
    pub(crate) fn put(&mut self, stream: u64, priority: Priority) {
        self.0.retain(|(of, _)| *of != stream);
        if self.0.len() == EARLY_MAX {
            self.0.pop_front();
        }
        self.0.push_back((stream, priority));
    }

    /// Takes the priority of a stream that opens, and drops those of earlier streams.
    pub(crate) fn take(&mut self, stream: u64) -> Option<Priority> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.0.iter().find(|(of, _)| *of == stream).map(|(_, priority)| *priority);
        self.0.retain(|(of, _)| *of > stream);
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_priorities_are_kept() {
        let mut early = EarlyPriorities::default();
        let urgent = |urgency| Priority { urgency, incremental: false };
        for stream in 0..40 {
            early.put(2 * stream + 1, urgent(1));
        }
        early.put(79, urgent(2));
        assert_eq!(early.0.len(), EARLY_MAX);
        assert_eq!((early.take(1), early.take(77)), (None, Some(urgent(1))));
        assert_eq!(early.take(79), Some(urgent(2)));
        assert_eq!(early.0.capacity(), 0);
    }
}
