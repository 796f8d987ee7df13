//! The directives of nginx that the importer translates, or refuses with a reason of its own.
//! `tuning` has the names of all others.

macro_rules! kinds {
    ($($(#[$doc:meta])* $class:ident $enum:ident { $($kind:ident $name:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub enum $enum {
                $(#[doc = concat!("`", $name, "`")] $kind,)*
            }
        )*

        /// A directive of the importer's table, by its purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $class($enum),)*
        }

        impl Kind {
            /// All rows of the table.
            pub const ALL: &[Kind] = &[$($(Kind::$class($enum::$kind),)*)*];

            /// The name of the directive.
            pub fn name(self) -> &'static str {
                match self { $($(Kind::$class($enum::$kind) => $name,)*)* }
            }
        }
    };
}

kinds! {
    /// Directives that choose the handler of a location.
    Handler HandlerKind {
        Alias "alias",
        TryFiles "try_files",
        Return "return",
        ProxyPass "proxy_pass",
        GrpcPass "grpc_pass",
        FastcgiPass "fastcgi_pass",
        UwsgiPass "uwsgi_pass",
        StubStatus "stub_status",
    }
    /// Directives that change the path, or which paths a location has.
    Path PathKind {
        Rewrite "rewrite",
        Internal "internal",
        Set "set",
        If "if",
    }
    /// Directives that make blocks and sites, or belong to `http` and `server` only.
    Structure StructureKind {
        Http "http",
        Server "server",
        Location "location",
        Upstream "upstream",
        Map "map",
        Geo "geo",
        ProxyCachePath "proxy_cache_path",
        LimitReqZone "limit_req_zone",
        LimitConnZone "limit_conn_zone",
        Listen "listen",
        ServerName "server_name",
        Ssl "ssl",
        SslCertificate "ssl_certificate",
        SslCertificateKey "ssl_certificate_key",
        SslClientCertificate "ssl_client_certificate",
        SslVerifyClient "ssl_verify_client",
        SslCrl "ssl_crl",
        SslRejectHandshake "ssl_reject_handshake",
        SetRealIpFrom "set_real_ip_from",
        RealIpHeader "real_ip_header",
        RealIpRecursive "real_ip_recursive",
        User "user",
        WorkerProcesses "worker_processes",
    }
    /// Directives that decide which clients are admitted.
    Guard GuardKind {
        AuthBasic "auth_basic",
        AuthBasicUserFile "auth_basic_user_file",
        Allow "allow",
        Deny "deny",
        Satisfy "satisfy",
        AuthRequest "auth_request",
        AuthRequestSet "auth_request_set",
        LimitReq "limit_req",
    }
    /// Directives about served files: their directory, index, listing, media types and uploads.
    Files FilesKind {
        Root "root",
        Index "index",
        Autoindex "autoindex",
        DefaultType "default_type",
        Types "types",
        DavMethods "dav_methods",
        CreateFullPutPath "create_full_put_path",
        MinDeleteDepth "min_delete_depth",
    }
    /// Directives about requests to upstreams, such as time limits, buffering, fields and TLS.
    Upstream UpstreamKind {
        ProxyConnectTimeout "proxy_connect_timeout",
        ProxySendTimeout "proxy_send_timeout",
        ProxyReadTimeout "proxy_read_timeout",
        ProxyBuffering "proxy_buffering",
        ProxyInterceptErrors "proxy_intercept_errors",
        ProxyNextUpstream "proxy_next_upstream",
        ProxyRequestBuffering "proxy_request_buffering",
        ProxySetHeader "proxy_set_header",
        ProxyHideHeader "proxy_hide_header",
        ProxyCookieFlags "proxy_cookie_flags",
        ProxyRedirect "proxy_redirect",
        ProxyCache "proxy_cache",
        ProxyCacheValid "proxy_cache_valid",
        ProxyCacheUseStale "proxy_cache_use_stale",
        ProxySslVerify "proxy_ssl_verify",
        ProxySslTrustedCertificate "proxy_ssl_trusted_certificate",
        ProxySslCertificate "proxy_ssl_certificate",
        ProxySslCertificateKey "proxy_ssl_certificate_key",
        ProxySslName "proxy_ssl_name",
        FastcgiConnectTimeout "fastcgi_connect_timeout",
        FastcgiSendTimeout "fastcgi_send_timeout",
        FastcgiReadTimeout "fastcgi_read_timeout",
        FastcgiBuffering "fastcgi_buffering",
        FastcgiRequestBuffering "fastcgi_request_buffering",
        FastcgiInterceptErrors "fastcgi_intercept_errors",
        FastcgiParam "fastcgi_param",
        FastcgiHideHeader "fastcgi_hide_header",
        UwsgiConnectTimeout "uwsgi_connect_timeout",
        UwsgiSendTimeout "uwsgi_send_timeout",
        UwsgiReadTimeout "uwsgi_read_timeout",
        UwsgiBuffering "uwsgi_buffering",
        UwsgiRequestBuffering "uwsgi_request_buffering",
        UwsgiInterceptErrors "uwsgi_intercept_errors",
        UwsgiParam "uwsgi_param",
        UwsgiHideHeader "uwsgi_hide_header",
    }
    /// Settings of responses of every handler.
    Response ResponseKind {
        AddHeader "add_header",
        Expires "expires",
        ErrorPage "error_page",
        LimitRate "limit_rate",
        LimitConn "limit_conn",
        LimitConnStatus "limit_conn_status",
        ClientMaxBodySize "client_max_body_size",
        SendTimeout "send_timeout",
        Gzip "gzip",
        Brotli "brotli",
    }
    /// Settings that hurtle has once for the whole server.
    Whole WholeKind {
        Charset "charset",
        MergeSlashes "merge_slashes",
        IfModifiedSince "if_modified_since",
        ClientHeaderTimeout "client_header_timeout",
        KeepaliveTime "keepalive_time",
        KeepaliveTimeout "keepalive_timeout",
        KeepaliveRequests "keepalive_requests",
        GzipTypes "gzip_types",
        BrotliTypes "brotli_types",
        GzipMinLength "gzip_min_length",
        BrotliMinLength "brotli_min_length",
        AccessLog "access_log",
        LogFormat "log_format",
        ErrorLog "error_log",
    }
}

impl Kind {
    /// The row of a directive's name; `None`: the table has no such row.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// `true` for a setting that blocks within its block inherit.
    pub(super) fn is_inherited(self) -> bool {
        match self {
            Kind::Handler(_) | Kind::Path(_) | Kind::Structure(_) => false,
            Kind::Guard(_)
            | Kind::Files(_)
            | Kind::Upstream(_)
            | Kind::Response(_)
            | Kind::Whole(_) => true,
        }
    }

    /// `true` for a directive that may have a block.
    pub(super) fn has_block(self) -> bool {
        use StructureKind::{Geo, Http, Location, Map, Server, Upstream};
        matches!(
            self,
            Kind::Structure(Geo | Http | Location | Map | Server | Upstream)
                | Kind::Files(FilesKind::Types)
                | Kind::Path(PathKind::If)
        )
    }
}
