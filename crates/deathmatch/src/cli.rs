//! The command line's grammar.

mod fleet;
mod outcomes;
mod url;
mod vs;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::plan::{BUDGET_S_MAX, BUILT_IN, PRECISION_MAX, PRECISION_MIN};
use crate::report::Measure;

pub use fleet::{At, LoadArgs, MergeArgs, WatchArgs};
pub use outcomes::{OutcomeArgs, check_writable};
pub use url::UrlArgs;
pub use vs::VsArgs;

/// Runs web servers against the same work on this machine and draws a report, or puts load on one
/// URL.
#[derive(Debug, Parser)]
#[command(
    version,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Without a command: load on one URL.
    #[command(flatten)]
    pub load: UrlArgs,
}

const EXAMPLES: &str = "Examples:
  deathmatch http://127.0.0.1:8080/                        50 connections, 10 seconds
  deathmatch -c 100 -r 20000 -d 30s https://example.test/  20,000 requests a second, whatever the server does
  deathmatch -n 1000 -m PUT -b @data.json -H 'Content-Type: application/json' http://127.0.0.1:8080/item
  deathmatch --weights 9,1 http://127.0.0.1:8080/ http://127.0.0.1:8080/search    two requests, by their weights
  deathmatch -r 500 --fail-if 'p99 > 20ms' --junit out.xml http://127.0.0.1:8080/    exit code 1 if it is slow
  deathmatch vs './server {port} {docroot}' nginx          your server against another
  deathmatch duel nginx hurtle                             two servers, alive at the same time
  deathmatch run --quick                                   every server once";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a plan and write a report.
    Run(RunArgs),
    /// Compare contenders that are alive at the same time: the load goes round between them in
    /// slices of a quarter of a second, until every ratio is known to the precision or the budget
    /// ends.
    Duel(DuelArgs),
    /// A duel of any server with others in one line; exit code 1 if the first is worse than another
    /// by more than the tolerance, 3 if neither that nor the contrary is shown. Example: deathmatch
    /// vs './server --port {port} --root {docroot}' nginx caddy
    Vs(VsArgs),
    /// List the contenders, and which of them can run here.
    List {
        /// Also the contenders of this folder.
        #[arg(long, value_name = "DIR")]
        contender_dir: Option<PathBuf>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the work of a plan and its duration, without running it.
    Plan {
        #[arg(default_value = "deck", help = plans(""))]
        plan: String,
    },
    /// Install contenders (Debian, as root).
    Install {
        /// Names of contenders.
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// All contenders.
        #[arg(long)]
        all: bool,
    },
    /// Show settings of this machine that disturb measurements, and how to change them; changes
    /// nothing.
    Doctor {
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Draw the report of a finished run again.
    Report {
        /// The run's directory.
        dir: PathBuf,
        /// Also write one plot of all works of the run to this file, as SVG.
        #[arg(long, value_name = "FILE")]
        plot: Option<PathBuf>,
        /// The measure that is plotted.
        #[arg(long, requires = "plot", default_value = "cpu-per-request")]
        measure: Measure,
        /// Print the result as JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Count the system calls of contenders per request, by name, and show those of one busy
    /// moment; needs perf (apt-get install linux-perf) and root.
    Calls(CallsArgs),
    /// Compare two runs, or two contenders of one, for automatic decisions about a change.
    ///
    /// A row is fine if the interval's worse bound lies within the tolerance. Exit code: 0 if all
    /// rows are fine or improved, 1 on a regression, 2 on wrong usage or an unreadable run, 3 if
    /// neither is shown (too few rounds, too wide an interval, or the machine has changed).
    Compare(CompareArgs),
    /// One generator of many: put load on one URL from a given time on, and write the figures to a
    /// file for `merge`.
    ///
    /// Exit code: 0 once the file is written, also if requests failed, 1 if it was interrupted, 2
    /// on wrong usage or if no connection can be made.
    Load(Box<LoadArgs>),
    /// Write the use of a server's processes and machine to a file, a line for each second, until
    /// Ctrl-C or the end of the process.
    Watch(WatchArgs),
    /// Merge the files of many generators and draw one report.
    ///
    /// Exit code: 0, 1 if a generator is marked (its start, clock, options or lateness), 2 on wrong
    /// usage or an unreadable file.
    Merge(MergeArgs),
}

#[derive(Debug, Args)]
pub struct CallsArgs {
    /// Names of contenders.
    #[arg(required = true)]
    pub names: Vec<String>,
    /// Connections; each requests 1 KB again after the response.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,
    /// Seconds of counting.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub seconds: u64,
    /// A folder of further contenders, NAME/contender.toml each.
    #[arg(long, value_name = "DIR")]
    pub contender_dir: Option<PathBuf>,
    /// Directory in which contenders are set up.
    #[arg(long, value_name = "DIR", default_value = "deathmatch-calls")]
    pub out: PathBuf,
    /// Port on which contenders listen, one at a time; a proxy's upstream has the next port.
    #[arg(long, default_value_t = 8930)]
    pub port: u16,
    /// The processors of the server and of the generator.
    #[arg(long, value_name = "SERVER,LOAD", value_delimiter = ',', default_values_t = [0, 1])]
    pub cores: Vec<usize>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The baseline: a run's directory or, with --in, a contender.
    pub a: String,
    /// The directory or contender to compare with it.
    pub b: String,
    /// Compare two contenders of the run in this directory.
    #[arg(long = "in", value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Share by which a figure may be worse, such as 0.05.
    #[arg(long, default_value_t = 0.05)]
    pub tolerance: f64,
    /// Files with the outcome of each row.
    #[command(flatten)]
    pub outcomes: OutcomeArgs,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DuelArgs {
    /// Contenders, the reference first; also a contender under another name with another
    /// executable: new=hurtle:target/release/hurtle [default: the plan's].
    #[arg(value_name = "NAME|NEW=NAME[:PATH]")]
    pub names: Vec<String>,
    /// A built-in plan or a TOML file, instead of --work.
    #[arg(long, conflicts_with = "works")]
    pub plan: Option<String>,
    /// A file's size, connections and, for an open loop, requests a second: 10k:50 or 1m:10@200.
    /// May be repeated.
    #[arg(long = "work", value_name = "SIZE[:CONNECTIONS][@RATE]")]
    pub works: Vec<String>,
    /// Half width of the interval of a processor-time ratio at which a work ends; of replies a
    /// second, twice that [default: 1%].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub precision: Option<f64>,
    /// Longest time of slices for each contender but the reference at each work, without starts and
    /// warm-ups [default: 60s; of a plan, its].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub budget: Option<Duration>,
    /// Contenders that are alive with 50 open connections, but never loaded: their effect is
    /// measured.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub idle: Vec<String>,
    /// Compare the first contender with itself so many times, and count the intervals that contain
    /// 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub self_test: Option<u32>,
    /// Seed of the order of contenders [default: the current time].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Directory for the results [default: deathmatch-duel].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the duel in that directory.
    #[arg(long)]
    pub resume: bool,
    /// First port of the contenders, each of which has two; the next free ones if some are in use.
    #[arg(long, default_value_t = 8930)]
    pub port: u16,
    /// The processors of the servers and of the generator.
    #[arg(long, value_name = "SERVER,LOAD", value_delimiter = ',', default_values_t = [0, 1])]
    pub cores: Vec<usize>,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// `1%` or `0.01`.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().map(|number| number * unit);
    let fits = |share: &f64| (PRECISION_MIN..=PRECISION_MAX).contains(share);
    share.ok().filter(fits).ok_or_else(|| "write a share from 0.1% to 50%, such as 1%".to_owned())
}

/// `60s`, `2m` or `60`.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix('m'), text.strip_suffix('s')) {
        (Some(minutes), _) => (minutes, 60.0),
        (None, seconds) => (seconds.unwrap_or(text), 1.0),
    };
    let seconds = number.parse::<f64>().map(|number| number * unit);
    let fits = |seconds: &f64| (1.0..=BUDGET_S_MAX).contains(seconds);
    let seconds = seconds.ok().filter(fits);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write a time such as 60s or 2m".to_owned())
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[arg(help = plans(" [default: deck]"))]
    pub plan: Option<String>,
    /// One round of short samples of a plan; without a plan, every contender once (`quick`).
    #[arg(long)]
    pub quick: bool,
    /// Only these contenders, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub only: Vec<String>,
    /// A contender under another name and, optionally, with another executable:
    /// old=nginx:/opt/nginx/sbin/nginx.
    #[arg(long = "contender", value_name = "NEW=NAME[:PATH]")]
    pub contenders: Vec<String>,
    /// A folder of further contenders, NAME/contender.toml each; they take part beside the plan's
    /// (or those of --only).
    #[arg(long, value_name = "DIR", conflicts_with = "targets")]
    pub contender_dir: Option<PathBuf>,
    /// A running server, perhaps on another host, that serves the plan's files (as in DIR/docroot)
    /// at its root, or beneath the path of a URL. Contenders then take part only if --only or
    /// --contender names them.
    #[arg(long = "target", value_name = "[NAME=]URL|HOST:PORT")]
    pub targets: Vec<String>,
    /// The first process of a target on this machine: its processor time and memory are measured.
    #[arg(long = "pid", value_name = "[NAME=]PID", requires = "targets")]
    pub pids: Vec<String>,
    /// Directory for the results [default: deathmatch-PLAN].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the run in that directory.
    #[arg(long)]
    pub resume: bool,
    /// Seed of the order of contenders [default: the current time].
    #[arg(long)]
    pub seed: Option<u64>,
    /// First port of the contenders, each of which has two; the next free ones if some are in use.
    #[arg(long, default_value_t = 8930)]
    pub port: u16,
    /// The processors of the server and of the generator.
    #[arg(long, value_name = "SERVER,LOAD", value_delimiter = ',', default_values_t = [0, 1])]
    pub cores: Vec<usize>,
    /// Number of rounds of works that are done in turns, instead of the plan's.
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Only one contender is alive at a time, at every work.
    #[arg(long)]
    pub turns: bool,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// `true` if the command has --resume.
    #[arg(skip = true)]
    pub can_resume: bool,
}

impl RunArgs {
    /// Returns the arguments of a run that has its own plan and contenders.
    pub fn own(out: PathBuf, port: u16, cores: Vec<usize>) -> RunArgs {
        RunArgs {
            plan: None,
            quick: false,
            only: Vec::new(),
            contenders: Vec::new(),
            contender_dir: None,
            targets: Vec::new(),
            pids: Vec::new(),
            out: Some(out),
            resume: false,
            seed: None,
            port,
            cores,
            rounds: None,
            turns: false,
            json: false,
            can_resume: true,
        }
    }
}

/// Help on the argument that names a plan.
fn plans(default: &str) -> String {
    let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    format!("A built-in plan ({}) or a TOML file{default}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_help_of_run_and_plan_lists_every_plan() {
        for name in ["run", "plan"] {
            let mut cli = Cli::command();
            let help = cli.find_subcommand_mut(name).unwrap().render_help().to_string();
            let words: Vec<&str> = help.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
            for (plan, _) in BUILT_IN {
                assert!(words.contains(&plan), "{plan} is not in the help of {name}:\n{help}");
            }
        }
    }
}
