//! `cache_control`: directives of Cache-Control and of targeted fields.

use hurtle_http::semantics::caching::{Directives, SECONDS_MAX};

/// Times are bounded. Parsing a line twice changes nothing. `no-store` is found after any prefix
/// without an open quote.
pub fn cache_control(line: &[u8]) {
    let mut once = Directives::default();
    once.read(line);
    for directives in [Some(once), Directives::targeted(line)].into_iter().flatten() {
        let times = [
            directives.max_age,
            directives.s_maxage,
            directives.max_stale,
            directives.min_fresh,
            directives.stale_while_revalidate,
            directives.stale_if_error,
        ];
        assert!(times.into_iter().flatten().all(|time| time <= SECONDS_MAX), "{directives:?}");
    }
    let mut twice = once;
    twice.read(line);
    assert_eq!(once, twice);
    if !line.contains(&b'"') {
        let extended = [line, b", no-store"].concat();
        let mut directives = Directives::default();
        directives.read(&extended);
        assert!(directives.no_store);
    }
}
