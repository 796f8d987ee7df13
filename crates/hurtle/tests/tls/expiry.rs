//! Expiry and renewal of certificates, as commands and metrics show them.

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::authority::Authority;
use crate::child::{Child, hurtle};
use crate::support::Dir;

const DAY: u64 = 24 * 60 * 60;

/// Writes a configuration of a site with files, whose certificate is valid for `days`, and a local
/// site.
fn configure(dir: &Dir, days: u64) {
    let authority = Authority::new("the test's authority");
    authority.issue_for_days("a.test", days).write(dir, "a");
    let text = format!(
        "listen_tls = \"127.0.0.1:0\"\nadmin = \"admin.sock\"\nlocal_authority = \"local\"\n\
         [[site]]\nhosts = \"a.test\"\n[site.tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n\
         [[site.mount]]\nfiles = {root:?}\n[[site]]\nhosts = \"nas.lan\"\n[site.tls]\n\
         certificate = \"local\"\n[[site.mount]]\nfiles = {root:?}\n",
        root = dir.root()
    );
    fs::write(dir.path("../hurtle.toml"), text).unwrap();
}

fn output(arguments: &[&str], dir: &Dir) -> String {
    let mut command = hurtle();
    let output = command.args(arguments).current_dir(dir.path("..")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn scrape(admin: &Path) -> String {
    let mut socket = UnixStream::connect(admin).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn certificates_are_shown_with_their_expiry_and_the_next_renewal() {
    let dir = Dir::new(&[]);
    configure(&dir, 20);
    let _server = Child::start(hurtle().arg("--config").arg(dir.path("../hurtle.toml")));
    let status = output(&["status", "--admin", "admin.sock"], &dir);
    let lines: Vec<Vec<&str>> =
        status.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["a.test", "files", "20.0d", "-"]), "{status}");
    assert!(lines.contains(&vec!["nas.lan", "local", "89.0d", "59.0d"]), "{status}");
    let json = output(&["status", "--json", "--admin", "admin.sock"], &dir);
    let json: Value = serde_json::from_str(&json).unwrap();
    let [files, local] = [0, 1].map(|at| &json["tls"]["certificates"][at]);
    assert_eq!(files["renewal"], Value::Null, "the operator renews it");
    let end = |of: &Value| of["not_after"].as_u64().unwrap();
    assert!(local["renewal"].as_u64().unwrap().abs_diff(end(local) - 30 * DAY) < DAY, "{json}");
    // The alert for certificates that expire soon knows the lifetime.
    let lifetime = end(local) - local["not_before"].as_u64().unwrap();
    assert!(lifetime.abs_diff(90 * DAY) < 2 * DAY, "{json}");
    let metrics = scrape(&dir.path("../admin.sock"));
    let begins = "hurtle_tls_certificate_not_before_seconds{site=\"nas.lan\",number=\"0\"}";
    assert!(metrics.contains(begins), "{metrics}");
    let line = format!(
        "hurtle_tls_certificate_renewal_seconds{{site=\"nas.lan\",number=\"0\"}} {}",
        local["renewal"]
    );
    assert!(metrics.contains(&line), "{line}: {metrics}");
    assert!(!metrics.contains("renewal_seconds{site=\"a.test\""), "{metrics}");
}

#[test]
fn a_check_warns_of_certificates_that_expire_within_two_weeks() {
    for (days, is_soon) in [(13, true), (20, false)] {
        let dir = Dir::new(&[]);
        configure(&dir, days);
        let said = output(&["check", "--config", "hurtle.toml"], &dir);
        let is_warned = said.contains("a.pem: the certificate expires on ")
            && said.contains("warning: a.test: ");
        assert_eq!(is_warned, is_soon, "{days} days: {said}");
    }
    let dir = Dir::new(&[]);
    configure(&dir, 1);
    Authority::new("the test's authority").issue_expired("a.test").write(&dir, "a");
    let said = output(&["check", "--config", "hurtle.toml"], &dir);
    assert!(said.contains("the certificate expired on 01 Jan 2020; renew it"), "{said}");
}
