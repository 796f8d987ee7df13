//! The command line: arguments, and the configuration that they select.

mod address;
mod admin;
pub mod checked;
mod generate;
mod helpers;
mod import;
mod log_level;
mod purge;
mod reload;
mod served;
mod status;
mod top;
mod trust;
mod upgrade;
mod upstream;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf, absolute};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{
    self, AccessLog, Auth, Basic, Config, Listen, LogField, LogFormat, LogTarget, MountHandler,
    Schedule, Sendfile, Uploads,
};
use crate::explain::ExplainedRequest;
use crate::tls::local;

use address::{AddressArgs, Named, parse_listen};
pub use admin::CommandError;
pub use generate::{CompletionsArgs, man};
pub use helpers::{KeepAppArgs, LookUpNamesArgs, RunDnsHookArgs, StartUpgradesArgs};
pub use import::ImportArgs;
pub use log_level::LogLevelArgs;
pub use purge::PurgeArgs;
pub use reload::ReloadArgs;
use served::Served;
pub use status::StatusArgs;
pub use top::TopArgs;
pub use trust::TrustArgs;
pub use upgrade::UpgradeArgs;
pub use upstream::UpstreamArgs;

/// A web server for a machine's own files and applications.
///
/// `hurtle ./public` serves a directory, `hurtle ./public 3000` at port 3000, `hurtle page.html` a
/// single file; `hurtle site.toml` serves what a file configures. Without any, hurtle reads
/// ./hurtle.toml if it exists, and serves the current directory otherwise.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The command; `serve` by default.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a directory or a configuration (the default).
    Serve(ServeArgs),
    /// Check a configuration and report every problem in it.
    Check(CheckArgs),
    /// Print the effective configuration as TOML, defaults included.
    PrintConfig(ServeArgs),
    /// Explain which file or rule handles a URL path, the response's fields, and how it is sent.
    Explain(ExplainArgs),
    /// Supervise an application; the server starts this itself.
    #[command(hide = true)]
    KeepApp(KeepAppArgs),
    /// Start the program anew for upgrades; the server starts this itself.
    #[command(hide = true)]
    StartUpgrades(StartUpgradesArgs),
    /// Look up names of hosts; the server starts this itself.
    #[command(hide = true)]
    LookUpNames(LookUpNamesArgs),
    /// Run the program that writes records for certificates; the server starts this itself.
    #[command(hide = true)]
    RunDnsHook(RunDnsHookArgs),
    /// Put the configuration of a running server in force, as changed. SIGHUP does the same.
    Reload(ReloadArgs),
    /// Print the counters of a running server: requests, connections, caches, upstreams.
    Status(StatusArgs),
    /// Show a running server live: rates, latencies, connections, caches, upstreams.
    Top(TopArgs),
    /// Change the level of a running server's error log, until its next start.
    LogLevel(LogLevelArgs),
    /// Replace a running server by its program's file as it is now, without losing a request.
    /// SIGUSR2 does the same.
    Upgrade(UpgradeArgs),
    /// Drain an upstream of a running server, or restore it.
    Upstream(UpstreamArgs),
    /// Remove responses from a running server's cache.
    Purge(PurgeArgs),
    /// Have this machine and its browsers trust the local certificate authority.
    Trust(TrustArgs),
    /// Translate another server's configuration, and print it as TOML.
    Import(ImportArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page; packages install it.
    #[command(hide = true)]
    Man,
}

