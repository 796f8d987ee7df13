//! Builds what is installed: `cargo xtask package deb|oci|static`. The Debian package and the image
//! are assembled from packaging/ with tar, gzip, sha256sum and dpkg-deb.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{cargo, output, program, root};
use crate::steps::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `target/package/hurtle_VERSION_ARCH.deb`
    Deb,
    /// `target/package/hurtle-oci-ARCH`, an OCI image layout.
    Oci,
    /// `target/package/hurtle-TARGET`, linked statically with musl.
    Static,
}

/// Names of kinds on the command line.
pub(crate) const KINDS: [(&str, Kind); 3] =
    [("deb", Kind::Deb), ("oci", Kind::Oci), ("static", Kind::Static)];

const X86: &str = "x86_64-unknown-linux-musl";
const ARM: &str = "aarch64-unknown-linux-musl";

/// Targets of static binaries: the compiler for C, flags for it, Rust's linker, Debian's and the
/// OCI's names of the architecture.
const TARGETS: [(&str, &str, &str, &str); 2] =
    [(X86, "musl-gcc", "musl-gcc", "amd64"), (ARM, "aarch64-linux-gnu-gcc", "rust-lld", "arm64")];

/// Builds one kind in a directory; returns its path. `binary`: an executable to pack in place of a
/// release build.
///
/// # Errors
/// A tool is missing or fails.
pub(crate) fn package(
    kind: Kind,
    target: Option<&str>,
    binary: Option<&Path>,
    out: &Path,
) -> Result<PathBuf, Failure> {
    let target = target.unwrap_or(X86);
    let made = match kind {
        Kind::Deb => deb(&binary.map_or_else(release, |path| Ok(path.to_owned()))?, out)?,
        Kind::Static => {
            let made = out.join(format!("hurtle-{target}"));
            copy(&static_binary(target)?, &made, 0o755)?;
            made
        }
        Kind::Oci => {
            let binary =
                binary.map_or_else(|| static_binary(target), |path| Ok(path.to_owned()))?;
            oci(&binary, architecture(target)?, out)?
        }
    };
    Ok(made)
}

/// The directory of what is built.
///
/// # Errors
/// It cannot be made.
pub(crate) fn out_dir() -> Result<PathBuf, Failure> {
    let out = target_dir().join("package");
    make_dir(&out)?;
    Ok(out)
}

/// The release binary of this machine, without debugging information.
fn release() -> Result<PathBuf, Failure> {
    build(&mut cargo(&["build", "--release", "--package", "hurtle"]))?;
    Ok(target_dir().join("release/hurtle"))
}

fn static_binary(target: &str) -> Result<PathBuf, Failure> {
    let (_, cc, linker, _) = known(target)?;
    let lower = target.replace('-', "_");
    let upper = lower.to_uppercase();
    let mut command = cargo(&["build", "--release", "--package", "hurtle", "--target", target]);
    command.env(format!("CC_{lower}"), cc);
    command.env(format!("CARGO_TARGET_{upper}_LINKER"), linker);
    // glibc's headers replace functions by checked ones, which musl does not have.
    command.env(format!("CFLAGS_{lower}"), "-U_FORTIFY_SOURCE");
    build(&mut command)?;
    Ok(target_dir().join(target).join("release/hurtle"))
}

fn build(command: &mut Command) -> Result<(), Failure> {
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    run(command)
}

fn known(target: &str) -> Result<(&str, &str, &str, &str), Failure> {
    let known = TARGETS.into_iter().find(|(name, ..)| *name == target);
    known.ok_or_else(|| Failure(format!("no target {target}; there are: {X86}, {ARM}")))
}

fn architecture(target: &str) -> Result<&str, Failure> {
    known(target).map(|(.., architecture)| architecture)
}

