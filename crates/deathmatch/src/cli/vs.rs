//! Arguments of `vs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{OutcomeArgs, share, time};

#[derive(Debug, Args)]
pub struct VsArgs {
    /// The server in question, then those it is compared with: each a contender's name, the command
    /// of a server in quotes, with {port} and {docroot} (and {certificate} and {key} for TLS), or
    /// the URL of a running one. If one is a URL, all servers serve the bytes of its response.
    #[arg(value_name = "SERVER", num_args = 2.., required = true)]
    pub servers: Vec<String>,
    /// The first process of a URL's server, if it runs on this machine: its processor time is
    /// compared too. Without names, those of the URLs in their order.
    #[arg(long = "pid", value_name = "[NAME=]PID")]
    pub pids: Vec<String>,
    /// Compare over HTTP/2, which needs TLS.
    #[arg(long)]
    pub h2: bool,
    /// Compare over HTTP/3, which needs QUIC.
    #[arg(long, conflicts_with = "h2")]
    pub h3: bool,
    /// Accept any certificate of a URL.
    #[arg(long)]
    pub insecure: bool,
    /// Connections.
    #[arg(short, long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,
    /// Requests a second, instead of as fast as they go.
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// Size of the file, unless a URL decides it.
    #[arg(long, default_value = "10k")]
    pub size: String,
    /// Share by which the first server may be worse than another.
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub tolerance: f64,
    /// Instead: share by which its ratios may be worse than in the kept run of this directory.
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,
    /// Files with each judgement.
    #[command(flatten)]
    pub outcomes: OutcomeArgs,
    /// Half width of the interval of a ratio at which the duel ends.
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    pub precision: f64,
    /// Longest time of slices for each server but the first; starts and warm-ups are added.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub budget: Duration,
    /// Folder with more contenders.
    #[arg(long, value_name = "DIR")]
    pub contender_dir: Option<PathBuf>,
    /// Directory for the results, a new one [default: deathmatch-vs, deathmatch-vs-2 and so on].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seed of the order of servers [default: the current time].
    #[arg(long)]
    pub seed: Option<u64>,
    /// First port of the servers that are started, each of which has two. If some are in use, the
    /// next free ones are taken.
    #[arg(long, default_value_t = 8930)]
    pub port: u16,
    /// The processors of the servers and of the generator.
    #[arg(long, value_name = "SERVER,LOAD", value_delimiter = ',', default_values_t = [0, 1])]
    pub cores: Vec<usize>,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}
