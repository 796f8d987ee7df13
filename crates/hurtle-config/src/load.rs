//! Loads a configuration from the disk: the file, and the directories, files and accounts that it
//! names. Only this file, `dns_hook`, `include`, `pages`, `placeholder`, `users` and `jwks` touch
//! the file system.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User};

use super::bounds::FILE_BYTES_MAX;
use super::check::read;
use super::dns_hook::not_a_program;
use super::error::{ConfigError, Position, ValueError};
use super::include::Included;
use super::jwks::read_jwks;
use super::placeholder::resolve_here;
use super::reader::{Account, Reader};
use super::store::read_secret;
use super::types::{Config, MountHandler};
use super::users::read_users;

/// Returns the admin socket that a configuration file names in plain text, whatever else it has.
/// `None`: it names none, or is no TOML.
pub fn written_admin(file: &Path) -> Option<PathBuf> {
    let document: toml::Table = io::read_to_string(File::open(file).ok()?).ok()?.parse().ok()?;
    let written = document.get("admin")?.as_str().filter(|path| !path.contains('{'))?;
    Some(file.parent()?.join(written))
}

/// Reads and checks a configuration file, and that the roots, files and accounts that it names
/// exist.
///
/// # Errors
/// Every problem at once.
pub fn load(file: &Path) -> Result<Config, Vec<ConfigError>> {
    let text = text(file).map_err(|problem| vec![*problem])?;
    let Included { sources, problems, names, .. } = Included::read(&text, file, resolve_here);
    let mut reader = Reader::new(&sources).resolving_by(resolve_here);
    problems.into_iter().for_each(|(spot, wrong)| reader.report(&spot, wrong));
    let config = Config { included: names, ..read(&mut reader) };
    if let Some(problem) = foreign(&text, file).filter(|_| reader.is_broken()) {
        return Err(vec![problem]);
    }
    for (spot, path) in std::mem::take(&mut reader.directories) {
        if let Some(wrong) = not_a_directory(&path) {
            reader.report(&spot, wrong);
        }
    }
    for (spot, path) in std::mem::take(&mut reader.files) {
        if let Some(wrong) = not_a_file(&path) {
            reader.report(&spot, wrong);
        }
    }
    for (spot, path) in std::mem::take(&mut reader.logs) {
        if let Some(wrong) = not_a_log(&path) {
            reader.report(&spot, wrong);
        }
    }
    for (spot, account) in std::mem::take(&mut reader.accounts) {
        if let Some(wrong) = unknown_account(&account) {
            reader.report(&spot, wrong);
        }
    }
    for (spot, path) in std::mem::take(&mut reader.users) {
        for problem in read_users(&path).err().unwrap_or_default() {
            reader.report(&spot, ValueError::new(problem));
        }
    }
    for (spot, path) in std::mem::take(&mut reader.jwks) {
        if let Err(problem) = read_jwks(&path) {
            reader.report(&spot, ValueError::new(problem));
        }
    }
    for (spot, path) in std::mem::take(&mut reader.components) {
        if let Some(wrong) = not_a_component(&path) {
            reader.report(&spot, wrong);
        }
    }
    for (spot, path) in std::mem::take(&mut reader.programs) {
        if let Some(wrong) = not_a_program(&path, config.user.as_deref()) {
            reader.report(&spot, wrong);
        }
    }
    for (spot, path) in std::mem::take(&mut reader.secrets) {
        if let Err(problem) = read_secret(&path) {
            reader.report(&spot, ValueError::new(problem));
        }
    }
    reader.finish(config)
}

/// The problem with a configuration of another server; `None`: it does not look like one.
fn foreign(text: &str, file: &Path) -> Option<ConfigError> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    if lines().any(is_toml) {
        return None;
    }
    let ends_with = |end: char| lines().any(|line| line.ends_with(end));
    let has_section = lines().any(|line| line.starts_with("<VirtualHost"));
    // The shell empties the file behind `>` before it is read.
    let import = || format!("translate it: hurtle import {} > translated.toml", file.display());
    let (what, hint) = match (ends_with('{'), ends_with(';')) {
        (true, true) => ("a configuration of nginx, not of hurtle", import()),
        (true, false) => ("a Caddyfile, not a configuration of hurtle", import()),
        (false, _) if has_section => (
            "a configuration of Apache, not of hurtle",
            "docs/from-apache.md has the keys for its directives".to_owned(),
        ),
        (false, _) => return None,
    };
    let what = what.to_owned();
    Some(ConfigError {
        file: file.to_owned(),
        position: None,
        key: String::new(),
        what,
        hint: Some(hint),
    })
}

/// Returns whether a line has a key with its value, or the name of a table.
fn is_toml(line: &str) -> bool {
    if line.starts_with('[') && line.ends_with(']') {
        return true;
    }
    let Some((key, value)) = line.split_once('=') else { return false };
    let (key, value) = (key.trim(), value.trim());
    let is_key = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    // `location = / {` is nginx's.
    let begins_block = value.ends_with('{') && value != "{" && !value.starts_with('[');
    let is_directive = value.ends_with(';') || begins_block;
    !key.is_empty() && key.bytes().all(is_key) && !is_directive
}

/// The problem with a certificate, a key or the like; `None`: it exists, or only the server's user
/// can see it.
fn not_a_file(path: &Path) -> Option<ValueError> {
    let shown = path.display();
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Some(ValueError::new(format!("{shown} is a directory")).hint("name a file in it"))
        }
        Err(error) if is_missing(&error) => Some(
            ValueError::new(format!("{shown}: {error}"))
                .hint("relative paths are relative to the configuration file"),
        ),
        Ok(_) | Err(_) => None,
    }
}

