//! A directory to serve, and the configuration that serves it.

use std::ffi::OsStr;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hurtle::config::{Config, Files, Listen, Mount, MountHandler, Site};
use rustix::fs::Mode;

/// Modification time of every file that `Dir::set_age` does not change: seconds since 1970, and an
/// HTTP date. Files also have a fraction of a second, as the copied time of an edit has.
pub(crate) const MODIFIED: (u64, &str) = (1_714_564_800, "Wed, 01 May 2024 12:00:00 GMT");

const FRACTION: Duration = Duration::from_millis(250);

/// A directory that is removed when dropped. Its subdirectory `root` is served; files beside `root`
/// must not be.
#[derive(Debug)]
pub(crate) struct Dir {
    base: PathBuf,
}

impl Dir {
    /// Creates these files. A path that ends in `/` is an empty directory.
    pub(crate) fn new(tree: &[(&str, &str)]) -> Dir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // A server that has given up root must be able to read it, whatever the umask is.
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        let base = std::env::temp_dir().join(format!("hurtle-it-{}-{number}", std::process::id()));
        let dir = Dir { base };
        fs::create_dir_all(dir.root()).unwrap();
        for (path, contents) in tree {
            if path.ends_with('/') {
                fs::create_dir_all(dir.path(path)).unwrap();
            } else {
                dir.write(path, contents);
            }
        }
        dir
    }

    /// The served directory.
    pub(crate) fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    /// A path beneath `root`; `../` leads beside it.
    pub(crate) fn path(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.root().join(Path::new(OsStr::from_bytes(path.as_ref())))
    }

    /// Writes a file in place, and creates its directories.
    pub(crate) fn write(&self, path: impl AsRef<[u8]>, contents: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        set_modified(&path, MODIFIED.0);
    }

    /// Replaces a file by renaming another over it, as deploys do.
    pub(crate) fn replace(&self, path: &str, contents: impl AsRef<[u8]>, modified_secs: u64) {
        self.write("../new", contents);
        set_modified(&self.path("../new"), modified_secs);
        fs::rename(self.path("../new"), self.path(path)).unwrap();
    }

    /// Sets a file's modification time, in seconds since 1970.
    pub(crate) fn set_modified(&self, path: &str, secs: u64) {
        set_modified(&self.path(path), secs);
    }

    /// Sets a file's modification time exactly, since 1970.
    pub(crate) fn set_time(&self, path: impl AsRef<[u8]>, since_1970: Duration) {
        set_time(&self.path(path), since_1970);
    }

    /// Creates a symbolic link to `to`, which is used unchanged.
    pub(crate) fn link(&self, path: &str, to: impl AsRef<Path>) {
        std::os::unix::fs::symlink(to, self.path(path)).unwrap();
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // The system clears the temporary directory if this fails.
        let _ = fs::remove_dir_all(&self.base);
    }
}

fn set_modified(path: &Path, secs: u64) {
    set_time(path, Duration::from_secs(secs) + FRACTION);
}

fn set_time(path: &Path, since_1970: Duration) {
    let time = SystemTime::UNIX_EPOCH + since_1970;
    fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

/// One worker on any free port, one site for every host name, files of `root` without listings, and
/// defaults for the rest.
pub(crate) fn config(root: &Path) -> Config {
    let mut config = Config::for_directory(root.to_owned());
    config.listen = vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())];
    config.workers = NonZeroUsize::MIN;
    files(&mut config).listing = false;
    config
}

/// A site for every host name with these mounts only.
pub(crate) fn site(mounts: Vec<Mount>) -> Site {
    Site { default: true, mounts, ..Site::new() }
}

/// A mount without access rules.
pub(crate) fn mount(path: &str, handler: MountHandler) -> Mount {
    Mount::new(path, handler)
}

/// A directory served with the default settings.
pub(crate) fn files_of(root: &Path) -> Files {
    Files::new(root.to_owned())
}

/// The settings of the first mount's files.
pub(crate) fn files(config: &mut Config) -> &mut Files {
    match &mut config.sites[0].mounts[0].handler {
        MountHandler::Files(files) => files,
        other => panic!("the first mount is {other:?}"),
    }
}
