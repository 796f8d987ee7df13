//! Clearing what a crash has left of uploads: files under names that are never served. It waits for
//! the disk and runs on the pool, once at the start, beside the serving.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};

use super::store;
use crate::files::is_unfinished;

/// Directories below the root that are looked into, each holding a descriptor while those in it
/// are.
const DEPTH_MAX: usize = 64;

/// Removes every unfinished upload beneath `root` that nobody is at work on and that is not to be
/// resumed; returns how many. Links are not followed. What cannot be read or removed is left: it is
/// never served.
pub fn sweep(root: &Path) -> usize {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(root, flags, Mode::empty()) {
        Ok(root) => sweep_directory(&root, DEPTH_MAX),
        Err(_) => 0,
    }
}

/// Removes the uploads to `root` that nobody has resumed in time; returns how many.
pub fn expire(root: &Path) -> usize {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty()).map_or(0, |root| store::expire(&root))
}

fn sweep_directory(directory: &OwnedFd, depth: usize) -> usize {
    let Ok(entries) = Dir::read_from(directory) else { return 0 };
    let mut swept = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if name.to_bytes() == store::DIRECTORY.as_bytes() {
            swept += store::expire(directory);
            continue;
        }
        if is_unfinished(name.to_bytes()) {
            swept += usize::from(remove(directory, name));
            continue;
        }
        let may_be_directory = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if depth > 0 && may_be_directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(below) = rustix::fs::openat(directory, name, flags, Mode::empty()) {
                swept += sweep_directory(&below, depth - 1);
            }
        }
    }
    swept
}

/// Removes a file unless somebody holds it: another server may be at work in the same directory.
fn remove(directory: &OwnedFd, name: &std::ffi::CStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let held = rustix::fs::openat(directory, name, flags, Mode::empty()).is_ok_and(|file| {
        let lock = FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(file.as_fd(), lock) == Err(rustix::io::Errno::WOULDBLOCK)
    });
    !held && rustix::fs::unlinkat(directory, name, AtFlags::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_nobody_holds_is_removed_wherever_it_is() {
        let root = std::env::temp_dir().join(format!("hurtle-sweep-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join("beside")).unwrap();
        let outside = root.join("beside/.hurtle-upload-3");
        for path in ["a/.hurtle-upload-1", "a/b/.hurtle-upload-2", "a/b/kept", "a/.kept"] {
            fs::write(root.join(path), "x").unwrap();
        }
        fs::write(&outside, "x").unwrap();
        std::os::unix::fs::symlink("../beside", root.join("a/link")).unwrap();
        let held = root.join("a/.hurtle-upload-held");
        let file = fs::File::create(&held).unwrap();
        rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();

        assert_eq!(sweep(&root.join("a")), 2);
        for (path, stays) in [
            ("a/.hurtle-upload-1", false),
            ("a/b/.hurtle-upload-2", false),
            ("a/b/kept", true),
            ("a/.kept", true),
            ("a/.hurtle-upload-held", true),
            ("beside/.hurtle-upload-3", true),
        ] {
            assert_eq!(root.join(path).exists(), stays, "{path}");
        }
        drop(file);
        assert_eq!(sweep(&root.join("a")), 1, "it is held no more");
        let _ = fs::remove_dir_all(&root);
    }
}
