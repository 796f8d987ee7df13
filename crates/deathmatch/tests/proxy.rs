//! A proxy as contender: its upstream runs beside it, is measured, and is not counted.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::fs;
use std::process::Command;

use deathmatch::arena::recorded;
use deathmatch::contender::Contender;
use deathmatch::report::Run;
use deathmatch::sample::Sample;
use scripted::{folder, free_port};

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

const PLAN: &str = r#"
name = "short"
title = "Through a proxy"
description = "Short."
reference = "floor"
rounds = 1
turns = true
warm_up_s = 0.1
sample_s = 1
contenders = ["floor"]

[[file]]
name = "10k.bin"
bytes = 10240

[[work]]
file = "10k.bin"
open = { requests = [300], connections = 4 }
"#;

#[test]
fn an_upstream_works_for_its_proxy_and_is_not_counted_to_it() {
    let here = |name: &&str| match Contender::by_name(name).unwrap().probe() {
        Ok(_) => true,
        Err(missing) => {
            eprintln!("not measured: {missing}");
            false
        }
    };
    let known = ["nginx-proxy", "lighttpd-proxy", "h2o-proxy", "caddy-proxy"];
    let proxies: Vec<&str> = known.into_iter().filter(here).collect();
    let root = folder("proxy");
    let (plan, out) = (root.join("plan.toml"), root.join("out"));
    fs::write(&plan, PLAN).unwrap();
    let mut command = Command::new(DEATHMATCH);
    command.arg("run").arg(&plan).arg("--out").arg(&out).args(["--port", &free_port().to_string()]);
    let names = [&["floor"], &proxies[..]].concat();
    let output = command.args(["--only", &names.join(",")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let samples = recorded(&out).unwrap();
    let of = |name: &str| -> &Sample {
        let found = samples.iter().find(|s| s.contender == name && !s.probe);
        found.unwrap_or_else(|| panic!("{name}: {said}"))
    };
    let run: Run = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    let upstream_cpu_s = |name| of(name).machine.as_ref().unwrap().upstream_cpu_s;
    assert_eq!(upstream_cpu_s("floor"), 0.0, "it passes nothing on");
    for name in proxies {
        let (load, server) = (&of(name).load, of(name).server.as_ref().unwrap());
        assert_eq!((load.replies, load.errors.total()), (300, 0), "{name}: {load:?}");
        assert!(upstream_cpu_s(name) > 0.0, "{name}: its upstream answered");
        assert!(server.cpu_s > 0.0, "{name}: {server:?}");
        let shown = run.contenders.iter().find(|c| c.name == name).unwrap();
        assert!(shown.config.contains("deathmatch-floor"), "{name}: {}", shown.config);
    }
    let table = fs::read_to_string(out.join("summary.csv")).unwrap();
    let head: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let column = head.iter().position(|name| *name == "upstream_cpu_us_per_request").unwrap();
    for row in table.lines().skip(1) {
        let told = row.split(',').nth(column).unwrap();
        assert_eq!(told.is_empty(), row.contains(",floor,"), "{row}");
    }
    fs::remove_dir_all(root).unwrap();
}
