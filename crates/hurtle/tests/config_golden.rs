//! Golden files of the configuration: each tests/golden/config/*.txt holds TOML, a line of dashes,
//! and `ok` or the problems. Also checks docs/config.md against the schema.
//!
//! A new case is a file with its TOML only. `HURTLE_BLESS=1 cargo test -p hurtle --test
//! config_golden` writes the rest; read it before you commit it.

use std::fs;
use std::path::{Path, PathBuf};

use hurtle::config::{Config, ConfigError, Site, check, manifest, print, reference};

/// The command that updates stale files.
const REFRESH: &str = "HURTLE_BLESS=1 cargo test -p hurtle --test config_golden";
/// Separates the TOML from the outcome.
const RULE: &str = "----------\n";
/// The file name in problems.
const FILE: &str = "hurtle.toml";
/// Fewer files mean that the directory was not found.
const CASES_MIN: usize = 30;

#[test]
fn every_configuration_has_the_outcome_of_its_file() {
    let cases = cases();
    assert!(cases.len() >= CASES_MIN, "only {} golden files", cases.len());
    let mut stale = Vec::new();
    for case in cases {
        let written = read(&case);
        let (toml, _) = written.split_once(RULE).unwrap_or((&written, ""));
        assert!(toml.starts_with("# "), "{}: its first line describes the case", case.display());
        let answered = format!("{toml}{RULE}{}", outcome(toml));
        if !fresh(&case, &written, &answered) {
            stale.push(format!("{}:\n{}", case.display(), outcome(toml)));
        }
    }
    assert!(stale.is_empty(), "changed; to accept the changes: {REFRESH}\n\n{}", stale.join("\n"));
}

#[test]
fn a_valid_configuration_is_printed_and_read_back_equal() {
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

/// Blocks of TOML in the documents; fewer mean that they were not found.
const BLOCKS_MIN: usize = 19;

#[test]
fn the_examples_of_the_documents_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = fs::read_dir(root.join("docs")).expect("the documents are there");
    let mut pages: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // deathmatch.md shows configurations of another program.
    pages.retain(|page| page.extension().is_some_and(|md| md == "md"));
    pages.retain(|page| !page.ends_with("deathmatch.md"));
    // Object stores are refused by a build without them.
    let has_stores = cfg!(feature = "object-store");
    pages.retain(|page| has_stores || !page.ends_with("object-stores.md"));
    pages.push(root.join("README.md"));
    let mut count = 0;
    for page in pages {
        let text = read(&page);
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap_or("");
            assert_eq!(shown(block), "ok\n", "{}:\n{block}", page.display());
            count += 1;
        }
    }
    assert!(count >= BLOCKS_MIN, "only {count} blocks");
}

/// The outcome of a block of a document: a configuration, a part of one, or a manifest.
fn shown(block: &str) -> String {
    let first = block.lines().next().unwrap_or("");
    let tls = "listen_tls = \"127.0.0.1:8443\"\n";
    match first {
        "[acme]" => outcome(&format!(
            "{tls}site = [{{ hosts = \"a.example.org\", tls = {{ certificate = \"auto\" }}, \
             mount = [{{ files = \"/srv\" }}] }}]\n{block}"
        )),
        "[site.tls]" => outcome(&format!(
            "{tls}[[site]]\nhosts = \"a\"\n{block}[[site.mount]]\nfiles = \"/srv\"\n"
        )),
        _ if first.ends_with("/app.toml") => {
            let site = Site { default: true, ..Site::new() };
            format_problems(manifest(block, Path::new("app.toml"), &Config::new(vec![site])))
        }
        _ => outcome(block),
    }
}

/// `ok`, or the problems, one line each.
fn outcome(toml: &str) -> String {
    format_problems(check(toml, Path::new(FILE)))
}

fn format_problems<T>(checked: Result<T, Vec<ConfigError>>) -> String {
    match checked {
        Ok(_) => "ok\n".to_owned(),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

/// `true` if a file is up to date; updates it if `HURTLE_BLESS` is set.
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
