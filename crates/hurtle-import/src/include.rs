//! Reads a configuration with the files that it includes. Nothing else of the importer touches the
//! disk.

use std::fs;
use std::path::{Path, PathBuf};

use hurtle_http::semantics::glob;

use super::syntax::{Directive, parse};

/// Files of one configuration.
const FILES_MAX: usize = 1_000;

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Deepest nesting of includes.
const DEPTH_MAX: usize = 16;

/// Files that come with nginx on Debian, and what they say that hurtle does not do anyway. Their
/// text is taken where this machine has no such file.
const STANDARD: &[(&str, &str)] = &[
    ("fastcgi.conf", "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;"),
    ("fastcgi_params", ""),
    // Versions and ciphers of TLS, by certbot.
    ("options-ssl-nginx.conf", ""),
    ("proxy_params", "proxy_set_header Host $http_host;"),
    ("scgi_params", ""),
    (
        "snippets/fastcgi-php.conf",
        "try_files $fastcgi_script_name =404;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;",
    ),
    ("uwsgi_params", ""),
];

/// Reads `file` and, in place of each `include`, the directives of the included files. Relative
/// names are looked up in `prefix`.
///
/// # Errors
/// Every file that cannot be read or parsed, one line each.
pub(super) fn read(file: &Path, prefix: &Path) -> Result<Vec<Directive>, Vec<String>> {
    let mut reader = Reader { prefix, files: 0, problems: Vec::new() };
    let directives = reader.file(file, 0);
    if reader.problems.is_empty() { Ok(directives) } else { Err(reader.problems) }
}

struct Reader<'a> {
    prefix: &'a Path,
    files: usize,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn file(&mut self, file: &Path, depth: usize) -> Vec<Directive> {
        self.files += 1;
        let shown = file.display();
        if self.files > FILES_MAX || depth > DEPTH_MAX {
            self.problems.push(format!("{shown}: too many included files, or a file in itself"));
            return Vec::new();
        }
        let parsed = text_of(file)
            .and_then(|text| parse(&text, &shown.to_string()).map_err(|e| e.to_string()));
        match parsed {
            Ok(directives) => self.expand(directives, depth),
            Err(problem) => {
                self.problems.push(problem);
                Vec::new()
            }
        }
    }

    fn expand(&mut self, directives: Vec<Directive>, depth: usize) -> Vec<Directive> {
        let mut expanded = Vec::new();
        for mut directive in directives {
            if directive.name == "include" && directive.block.is_none() {
                expanded.extend(self.include(&directive, depth));
                continue;
            }
            directive.block = directive.block.map(|block| self.expand(block, depth));
            expanded.push(directive);
        }
        expanded
    }

    fn include(&mut self, directive: &Directive, depth: usize) -> Vec<Directive> {
        let name = directive.arg(0);
        let path = self.prefix.join(name);
        // Media types: hurtle has its own table.
        if Path::new(name).file_name().is_some_and(|name| name == "mime.types") {
            let mut others = if path.is_file() { self.file(&path, depth + 1) } else { Vec::new() };
            others.retain(|d| d.name != "types");
            // Others in the block add to it.
            others.extend(parse("types { text/html html; }", name).unwrap_or_default());
            return others;
        }
        let is_of = |known: &str| name == known || name.ends_with(&format!("/{known}"));
        if let (false, Some((known, text))) =
            (path.is_file(), STANDARD.iter().find(|(known, _)| is_of(known)))
        {
            return parse(text, known).unwrap_or_default();
        }
        let files = match name.contains(['*', '?', '[']) {
            true => matching(&path),
            false if path.is_file() => Ok(vec![path]),
            false => Err(format!("{} cannot be included", path.display())),
        };
        let files = files.unwrap_or_else(|problem| {
            self.problems.push(format!("{}: {problem}", directive.at));
            Vec::new()
        });
        files.iter().flat_map(|file| self.file(file, depth + 1)).collect()
    }
}

/// Reads a file of a configuration.
///
/// # Errors
/// A file that cannot be read, or is larger than 4 MiB, with its name.
pub(super) fn text_of(file: &Path) -> Result<String, String> {
    let shown = file.display();
    match fs::metadata(file) {
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            Err(format!("{shown}: the file is larger than 4 MiB"))
        }
        Ok(_) => fs::read_to_string(file).map_err(|e| format!("{shown}: {e}")),
        Err(e) => Err(format!("{shown}: {e}")),
    }
}

/// Files whose name matches the last segment of a pattern, in order. None of them is left out: a
/// guard may be written there.
///
/// # Errors
/// A pattern that nginx understands differently, or a directory that cannot be read.
pub(super) fn matching(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let shown = pattern.display();
    let (Some(dir), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Err(format!("{shown} cannot be included"));
    };
    let name = name.to_string_lossy();
    let is_special = |text: &str| text.contains(['?', '[']);
    if is_special(&shown.to_string()) || dir.to_string_lossy().contains('*') {
        return Err(format!("{shown}: of patterns it knows * in the last segment"));
    }
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // nginx includes nothing then.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(format!("{}: {e}", dir.display())),
    };
    let is_match = |path: &PathBuf| {
        path.file_name().is_some_and(|file| {
            // As in a shell, `*` matches no leading dot.
            let file = file.to_string_lossy();
            !file.starts_with('.') && glob::matches(&name, format!("/{file}").as_bytes())
        })
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: Result<Vec<PathBuf>, _> = paths.collect();
    let mut files = paths.map_err(|e| format!("{}: {e}", dir.display()))?;
    files.retain(|path| is_match(path) && !path.is_dir());
    files.sort();
    Ok(files)
}
