//! The names in the directory of a .htaccess file, as far as its import depends on them, and the
//! files of that name beneath it. It is the only part of the import that looks at the disk.

use std::fs;
use std::path::{Path, PathBuf};

/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most directories that are looked at.
const DIRECTORIES_MAX: usize = 2_000;

/// Most levels of directories that are looked at.
const DEPTH_MAX: usize = 8;

/// A directory that a site serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Its path, absolute.
    pub root: String,
    /// Names of its directories, sorted.
    pub directories: Vec<String>,
    /// Names of its files, sorted.
    pub files: Vec<String>,
    /// Other .htaccess files beneath it, as far as they were looked for.
    pub nested: Vec<String>,
    /// `true`: a script of PHP was met there.
    pub has_scripts: bool,
    /// `true`: one with another ending was met there, such as .phtml.
    pub has_other_scripts: bool,
    /// `true`: not all directories were looked at.
    pub is_cut: bool,
}

impl Tree {
    /// A directory without files.
    pub fn empty(root: &str) -> Tree {
        Tree { root: root.to_owned(), ..Tree::default() }
    }

    /// Looks at the directory of a file. What cannot be read is taken for empty.
    pub(super) fn of(file: &Path) -> Tree {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let root = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
        let mut tree = Tree::empty(&root.to_string_lossy());
        let (mut files, mut directories) = names(&root);
        tree.note_scripts(&files);
        let mut waiting: Vec<(PathBuf, usize)> =
            directories.iter().map(|name| (root.join(name), 1)).collect();
        let mut count = 0;
        while let Some((directory, depth)) = waiting.pop() {
            // A link to a directory is not followed.
            if directory.is_symlink() {
                continue;
            }
            count += 1;
            if count > DIRECTORIES_MAX || depth > DEPTH_MAX {
                tree.is_cut = true;
                continue;
            }
            let (files, directories) = names(&directory);
            tree.note_scripts(&files);
            if files.iter().any(|name| name == ".htaccess") {
                let file = directory.join(".htaccess");
                let shown = file.strip_prefix(&root).unwrap_or(&file);
                tree.nested.push(shown.to_string_lossy().into_owned());
            }
            waiting.extend(directories.iter().map(|name| (directory.join(name), depth + 1)));
        }
        let is_visible = |name: &String| !name.starts_with('.');
        files.retain(is_visible);
        directories.retain(is_visible);
        (tree.files, tree.directories) = (files, directories);
        tree.nested.sort();
        tree
    }

    fn note_scripts(&mut self, files: &[String]) {
        for name in files {
            let name = name.to_ascii_lowercase();
            let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
            self.has_scripts |= ending == "php";
            self.has_other_scripts |= matches!(ending, "phtml" | "phar" | "phps")
                || ending.strip_prefix("php").is_some_and(|rest| rest.len() == 1);
        }
    }
}

/// Names of files and of directories, sorted. A link to a directory counts as one.
fn names(directory: &Path) -> (Vec<String>, Vec<String>) {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.path().is_dir() {
            true => directories.push(name),
            false => files.push(name),
        }
    }
    files.sort();
    directories.sort();
    (files, directories)
}

/// Reads a file, whose bytes may be of another charset in comments.
pub(super) fn text_of(file: &Path) -> Result<String, String> {
    let shown = file.display();
    let length = fs::metadata(file).map_err(|e| format!("{shown}: {e}"))?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("{shown}: it is larger than 1 MiB"));
    }
    let bytes = fs::read(file).map_err(|e| format!("{shown}: {e}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
