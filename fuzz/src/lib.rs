//! The fuzz targets: each a plain function over bytes that panics when a promise is broken, so that
//! libFuzzer (`fuzz_targets/`) and an ordinary test (`tests/short_run.rs`) can both drive it.

mod cache_control;
mod chunked;
mod config;
pub mod driver;
mod gateway_answer;
mod proxy_header;
mod range;
mod reply_head;
mod request_head;
mod split_equals_whole;
mod target;

pub use cache_control::cache_control;
pub use chunked::chunked;
pub use config::config;
pub use gateway_answer::gateway_answer;
pub use proxy_header::proxy_header;
pub use range::range;
pub use reply_head::reply_head;
pub use request_head::request_head;
pub use split_equals_whole::split_equals_whole;
pub use target::target;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its function, of its file in `fuzz_targets/` and of its folder in `seeds/`.
    pub name: &'static str,
    /// Panics when `data` makes the code break a promise.
    pub run: fn(data: &[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "cache_control", run: cache_control },
    Target { name: "chunked", run: chunked },
    Target { name: "config", run: config },
    Target { name: "gateway_answer", run: gateway_answer },
    Target { name: "proxy_header", run: proxy_header },
    Target { name: "range", run: range },
    Target { name: "reply_head", run: reply_head },
    Target { name: "request_head", run: request_head },
    Target { name: "split_equals_whole", run: split_equals_whole },
    Target { name: "target", run: target },
];
