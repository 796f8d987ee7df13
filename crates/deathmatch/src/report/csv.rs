//! The table for a spreadsheet (RFC 4180): a row for each contender and piece of work.

use super::Data;
use super::measure::{Measure, percentile_ms};
use super::series::{Ladder, Row};
use crate::histogram::Times;
use crate::sample::{Mark, Sample};

/// The whole table, its head included.
pub(super) fn table(data: Data<'_>) -> String {
    let mut head: Vec<String> =
        ["file", "load", "step", "work", "contender", "rounds", "limited", "requests", "failed"]
            .map(str::to_owned)
            .to_vec();
    for measure in Measure::ALL {
        let name = measure.words().2;
        head.extend([name.to_owned(), format!("{name}_low"), format!("{name}_high")]);
    }
    let more = ["p90_ms", "p99_9_ms", "max_ms", "service_p99_ms", "lateness_p99_ms"];
    head.extend(more.map(str::to_owned));
    head.extend(["bytes_per_reply", "generator_percent", "marks"].map(str::to_owned));
    let mut out = line(&head);
    for ladder in data.ladders {
        for row in &ladder.rows {
            out += &line(&fields(ladder, row));
        }
    }
    out
}

/// One row's fields, in the head's order.
fn fields(ladder: &Ladder<'_>, row: &Row<'_>) -> Vec<String> {
    let (failed, offered) = row.failed();
    let mut fields = vec![
        ladder.file.to_owned(),
        ladder.steps.words().1.to_owned(),
        number(row.x),
        row.work.to_owned(),
        row.contender.to_owned(),
        row.samples.len().to_string(),
        if row.is_limited() { "yes" } else { "no" }.to_owned(),
        offered.to_string(),
        failed.to_string(),
    ];
    for measure in Measure::ALL {
        match row.spread(measure) {
            Some(spread) => fields.extend([spread.middle, spread.low, spread.high].map(number)),
            None => fields.extend([const { String::new() }; 3]),
        }
    }
    let ms = |times: &Times, share| percentile_ms(times, share).map_or_else(String::new, number);
    fields.extend([0.9, 0.999, 1.0].map(|share| ms(&row.response, share)));
    fields.push(ms(&row.merged(|s| &s.load.service), 0.99));
    fields.push(ms(&row.merged(|s| &s.load.lateness), 0.99));
    let sum = |of: fn(&Sample) -> f64| row.samples.iter().map(|s| of(s)).sum::<f64>();
    let replies = sum(|s| s.load.replies as f64);
    fields.push(number(sum(|s| s.load.bytes as f64) / replies));
    fields.push(number(100.0 * sum(|s| s.load.busy_s) / sum(|s| s.load.offering_s())));
    fields.push(marks(row));
    fields
}

/// The marks, with the number of rounds each.
pub(super) fn marks(row: &Row<'_>) -> String {
    let counted = Mark::ALL.into_iter().map(|mark| (row.marked(mark), mark));
    let shown = counted
        .filter(|(count, _)| *count > 0)
        .map(|(count, mark)| format!("{mark} in {count} of {}", row.samples.len()));
    let left_out = match row.left_out {
        0 => None,
        1 => Some("1 disturbed sample left out".to_owned()),
        some => Some(format!("{some} disturbed samples left out")),
    };
    shown.chain(left_out).collect::<Vec<_>>().join("; ")
}

/// A number for programs; empty if there is none.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Fields as a line. A field that a spreadsheet would take for a formula gets an apostrophe: names
/// of files and contenders come from plans.
fn line(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|f| quoted(f)).collect();
    quoted.join(",") + "\r\n"
}

fn quoted(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '@', '\t'])
        || field.starts_with('-') && field.parse::<f64>().is_err();
    let field = if formula { format!("'{field}") } else { field.to_owned() };
    if field.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_fields() {
        let rows = [
            ("plain", "plain", "nothing to do"),
            ("a,b", "\"a,b\"", "a comma"),
            ("say \"hi\"", "\"say \"\"hi\"\"\"", "quotes are doubled"),
            ("a\r\nb", "\"a\r\nb\"", "a line's end"),
            ("=1+1", "'=1+1", "no formula"),
            ("-1.5", "-1.5", "a number is no formula"),
            ("-cmd", "'-cmd", "what begins like one but is none"),
            ("", "", "nothing"),
        ];
        for (field, want, why) in rows {
            assert_eq!(quoted(field), want, "{why}");
        }
        assert_eq!(number(f64::INFINITY), "", "no number, no field");
        assert_eq!(number(1_234.5), "1234.5", "no thin spaces for programs");
    }

    #[test]
    fn every_row_has_the_head_s_fields() {
        let (run, samples, rankings) = crate::report::invented::run();
        let ladders = crate::report::ladders(&run, &samples);
        let beside = crate::report::beside::Beside::of(&run, &samples);
        let table =
            table(Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &beside });
        let counts: Vec<usize> = table.lines().map(|l| l.split(',').count()).collect();
        assert!(counts.len() > 10 && counts.iter().all(|c| *c == counts[0]), "{counts:?}");
        assert!(table.contains("generator busy in 3 of 3"), "marks are told");
    }

    /// Regression: percentiles of no times were 0.
    #[test]
    fn a_percentile_of_no_times_is_an_empty_field() {
        let (run, mut samples, rankings) = crate::report::invented::run();
        for sample in samples.iter_mut().filter(|s| s.contender == "nginx") {
            let load = &mut sample.load;
            (load.response, load.service) = (Times::default(), Times::default());
            load.lateness = Times::default();
        }
        let ladders = crate::report::ladders(&run, &samples);
        let beside = crate::report::beside::Beside::of(&run, &samples);
        let table =
            table(Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &beside });
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
        let place = |name: &str| rows[0].iter().position(|field| *field == name).unwrap();
        let names = ["p50_ms", "p99_ms", "p90_ms", "p99_9_ms", "max_ms"];
        for name in [&names[..], &["service_p99_ms", "lateness_p99_ms"]].concat() {
            for row in &rows[1..] {
                let is_empty = row[place("contender")] == "nginx";
                assert_eq!(row[place(name)].is_empty(), is_empty, "{name}: {row:?}");
            }
        }
    }
}
