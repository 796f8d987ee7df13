//! `deathmatch merge`: the files of many generators as one report.

use std::io::{self, Write};
use std::process::ExitCode;

use deathmatch::cli::MergeArgs;
use deathmatch::fleet::{Merged, read};

use super::{Output, usage};

/// Merges files; the exit code is 1 if a mark is on any of them.
pub(crate) fn merge(args: &MergeArgs) -> io::Result<ExitCode> {
    let collected = match read(&args.files) {
        Ok(collected) => collected,
        Err(why) => return usage(&why),
    };
    let merged = Merged::of(&collected);
    if let Err(e) = merged.write(&args.out) {
        return usage(&format!("--out {}: {e}", args.out.display()));
    }
    let mut out = Output;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&merged)?)?;
    } else {
        writeln!(out, "{merged}\n  report: {}", args.out.join("report.html").display())?;
    }
    Ok(if merged.is_marked { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
