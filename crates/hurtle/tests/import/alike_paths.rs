//! Configurations whose upstreams get other paths or fields than the client sent.

use crate::alike::Row;

pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "fields of requests, and a prefix that is taken off",
        http: "server { listen 127.0.0.1:{port}; root {root};
               location /api/ { proxy_pass http://{upstream}/; proxy_set_header Host app.internal;
                                proxy_set_header X-Own-Client $remote_addr;
                                proxy_set_header X-Own-All \"$scheme $host ${args} {x}\";
                                proxy_set_header X-Own-Id $http_x_own_name;
                                proxy_set_header X-Own-Gone \"\"; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                proxy_set_header X-Own-Host $http_host; } }",
        requests: &[
            "GET /api/users/1?a=b Host=a.example X-Own-Name=1 X-Own-Gone=evil X-Own-Client=evil",
            "GET /api/ Host=a.example",
            "GET /api/a%20b Host=a.example",
            "GET /app/x Host=a.example:81 X-Own-Kept=1",
            "GET /api?q=1",
            "GET /app",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "another path in place of the location's",
        http: "server { listen 127.0.0.1:{port}; root {root}; proxy_set_header Host $http_host;
               location /base/ { proxy_pass http://{upstream}/v2/; }
               location /bare { proxy_pass http://{upstream}/v3; }
               location = /one { proxy_pass http://{upstream}/page; } }",
        requests: &[
            "GET /base/users/1?a=b",
            "GET /base/",
            "GET /base",
            "GET /base/a%20b",
            "POST /base/x",
            "GET /bare",
            "GET /bare/",
            "GET /bare/x?y",
            "GET /one",
            "GET /one/x",
        ],
    },
];
