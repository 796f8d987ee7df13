//! Locations that hand parts of paths on, beside guards within a location of a prefix, which nginx
//! asks first. All of them are refused.

/// A sentence, and the inside of a server.
pub(crate) const ROWS: &[(&str, &str)] = &[
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