/// Writes the Debian package.
fn deb(binary: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let tree = out.join("deb");
    remove(&tree)?;
    let from = root().join("packaging/debian");
    let doc = "usr/share/doc/hurtle";
    copy(binary, &tree.join("usr/bin/hurtle"), 0o755)?;
    let files = [
        ("hurtle.service", "lib/systemd/system/hurtle.service"),
        ("hurtle.toml", "etc/hurtle/hurtle.toml"),
        ("logrotate", "etc/logrotate.d/hurtle"),
        ("copyright", "usr/share/doc/hurtle/copyright"),
        ("../www/index.html", "usr/share/hurtle/www/index.html"),
    ];
    for (source, to) in files {
        copy(&from.join(source), &tree.join(to), 0o644)?;
    }
    let generated = [
        (&["man"][..], "usr/share/man/man1/hurtle.1"),
        (&["completions", "bash"], "usr/share/bash-completion/completions/hurtle"),
        (&["completions", "zsh"], "usr/share/zsh/vendor-completions/_hurtle"),
        (&["completions", "fish"], "usr/share/fish/vendor_completions.d/hurtle.fish"),
    ];
    for (arguments, to) in generated {
        let text = output(Command::new(binary).args(arguments))?;
        write(&tree.join(to), &text, 0o644)?;
    }
    let docs = fs::read_dir(root().join("docs")).map_err(failed("docs"))?;
    for page in docs.flatten().map(|entry| entry.path()) {
        if let (Some(name), true) = (page.file_name(), page.extension().is_some_and(|e| e == "md"))
        {
            copy(&page, &tree.join(doc).join("docs").join(name), 0o644)?;
        }
    }
    copy(&root().join("CHANGELOG.md"), &tree.join(doc).join("docs/CHANGELOG.md"), 0o644)?;
    let changes = format!(
        "hurtle ({}) unstable; urgency=medium\n\n  * See docs/CHANGELOG.md.\n\n -- {MAINTAINER}  {DATE}\n",
        version()
    );
    write(&tree.join(doc).join("changelog"), &changes, 0o644)?;
    for file in [&format!("{doc}/changelog"), "usr/share/man/man1/hurtle.1"] {
        run(Command::new("gzip").args(["-9n"]).arg(tree.join(file)))?;
    }
    for script in ["postinst", "prerm", "postrm"] {
        copy(&from.join(script), &tree.join("DEBIAN").join(script), 0o755)?;
    }
    let conffiles = "/etc/hurtle/hurtle.toml\n/etc/logrotate.d/hurtle\n";
    write(&tree.join("DEBIAN/conffiles"), conffiles, 0o644)?;
    let architecture = output(&mut program("dpkg", &["--print-architecture"]))?.trim().to_owned();
    let kib: u64 = output(Command::new("du").args(["-sk"]).arg(&tree))?
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0);
    let control = format!(
        "Package: hurtle\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kib}\nDepends: {}, adduser\nRecommends: ca-certificates, logrotate\n\
         Section: httpd\nPriority: optional\nProvides: httpd\n{DESCRIPTION}",
        version(),
        libraries(binary, out)?,
    );
    write(&tree.join("DEBIAN/control"), &control, 0o644)?;
    let made = out.join(format!("hurtle_{}_{architecture}.deb", version()));
    let mut pack = Command::new("dpkg-deb");
    run(pack.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&made))?;
    Ok(made)
}

const MAINTAINER: &str = "the authors of hurtle <hurtle@example.org>";

/// The date in Debian's changelog. It is fixed, so that equal contents make equal packages.
const DATE: &str = "Thu, 01 Jan 2026 00:00:00 +0000";

const DESCRIPTION: &str = "\
Description: web server for a machine's own files and applications
 hurtle serves files, proxies to applications, and obtains certificates, over
 HTTP/1.1 and HTTP/2. Its configuration is one TOML file, which it checks as a
 whole and reloads without cutting a connection.
";

