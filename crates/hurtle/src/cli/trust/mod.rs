//! `hurtle trust`: has this machine trust the local certificate authorities, or no longer. The
//! system's store needs root; the databases of browsers belong to their user.

mod nss;
mod phone;
mod system;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use self::phone::PhonePage;
use super::served::Served;
use super::{CONFIG_FILE, ConfigProblems};
use crate::config;
use crate::tls::local;

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// The configuration file with the authority [default: hurtle.toml if it has one, else the
    /// authority of --tls].
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Trust the authority no longer.
    #[arg(long)]
    remove: bool,
    /// Change nothing here, but serve a page from which a phone installs the authority, and show
    /// its address as a QR code [default address: this machine's in its network, and a free port].
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, conflicts_with = "remove")]
    phone: Option<Option<SocketAddr>>,
}

/// The report of what was done, and what is left to do.
#[derive(Debug, Default)]
pub struct Report {
    /// Lines for the terminal: the outcome of each store.
    pub text: String,
    /// `true`: a program failed.
    pub has_failed: bool,
}

#[derive(Debug)]
struct Authority {
    file: PathBuf,
    pem: Vec<u8>,
    /// Its name in stores, different for each authority.
    name: String,
}

impl TrustArgs {
    /// Serves the page for phones, if it is wanted.
    ///
    /// # Errors
    /// See `run`; and the page cannot be served.
    pub fn phone(&self) -> Option<Result<PhonePage, ConfigProblems>> {
        let address = self.phone?;
        Some(self.directory().and_then(|dir| {
            let authorities = authorities(&dir).map_err(|e| vec![e])?;
            phone::serve(&authorities, address).map_err(|e| vec![e.to_string()])
        }))
    }

    /// Changes the stores of the system and of this user's browsers.
    ///
    /// # Errors
    /// The problems of the configuration, or that there is no authority.
    pub fn run(&self) -> Result<Report, ConfigProblems> {
        let dir = self.directory()?;
        let authorities = authorities(&dir).map_err(|e| vec![e])?;
        let mut report = Report::default();
        for authority in &authorities {
            report.begin(&authority.file);
            system::change(authority, self.remove, &mut report);
            nss::change(authority, self.remove, &mut report);
            if !self.remove {
                report.by_hand(authority);
            }
        }
        Ok(report)
    }

    /// The directory of the authorities.
    fn directory(&self) -> Result<PathBuf, ConfigProblems> {
        let default = Path::new(CONFIG_FILE);
        let file = match &self.config {
            Some(file) => Some(file.as_path()),
            None => Some(default).filter(|file| file.is_file()),
        };
        if let Some(file) = file {
            let config = Served::Configuration(file.to_owned()).load()?;
            match config.local_authority {
                Some(dir) => return Ok(dir),
                None if self.config.is_some() => {
                    let what = "no site in it has certificate = \"local\"";
                    return Err(vec![format!("{}: {what}", file.display())]);
                }
                None => {}
            }
        }
        let missing = "there is no HOME with an authority; name a file with --config";
        config::own_directory().ok_or_else(|| vec![missing.to_owned()])
    }
}

impl Report {
    fn begin(&mut self, authority: &Path) {
        let _ = writeln!(self.text, "Certificate authority {}", authority.display());
    }

    fn line(&mut self, store: &str, outcome: &str) {
        let _ = writeln!(self.text, "  {store}: {outcome}");
    }

    /// Adds the outcome of programs.
    fn outcome(&mut self, store: &str, done: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.line(store, done),
            Err(reason) => {
                self.has_failed = true;
                self.line(store, &format!("failed: {reason}"));
            }
        }
    }

    /// Adds what no program can do.
    fn by_hand(&mut self, authority: &Authority) {
        let file = authority.file.display();
        self.line(
            "other machines and phones",
            &format!(
                "copy {file} there, and install it as the certificate of an authority (CA), or run \
                 hurtle trust --phone"
            ),
        );
        self.line("curl and the like", &format!("--cacert {}", quoted(&authority.file)));
    }
}

fn authorities(dir: &Path) -> Result<Vec<Authority>, String> {
    let read = |file: PathBuf| {
        let pem = fs::read(&file)?;
        let name = format!("hurtle-{:016x}", xxhash_rust::xxh3::xxh3_64(&pem));
        io::Result::Ok(Authority { file, pem, name })
    };
    let files = local::authority_certificates(dir);
    let found: io::Result<Vec<Authority>> = files.into_iter().map(read).collect();
    let found = found.map_err(|e| format!("{}: {e}", dir.display()))?;
    if !found.is_empty() {
        return Ok(found);
    }
    // A directory that this user may not read appears to be empty.
    match fs::read_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(format!("{}: {e}; do this as root, or as the server's user", dir.display()))
        }
        _ => Err(format!(
            "{} has no authority yet: start the server once, or name its configuration with --config. \
             If its service has another HOME, write local_authority in that file",
            dir.display()
        )),
    }
}

/// Runs a program to its end, without input.
///
/// # Errors
/// The command and the program's own words.
fn run(command: &[&str]) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let shown = command.join(" ");
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{shown}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = [output.stderr, output.stdout].concat();
    Err(format!("{shown}: {}: {}", output.status, String::from_utf8_lossy(&words).trim()))
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+~@:".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
