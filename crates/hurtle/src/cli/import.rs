//! `hurtle import`: translates another server's configuration.

use std::path::{Path, PathBuf};

use clap::Args;

use super::ConfigProblems;
use crate::import;

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
}

impl ImportArgs {
    /// The configuration in TOML, with comments.
    ///
    /// # Errors
    /// Every directive that cannot be translated, one line each.
    pub fn text(&self) -> Result<String, ConfigProblems> {
        let here = self.file.parent().unwrap_or(Path::new("."));
        import::nginx_file(&self.file, self.prefix.as_deref().unwrap_or(here))
    }
}
