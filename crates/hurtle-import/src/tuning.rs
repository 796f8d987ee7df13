//! Directives that need no translation, and those that have none.

use super::syntax::Directive;

/// Directives that change no response, or set what hurtle always does.
pub const TUNING: &[&str] = &[
    "absolute_redirect",
    "accept_mutex",
    "aio",
    "auth_delay",
    "autoindex_exact_size",
    "autoindex_localtime",
    "brotli_buffers",
    "brotli_comp_level",
    "brotli_static",
    "brotli_window",
    "charset_types",
    "chunked_transfer_encoding",
    "client_body_buffer_size",
    "client_body_in_single_buffer",
    "client_body_temp_path",
    "client_body_timeout",
    "client_header_buffer_size",
    "connection_pool_size",
    "daemon",
    "directio",
    "directio_alignment",
    "env",
    "etag",
    "events",
    "fastcgi_buffer_size",
    "fastcgi_buffers",
    "fastcgi_busy_buffers_size",
    "fastcgi_cache_path",
    "fastcgi_ignore_client_abort",
    "fastcgi_index",
    "fastcgi_keep_conn",
    "fastcgi_max_temp_file_size",
    "fastcgi_next_upstream_timeout",
    "fastcgi_next_upstream_tries",
    "fastcgi_socket_keepalive",
    "fastcgi_split_path_info",
    "fastcgi_temp_file_write_size",
    "fastcgi_temp_path",
    "gzip_buffers",
    "gzip_comp_level",
    "gzip_disable",
    "gzip_hash",
    "gzip_http_version",
    "gzip_proxied",
    "gzip_static",
    "gzip_vary",
    "gzip_window",
    "http2",
    "http2_body_preread_size",
    "http2_chunk_size",
    "http2_idle_timeout",
    "http2_max_concurrent_pushes",
    "http2_max_concurrent_streams",
    "http2_max_field_size",
    "http2_max_header_size",
    "http2_max_requests",
    "http2_push",
    "http2_push_preload",
    "http2_recv_buffer_size",
    "http2_recv_timeout",
    "http3",
    "http3_hq",
    "http3_max_concurrent_streams",
    "http3_stream_buffer_size",
    "keepalive_disable",
    "keepalive_min_timeout",
    "large_client_header_buffers",
    "limit_conn_log_level",
    "limit_rate_after",
    "limit_req_log_level",
    "limit_req_status",
    "lingering_close",
    "load_module",
    "lock_file",
    "log_not_found",
    "log_subrequest",
    "master_process",
    "msie_padding",
    "open_file_cache",
    "open_file_cache_errors",
    "open_file_cache_min_uses",
    "open_file_cache_valid",
    "open_log_file_cache",
    "output_buffers",
    "pcre_jit",
    "pid",
    "port_in_redirect",
    "postpone_gzipping",
    "postpone_output",
    "proxy_buffer_size",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_headers_hash_bucket_size",
    "proxy_headers_hash_max_size",
    "proxy_http_version",
    "proxy_ignore_client_abort",
    "proxy_max_temp_file_size",
    "proxy_next_upstream_timeout",
    "proxy_next_upstream_tries",
    "proxy_socket_keepalive",
    "proxy_ssl_ciphers",
    "proxy_ssl_conf_command",
    "proxy_ssl_protocols",
    "proxy_ssl_server_name",
    "proxy_ssl_session_reuse",
    "proxy_ssl_verify_depth",
    "proxy_temp_file_write_size",
    "proxy_temp_path",
    "quic_active_connection_id_limit",
    "quic_bpf",
    "quic_gso",
    "quic_host_key",
    "quic_retry",
    "read_ahead",
    "request_pool_size",
    "reset_timedout_connection",
    "resolver",
    "resolver_timeout",
    "scgi_cache_path",
    "scgi_temp_path",
    "send_lowat",
    "sendfile",
    "sendfile_max_chunk",
    "server_name_in_redirect",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "server_tokens",
    "ssl_buffer_size",
    "ssl_ciphers",
    "ssl_conf_command",
    "ssl_dhparam",
    "ssl_early_data",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
    "ssl_protocols",
    "ssl_session_cache",
    "ssl_session_ticket_key",
    "ssl_session_tickets",
    "ssl_session_timeout",
    "ssl_stapling",
    "ssl_stapling_verify",
    "ssl_trusted_certificate",
    "ssl_verify_depth",
    "subrequest_output_buffer_size",
    "tcp_nodelay",
    "tcp_nopush",
    "thread_pool",
    "timer_resolution",
    "types_hash_bucket_size",
    "types_hash_max_size",
    "uninitialized_variable_warn",
    "uwsgi_buffer_size",
    "uwsgi_buffers",
    "uwsgi_busy_buffers_size",
    "uwsgi_cache_path",
    "uwsgi_ignore_client_abort",
    "uwsgi_max_temp_file_size",
    "uwsgi_next_upstream_timeout",
    "uwsgi_next_upstream_tries",
    "uwsgi_socket_keepalive",
    "uwsgi_temp_file_write_size",
    "uwsgi_temp_path",
    "variables_hash_bucket_size",
    "variables_hash_max_size",
    "worker_aio_requests",
    "worker_connections",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_rlimit_core",
    "worker_rlimit_nofile",
    "worker_shutdown_timeout",
    "working_directory",
];

