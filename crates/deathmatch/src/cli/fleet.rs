//! Arguments of `load`, `watch` and `merge`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::UrlArgs;
use crate::fleet::{parse, unix_now};

/// Longest wait for a start.
const WAIT_S_MAX: f64 = 24.0 * 3600.0;

#[derive(Debug, Args)]
pub struct LoadArgs {
    #[command(flatten)]
    pub load: UrlArgs,
    /// Start then: an RFC 3339 time such as 2026-01-31T12:00:00Z, or +5s from now [default: as
    /// soon as it is ready].
    #[arg(long, value_name = "TIME", value_parser = at, help_heading = "One generator of many")]
    pub at: Option<At>,
    /// Write the figures to this file, for `deathmatch merge`; `-` is the standard output.
    #[arg(long, value_name = "FILE", help_heading = "One generator of many")]
    pub out: PathBuf,
}

/// The start of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    /// So long after the command's.
    After(Duration),
    /// Seconds since 1970.
    Unix(f64),
}

impl At {
    /// Seconds since 1970, if the command begins now.
    pub fn unix_s(self) -> f64 {
        match self {
            At::After(wait) => unix_now() + wait.as_secs_f64(),
            At::Unix(unix_s) => unix_s,
        }
    }
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The server's process; its session and its descendants belong to it.
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: u32,
    /// Write a line for each second to this file, for `deathmatch merge`.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Files of `deathmatch load` and, optionally, of one `deathmatch watch`.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Directory for the report.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Print the figures as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// `2026-01-31T12:00:00Z`, `+5s` or `+2m`.
fn at(text: &str) -> Result<At, String> {
    let why = "write a time such as 2026-01-31T12:00:00Z, or +5s from now (at most +24h)";
    let Some(wait) = text.strip_prefix('+') else {
        return parse(text).map(At::Unix).ok_or_else(|| why.to_owned());
    };
    crate::duration::parse(wait).map(At::After).map_err(|_| why.to_owned())
}

impl LoadArgs {
    /// The start that is given, if one is. Checks that it can be waited for.
    ///
    /// # Errors
    /// It is too far away.
    pub fn start_unix_s(&self) -> Result<Option<f64>, String> {
        let Some(at) = self.at else { return Ok(None) };
        let start = at.unix_s();
        let wait = start - unix_now();
        if wait.abs() > WAIT_S_MAX {
            return Err(format!(
                "--at: that is {:.0} h {}; name a start within a day, and check the clock",
                wait.abs() / 3600.0,
                if wait > 0.0 { "away" } else { "ago" }
            ));
        }
        Ok(Some(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_time_or_a_wait() {
        assert_eq!(at("+5s"), Ok(At::After(Duration::from_secs(5))));
        assert_eq!(at("+2m"), Ok(At::After(Duration::from_secs(120))));
        assert_eq!(at("1970-01-01T00:01:00Z"), Ok(At::Unix(60.0)));
        for text in ["", "5s", "+", "+x", "+25h", "tomorrow", "12:00"] {
            assert!(at(text).unwrap_err().contains("+5s"), "{text}");
        }
    }
}
