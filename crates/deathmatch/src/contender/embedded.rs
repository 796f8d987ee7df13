//! The files under arena/contenders, embedded in this program.

/// The contenders: the deck's in its order, those of the other seeds, today's, and this project's.
pub(super) const CONTENDERS: &[&str] = &[
    "apache-prefork",
    "apache-worker",
    "inets",
    "inets-300",
    "lighttpd",
    "lighttpd-copy",
    "lighttpd-stat-tcp",
    "lighttpd-stat-unix",
    "mochiweb",
    "nginx",
    "nginx-aio",
    "nginx-copy",
    "yaws",
    "yaws-log",
    "warp",
    "swazoo",
    "apache-event",
    "h2o",
    "caddy",
    "caddy-current",
    "go",
    "nginx-current",
    "actix",
    "bun",
    "gunicorn",
    "hyper",
    "node",
    "static-web-server",
    "uvicorn",
    "hurtle",
    "hurtle-sendfile",
    "hurtle-copy",
    "hurtle-eager",
    "hurtle-yield",
    "hurtle-disk-1",
    "hurtle-disk-8",
    "hurtle-disk-32",
    "hurtle-proxy",
    "hurtle-cache",
    "nginx-proxy",
    "nginx-buffered",
    "apache-proxy",
    "nginx-cache",
    "nginx-cache-lock",
    "h2o-proxy",
    "caddy-proxy",
    "lighttpd-proxy",
    "hurtle-tls",
    "nginx-tls",
    "lighttpd-tls",
    "h2o-tls",
    "caddy-tls",
    "caddy-current-tls",
    "nginx-current-tls",
    "apache-event-tls",
    "axum",
    "hurtle-mount",
    "hurtle-isolated",
    "floor",
    "floor-fresh",
    "floor-uring",
    "reader",
    "reader-slow",
    "pool",
    "simple",
    "simple-yield",
];

/// `true` if there is such a contender.
pub(super) fn has(name: &str) -> bool {
    CONTENDERS.contains(&name)
}

/// The text of a file under arena/contenders.
pub(super) fn text(path: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
}

macro_rules! texts {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../arena/contenders/", $path)))),*]
    };
}

const TEXTS: &[(&str, &str)] = texts![
    "actix/contender.toml",
    "apache-event-tls/contender.toml",
    "apache-event-tls/httpd.conf",
    "apache-event/contender.toml",
    "apache-event/httpd.conf",
    "apache-event/mime.types",
    "apache-prefork/contender.toml",
    "apache-proxy/contender.toml",
    "apache-proxy/httpd.conf",
    "apache-worker/contender.toml",
    "axum/contender.toml",
    "bun/contender.toml",
    "bun/serve.mjs",
    "caddy-current-tls/Caddyfile",
    "caddy-current-tls/contender.toml",
    "caddy-current/contender.toml",
    "caddy-proxy/Caddyfile",
    "caddy-proxy/contender.toml",
    "caddy-tls/Caddyfile",
    "caddy-tls/contender.toml",
    "caddy/Caddyfile",
    "caddy/contender.toml",
    "floor-fresh/contender.toml",
    "floor-uring/contender.toml",
    "floor/contender.toml",
    "go/contender.toml",
    "go/fileserver.go",
    "gunicorn/app.py",
    "gunicorn/contender.toml",
    "h2o-proxy/contender.toml",
    "h2o-proxy/h2o.conf",
    "h2o-tls/contender.toml",
    "h2o-tls/h2o.conf",
    "h2o/contender.toml",
    "h2o/h2o.conf",
    "hurtle-cache/contender.toml",
    "hurtle-copy/contender.toml",
    "hurtle-disk-1/contender.toml",
    "hurtle-disk-32/contender.toml",
    "hurtle-disk-8/contender.toml",
    "hurtle-eager/contender.toml",
    "hurtle-isolated/contender.toml",
    "hurtle-mount/contender.toml",
    "hurtle-proxy/contender.toml",
    "hurtle-proxy/hurtle.toml",
    "hurtle-sendfile/contender.toml",
    "hurtle-tls/contender.toml",
    "hurtle-tls/hurtle.toml",
    "hurtle-yield/contender.toml",
    "hurtle/contender.toml",
    "hurtle/hurtle.toml",
    "hyper/contender.toml",
    "inets-300/contender.toml",
    "inets/contender.toml",
    "inets/inets_files.erl",
    "lighttpd-copy/contender.toml",
    "lighttpd-proxy/contender.toml",
    "lighttpd-proxy/lighttpd.conf",
    "lighttpd-stat-tcp/contender.toml",
    "lighttpd-stat-tcp/stat.conf",
    "lighttpd-stat-unix/contender.toml",
    "lighttpd-stat-unix/stat.conf",
    "lighttpd-tls/contender.toml",
    "lighttpd-tls/lighttpd.conf",
    "lighttpd/contender.toml",
    "lighttpd/lighttpd.conf",
    "mochiweb/contender.toml",
    "mochiweb/mochi_files.erl",
    "nginx-aio/contender.toml",
    "nginx-buffered/contender.toml",
    "nginx-buffered/nginx.conf",
    "nginx-cache-lock/contender.toml",
    "nginx-cache/contender.toml",
    "nginx-copy/contender.toml",
    "nginx-current-tls/contender.toml",
    "nginx-current-tls/nginx.conf",
    "nginx-current/contender.toml",
    "nginx-proxy/contender.toml",
    "nginx-proxy/nginx.conf",
    "nginx-tls/contender.toml",
    "nginx-tls/nginx.conf",
    "nginx/contender.toml",
    "nginx/nginx.conf",
    "node/contender.toml",
    "node/serve.mjs",
    "pool/contender.toml",
    "reader-slow/contender.toml",
    "reader/contender.toml",
    "simple-yield/contender.toml",
    "simple/contender.toml",
    "static-web-server/contender.toml",
    "swazoo/contender.toml",
    "swazoo/serve.st",
    "uvicorn/app.py",
    "uvicorn/contender.toml",
    "warp/contender.toml",
    "warp/fileserver.hs",
    "yaws-log/contender.toml",
    "yaws/contender.toml",
    "yaws/yaws.conf",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_embedded() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/arena/contenders");
        let mut files = 0;
        for folder in std::fs::read_dir(root).unwrap() {
            let folder = folder.unwrap();
            let name = folder.file_name().into_string().unwrap();
            assert!(CONTENDERS.contains(&&*name), "{name} is not in the list");
            for file in std::fs::read_dir(folder.path()).unwrap() {
                let path = format!("{name}/{}", file.unwrap().file_name().to_str().unwrap());
                assert!(text(&path).is_some(), "{path} is not in the table");
                files += 1;
            }
        }
        assert_eq!(files, TEXTS.len());
    }
}