/// Directives without a counterpart: their names (`*`: any end), and what they would need.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("break", "it needs variables and conditions"),
    ("fastcgi_cache*", "it needs a cache of FastCGI responses; hurtle caches those of a proxy"),
    ("geo", "it needs variables"),
    ("grpc_*", "write the keys of the proxy for grpc_pass, such as read_timeout and upstream_tls"),
    ("if", "it needs conditions; write those that hurtle has as `match` of a mount or a rule"),
    ("js_*", "it needs scripts in the server; write an application"),
    ("limit_conn*", "hurtle has no trial of limits"),
    ("limit_except", "write its guards in a mount of their own with `match` by method"),
    ("limit_req_dry_run", "hurtle has no trial of limits"),
    ("lua_*", "it needs scripts in the server; write an application"),
    ("mail", "hurtle serves HTTP only"),
    ("map", "it needs variables"),
    ("memcached_*", "hurtle proxies HTTP, FastCGI and uWSGI only"),
    ("mirror*", "it needs a copy of each request"),
    ("mp4", "it needs media streaming; ranges of files work without it"),
    ("perl*", "it needs scripts in the server; write an application"),
    ("proxy_cache_key", "hurtle's key is the URL with its scheme and host"),
    (
        "proxy_cache_*",
        "hurtle's cache obeys the response's Cache-Control; set it in the application",
    ),
    (
        "proxy_cookie_*",
        "it needs changes of the upstream's cookies; hurtle translates their paths and domains itself",
    ),
    ("proxy_ssl_crl", "hurtle has no revocation lists of upstreams"),
    ("proxy_ssl_password_file", "hurtle reads keys without a password"),
    ("random_index", "it needs a choice by chance"),
    ("scgi_*", "hurtle speaks HTTP, FastCGI, uwsgi and CGI to applications"),
    ("secure_link*", "it needs signed links; an application can send X-Accel-Redirect"),
    ("set", "it needs variables"),
    ("slice", "it needs a cache of ranges"),
    ("split_clients", "it needs variables"),
    ("ssi*", "it needs server-side includes"),
    ("stream", "hurtle serves HTTP only"),
    ("sub_filter*", "it needs changes of bodies"),
    ("uwsgi_cache*", "it needs a cache of uWSGI responses; hurtle caches those of a proxy"),
    ("uwsgi_modifier*", "hurtle sends requests of the web only; run uWSGI with --http-socket"),
    ("uwsgi_*", "see the keys of a mount with `uwsgi` in config.md"),
];

