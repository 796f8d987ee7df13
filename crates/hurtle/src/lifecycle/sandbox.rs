//! The sandbox of the server process: after it has entered it, the process opens only what its
//! configuration names, and starts no program. It is entered before the first thread starts,
//! because a thread inherits it and can never leave.
//!
//! A server that starts programs (`cgi`, `apps`) has none, because the programs would inherit it.

use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use rustix::io::Errno;

use super::places::{Place, Places, paths_of};
use crate::config::{
    Auth, Buffering, CertificateFiles, Config, Files, JwksSource, Jwt, Listen, LogTarget,
    MountHandler, Sandbox as Choice, Site, Symlinks, UpstreamTls,
};
use crate::sys;

/// Directories with files that the system's resolver opens: they are replaced, or lead elsewhere.
const RESOLVER_DIRECTORIES: &[&str] = &["/etc", "/run", "/var/lib/sss"];

/// Files that the system's resolver opens for each name.
const RESOLVER_FILES: &[&str] = &["/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"];

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
pub(crate) struct Permissions {
    /// Places of the configuration.
    own: Places,
    /// Places that every server needs.
    system: Places,
    /// The paths of the configuration that led to its places.
    paths: BTreeSet<PathBuf>,
    /// Those of them that this user cannot follow.
    unseen: BTreeSet<PathBuf>,
    /// Names that are opened while the server runs.
    names: BTreeSet<Name>,
}

/// A name of the configuration that may lead elsewhere while the server runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) path: PathBuf,
    /// `true`: files are created, changed or removed there.
    is_written: bool,
}

