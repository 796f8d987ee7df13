//! The sandbox of the server process: after it has entered it, the process opens only what its
//! configuration names, and starts no program. It is entered before the first thread starts, because
//! a thread inherits it and can never leave.
//!
//! A server that starts programs (`cgi`, `apps`) has none, because the programs would inherit it.

use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::config::{
    Auth, CertificateFiles, Config, Files, JwksSource, Jwt, Listen, LogTarget, MountHandler,
    Sandbox as Choice, Site, Symlinks, UpstreamTls,
};
use crate::sys;

/// Files and directories of the system that are read: names of hosts and users, the libraries that
/// look them up, authorities of upstreams and of ACME, and facts about this process.
const SYSTEM: &[&str] = &[
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/lib",
    "/lib64",
    "/proc/self",
    "/proc/sys/net",
    "/run/systemd/resolve",
    "/sys/fs/cgroup",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/zoneinfo",
];

/// Devices that are opened while the server runs.
const DEVICES: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr"];

/// Variables that name certificates of authorities.
const AUTHORITY_VARIABLES: &[&str] = &["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Variables that name files with the credentials of object stores.
const CREDENTIAL_VARIABLES: &[&str] = &[
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_FEDERATED_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "SERVICE_ACCOUNT",
];

/// The files and directories that a configuration needs; a directory stands for all beneath it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Places that are read.
    readable: BTreeSet<Place>,
    /// Places beneath which files are also created, changed and removed.
    writable: BTreeSet<Place>,
}

/// A file or directory that exists: the permission is for this one, and not for another that takes
/// its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Without symbolic links.
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// Returns the place at `path`, or if there is none, the nearest directory above.
    fn nearest(path: &Path) -> Option<Place> {
        path.ancestors().find_map(Place::at)
    }

    fn at(path: &Path) -> Option<Place> {
        let path = path.canonicalize().ok()?;
        let metadata = path.metadata().ok()?;
        Some(Place { device: metadata.dev(), inode: metadata.ino(), path })
    }
}

