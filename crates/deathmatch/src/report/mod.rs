//! The report: one page that needs no network and no JavaScript, a table for a spreadsheet, and a
//! few lines for the terminal. It draws and words what was measured; how contenders compare comes from
//! whoever calls it, as [`Ranking`]s.

mod beside;
mod brackets;
mod capacity;
mod chart;
mod charts;
mod claims;
mod csv;
mod details;
mod dots;
mod lanes;
mod limit;
mod measure;
mod numbers;
mod overview;
mod page;
mod pair;
mod rankings;
mod results;
mod run;
mod scale;
mod series;
mod steadiness;
mod streams;
mod stretch;
mod tables;
mod takehome;
mod terminal;
mod ways;

#[cfg(test)]
#[path = "../../tests/invented/mod.rs"]
pub(crate) mod invented;

use std::io;
use std::path::Path;

pub use limit::{Limit, Overload, limits};
pub use measure::Measure;
pub use pair::{Pair, pairs, verdict};
pub use run::{Contender, Fact, Ranking, Run, Standing, Tuned, Verdict};

use crate::sample::Sample;

/// The page's file name.
pub const PAGE: &str = "report.html";

/// The table's file name.
pub const TABLE: &str = "summary.csv";

/// Everything a report is made of.
#[derive(Clone, Copy)]
struct Data<'a> {
    run: &'a Run,
    ladders: &'a [series::Ladder<'a>],
    rankings: &'a [Ranking],
    beside: &'a beside::Beside<'a>,
}

/// What ladders are made of: all that counts but the twin's.
fn ladders<'a>(run: &Run, samples: &'a [Sample]) -> Vec<series::Ladder<'a>> {
    series::ladders(samples.iter().filter(|s| run.twin.as_ref() != Some(&s.contender)))
}

/// Writes the page and the table into a directory that exists. Each is put in place whole: a full
/// disk leaves the former one as it was.
///
/// # Errors
/// What the file system says, with the file's path.
pub fn write(dir: &Path, run: &Run, samples: &[Sample], rankings: &[Ranking]) -> io::Result<()> {
    let (ladders, beside) = (ladders(run, samples), beside::Beside::of(run, samples));
    let data = Data { run, ladders: &ladders, rankings, beside: &beside };
    put(dir, PAGE, &page::page(data))?;
    put(dir, TABLE, &csv::table(data))
}

/// The result as text, at most `width` columns where the names allow it.
pub fn terminal(run: &Run, samples: &[Sample], rankings: &[Ranking]) -> String {
    let (ladders, beside) = (ladders(run, samples), beside::Beside::of(run, samples));
    terminal::table(Data { run, ladders: &ladders, rankings, beside: &beside })
}

/// Writes beside the file, then renames.
fn put(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let (path, beside) = (dir.join(name), dir.join(format!(".{name}.part")));
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &path));
    written.map_err(|e| {
        // What could not be finished is no use to anybody; that it cannot be removed says no more.
        let _ = std::fs::remove_file(&beside);
        io::Error::new(e.kind(), format!("{} could not be written: {e}", path.display()))
    })
}
