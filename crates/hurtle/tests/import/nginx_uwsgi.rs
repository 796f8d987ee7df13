//! Sites with an application behind uWSGI: nginx and hurtle ask the same application.

use crate::servers::{Dir, Nginx, Ours, ask, free_port, import, program};
use crate::uwsgi_server::UwsgiServer;

/// A sentence, the inside of a server, and requests whose answers are compared.
struct Row {
    sentence: &'static str,
    server: &'static str,
    requests: &'static [&'static str],
}

/// The variables of nginx's own uwsgi_params.
const PARAMS: &str =
    "uwsgi_param QUERY_STRING $query_string; uwsgi_param REQUEST_METHOD $request_method;
    uwsgi_param CONTENT_TYPE $content_type; uwsgi_param CONTENT_LENGTH $content_length;
    uwsgi_param REQUEST_URI $request_uri; uwsgi_param PATH_INFO $document_uri;
    uwsgi_param DOCUMENT_ROOT $document_root; uwsgi_param SERVER_PROTOCOL $server_protocol;
    uwsgi_param REQUEST_SCHEME $scheme; uwsgi_param HTTPS $https if_not_empty;
    uwsgi_param REMOTE_ADDR $remote_addr; uwsgi_param REMOTE_PORT $remote_port;
    uwsgi_param SERVER_PORT $server_port; uwsgi_param SERVER_NAME $server_name;";

const ROWS: &[Row] = &[
    Row {
        sentence: "an application for all paths, beside files",
        server: "location / { uwsgi_pass uwsgi://unix:{socket}; {params} }
            location /docs { alias {root}/docs; }",
        requests: &[
            "GET /",
            "GET /a%20b/%2Fc?q=%20&r",
            "HEAD /a",
            "POST /form?x Content-Length=0",
            "DELETE /item/1",
            "GET /x X-One=1",
            "GET /stream",
            "GET /docs/guide.txt",
            "GET /docs/gone",
        ],
    },
    Row {
        sentence: "applications beneath paths, with the whole path, a part of it, and a name of their own",
        server: "location /whole { uwsgi_pass unix:{socket}; {params} uwsgi_read_timeout 300s; }
            location /part { rewrite ^/part/(.*) /$1 break; uwsgi_pass unix:{socket}; {params} }
            location /slash/ { uwsgi_pass app; {params} }
            location /named/ { uwsgi_pass app; {params} uwsgi_param SCRIPT_NAME /named; }
            location ~ ^/re/ { uwsgi_pass app; {params} add_header X-All yes; }
            location /kept/ { proxy_read_timeout 1s; fastcgi_param SCRIPT_NAME /other; uwsgi_pass app; {params} }
            location / { try_files $uri @app; }
            location @app { uwsgi_pass app; {params} uwsgi_intercept_errors on; }",
        requests: &[
            "GET /whole",
            "GET /whole/x?y",
            "GET /wholesome",
            "GET /part/x?y",
            "GET /part/a%20b/c",
            "POST /part/form Content-Length=0",
            "GET /slash",
            "GET /slash/x",
            "GET /named/x",
            "GET /re/x%20y?z",
            "GET /kept/x",
            "GET /a.txt",
            "GET /gone?x",
        ],
    },
    Row {
        sentence: "guards before an application, and fields",
        server: "location / { auth_basic s; auth_basic_user_file {dir}/ht; uwsgi_pass app; {params} }
            location /closed/ { deny all; uwsgi_pass app; }
            location /fields/ { uwsgi_pass app; {params} uwsgi_param HTTP_X_ONE $scheme; uwsgi_hide_header X-Docs; }",
        requests: &["GET /x", "GET /closed/x", "GET /fields/x", "GET /fields/x X-One=2"],
    },
];

#[test]
fn both_servers_ask_the_application_alike() {
    let Some(nginx) = program() else {
        panic!("nginx is missing; `cargo xtask test --only packages` installs it");
    };
    let uwsgi = UwsgiServer::start();
    let mut faults = Vec::new();
    for Row { sentence, server, requests } in ROWS {
        let (dir, port, socket) = (Dir::new(), free_port(), uwsgi.socket());
        let server = server.replace("{params}", PARAMS).replace("{socket}", &socket);
        let http = format!(
            "upstream app {{ server unix://{socket}; }}
             server {{ listen 127.0.0.1:{{port}}; root {{root}}; {server} }}"
        );
        let file = dir.configure(&http, port, "127.0.0.1:1".parse().expect("an address"));
        let text = import(&file).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
        let theirs = Nginx::start(&nginx, &file, &dir.0, port);
        let ours = Ours::start(&text, port);
        for request in *requests {
            let [a, b] = [port, ours.port].map(|port| ask(port, request));
            if a != b {
                faults.push(format!("{sentence}: {request}\n  nginx  {a:?}\n  hurtle {b:?}"));
            }
        }
        drop((theirs, ours));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
