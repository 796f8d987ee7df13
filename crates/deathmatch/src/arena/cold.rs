//! Cold files: the disk they are on, how they are made cold, and the limit of their reads.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, major, minor, sync};

/// Block devices by their numbers.
const BLOCK: &str = "/sys/dev/block";

/// Written to by root, it makes the kernel drop its caches of files (Linux,
/// Documentation/admin-guide/sysctl/vm.rst).
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Drops file contents, names and inodes.
const PAGES_AND_INODES: &str = "3";

/// Control groups, version 1, that limit reads; version 2 is not written to.
const BLKIO: &str = "/sys/fs/cgroup/blkio";

/// Reads a second, by device, in a group's folder (Linux,
/// Documentation/admin-guide/cgroup-v1/blkio-controller.rst).
const READS_PER_S: &str = "blkio.throttle.read_iops_device";

/// File of a group that lists its processes; a process whose id is written there joins the group.
const PROCESSES: &str = "cgroup.procs";

/// A whole disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    /// As in /proc/diskstats.
    pub(super) name: String,
    /// `MAJOR:MINOR`.
    number: String,
}

impl Disk {
    /// The disk a file is on.
    ///
    /// # Errors
    /// The file is on no disk (on a tmpfs, for example), or on several.
    pub(super) fn of(path: &Path) -> io::Result<Disk> {
        let device = fs::metadata(path)?.dev();
        let folder = Path::new(BLOCK).join(format!("{}:{}", major(device), minor(device)));
        let none = |e: io::Error| {
            let shown = path.display();
            let why = format!("cold files must be on a disk, and {shown} is on none ({e})");
            io::Error::new(e.kind(), format!("{why}; use another --out"))
        };
        let mut folder = fs::canonicalize(folder).map_err(none)?;
        if folder.join("partition").exists() {
            folder.pop();
        }
        let number = fs::read_to_string(folder.join("dev")).map_err(none)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Disk { name, number: number.trim().to_owned() })
    }

    /// `true` if the server's reads from it can be limited to a rate.
    pub(super) fn can_be_slowed(&self) -> bool {
        ReadLimit::begin(self, 1, &[]).is_ok()
    }
}

/// Makes files cold; `true` if their names and inodes were dropped too. As root, all file caches of
/// the kernel are dropped; otherwise the contents of these files.
///
/// # Errors
/// A file that cannot be opened.
pub(super) fn cool(files: impl Iterator<Item = PathBuf>) -> io::Result<bool> {
    // Bytes that are not written yet cannot be dropped.
    sync();
    if fs::write(DROP_CACHES, PAGES_AND_INODES).is_ok() {
        return Ok(true);
    }
    for path in files {
        fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    Ok(false)
}

/// A group of processes whose reads of a disk are limited while this value lives.
#[derive(Debug)]
pub(super) struct ReadLimit {
    group: PathBuf,
}

impl ReadLimit {
    /// Makes the group.
    ///
    /// # Errors
    /// The kernel offers no such groups, or this process is not root's.
    pub(super) fn begin(disk: &Disk, reads_per_s: u32, pids: &[u32]) -> io::Result<ReadLimit> {
        let group = Path::new(BLKIO).join(format!("deathmatch-{}", std::process::id()));
        if !group.exists() {
            fs::create_dir(&group)?;
        }
        let slowed = ReadLimit { group };
        let limit = format!("{} {reads_per_s}", disk.number);
        fs::write(slowed.group.join(READS_PER_S), limit)?;
        for pid in pids {
            fs::write(slowed.group.join(PROCESSES), pid.to_string())?;
        }
        Ok(slowed)
    }
}

impl Drop for ReadLimit {
    /// Moves the group's processes back to the root group. If that fails, it affects only a server
    /// that is about to be stopped.
    fn drop(&mut self) {
        let inside = fs::read_to_string(self.group.join(PROCESSES)).unwrap_or_default();
        for pid in inside.lines() {
            let _ = fs::write(Path::new(BLKIO).join(PROCESSES), pid);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;
    use crate::machine::counters::{Counters, SECTOR_BYTES};

    /// A folder that cargo builds in, which is seldom a tmpfs.
    fn folder() -> PathBuf {
        let exe = std::env::current_exe().unwrap();
        let folder = exe.parent().unwrap().join(format!("cold-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_made_cold_is_read_from_the_disk_and_no_faster_than_allowed() {
        const FILES: u32 = 20;
        let folder = folder();
        let paths: Vec<PathBuf> = (0..FILES).map(|at| folder.join(at.to_string())).collect();
        paths.iter().for_each(|path| fs::write(path, vec![b'\n'; 10_000]).unwrap());
        let disk = match Disk::of(&folder) {
            Ok(disk) => disk,
            Err(e) => return println!("skipped: {e}"),
        };
        let bytes = || Counters::read(Path::new("/proc")).disks[&disk.name].sectors * SECTOR_BYTES;
        let before = bytes();
        cool(paths.iter().cloned()).unwrap();
        paths.iter().for_each(|path| assert_eq!(fs::read(path).unwrap().len(), 10_000));
        assert!(bytes() - before >= u64::from(FILES) * 10_000, "they came from memory");
        assert!(Disk::of(Path::new("/proc")).is_err(), "which is on no disk");
        if disk.can_be_slowed() {
            // It waits for a line, so that it is in the group before it reads. It reads by itself,
            // so that no other program must be loaded from the disk.
            let mut reader = Command::new("sh");
            reader
                .args(["-c", "read line; for file do read line <\"$file\"; done", "sh"])
                .args(&paths);
            let mut reader = reader.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let slowed = ReadLimit::begin(&disk, 20, &[reader.id()]).unwrap();
            cool(paths.iter().cloned()).unwrap();
            let begun = Instant::now();
            reader.stdin.take().unwrap().write_all(b"\n").unwrap();
            assert!(reader.wait().unwrap().success());
            let took = begun.elapsed();
            let group = slowed.group.clone();
            drop(slowed);
            assert!(took.as_secs_f64() > 0.4, "20 files at 20 reads/s took {took:?}");
            assert!(!group.exists(), "nothing is left behind");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
