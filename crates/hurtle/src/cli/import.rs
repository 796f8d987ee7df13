//! `hurtle import`: translates another server's configuration.

use std::path::{Path, PathBuf};

use clap::Args;

use super::ConfigProblems;
use crate::import::{self, Imported};

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// nginx's configuration, a Caddyfile (a file whose name begins with that word, or ends in
    /// .caddy or .caddyfile), or a .htaccess file of Apache, for the directory that it is in. Files
    /// that it includes are read too.
    #[arg(value_name = "NGINX.CONF | CADDYFILE | .HTACCESS")]
    file: PathBuf,
    /// Directory of relative paths in `include`, as nginx's --prefix [default: the directory of the
    /// file].
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Translate what can be, with a comment for each directive that cannot (exit code 3). A
    /// location or server that would be opened by that answers 403.
    #[arg(long)]
    partial: bool,
    /// Host names of the site, for a .htaccess file, which has none: redirects to HTTPS and to www
    /// need them.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Address of PHP-FPM, for a .htaccess file [default: unix:/run/php/php-fpm.sock].
    #[arg(long, value_name = "ADDRESS")]
    fastcgi: Option<String>,
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
        if self.is_htaccess() {
            let hosts = self.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
            let options = import::htaccess::Options { hosts, fastcgi: self.fastcgi.clone() };
            return import::htaccess::htaccess_file(&self.file, &options, self.partial);
        }
        let here = self.file.parent().unwrap_or(Path::new("."));
        let prefix = self.prefix.as_deref().unwrap_or(here);
        import::nginx_file(&self.file, prefix, self.partial)
    }

    /// `true` for .htaccess and example.htaccess.
    fn is_htaccess(&self) -> bool {
        let name = self.file.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
        name.is_some_and(|name| name.ends_with(".htaccess"))
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
