//! `cache_control`: what a Cache-Control field says.

use hurtle::semantics::caching::{Directives, SECONDS_MAX};

/// Times are bounded; a line read twice says nothing new; `no-store` is seen whatever stands before
/// it, as long as no quote is left open.
pub fn cache_control(line: &[u8]) {
    let mut once = Directives::default();
    once.read(line);
    let times = [
        once.max_age,
        once.s_maxage,
        once.max_stale,
        once.min_fresh,
        once.stale_while_revalidate,
        once.stale_if_error,
    ];
    assert!(times.into_iter().flatten().all(|time| time <= SECONDS_MAX), "{once:?}");
    let mut twice = once;
    twice.read(line);
    assert_eq!(once, twice);
    if !line.contains(&b'"') {
        let said = [line, b", no-store"].concat();
        let mut directives = Directives::default();
        directives.read(&said);
        assert!(directives.no_store);
    }
}
