//! The contenders that a command can name: those built in, and those of a folder.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Contender, embedded};

/// Description of a contender, in its folder.
const DESCRIPTION: &str = "contender.toml";

/// Largest size of a file of a contender, in bytes: configurations and sources.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The contenders that can be run, by name.
#[derive(Clone, Debug)]
pub struct Catalogue {
    all: Vec<Contender>,
    /// The names of those from the folder.
    added: Vec<String>,
}

/// A contender that cannot be named or read.
#[derive(Debug)]
pub enum CatalogueError {
    /// A folder or file that cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A folder without contenders.
    Empty(PathBuf),
    /// A description with a fault, such as a missing key.
    Description(PathBuf, String),
    /// An argument of `--contender`, and its fault.
    Override(String, String),
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogueError::Unreadable(path, e) => write!(f, "{}: {e}", path.display()),
            CatalogueError::Empty(path) => {
                write!(f, "{} has no NAME/{DESCRIPTION}", path.display())
            }
            CatalogueError::Description(path, why) => write!(f, "{}: {why}", path.display()),
            CatalogueError::Override(words, why) => write!(f, "--contender {words}: {why}"),
        }
    }
}

impl std::error::Error for CatalogueError {}

impl Catalogue {
    /// Returns the contenders that the program comes with.
    pub fn built_in() -> Catalogue {
        Catalogue { all: Contender::all(), added: Vec::new() }
    }

    /// Also those of a folder, which has a folder for each: `NAME/contender.toml` and the files
    /// that it names. One with the name of a built-in contender replaces it.
    ///
    /// # Errors
    /// The folder, or a file of a contender, cannot be read or is faulty.
    pub fn with_folder(folder: &Path) -> Result<Catalogue, CatalogueError> {
        let unreadable = |path: &Path, e| CatalogueError::Unreadable(path.to_owned(), e);
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(|e| unreadable(folder, e))? {
            let path = entry.map_err(|e| unreadable(folder, e))?.path();
            if path.join(DESCRIPTION).is_file() {
                names.push(path);
            }
        }
        names.sort();
        let mut known = Catalogue::built_in();
        for path in &names {
            let contender = read(folder, path)?;
            known.all.retain(|other| other.name != contender.name);
            known.added.push(contender.name.clone());
            known.all.push(contender);
        }
        if known.added.is_empty() {
            return Err(CatalogueError::Empty(folder.to_owned()));
        }
        Ok(known)
    }

    /// All of them, the folder's last.
    pub fn all(&self) -> &[Contender] {
        &self.all
    }

    /// The names of the folder's.
    pub fn added(&self) -> &[String] {
        &self.added
    }

    /// The contender of this name.
    pub fn by_name(&self, name: &str) -> Option<&Contender> {
        self.all.iter().find(|contender| contender.name == name)
    }

    /// The contender of `NEW=NAME:/path/to/executable` or `NEW=NAME`: NAME with another name and,
    /// if given, another executable.
    ///
    /// # Errors
    /// The words have another form, or name no contender or no executable file.
    pub fn overridden(&self, words: &str) -> Result<Contender, CatalogueError> {
        let bad = |why: &str| CatalogueError::Override(words.to_owned(), why.to_owned());
        let (new, rest) = words.split_once('=').ok_or_else(|| {
            bad("write NEW=NAME:/path/to/executable, such as old=nginx:/opt/nginx")
        })?;
        let (name, path) = match rest.split_once(':') {
            Some((name, path)) => (name, Some(path)),
            None => (rest, None),
        };
        if !is_plain(new) {
            return Err(bad("a new name is letters, digits, `-`, `_` and `.`"));
        }
        let unknown = || {
            let known: Vec<&str> = self.all.iter().map(|c| c.name.as_str()).collect();
            bad(&format!("no contender `{name}`; there are {}", known.join(", ")))
        };
        let mut contender = self.by_name(name).ok_or_else(unknown)?.clone();
        if new != name {
            contender.title = format!("{} ({new})", contender.title);
            contender.name = new.to_owned();
        }
        if let Some(path) = path {
            let whole = std::path::absolute(path).map_err(|e| bad(&e.to_string()))?;
            let found = fs::metadata(&whole).map_err(|e| bad(&format!("{path}: {e}")))?;
            if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
                return Err(bad(&format!("{path} is not an executable file")));
            }
            contender.chosen = Some(whole);
        }
        Ok(contender)
    }
}

/// `true` for a name of a folder and of a contender.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)
}

