//! The examples of docs/from-nginx.md and docs/from-apache.md: each block for the other server,
//! imported, is the block for hurtle below it.

use std::fs;
use std::path::Path;

use hurtle::config::check;
use hurtle::import::htaccess::{Options, Tree, htaccess};
use hurtle::import::nginx;
use hurtle::import::syntax::parse;

/// Pairs in the document; fewer mean that they were not found.
const PAIRS_MIN: usize = 20;
const PAIRS_OF_APACHE_MIN: usize = 15;

#[test]
fn the_configurations_for_nginx_are_those_for_hurtle() {
    let count = compare("from-nginx.md", "nginx", |theirs| {
        nginx(&parse(theirs, "nginx.conf").expect(theirs))
    });
    assert!(count >= PAIRS_MIN, "only {count} pairs");
}

#[test]
fn the_htaccess_files_are_those_for_hurtle() {
    let count = compare("from-apache.md", "htaccess", |theirs| {
        // The first line has the hosts, and the names of directories.
        let first = theirs.lines().next().unwrap_or_default();
        let hosts = first.split("--host ").skip(1).map(|host| host.trim().to_owned()).collect();
        let directories = match first.split_once("the directories ") {
            Some((_, names)) => names.split(" and ").map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let tree = Tree { directories, ..Tree::empty("/srv/www") };
        htaccess(theirs, &tree, &Options { hosts, fastcgi: None }, false)
            .map(|imported| imported.text)
    });
    assert!(count >= PAIRS_OF_APACHE_MIN, "only {count} pairs");
}

/// Compares the imports of the blocks of a language with the blocks for hurtle; returns their
/// number.
fn compare(
    page: &str,
    language: &str,
    import: impl Fn(&str) -> Result<String, Vec<String>>,
) -> usize {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(page).expect("the document is there");
    let mut count = 0;
    for pair in text.split(&format!("```{language}\n")).skip(1) {
        let (theirs, rest) = pair.split_once("```").expect("the block ends");
        let Some((between, ours)) = rest.split_once("```toml\n") else { continue };
        assert!(
            !between.contains("```"),
            "a block for hurtle follows one for {language}:\n{theirs}"
        );
        let ours = ours.split("```").next().unwrap_or("");
        let file = Path::new("/etc/hurtle/hurtle.toml");
        let expected = check(ours, file).unwrap_or_else(|e| panic!("{ours}\n{e:?}"));
        let imported =
            import(theirs).unwrap_or_else(|problems| panic!("{theirs}\n{}", problems.join("\n")));
        let imported = check(&imported, file).expect("an import is valid");
        assert_eq!(imported, expected, "{theirs}");
        count += 1;
    }
    count
}

#[test]
fn the_configurations_for_caddy_are_imported() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/from-caddy.md");
    let text = fs::read_to_string(page).expect("the document is there");
    let mut faults = Vec::new();
    for pair in text.split("```text\n").skip(1) {
        let (theirs, _) = pair.split_once("```").expect("the block ends");
        // That of a plugin is described, not imported.
        if theirs.contains("rate_limit") {
            continue;
        }
        if let Err(problems) = hurtle::import::caddy::caddy(theirs, false) {
            faults.push(format!("{theirs}\n{}", problems.join("\n")));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