impl Permissions {
    /// The permissions for a configuration, which may have been read from `file`.
    ///
    /// # Errors
    /// The reason why this configuration has no sandbox.
    pub(crate) fn of(config: &Config, file: Option<&Path>) -> Result<Permissions, &'static str> {
        if config.sandbox == Choice::Off {
            return Err("sandbox = \"off\"");
        }
        let mounts = || config.sites.iter().flat_map(|site| &site.mounts);
        if config.apps.is_some() || mounts().any(|mount| is_cgi(&mount.handler)) {
            return Err("the server starts programs, which would be in it too");
        }
        let mut needed = Permissions { system: Places::of_system(), ..Permissions::default() };
        // Without the directory of a file, which may be that of private keys too.
        let authorities = AUTHORITY_VARIABLES.iter().flat_map(|variable| paths_of(variable));
        needed.system.readable.extend(authorities.filter_map(|path| Place::at(&path)));
        if let Some(file) = file {
            needed.read_file(file);
        }
        config.placeholders.files.iter().for_each(|path| needed.read_file(path));
        for path in &config.included {
            match path.is_dir() {
                true => needed.read(path),
                false => needed.read_file(path),
            }
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
                // Opened again after the files were rotated.
                path.parent().iter().for_each(|directory| needed.keep_written(directory));
            }
        }
        config.compress.disk.iter().for_each(|disk| needed.keep_written(&disk.path));
        config.local_authority.iter().for_each(|directory| needed.keep_written(directory));
        if let Some(acme) = &config.acme {
            needed.keep_written(&acme.storage);
            if acme.dns.as_ref().is_some_and(|hook| hook.resolvers.is_empty()) {
                // The servers of zones are found by the system's resolvers.
                needed.names.extend(Permissions::resolver_names());
            }
            for authority in &acme.authorities {
                let files = authority.root.iter().chain(&authority.eab_key);
                files.for_each(|path| needed.read_file(path));
            }
        }
        if let Some(store) = &config.store {
            store.password_file.iter().chain(&store.ca).for_each(|path| needed.read_file(path));
        }
        config.sites.iter().for_each(|site| needed.serve(site));
        Ok(needed)
    }

    /// The permissions of the process that looks up names: it reads the system's files, also those
    /// that are replaced.
    pub(super) fn of_resolver() -> Permissions {
        let mut needed = Permissions { system: Places::of_system(), ..Permissions::default() };
        RESOLVER_DIRECTORIES.iter().for_each(|path| needed.read(path));
        needed.read_file(Path::new("/etc/resolv.conf"));
        needed
    }

    fn serve(&mut self, site: &Site) {
        // It is there at times.
        site.maintenance.iter().for_each(|file| self.read_beside(file));
        if let Some(tls) = &site.tls {
            tls.certificates.iter().for_each(|files| self.read_certificate(files));
            if let Some(auth) = &tls.client_auth {
                self.keep_read_file(&auth.authorities);
                auth.revocation_lists.iter().for_each(|list| self.keep_read_file(list));
            }
            tls.ticket_secret.iter().for_each(|path| self.keep_read_file(path));
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
            mount.handler.internal().iter().for_each(|path| self.keep_read_file(path));
            match &mount.handler {
                MountHandler::Files(files) => self.serve_files(files),
                MountHandler::Proxy(proxy) => {
                    proxy.upstream_tls.iter().for_each(|tls| self.read_upstream_tls(tls));
                    let disk = proxy.cache.as_ref().and_then(|cache| cache.disk.as_ref());
                    disk.iter().for_each(|disk| self.keep_written(&disk.directory));
                    if proxy.buffer.kind != Buffering::Off {
                        self.keep_written(&proxy.buffer.directory());
                    }
                }
                MountHandler::FastCgi(fastcgi) => {
                    fastcgi.files_beside().iter().for_each(|files| self.serve_files(files));
                    self.keep_written(&fastcgi.buffer.directory());
                }
                MountHandler::Uwsgi(app) => self.keep_written(&app.buffer.directory()),
                MountHandler::Wasm(wasm) => {
                    let component = &wasm.component;
                    if !component.outbound.is_empty() {
                        self.names.extend(Permissions::resolver_names());
                    }
                    self.read_file(&component.file);
                    component.dirs.values().for_each(|path| self.keep_read(path));
                    component.writable_dirs.values().for_each(|path| self.keep_written(path));
                }
                MountHandler::Cgi(_)
                | MountHandler::Redirect { .. }
                | MountHandler::Abort
                | MountHandler::Fixed { .. }
                | MountHandler::Status => {}
            }
        }
    }

    fn serve_files(&mut self, files: &Files) {
        if let Some(store) = &files.objects {
            self.keep_written(&store.cache_dir);
            // The stores' client looks up names in this process.
            self.names.extend(Permissions::resolver_names());
            // Short-lived tokens are replaced while the server runs.
            for variable in CREDENTIAL_VARIABLES {
                env::var_os(variable).iter().for_each(|path| self.keep_read_file(Path::new(path)));
            }
            return;
        }
        if files.symlinks == Symlinks::Anywhere {
            self.read("/");
        }
        files.symlinks.directories().iter().for_each(|path| self.keep_read(path));
        if files.uploads.is_some() {
            self.keep_written(&files.root);
        }
        // A deployment may replace the directory by another one beside it, or have the link that it
        // is lead there. The directory of the link has other things, such as what releases share.
        self.keep_read(&files.root);
        let is_link = files.root.is_symlink();
        let target = files.root.canonicalize().ok().filter(|_| is_link);
        self.read_beside(target.as_deref().unwrap_or(&files.root));
    }

    fn read_upstream_tls(&mut self, tls: &UpstreamTls) {
        tls.ca.iter().for_each(|path| self.read_file(path));
        tls.client.iter().for_each(|files| self.read_certificate(files));
    }

    fn read_certificate(&mut self, files: &CertificateFiles) {
        self.keep_read_file(&files.chain);
        self.keep_read_file(&files.key);
    }

    fn read(&mut self, path: impl AsRef<Path>) {
        let place = self.find_below_root(path.as_ref());
        self.own.readable.extend(place);
    }

    fn write(&mut self, path: impl AsRef<Path>) {
        let place = self.find_below_root(path.as_ref());
        self.own.writable.extend(place);
    }

    /// Like `find`, without the root of the file system, which is the nearest directory of a path
    /// that does not exist at all.
    fn find_below_root(&mut self, path: &Path) -> Option<Place> {
        let is_meant = |place: &Place| place.path.parent().is_some() || path.parent().is_none();
        self.find(path).filter(is_meant)
    }

    /// Returns the place at `path`, or if there is none, the nearest directory above. `None`: this
    /// user cannot follow the path, so nothing is known of it.
    fn find(&mut self, path: &Path) -> Option<Place> {
        self.paths.insert(path.to_owned());
        let denied = |e: io::Error| e.kind() == io::ErrorKind::PermissionDenied;
        if path.canonicalize().is_err_and(denied) {
            self.unseen.insert(path.to_owned());
            return None;
        }
        Place::nearest(path)
    }

    /// Adds a file that may be replaced: its directory, and that of the file to which it links.
    fn read_file(&mut self, file: &Path) {
        self.read_beside(file);
        if let Ok(target) = file.canonicalize() {
            self.read_beside(&target);
        }
    }

    /// Adds the directory of `path`. Directly beneath the root of the file system `path` is added
    /// alone, because that directory would be everything.
    fn read_beside(&mut self, path: &Path) {
        let directory = path.parent().filter(|directory| directory.parent().is_some());
        self.read(directory.unwrap_or(path));
    }

    /// Adds a file that is created and removed, and the directory of the one to which it links.
    fn write_file(&mut self, file: &Path) {
        file.parent().iter().for_each(|directory| self.write(directory));
        let Some(target) = Place::at(file) else { return };
        let directory = target.path.parent().filter(|_| target.path.is_file());
        directory.iter().for_each(|directory| self.write(directory));
        self.own.writable.insert(target);
    }

    /// Adds a directory that is read while the server runs.
    fn keep_read(&mut self, path: &Path) {
        self.read(path);
        self.names.insert(Name { path: path.to_owned(), is_written: false });
    }

    /// Adds a file, or a directory that may be replaced, that is read while the server runs.
    fn keep_read_file(&mut self, path: &Path) {
        self.read_file(path);
        self.names.insert(Name { path: path.to_owned(), is_written: false });
    }

    /// Adds a directory that is written while the server runs.
    fn keep_written(&mut self, path: &Path) {
        self.write(path);
        self.names.insert(Name { path: path.to_owned(), is_written: true });
    }

    /// Takes the names that are opened while the server runs.
    pub(super) fn into_names(self) -> BTreeSet<Name> {
        self.names
    }

    /// Names of the files that the system's resolver opens in this process.
    pub(super) fn resolver_names() -> impl Iterator<Item = Name> {
        RESOLVER_FILES.iter().map(|path| Name { path: path.into(), is_written: false })
    }

    /// `true`: a process with these permissions also has `others`. The system's files do not count:
    /// another file of the same name would make each reload an upgrade.
    fn cover(&self, others: &Permissions) -> bool {
        self.own.cover_all(&others.own) && others.unseen.is_subset(&self.paths)
    }

    /// Returns the file or directory to which a name leads, if only the sandbox refuses it.
    pub(super) fn refused(&self, name: &Name) -> Option<PathBuf> {
        // A link to nowhere, as in a deployment under way, needs no permission.
        let place = Place::at(&name.path)?;
        let is_covered =
            self.own.cover(&place, name.is_written) || self.system.cover(&place, name.is_written);
        (!is_covered && is_denied(&place.path, name.is_written)).then_some(place.path)
    }

    /// Enters the sandbox, for good. It must be called before a thread starts.
    ///
    /// # Errors
    /// The system has no sandbox, or not all of it.
    pub(super) fn enter(&self) -> io::Result<()> {
        let paths = |a: &BTreeSet<Place>, b: &BTreeSet<Place>| -> Vec<_> {
            a.iter().chain(b).map(|place| place.path.clone()).collect()
        };
        pin_process_files(&self.system.readable);
        let readable = paths(&self.own.readable, &self.system.readable);
        sys::restrict_files(&readable, &paths(&self.own.writable, &self.system.writable))?;
        sys::restrict_calls()
    }
}

