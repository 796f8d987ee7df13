//! The command line: what can be written.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Runs web servers against the same work on this machine, honestly, and draws the result.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a plan and leave a report.
    Run(RunArgs),
    /// Say which contenders there are, and which can run here.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what a plan would do and how long it takes; runs nothing.
    Plan {
        /// A built-in plan (deck, experiments, sizes, sendfile, mixed, cold, yield, tls, h2, quick) or a TOML
        /// file.
        #[arg(default_value = "deck")]
        plan: String,
    },
    /// Install contenders (Debian, as root).
    Install {
        /// Which.
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// Every one.
        #[arg(long)]
        all: bool,
    },
    /// Say which of this machine's settings stand in the way, and what to change; changes nothing.
    Doctor {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Draw the report of a run again.
    Report {
        /// The run's directory.
        dir: PathBuf,
        /// Print the result as JSON in the place of the table.
        #[arg(long)]
        json: bool,
    },
    /// Count the system calls of contenders for a request, by name, and show those of one busy
    /// moment; takes perf (apt-get install linux-perf) and root.
    Calls(CallsArgs),
    /// Compare two runs, or two contenders of one; exit code 1 on a regression, 2 if nothing can be
    /// said.
    Compare(CompareArgs),
}

/// What `calls` takes.
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// Whose.
    #[arg(required = true)]
    pub names: Vec<String>,
    /// Connections, each asking for 1 KB again when it is answered.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,
    /// Seconds to count for.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub seconds: u64,
    /// Where contenders are set up.
    #[arg(long, value_name = "DIR", default_value = "deathmatch-calls")]
    pub out: PathBuf,
    /// Where contenders listen, one at a time; what is behind a proxy has the port after it.
    #[arg(long, default_value_t = 8930)]
    pub port: u16,
    /// The processors of the server and of the generator.
    #[arg(long, value_name = "SERVER,LOAD", value_delimiter = ',', default_values_t = [0, 1])]
    pub cores: Vec<usize>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// What `compare` takes.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The run's directory, or with --in the contender, to compare with.
    pub a: String,
    /// The one in question.
    pub b: String,
    /// Compare two contenders of the run in this directory.
    #[arg(long = "in", value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// The share by which a figure may be worse.
    #[arg(long, default_value_t = 0.05)]
    pub tolerance: f64,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// What `run` takes.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A built-in plan (deck, experiments, sizes, sendfile, mixed, cold, yield, tls, h2, quick) or a TOML
    /// file [default: deck].
    pub plan: Option<String>,
    /// Only a look: of a plan one round of short samples; without a plan, every contender (`quick`).
    #[arg(long)]
    pub quick: bool,
    /// Only these contenders, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub only: Vec<String>,
    /// A contender under another name and, perhaps, executable: old=nginx:/opt/nginx/sbin/nginx.
    #[arg(long = "contender", value_name = "NEW=NAME[:PATH]")]
    pub contenders: Vec<String>,
    /// A server that runs already, perhaps on another host, and serves the plan's files (as they are
    /// in DIR/docroot) at its root. Only such servers are then measured, and not their machines.
    #[arg(long = "target", value_name = "[NAME=]HOST:PORT", conflicts_with_all = ["only", "contenders"])]
    pub targets: Vec<String>,
    /// Where everything is left [default: deathmatch-PLAN].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the run in that directory.
    #[arg(long)]
    pub resume: bool,
    /// What the order of contenders is drawn from [default: the time].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Where contenders listen, one at a time; what is behind a proxy has the port after it.
    #[arg(long, default_value_t = 8930)]
    pub port: u16,
    /// The processors of the server and of the generator.
    #[arg(long, value_name = "SERVER,LOAD", value_delimiter = ',', default_values_t = [0, 1])]
    pub cores: Vec<usize>,
    /// Rounds, in the place of the plan's.
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Print the result as JSON in the place of the table.
    #[arg(long)]
    pub json: bool,
}
