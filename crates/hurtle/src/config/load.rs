//! A configuration from the disk: the file that is one, and the directories it names. The one file
//! of this folder that looks at the file system.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::bounds::FILE_BYTES_MAX;
use super::check::read;
use super::problem::{Place, Problem, Wrong};
use super::reader::Reader;
use super::types::{Config, MountHandler};
use super::users::read_users;

/// Reads and checks a configuration file, that every root in it is a directory, and its files of
/// users: all problems at once.
pub fn load(file: &Path) -> Result<Config, Vec<Problem>> {
    let text = text(file).map_err(|problem| vec![*problem])?;
    let mut reader = Reader::new(&text, file);
    let config = read(&mut reader);
    for (spot, path) in std::mem::take(&mut reader.directories) {
        if let Some(wrong) = not_a_directory(&path) {
            reader.report(&spot, wrong);
        }
    }
    for (spot, path) in std::mem::take(&mut reader.users) {
        for problem in read_users(&path).err().unwrap_or_default() {
            reader.report(&spot, Wrong::new(problem));
        }
    }
    reader.finish(config)
}

/// Whether every root of a configuration that no file said is a directory.
pub fn check_files(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (s, site) in config.sites.iter().enumerate() {
        for (m, mount) in site.mounts.iter().enumerate() {
            let MountHandler::Files(files) = &mount.handler else { continue };
            problems.extend(not_a_directory(&files.root).map(|wrong| Problem {
                file: PathBuf::new(),
                place: None,
                key: format!("site[{s}].mount[{m}].files"),
                what: wrong.what,
                hint: wrong.hint,
            }));
        }
    }
    problems
}

/// What is wrong with a root.
fn not_a_directory(path: &Path) -> Option<Wrong> {
    let shown = path.display();
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => {
            let parent = path.parent().unwrap_or(path).display();
            Some(
                Wrong::new(format!("{shown} is not a directory"))
                    .hint(format!("serve the directory it is in: {parent}")),
            )
        }
        Err(error) => Some(
            Wrong::new(format!("{shown}: {error}"))
                .hint("relative paths are relative to the configuration file"),
        ),
    }
}

/// The text of a file, within bounds and in UTF-8 (TOML 1.0, section "Spec").
fn text(file: &Path) -> Result<String, Box<Problem>> {
    let problem = |place, what: String, hint: &str| {
        let hint = Some(hint.to_owned());
        Box::new(Problem { file: file.to_owned(), place, key: String::new(), what, hint })
    };
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| problem(None, error.to_string(), "name another file with --config"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let what = format!("more than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(problem(None, what, "is it a configuration?"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..good]);
        let last = before.rsplit('\n').next().unwrap_or_default();
        let place =
            Place { line: before.matches('\n').count() + 1, column: last.chars().count() + 1 };
        problem(Some(place), "not UTF-8".to_owned(), "save the file as UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A directory of its own for a test, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = std::env::temp_dir().join(format!("hurtle-{}-{name}", std::process::id()));
            fs::create_dir_all(dir.join("public")).unwrap();
            Scratch(dir)
        }

        fn load(&self, bytes: impl AsRef<[u8]>) -> Vec<String> {
            let file = self.0.join("hurtle.toml");
            fs::write(&file, bytes).unwrap();
            let problems = load(&file).err().unwrap_or_default();
            let dir = format!("{}/", self.0.display());
            problems.iter().map(|problem| problem.to_string().replace(&dir, "")).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_root_is_looked_up_beside_the_file_and_told_with_the_other_problems() {
        let scratch = Scratch::new("root");
        assert_eq!(scratch.load("root = \"public\""), [""; 0]);
        assert_eq!(
            scratch.load("backlog = 0\nroot = \"gone\""),
            [
                "hurtle.toml:1:11: backlog: out of range; write 1 to 65535",
                "hurtle.toml:2:8: root: gone: No such file or directory (os error 2); relative \
                 paths are relative to the configuration file",
            ]
        );
        let problems = scratch.load("[[site]]\n[[site.mount]]\nfiles = \"hurtle.toml\"");
        assert!(
            problems[0].starts_with(
                "hurtle.toml:3:9: site[0].mount[0].files: hurtle.toml is not a directory"
            ),
            "{problems:?}"
        );
    }

    #[test]
    fn a_file_that_is_no_text_says_where() {
        let scratch = Scratch::new("text");
        assert_eq!(
            scratch.load(b"root = \"public\"\nuser = \"\xff\""),
            ["hurtle.toml:2:9: not UTF-8; save the file as UTF-8"]
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_a_problem_without_a_place() {
        let problems = load(Path::new("/nonexistent/hurtle.toml")).unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "/nonexistent/hurtle.toml: No such file or directory (os error 2); name another file \
             with --config"
        );
    }

    #[test]
    fn a_directory_from_the_command_line_is_checked_too() {
        let scratch = Scratch::new("dir");
        assert_eq!(check_files(&Config::for_directory(scratch.0.join("public"))), []);
        let problems = check_files(&Config::for_directory(scratch.0.join("gone")));
        assert_eq!(problems[0].key, "site[0].mount[0].files");
    }
}