/// The packages of the shared libraries of a program, with versions.
fn libraries(binary: &Path, out: &Path) -> Result<String, Failure> {
    // dpkg-shlibdeps wants the control file of a source package.
    let dir = out.join("shlibdeps");
    write(
        &dir.join("debian/control"),
        "Source: hurtle\n\nPackage: hurtle\nArchitecture: any\n",
        0o644,
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.args(["-O", "-e"]).arg(binary).current_dir(&dir).stderr(Stdio::null());
    let found = output(&mut command)?;
    let libraries = found.trim().strip_prefix("shlibs:Depends=").map(str::to_owned);
    libraries.ok_or_else(|| Failure(format!("dpkg-shlibdeps says {found:?}")))
}

/// Writes the image layout of the OCI (image-spec 1.1): one layer, one manifest.
fn oci(binary: &Path, architecture: &str, out: &Path) -> Result<PathBuf, Failure> {
    let tree = out.join("oci-root");
    remove(&tree)?;
    let from = root().join("packaging");
    copy(binary, &tree.join("usr/bin/hurtle"), 0o755)?;
    copy(&from.join("oci/hurtle.toml"), &tree.join("etc/hurtle/hurtle.toml"), 0o644)?;
    copy(&from.join("www/index.html"), &tree.join("srv/www/index.html"), 0o644)?;
    write(&tree.join("etc/passwd"), "hurtle:x:65532:65532::/nonexistent:/sbin/nologin\n", 0o644)?;
    write(&tree.join("etc/group"), "hurtle:x:65532:\n", 0o644)?;
    let authorities = Path::new("/etc/ssl/certs/ca-certificates.crt");
    copy(authorities, &tree.join("etc/ssl/certs/ca-certificates.crt"), 0o644)?;
    // Bodies of slow clients (`buffer_directory`).
    let temporary = tree.join("var/tmp");
    make_dir(&temporary)?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777))
        .map_err(failed("var/tmp"))?;
    let layout = out.join(format!("hurtle-oci-{architecture}"));
    remove(&layout)?;
    let blobs = layout.join("blobs/sha256");
    make_dir(&blobs)?;
    // The time is fixed, so that equal contents have equal digests.
    let tar = out.join("layer.tar");
    let mut pack = Command::new("tar");
    pack.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    run(pack.arg("-C").arg(&tree).arg("-cf").arg(&tar).arg("."))?;
    let diff = digest(&tar)?;
    run(Command::new("gzip").args(["-9nf"]).arg(&tar))?;
    let layer = blob(&out.join("layer.tar.gz"), &blobs)?;
    let config = format!(
        "{{\"architecture\":\"{architecture}\",\"os\":\"linux\",\"config\":{{\"User\":\"65532:65532\",\
         \"ExposedPorts\":{{\"8080/tcp\":{{}}}},\"Env\":[\"PATH=/usr/bin\",\
         \"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\"],\"Entrypoint\":[\"/usr/bin/hurtle\"],\
         \"Cmd\":[\"--config\",\"/etc/hurtle/hurtle.toml\"],\"WorkingDir\":\"/\",\
         \"StopSignal\":\"SIGTERM\"}},\"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[\"sha256:{diff}\"]}},\
         \"history\":[{{\"created_by\":\"cargo xtask package oci\"}}]}}"
    );
    let config = text_blob(&config, &blobs, out)?;
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\"config\":{},\"layers\":[{}]}}",
        descriptor("application/vnd.oci.image.config.v1+json", &config),
        descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer),
    );
    let manifest = text_blob(&manifest, &blobs, out)?;
    let named = descriptor(MANIFEST, &manifest);
    let named = named.trim_end_matches('}');
    let index = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\
         \"manifests\":[{named},\"platform\":{{\"architecture\":\"{architecture}\",\"os\":\"linux\"}},\
         \"annotations\":{{\"org.opencontainers.image.ref.name\":\"{}\"}}}}]}}",
        version()
    );
    write(&layout.join("index.json"), &index, 0o644)?;
    write(&layout.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}", 0o644)?;
    Ok(layout)
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A file of the layout, which has the digest as its name.
struct Blob {
    /// SHA-256 of the contents, in hexadecimal.
    digest: String,
    size: u64,
}

fn descriptor(media_type: &str, Blob { digest, size }: &Blob) -> String {
    format!("{{\"mediaType\":\"{media_type}\",\"digest\":\"sha256:{digest}\",\"size\":{size}}}")
}

fn text_blob(text: &str, blobs: &Path, out: &Path) -> Result<Blob, Failure> {
    let file = out.join("blob.json");
    write(&file, text, 0o644)?;
    blob(&file, blobs)
}

/// Moves a file to the blobs, under its digest.
fn blob(file: &Path, blobs: &Path) -> Result<Blob, Failure> {
    let digest = digest(file)?;
    let size = fs::metadata(file).map_err(failed("a blob"))?.len();
    fs::rename(file, blobs.join(&digest)).map_err(failed("a blob"))?;
    Ok(Blob { digest, size })
}

fn digest(file: &Path) -> Result<String, Failure> {
    let line = output(Command::new("sha256sum").arg(file))?;
    let digest = line.split_whitespace().next().map(str::to_owned);
    digest.ok_or_else(|| Failure("sha256sum says nothing".to_owned()))
}

/// The version of the workspace.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn target_dir() -> PathBuf {
    let dir = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let dir = root().join(dir);
    fs::create_dir_all(&dir).and_then(|()| dir.canonicalize()).unwrap_or(dir)
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure(format!("`{}`: {status}", crate::command::shown(command)))),
        Err(e) => Err(Failure(format!("`{}`: {e}", crate::command::shown(command)))),
    }
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    let bytes = fs::read(from).map_err(failed(&from.display().to_string()))?;
    put(to, &bytes, mode)
}

fn write(to: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    put(to, text.as_bytes(), mode)
}

fn put(to: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    let shown = to.display().to_string();
    to.parent().map_or(Ok(()), make_dir)?;
    fs::write(to, bytes).map_err(failed(&shown))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(failed(&shown))
}

/// Makes a directory and those above it, readable for all whatever the umask is.
fn make_dir(dir: &Path) -> Result<(), Failure> {
    let shown = dir.display().to_string();
    if dir.is_dir() {
        return Ok(());
    }
    dir.parent().map_or(Ok(()), make_dir)?;
    fs::create_dir(dir).map_err(failed(&shown))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(failed(&shown))
}

fn remove(dir: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(failed(&dir.display().to_string())(e))
        }
        _ => Ok(()),
    }
}

fn failed(place: &str) -> impl Fn(std::io::Error) -> Failure + use<> {
    let place = place.to_owned();
    move |error| Failure(format!("{place}: {error}"))
}