/// Selects a configuration file.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// The configuration file [default: hurtle.toml].
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The configuration file, or the directory to serve [default: hurtle.toml].
    #[arg(value_name = "FILE|DIR", conflicts_with = "config")]
    path: Option<PathBuf>,
    /// The configuration file [default: hurtle.toml].
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// The directory or single file to serve, or a configuration file whose name ends in .toml.
    #[arg(value_name = "DIR|FILE", conflicts_with = "config")]
    path: Option<PathBuf>,
    #[command(flatten)]
    addresses: AddressArgs,
    /// Serve HTTPS with a certificate for localhost, signed by a local authority that is created on
    /// first use [default address: 127.0.0.1:8443, or the next free port].
    #[arg(long, conflicts_with = "config")]
    tls: bool,
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Worker threads, one event loop each [default: auto, one for each processor].
    #[arg(long, value_name = "N|auto", value_parser = parse_workers)]
    workers: Option<NonZeroUsize>,
    /// Connections the kernel may queue for a listener [default: 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    backlog: Option<u32>,
    /// Log requests: off, combined, json or brief, optionally to a file [default: off; standard
    /// output].
    #[arg(long, value_name = "off|FORMAT[:PATH]", value_parser = parse_access_log)]
    access_log: Option<AccessLogChoice>,
    /// Choose how file bodies are sent; values other than `auto` are for comparison.
    #[arg(long, value_enum)]
    sendfile: Option<SendfileChoice>,
    /// Choose when a connection reads again after a response; values other than `wait` are for
    /// comparison.
    #[arg(long, value_enum)]
    schedule: Option<ScheduleChoice>,
    /// List directories that have no index file [default: on for DIR, off in a configuration].
    #[arg(long, value_enum, value_name = "on|off")]
    listing: Option<Switch>,
    /// Let clients upload and delete files in DIR; needs --auth.
    #[arg(long, conflicts_with = "config")]
    upload: bool,
    /// Require a name and a password from FILE (lines of `htpasswd -nB NAME`), or require none.
    #[arg(long, value_name = "FILE|none", conflicts_with = "config", value_parser = parse_auth)]
    auth: Option<Auth>,
    /// Allow passwords in clear over a network.
    #[arg(long, requires = "auth")]
    auth_cleartext: bool,
    /// Memory for cached files, in bytes or as in 64MiB [default: 64 MiB].
    #[arg(long, value_name = "N", value_parser = config::parse_size)]
    cache_bytes: Option<usize>,
    /// Threads for disk access [default: 16].
    #[arg(long, value_name = "N")]
    disk_threads: Option<NonZeroUsize>,
    /// Age at which a cached file's name is looked up again [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = config::parse_duration)]
    revalidate: Option<std::time::Duration>,
    /// Wait this long for requests in flight when stopping [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = config::parse_duration)]
    drain: Option<std::time::Duration>,
    /// Reload the configuration whenever its file, or one that it includes, changes, for
    /// development.
    #[arg(long)]
    watch: bool,
    /// Print a line for each request on standard output (same as --access-log brief).
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct ExplainArgs {
    /// The directory or file to serve, or a configuration file whose name ends in .toml [default:
    /// ./hurtle.toml if it exists, else the current directory].
    #[arg(value_name = "DIR|FILE", conflicts_with_all = ["config", "dir"])]
    path: Option<PathBuf>,
    /// The requested path, such as /docs/index.html?page=2, or a whole http:// URL.
    #[arg(value_name = "URL-PATH", required = true)]
    target: String,
    /// The directory to serve.
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    dir: Option<PathBuf>,
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The requested host, if the path names none.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// The address of `listen` or `listen_tls` that gets the request, if sites have their own
    /// [default: by the port of a whole URL].
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    listen: Option<Listen>,
    /// Accept-Encoding of the request, such as "br, gzip".
    #[arg(long, value_name = "CODINGS")]
    accept_encoding: Option<String>,
    /// The method of the request.
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// Another field of the request; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    fields: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SendfileChoice {
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScheduleChoice {
    Wait,
    Eager,
    Yield,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// The value of `--access-log`.
#[derive(Clone, Debug)]
struct AccessLogChoice(Option<AccessLog>);

/// A configuration with facts that it does not record.
#[derive(Debug)]
pub struct LoadedConfig {
    pub config: Config,
    /// `true`: the address is a default, so another port may be used.
    pub any_port: bool,
    /// The local authority of `--tls`.
    pub authority: Option<local::Prepared>,
}

/// The problems of a configuration, one line each.
pub type ConfigProblems = Vec<String>;

const CONFIG_FILE: &str = "hurtle.toml";

impl Cli {
    /// The command to run.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

impl CheckArgs {
    /// Loads the configuration file. A directory has no file to check: its defaults are right.
    ///
    /// # Errors
    /// Every problem in it, one line each.
    pub fn load(self) -> Result<Config, ConfigProblems> {
        match self.path {
            Some(dir) if dir.is_dir() => Ok(Config::for_directory(dir)),
            path => FileArgs { config: path.or(self.config) }.load(),
        }
    }
}

impl FileArgs {
    /// Loads the configuration file.
    ///
    /// # Errors
    /// Every problem in it, one line each.
    pub fn load(&self) -> Result<Config, ConfigProblems> {
        let config = Served::Configuration(self.path()).load()?;
        checked::check_files(&config)?;
        Ok(config)
    }

    /// Path of the configuration file.
    fn path(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| CONFIG_FILE.into())
    }
}

impl ServeArgs {
    /// The configuration that the arguments select.
    ///
    /// # Errors
    /// Every problem, one line each.
    pub fn config(&self) -> Result<LoadedConfig, ConfigProblems> {
        let (served, first) = self.served()?;
        let has_default = !served.is_configuration();
        let is_dir = matches!(served, Served::Directory(_));
        let addresses = self.addresses.addresses(first, has_default)?;
        let mut config = served.load()?;
        let file = self.path.as_deref().unwrap_or(Path::new(CONFIG_FILE)).display();
        self.apply_access(&mut config, is_dir)?;
        if self.tls && !has_default {
            let hint = "name the directory to serve, or write [site.tls] in the file";
            return Err(vec![format!("--tls needs a directory, but {file} is used: {hint}")]);
        }
        let any_port = has_default && addresses.listen.is_empty();
        if !addresses.listen.is_empty() {
            config.listen.clone_from(&addresses.listen);
        }
        let mut authority = None;
        if self.tls {
            authority = Some(enable_local_tls(&mut config, any_port).map_err(|e| vec![e])?);
        }
        addresses.replace_default_ip(&mut config);
        set(&mut config.workers, self.workers);
        set(&mut config.backlog, self.backlog);
        set(&mut config.cache_bytes, self.cache_bytes);
        set(&mut config.disk_threads, self.disk_threads);
        set(&mut config.revalidate, self.revalidate);
        set(&mut config.drain, self.drain);
        if let Some(choice) = self.sendfile {
            config.sendfile = match choice {
                SendfileChoice::Auto => Sendfile::Auto,
                SendfileChoice::On => Sendfile::On,
                SendfileChoice::Off => Sendfile::Off,
            };
        }
        if let Some(choice) = self.schedule {
            config.schedule = match choice {
                ScheduleChoice::Wait => Schedule::Wait,
                ScheduleChoice::Eager => Schedule::Eager,
                ScheduleChoice::Yield => Schedule::Yield,
            };
        }
        if let Some(switch) = self.listing {
            for mount in config.sites.iter_mut().flat_map(|site| &mut site.mounts) {
                if let MountHandler::Files(files) = &mut mount.handler {
                    files.listing = switch == Switch::On;
                }
            }
        }
        match &self.access_log {
            Some(AccessLogChoice(choice)) => config.access_log.clone_from(choice),
            None if self.verbose => {
                config.access_log =
                    Some(AccessLog { format: LogFormat::Brief, ..AccessLog::default() });
            }
            None => {}
        }
        Ok(LoadedConfig { config, any_port, authority })
    }

    /// The configuration file; `None`: a directory or a file is served.
    pub fn file(&self) -> Option<PathBuf> {
        match self.served() {
            Ok((Served::Configuration(file), _)) => Some(file),
            Ok(_) | Err(_) => None,
        }
    }

    /// The thing to serve, and the address of the first argument if it is one: `hurtle 8080`.
    fn served(&self) -> Result<(Served, Option<Named>), ConfigProblems> {
        let first = self.addresses.of_path(self.path.as_deref());
        let path = self.path.as_deref().filter(|_| first.is_none());
        Ok((Served::new(self.config.as_deref(), path)?, first))
    }

    /// `true`: the file is watched.
    ///
    /// # Errors
    /// There is no file.
    pub fn watch(&self) -> Result<bool, ConfigProblems> {
        if self.watch && self.file().is_none() {
            return Err(vec!["--watch needs a configuration file: name one".to_owned()]);
        }
        Ok(self.watch)
    }

    /// Applies `--upload` and `--auth` to a directory; a configuration has its own settings.
    fn apply_access(&self, config: &mut Config, is_dir: bool) -> Result<(), ConfigProblems> {
        if !is_dir && (self.upload || self.auth.is_some()) {
            let what = "--upload and --auth need DIR: write uploads = {} and auth = in";
            let file = self.path.as_deref().unwrap_or(Path::new(CONFIG_FILE)).display();
            return Err(vec![format!("{what} {file} instead, or name DIR")]);
        }
        if self.upload && self.auth.is_none() {
            return Err(vec![
                "--upload lets everybody who can reach the server write: add --auth FILE, with \
                 lines of `htpasswd -nB NAME`, or --auth none if that is intended"
                    .to_owned(),
            ]);
        }
        let Some(site) = config.sites.first_mut() else { return Ok(()) };
        if let Some(auth) = &self.auth {
            site.auth = Some(match auth.clone() {
                Auth::Basic(mut basic) => {
                    basic.space.cleartext = self.auth_cleartext;
                    Auth::Basic(basic)
                }
                other @ (Auth::None | Auth::Forward(_) | Auth::Jwt(_)) => other,
            });
        }
        for mount in &mut site.mounts {
            if let (MountHandler::Files(files), true) = (&mut mount.handler, self.upload) {
                files.uploads = Some(Uploads::default());
            }
        }
        Ok(())
    }
}

impl ExplainArgs {
    /// The request to explain.
    pub fn request(&self) -> ExplainedRequest<'_> {
        ExplainedRequest {
            target: &self.target,
            host: self.host.as_deref(),
            listen: self.listen.as_ref(),
            accept_encoding: self.accept_encoding.as_deref(),
            method: &self.method,
            fields: &self.fields,
        }
    }

    /// The configuration to explain.
    ///
    /// # Errors
    /// Every problem, one line each.
    pub fn config(&self) -> Result<Config, ConfigProblems> {
        let path = self.path.as_deref().or(self.dir.as_deref());
        Served::new(self.config.as_deref(), path)?.load()
    }
}

/// Adds HTTPS to a configuration, and makes the certificate.
fn enable_local_tls(config: &mut Config, any_port: bool) -> Result<local::Prepared, String> {
    let dir = config::own_directory();
    let dir = dir.ok_or("there is no HOME to store a certificate in; set it")?;
    config.enable_local_tls(&dir, any_port);
    local::prepare(config).map_err(|e| format!("no certificate for localhost: {e}"))
}

fn set<T>(slot: &mut T, choice: Option<T>) {
    if let Some(choice) = choice {
        *slot = choice;
    }
}

fn parse_auth(text: &str) -> Result<Auth, String> {
    if text == "none" {
        return Ok(Auth::None);
    }
    absolute(text).map(|users| Auth::Basic(Basic::new(users))).map_err(|e| e.to_string())
}

fn parse_workers(text: &str) -> Result<NonZeroUsize, String> {
    if text == "auto" {
        return std::thread::available_parallelism().map_err(|e| e.to_string());
    }
    text.parse().map_err(|_| "write a number from 1 up, or auto".to_owned())
}

fn parse_access_log(text: &str) -> Result<AccessLogChoice, String> {
    if text == "off" {
        return Ok(AccessLogChoice(None));
    }
    let (format, path) = match text.split_once(':') {
        None => (text, None),
        Some((format, path)) => (format, Some(OsString::from(path))),
    };
    let format = match format {
        "combined" => LogFormat::Combined,
        "json" => LogFormat::Json(LogField::common()),
        "brief" => LogFormat::Brief,
        _ => return Err("write off, combined, json or brief, and :PATH for a file".to_owned()),
    };
    let to = match path {
        None => LogTarget::Stdout,
        Some(path) => LogTarget::File(absolute(path).map_err(|e| e.to_string())?),
    };
    Ok(AccessLogChoice(Some(AccessLog { format, to, ..AccessLog::default() })))
}
