//! Reads a Caddyfile, and puts snippets and files in the place of their `import`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::include::{matching, text_of};
use crate::syntax::Directive;

use super::pattern::has_variable;
use super::syntax::{parse, parse_part};

/// Deepest nesting of imports.
const DEPTH_MAX: usize = 16;

/// Number of directives after all imports.
const DIRECTIVES_MAX: usize = 100_000;

/// Reads a file. Relative names of `import` are looked up beside the file that has it.
///
/// # Errors
/// Every import and file that cannot be read, one line each.
pub(super) fn read(file: &Path) -> Result<Vec<Directive>, Vec<String>> {
    let text = text_of(file).map_err(|problem| vec![problem])?;
    expand(&text, &file.display().to_string(), true)
}

/// Parses a text. `reads_files`: `import` may name files.
///
/// # Errors
/// As for `read`.
pub(super) fn expand(
    text: &str,
    file: &str,
    reads_files: bool,
) -> Result<Vec<Directive>, Vec<String>> {
    let blocks = parse(text, file).map_err(|e| vec![e.to_string()])?;
    let mut reader =
        Reader { reads_files, snippets: BTreeMap::new(), problems: Vec::new(), count: 0 };
    let mut sites = Vec::new();
    reader.top(blocks, 0, &mut sites);
    if reader.problems.is_empty() { Ok(sites) } else { Err(reader.problems) }
}

struct Reader {
    reads_files: bool,
    /// Those that were defined so far, as Caddy reads them.
    snippets: BTreeMap<String, Vec<Directive>>,
    problems: Vec<String>,
    count: usize,
}

impl Reader {
    /// Handles the blocks of a file.
    fn top(&mut self, blocks: Vec<Directive>, depth: usize, sites: &mut Vec<Directive>) {
        for mut block in blocks {
            let snippet = block.name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
            if let Some(name) = snippet {
                self.snippets.insert(name.to_owned(), block.block.unwrap_or_default());
            } else if block.name == "import" && block.block.is_none() {
                for (text, file) in self.files(&block, depth) {
                    match parse(&text, &file) {
                        Ok(blocks) => self.top(blocks, depth + 1, sites),
                        Err(e) => self.problems.push(e.to_string()),
                    }
                }
            } else {
                let inner = block.block.take().unwrap_or_default();
                block.block = Some(self.within(inner, depth));
                sites.push(block);
            }
        }
    }

    /// Replaces the imports of a block.
    fn within(&mut self, directives: Vec<Directive>, depth: usize) -> Vec<Directive> {
        let mut all = Vec::new();
        for mut d in directives {
            self.count += 1;
            if self.count > DIRECTIVES_MAX {
                self.problems = vec![format!("{}: the imports make too many directives", d.at)];
                return all;
            }
            if d.name != "import" {
                d.block = d.block.map(|block| self.within(block, depth));
                all.push(d);
                continue;
            }
            if depth >= DEPTH_MAX {
                self.problems.push(format!("{}: an import leads to itself", d.at));
                continue;
            }
            let parts = match self.snippets.get(d.arg(0)) {
                Some(snippet) => vec![filled(snippet.clone(), &d)],
                None => self.parts(&d, depth),
            };
            for part in parts {
                let part = self.within(part, depth + 1);
                all.extend(part);
            }
        }
        all
    }

    fn parts(&mut self, d: &Directive, depth: usize) -> Vec<Vec<Directive>> {
        let mut parts = Vec::new();
        for (text, file) in self.files(d, depth) {
            match parse_part(&text, &file) {
                Ok(part) => parts.push(filled(part, d)),
                Err(e) => self.problems.push(e.to_string()),
            }
        }
        parts
    }

    /// Texts and names of the files of an import; a pattern may have none.
    fn files(&mut self, d: &Directive, depth: usize) -> Vec<(String, String)> {
        let pattern = d.arg(0);
        if has_variable(pattern) {
            self.problems.push(format!(
                "{}: the name of an import has no variable: write its value, not {pattern}",
                d.at
            ));
            return Vec::new();
        }
        if !self.reads_files || depth >= DEPTH_MAX {
            self.problems.push(format!("{}: no snippet `{pattern}` is before it", d.at));
            return Vec::new();
        }
        let here = Path::new(&*d.at.file).parent().unwrap_or(Path::new("."));
        let path = here.join(pattern);
        let names = match pattern.contains('*') {
            true => matching(&path),
            false => Ok(vec![path]),
        };
        let names = names.unwrap_or_else(|problem| {
            self.problems.push(format!("{}: {problem}", d.at));
            Vec::new()
        });
        let mut files = Vec::new();
        for name in &names {
            match text_of(name) {
                Ok(text) => files.push((text, name.display().to_string())),
                Err(problem) => self.problems.push(format!("{}: {problem}", d.at)),
            }
        }
        files
    }
}

/// Puts the arguments of an import into what it imports: `{args[0]}`, formerly `{args.0}`.
fn filled(mut directives: Vec<Directive>, import: &Directive) -> Vec<Directive> {
    fn fill(text: &mut String, args: &[String]) {
        for (n, arg) in args.iter().enumerate() {
            for written in [format!("{{args[{n}]}}"), format!("{{args.{n}}}")] {
                if text.contains(&written) {
                    *text = text.replace(&written, arg);
                }
            }
        }
    }
    let args = import.args.get(1..).unwrap_or_default();
    for d in &mut directives {
        fill(&mut d.name, args);
        let all = d.args.iter().position(|arg| arg == "{args[:]}");
        if let Some(at) = all {
            d.args.splice(at..=at, args.iter().cloned());
        }
        d.args.iter_mut().for_each(|arg| fill(arg, args));
        d.block = d.block.take().map(|block| filled(block, import));
    }
    directives
}
