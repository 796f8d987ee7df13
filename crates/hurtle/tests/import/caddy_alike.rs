//! Sends the same requests to Caddy and to hurtle with the imported Caddyfile, and compares status,
//! Location, fields, body, and what the upstream received.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use hurtle::import::caddy::caddy_file;

use crate::caddy_condition_rows::CONDITION_ROWS;
use crate::caddy_rows::ROWS;
use crate::servers::{Dir, Ours, PATIENCE, Seen, ask, free_port, upstream};

/// Ends the global options of a row, which begin it.
const OPTIONS_END: &str = "-- site\n";

const SNIPPETS: &str = "(answers) {\nrespond /{args.0} {args.0} {args.1}\n}\n";

/// `true` for a difference that a remark of the import has.
pub(super) fn is_remarked(request: &str, caddy: &Seen, ours: &Seen, text: &str) -> bool {
    let text = text.replace("\n#  ", "");
    let is_error = |seen: &Seen| seen.status.starts_with(['4', '5']);
    let is_directory = caddy.status == "308" && ours.status == "301";
    let is_own = caddy.status == ours.status && (is_error(caddy) || caddy.body.is_empty());
    // Guards alone hold in any case of letters.
    let is_closed = ["401", "403"].contains(&&*caddy.status);
    let is_of_case = request.contains("/DOCS") && !is_closed;
    let is_method = [&*caddy.status, &*ours.status] == ["404", "405"];
    let is_refusal = caddy.status == ours.status && ["401", "403"].contains(&&*caddy.status);
    // The directory's index, and answers that precede try_files.
    let is_of_tries = caddy.status == "200" && text.contains("whose try_files comes first");
    let is_index = request.contains(" / ") || request.ends_with(" /");
    let is_written_anew = caddy.body == ours.body.replacen("%2B", "+", 1);
    (is_written_anew && text.contains("and in Caddy written anew"))
        || (is_index && text.contains("/ is the index of the directory, in Caddy"))
        || is_of_tries
        || (is_refusal && text.contains("A refusal by a gate"))
        || (is_method && text.contains("gets 405, in Caddy 404"))
        || (is_directory && caddy.location == ours.location && text.contains("redirected with 301"))
        || (is_own && caddy.body == ours.body && text.contains("hurtle's own errors"))
        || (is_of_case && text.contains("without regard to case"))
}

/// Caddy with a configuration of the test.
pub(super) struct Caddy(Child);

impl Caddy {
    pub(super) fn start(program: &Path, file: &Path, dir: &Path, port: u16) -> Caddy {
        let child = Command::new(program)
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(file)
            .env("HOME", dir)
            .env("XDG_DATA_HOME", dir)
            .env("XDG_CONFIG_HOME", dir)
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("caddy.log")).expect("a log"))
            .spawn()
            .expect("Caddy starts");
        let mut caddy = Caddy(child);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = caddy.0.try_wait().expect("a process");
            let log = || fs::read_to_string(dir.join("caddy.log")).unwrap_or_default();
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "Caddy ended: {}", log());
            thread::yield_now();
        }
        caddy
    }
}

impl Drop for Caddy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program that `cargo xtask test --only packages` builds.
pub(super) fn program() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_hurtle")).ancestors().nth(2)?;
    Some(target.join("tools/bin/caddy")).filter(|path| path.is_file())
}

/// Compares the answers to these requests. Returns the differences; `None`: the import was refused.
pub(super) fn compare(
    caddy: &Path,
    upstream: &str,
    (sentence, site): (&str, &str),
    requests: &[&str],
) -> Option<Vec<String>> {
    let dir = Dir::new();
    let port = free_port();
    let root = dir.0.join("www").display().to_string();
    let site = site.replace("{root}", &root).replace("{upstream}", upstream);
    let (options, site) = site.split_once(OPTIONS_END).unwrap_or(("", &site));
    let text = format!(
        "{{\nadmin off\nauto_https off\n{options}}}\n{SNIPPETS}:{port} {{\nbind 127.0.0.1\n{site}\n}}\n"
    );
    let file = dir.0.join("Caddyfile");
    fs::write(&file, text).expect("it is written");
    let imported = caddy_file(&file, false).ok()?;
    for line in imported.text.lines().filter(|line| line.starts_with("users = ")) {
        // The file that a remark asks for.
        let hash = "anna:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
        let name = line.trim_start_matches("users = ").trim_matches('"');
        fs::write(dir.0.join(name), hash).expect("it is written");
    }
    let _theirs = Caddy::start(caddy, &file, &dir.0, port);
    let ours = Ours::start_in(&imported.text, port, &dir.0);
    let mut faults = Vec::new();
    for request in requests {
        let (a, b) = (ask(port, request), ask(ours.port, request));
        if a != b && !is_remarked(request, &a, &b, &imported.text) {
            faults.push(format!("{sentence}: {request}\n  caddy  {a:?}\n  hurtle {b:?}"));
        }
    }
    Some(faults)
}

#[test]
fn both_servers_answer_alike() {
    let Some(caddy) = program() else {
        eprintln!("not run: no Caddy; `cargo xtask test --only packages` builds it");
        return;
    };
    let upstream = upstream().to_string();
    let mut faults = Vec::new();
    for row in ROWS.iter().chain(CONDITION_ROWS) {
        let found = compare(&caddy, &upstream, (row.sentence, row.site), row.requests);
        faults.extend(found.unwrap_or_else(|| vec![format!("{}: refused", row.sentence)]));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