/// `true`: this user has access, but this process has not, as far as can be known without writing.
fn is_denied(path: &Path, written: bool) -> bool {
    let access = if written { Access::WRITE_OK } else { Access::READ_OK };
    // The sandbox has no part in this call.
    let is_permitted = accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    let open = || {
        // A FIFO would wait for its other end.
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
    };
    let denied = |e: io::Error| e.kind() == io::ErrorKind::PermissionDenied;
    is_permitted && (written || open().is_err_and(denied))
}

/// Opens permitted files and directories beneath /proc for the rest of the process. The kernel
/// makes a new inode when it finds an unused one again, and the sandbox's permission is for the old
/// one.
fn pin_process_files(readable: &BTreeSet<Place>) {
    let beneath_proc = readable.iter().filter(|place| place.path.starts_with("/proc"));
    // A file that cannot be opened now is not needed later.
    beneath_proc.filter_map(|place| File::open(&place.path).ok()).for_each(std::mem::forget);
}

/// The permissions for a person, without those for the system's own files.
impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |places: &BTreeSet<Place>| {
            let paths: Vec<_> =
                places.iter().map(|place| place.path.display().to_string()).collect();
            if paths.is_empty() { "nothing".to_owned() } else { paths.join(", ") }
        };
        write!(f, "reads {}; ", list(&self.own.readable))?;
        write!(f, "writes {}; starts no program", list(&self.own.writable))
    }
}

