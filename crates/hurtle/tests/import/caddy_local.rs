//! Certificates that Caddy signs by an authority of its own: hurtle with the imported Caddyfile
//! serves the same names by its own, and a client of each authority is satisfied.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use hurtle::config;
use hurtle::import::caddy::caddy_file;

use crate::caddy_alike::{Caddy, program};
use crate::servers::{Dir, PATIENCE, free_port};

/// Names that Caddy signs without being told, and those that need `tls internal`.
const NAMES: [&str; 6] =
    ["localhost", "a.localhost", "nas.internal", "nas.home.arpa", "nas.local", "127.0.0.1"];
const TOLD: [&str; 2] = ["nas", "nas.lan"];

/// Sends a request as a client that trusts this authority only; returns the body or curl's words.
fn ask(name: &str, port: u16, authority: &Path) -> Result<String, String> {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--connect-to", &format!("::127.0.0.1:{port}"), "--cacert"]).arg(authority);
    let output = curl.arg(format!("https://{name}:{port}/")).output().expect("curl runs");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn both_servers_sign_for_the_same_names() {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let Some(caddy) = program().filter(|_| has_curl) else {
        eprintln!("not run: no Caddy or no curl; `cargo xtask test --only packages` builds Caddy");
        return;
    };
    let dir = Dir::new();
    let port = free_port();
    let addresses = |names: &[&str]| {
        let address = |name: &&str| format!("https://{name}:{port}");
        names.iter().map(address).collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "{{\nadmin off\nskip_install_trust\nauto_https disable_redirects\n}}\n\
         {} {{\nbind 127.0.0.1\nrespond /x no\nrespond a\n}}\n\
         {} {{\nbind 127.0.0.1\ntls internal\nrespond b\n}}\n",
        addresses(&NAMES),
        addresses(&TOLD)
    );
    let file = dir.0.join("Caddyfile");
    fs::write(&file, text).expect("it is written");
    let imported = caddy_file(&file, false).expect("it is translated").text;
    assert!(imported.replace("\n#  ", "").contains("`hurtle trust`"), "{imported}");
    let _theirs = Caddy::start(&caddy, &file, &dir.0, port);

    let authority = dir.0.join("authority");
    let text = imported.replace(&format!("127.0.0.1:{port}\""), "127.0.0.1:0\"");
    let text = format!("local_authority = {authority:?}\n{text}");
    let config = config::check(&text, &dir.0.join("hurtle.toml")).expect(&text);
    let server = hurtle::Server::bind(config).expect("it binds");
    let own_port = server.tls_addresses()[0].port().expect("a port");
    let ours = server.start().expect("it starts");

    let root = dir.0.join("caddy/pki/authorities/local/root.crt");
    let begun = Instant::now();
    for name in NAMES.iter().chain(&TOLD) {
        // Caddy signs after it listens, one name after another.
        while ask(name, port, &root).is_err() && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        let theirs = ask(name, port, &root);
        let own = ask(name, own_port, &authority.join("authority.pem"));
        assert!(own.is_ok(), "{name}: {own:?}\n{text}");
        assert_eq!(own, theirs, "{name}\n{text}");
    }
    ours.stop().end();
    ours.join().expect("it ends");
}
