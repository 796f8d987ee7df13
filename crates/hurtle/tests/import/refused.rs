//! Directives that cannot be translated are refused, all at once, with file and line.

use std::path::Path;

use hurtle::import::syntax::parse;
use hurtle::import::{nginx, nginx_file};

use crate::refused_conditions::CONDITIONS;

/// Inside of `server`, and a part of the message; an empty part: it is translated.
const ROWS: &[(&str, &str)] = &[
    ("root /srv;", ""),
    ("root srv;", ""),
    ("root D:/srv;", "nginx.conf:1: cannot translate `root D:/srv`: write an absolute path"),
    ("root ../srv;", "write an absolute path"),
    ("root /srv/$host;", "it needs variables"),
    ("root /srv; limit_req zone=a;", "no limit_req_zone before it has this zone"),
    ("root /srv; limit_conn a 5;", "no limit_conn_zone has this zone"),
    ("root /srv; auth_request /auth;", "no location = /auth has a proxy_pass"),
    (
        "location / { proxy_pass http://a; proxy_set_header X-User $user; auth_request /auth;
           auth_request_set $user $upstream_http_x_name; }
         location = /auth { internal; proxy_pass http://b/; }",
        "`proxy_set_header X-User $user`",
    ),
    (
        "location / { proxy_pass http://a; auth_request /auth; }
         location = /auth { internal; proxy_pass http://unix:/s:/verify; }",
        "a server on a unix socket is asked for / only",
    ),
    (
        "location / { proxy_pass http://a; auth_request /auth; }
         location = /auth { internal; proxy_pass http://unix:/s:/; }",
        "",
    ),
    ("root /srv; gzip on; gzip_types text/css; location /a { gzip_types text/plain; }", "one list"),
    // nginx reads X-Real-IP by default.
    ("root /srv; set_real_ip_from 10.0.0.0/8;", "write real_ip_header X-Forwarded-For"),
    ("root /srv; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;", ""),
    ("root /srv; set_real_ip_from 10.0.0.0/8; real_ip_header proxy_protocol;", "X-Forwarded-For"),
    (
        "server_name a; location ^~ /.well-known/acme-challenge/ { root /srv/acme; }
         location / { return 301 https://$host$request_uri; }",
        "",
    ),
    // Certificates could not be renewed in nginx either.
    (
        "server_name a; location /.well-known/acme-challenge/ { root /srv/acme; }
         return 301 https://$host$request_uri;",
        "nginx sends `return` of the server",
    ),
    ("return 404; location /a/ { root /srv; deny all; }", "nginx sends `return` of the server"),
    // As nginx.org writes it.
    (
        "location / { root /srv; index index.html index.htm; } error_page 500 502 /50x.html;
         location = /50x.html { root /srv; }",
        "",
    ),
    ("root /srv; location = /favicon.ico { access_log off; log_not_found off; }", ""),
    ("root /srv; location / { proxy_pass http://a; } location = /a.ico { }", ""),
    ("root /srv; location / { proxy_pass http://a; root /srv; index a; }", ""),
    ("root /srv; try_files $uri =404; location /a/ { proxy_pass http://a; root /b; }", ""),
    ("root /srv; location = /a { expires 1h; }", ""),
    ("root /srv; location = /a { types { text/plain a; } }", ""),
    ("root /srv; location ~ \\.css$ { limit_rate 1k; }", ""),
    ("root /srv; location ~ \\.css$ { gzip off; }", ""),
    ("root /srv; location ~ \\.css$ { root /other; }", ""),
    ("root /srv; location ~ \\.css$ { error_page 404 /x; }", ""),
    ("root /srv; error_page 404 /x; location /a/ { error_page 403 /y; }", "hurtle adds the server's for 404"),
    ("root /srv; error_page 404 /x; location /a/ { error_page 403 404 /y; }", ""),
    ("root /srv; error_page 404 https://a.example/; ", "a path of the site, or a named location"),
    ("root /srv; error_page 497 301 /x;", "the statuses 400 to 599"),
    ("root /srv; error_page 502 @down;", "there is no location @down"),
    ("root /srv; error_page 502 =503 @down; location @down { return 200 busy; }", ""),
    ("location / { proxy_pass http://a; limit_rate 1k; }", "would lose it"),
    ("root /srv; location /a { deny all; limit_rate 1k; }", "would lose it"),
    ("root /srv; location /a { deny all; root /b; proxy_pass http://a; }", ""),
    ("root /srv; location /a/ { rewrite ^/a/(.*)$ /b/$1; expires 1h; }", "would lose it"),
    ("root /srv; location /a/ { rewrite ^/a/(.*)$ /b/$1; }", ""),
    ("root /srv; location /a/ { rewrite ^/a/(.*)$ /b/$1 break; }", ""),
    ("root /srv; rewrite ^/a$ /b; rewrite ^/b$ /c;", ""),
    ("root /srv; location / { rewrite ^ /x.html last; }", "answers 500"),
    (
        "root /srv; location / { rewrite ^ /b/x last; } location = / { return 404; } location /b/ { }",
        "it does not apply to the location /",
    ),
    ("root /srv; set $u http://a/b; location /c { proxy_pass $u; }", ""),
    ("root /srv; set $u http://a/b; location /c { proxy_pass $u; } location ~ x { }", "variables"),
    ("root /srv; location /a/ { rewrite ^/a$ /b; }", "it cannot match in the location /a/"),
    ("root /srv; location a/ { }", ""),
    ("root /srv; location = /a { rewrite ^ /b last; }", ""),
    ("root /srv; location = /a { try_files /b.html =404; }", ""),
    ("root /srv; location = /a { try_files /b.html /c.html; }", "only $uri =404"),
    ("root /srv; limit_req_zone $uri zone=a:1m rate=1r/s;", "it does not belong here"),
    ("root /srv; proxy_pass http://a;", "it does not belong here"),
    (
        "listen 10.0.0.1:80; root /srv; }
         server { listen 10.0.0.1:443 ssl; server_name b; ssl_certificate /c;
         ssl_certificate_key /k; root /srv/b;",
        "",
    ),
    ("root /srv; unheard_of on;", "the importer does not know it"),
    // Paths without a location would be those of the expression.
    (
        "location /a/ { root /srv; location ~ x$ { auth_basic off; } }",
        "write it outside of the other location",
    ),
    (
        "root /srv; try_files $uri /x; location /a/ { location ~ x$ { auth_basic off; } }",
        "write it outside of the other location",
    ),
    ("location / { proxy_pass http://a/; } location /api/ { proxy_pass http://b/; }", ""),
    ("location / { proxy_pass https://a; }", ""),
    ("location / { fastcgi_pass a:9; fastcgi_param HTTP_X_REAL_IP $remote_addr; }", ""),
    ("location / { fastcgi_pass a:9; fastcgi_param X_REAL_IP $remote_addr; }", "it needs variables"),
    ("location / { fastcgi_pass a:9; fastcgi_param HTTP_X $uri; }", "it needs variables"),
    ("location / { fastcgi_pass a:9; fastcgi_param REMOTE_ADDR $http_x_real_ip; }", "write that, or a constant"),
    ("location / { fastcgi_pass a:9; fastcgi_param HTTPS $fe_https; }", "with the value $https"),
    ("location / { fastcgi_pass a:9; fastcgi_param REQUEST_URI /sub$request_uri; }", "with the value $request_uri"),
    ("location / { uwsgi_pass a:9; uwsgi_param UWSGI_SCHEME $http_x_scheme; }", "with the value $scheme"),
    ("location / { fastcgi_pass a:9; fastcgi_param SERVER_NAME $host; fastcgi_param SERVER_SOFTWARE x/$nginx_version; }", ""),
    ("root /srv; location / { if (!-e $request_filename) { rewrite ^/(.*)$ /i.php?q=$1 last; } }", "if"),
    ("root /srv; if (!-e $request_filename) { rewrite ^ /x last; } location /a/ { }", "if"),
    ("root /srv; if (-f $document_root/off.html) { return 503; }", ""),
    ("root /srv; location / { if (-f /srv/off.html) { return 503; } }", ""),
    ("root /srv; if (-f $request_filename) { return 503; }", "if"),
    ("root /srv; if (-f /srv/off.html) { return 404; }", "if"),
    ("location / { proxy_pass http://a; proxy_cookie_flags ~ secure httponly samesite=lax; }", ""),
    ("location / { proxy_pass http://a; proxy_cookie_flags one secure; }", "for all cookies"),
    ("location / { proxy_pass http://a; proxy_cookie_flags ~ nosecure; }", "takes no flag off"),
    ("location / { proxy_pass http://a; proxy_cookie_domain a b; }", "translates their paths"),
    ("location / { proxy_pass http://a; proxy_next_upstream off; }", "repeats no request for `off`"),
    ("location / { proxy_pass http://a; proxy_next_upstream error http_503 non_idempotent; }", "non_"),
    ("location / { proxy_pass http://a; proxy_next_upstream error http_503; }", ""),
    ("location / { proxy_pass https://unix:/run/a; }", "speak HTTP in clear"),
    ("location / { proxy_pass https://a; proxy_ssl_name $host; }", "it needs variables"),
    (
        "location / { proxy_pass http://a; proxy_set_header X-A $uri; }",
        "of variables it knows $host",
    ),
    ("location / { proxy_pass http://a; proxy_set_header Connection keep-alive; }", "itself"),
    ("location / { proxy_pass http://a; proxy_set_header Date x; }", "does not set this field"),
    ("location / { proxy_pass http://a; proxy_set_header Host ''; }", "does not set this field"),
    (
        "location / { proxy_pass http://a; proxy_set_header X-A 1; proxy_set_header x-a 2; }",
        "it sets a field twice",
    ),
    ("location /x/ { proxy_pass http://a/y; }", "both end with a slash"),
    ("location / { try_files $uri @app; root /srv; } ", "there is no location @app"),
    ("root /srv; location / { error_page 404 = @app; }", "there is no location @app"),
    (
        "root /srv; location / { try_files $uri @a; } location @a { fastcgi_pass a:9; }",
        "does not know the script",
    ),
    (
        "root /srv; location / { try_files $uri @a; } location @a { rewrite ^/a/(.*)$ /b/$1 last; }",
        "one of all paths to a page",
    ),
    (
        "root /srv; location / { try_files $uri @a; error_page 404 =200 /x.html; } location @a { proxy_pass http://a; }",
        "so does error_page 404",
    ),
    (
        "root /srv; location / { try_files $uri @a; proxy_pass http://a; } location @a { proxy_pass http://b; }",
        "would lose it",
    ),
    ("root /srv; location ~ ^/(a|b)/ { deny all; }", ""),
    ("root /srv; location ~ ^/(?=a) { deny all; }", "is not a regular expression"),
    ("root /srv; location ~ ^/a { alias /b; }", "no alias"),
    ("root /srv; location ~ ^/a { try_files $uri /b; }", "only $uri =404"),
    ("root /srv; location = /x { root /other; }", ""),
    ("root /srv; location /a/ { allow 10.0.0.0/8; deny 10.1.0.0/16; deny all; }", "overlap"),
    ("root /srv; add_header A b; add_header A c;", "sets a field once"),
    ("root /srv; add_header A $host;", "it needs variables"),
    ("root /srv; add_header X-Cache $upstream_cache_status;", ""),
    ("location / { proxy_pass http://a; proxy_cache_valid 200 1h; }", ""),
    ("location / { proxy_pass http://a; proxy_cache z; proxy_cache_valid any 1h; }", "has no zone z"),
    ("root /srv; error_page 500 =200 /x;", ""),
    (
        "error_page 403 = /no; location = /no { proxy_pass http://a; } location /p/ { root /srv; deny all; }",
        "write =200",
    ),
    (
        "error_page 403 =200 /no; location = /no { proxy_pass http://a; } location /p/ { root /srv; deny all; }",
        "",
    ),
    (
        "location / { proxy_pass http://a; proxy_intercept_errors on; error_page 502 = @down; }
         location @down { root /srv; try_files /down.html =503; }",
        "",
    ),
    (
        "location / { root /srv; limit_rate 1k; if (!-f $request_filename) { proxy_pass http://a; } }",
        "limit_rate",
    ),
    ("root /srv; error_page 500 =700 /x;", "a status from 200 to 599"),
    ("listen 443 ssl; root /srv;", "it listens with ssl, but has no ssl_certificate"),
    ("return 301 /a/b/;", "the rest of the path is appended"),
    ("return 301 $scheme://b.example$request_uri;", ""),
    (
        // A rule of the whole site would precede the guard.
        "root /srv; location ^~ /x/ { deny all; } location ~ ^/a(b)?$|^/x/(.*)$ { return 301 /new/$2; }",
        "cannot translate `return 301 /new/$2`",
    ),
    ("return 301 https://$host.example/;", ""),
    ("return 301 https://$uri;", "of variables it knows"),
    ("root /srv; rewrite ^/a(\\d+)$ /b;", ""),
    ("root /srv; rewrite ^/a(?=b) /b;", "is not a regular expression"),
    ("root /srv; rewrite ^/a$ /b/$uri;", "of variables it knows $1"),
    ("root /srv; rewrite ^/a/(.*)$ /b?c=$1;", ""),
    ("root /srv; auth_basic x;", "auth_basic needs auth_basic_user_file"),
    (
        "root /srv; location / { satisfy any; allow 10.1.0.0/16; deny 10.0.0.0/8; allow all; auth_basic s; auth_basic_user_file /ht; }",
        "with `satisfy any`, write each deny before or behind all allow",
    ),
    (
        "root /srv; location / { try_files $uri @a; } location @a { satisfy any; allow 10.0.0.1; auth_basic s; auth_basic_user_file /ht; proxy_pass http://a; proxy_set_header Host $host; }",
        "cannot translate `satisfy any`: it becomes a condition: hurtle has one mount for a named location",
    ),
    (
        "root /srv; location ^~ /x/ { satisfy any; allow 10.0.0.1; auth_basic s; auth_basic_user_file /ht; } location ~ \\.css$ { }",
        "it becomes a condition: beside regular expressions, a location with ^~ has no conditions",
    ),
    (
        "root /srv; location = /auth { internal; proxy_pass http://d/; } location /x/ { satisfy any; allow 10.0.0.1; auth_request /auth;
         auth_request_set $user $upstream_http_x_user; proxy_set_header X-User $user; proxy_set_header Host $host; proxy_pass http://a; }",
        "an admitted address has none of the fields of auth_request_set",
    ),
    (
        "root /srv; location /docs/ { location /docs/subject/ { } } location /docs/sub { deny all; }",
        "write it outside of the other location",
    ),
    ("root /srv; server_name ~^a;", "names are exact, begin with *. or end with .*"),
    (
        "root /srv; location /api/ { fastcgi_pass unix:/p;
           fastcgi_param SCRIPT_FILENAME $document_root/$arg_a.php; }",
        "finds scripts by their paths",
    ),
    (
        "root /srv; location /app/ { fastcgi_pass unix:/p; fastcgi_param HTTP_HOST $host;
           fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        "",
    ),
    // The index of a directory beneath, which nginx looks up once more.
    (
        "root /srv; location / { } location ~ ^/admin/.*\\.html$ { deny all; }",
        "it also guards /admin/index.html",
    ),
    (
        "root /srv; index index.php; location / { } location ~ ^/(a|b-c)/.+\\.php$ { auth_basic s; auth_basic_user_file /ht;
           } location ~ \\.php$ { fastcgi_pass unix:/p; }",
        "it also guards /a/index.php",
    ),
    (
        "root /srv; location / { } location ~ ^/[a-z]+/index\\.html$ { deny all; }",
        "it also guards /index/index.html",
    ),
    ("root /srv; location / { } location ~ ^/admin/ { deny all; }", ""),
    ("root /srv; location / { } location ~ /\\.ht { deny all; }", ""),
    // A mount of files would send the source.
    (
        "root /srv; location / { try_files $uri /index.php?$args; }
      location /a/ { try_files $uri /a/x.php; } location ~ \\.php$ { fastcgi_pass unix:/p; }",
        "a script answers its paths",
    ),
    (
        "root /srv; location / { try_files $uri /index.php?q=$uri&$args; }
      location ~ \\.php$ { fastcgi_pass unix:/p; }",
        "hurtle gives the script the query of the request",
    ),
    (
        "root /srv; location / { try_files $uri @x; } location @x { rewrite ^(.*)$ /x.php?q=$1 last; }
      location ~ \\.php$ { fastcgi_pass unix:/p; }",
        "in a named location it knows one of all paths to a page",
    ),
    (
        "root /srv; location / { } location ~ ^/index\\.php(/|$) { fastcgi_pass unix:/p; }",
        "write try_files $uri /index.php in location /",
    ),
    (
        "root /srv; location / { try_files $uri /index.php; } location ~ \\.php$ { fastcgi_pass unix:/p;
           fastcgi_param SCRIPT_FILENAME /srv/other.php; }",
        "its SCRIPT_FILENAME is another script",
    ),
    (
        "root /srv; location / { try_files $uri /index.php; } location ~ \\.php$ { internal; fastcgi_pass unix:/p; }",
        "internal",
    ),
    ("root /srv; index index.html; location ~ \\.php$ { fastcgi_pass unix:/p; }", ""),
];

#[test]
fn directives_without_a_counterpart_are_refused() {
    for (server, expected) in ROWS.iter().chain(CONDITIONS) {
        let directives = parse(&format!("server {{ {server} }}"), "nginx.conf").expect(server);
        match (nginx(&directives), *expected) {
            (Ok(_), "") => {}
            (Err(problems), part) if !part.is_empty() => {
                let text = problems.join("\n");
                assert!(text.contains(part), "{server}: expected {part:?} in {text}");
                assert!(text.starts_with("nginx.conf:"), "{server}: {text}");
            }
            (result, _) => panic!("{server}: expected {expected:?}, got {result:?}"),
        }
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "http {\n limit_conn_zone a;\n server {\n root /srv;\n ssi on;\n }\n}";
    let problems = nginx(&parse(text, "a.conf").expect("it parses")).expect_err("two problems");
    let lines: Vec<&str> = problems.iter().map(|p| p.split(": ").next().unwrap_or("")).collect();
    assert_eq!(lines, ["a.conf:2", "a.conf:5"]);
}

#[test]
fn included_files_are_read_in_order_and_named_in_problems() {
    let dir = std::env::temp_dir().join(format!("hurtle-include-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("sites")).expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("a file");
    write("nginx.conf", "http { include mime.types; include sites/*.conf; }");
    write("sites/b.conf", "server { server_name b.example; root /srv/b; }");
    write("sites/a.conf", "server { server_name a.example; root /srv/a; }");
    write("sites/.c.conf", "server {");
    let text = nginx_file(&dir.join("nginx.conf"), &dir, false).expect("it is translated").text;
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
    assert!(place("/srv/a") < place("/srv/b"), "{text}");
    write("sites/b.conf", "server {\n root $host;\n}\n");
    let problems = nginx_file(&dir.join("nginx.conf"), &dir, false).expect_err("a problem");
    let at = format!("{}:2: ", dir.join("sites/b.conf").display());
    assert!(problems.len() == 1 && problems[0].starts_with(&at), "{problems:?}");
    // nginx would find a guard there.
    write("nginx.conf", "server { root /srv; include s*s/a.conf; include [ab].conf; }");
    let problems = nginx_file(&dir.join("nginx.conf"), &dir, false).expect_err("two patterns");
    let is_pattern = |problem: &String| problem.contains("* in the last segment");
    assert!(problems.len() == 2 && problems.iter().all(is_pattern), "{problems:?}");
    write("mime.types", "types { text/x x; } deny all;");
    write("nginx.conf", "server { root /srv; include mime.types; }");
    let text = nginx_file(&dir.join("nginx.conf"), &dir, false).expect("it is translated").text;
    assert!(text.contains("deny = ") && !text.contains("text/x"), "{text}");
    std::os::unix::fs::symlink("nowhere", dir.join("sites/z.conf")).expect("a link");
    write("nginx.conf", "include sites/*.conf;");
    let problems = nginx_file(&dir.join("nginx.conf"), &dir, false).expect_err("a file is missing");
    assert!(problems.iter().any(|problem| problem.contains("z.conf")), "{problems:?}");
    write("nginx.conf", "include nginx.conf;");
    let problems = nginx_file(&dir.join("nginx.conf"), &dir, false).expect_err("a file in itself");
    assert!(problems[0].contains("too many included files"), "{problems:?}");
    let missing =
        nginx_file(Path::new("/nonexistent/nginx.conf"), &dir, false).expect_err("no file");
    assert!(missing[0].starts_with("/nonexistent/nginx.conf: "), "{missing:?}");
    std::fs::remove_dir_all(dir).expect("it is removed");
}

#[test]
fn standard_files_that_are_missing_are_known() {
    let dir = crate::servers::Dir::new();
    let file = dir.0.join("nginx.conf");
    let text = "server { root /srv; location / { try_files $uri $uri/ /index.php; }
        location ~ \\.php$ { include snippets/fastcgi-php.conf; include fastcgi_params;
                             fastcgi_pass unix:/p; }
        location /app/ { include /nowhere/proxy_params; proxy_pass http://a; } }";
    std::fs::write(&file, text).expect("a file");
    let imported = nginx_file(&file, &dir.0, false).expect("it is imported").text;
    assert!(imported.contains("fastcgi = \"unix:/p\""), "{imported}");
    assert!(!imported.contains("the upstream gets the Host"), "proxy_params has it: {imported}");
    std::fs::write(&file, "http { include sites/*.conf; }").expect("a file");
    let problems = nginx_file(&file, &dir.0, false).expect_err("nothing is served");
    assert!(problems[0].contains("nginx.conf: no server is in it"), "{problems:?}");
}

/// The field of the authentication server, which a client of a location without it could write.
#[test]
fn a_location_without_auth_request_removes_its_fields() {
    let text = "server { auth_request /auth; auth_request_set $user $upstream_http_x_user;
        proxy_set_header Host $host; proxy_set_header X-User $user;
        location = /auth { internal; proxy_pass http://127.0.0.1:1; }
        location / { proxy_pass http://127.0.0.1:2; }
        location /open/ { auth_request off; proxy_pass http://127.0.0.1:2; } }";
    let directives = parse(text, "nginx.conf").expect(text);
    let imported = nginx(&directives).expect("an import");
    let open = imported.split("path = \"/open\"").nth(1).expect("the mount");
    assert!(open.contains("remove = [\"x-user\"]"), "{imported}");
}
