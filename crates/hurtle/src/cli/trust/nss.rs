//! The databases of browsers that have stores of their own: those of NSS, which Firefox uses on
//! every system, and Chromium on Linux. `certutil` changes them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use super::{Authority, Report, run};

/// Directories in a home that are databases, and the browsers that use them.
const DATABASES: [(&str, &str); 3] = [
    (".pki/nssdb", "Chromium"),
    (".local/share/pki/nssdb", "Chromium"),
    ("snap/chromium/current/.pki/nssdb", "Chromium (snap)"),
];

/// Directories in a home of which each directory in them may be a database.
const PROFILES: [(&str, &str); 5] = [
    (".mozilla/firefox", "Firefox"),
    (".config/mozilla/firefox", "Firefox"),
    ("snap/firefox/common/.mozilla/firefox", "Firefox (snap)"),
    (".var/app/org.mozilla.firefox/.mozilla/firefox", "Firefox (Flatpak)"),
    ("Library/Application Support/Firefox/Profiles", "Firefox"),
];

const FILE: &str = "cert9.db";

/// Adds an authority to the databases of this user, or removes it.
pub(super) fn change(authority: &Authority, remove: bool, report: &mut Report) {
    if let (true, Ok(user)) = (geteuid().is_root(), env::var("SUDO_USER")) {
        let what = format!("repeat this as {user}, without sudo");
        return report.line("Chromium and Firefox", &what);
    }
    let Some(home) = env::var_os("HOME") else {
        return report.line("browsers", "there is no HOME with their databases");
    };
    let databases = databases(Path::new(&home));
    if databases.is_empty() {
        let again = "start a browser once and repeat this, or import the file in its settings";
        let what = if remove { "no databases found" } else { again };
        return report.line("Chromium and Firefox", what);
    }
    if !has_certutil() {
        let packages = "libnss3-tools (Debian, Ubuntu), nss-tools (Fedora), mozilla-nss-tools (openSUSE) or \
                        nss (Arch, FreeBSD, Homebrew)";
        let what = format!("certutil is missing: install {packages}, and repeat this");
        return report.line("Chromium and Firefox", &what);
    }
    for (browser, directory) in databases {
        let store = format!("{browser}, {}", directory.display());
        let database = format!("sql:{}", directory.display());
        let is_known = is_known(&database, &authority.name);
        let file = authority.file.display().to_string();
        let name = authority.name.as_str();
        match remove {
            _ if is_known != remove => {
                report.line(&store, if remove { "was not trusted" } else { "trusted already" });
            }
            true => {
                let removed = run(&["certutil", "-D", "-d", &database, "-n", name]);
                report.outcome(&store, "trusted no longer", removed);
            }
            false => {
                // `C`: an authority of servers.
                let add = ["certutil", "-A", "-d", &database, "-t", "C,,", "-n", name, "-i", &file];
                report.outcome(&store, "trusted; restart the browser", run(&add));
            }
        }
    }
}

fn databases(home: &Path) -> Vec<(&'static str, PathBuf)> {
    let single = DATABASES.iter().map(|(path, browser)| (*browser, home.join(path)));
    let profiles = PROFILES.iter().flat_map(|(path, browser)| {
        let entries = std::fs::read_dir(home.join(path)).into_iter().flatten().flatten();
        entries.map(|entry| (*browser, entry.path()))
    });
    let mut found: Vec<_> =
        single.chain(profiles).filter(|(_, path)| path.join(FILE).is_file()).collect();
    found.sort();
    found
}

fn has_certutil() -> bool {
    // Without arguments it prints its usage.
    Command::new("certutil").stdin(Stdio::null()).output().is_ok()
}

fn is_known(database: &str, name: &str) -> bool {
    run(&["certutil", "-L", "-d", database, "-n", name]).is_ok()
}
