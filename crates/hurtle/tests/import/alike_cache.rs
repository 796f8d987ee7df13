//! Configurations with a cache. The upstream counts the requests that reach it, and tells in a body
//! which one it answers.

use crate::alike::Row;

pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "lifetimes by status, of responses that give none",
        http: "proxy_cache_path {dir}/cache keys_zone=c:1m;
               server { listen 127.0.0.1:{port}; root {root}; proxy_set_header Host $http_host; proxy_cache c;
               proxy_cache_valid 200 302 10m; proxy_cache_valid 404 1m; proxy_cache_valid 410 0;
               proxy_cache_lock on; proxy_cache_revalidate on;
               location / { proxy_pass http://{upstream}; add_header X-Cache $upstream_cache_status; } }",
        requests: &[
            "GET /count/200",
            "GET /count/200",
            "GET /count/302",
            "GET /count/302",
            "GET /count/404",
            "GET /count/404",
            "GET /count/410",
            "GET /count/410",
            "GET /count/301",
            "GET /count/301",
            "GET /count/503",
            "GET /count/503",
            "GET /count/200?Cache-Control:max-age=60",
            "GET /count/200?Cache-Control:max-age=60",
            "GET /count/410?Cache-Control:max-age=60",
            "GET /count/410?Cache-Control:max-age=60",
            "GET /count/200?Cache-Control:max-age=0",
            "GET /count/200?Cache-Control:max-age=0",
            "GET /count/200?Cache-Control:no-store",
            "GET /count/200?Cache-Control:no-store",
            "GET /count/200?Cache-Control:no-cache",
            "GET /count/200?Cache-Control:no-cache",
            "GET /count/200?Cache-Control:private",
            "GET /count/200?Cache-Control:private",
            "GET /count/200?Cache-Control:public",
            "GET /count/200?Cache-Control:public",
            "GET /count/200?Expires:0",
            "GET /count/200?Expires:0",
            "GET /count/200?Vary:*",
            "GET /count/200?Vary:*",
            "GET /count/200?Vary:X-A X-A=1",
            "GET /count/200?Vary:X-A X-A=1",
            "GET /count/200?Vary:X-A X-A=2",
            "GET /count/200?Set-Cookie:a=b",
            "GET /count/200?Set-Cookie:a=b",
            "HEAD /count/200",
            "POST /count/200",
            "POST /count/200",
        ],
    },
    Row {
        sentence: "a lifetime alone, and that of a location in place of the server's",
        http: "proxy_cache_path {dir}/cache keys_zone=c:1m;
               server { listen 127.0.0.1:{port}; root {root}; proxy_set_header Host $http_host; proxy_cache c;
               proxy_cache_valid 10m;
               location /a/ { proxy_pass http://{upstream}/; }
               location /b/ { proxy_pass http://{upstream}/; proxy_cache_valid 404 1m; }
               location /c/ { proxy_pass http://{upstream}/; proxy_cache_valid 404 0; proxy_cache_valid any 1m;
                              proxy_cache_valid 301 0; proxy_cache_valid 404 9m; }
               location /d/ { proxy_pass http://{upstream}/; proxy_cache off; } }",
        requests: &[
            "GET /a/count/200",
            "GET /a/count/200",
            "GET /a/count/301",
            "GET /a/count/301",
            "GET /a/count/302",
            "GET /a/count/302",
            "GET /a/count/404",
            "GET /a/count/404",
            "GET /b/count/200?b",
            "GET /b/count/200?b",
            "GET /b/count/404?b",
            "GET /b/count/404?b",
            "GET /c/count/301?c",
            "GET /c/count/301?c",
            "GET /c/count/404?c",
            "GET /c/count/404?c",
            "GET /c/count/500?c",
            "GET /c/count/500?c",
            "GET /d/count/200?d",
            "GET /d/count/200?d",
        ],
    },
];
