//! Installs the programs that tests start, if possible (root, with apt-get), and lists the missing
//! ones otherwise. A test that needs a missing program reports it.

use std::path::PathBuf;

use crate::command::{is_installed, output, program, root};
use crate::console::Console;
use crate::steps::{Failure, Outcome};

struct Package {
    /// Name of the Debian package.
    name: &'static str,
    /// Programs or files of which one shows that it is installed.
    programs: &'static [&'static str],
}

const PACKAGES: &[Package] = &[
    // An independent client.
    Package { name: "curl", programs: &["curl"] },
    // Loads the example site in a browser.
    Package { name: "chromium", programs: &["chromium", "chromium-browser", "google-chrome"] },
    // Servers that hurtle is compared with.
    Package { name: "nginx", programs: &["nginx"] },
    Package { name: "lighttpd", programs: &["lighttpd"] },
    // Interpreters of deployed applications.
    Package { name: "python3", programs: &["python3"] },
    Package { name: "nodejs", programs: &["node", "nodejs"] },
    // Application servers behind the proxy.
    Package { name: "gunicorn", programs: &["gunicorn"] },
    Package { name: "uvicorn", programs: &["uvicorn"] },
    // Library with which uvicorn serves WebSockets; it has no program.
    Package {
        name: "python3-websockets",
        programs: &["/usr/lib/python3/dist-packages/websockets/__init__.py"],
    },
    // The most common FastCGI application. Its program has the version in its name.
    Package { name: "php-fpm", programs: &["php-fpm", "php-fpm8.2", "php-fpm8.4"] },
    // Mounts a file system that hangs.
    Package { name: "fuse3", programs: &["fusermount3"] },
    // Checks the Debian package, installs it in a new Debian; checks the image.
    Package { name: "lintian", programs: &["lintian"] },
    Package { name: "mmdebstrap", programs: &["mmdebstrap"] },
    Package { name: "skopeo", programs: &["skopeo"] },
    // Builds the certificate authority of the tests.
    Package { name: "golang-go", programs: &["go"] },
];

/// An ACME authority and a DNS server for tests, written in Go.
const GO_PROGRAMS: [&str; 2] = ["pebble", "pebble-challtestsrv"];
const GO_VERSION: &str = "v2.10.1";

pub(crate) fn install(console: &Console<'_>) -> Result<Outcome, Failure> {
    let packages = install_packages(console)?;
    let programs = install_go_programs(console);
    Ok(match (packages, programs) {
        (Outcome::Passed, programs) => programs,
        (packages, Outcome::Passed) => packages,
        (Outcome::NotRun(first), Outcome::NotRun(second)) => {
            Outcome::NotRun(format!("{first}; {second}"))
        }
    })
}

/// Into `target/tools/bin`, where the tests look for them.
fn install_go_programs(console: &Console<'_>) -> Outcome {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| "target".into());
    let Ok(bin) = std::path::absolute(root().join(target).join("tools/bin")) else {
        return Outcome::NotRun("no place for the tests' authority".to_owned());
    };
    let missing: Vec<&str> =
        GO_PROGRAMS.into_iter().filter(|name| !bin.join(name).exists()).collect();
    if missing.is_empty() {
        return Outcome::Passed;
    }
    if !is_installed("go") {
        return Outcome::NotRun(format!("no Go here; missing: {}", missing.join(", ")));
    }
    let module = |name| format!("github.com/letsencrypt/pebble/v2/cmd/{name}@{GO_VERSION}");
    let modules: Vec<String> = missing.iter().map(module).collect();
    let mut arguments = vec!["install"];
    arguments.extend(modules.iter().map(String::as_str));
    match console.run(program("go", &arguments).env("GOBIN", &bin)) {
        Ok(()) => Outcome::Passed,
        // A missing network is not an error of the code.
        Err(Failure(why)) => Outcome::NotRun(format!("{}: {why}", missing.join(", "))),
    }
}

fn install_packages(console: &Console<'_>) -> Result<Outcome, Failure> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|package| !package.programs.iter().any(|name| is_installed(name)))
        .map(|package| package.name)
        .collect();
    if missing.is_empty() {
        return Ok(Outcome::Passed);
    }
    let install = [&["install", "-y", "--no-install-recommends"], missing.as_slice()].concat();
    if !is_installed("apt-get") {
        return Ok(Outcome::NotRun(format!("no apt-get here; missing: {}", missing.join(", "))));
    }
    if !is_root() {
        return Ok(Outcome::NotRun(format!("needs root: apt-get {}", install.join(" "))));
    }
    let installed = console.run(&mut program("apt-get", &["update", "-q"])).and_then(|()| {
        console.run(program("apt-get", &install).env("DEBIAN_FRONTEND", "noninteractive"))
    });
    Ok(match installed {
        Ok(()) => Outcome::Passed,
        // A missing network is not an error of the code.
        Err(Failure(why)) => Outcome::NotRun(format!("{}: {why}", missing.join(", "))),
    })
}

fn is_root() -> bool {
    output(&mut program("id", &["-u"])).is_ok_and(|id| id.trim() == "0")
}
