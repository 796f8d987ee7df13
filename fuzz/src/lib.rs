//! Fuzz targets. Each is a function over bytes that panics if a property does not hold. Both
//! libFuzzer (`fuzz_targets/`) and an ordinary test (`tests/short_run.rs`) run it.

mod cache_control;
#[cfg(feature = "config")]
mod caddyfile;
mod chunked;
#[cfg(feature = "config")]
mod config;
pub mod driver;
mod gateway_answer;
#[cfg(feature = "config")]
mod htaccess;
mod http2_fields;
mod http2_frames;
mod http3_fields;
mod http3_streams;
mod judged_alike;
mod multipart;
#[cfg(feature = "config")]
mod nginx_config;
mod proxy_header;
mod range;
mod reply_head;
mod request_head;
mod split_equals_whole;
mod store_reply;
mod target;

pub use cache_control::cache_control;
#[cfg(feature = "config")]
pub use caddyfile::caddyfile;
pub use chunked::chunked;
#[cfg(feature = "config")]
pub use config::config;
pub use gateway_answer::gateway_answer;
#[cfg(feature = "config")]
pub use htaccess::htaccess;
pub use http2_fields::http2_fields;
pub use http2_frames::http2_frames;
pub use http3_fields::http3_fields;
pub use http3_streams::http3_streams;
pub use judged_alike::judged_alike;
pub use multipart::multipart;
#[cfg(feature = "config")]
pub use nginx_config::nginx_config;
pub use proxy_header::proxy_header;
pub use range::range;
pub use reply_head::reply_head;
pub use request_head::request_head;
pub use split_equals_whole::split_equals_whole;
pub use store_reply::store_reply;
pub use target::target;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of its function, of its file in `fuzz_targets/` and of its directory in `seeds/`.
    pub name: &'static str,
    /// Panics if a property does not hold for `data`.
    pub run: fn(data: &[u8]),
}

/// All targets; `caddyfile`, `config`, `htaccess` and `nginx_config` only with the feature
/// `config`.
pub const TARGETS: &[Target] = &[
    Target { name: "cache_control", run: cache_control },
    #[cfg(feature = "config")]
    Target { name: "caddyfile", run: caddyfile },
    Target { name: "chunked", run: chunked },
    #[cfg(feature = "config")]
    Target { name: "config", run: config },
    Target { name: "gateway_answer", run: gateway_answer },
    #[cfg(feature = "config")]
    Target { name: "htaccess", run: htaccess },
    Target { name: "http2_fields", run: http2_fields },
    Target { name: "http2_frames", run: http2_frames },
    Target { name: "http3_fields", run: http3_fields },
    Target { name: "http3_streams", run: http3_streams },
    Target { name: "judged_alike", run: judged_alike },
    Target { name: "multipart", run: multipart },
    #[cfg(feature = "config")]
    Target { name: "nginx_config", run: nginx_config },
    Target { name: "proxy_header", run: proxy_header },
    Target { name: "range", run: range },
    Target { name: "reply_head", run: reply_head },
    Target { name: "request_head", run: request_head },
    Target { name: "split_equals_whole", run: split_equals_whole },
    Target { name: "store_reply", run: store_reply },
    Target { name: "target", run: target },
];
