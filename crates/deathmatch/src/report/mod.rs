//! The report: one page that needs no network and no JavaScript, a table for a spreadsheet, and a
//! few lines for the terminal. It draws and words the measurements; the caller compares the
//! contenders and passes the result as [`Ranking`]s.

mod beside;
mod brackets;
mod capacity;
mod chart;
mod charts;
mod claims;
mod csv;
mod details;
mod dots;
mod herds;
mod lanes;
mod limit;
mod measure;
mod missing;
mod numbers;
mod overview;
mod page;
mod pages;
mod pair;
mod plot;
mod rankings;
mod results;
mod run;
mod scale;
mod series;
mod standings;
mod steadiness;
mod streams;
mod stretch;
mod tables;
mod takehome;
mod terminal;
mod ways;
mod works;

#[cfg(test)]
#[path = "../../tests/invented/mod.rs"]
pub(crate) mod invented;

use std::io;
use std::path::Path;

pub use beside::disturbed;
pub use limit::{Limit, Overload, limits};
pub use measure::Measure;
pub use pair::{Pair, pairs, verdict};
pub use run::{Contender, Fact, Measured, Ranking, Run, Standing, Tuned, Verdict};

use crate::sample::Sample;

/// The page's file name.
pub const PAGE: &str = "report.html";

/// The table's file name.
pub const TABLE: &str = "summary.csv";

/// All data of a report.
#[derive(Clone, Copy)]
struct Data<'a> {
    run: &'a Run,
    ladders: &'a [series::Ladder<'a>],
    rankings: &'a [Ranking],
    beside: &'a beside::Beside<'a>,
}

/// Ladders of all samples that count, without the twin's.
fn ladders<'a>(run: &Run, samples: &'a [Sample]) -> Vec<series::Ladder<'a>> {
    series::ladders(samples.iter().filter(|s| run.twin.as_ref() != Some(&s.contender)))
}

/// Writes the page and the table into an existing directory. Each file is replaced as a whole: a
/// full disk leaves the former one as it was.
///
/// # Errors
/// The file system's, with the file's path.
pub fn write(dir: &Path, run: &Run, samples: &[Sample], rankings: &[Ranking]) -> io::Result<()> {
    let (ladders, beside) = (ladders(run, samples), beside::Beside::of(run, samples));
    let data = Data { run, ladders: &ladders, rankings, beside: &beside };
    write_file(dir, PAGE, &page::page(data))?;
    write_file(dir, TABLE, &csv::table(data))
}

/// Writes one plot of a measure for all works of the run, as an SVG file.
///
/// # Errors
/// The measure was not measured, or the file cannot be written.
pub fn plot(file: &Path, run: &Run, samples: &[Sample], measure: Measure) -> io::Result<()> {
    let (ladders, beside) = (ladders(run, samples), beside::Beside::of(run, samples));
    let data = Data { run, ladders: &ladders, rankings: &[], beside: &beside };
    let plot = plot::draw(data, measure).ok_or_else(|| {
        let title = measure.words().0;
        io::Error::new(io::ErrorKind::NotFound, format!("no sample of this run has {title:?}"))
    })?;
    let dir = file.parent().unwrap_or(Path::new(""));
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    write_file(dir, &name, &plot)
}

/// The result as text, at most `width` columns where the names allow it.
pub fn terminal(run: &Run, samples: &[Sample], rankings: &[Ranking]) -> String {
    let (ladders, beside) = (ladders(run, samples), beside::Beside::of(run, samples));
    terminal::table(Data { run, ladders: &ladders, rankings, beside: &beside })
}

/// Writes beside the file, then renames.
fn write_file(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let (path, beside) = (dir.join(name), dir.join(format!(".{name}.part")));
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &path));
    written.map_err(|e| {
        // An incomplete file is useless; a failure to remove it is less important than the first
        // error.
        let _ = std::fs::remove_file(&beside);
        io::Error::new(e.kind(), format!("{} could not be written: {e}", path.display()))
    })
}