/// The confinement of this process.
#[derive(Debug)]
pub(crate) enum Sandbox {
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

    /// Returns the file or directory to which a name leads, if only the sandbox refuses it.
    pub(super) fn refused(&self, name: &Name) -> Option<PathBuf> {
        match self {
            Sandbox::Absent(_) => None,
            Sandbox::Entered(permissions) => permissions.refused(name),
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
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::mpsc;
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

    /// A permission for the directory of a link would be one for all beside it.
    #[test]
    fn a_release_by_link_admits_neither_its_neighbours_nor_the_systems_secrets() {
        let dir = Dir::new("release");
        for path in ["cap/releases/1/public", "cap/releases/2/public", "cap/shared"] {
            fs::create_dir_all(dir.0.join(path)).unwrap();
            fs::write(dir.0.join(path).join("x"), path).unwrap();
        }
        symlink("releases/1", dir.0.join("cap/current")).unwrap();
        for (root, next) in [("cap/current/public", false), ("cap/current", true)] {
            let permissions = dir.permissions(&format!("root = 'DIR/{root}'\n")).unwrap();
            let at = dir.0.clone();
            inside(permissions, move || {
                let reads = |path: &str| fs::read(at.join(path)).map(drop).map_err(|e| e.kind());
                assert_eq!(reads("cap/releases/1/public/x"), Ok(()), "{root}");
                let permitted = if next { Ok(()) } else { Err(PermissionDenied) };
                assert_eq!(reads("cap/releases/2/public/x"), permitted, "{root}");
                // The system may have no such file.
                for path in ["cap/shared/x", "/etc/shadow", "/etc/ssl/private", "/etc"] {
                    let outcome = reads(path);
                    let is_refused = matches!(outcome, Err(PermissionDenied | NotFound));
                    assert!(is_refused, "{root}: {path}: {outcome:?}");
                }
            });
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused_by_the_sandbox_alone() {
        let dir = Dir::new("elsewhere");
        let link = dir.0.join("link");
        symlink("www", &link).unwrap();
        let permissions = dir.permissions("root = 'DIR/link/in'\n").unwrap();
        let refused = |target: &str| {
            fs::remove_file(&link).unwrap();
            symlink(target, &link).unwrap();
            let (entered, names) = (permissions.clone(), permissions.clone().into_names());
            let (send, received) = mpsc::channel();
            inside(permissions.clone(), move || {
                let refused = names.iter().find_map(|name| entered.refused(name));
                send.send(refused).unwrap();
            });
            received.recv().ok().flatten()
        };
        assert_eq!(refused("www"), None, "as before");
        assert_eq!(refused("nowhere"), None, "a deployment under way");
        let is_confined = refused("up").is_some();
        println!("confined: {is_confined}");
        let expected = dir.0.canonicalize().unwrap().join("up/in");
        assert!(refused("up").is_none_or(|path| path == expected));
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
        let reads = |path: &str| permissions.own.readable.iter().any(|place| place.path == *path);
        assert_eq!((reads("/usr"), reads("/")), (true, false), "{permissions}");
    }

    #[test]
    fn a_path_that_does_not_exist_does_not_admit_everything() {
        let mut permissions = Permissions::default();
        permissions.read_file(Path::new("/hurtle-nowhere/a/b"));
        assert_eq!(permissions.own, Places::default(), "{permissions}");
        permissions.read("/");
        assert_eq!(permissions.own.readable.len(), 1);
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
        let text = include_str!("../../../hurtle-config/src/full.toml");
        // Another process runs it.
        let text = text.replace("\"dns-hook\"", "\"/bin/dns-hook\"");
        let mut config = config::check(&text, &dir.0.join("hurtle.toml")).unwrap();
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
            let mut permitted = permissions.own.readable.iter().chain(&permissions.own.writable);
            // The path itself, or its directory.
            let permitted = permitted.any(|permitted| permitted.path.join("").starts_with(&place));
            assert!(permitted, "{name} is not permitted: {permissions}");
        }
    }
}
