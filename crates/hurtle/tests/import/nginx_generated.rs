//! Servers of a few random locations and directives, which nginx and hurtle with their import
//! answer alike, but for differences that a remark of the import names.

use crate::servers::{Dir, Nginx, Ours, Seen, ask, free_port, import, program, upstream};

/// Number of generated servers.
const GENERATED: u64 = 60;

/// Number of servers of which one run is, if the variable is set; the run of the tests has
/// `GENERATED`.
const COUNT: &str = "NGINX_COUNT";

/// The beginnings of locations. Each may have any of the bodies.
const LOCATIONS: &[&str] = &[
    "location /",
    "location /docs/",
    "location /docs",
    "location ^~ /docs/",
    "location = /a.txt",
    "location = /",
    "location /dir/",
    "location ~ \\.txt$",
    "location ~* \\.(css|html)$",
    "location ~ ^/(docs|api)/",
    "location ~ /\\.",
    "location /api/",
    "location /old",
];

/// Locations with parts of paths, one of which may be in a server.
const OF_PARTS: &[&str] = &[
    "location ~ ^/v1/(.*)$ { proxy_pass http://{upstream}/v3/$1$is_args$args; proxy_set_header Host $http_host; }",
    "location ~ ^/api/(.*) { proxy_pass http://{upstream}/$1$is_args$args; proxy_set_header Host $http_host; }",
    "location ~ ^/old/(.*)$ { return 301 /new/$1; }",
    "location ~ ^/old/(x)$ { return 302 https://$host/$1/y$is_args$args; }",
    "location ~ ^/files/(.*)$ { alias {root}/docs/$1; }",
    "location /f { alias {root}/docs/; }",
    "location = /args { return 302 /y$is_args$args; }",
    "location ~ ^/dir/.*html$ { deny all; }",
    "location ~ ^/dir/.*html$ { add_header X-Docs pages; }",
];

const HANDLERS: &[&str] = &[
    "",
    "",
    "root {root};",
    "root {root}/docs;",
    "try_files $uri $uri/ /index.html;",
    "try_files $uri =404;",
    "try_files $uri @app;",
    "proxy_pass http://{upstream}; proxy_set_header Host $http_host;",
    "proxy_pass http://{upstream}; proxy_set_header Host $http_host;",
    "rewrite ^/api/(.*)$ /v2/$1 break; proxy_pass http://{upstream}; proxy_set_header Host $http_host;",
    "return 200 fixed;",
    "return 404;",
    "return 301 https://$host$request_uri;",
    "return 302 /about.html;",
    "deny all;",
    "error_page 404 /404.html;",
    "autoindex off;",
    "set $url http://{upstream}/fixed; proxy_pass $url; proxy_set_header Host $http_host;",
    "rewrite ^ /about.html last;",
    "try_files /docs/guide.txt =404;",
    "proxy_pass http://$pool; proxy_set_header Host $http_host; proxy_set_header X-Own-Kind $kind;",
    "return 302 /$kind;",
];

/// Settings of a location or of the server.
const SETTINGS: &[&str] = &[
    "add_header X-All all;",
    "add_header X-Docs docs always;",
    "expires 1h;",
    "expires off;",
    "add_header Cache-Control no-store;",
    "add_header X-Docs $typed;",
    "deny 127.0.0.1;",
    "allow 127.0.0.1; deny all;",
    "auth_basic s; auth_basic_user_file {dir}/ht;",
    "satisfy any; allow 127.0.0.1; deny all; auth_basic s; auth_basic_user_file {dir}/ht;",
    "satisfy any; allow 192.0.2.1; deny all; auth_basic s; auth_basic_user_file {dir}/ht;",
    "if ($request_method = POST) { return 405; }",
    "if ($http_x_foo ~* ^y) { return 403; }",
    "if ($args) { add_header X-Docs query; }",
    "if ($arg_x = 1) { return 302 /a.txt; }",
    "if ($bad) { return 410; }",
    "set $t 0; if ($arg_x = 1) { set $t 1; } if ($t = 1) { return 410; }",
    "index a.txt;",
    "client_max_body_size 1m;",
    "add_header X-Docs $kind;",
    "add_header X-All \"of $of_path\" always;",
    "if ($new) { return 301 $new; }",
];

/// Requests to generated servers.
const REQUESTS: &[&str] = &[
    "GET /",
    "GET /a.txt",
    "GET /about.html",
    "GET /none",
    "GET /none.txt",
    "GET /none.css",
    "GET /docs/",
    "GET /docs/guide.txt",
    "GET /docs/style.css",
    "GET /docs/none",
    "GET /dir/",
    "GET /dir/none",
    "GET /api/x?q=1",
    "GET /api/a.txt",
    "GET /old",
    "GET /old/x?x=1",
    "GET /old/x?q=1",
    "GET /v1/x?q=1",
    "GET /v1/a.txt",
    "GET /files/guide.txt",
    "GET /f/guide.txt",
    "GET /args?q=1",
    "GET /dir/index.html",
    "GET /.hidden",
    "POST /api/x",
    "GET /a.txt X-Foo=yes",
    "GET /docs/guide.txt?x=1",
    "GET /about.html X-Bad=evil",
    "HEAD /about.html",
];

