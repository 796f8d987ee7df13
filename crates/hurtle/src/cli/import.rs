//! `hurtle import`: translates another server's configuration.

use std::path::{Path, PathBuf};

use clap::Args;

use super::ConfigProblems;
use crate::import::{self, Imported};

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// nginx's configuration, or a Caddyfile: a file whose name begins with that word. Files that it includes
    /// are read too.
    #[arg(value_name = "NGINX.CONF | CADDYFILE")]
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
        if self.is_caddyfile() {
            return import::caddy::caddy_file(&self.file, self.partial);
        }
        let here = self.file.parent().unwrap_or(Path::new("."));
        let prefix = self.prefix.as_deref().unwrap_or(here);
        import::nginx_file(&self.file, prefix, self.partial)
    }

    /// `true` for Caddyfile, Caddyfile.prod, site.caddy and site.caddyfile.
    fn is_caddyfile(&self) -> bool {
        let name = self.file.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
        name.is_some_and(|name| {
            name.starts_with("caddyfile")
                || name.ends_with(".caddyfile")
                || name.ends_with(".caddy")
        })
    }
}
