//! Configurations and what the server says to them, one sin a file: tests/golden/config/*.txt, each
//! `TOML`, a line of dashes, and `ok` or the problems. And docs/config.md, held against the schema.
//!
//! A new case is a file with its TOML alone; `HURTLE_BLESS=1 cargo test -p hurtle --test
//! config_golden` writes the rest, for its author to read before it is committed.

use std::fs;
use std::path::{Path, PathBuf};

use hurtle::config::{check, print, reference};

/// What refreshes whatever is stale here.
const REFRESH: &str = "HURTLE_BLESS=1 cargo test -p hurtle --test config_golden";
/// Between what is given and what comes of it.
const RULE: &str = "----------\n";
/// What the configurations are called in their problems.
const FILE: &str = "hurtle.toml";
/// Fewer files than this means that they were not found.
const CASES_MIN: usize = 30;

#[test]
fn every_configuration_is_answered_as_its_file_says() {
    let cases = cases();
    assert!(cases.len() >= CASES_MIN, "only {} golden files", cases.len());
    let mut stale = Vec::new();
    for case in cases {
        let written = read(&case);
        let (toml, _) = written.split_once(RULE).unwrap_or((&written, ""));
        assert!(toml.starts_with("# "), "{}: its first line says what is wrong", case.display());
        let answered = format!("{toml}{RULE}{}", outcome(toml));
        if !fresh(&case, &written, &answered) {
            stale.push(format!("{}:\n{}", case.display(), outcome(toml)));
        }
    }
    assert!(stale.is_empty(), "changed; if that is meant: {REFRESH}\n\n{}", stale.join("\n"));
}

#[test]
fn a_good_configuration_is_printed_as_it_is_read() {
    for case in cases() {
        let written = read(&case);
        let (toml, _) = written.split_once(RULE).unwrap_or((&written, ""));
        if let Ok(config) = check(toml, Path::new(FILE)) {
            let printed = print(&config);
            let again = check(&printed, Path::new("/another/place/hurtle.toml"));
            assert_eq!(again, Ok(config), "{}:\n{printed}", case.display());
        }
    }
}

#[test]
fn the_reference_page_is_the_schema() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let written = fs::read_to_string(&page).unwrap_or_default();
    assert!(fresh(&page, &written, &reference()), "docs/config.md is stale: {REFRESH}");
}

#[test]
fn what_the_documents_offer_to_copy_is_right() {
    for (page, least) in [("proxy.md", 5), ("fastcgi.md", 3), ("cache.md", 1)] {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = read(&page);
        let configs: Vec<&str> = text.split("```toml\n").skip(1).collect();
        assert!(configs.len() >= least, "only {} in {}", configs.len(), page.display());
        for config in configs {
            let config = config.split("```").next().unwrap_or("");
            assert_eq!(outcome(config), "ok\n", "{}:\n{config}", page.display());
        }
    }
}

/// `ok`, or the problems, a line each.
fn outcome(toml: &str) -> String {
    match check(toml, Path::new(FILE)) {
        Ok(_) => "ok\n".to_owned(),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

/// Whether a file is as it should be; it is made so when asked.
fn fresh(file: &Path, written: &str, wanted: &str) -> bool {
    if written != wanted && std::env::var_os("HURTLE_BLESS").is_some() {
        fs::write(file, wanted).expect("a blessed file can be written");
        return true;
    }
    written == wanted
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/config");
    let entries = fs::read_dir(folder).expect("the golden files are beside this file");
    let mut cases: Vec<PathBuf> = (entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    cases.sort();
    cases
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
