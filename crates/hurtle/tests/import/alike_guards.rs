//! Guards: `satisfy any` of an address or a password, and which location has the guard of a path.

use crate::alike::Row;

/// The field of a client that knows the password is `Authorization=Basic~YmVydDpzZWNyZXQ=`.
pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "a condition of the server, and the location of one path",
        http: "server { listen 127.0.0.1:{port}; root {root};
               if ($http_x_origin != \"s3cret\") { return 403; }
               location = /a.txt { expires 1d; }
               location = /index.html { add_header X-Index yes; }
               location = /front { return 200 front; } }",
        requests: &[
            "GET /index.html",
            "GET /index.html X-Origin=s3cret",
            "GET /front",
            "GET /front X-Origin=s3cret",
            "GET /a.txt",
            "GET /a.txt X-Origin=s3cret",
            "GET /",
            "GET / X-Origin=s3cret",
            "GET /bare/x.txt",
            "GET /bare/x.txt X-Origin=s3cret",
        ],
    },
    Row {
        sentence: "an expression without a password within a location, and no location of other paths",
        http: "server { listen 127.0.0.1:{port}; root {root};
               auth_basic s; auth_basic_user_file {dir}/ht;
               location /docs/ { location ~ \\.txt$ { auth_basic off; } } }",
        requests: &[
            "GET /a.txt",
            "GET /a.txt Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /bare/x.txt",
            "GET /",
            "GET /docs/guide.txt",
            "GET /docs/style.css",
        ],
    },
    Row {
        sentence: "a final prefix with a password, beside the exact path without its slash",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location = /docs { return 404; }
               location ^~ /docs/ { auth_basic s; auth_basic_user_file {dir}/ht; }
               location ~ \\.(css|txt)$ { add_header X-All yes; } }",
        requests: &[
            "GET /docs",
            "GET /docs/guide.txt",
            "GET /docs/guide.txt Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /docs/secret/key.txt",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "an admitted address needs no password",
        http: "server { listen 127.0.0.1:{port}; root {root};
               satisfy any; auth_basic s; auth_basic_user_file {dir}/ht;
               allow 127.0.0.1; deny all;
               location / { }
               location /docs/ { satisfy all; allow 192.0.2.1; deny all; }
               location /bare/ { satisfy all; auth_basic s; }
               location ~ \\.css$ { allow 192.0.2.1; deny all; add_header X-All yes; }
               location = /about.html { return 200 about; }
               location = /dir { deny all; } }",
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /a.txt Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /a.txt Authorization=Basic~YmVydDp3cm9uZw==",
            "GET /gone",
            "GET /docs/guide.txt",
            "GET /docs/guide.txt Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /docs/secret/key.txt",
            "GET /bare/x.txt",
            "GET /bare/x.txt Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /style.css",
            "GET /docs/style.css",
            "GET /style.css Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /about.html",
            "GET /dir",
            "GET /%64ir/index.html",
            "POST /a.txt",
        ],
    },
    Row {
        sentence: "another address needs the password, which is enough",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location / { satisfy any; allow 192.0.2.0/24; deny all;
                            auth_basic s; auth_basic_user_file {dir}/ht; }
               location /docs/ { satisfy any; deny 127.0.0.0/8; allow all;
                                 auth_basic s; auth_basic_user_file {dir}/ht; }
               location /bare/ { satisfy any; deny all;
                                 auth_basic s; auth_basic_user_file {dir}/ht; }
               location /dir/ { satisfy any; deny all; } }",
        requests: &[
            "GET /a.txt",
            "GET /a.txt Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /gone Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /a.txt Authorization=Basic~YmVydDp3cm9uZw==",
            "GET /docs/guide.txt",
            "GET /docs/guide.txt Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /bare/x.txt",
            "GET /bare/x.txt Authorization=Basic~YmVydDpzZWNyZXQ=",
            "GET /dir/",
            "GET /dir/index.html Authorization=Basic~YmVydDpzZWNyZXQ=",
        ],
    },
    Row {
        sentence: "an application that a password, a server that decides, or an address opens",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location = /auth { internal; proxy_pass http://{upstream}/deny; }
               location = /yes { internal; proxy_pass http://{upstream}/verify; }
               location /app/ { satisfy any; allow 127.0.0.1; deny all; auth_request /auth;
                                proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location /app/in/ { satisfy any; allow 192.0.2.1; deny all; auth_request /auth;
                                   proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location /app/ok/ { satisfy any; deny all; auth_request /yes;
                                   proxy_pass http://{upstream}; proxy_set_header Host $http_host; }
               location ~ ^/docs/.*t$ { satisfy any; allow 127.0.0.1; auth_request /auth; }
               location = /a.txt { satisfy any; allow 127.0.0.1; deny all; proxy_pass http://{upstream};
                                   proxy_set_header Host $http_host;
                                   auth_basic s; auth_basic_user_file {dir}/ht; } }",
        requests: &[
            "GET /app/x",
            "POST /app/x?a=b",
            "GET /app/in",
            "GET /app/ok/x",
            "GET /docs/guide.txt",
            "GET /docs/gone.txt",
            "GET /docs/style.css",
            "GET /a.txt",
            "GET /a.txt/x",
        ],
    },
];
