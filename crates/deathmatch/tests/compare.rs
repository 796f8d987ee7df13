//! `deathmatch compare` as a script sees it: its exit code and its messages.

#![allow(clippy::unwrap_used)]

mod scripted;

use std::fs;
use std::process::{Command, Output};

use deathmatch::sample::{Load, Offered, Sample, Slice};
use scripted::folder;

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

#[test]
fn compare_says_by_its_exit_code_what_it_found() {
    let root = folder("compare");
    let run = |name: &str, factor: f64, wobble: f64| -> String {
        let dir = root.join(name);
        fs::create_dir_all(&dir).unwrap();
        let sample = |round: u32, contender: &str, replies: f64| {
            let replies = (replies * (1.0 + f64::from(round) / 1e3)) as u64;
            Sample {
                plan: "mine".into(),
                round,
                contender: contender.into(),
                work: "10k at 50 connections".into(),
                file: "10k".into(),
                load: Load { seconds: 1.0, replies, ..Load::default() },
                ..blank()
            }
        };
        let lines: Vec<String> = (0..6)
            .flat_map(|r| {
                [
                    sample(r, "floor", 9e4),
                    sample(r, "nginx", 5e4 * factor * (1.0 + wobble * f64::from(r % 2))),
                ]
            })
            .map(|sample| serde_json::to_string(&sample).unwrap() + "\n")
            .collect();
        fs::write(dir.join("samples.jsonl"), lines.concat()).unwrap();
        dir.display().to_string()
    };
    let (base, same, slow) = (run("base", 1.0, 0.0), run("same", 0.99, 0.0), run("slow", 0.8, 0.0));
    let rough = run("rough", 0.95, 0.1);
    let rows: [(&[&str], i32, &str); 6] = [
        (&[&base, &same], 0, "fine at a tolerance of 5.0 %"),
        (&[&base, &slow], 1, "regressed at a tolerance of 5.0 %"),
        // Regression: 5.3 % were 5 %, which the tolerance allows.
        (&[&base, &rough], 3, "not shown: it may be as much as 5.3 % worse"),
        (&[&base, "/nosuch"], 2, "/nosuch"),
        (&["nginx", "ngnix", "--in", &base], 2, "no contender \"ngnix\"; it has floor, nginx"),
        (&["floor", "nginx", "--in", &base], 1, "regressed"),
    ];
    let junit = root.join("junit.xml");
    let output = Command::new(DEATHMATCH)
        .args(["compare", &base, &slow, "--junit"])
        .arg(&junit)
        .output()
        .unwrap();
    let xml = fs::read_to_string(&junit).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    assert!(xml.contains("tests=\"1\" failures=\"1\"") && xml.contains("regressed"), "{xml}");
    // Regression: a file that cannot be written ended it with 1, the code of a regression.
    let nowhere = root.join("nosuch/junit.xml").display().to_string();
    let output = Command::new(DEATHMATCH)
        .args(["compare", &base, &same, "--junit", &nowhere])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("fine at a tolerance of 5.0 %"), "{}", said(&output));
    for (arguments, code, part) in rows {
        let output = Command::new(DEATHMATCH).arg("compare").args(arguments).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_search_keeps_its_limit_beside_slices_of_the_same_file() {
    let root = folder("compare-search");
    let run = |name: &str, most: f64| -> String {
        let at = |round: u32, rate: f64, slice: Option<Slice>| {
            let mut load = Load { seconds: 1.0, intended: 100, replies: 100, ..Load::default() };
            load.response.record(if rate > most { 50_000_000 } else { 1_000_000 });
            Sample {
                round,
                contender: "nginx".into(),
                work: format!("10k at {rate}/s"),
                file: "10k".into(),
                offered: Offered::Open { rate, poisson: false, connections: 50 },
                load,
                slice,
                ..blank()
            }
        };
        let search = (0..6).flat_map(|round| [at(round, most, None), at(round, most * 1.25, None)]);
        let slice = |burst| Slice { burst, ..Slice::default() };
        let slices = (0..40).map(|cycle| at(cycle, 500.0, Some(slice(cycle / 4))));
        let lines = search.chain(slices).map(|s| serde_json::to_string(&s).unwrap() + "\n");
        let dir = root.join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("samples.jsonl"), lines.collect::<String>()).unwrap();
        dir.display().to_string()
    };
    let (before, after) = (run("before", 20e3), run("after", 10e3));
    let output = Command::new(DEATHMATCH).args(["compare", &before, &after]).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let row = text.lines().find(|line| line.starts_with("10k: highest rate carried")).unwrap();
    assert!(row.ends_with("regressed"), "{text}");
    fs::remove_dir_all(&root).unwrap();
}

/// A sample of a closed loop without figures.
fn blank() -> Sample {
    Sample {
        plan: String::new(),
        round: 0,
        attempt: 0,
        trial: 0,
        probe: false,
        contender: String::new(),
        work: String::new(),
        file: String::new(),
        offered: Offered::Closed { connections: 50 },
        over: None,
        beside: None,
        cooling: None,
        idle: None,
        network: None,
        herd: None,
        slice: None,
        began_unix_s: 0.0,
        load: Load::default(),
        server: None,
        machine: None,
        marks: Vec::new(),
    }
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}