impl Permissions {
    /// The permissions for a configuration, which may have been read from `file`.
    ///
    /// # Errors
    /// The reason why this configuration has no sandbox.
    pub fn of(config: &Config, file: Option<&Path>) -> Result<Permissions, &'static str> {
        if config.sandbox == Choice::Off {
            return Err("sandbox = \"off\"");
        }
        let mounts = || config.sites.iter().flat_map(|site| &site.mounts);
        if config.apps.is_some() || mounts().any(|mount| is_cgi(&mount.handler)) {
            return Err("the server starts programs, which would be in it too");
        }
        let mut needed = Permissions::default();
        needed.add_system();
        if let Some(file) = file {
            needed.read_file(file);
        }
        let monitored = config.metrics.iter().flat_map(|metrics| &metrics.listen);
        for listen in config.listen.iter().chain(&config.listen_tls).chain(monitored) {
            if let Listen::Unix(path) = listen {
                needed.write_file(path);
            }
        }
        config.admin.iter().for_each(|path| needed.write_file(path));
        let access_log = config.access_log.as_ref().map(|log| &log.to);
        for target in access_log.into_iter().chain([&config.error_log.to]) {
            if let LogTarget::File(path) = target {
                needed.write_file(path);
            }
        }
        config.compress.disk.iter().for_each(|disk| needed.write(&disk.path));
        if let Some(acme) = &config.acme {
            needed.write(&acme.storage);
            for authority in &acme.authorities {
                authority.root.iter().for_each(|path| needed.read_file(path));
                authority.binding.iter().for_each(|binding| needed.read_file(&binding.key));
            }
        }
        if let Some(store) = &config.store {
            store.password_file.iter().chain(&store.ca).for_each(|path| needed.read_file(path));
        }
        config.sites.iter().for_each(|site| needed.serve(site));
        Ok(needed)
    }

    /// Adds what every server needs of the system.
    fn add_system(&mut self) {
        self.readable.extend(SYSTEM.iter().filter_map(|path| Place::at(Path::new(path))));
        self.read_all(AUTHORITY_VARIABLES.iter().filter_map(env::var_os));
        self.writable.extend(DEVICES.iter().filter_map(|path| Place::at(Path::new(path))));
    }

    fn serve(&mut self, site: &Site) {
        if let Some(tls) = &site.tls {
            tls.certificates.iter().for_each(|files| self.read_certificate(files));
            tls.client_auth.iter().for_each(|auth| self.read_file(&auth.authorities));
            tls.ticket_secret.iter().for_each(|path| self.read_file(path));
        }
        let auths = site.mounts.iter().filter_map(|mount| mount.auth.as_ref());
        for auth in site.auth.iter().chain(auths) {
            match auth {
                Auth::Basic(basic) => self.read_file(&basic.users),
                Auth::Jwt(Jwt { jwks: JwksSource::File(file), .. }) => self.read_file(file),
                Auth::Forward(server) => {
                    server.tls.iter().for_each(|tls| self.read_upstream_tls(tls));
                }
                Auth::None | Auth::Jwt(_) => {}
            }
        }
        for mount in &site.mounts {
            match &mount.handler {
                MountHandler::Files(files) => self.serve_files(files),
                MountHandler::Proxy(proxy) => {
                    proxy.internal.iter().for_each(|path| self.read_file(path));
                    proxy.upstream_tls.iter().for_each(|tls| self.read_upstream_tls(tls));
                    let disk = proxy.cache.as_ref().and_then(|cache| cache.disk.as_ref());
                    disk.iter().for_each(|disk| self.write(&disk.directory));
                }
                MountHandler::FastCgi(fastcgi) => {
                    fastcgi.files_beside().iter().for_each(|files| self.serve_files(files));
                    fastcgi.internal.iter().for_each(|path| self.read_file(path));
                    // Requests of unknown length are buffered there.
                    self.write(env::temp_dir());
                }
                MountHandler::Wasm(wasm) => {
                    let component = &wasm.component;
                    self.read_file(&component.file);
                    wasm.internal.iter().for_each(|path| self.read_file(path));
                    self.read_all(component.dirs.values());
                    component.writable_dirs.values().for_each(|path| self.write(path));
                }
                MountHandler::Cgi(_)
                | MountHandler::Redirect { .. }
                | MountHandler::Fixed { .. }
                | MountHandler::Status => {}
            }
        }
    }

    fn serve_files(&mut self, files: &Files) {
        if let Some(store) = &files.objects {
            self.write(&store.cache_dir);
            self.read_all(CREDENTIAL_VARIABLES.iter().filter_map(env::var_os));
            return;
        }
        if files.symlinks == Symlinks::Anywhere {
            self.read("/");
        }
        // A deployment may replace the directory, or the link that it is, by another one beside it.
        self.read_file(&files.root);
        if files.uploads.is_some() {
            self.write(&files.root);
        }
    }

    fn read_upstream_tls(&mut self, tls: &UpstreamTls) {
        tls.ca.iter().for_each(|path| self.read_file(path));
        tls.client.iter().for_each(|files| self.read_certificate(files));
    }

    fn read_certificate(&mut self, files: &CertificateFiles) {
        self.read_file(&files.chain);
        self.read_file(&files.key);
    }

    fn read_all(&mut self, paths: impl IntoIterator<Item = impl AsRef<Path>>) {
        paths.into_iter().for_each(|path| self.read(path));
    }

    fn read(&mut self, path: impl AsRef<Path>) {
        self.readable.extend(Place::nearest(path.as_ref()));
    }

    fn write(&mut self, path: impl AsRef<Path>) {
        self.writable.extend(Place::nearest(path.as_ref()));
    }

    /// Adds a file that may be replaced: its directory, and that of the file to which it links. A file
    /// in the root of the file system is added alone, because that directory would be everything.
    fn read_file(&mut self, file: &Path) {
        let target = file.canonicalize().ok();
        for file in [Some(file), target.as_deref()].into_iter().flatten() {
            let directory = file.parent().filter(|directory| directory.parent().is_some());
            self.read(directory.unwrap_or(file));
        }
    }

    /// Adds a file that is created and removed, and the one to which it links.
    fn write_file(&mut self, file: &Path) {
        file.parent().iter().for_each(|directory| self.write(directory));
        self.writable.extend(Place::at(file));
    }

    /// `true`: a process with these permissions also has `others`.
    fn cover(&self, others: &Permissions) -> bool {
        let beneath = |place: &Place, among: &BTreeSet<Place>| {
            place.path.ancestors().filter_map(Place::at).any(|above| among.contains(&above))
        };
        others.writable.iter().all(|place| beneath(place, &self.writable))
            && (others.readable.iter())
                .all(|place| beneath(place, &self.readable) || beneath(place, &self.writable))
    }

    /// Enters the sandbox, for good. It must be called before a thread starts.
    ///
    /// # Errors
    /// The system has no sandbox, or not all of it.
    pub(super) fn enter(&self) -> io::Result<()> {
        let paths = |places: &BTreeSet<Place>| -> Vec<_> {
            places.iter().map(|place| place.path.clone()).collect()
        };
        pin_process_files(&self.readable);
        sys::restrict_files(&paths(&self.readable), &paths(&self.writable))?;
        sys::restrict_calls()
    }
}

