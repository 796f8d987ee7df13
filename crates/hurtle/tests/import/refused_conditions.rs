//! Conditions, variables and pages of nginx that cannot be translated, and some that can.

/// Inside of `server`, and a part of the message; an empty part: it is translated.
pub(super) const CONDITIONS: &[(&str, &str)] = &[
    (
        "root /srv; if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; } location / { }
         location = /favicon.ico { return 204; }
         location /static/ { rewrite ^/static/v\\d+/(.*)$ /static/$1 break; }",
        "",
    ),
    (
        "root /srv; location / { } location /static/ { rewrite ^/static/v\\d+/(.*)$ /static/$1 break; }
         location ~* \\.(png|css)$ { expires 1d; }",
        "",
    ),
    (
        "root /srv; index index.php; if ($http_x_key != k) { return 403; } location / { }
         location ^~ /files/ { } location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }",
        "",
    ),
    (
        "root /srv; index index.php; location / { } location /static/ { }
         location ^~ /files/ { if ($http_x_key != k) { return 403; } }
         location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }",
        "a location with ^~ has no conditions in hurtle",
    ),
    ("root /srv; if ($a) { return 404; }", "it needs conditions"),
    ("root /srv; if ($http_a = \"x*\") { return 404; }", ""),
    ("root /srv; if ($remote_user = a) { return 404; }", "it needs conditions"),
    // nginx compares the text: no address is a network.
    ("root /srv; if ($remote_addr != 192.168.0.0/16) { return 403; }", "it needs conditions"),
    ("root /srv; if ($remote_addr != 192.168.0.1) { return 403; }", ""),
    (
        "root /srv; if ($http_x = \"\") { return 403; } location ^~ /a/ { expires 1d; }
         location ~ \\.css$ { expires 2d; }",
        "a location with ^~ has no conditions in hurtle",
    ),
    // The name of a file begins with its directory, a path does not.
    ("root /srv; if ($request_filename ~ ^/srv/private/) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_filename ~ srv.*\\.txt$) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_filename ~ [+-9]x$) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_filename ~ srv|x$) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_filename = /srv/key.txt) { return 403; }", "it needs conditions"),
    ("root /srv; if ($args ~ a) { return 404; }", "it needs conditions"),
    // A query may have it, too.
    ("root /srv; if ($request_uri ~ wp-login) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_uri ~ \\.php$) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_uri ~ ^/admin|\\.php$) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_uri ~* ^/.*union) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_uri ~ ^/a[^/]b) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_uri ~ ^/a[!-~]b$) { return 403; }", "it needs conditions"),
    ("root /srv; if ($request_uri ~ ^/admin(/|$)) { return 403; }", "it needs conditions"),
    ("root /srv; if ($host = a.b) { rewrite ^/a$ /b; }", "those that return an answer"),
    (
        "root /srv; location /a { return 404; if ($host = a.b) { return 403; } }",
        "it needs conditions",
    ),
    ("root /srv; location /a/ { if ($arg_b != c) { return 403; } } location /a/d/ { }", ""),
    (
        "root /srv; location /a/ { if ($arg_b != c) { return 403; } } location '/a/d*/' { }",
        "in nginx it does not apply to the location /a/d*/",
    ),
    // hurtle takes the prefix off behind its conditions, too.
    (
        "if ($uri ~* \\.(bak|sql)$) { return 403; }
         location /api/ { rewrite ^/api/(.*)$ /$1 break; proxy_pass http://a; }",
        "",
    ),
    (
        "if ($request_uri ~ ^/api/v1/admin) { return 403; }
         location /api/ { rewrite ^/api/v1/(.*)$ /$1 break; proxy_pass http://a; }",
        "the rewrite of the location /api changes the path",
    ),
    (
        "if ($uri ~ ^/old/private/) { return 403; } root /srv;
         location /old/ { rewrite ^/old/(.*)$ /new/$1 last; } location /new/ { }",
        "the rewrite of the location /old/ changes the path",
    ),
    (
        "if ($uri ~ ^/admin/) { return 403; } root /srv;
         location /old/ { rewrite ^/old/(.*)$ /new/$1 last; } location /new/ { }",
        "",
    ),
    // nginx asks the condition of a server before it chooses a location.
    (
        "root /srv; if (!-e $request_filename) { rewrite ^ /x.html last; } location / { try_files $uri =404; }",
        "cannot translate `if (!-e $request_filename)`",
    ),
    (
        "root /srv; if (!-e $request_filename) { rewrite ^ /x.html last; }
         location / { try_files $uri $uri/ /x.html; }",
        "",
    ),
    (
        "root /srv; if (!-e $request_filename) { rewrite ^ /x.php last; }
         location / { try_files $uri $uri/ /x.php$is_args$query_string; }
         location = /favicon.ico { access_log off; } location = /x.php { fastcgi_pass unix:/p; }
         location ~ /\\.ht { deny all; } location ~ \\.php$ { fastcgi_pass unix:/p; }",
        "",
    ),
    (
        "root /srv; if (!-e $request_filename) { rewrite ^ /x.html last; } location / { }
         location ~ \\.css$ { expires 1d; gzip_static on; }",
        "",
    ),
    (
        "root /srv; if (!-e $request_filename) { rewrite ^ /x.html last; } location / { }
         location = /health { return 200 ok; }",
        "cannot translate `if (!-e $request_filename)`",
    ),
    (
        "root /srv; if (!-e $request_filename) { rewrite ^ /x.html last; } location / { root /other; }",
        "cannot translate `if (!-e $request_filename)`",
    ),
    (
        "root /srv; if (!-e $request_filename) { rewrite ^ /x.html last; } rewrite ^/old$ /new permanent;",
        "cannot translate `if (!-e $request_filename)`",
    ),
    (
        "root /srv; rewrite ^/old$ /new permanent; if (!-e $request_filename) { rewrite ^ /x.html last; }",
        "",
    ),
    // The names of variables are longer than those of others.
    ("return 301 https://$hostname$request_uri;", "of variables it knows $scheme"),
    ("location ~ ^/a/(.*)$ { return 301 https://$hostname/$1; }", "of variables it knows $scheme"),
    (
        "root /srv; server_name a.b; if ($host = a.b) { return 301 https://$hostname/; }",
        "of variables it knows $scheme",
    ),
    ("return 301 https://$server_name_of$request_uri;", "of variables it knows $scheme"),
    ("return 301 \"https://a.b/{host}\";", "braces have a part of the request"),
    ("root /srv; rewrite ^/a$ https://$hostname/b;", "of variables it knows $1"),
    ("root /srv; rewrite ^/a$ /b?c=$args_of;", "of variables it knows $1"),
    ("root /srv; if (-f $document_root_of/off.html) { return 503; }", "it needs conditions"),
    // hurtle looks the page up beneath the mount of its location.
    ("location /a/ { root /srv; error_page 404 =200 /b.html; }", "is not beneath /a/"),
    ("location /a/ { root /srv; error_page 404 =200 /a/b.html; }", ""),
];
