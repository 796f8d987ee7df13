//! Files that a command writes when it has ended.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::figures::{Check, append_summary, write_junit};

/// Files with outcomes for continuous integration.
#[derive(Debug, Args)]
pub struct OutcomeArgs {
    /// Write the outcome of each condition or judgement to this file, as JUnit does.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Append the outcomes to this file as a table in Markdown: "$GITHUB_STEP_SUMMARY".
    #[arg(long, value_name = "FILE")]
    pub step_summary: Option<PathBuf>,
}

impl OutcomeArgs {
    /// Checks, before a measurement, that the outcomes can be written.
    ///
    /// # Errors
    /// A file is in a folder that does not exist, or is a folder.
    pub fn check(&self) -> Result<(), String> {
        let files = [("--junit", &self.junit), ("--step-summary", &self.step_summary)];
        check_files(&files)
    }

    /// Writes the outcomes to the files that the options name.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, subject: &str, checks: &[Check]) -> io::Result<()> {
        let junit = self.junit.as_ref().map_or(Ok(()), |file| write_junit(file, subject, checks));
        if let Some(file) = &self.step_summary {
            append_summary(file, subject, checks)?;
        }
        junit
    }
}

/// Checks each file that an option names.
pub(super) fn check_files(files: &[(&str, &Option<PathBuf>)]) -> Result<(), String> {
    files.iter().try_for_each(|(option, file)| match file {
        Some(file) => check_writable(option, file),
        None => Ok(()),
    })
}

/// Checks, before a measurement, that this file can be written after it.
///
/// # Errors
/// It is in a folder that does not exist, or is a folder.
pub fn check_writable(option: &str, file: &Path) -> Result<(), String> {
    let shown = file.display();
    let folder = match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(format!("{option} {shown}: write the name of a file")),
    };
    if file.is_dir() {
        return Err(format!("{option} {shown}: that is a folder; name a file"));
    }
    if !folder.is_dir() {
        return Err(format!("{option} {shown}: there is no folder {}", folder.display()));
    }
    Ok(())
}