/// Opens permitted files and directories beneath /proc for the rest of the process. The kernel makes
/// a new inode when it finds an unused one again, and the sandbox's permission is for the old one.
fn pin_process_files(readable: &BTreeSet<Place>) {
    let beneath_proc = readable.iter().filter(|place| place.path.starts_with("/proc"));
    // A file that cannot be opened now is not needed later.
    beneath_proc.filter_map(|place| File::open(&place.path).ok()).for_each(std::mem::forget);
}

/// The permissions for a person, without those for the system's own files.
impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own = Permissions::default();
        own.add_system();
        let list = |places: &BTreeSet<Place>, own: &BTreeSet<Place>| {
            let paths: Vec<_> =
                places.difference(own).map(|place| place.path.display().to_string()).collect();
            if paths.is_empty() { "nothing".to_owned() } else { paths.join(", ") }
        };
        write!(f, "reads {}; ", list(&self.readable, &own.readable))?;
        write!(f, "writes {}; starts no program", list(&self.writable, &own.writable))
    }
}

/// The confinement of this process.
#[derive(Debug)]
pub enum Sandbox {
    /// It has these permissions and no others.
    Entered(Permissions),
    /// It is not confined, for this reason.
    Absent(String),
}

impl Sandbox {
    /// Logs what this process may do.
    pub(super) fn log(&self) {
        match self {
            Sandbox::Entered(permissions) => tracing::info!("sandbox: the server {permissions}"),
            Sandbox::Absent(reason) => tracing::info!("no sandbox: {reason}"),
        }
    }

    /// `true`: this process may do what a configuration, read from `file`, needs.
    pub(super) fn permits(&self, config: &Config, file: Option<&Path>) -> bool {
        match self {
            Sandbox::Absent(_) => true,
            Sandbox::Entered(permissions) => {
                Permissions::of(config, file).is_ok_and(|needed| permissions.cover(&needed))
            }
        }
    }

    /// `true`: these problems of a configuration may be due to the sandbox.
    pub(super) fn may_cause(&self, problems: &[String]) -> bool {
        let denied = io::Error::from(Errno::ACCESS).to_string();
        matches!(self, Sandbox::Entered(_)) && problems.iter().any(|line| line.contains(&denied))
    }
}