/// `true` for a difference that a remark names, or the documents for all configurations.
fn is_named(request: &str, nginx: &Seen, ours: &Seen, text: &str) -> bool {
    let text = text.replace("\n#   ", " ");
    let target = request.split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    let is_error = |seen: &Seen| seen.status.starts_with(['3', '4', '5']);
    // Names with a dot are not served, a directory without an index is 404, and files have no POST.
    path.contains("/.")
        || [&*nginx.status, &*ours.status] == ["403", "404"]
        || [&*nginx.status, &*ours.status] == ["404", "403"]
        || (request.starts_with("POST") && ours.status == "405")
        // The directory of a location does not exist.
        || (nginx.status == "404" && ours.status == "500")
        || (nginx.status == "404" && ours.location == Some(format!("{path}//")))
        // Errors and redirects may have the fields of their mount.
        || (nginx.status == ours.status && is_error(nginx) && nginx.location == ours.location)
        // A remark with this path, or one of its directory or of a page.
        || [path, "nginx sends `return` before it checks", "is answered without this condition"]
            .iter()
            .any(|part| text.contains(&format!("GET {part}")) || (part.len() > 9 && text.contains(part)))
        || text.contains("nginx answers as this location does")
        || (text.contains("in answer to another path")
            && (ours.status == nginx.status || path.ends_with('/')))
        || (text.contains("has the fields of") && ours.status == nginx.status)
        || (text.contains("has not the value of its page") && ours.status == nginx.status)
        // The names that begin with that of a location.
        || (path.starts_with("/files") && text.contains("GET /fa.css is another path"))
        || text.contains("applies to paths of locations with regular expressions")
        || (text.contains("all HTML of") && ours.status == nginx.status)
        || (text.contains("as nginx looks up the location again") && ours.status == nginx.status)
}

/// Servers of two to four locations, chosen by a number that a failure names.
#[test]
fn generated_servers_answer_alike() {
    let Some(nginx) = program() else {
        eprintln!("not run: no nginx; `cargo xtask test --only packages` installs it");
        return;
    };
    let (upstream, mut refused) = (upstream(), 0);
    let mut faults = Vec::new();
    let first: u64 = std::env::var("NGINX_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let count = std::env::var(COUNT).map_or(GENERATED, |count| count.parse().expect("a number"));
    for seed in first..first + count {
        let mut state = seed;
        let mut random = |below: usize| {
            // Knuth's generator (The Art of Computer Programming, volume 2, section 3.3.4).
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let server = generated(&mut random);
        let http = format!(
            "map $http_x_bad $bad {{ default 0; ~evil 1; }}\n\
             map $sent_http_content_type $typed {{ default other; ~*text/ text; }}\n\
             map $http_x_foo $kind {{ default none; yes foo; }}\n\
             map $uri $of_path {{ default other; ~^/docs/ docs; ~\\.txt$ text; }}\n\
             map $arg_x $pool {{ default {{upstream}}; 1 \"\"; }}\n\
             map $uri $new {{ /old /about.html; ~^/api/ /a.txt?x; }}\nserver {{\nlisten 127.0.0.1:{{port}};\nroot {{root}};\n{server}\n\
             location @app {{ proxy_pass http://{{upstream}}; proxy_set_header Host $http_host; }}\n}}"
        );
        let dir = Dir::new();
        for name in ["old", "api"] {
            std::fs::create_dir_all(dir.0.join("www").join(name)).expect("it is made");
        }
        let port = free_port();
        let file = dir.configure(&http, port, upstream);
        let Ok(text) = import(&file) else {
            refused += 1;
            continue;
        };
        let theirs = Nginx::start(&nginx, &file, &dir.0, port);
        let ours = Ours::start(&text, port);
        for request in REQUESTS {
            let (a, b) = (ask(port, request), ask(ours.port, request));
            if a != b && !is_named(request, &a, &b, &text) {
                faults.push(format!(
                    "seed {seed}:\n{server}\n{request}\n  nginx  {a:?}\n  hurtle {b:?}"
                ));
            }
        }
        drop((theirs, ours));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    assert!(refused < count * 3 / 4, "{refused} of {count} are refused");
}

/// The inside of a server.
fn generated(random: &mut impl FnMut(usize) -> usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    if random(2) == 0 {
        lines.push(
            SETTINGS[random(SETTINGS.len())].replace("if ($args) { add_header X-Docs query; }", ""),
        );
    }
    let mut used: Vec<usize> = Vec::new();
    for _ in 0..2 + random(3) {
        let place = random(LOCATIONS.len());
        if used.contains(&place) {
            continue;
        }
        used.push(place);
        let handler = HANDLERS[random(HANDLERS.len())];
        let setting = match random(3) {
            0 => "",
            _ => SETTINGS[random(SETTINGS.len())],
        };
        // One directive is written once.
        let name = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
        let setting = if name(setting) == name(handler) { "" } else { setting };
        lines.push(format!("{} {{ {handler} {setting} }}", LOCATIONS[place]));
    }
    if random(3) == 0 {
        let at = random(lines.len() + 1);
        lines.insert(at, OF_PARTS[random(OF_PARTS.len())].to_owned());
    }
    lines.join("\n")
}
