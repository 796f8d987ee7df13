//! The bytes that kept bodies have in files: those of the whole process and those of each mount
//! have a bound.

use std::sync::Arc;

use crate::config;
use crate::metrics::buffered::{self, MountBytes};

/// Most bytes in files of this process at once.
const PROCESS_BYTES_MAX: u64 = 16 << 30;

/// The bound of one mount.
#[derive(Clone, Debug, Default)]
pub(super) struct MountBound(Option<Arc<(MountBytes, u64)>>);

impl MountBound {
    /// The bound that a mount has by its configuration. `mount` names it in the whole process.
    pub(super) fn new(config: &config::Buffer, mount: &str) -> MountBound {
        MountBound(
            config.mount_bytes_max.map(|most| Arc::new((buffered::mount_bytes(mount), most))),
        )
    }
}

/// A share of the bytes in files.
#[derive(Default)]
pub(super) struct Reserved {
    bytes: u64,
    mount: MountBound,
}

impl Reserved {
    /// A share of 0 bytes, of a mount with this bound.
    pub(super) fn new(mount: &MountBound) -> Reserved {
        Reserved { bytes: 0, mount: mount.clone() }
    }

    /// Adds bytes until there are this many; `false`: those of all files would be too many.
    pub(super) fn grow_to(&mut self, bytes: u64) -> bool {
        self.add(bytes.saturating_sub(self.bytes))
    }

    /// Adds bytes; `false`: those of all files would be too many.
    pub(super) fn add(&mut self, bytes: u64) -> bool {
        let mount = self.mount.0.as_deref();
        if !mount.is_none_or(|(mount, most)| mount.add(bytes, *most)) {
            return false;
        }
        let is_free = buffered::add_file_bytes(bytes, PROCESS_BYTES_MAX);
        if is_free {
            self.bytes += bytes;
        } else if let Some((mount, _)) = mount {
            mount.remove(bytes);
        }
        is_free
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 {
            buffered::remove_file_bytes(self.bytes);
            self.mount.0.iter().for_each(|of| of.0.remove(self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bodies_of_a_mount_have_one_bound_and_each_gives_its_bytes_back() {
        let config = config::Buffer { mount_bytes_max: Some(100), ..config::Buffer::default() };
        let bound = || MountBound::new(&config, "the bound of a mount /a");
        let (mut one, mut two) = (Reserved::new(&bound()), Reserved::new(&bound()));
        assert!(one.grow_to(60) && two.grow_to(40));
        assert!(!two.grow_to(41), "both have 100");
        let mut other = Reserved::new(&MountBound::new(&config, "the bound of a mount /b"));
        assert!(other.grow_to(100), "another mount has its own");
        drop(one);
        assert!(two.grow_to(100));
    }
}
