//! Locations that hand parts of paths on, beside guards within a location of a prefix, which nginx
//! asks first. All of them are refused.

/// A sentence, and the inside of a server.
pub(crate) const ROWS: &[(&str, &str)] = &[
    (
        "a condition before a redirect",
        "if ($host = b.example) { return 403; } location = /a.txt { return 301 /new/; } location / {}",
    ),
    (
        "a location of one file beside a closed ending",
        "location / {} location /a.txt { access_log off; } location ~* \\.TXT$ { deny all; }",
    ),
    (
        "a rewrite of all paths within a location for nobody",
        "location /moved/ { deny all; rewrite ^/moved/(.*)$ /docs/$1 break; } location / {}",
    ),
    (
        "a rewrite of some paths within a closed location",
        "location /docs/ { PASSWORD rewrite ^/docs/(g.*)$ /$1 break; } location / {}",
    ),
    (
        "a rewrite to one file within a closed location",
        "if ($http_x_real_ip = 10.1.2.3) { return 403; } location / {}
         location /moved/ { rewrite ^/moved/(.*)$ /a.txt break; }",
    ),
    (
        "a condition of a final location beside scripts and another directory",
        "index index.php; if ($http_x_key != k) { return 403; } location / {} location /static/ {}
         location ^~ /docs/ {} location ~ \\.php$ { fastcgi_pass {upstream}; }",
    ),
    (
        "a condition on the target behind a rewrite",
        "rewrite ^/moved/(.*)$ /docs/$1 last; location / {}
         location /docs/ { if ($request_uri ~ ^/moved/) { return 403; } }",
    ),
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
