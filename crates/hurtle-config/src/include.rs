//! Finds the files that a configuration includes, and reads them. `document` joins the texts.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use hurtle_http::semantics::glob;
use toml::de::{DeTable, DeValue};

use super::config::TOP;
use super::error::{ConfigError, ValueError, shown};
use super::load::text;
use super::placeholder::{Resolve, replace};
use super::reader::{KeyPosition, Reader};
use super::sources::Sources;

/// The key of the files.
pub(super) const INCLUDE: &str = "include";

/// Most files of a configuration.
const FILES_MAX: usize = 4_096;

/// A configuration with the files that it includes.
#[derive(Debug)]
pub(super) struct Included {
    pub(super) sources: Sources,
    /// Files that cannot be included.
    pub(super) problems: Vec<(KeyPosition, ValueError)>,
    /// The included files, and the directories whose entries decide which ones are: a reload reads
    /// them.
    pub(super) names: Vec<PathBuf>,
    /// Number of the text in which each text is included, and the path of each without links.
    known: Vec<(Option<usize>, PathBuf)>,
}

/// A pattern of `include`.
#[derive(Debug)]
struct Pattern {
    spot: KeyPosition,
    text: String,
}

impl Included {
    /// Reads the files that a text includes, those that they include, and so on.
    pub(super) fn read(main: &str, file: &Path, resolve: Resolve) -> Included {
        let path = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let mut included = Included {
            sources: Sources::new(main, file),
            problems: Vec::new(),
            names: Vec::new(),
            known: vec![(None, path)],
        };
        let mut number = 0;
        while number < included.sources.len() {
            for pattern in included.patterns(number, resolve) {
                if let Err(wrong) = included.add_matches(&pattern, number) {
                    included.problems.push((pattern.spot, wrong));
                }
            }
            number += 1;
        }
        included
    }

    /// The patterns of a text. `check` reports those of a wrong type.
    fn patterns(&self, number: usize, resolve: Resolve) -> Vec<Pattern> {
        let mut reader = Reader::new(&self.sources).resolving_by(resolve);
        let Some(source) = self.sources.get(number) else { return Vec::new() };
        let keys = source.parse().0.into_iter();
        let mut table: DeTable<'_> = keys.filter(|(name, _)| name.get_ref() == INCLUDE).collect();
        replace(&mut table, &TOP, &mut reader);
        let Some(written) = table.get(INCLUDE) else { return Vec::new() };
        let items = match written.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![written],
        };
        let pattern = |item: &toml::Spanned<DeValue<'_>>| {
            let spot = KeyPosition { key: INCLUDE.to_owned(), at: item.span().start };
            Some(Pattern { spot, text: item.get_ref().as_str()?.to_owned() })
        };
        items.into_iter().filter_map(pattern).collect()
    }

    /// Adds the files that match a pattern, sorted by name.
    fn add_matches(&mut self, pattern: &Pattern, number: usize) -> Result<(), ValueError> {
        let written = Path::new(&pattern.text);
        if pattern.text.is_empty() || pattern.text.contains('\0') {
            let wrong = ValueError::new(format!("{} is not a path", shown(&pattern.text)));
            return Err(wrong.hint("write for example \"sites/*.toml\""));
        }
        if pattern.text.contains("**") {
            let wrong = ValueError::new(format!("{} has two stars", shown(&pattern.text)));
            return Err(wrong.hint("* stands for a part of one name; write */ for each directory"));
        }
        let including = self.sources.get(number).map_or(Path::new(""), |source| &source.file);
        let base = including.parent().unwrap_or(Path::new("")).to_owned();
        let is_pattern = pattern.text.contains('*');
        for file in self.matches(base, written)? {
            self.add(file, number, is_pattern)?;
        }
        Ok(())
    }

    /// Returns the paths that match a pattern. A name that begins with a dot is not matched by one
    /// that begins with a star, as in a shell.
    fn matches(&mut self, base: PathBuf, pattern: &Path) -> Result<Vec<PathBuf>, ValueError> {
        let (mut found, mut is_pattern) = (vec![base], false);
        for component in pattern.components() {
            let Component::Normal(name) = component else {
                found.iter_mut().for_each(|path| path.push(component));
                continue;
            };
            let Some(name) = name.to_str().filter(|name| name.contains('*')) else {
                found.iter_mut().for_each(|path| path.push(component));
                continue;
            };
            let mut beneath = Vec::new();
            for directory in found {
                if is_pattern && !directory.is_dir() {
                    continue;
                }
                is_pattern = true;
                self.names.push(absolute(&directory));
                beneath.extend(entries(&directory, name)?);
            }
            found = beneath;
        }
        // A directory that a pattern matches may lack the rest.
        found.retain(|path| !is_pattern || path.symlink_metadata().is_ok());
        Ok(found)
    }

    /// Adds a file unless it is known: one that two patterns match is read once.
    fn add(&mut self, file: PathBuf, number: usize, is_pattern: bool) -> Result<(), ValueError> {
        self.names.push(absolute(&file));
        let path = file.canonicalize().map_err(|e| {
            let wrong = ValueError::new(format!("{}: {e}", file.display()));
            wrong.hint("relative paths are relative to the file that includes them")
        })?;
        if let Some(known) = self.known.iter().position(|(_, other)| *other == path) {
            return match is_pattern || !self.is_including(known, number) {
                true => Ok(()),
                false => {
                    let wrong = format!("{} would include itself", file.display());
                    Err(ValueError::new(wrong).hint("remove it"))
                }
            };
        }
        if self.known.len() >= FILES_MAX {
            return Err(ValueError::new(format!("more than {FILES_MAX} files")));
        }
        // A FIFO would wait for a writer.
        if !path.is_file() {
            let wrong = ValueError::new(format!("{} is not a file", file.display()));
            return Err(wrong.hint("write for example \"sites/*.toml\""));
        }
        let text = text(&file).map_err(|problem| {
            ValueError::new(ConfigError { hint: None, ..*problem }.to_string())
        })?;
        self.known.push((Some(number), path));
        self.sources.add(text, file);
        Ok(())
    }

    /// `true`: the text `ancestor` is `number`, or includes it.
    fn is_including(&self, ancestor: usize, number: usize) -> bool {
        let above = |number: &usize| self.known.get(*number).and_then(|(above, _)| *above);
        std::iter::successors(Some(number), above).any(|number| number == ancestor)
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| {
        // The directory of a file without one.
        std::env::current_dir().unwrap_or_default()
    })
}

