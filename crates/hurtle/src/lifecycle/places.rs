//! Files and directories as the sandbox knows them: its permissions are for inodes. `sandbox`
//! decides which ones a server needs.

use std::collections::BTreeSet;
use std::env;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files and directories of the system that are read: names of hosts and users, the libraries that
/// look them up, authorities of upstreams and of ACME, and facts about this process. Directories of
/// private keys (/etc/ssl/private, /etc/pki/tls/private) are not among them.
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
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
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
    "/var/lib/ca-certificates",
];

/// Devices that are opened while the server runs.
const DEVICES: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr"];

/// A file or directory that exists: the permission is for this one, and not for another that takes
/// its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Without symbolic links.
    pub(super) path: PathBuf,
    device: u64,
    inode: u64,
}

/// Places with two kinds of access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Places that are read.
    pub(super) readable: BTreeSet<Place>,
    /// Places beneath which files are also created, changed and removed.
    pub(super) writable: BTreeSet<Place>,
}

impl Place {
    /// Returns the place at `path`, or if there is none, the nearest directory above.
    pub(super) fn nearest(path: &Path) -> Option<Place> {
        path.ancestors().find_map(Place::at)
    }

    pub(super) fn at(path: &Path) -> Option<Place> {
        let path = path.canonicalize().ok()?;
        let metadata = path.metadata().ok()?;
        Some(Place::new(path, &metadata))
    }

    fn new(path: PathBuf, metadata: &Metadata) -> Place {
        Place { device: metadata.dev(), inode: metadata.ino(), path }
    }

    /// `true`: it is one of `places`, or beneath one.
    fn is_beneath(&self, places: &BTreeSet<Place>) -> bool {
        self.path.ancestors().any(|above| {
            let place = above.metadata().map(|metadata| Place::new(above.to_owned(), &metadata));
            place.is_ok_and(|place| places.contains(&place))
        })
    }
}

impl Places {
    /// The places that every server needs.
    pub(super) fn of_system() -> Places {
        let existing =
            |paths: &[&str]| paths.iter().filter_map(|path| Place::at(Path::new(path))).collect();
        Places { readable: existing(SYSTEM), writable: existing(DEVICES) }
    }

    /// `true`: a process that may read and write here may read this place, or also write it.
    pub(super) fn cover(&self, place: &Place, written: bool) -> bool {
        place.is_beneath(&self.writable) || !written && place.is_beneath(&self.readable)
    }

    /// `true`: a process with these places also has the others.
    pub(super) fn cover_all(&self, others: &Places) -> bool {
        others.writable.iter().all(|place| self.cover(place, true))
            && others.readable.iter().all(|place| self.cover(place, false))
    }
}

/// Returns the paths in a variable of the environment, which may be a list as that of `PATH`.
pub(super) fn paths_of(variable: &str) -> Vec<PathBuf> {
    env::var_os(variable).iter().flat_map(env::split_paths).collect()
}
