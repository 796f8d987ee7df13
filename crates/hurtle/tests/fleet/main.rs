//! Several servers behind one balancer, with the configurations of `examples/fleet`: real HAProxy
//! and Envoy, four servers as processes, and what a client sees when servers die or are replaced.
//! Also the Helm chart. `cargo xtask test --only packages` installs the programs; without one of
//! them its tests are skipped and say so.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod balancer;
mod chart;
#[path = "../process/child.rs"]
#[allow(dead_code)]
mod child;
mod placement;
mod rollout;
mod servers;
#[path = "../it/support/mod.rs"]
mod support;