/// Reads the contender in `path`, and the texts of its files, which lie beneath `folder` or are
/// built in.
fn read(folder: &Path, path: &Path) -> Result<Contender, CatalogueError> {
    let description = path.join(DESCRIPTION);
    let faulty = |why: String| CatalogueError::Description(description.clone(), why);
    let text = read_text(&description)?;
    let mut contender: Contender = toml::from_str(&text).map_err(|e| faulty(e.to_string()))?;
    let own = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if contender.name != own || !is_plain(&own) {
        return Err(faulty(format!("name = {:?}: write its folder's name", contender.name)));
    }
    if !contender.url.contains("{FILE}") {
        return Err(faulty(format!("url = {:?}: it must contain {{FILE}}", contender.url)));
    }
    if let Some(name) = contender.upstream.as_deref().filter(|name| !embedded::has(name)) {
        return Err(faulty(format!("upstream = {name:?}: name a built-in contender")));
    }
    let mut texts = BTreeMap::new();
    for file in &contender.files {
        let is_beneath = Path::new(&file.from)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        let source = folder.join(&file.from);
        if !is_beneath || !source.is_file() && embedded::text(&file.from).is_none() {
            return Err(faulty(format!("from = {:?}: there is no such file", file.from)));
        }
        if source.is_file() {
            texts.insert(file.from.clone(), read_text(&source)?);
        }
    }
    contender.texts = texts;
    Ok(contender)
}

fn read_text(path: &Path) -> Result<String, CatalogueError> {
    let unreadable = |e| CatalogueError::Unreadable(path.to_owned(), e);
    if fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        let why = format!("larger than {FILE_BYTES_MAX} bytes");
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, why)));
    }
    fs::read_to_string(path).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_is_the_same_contender_under_another_name() {
        let known = Catalogue::built_in();
        let old = known.overridden("old=nginx:/bin/sh").unwrap();
        assert_eq!((&*old.name, &*old.title), ("old", "nginx (sendfile) (old)"));
        assert_eq!(old.chosen, Some("/bin/sh".into()));
        let twin = known.overridden("twin=nginx").unwrap();
        assert_eq!((&*twin.name, twin.chosen), ("twin", None));
        let same = known.overridden("hurtle=hurtle:/bin/sh").unwrap();
        assert_eq!((&*same.name, &*same.title), ("hurtle", "Hurtle"));
        let rows: &[(&str, &str, &str)] = &[
            ("no name", "nginx:/bin/sh", "write NEW=NAME"),
            ("a name that leaves its folder", "../x=nginx:/bin/sh", "a new name is"),
            ("an unknown contender", "old=iis:/bin/sh", "no contender `iis`"),
            ("no file", "old=nginx:/nosuch", "/nosuch: No such file or directory"),
            ("a folder", "old=nginx:/tmp", "/tmp is not an executable file"),
            ("not executable", "old=nginx:/etc/passwd", "/etc/passwd is not an executable file"),
        ];
        for (sentence, words, expected) in rows {
            let error = known.overridden(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{sentence}: {error}");
        }
    }

    #[test]
    fn a_folder_adds_contenders_and_its_faults_are_named() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/contenders");
        let known = Catalogue::with_folder(&example).unwrap();
        assert_eq!(known.added(), ["python"]);
        assert!(known.by_name("python").unwrap().text("python/serve.py").is_some());
        assert!(known.by_name("nginx").is_some(), "the built-in ones stay");

        let folder = std::env::temp_dir().join(format!("contenders-{}", std::process::id()));
        let written = |text: &str| {
            fs::create_dir_all(folder.join("mine")).unwrap();
            fs::write(folder.join("mine/contender.toml"), text).unwrap();
            Catalogue::with_folder(&folder).unwrap_err().to_string()
        };
        let good = fs::read_to_string(example.join("python/contender.toml")).unwrap();
        let good = good.replace("name = \"python\"", "name = \"mine\"");
        let rows = [
            ("name = 1".to_owned(), "mine/contender.toml", "a fault has its file"),
            (good.replace("\"mine\"", "\"other\""), "write its folder's name", "another name"),
            (good.replace("{FILE}", "index"), "must contain {FILE}", "every file at one path"),
            (good.replace("python/serve.py", "../etc/passwd"), "no such file", "another folder"),
        ];
        for (text, part, why) in rows {
            let error = written(&text);
            assert!(error.contains(part), "{why}: {error}");
        }
        fs::remove_dir_all(&folder).unwrap();
        let error = Catalogue::with_folder(&folder).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
        fs::create_dir(&folder).unwrap();
        let error = Catalogue::with_folder(&folder).unwrap_err().to_string();
        assert!(error.contains("has no NAME/contender.toml"), "{error}");
        fs::remove_dir(&folder).unwrap();
    }
}
