//! Forms of the examples that applications document for nginx.

use crate::alike::Row;

pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "a prefix that is taken off from the path as the client wrote it",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /app/ { rewrite ^ $request_uri; rewrite ^/app(/.*) $1 break;
                                proxy_pass http://{upstream}$uri; proxy_set_header Host $host; }
               location ^~ /docs/ { rewrite ^ $request_uri; rewrite ^/docs/(.*)$ /$1 break;
                                    proxy_pass http://{upstream}$uri;
                                    proxy_set_header Host $host; }
               location ~ \\.css$ { } }",
        requests: &[
            "GET /app/",
            "GET /app/x",
            "GET /app/a%2Fb",
            "GET /app/a%20b%C3%A9?q=a%2Fb&c",
            "GET /app/?a=b",
            "POST /app/x?a=b",
            "HEAD /app/x",
            "DELETE /app/x",
            "GET /app",
            "GET /app?a=b",
            "GET /application",
            "GET /app/gone.css",
            "GET /docs/x%2Fy",
            "GET /docs/style.css",
            "GET /docs/guide.txt?a",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "a part of a location's path that is taken off",
        http: "upstream app { server {upstream}; }
               server { listen 127.0.0.1:{port}; root {root};
               location /app/ { rewrite ^/app/(.*) /$1 break; proxy_pass http://app;
                                proxy_set_header Host $host; }
               location /app/api/live/ { rewrite ^/app/(.*) /$1 break; proxy_pass http://app;
                                         proxy_set_header Host $host;
                                         proxy_set_header X-Own-Live 1; } }",
        requests: &[
            "GET /app/",
            "GET /app/x?a=b",
            "GET /app/api/x",
            "GET /app/api/live",
            "GET /app/api/live/",
            "GET /app/api/live/ws?a=b",
            "POST /app/api/live/ws",
            "HEAD /app/api/live/ws",
            "GET /app/api/lives",
            "GET /app/api/live/count/302",
            "GET /app/count/302",
            "GET /app",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "an expression of a server without a root",
        http: "server { listen 127.0.0.1:{port};
               location / { proxy_pass http://{upstream}; proxy_set_header Host $host; }
               location ~ /.well-known { allow all; }
               location ~ \\.txt$ { deny 127.0.0.1; } }",
        requests: &[
            "GET /",
            "GET /.well-known/a",
            "GET /x/.well-known/a.txt",
            "GET /a.txt",
            "HEAD /a.txt",
            "GET /a.txt?x",
            "GET /x.well-known",
            "POST /x",
        ],
    },
];
