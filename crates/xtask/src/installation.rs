//! Tries what users install: the crates as they would be published, and the Debian package and the
//! image made from the program that the tests use.

use std::path::{Path, PathBuf};

use crate::command::{cargo, is_installed, output, program, root};
use crate::console::{Console, run_kept};
use crate::package::{self, Kind};
use crate::steps::{Failure, Outcome};
use crate::test_programs;

/// Exit code of the script if it cannot run here.
const NOT_RUN: i32 = 77;

/// Packs the crates that are published.
pub(crate) fn crates(console: &Console<'_>) -> Result<Outcome, Failure> {
    let mut command = cargo(&["package"]);
    let parts = ["config", "heap", "http", "import", "objects", "wasm"];
    let parts = parts.map(|part| format!("hurtle-{part}"));
    for package in parts.iter().map(String::as_str).chain(["hurtle"]) {
        command.args(["--package", package]);
    }
    // All tests build already; here the metadata and the lists of files are checked.
    console.run(command.args(["--no-verify", "--allow-dirty", "--offline", "--quiet"]))?;
    Ok(Outcome::Passed)
}

/// Installs the Debian package in a new Debian, serves a page, and purges it.
pub(crate) fn install(console: &Console<'_>) -> Result<Outcome, Failure> {
    for tool in ["dpkg-deb", "dpkg-shlibdeps", "strip"] {
        if !is_installed(tool) {
            return Ok(Outcome::NotRun(format!("{tool} is missing")));
        }
    }
    let built = test_programs::hurtle()?;
    // Beside the packages of releases, which have another program.
    let place = package::out_dir()?.join("try-install");
    std::fs::create_dir_all(&place).map_err(|e| Failure(format!("{}: {e}", place.display())))?;
    let binary = place.join("hurtle-stripped");
    output(program("strip", &["-o"]).arg(&binary).arg(&built))?;
    let deb = package::package(Kind::Deb, None, Some(&binary), &place)?;
    if is_installed("lintian") {
        console.run(program("lintian", &["--allow-root", "--fail-on", "error"]).arg(&deb))?;
    }
    let image = package::package(Kind::Oci, None, Some(&binary), &place)?;
    if !layer_of(&image)?.lines().any(is_temporary_directory) {
        return Err(Failure("the image has no /var/tmp for bodies of slow clients".to_owned()));
    }
    if is_installed("skopeo") {
        console.run(program("skopeo", &["inspect"]).arg(format!("oci:{}", image.display())))?;
    }
    let mut script = program("sh", &[]);
    script.arg(root().join("packaging/debian/try-install.sh")).arg(&deb).arg(&place);
    let (status, said) = run_kept(&mut script)?;
    let text = String::from_utf8_lossy(&said);
    match status.code() {
        Some(0) => {
            console.say(text.trim_end());
            Ok(Outcome::Passed)
        }
        Some(NOT_RUN) => Ok(Outcome::NotRun(text.trim().to_owned())),
        _ => Err(Failure(format!("packaging/debian/try-install.sh: {status}\n{text}"))),
    }
}

/// Returns the listing of the image's only layer. The other blobs are no archives.
fn layer_of(image: &Path) -> Result<String, Failure> {
    let blobs = image.join("blobs/sha256");
    let entries = std::fs::read_dir(&blobs);
    let entries = entries.map_err(|e| Failure(format!("{}: {e}", blobs.display())))?;
    let list = |blob: PathBuf| output(program("tar", &["-tvzf"]).arg(blob)).ok();
    let listing = entries.flatten().find_map(|blob| list(blob.path()));
    listing.ok_or_else(|| Failure(format!("{}: no layer", blobs.display())))
}

/// `true` for the line of /var/tmp in a listing of tar, if every user may write there.
fn is_temporary_directory(line: &str) -> bool {
    line.starts_with("drwxrwxrwt ") && line.ends_with(" ./var/tmp/")
}
