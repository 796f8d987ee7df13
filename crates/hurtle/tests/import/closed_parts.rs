//! Locations that hand parts of paths on, beside guards within a location of a prefix, which nginx
//! asks first. All of them are refused.

/// A sentence, and the inside of a server.
pub(crate) const ROWS: &[(&str, &str)] = &[
    (
        "a condition on the path of an index",
        "if ($uri ~ ^/dir/index\\.html$) { return 403; } location / {}",
    ),
    (
        "a condition of an index",
        "location / {} location = /index.html { if ($remote_addr != 192.0.2.1) { return 403; } }",
    ),
    (
        "a condition on pages of a directory",
        "location / {} location /dir/ { if ($uri ~ \\.html$) { return 403; } }",
    ),
    (
        "a condition of names that begin alike",
        "location / {} location /about { if ($remote_addr != 192.0.2.1) { return 403; } }",
    ),
    (
        "an expression within / for nobody, and the rest of a path",
        "location / { location ~ \\.txt$ { deny all; } } location ~ ^/docs/(.*)$ { alias {root}/docs/$1; }",
    ),
    (
        "an expression within / for nobody, and a redirect of the rest of a path",
        "location / { location ~ \\.txt$ { deny all; } } location ~ ^/docs/(.*)$ { return 301 /moved/$1; }",
    ),
    (
        "an exact path within / for nobody, and a redirect of the rest of a path",
        "location / { location = /docs/guide.txt { deny all; } }
         location ~ ^/docs/(.*)$ { return 301 /moved/$1; }",
    ),
];