/// The problem with the file of a log, which need not exist yet.
fn not_a_log(path: &Path) -> Option<ValueError> {
    if path.is_dir() {
        let wrong = ValueError::new(format!("{} is a directory", path.display()));
        return Some(wrong.hint("name a file in it"));
    }
    let directory = path.parent().unwrap_or(path);
    let error = directory.join(".").metadata().err().filter(is_missing)?;
    let shown = directory.display();
    Some(ValueError::new(format!("{shown}: {error}")).hint(format!("create it: mkdir -p {shown}")))
}

/// `true`: there is no such file, rather than one that this process may not see.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The problem with a user or a group; `None`: the system knows it, or does not answer.
fn unknown_account(account: &Account) -> Option<ValueError> {
    let (kind, name, is_unknown) = match account {
        Account::User(name) => ("user", name, matches!(User::from_name(name), Ok(None))),
        Account::Group(name) => ("group", name, matches!(Group::from_name(name), Ok(None))),
    };
    is_unknown.then(|| {
        ValueError::new(format!("there is no {kind} {name} on this system"))
            .hint("write one that the system knows, such as \"www-data\"")
    })
}

/// The problem with the file of a WebAssembly component, which is compiled later; `None`: it
/// exists.
fn not_a_component(path: &Path) -> Option<ValueError> {
    if !cfg!(feature = "wasm") {
        let wrong = ValueError::new("this hurtle is built without WebAssembly");
        return Some(
            wrong.hint("build it with: cargo install --path crates/hurtle --features wasm"),
        );
    }
    let shown = path.display();
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => None,
        Ok(_) => Some(ValueError::new(format!("{shown} is not a file"))),
        Err(error) => Some(
            ValueError::new(format!("{shown}: {error}"))
                .hint("relative paths are relative to the configuration file"),
        ),
    }
}

/// Checks the roots of a configuration that was not read from a file; returns one problem for each
/// that is not a directory.
pub fn check_files(config: &Config) -> Vec<ConfigError> {
    let mut problems = Vec::new();
    for (s, site) in config.sites.iter().enumerate() {
        for (m, mount) in site.mounts.iter().enumerate() {
            let MountHandler::Files(files) = &mount.handler else { continue };
            if files.objects.is_some() {
                continue;
            }
            problems.extend(not_a_directory(&files.root).map(|wrong| ConfigError {
                file: PathBuf::new(),
                position: None,
                key: format!("site[{s}].mount[{m}].files"),
                what: wrong.what,
                hint: wrong.hint,
            }));
        }
    }
    problems
}

/// The problem with a root; `None`: it is a directory.
fn not_a_directory(path: &Path) -> Option<ValueError> {
    let shown = path.display();
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => {
            let parent = path.parent().unwrap_or(path).display();
            Some(
                ValueError::new(format!("{shown} is not a directory"))
                    .hint(format!("serve its directory instead: {parent}")),
            )
        }
        Err(error) => Some(
            ValueError::new(format!("{shown}: {error}"))
                .hint("relative paths are relative to the configuration file"),
        ),
    }
}

/// Reads a file of at most `FILE_BYTES_MAX` bytes in UTF-8 (TOML 1.0, section "Spec").
pub(super) fn text(file: &Path) -> Result<String, Box<ConfigError>> {
    let problem = |position, what: String, hint: &str| {
        let hint = Some(hint.to_owned());
        Box::new(ConfigError { file: file.to_owned(), position, key: String::new(), what, hint })
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
        let position =
            Position { line: before.matches('\n').count() + 1, column: last.chars().count() + 1 };
        problem(Some(position), "not UTF-8".to_owned(), "save the file as UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A test's own directory, removed when dropped.
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
    fn a_missing_root_is_reported_with_the_other_problems() {
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

    #[cfg(not(feature = "wasm"))]
    #[test]
    fn a_program_without_webassembly_refuses_its_key() {
        let scratch = Scratch::new("wasm");
        assert_eq!(
            scratch.load("[[site]]\nhosts = \"a\"\n[[site.mount]]\nwasm = \"app.wasm\""),
            ["hurtle.toml:4:8: site[0].mount[0].wasm: this hurtle is built without WebAssembly; \
                 build it with: cargo install --path crates/hurtle --features wasm"]
        );
    }

    #[test]
    fn a_configuration_of_another_server_is_named_and_mistakes_in_ones_own_are_not() {
        let scratch = Scratch::new("foreign");
        let table = [
            (
                "nginx's",
                "server {\n  listen 80;\n  location = / {\n  add_header A \"max-age=1\";\n}\n}\n",
                "of nginx",
            ),
            (
                "Caddy's",
                "example.org {\n  header Cache-Control max-age=1\n  respond hello\n}\n",
                "a Caddyfile",
            ),
            ("old lines in comments", "user = www-data\n# server {\n# listen 80;\n# }\n", ":1:8:"),
            (
                "a table of several lines",
                "user = www-data\nadmin = {\n  path = 1\n}\n",
                ":1:8: a string needs quotes",
            ),
        ];
        for (sentence, text, expected) in table {
            let problems = scratch.load(text).join("\n");
            assert!(problems.contains(expected), "{sentence}: {problems}");
            assert!(!problems.contains("> hurtle.toml"), "that would empty it: {problems}");
        }
    }

    #[test]
    fn a_file_that_is_not_utf8_is_refused_with_a_position() {
        let scratch = Scratch::new("text");
        assert_eq!(
            scratch.load(b"root = \"public\"\nuser = \"\xff\""),
            ["hurtle.toml:2:9: not UTF-8; save the file as UTF-8"]
        );
    }

    #[test]
    fn a_missing_file_is_a_problem_without_a_position() {
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