/// Directives with arguments that say what hurtle does anyway.
const DEFAULTS: &[(&str, &[&str])] = &[
    ("autoindex_format", &["html"]),
    ("client_body_in_file_only", &["off"]),
    ("disable_symlinks", &["off"]),
    ("fastcgi_limit_rate", &["0"]),
    ("fastcgi_store", &["off"]),
    ("gunzip", &["off"]),
    ("ignore_invalid_headers", &["on"]),
    // A WebSocket is never stored.
    ("proxy_cache_bypass", &["$http_upgrade"]),
    ("proxy_cache_lock", &["on"]),
    ("proxy_cache_revalidate", &["on"]),
    ("proxy_no_cache", &["$http_upgrade"]),
    ("proxy_cache_background_update", &["on"]),
    ("proxy_cache_methods", &["GET", "HEAD"]),
    ("proxy_cache_min_uses", &["1"]),
    ("proxy_limit_rate", &["0"]),
    ("proxy_pass_request_body", &["on"]),
    ("proxy_pass_request_headers", &["on"]),
    ("proxy_store", &["off"]),
    ("recursive_error_pages", &["off"]),
    ("underscores_in_headers", &["on"]),
    ("uwsgi_limit_rate", &["0"]),
    ("uwsgi_modifier1", &["0"]),
    ("uwsgi_modifier2", &["0"]),
    ("uwsgi_pass_request_body", &["on"]),
    ("uwsgi_pass_request_headers", &["on"]),
    ("uwsgi_store", &["off"]),
];

/// Directives with arguments (none: any) whose difference a remark names.
const REMARKED: &[(&str, &[&str], &str)] = &[
    (
        "dav_access",
        &[],
        "a file of PUT /x has the mode that the umask of hurtle leaves, and nginx sets this one",
    ),
    (
        "gzip_static",
        &["always"],
        "GET /a.css is 404 if there is a.css.gz only, which nginx sends: for that write \
         `sidecars_alone = true` in the mount",
    ),
    (
        "ignore_invalid_headers",
        &["off"],
        "a request with a field name that is no token (RFC 9110) is refused (400); nginx passes it \
         on",
    ),
];

/// The difference that a directive makes which is left out otherwise.
pub(super) fn difference(d: &Directive) -> Option<&'static str> {
    let is_it = |args: &[&str]| args.is_empty() || d.args == args;
    let known = REMARKED.iter().find(|(name, args, _)| d.name == *name && is_it(args));
    known.filter(|_| d.block.is_none()).map(|(.., text)| *text)
}

/// `true` for a directive that says what hurtle does anyway.
pub(super) fn is_default(d: &Directive) -> bool {
    d.block.is_none() && DEFAULTS.iter().any(|(name, args)| d.name == *name && d.args == *args)
}

/// `true` for `proxy_pass_header` of a field that hurtle passes on anyway.
pub(super) fn is_passed_on(d: &Directive) -> bool {
    let name = d.arg(0).to_ascii_lowercase();
    matches!(d.name.as_str(), "proxy_pass_header" | "fastcgi_pass_header" | "uwsgi_pass_header")
        && d.args.len() == 1
        && !name.starts_with("x-accel-")
        && !matches!(name.as_str(), "date" | "x-pad")
}

/// `true` for a setting of caches of upstreams' responses.
pub(super) fn is_of_cache(name: &str) -> bool {
    name.starts_with("proxy_cache_") || name == "proxy_no_cache"
}

/// `true` for a directive that changes no response.
pub(super) fn is_tuning(name: &str) -> bool {
    TUNING.binary_search(&name).is_ok()
}

/// Returns what a directive without translation would need.
pub(super) fn needs(name: &str) -> &'static str {
    let known = UNSUPPORTED.iter().find(|(known, _)| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *known,
    });
    known.map_or("the importer does not know it", |(_, needs)| needs)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_names_are_sorted() {
        assert!(super::TUNING.is_sorted());
    }
}
