//! The setting of the sandbox. `hurtle::lifecycle::sandbox` enters it.

use super::names::Named;

/// Confinement of the process: it opens only files that the configuration names, and starts no
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// Confined where the kernel can do it and the server starts no programs.
    #[default]
    Auto,
    /// Not confined.
    Off,
}

impl Named for Sandbox {
    const NAMES: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("off", Self::Off)];
}
