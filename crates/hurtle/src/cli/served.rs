//! The first argument of a command: a configuration, a directory, or a single file.

use std::path::{Path, PathBuf};

use super::{CONFIG_FILE, ConfigProblems};
use crate::config::{self, Config};

/// Extensions of configurations. A file with one is more likely given by mistake than to be
/// published.
const CONFIG_EXTENSIONS: [&str; 6] = ["conf", "cfg", "ini", "json5", "yaml", "yml"];

/// The thing that a server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Served {
    Configuration(PathBuf),
    Directory(PathBuf),
    File(PathBuf),
}

impl Served {
    /// Chooses by a file of `--config` and by a path; without either, by the current directory.
    ///
    /// # Errors
    /// The path leads to neither.
    pub(super) fn new(file: Option<&Path>, path: Option<&Path>) -> Result<Served, ConfigProblems> {
        if let Some(file) = file {
            return Ok(Served::Configuration(file.to_owned()));
        }
        let Some(path) = path else {
            let here = Path::new(CONFIG_FILE);
            return Ok(match here.is_file() {
                true => Served::Configuration(here.to_owned()),
                false => Served::Directory(PathBuf::from(".")),
            });
        };
        let owned = path.to_owned();
        if path.is_dir() {
            return Ok(Served::Directory(owned));
        }
        if path.is_file() {
            let extension = path.extension().and_then(|extension| extension.to_str());
            return match extension {
                Some("toml") => Ok(Served::Configuration(owned)),
                Some(known) if CONFIG_EXTENSIONS.contains(&known) => Err(vec![format!(
                    "{} looks like a configuration, but its name does not end in .toml; to serve \
                     what it configures write --config FILE",
                    path.display()
                )]),
                _ => Ok(Served::File(owned)),
            };
        }
        let text = match path.exists() {
            true => "is not a directory; try `hurtle DIR` or `hurtle --help`",
            false => "does not exist; try `hurtle DIR` or `hurtle --help`",
        };
        Err(vec![format!("{} {text}", path.display())])
    }

    /// `true`: a configuration file says what is served, and where.
    pub(super) fn is_configuration(&self) -> bool {
        matches!(self, Served::Configuration(_))
    }

    /// Reads the configuration, or makes the one of a directory or a file.
    ///
    /// # Errors
    /// Every problem, one line each.
    pub(super) fn load(self) -> Result<Config, ConfigProblems> {
        match self {
            Served::Configuration(file) => config::load(&file)
                .map_err(|problems| problems.iter().map(ToString::to_string).collect()),
            // Its files are being worked on, most likely.
            Served::Directory(dir) => {
                Ok(Config { watches_files: true, ..Config::for_directory(dir) })
            }
            Served::File(file) => match Config::for_file(&file) {
                Some(config) => Ok(Config { watches_files: true, ..config }),
                None => {
                    let shown = file.display();
                    Err(vec![format!("{shown} has no name in UTF-8; serve its directory")])
                }
            },
        }
    }
}
