//! Cost of servers that are alive without load: a contender against itself, with and without idle ones
//! beside it, in turns. `cargo bench -p deathmatch -- nginx hurtle lighttpd` measures nginx beside idle
//! hurtle and lighttpd; without names the floor beside itself.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::process::Command;

/// Pairs of a duel without idle servers and one with them.
const PAIRS: u32 = 6;

/// Longest time of each duel.
const BUDGET: &str = "10s";

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --benches` runs this too: it is no test.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let mut names: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|name| !name.starts_with('-')).collect();
    if names.is_empty() {
        names = vec!["floor", "floor"];
    }
    let (contender, idle) = (names[0], names[1..].join(","));
    let mut out = io::stdout();
    writeln!(out, "{contender} against itself, then beside idle {idle}")?;
    let mut ratios = Vec::new();
    for pair in 1..=PAIRS {
        // Alternately first, so that a steady drift cancels out.
        let beside_first = pair % 2 == 0;
        let first = cpu_us(contender, beside_first.then_some(&*idle))?;
        let second = cpu_us(contender, (!beside_first).then_some(&*idle))?;
        let (alone, beside) = if beside_first { (second, first) } else { (first, second) };
        writeln!(out, "{pair}: {alone:.2} us a request alone, {beside:.2} us beside them")?;
        ratios.push(beside / alone);
    }
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.len() / 2;
    let median = (ratios[middle] * ratios[middle - 1]).sqrt();
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    // The extremes of six contain the median with 96.9 %.
    writeln!(out, "beside / alone: {median:.3} [{least:.3}, {most:.3}]")
}

/// Processor time of a request of a contender that fights itself, as the mean of both.
fn cpu_us(contender: &str, idle: Option<&str>) -> io::Result<f64> {
    let folder = env::temp_dir().join(format!("deathmatch-idle-{}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_deathmatch"));
    command
        .args(["duel", contender, contender, "--json", "--budget", BUDGET, "--out"])
        .arg(&folder);
    if let Some(idle) = idle {
        command.args(["--idle", idle]);
    }
    let output = command.output()?;
    io::stderr().write_all(&output.stderr)?;
    fs::remove_dir_all(&folder)?;
    let duels: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let contenders = duels[0]["contenders"].as_object().into_iter().flatten();
    let figures: Vec<f64> = contenders.filter_map(|(_, its)| its["cpu_us"].as_f64()).collect();
    if figures.len() != 2 {
        return Err(io::Error::other("the duel gave no figures"));
    }
    Ok((figures[0] * figures[1]).sqrt())
}
