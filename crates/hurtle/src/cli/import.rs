//! `hurtle import`: translates another server's configuration.

use std::path::{Path, PathBuf};

use clap::Args;

use super::ConfigProblems;
use crate::import::{self, Imported};

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// nginx's configuration. Files that it includes are read too.
    #[arg(value_name = "NGINX.CONF")]
    file: PathBuf,
    /// Directory of relative paths in `include`, as nginx's --prefix [default: the directory of the
    /// file].
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Translate what can be, with a comment for each directive that cannot (exit code 3). A location or
    /// server that would be opened by that answers 403.
    #[arg(long)]
    partial: bool,
}

impl ImportArgs {
    /// Translates the file and those that it includes.
    ///
    /// # Errors
    /// Every directive that cannot be translated, one line each.
    pub fn translated(&self) -> Result<Imported, ConfigProblems> {
        let here = self.file.parent().unwrap_or(Path::new("."));
        let prefix = self.prefix.as_deref().unwrap_or(here);
        import::nginx_file(&self.file, prefix, self.partial)
    }
}
