//! Configurations with maps whose values are in fields, addresses of upstreams and redirects.

use crate::alike::Row;

pub(crate) const ROWS: &[Row] = &[
    Row {
        sentence: "fields of responses by maps",
        http: "map $http_origin $cors { default \"\"; https://a.example $http_origin; https://b.example all; }
               map $arg_v $lifetime { \"\" \"\"; default \", immutable\"; }
               map $request_method $kind { GET read; HEAD read; default write; }
               map $scheme $hsts { https secure; }
               server { listen 127.0.0.1:{port}; root {root};
               add_header X-All $cors always; add_header X-Seen \"is ${kind}able\";
               location / { }
               location /docs/ { add_header X-Docs $kind; add_header Cache-Control \"public$lifetime\"; }
               location /docs/secret/ { add_header X-Docs own; }
               location = /a.txt { add_header X-All exact-$kind; }
               location ~ \\.css$ { add_header X-All \"$cors\"; add_header X-Docs $hsts; }
               location /app/ { proxy_pass http://{upstream}; proxy_set_header Host $http_host;
                                add_header X-Docs $kind always; } }",
        requests: &[
            "GET / Origin=https://a.example",
            "GET / Origin=https://b.example",
            "GET / Origin=https://b.example:81",
            "GET / Origin=https://a.example.org",
            "GET /",
            "HEAD /about.html Origin=https://a.example",
            "GET /none Origin=https://a.example",
            "GET /docs/guide.txt?v=1",
            "GET /docs/guide.txt?v=",
            "GET /docs/guide.txt?w=1&v=2",
            "GET /docs/guide.txt",
            "GET /docs/%67uide.txt?v=1",
            "GET /docs/secret/key.txt?v=1",
            "GET /a.txt",
            "HEAD /a.txt Origin=https://a.example",
            "GET /style.css Origin=https://a.example",
            "GET /docs/style.css Origin=https://c.example",
            "GET /app/x",
            "POST /app/x",
            "GET /app/deny Origin=https://a.example",
        ],
    },
    Row {
        sentence: "upstreams by host, cookie and path",
        http: "map $host $backend { hostnames; default main; .b.example other; *.w.example {upstream}; c.example \"\";
                                    d.* other; x.w.example none; }
               map $cookie_beta $pool { default main; yes other; ~^[0-9]+$ other; ~^1 main; }
               map $uri $part { default main; ~^/by-path/(b|c)/ other; /by-path/exact other; }
               upstream main { server {upstream}; }
               upstream other { server 127.0.0.1:1 backup; server {upstream}; }
               upstream none { server 127.0.0.1:1; }
               server { listen 127.0.0.1:{port}; root {root};
               location / { proxy_pass http://$backend; proxy_set_header Host $http_host;
                            proxy_set_header X-Own-Backend $backend; }
               location /cookie/ { proxy_pass http://$pool$request_uri; proxy_set_header Host $http_host;
                                   proxy_set_header X-Own-Pool \"is $pool\"; }
               location /by-path/ { proxy_pass http://${part}; proxy_set_header Host $http_host;
                                    proxy_set_header X-Own-Part $part; }
               location /strip/ { rewrite ^/strip/(.*)$ /$1 break; proxy_pass http://$pool;
                                  proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /x?y=%20z",
            "GET /x Host=b.example",
            "GET /x Host=B.example:8080",
            "GET /x Host=v.b.example",
            "GET /x Host=bb.example",
            "GET /x Host=w.example",
            "GET /x Host=y.w.example",
            "GET /x Host=z.y.w.example",
            "GET /x Host=x.w.example",
            "GET /x Host=c.example",
            "POST /x Host=c.example",
            "GET /x Host=d.example",
            "GET /x Host=d.w.example",
            "GET /cookie/x Cookie=beta=yes",
            "GET /cookie/x Cookie=beta=YES",
            "GET /cookie/x Cookie=alpha=yes",
            "GET /cookie/x Cookie=a=b;~beta=yes;~beta=no",
            "GET /cookie/x Cookie=beta=12",
            "GET /cookie/%41%2fb?c=d",
            "GET /by-path/a/x",
            "GET /by-path/b/x",
            "GET /by-path/%62/x?q",
            "GET /by-path/bb/x",
            "GET /by-path/EXACT",
            "GET /by-path/exact/x",
            "GET /strip/x?y Cookie=beta=yes",
            "GET /strip/",
        ],
    },
    Row {
        sentence: "redirects and answers by maps",
        http: "map $uri $new { /old /new; /older /newer?x=1; ~^/former/ https://a.example/; /zero 0; }
               map $host $canonical { default \"\"; www.a.example a.example; w3.a.example a.example; }
               map $arg_lang $lang { default en; de de; fr fr; }
               map $http_x_level $level { default 0; high 2; ~^mid 1; }
               server { listen 127.0.0.1:{port}; root {root};
               if ($new) { return 301 $new; }
               if ($canonical != \"\") { return 308 https://$canonical$request_uri; }
               location = /start { return 302 /$lang/start; }
               location /hello { return 200 \"hello $lang\"; default_type text/plain; }
               location /level/ { if ($level = 2) { return 403; } if ($level != 0) { return 202; } return 204; }
               location /match/ { if ($level ~ ^[12]$) { return 403; } return 204; } }",
        requests: &[
            "GET /old",
            "GET /old?a=b",
            "GET /OLD",
            "GET /old/",
            "GET /%6fld",
            "POST /old",
            "GET /older",
            "GET /former/x",
            "GET /zero",
            "GET /a.txt",
            "GET /a.txt?b Host=www.a.example",
            "GET /old Host=www.a.example",
            "GET / Host=W3.a.example",
            "GET /start",
            "GET /start?lang=de",
            "GET /start?lang=DE&lang=fr",
            "GET /start?a&lang=fr",
            "GET /hello",
            "GET /hello?lang=fr",
            "POST /hello?lang=fr",
            "GET /level/ X-Level=high",
            "GET /level/ X-Level=middle",
            "GET /level/ X-Level=low",
            "GET /level/",
            "GET /match/ X-Level=middle",
            "GET /match/",
        ],
    },
    Row {
        sentence: "forwarded fields by maps, and several maps in one location",
        http: "map $http_x_forwarded_proto $the_scheme { default $http_x_forwarded_proto; \"\" $scheme; }
               map $http_host $this_host { \"\" $host; default $http_host; }
               map $http_x_forwarded_host $the_host { default $http_x_forwarded_host; \"\" $this_host; }
               map $http_x_debug $debug { default \"\"; on \"host $host\"; }
               map $http_accept $format { default other; ~json json; ~*html html; }
               map $http_x_a $add { default \"\"; one $format; }
               server { listen 127.0.0.1:{port}; root {root};
               proxy_set_header Host $this_host; proxy_set_header X-Forwarded-Proto $the_scheme;
               proxy_set_header X-Forwarded-Host $the_host;
               proxy_set_header X-Own-Debug $debug; proxy_set_header X-Own-Format $format;
               location / { proxy_pass http://{upstream}; add_header X-Docs \"$format-$format\";
                            if ($http_x_a = two) { return 200 two; } }
               location ^~ /own/ { proxy_pass http://{upstream}; proxy_set_header Host $this_host;
                                   add_header X-All $add; } }",
        requests: &[
            "GET /x",
            "GET /x X-Debug=on Accept=a/json Host=a.example:81",
            "GET /x X-Debug=on",
            "GET /x X-Debug=off Accept=text/HTML",
            "GET /x Accept=text/html,a/json",
            "GET /x Accept=a/json X-A=two",
            "GET /own/x Accept=a/json X-A=one",
            "GET /own/x X-A=two",
        ],
    },
    Row {
        sentence: "guards beside maps",
        http: "map $request_method $kind { GET read; default write; }
               map $arg_to $pool { default main; nowhere \"\"; }
               upstream main { server {upstream}; }
               server { listen 127.0.0.1:{port}; root {root};
               location / { }
               location /docs/ { auth_basic s; auth_basic_user_file {dir}/ht; add_header X-Docs $kind always; }
               location /docs/secret/ { deny all; add_header X-Docs $kind always; }
               location /closed/ { deny all; proxy_pass http://$pool; add_header X-All $kind always; }
               location ~ ^/dir/ { allow 192.0.2.0/24; deny all; proxy_pass http://$pool; }
               location = /one { proxy_pass http://$pool; proxy_set_header Host $http_host;
                                 proxy_set_header X-Own-Kind $kind; if ($http_x_foo) { return 403; } }
               location /two { proxy_pass http://$pool; proxy_set_header Host $http_host;
                               add_header X-All \"to $pool\" always;
                               if ($request_method = POST) { return 403; } } }",
        requests: &[
            "GET /docs/guide.txt",
            "HEAD /docs/guide.txt",
            "GET /docs/%73ecret/key.txt",
            "HEAD /docs/secret/key.txt",
            "GET /closed/x",
            "POST /closed/x?to=nowhere",
            "GET /dir/",
            "GET /dir/?to=nowhere",
            "GET /one",
            "POST /one",
            "POST /one X-Foo=yes",
            "GET /one?to=nowhere X-Foo=yes",
            "GET /one?to=nowhere",
            "POST /two",
            "POST /two?to=nowhere",
            "HEAD /two/x?to=nowhere",
        ],
    },
    Row {
        sentence: "redirects of upstreams whose address is a variable",
        http: "map $http_x_pool $pool { default {upstream}; }
               server { listen 127.0.0.1:{port}; root {root}; set $app {upstream};
               location /count/ { proxy_pass http://$app; proxy_set_header Host $http_host; }
               location /count/203 { set $other {upstream}; proxy_pass http://$other; proxy_redirect off;
                                     proxy_set_header Host $http_host; }
               location /count/204 { proxy_pass http://$pool; proxy_set_header Host $http_host; }
               location /count/205 { proxy_pass http://{upstream}$request_uri;
                                     proxy_set_header Host $http_host; } }",
        requests: &[
            "GET /count/201?Location:http://{upstream}/x",
            "GET /count/203?Location:http://{upstream}/x",
            "GET /count/204?Location:http://{upstream}/x",
            "GET /count/205?Location:http://{upstream}/x",
        ],
    },
];
