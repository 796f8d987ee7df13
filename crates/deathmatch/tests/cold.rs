//! Cold files beside a page, from the plan to the report, as a user runs it.

#![allow(clippy::unwrap_used)]

mod scripted;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use deathmatch::arena::recorded;
use deathmatch::sample::{Mark, Sample};
use scripted::{folder, free_port};

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

/// Searched beside the program.
const READER: &str = env!("CARGO_BIN_EXE_deathmatch-reader");

const FILES: u64 = 100;

const PLAN: &str = r#"
name = "short"
title = "A page beside a few cold files"
description = "Short."
reference = "reader"
rounds = 1
warm_up_s = 0.1
sample_s = 1
contenders = ["reader"]

[[file]]
name = "hot.html"
bytes = 1000

[[file]]
name = "cold/{}.bin"
bytes = 10000
bytes_max = 50000
count = 100

[[work]]
file = "hot.html"
open = { requests = [100], connections = 2 }
beside = { file = "cold/{}.bin", cold = true, downloads = 4, reads_per_s = 5000 }

[[work]]
file = "hot.html"
open = { requests = [100], connections = 2 }
beside = { file = "cold/{}.bin", cold = true, downloads = 4 }
"#;

#[test]
fn every_cold_file_is_read_from_the_disk_once_beside_page_requests() {
    assert_eq!(Path::new(READER).parent(), Path::new(DEATHMATCH).parent());
    let root = folder("cold");
    let out = root.join("out");
    let output = run(&root);
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("cold files must be on a disk") {
        return println!("skipped: {error}");
    }
    assert!(output.status.success(), "{error}{}", String::from_utf8_lossy(&output.stdout));
    let samples: Vec<Sample> =
        // Samples that other tests disturb are taken again.
        recorded(&out).unwrap().into_iter().filter(|s| !s.probe && s.trial == 0).collect();
    // If reads cannot be limited, the two are one.
    let limited = samples.iter().filter(|s| s.work.ends_with("at 5000 reads/s")).count();
    assert_eq!(samples.len(), 1 + limited, "{samples:?}");
    for sample in &samples {
        let (work, load) = (&sample.work, &sample.load);
        let bulk = load.bulk.unwrap();
        assert_eq!((bulk.downloads, bulk.failures), (FILES, 0), "{work}: each once");
        let size = bulk.down_bytes / FILES;
        assert!(
            (20_000..40_000).contains(&size),
            "{work}: they differ, half way on average: {size}"
        );
        assert!(
            sample.marks.contains(&Mark::ColdOver),
            "{work}: none was left: {:?}",
            sample.marks
        );
        assert!(!sample.marks.contains(&Mark::NotCold), "{work}: {:?}", sample.machine);
        assert!(load.errors.total() == 0 && load.replies == 100, "{work}: {load:?}");
        let disk = &sample.cooling.as_ref().unwrap().disk;
        let read = sample.machine.as_ref().unwrap().disks[disk].read_bytes;
        assert!(read >= bulk.down_bytes * 9 / 10, "{work}: {read} of {}", bulk.down_bytes);
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("cold, MB/s") && page.contains("no cold file left"), "in the report");
    fs::remove_dir_all(&root).unwrap();
}

fn run(root: &Path) -> Output {
    let plan = root.join("plan.toml");
    fs::write(&plan, PLAN).unwrap();
    let port = free_port();
    let mut command = Command::new(DEATHMATCH);
    command.arg("run").arg(plan).arg("--port").arg(port.to_string());
    command.arg("--out").arg(root.join("out")).output().unwrap()
}
