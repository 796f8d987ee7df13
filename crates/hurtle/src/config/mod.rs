//! Reads, checks and prints the configuration; the rest of the server sees only its checked types.
//!
//! `check` turns TOML into a [`Config`] without touching the file system and reports every problem
//! at once; `load` adds the checks that need the disk. `schema` is the one table of keys: unknown
//! keys are found by it and the reference page is written from it. `print` turns a `Config` back
//! into TOML.

mod absent;
mod acme;
mod archive;
mod auth;
mod balance;
mod bounds;
mod buffering;
mod check;
mod check_matcher;
mod check_mount;
mod check_site;
mod check_tls;
mod compress;
mod congestion;
mod cors;
mod defaults;
mod dictionary;
mod document;
mod error;
mod field;
mod gateway;
mod health_check;
mod host;
mod include;
mod jwks;
mod jwt;
mod listen;
mod load;
mod local;
mod log;
mod log_field;
mod manifest;
mod matcher;
mod monitoring;
mod mount;
mod names;
mod network;
mod objects;
mod otherwise;
mod pages;
mod path_regex;
mod pattern;
mod placeholder;
mod print;
#[cfg(test)]
mod properties;
mod proxied;
mod rate_limit;
mod reader;
mod reference;
mod request_fields;
mod request_policy;
mod response_cache;
mod rotation;
mod sandbox;
mod schema;
mod schema_access;
mod schema_acme;
mod schema_compress;
mod schema_jwt;
mod schema_limits;
mod schema_mount;
mod schema_proxy;
mod schema_tls;
mod schema_wasm;
mod site_defaults;
mod site_listen;
mod sources;
mod store;
mod suggest;
mod symlinks;
mod table;
mod target;
mod template;
mod tls;
mod try_file;
pub mod types;
mod unguarded;
mod units;
mod uploads;
mod upstream;
mod upstream_queue;
mod upstream_server;
mod upstream_tls;
mod users;
mod value;
mod wasm;

pub use acme::{Acme, Authority, Binding, ChallengeKind};
pub use archive::Archive;
pub use auth::{Auth, Basic, ForwardAuth, is_exposed};
pub use balance::{Balance, Balancing, Ejection, StickyCookie};
pub use buffering::{Buffer, Buffering};
pub use check::check;
pub use compress::{Compress, CompressDirectory};
pub use congestion::Congestion;
pub use cors::{Cors, CorsHeader, OriginPattern};
pub use dictionary::Dictionary;
pub use error::{ConfigError, Position};
pub use gateway::{Cgi, FASTCGI_CONNECT_TIMEOUT, FastCgi, GatewayTimeouts, ProgramLimits};
pub use health_check::{HealthCheck, StatusRange};
pub use jwks::{KeySet, SET_BYTES_MAX, VerificationKey, read_jwks};
pub use jwt::{JwksSource, Jwt};
pub use load::{check_files, load};
pub use local::{
    LOCAL_DOMAINS, LOCAL_NETWORKS, address, certificate_file, is_local, is_single_label,
    own_directory,
};
pub use manifest::{AppBackend, AppCommand, Manifest, SocketPassing, manifest};
pub use matcher::{MatchedRequest, Matcher, ValueMatcher};
pub use monitoring::{Metrics, Tracing};
pub use objects::ObjectStore;
pub use pages::missing_pages;
pub use path_regex::PathRegex;
pub use placeholder::Placeholders;
pub use print::print;
pub use proxied::ProxyProtocol;
pub use rate_limit::{
    Concurrency, LimitKey, MountLimits, Period, RateLimit, RequestRate, SiteLimits,
};
pub use reference::reference;
pub use request_fields::RequestFields;
pub use request_policy::RequestPolicy;
pub use response_cache::{DiskCache, ResponseCache};
pub use rotation::Rotation;
pub use sandbox::Sandbox;
pub use store::{Store, read_secret};
pub use symlinks::Symlinks;
pub use template::{Piece, Template, Variable};
pub use tls::{CertificateFiles, CertificateSource, ClientAuth, Tls};
pub use try_file::TryFile;
pub use types::*;
pub use unguarded::unguarded_mounts;
pub use units::{parse_duration, parse_size};
pub use uploads::Uploads;
pub use upstream::{Proxy, Upstream};
pub use upstream_queue::UpstreamQueue;
pub use upstream_server::UpstreamServer;
pub use upstream_tls::UpstreamTls;
pub use users::{User, parse_users, read_users};
pub use wasm::{Wasm, WasmComponent};
