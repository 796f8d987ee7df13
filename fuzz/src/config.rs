//! `config`: configuration files.

use std::path::Path;

use hurtle_config::{check, print};

/// An accepted configuration is printed and parsed back to the same. A refused one has at least one
/// problem, and all problems lie within the text.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = Path::new("/srv/hurtle.toml");
    match check(text, file) {
        Ok(config) => {
            let printed = print(&config);
            assert_eq!(check(&printed, file), Ok(config), "read back from:\n{printed}");
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a problem");
            for position in problems.iter().filter_map(|problem| problem.position) {
                assert!((1..=text.lines().count() + 1).contains(&position.line), "{problems:?}");
            }
        }
    }
}