fn is_cgi(handler: &MountHandler) -> bool {
    matches!(handler, MountHandler::Cgi(_))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind::PermissionDenied;
    use std::os::fd::AsFd as _;
    use std::process::Command;
    use std::thread;

    use rustix::fs::Mode;

    use super::*;
    use crate::config;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let dir = env::temp_dir().join(format!("hurtle-{}-{name}", std::process::id()));
            for part in ["www", "up", "etc"] {
                fs::create_dir_all(dir.join(part).join("in")).unwrap();
                fs::write(dir.join(part).join("in/x"), part).unwrap();
            }
            Dir(dir)
        }

        fn permissions(&self, text: &str) -> Result<Permissions, &'static str> {
            let text = text.replace("DIR", &self.0.display().to_string());
            let file = self.0.join("etc/in/hurtle.toml");
            Permissions::of(&config::check(&text, &file).unwrap(), Some(&file))
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const SERVED: &str = "[[site]]\nauth = 'none'\n[[site.mount]]\nfiles = 'DIR/www/in'\n\
        [[site.mount]]\npath = '/up'\nfiles = 'DIR/up/in'\nuploads = {}\n";

    /// Only the thread of a test is confined, not the others. Where the system has no sandbox,
    /// nothing is done.
    fn inside(permissions: Permissions, what: impl FnOnce() + Send + 'static) {
        let confined = thread::spawn(move || match permissions.enter() {
            // A thread that starts later is in the sandbox too.
            Ok(()) => thread::spawn(what).join().unwrap(),
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::Unsupported),
        });
        confined.join().unwrap();
    }

    #[test]
    fn the_forbidden_fails_and_the_needed_works() {
        let dir = Dir::new("forbidden");
        let permissions = dir.permissions(SERVED).unwrap();
        let at = dir.0.clone();
        inside(permissions, move || {
            let kind = |outcome: io::Result<()>| outcome.map_err(|e| e.kind());
            let path = |path: &str| at.join(path);
            assert_eq!(fs::read(path("www/in/x")).unwrap(), b"www", "a served file");
            assert_eq!(fs::read(path("etc/in/x")).unwrap(), b"etc", "beside the configuration");
            fs::read_dir(path("www/in")).unwrap();
            fs::write(path("up/in/new"), "1").unwrap();
            fs::create_dir(path("up/in/d")).unwrap();
            fs::rename(path("up/in/new"), path("up/in/d/moved")).unwrap();
            let directory = File::open(path("up/in")).unwrap();
            let unnamed =
                sys::create_unnamed(directory.as_fd(), Mode::from_raw_mode(0o600)).unwrap();
            sys::link_unnamed(unnamed.as_fd(), directory.as_fd(), b"linked").unwrap();
            fs::remove_file(path("up/in/linked")).unwrap();

            let denied = Err(PermissionDenied);
            assert_eq!(kind(fs::read("/etc/shells").map(drop)), denied, "a file of the system");
            assert_eq!(kind(fs::read_dir("/").map(drop)), denied, "a directory of the system");
            assert_eq!(kind(fs::write(path("www/in/x"), "")), denied, "changes a served file");
            assert_eq!(kind(fs::write(path("www/in/y"), "")), denied, "creates a file");
            assert_eq!(kind(fs::remove_file(path("www/in/x"))), denied, "removes a file");
            assert_eq!(kind(fs::write(path("etc/in/x"), "")), denied, "changes a configuration");
            assert_eq!(kind(fs::write("/tmp/hurtle-escaped", "")), denied, "writes elsewhere");
            assert_eq!(kind(Command::new("/bin/true").status().map(drop)), denied, "a program");
        });
    }

    #[test]
    fn a_server_of_programs_has_no_sandbox() {
        let dir = Dir::new("programs");
        let cases = [
            ("[[site]]\n[[site.mount]]\ncgi = 'DIR/www/in'\n", "starts programs"),
            ("apps = 'DIR/www/in'\n", "starts programs"),
            ("root = 'DIR/www/in'\nsandbox = 'off'\n", "off"),
        ];
        for (text, expected) in cases {
            let reason = dir.permissions(text).unwrap_err();
            assert!(reason.contains(expected), "{text}: {reason}");
        }
    }

    #[test]
    fn a_root_directly_beneath_the_root_of_the_file_system_does_not_admit_everything() {
        let permissions = Dir::new("top").permissions("root = '/usr'\n").unwrap();
        let reads = |path: &str| permissions.readable.iter().any(|place| place.path == *path);
        assert_eq!((reads("/usr"), reads("/")), (true, false), "{permissions}");
    }

    #[test]
    fn permissions_cover_what_lies_beneath_them() {
        let dir = Dir::new("cover");
        let root = |part: &str| dir.permissions(&format!("root = 'DIR/{part}'\n")).unwrap();
        let uploads = dir.permissions(SERVED).unwrap();
        assert!(uploads.cover(&uploads), "themselves");
        assert!(uploads.cover(&root("www/in")), "less");
        assert!(uploads.cover(&root("up/in/deeper")), "a directory beneath");
        assert!(!root("www/in").cover(&uploads), "writing beside reading");
        assert!(!root("www/in").cover(&root("up/in")), "another directory");
        fs::rename(dir.0.join("www"), dir.0.join("old")).unwrap();
        fs::create_dir_all(dir.0.join("www/in")).unwrap();
        assert!(!uploads.cover(&root("www/in")), "a new directory of the same name");
    }

    /// A new key that names a path must not be forgotten in `Permissions::of`.
    #[test]
    fn no_path_of_a_configuration_is_left_out() {
        let dir = Dir::new("paths");
        let base = dir.0.display().to_string();
        let text = include_str!("../config/full.toml");
        let mut config = config::check(text, &dir.0.join("hurtle.toml")).unwrap();
        config.sandbox = Choice::Auto;
        config.apps = None;
        for site in &mut config.sites {
            site.mounts.retain(|mount| !is_cgi(&mount.handler));
        }
        // Each path moves to a directory of its own, so that none is covered by another's.
        let printed = config::print(&config);
        let quoted = format!("\"{base}/");
        let mut parts = printed.split(&quoted);
        let mut moved = parts.next().unwrap().to_owned();
        let mut places = Vec::new();
        for part in parts {
            let place = format!("{base}/moved/{}/", places.len());
            moved.push_str(&format!("\"{place}{part}"));
            let name = part.split('"').next().unwrap();
            fs::create_dir_all(format!("{place}{name}")).unwrap();
            places.push((name.to_owned(), place));
        }
        assert!(places.len() > 10, "{printed}");
        let config = config::check(&moved, &dir.0.join("hurtle.toml")).unwrap();
        let permissions = Permissions::of(&config, None).unwrap();
        for (name, place) in places {
            let mut permitted = permissions.readable.iter().chain(&permissions.writable);
            // The path itself, or its directory.
            let permitted = permitted.any(|permitted| permitted.path.join("").starts_with(&place));
            assert!(permitted, "{name} is not permitted: {permissions}");
        }
    }
}
