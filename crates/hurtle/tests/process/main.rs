//! Tests with faults: the server as a process, and what its clients see when something fails around
//! it. Each test states the outcome and fails if its fault did not happen. Tests without faults are
//! in `tests/it`. Some tests print figures: `cargo test --test process -- --nocapture`.

// A helper that fails fails its test.
#![allow(clippy::unwrap_used)]

mod apps;
mod browser;
mod checks;
mod child;
mod counted;
mod crowd;
mod directories;
mod drained;
mod explain;
mod floods;
#[allow(dead_code)]
#[path = "../h2/wire.rs"]
mod frames;
#[allow(dead_code)]
mod fuse;
#[path = "../h3/peer.rs"]
#[allow(dead_code)]
mod h3_peer;
mod hung;
mod includes;
mod limits_counted;
mod listeners;
mod log_links;
mod logs;
mod metrics;
mod mid_download;
mod names;
mod native_histograms;
mod newcomer;
mod own_settings;
mod pipeline;
mod placeholders;
mod programs;
mod purge;
mod redis;
mod refused_lines;
mod reload;
mod root_logs;
mod sandbox;
mod shared_purges;
mod shared_store;
mod slow;
mod start;
mod status_page;
mod stop;
#[cfg(target_os = "linux")] // systemd keeps sockets there only
mod store;
#[path = "../it/support/mod.rs"]
mod support;
mod ticket_secret;
#[allow(dead_code)]
#[path = "../proxy/tokens.rs"]
mod tokens;
mod tracing;
mod tunnel_lines;
mod unanswered;
mod upgrade;
mod uploads;
