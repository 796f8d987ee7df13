//! `config`: configuration files.

use std::path::Path;

use hurtle::config::{check, print};

/// What was accepted can be printed and read back to the same; what was not is refused with problems
/// that lie within the text.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = Path::new("/srv/hurtle.toml");
    match check(text, file) {
        Ok(meant) => {
            let printed = print(&meant);
            assert_eq!(check(&printed, file), Ok(meant), "read back from:\n{printed}");
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a problem");
            for place in problems.iter().filter_map(|problem| problem.place) {
                assert!((1..=text.lines().count() + 1).contains(&place.line), "{problems:?}");
            }
        }
    }
}
