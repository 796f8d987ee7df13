//! `hurtle import`: nginx, Caddy or Apache and hurtle, with the imported configuration, answer the
//! same requests alike; what cannot be translated is refused by file and line; the documents'
//! examples hold.

mod addresses;
mod alike;
mod alike_cache;
mod alike_conditions;
mod alike_errors;
mod alike_forms;
mod alike_guards;
mod alike_maps;
mod alike_official;
mod alike_paths;
mod apache;
mod cache_table;
mod caddy_alike;
mod caddy_condition_rows;
mod caddy_generated;
mod caddy_guards;
mod caddy_local;
mod caddy_refused;
mod caddy_rows;
mod caddy_scripts;
mod caddy_table;
mod closed;
mod closed_parts;
#[path = "../gateway/dir.rs"]
#[allow(dead_code, clippy::unwrap_used)] // shared with tests that use more of it
mod dir;
mod documents;
mod htaccess_alike;
mod htaccess_guards;
mod htaccess_refused;
mod htaccess_responses;
mod htaccess_rows;
mod htaccess_scripts;
mod htaccess_table;
mod https_redirect;
mod nginx_behind_scripts;
mod nginx_generated;
mod nginx_parameters;
mod nginx_scripts;
mod nginx_uwsgi;
mod partial;
#[path = "../gateway/php_fpm.rs"]
#[allow(dead_code, clippy::unwrap_used)] // shared with tests that use more of it
mod php_fpm;
mod refused;
mod refused_conditions;
#[path = "../it/support/reserved.rs"]
#[allow(clippy::unwrap_used)] // shared with tests that allow it
mod reserved;
mod script_sources;
mod servers;
mod table;
#[path = "../gateway/uwsgi_server.rs"]
#[allow(clippy::unwrap_used)] // shared with tests that allow it
mod uwsgi_server;

/// Names that shared modules use.
mod client {
    pub(crate) use crate::servers::PATIENCE;
}
