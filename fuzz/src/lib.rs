//! The fuzz targets: each a plain function over bytes that panics when a promise is broken, so that
//! libFuzzer (`fuzz_targets/`) and an ordinary test (`tests/short_run.rs`) can both drive it.

pub mod driver;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its function, of its file in `fuzz_targets/` and of its folder in `seeds/`.
    pub name: &'static str,
    /// Panics when `data` makes the code break a promise.
    pub run: fn(data: &[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[];