/// Returns the entries of a directory that match a pattern of one name, sorted.
fn entries(directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, ValueError> {
    let opened = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let shown = opened.display();
    let failed = |e: std::io::Error| {
        let wrong = ValueError::new(format!("{shown}: {e}"));
        wrong.hint("relative paths are relative to the file that includes them")
    };
    let opened = match fs::read_dir(opened) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in opened {
        let name = entry.map_err(failed)?.file_name();
        let Some(text) = name.to_str() else { continue };
        let is_hidden = text.starts_with('.') && pattern.starts_with('*');
        if !is_hidden && glob::captures(pattern, text.as_bytes()).is_some() {
            names.push(text.to_owned());
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::load::load;
    use super::*;

    /// A test's own directory, removed when dropped.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Loads a file beside others; returns the names of the sites, or the problems.
    fn loaded(name: &str, main: &str, others: &[(&str, &str)]) -> Result<Vec<String>, Vec<String>> {
        let dir =
            std::env::temp_dir().join(format!("hurtle-include-{}-{name}", std::process::id()));
        let scratch = Scratch(dir.clone());
        fs::create_dir_all(&dir).unwrap();
        for (file, text) in others.iter().chain([&("main.toml", main)]) {
            let file = dir.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let shown = format!("{}/", scratch.0.display());
        match load(&dir.join("main.toml")) {
            Ok(config) => Ok(config.sites.iter().map(super::super::Site::name).collect()),
            Err(problems) => {
                Err(problems.iter().map(|p| p.to_string().replace(&shown, "")).collect())
            }
        }
    }

    fn site(name: &str) -> String {
        format!("[[site]]\nhosts = \"{name}\"\n[[site.mount]]\nfiles = \".\"\n")
    }

    #[test]
    fn included_files_are_parts_of_the_configuration() {
        let (a, b, c) = (site("a"), site("b"), site("c"));
        let nested = format!("include = \"more/c.toml\"\n{a}");
        let rows: [(&str, &str, &[(&str, &str)], &[&str]); 9] = [
            ("a file", "include = 'a.toml'", &[("a.toml", &a)], &["a"]),
            (
                "a pattern, sorted by name, without hidden and other files",
                "include = ['s/*.toml']",
                &[("s/2.toml", &a), ("s/1.toml", &b), ("s/.3.toml", "?"), ("s/1.toml~", "?")],
                &["b", "a"],
            ),
            (
                "a pattern of directories, and a file beside them",
                "include = ['*/site.toml']",
                &[("y/site.toml", &a), ("x/site.toml", &b), ("z/other.toml", "?")],
                &["b", "a"],
            ),
            (
                "a pattern that matches nothing",
                &format!("include = ['s/*', 'x*']\n{a}"),
                &[],
                &["a"],
            ),
            (
                "an included file includes, relative to itself",
                "include = ['s/a.toml']",
                &[("s/a.toml", &nested), ("s/more/c.toml", &c)],
                &["a", "c"],
            ),
            (
                "a file that two patterns match is read once",
                "include = ['a.toml', '*.toml', 's/../a.toml']",
                &[("a.toml", &a), ("s/b", "?")],
                &["a"],
            ),
            (
                "any key may stand in an included file",
                &format!("include = 'log.toml'\n{a}"),
                &[("log.toml", "[access_log]\nformat = 'brief'")],
                &["a"],
            ),
            (
                "a placeholder in a pattern",
                "include = ['{env.HURTLE_NO_SUCH_VARIABLE:s}/*.toml']",
                &[("s/a.toml", &a)],
                &["a"],
            ),
            (
                "roots are relative to the file that names them",
                "include = ['s/a.toml']",
                &[("s/a.toml", &a.replace("\".\"", "\"in\"")), ("s/in/x", "")],
                &["a"],
            ),
        ];
        for (number, (sentence, main, others, want)) in rows.into_iter().enumerate() {
            let found = loaded(&format!("parts{number}"), main, others);
            assert_eq!(
                found,
                Ok(want.iter().map(|name| (*name).to_owned()).collect()),
                "{sentence}"
            );
        }
    }

    #[test]
    fn problems_name_the_file_and_the_line() {
        let (a, b) = (site("a"), site("b"));
        let rows: [(&str, &str, &[(&str, &str)], &[&str]); 9] = [
            (
                "a file that does not exist",
                &format!("include = ['a.toml']\n{b}"),
                &[],
                &[
                    "main.toml:1:12: include: a.toml: No such file or directory (os error 2); relative \
                   paths are relative to the file that includes them",
                ],
            ),
            (
                "a directory",
                &format!("include = 's'\n{b}"),
                &[("s/a", "")],
                &["main.toml:1:11: include: s is not a file; write for example \"sites/*.toml\""],
            ),
            (
                "a cycle",
                &format!("include = 'a.toml'\n{b}"),
                &[("a.toml", "include = 'b.toml'"), ("b.toml", "# \n\ninclude = 'a.toml'")],
                &["b.toml:3:11: include: a.toml would include itself; remove it"],
            ),
            (
                "a key of two files",
                &format!("backlog = 1\ninclude = 'a.toml'\n{b}"),
                &[("a.toml", "\nbacklog = 2")],
                &[
                    "a.toml:2:1: backlog: the key is already set in main.toml:1; remove one of the two",
                ],
            ),
            (
                "a name of two files",
                &format!("include = 'a.toml'\n{a}"),
                &[("a.toml", &format!("\n{a}"))],
                &[
                    "a.toml:3:9: site[1].hosts: the name is already taken by site[0] (main.toml:2); \
                   remove one of the two",
                ],
            ),
            (
                "a missing root of an included file",
                "include = 's/a.toml'",
                &[("s/a.toml", &a.replace("\".\"", "\"gone\""))],
                &[
                    "s/a.toml:4:9: site[0].mount[0].files: s/gone: No such file or directory (os error \
                   2); relative paths are relative to the configuration file",
                ],
            ),
            (
                "a syntax error in the middle of the files",
                "include = ['a.toml', 'b.toml']",
                &[("a.toml", "\nuser = x"), ("b.toml", &b)],
                &["a.toml:2:8: a string needs quotes; write \"x\""],
            ),
            (
                "problems of three files, in the order of the files",
                &format!("include = ['a.toml', 'b.toml']\nbacklog = 0\n{a}"),
                &[("b.toml", "drain = 'x'"), ("a.toml", "workers = 0")],
                &[
                    "main.toml:2:11: backlog: out of range; write 1 to 65535",
                    "a.toml:1:11: workers: out of range; write 1 to 1024, or leave the key out: one for each processor",
                    "b.toml:1:9: drain: \"x\" is not a number with a unit; write \"75s\"",
                ],
            ),
            (
                "two stars",
                &format!("include = '**/*.toml'\n{a}"),
                &[],
                &[
                    "main.toml:1:11: include: \"**/*.toml\" has two stars; * stands for a part of one \
                   name; write */ for each directory",
                ],
            ),
        ];
        for (number, (sentence, main, others, want)) in rows.into_iter().enumerate() {
            let found = loaded(&format!("problems{number}"), main, others).unwrap_err();
            assert_eq!(found, want, "{sentence}");
        }
    }
}
