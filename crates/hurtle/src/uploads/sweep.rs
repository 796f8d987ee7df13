//! Removes unfinished uploads that a crash has left. It blocks on the disk and runs on the disk
//! threads, once at the start, while requests are served.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};

use super::store;
use crate::files::is_unfinished;

/// Maximum depth of directories that are searched. Each level holds a descriptor.
const DEPTH_MAX: usize = 64;

/// Removes unfinished uploads beneath `root` that are neither locked nor resumable; returns their
/// number. Links are not followed. Files that cannot be removed are left; they are never served.
pub(crate) fn sweep(root: &Path) -> usize {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(root, flags, Mode::empty()) {
        Ok(root) => sweep_directory(&root, DEPTH_MAX),
        Err(_) => 0,
    }
}

/// Removes expired resumable uploads beneath `root`; returns their number.
pub(crate) fn expire(root: &Path) -> usize {
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

/// Removes a file unless it is locked: another server may use the same directory.
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
    fn unlocked_files_are_removed_at_any_depth() {
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
