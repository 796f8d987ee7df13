//! The quick plan with real servers: Debian's nginx and lighttpd, and hurtle from this tree.

#![allow(clippy::unwrap_used)]

mod scripted;

use std::fs;
use std::process::Command;

use deathmatch::arena::recorded;
use deathmatch::contender::Contender;
use deathmatch::sample::Mark;
use scripted::{folder, hurtle_beside};

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

#[test]
fn every_server_serves_the_same_bytes_and_is_measured() {
    let hurtle = hurtle_beside(DEATHMATCH);
    let mut names = vec!["floor", "hurtle"];
    for name in ["nginx", "lighttpd"] {
        match Contender::by_name(name).unwrap().probe() {
            Ok(_) => names.push(name),
            Err(missing) => eprintln!("not measured: {name}: {missing}"),
        }
    }
    let out = folder("quick");
    let output = Command::new(DEATHMATCH)
        .args(["run", "--quick", "--only", &names.join(","), "--port", "8931", "--out"])
        .arg(&out)
        .arg("--contender")
        .arg(format!("hurtle=hurtle:{}", hurtle.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let samples = recorded(&out).unwrap();
    for name in &names {
        let own: Vec<_> =
            samples.iter().filter(|s| s.contender == *name && !s.probe && s.trial == 0).collect();
        assert_eq!(own.len(), 2, "{name}: a sample of each load");
        for sample in own {
            let load = &sample.load;
            assert!(load.replies > 500, "{name}, {}: {} replies", sample.work, load.replies);
            assert_eq!(load.errors.total(), 0, "{name}, {}", sample.work);
            assert!(load.bytes >= load.replies * 10_240, "{name}: all of the file");
            assert!(!sample.marks.contains(&Mark::WrongBytes), "{name}");
            let server = sample.server.as_ref().unwrap();
            assert!(server.cpu_s > 0.0 && server.resident_bytes > 0, "{name}: {server:?}");
        }
        let title = Contender::by_name(name).unwrap().title;
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains(&title), "{name} is in the report");
        let table = fs::read_to_string(out.join("summary.csv")).unwrap();
        assert!(table.contains(name), "{name} is in the table");
    }
    let _ = fs::remove_dir_all(out);
}
