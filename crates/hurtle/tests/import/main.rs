//! `hurtle import`: nginx, Caddy or Apache and hurtle, with the imported configuration, answer the same requests
//! alike; what cannot be translated is refused by file and line; the documents' examples hold.

mod alike;
mod alike_errors;
mod alike_paths;
mod apache;
mod caddy_alike;
mod caddy_generated;
mod caddy_local;
mod caddy_rows;
mod caddy_table;
mod closed;
mod documents;
mod htaccess_alike;
mod htaccess_rows;
mod partial;
mod refused;
mod servers;
mod table;
