//! Arguments of `deathmatch URL`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::outcomes::{OutcomeArgs, check_files};
use crate::duration::parse as duration;
use crate::figures::Condition;
use crate::histogram::TIME_NS_MAX;
use crate::target::{Route, Url};

/// Load on one running server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load on one URL")]
pub struct UrlArgs {
    /// Put load on the server of this URL (http or https) with GET requests, and show its rate and
    /// response times. Several URLs of one server are requested in turn. ws and wss: send a message
    /// of -b, or a ping, on each WebSocket after the server's response to the one before.
    #[arg(value_name = "URL")]
    pub urls: Vec<Url>,
    /// Request what this file has in turn, in vegeta's format: `METHOD URL` in a line, then fields,
    /// then the file of its body after @; an empty line ends it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "method", "body"])]
    pub targets: Option<PathBuf>,
    /// Request what this archive of a browser has in turn (HAR 1.2), as far as it is of the server
    /// of its first request.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "method", "body", "targets"])]
    pub har: Option<PathBuf>,
    /// Have visitors that take the steps of this file: pages, what they need, and pauses between
    /// them (TOML, or the pages of a browser's archive, HAR). -c are visitors at once, -r visits a
    /// second; the figures count steps.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "targets", "har", "weights",
        "method", "body", "grpc", "streams", "disable_keepalive", "unix_socket",
        "latency_correction"])]
    pub scenario: Option<PathBuf>,
    /// Proportion of each of several requests, in their order, such as 8,1,1 [default: all alike].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub weights: Vec<u32>,
    /// Connections.
    #[arg(short, long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=30_000))]
    pub connections: u32,
    /// Time such as 500ms, 10s or 2m [default: 10s, or until -n requests].
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Requests a second in all, sent at that rate whatever the responses do (open loop): response
    /// times count from when a request should have been sent. Without it each connection sends the
    /// next request after the response.
    #[arg(short, long, value_name = "PER_SECOND", allow_negative_numbers = true, value_parser = rate)]
    pub rate: Option<f64>,
    /// End after so many requests.
    #[arg(short = 'n', long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// A field of the requests, such as 'Accept: text/html'; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub headers: Vec<String>,
    /// The method [default: GET, or POST with a body].
    #[arg(short, long)]
    pub method: Option<String>,
    /// The body: a text, or @FILE.
    #[arg(short, long, value_name = "TEXT|@FILE")]
    pub body: Option<String>,
    /// HTTP/2; over http:// with prior knowledge.
    #[arg(long, group = "multiplexed")]
    pub h2: bool,
    /// HTTP/3 (https only).
    #[arg(long, conflicts_with = "h2", group = "multiplexed")]
    pub h3: bool,
    /// Call a gRPC method over HTTP/2: the URL's path is /package.Service/Method, and -b is the
    /// encoded message.
    #[arg(long, group = "multiplexed", conflicts_with_all = ["h2", "h3", "method", "targets", "har"])]
    pub grpc: bool,
    /// The .proto file of the gRPC service; -b is then the message in JSON.
    #[arg(long, value_name = "FILE", requires = "grpc")]
    pub proto: Option<PathBuf>,
    /// Requests at once on each connection of HTTP/2 or HTTP/3.
    #[arg(long, requires = "multiplexed", value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub streams: u32,
    /// In a closed loop, also show the response times with the requests that a stall kept from
    /// being sent: one for each median response time of the stall. Not for visitors (--scenario),
    /// who pause between their steps.
    #[arg(long)]
    pub latency_correction: bool,
    /// Accept any certificate.
    #[arg(long)]
    pub insecure: bool,
    /// A new connection for each request, which the server closes after its response; connecting
    /// and closing are in the response times. HTTP/1.1 only.
    #[arg(long, conflicts_with = "multiplexed")]
    pub disable_keepalive: bool,
    /// Connect to this unix domain socket; the URL has the Host field and the path. HTTP/1.1 only.
    #[arg(long, value_name = "PATH", conflicts_with = "multiplexed")]
    pub unix_socket: Option<PathBuf>,
    /// Connect to the other host and port, as curl does: '::127.0.0.1:8443' for any URL.
    #[arg(long, value_name = "HOST:PORT:OTHER:PORT", conflicts_with = "unix_socket")]
    pub connect_to: Option<String>,
    /// Use this address for the host, as curl does.
    #[arg(long, value_name = "HOST:PORT:ADDRESS", conflicts_with_all = ["unix_socket", "connect_to"])]
    pub resolve: Option<String>,
    /// Sleep while there is nothing to do, on a machine that others use too: the generator then
    /// wakes some 50 us late, but does not compete for a processor.
    #[arg(long)]
    pub sleep: bool,
    /// Processors of the generator, such as 3 or 2,3 [default: any].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// The load has failed (exit code 1) if this holds, as in 'p99 > 20ms', 'error_rate > 0.1%' or
    /// 'rate < 1000'; may be repeated. Without a condition on errors, each failed request is a
    /// failure.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
    /// Files with the outcome of each condition.
    #[command(flatten)]
    pub outcomes: OutcomeArgs,
    /// A response that takes longer is a failure; 2m at most.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = timeout)]
    pub timeout: Duration,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
    /// Also write a row for each second to this file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Also write a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// A time that a histogram of response times can tell from longer ones.
fn timeout(text: &str) -> Result<Duration, String> {
    let longest = Duration::from_nanos(TIME_NS_MAX);
    let told = |time: &Duration| *time <= longest;
    let why = || format!("write {}s at most: longer times are not told apart", longest.as_secs());
    duration(text).and_then(|time| Some(time).filter(told).ok_or_else(why))
}

impl UrlArgs {
    /// Checks, before the load, that its files can be written.
    ///
    /// # Errors
    /// A file is in a folder that does not exist, or is a folder.
    pub fn check_files(&self) -> Result<(), String> {
        check_files(&[("--csv", &self.csv), ("--html", &self.html)])?;
        self.outcomes.check()
    }

    /// The URL with its route.
    ///
    /// # Errors
    /// A route that is not of this URL.
    pub fn routed(&self, url: &Url) -> Result<Url, String> {
        let route = match (&self.unix_socket, &self.connect_to, &self.resolve) {
            (Some(socket), ..) => Route { socket: Some(socket.clone()), to: None },
            (None, Some(text), _) => Route::connect_to(text, url)?,
            (None, None, Some(text)) => Route::resolve(text, url)?,
            (None, None, None) => Route::default(),
        };
        Ok(Url { route, ..url.clone() })
    }
}

/// Requests a second, as the generator can offer them.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.001..=1e6).contains(rate));
    rate.ok_or_else(|| "write requests a second, from 0.001 to 1000000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_bounds() {
        assert!(rate("0").is_err() && rate("2e6").is_err() && rate("1.5") == Ok(1.5));
    }

    #[test]
    fn a_timeout_is_a_time_that_histograms_tell_apart() {
        for (text, time) in [("500ms", 500), ("2m", 120_000), ("120", 120_000)] {
            assert_eq!(timeout(text), Ok(Duration::from_millis(time)), "{text}");
        }
        for (text, why) in [("121s", "write 120s at most"), ("1h", "120s"), ("x", "write a time")] {
            assert!(timeout(text).is_err_and(|e| e.contains(why)), "{text}");
        }
    }
}
