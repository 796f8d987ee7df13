//! `caddyfile`: the importer of Caddyfiles.

use hurtle_import::caddy::caddy;

/// Most bytes of an input: an import may repeat a snippet many times.
const INPUT_BYTES_MAX: usize = 4 << 10;

/// A Caddyfile is refused with a reason, or translated to a valid configuration; a part of it is,
/// only if it is not translated as a whole.
pub fn caddyfile(data: &[u8]) {
    let data = data.get(..INPUT_BYTES_MAX).unwrap_or(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let whole = caddy(text, false);
    match (&whole, caddy(text, true)) {
        (Ok(whole), Ok(partial)) => assert_eq!(whole, &partial),
        (Err(_), Ok(partial)) => assert!(partial.left_out > 0, "{}", partial.text),
        (whole, Err(problems)) => {
            assert!(whole.is_err(), "{problems:?}");
            assert!(problems.iter().all(|problem| !problem.is_empty()));
        }
    }
    if let Err(problems) = whole {
        assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.is_empty()));
    }
}
