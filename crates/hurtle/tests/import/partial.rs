//! `hurtle import --partial`: what cannot be translated is left out with a comment, or closed.

use hurtle::import::nginx_partially;
use hurtle::import::syntax::parse;

/// A configuration, the number of directives left out, and texts that the translation has; one
/// behind `!` it has not.
const ROWS: &[(&str, &str, usize, &[&str])] = &[
    ("a whole one", "server { root /srv; }", 0, &["files = \"/srv\"", "!NOT WHOLE"]),
    (
        "a directive that opens nothing",
        "server { root /srv; sub_filter a b; location /x/ { sub_filter c d; expires 1h; } }",
        2,
        &[
            "# NOT WHOLE. These directives of nginx are not translated:",
            "# - nginx.conf:1: cannot translate `sub_filter a b`: it needs changes of bodies. It is left out.",
            "files = \"/srv/x\"",
            "!403",
        ],
    ),
    (
        "the conditions of a cache, and with them the cache",
        "http { proxy_cache_path /d keys_zone=y:1m; proxy_cache y;
           server { location /a/ { proxy_pass http://a; } location /b/ { proxy_pass http://b; proxy_no_cache $skip; } } }",
        1,
        &["GET /a/ is stored for each Host", "`proxy_no_cache $skip`", "!GET /b/ is stored", "!403"],
    ),
    (
        "a location within an internal one",
        "server { root /srv; location /x/ { internal; location ~ \\.pdf$ { expires 1h; } } }",
        1,
        &[
            "path = \"/x\"\nrespond = \"\"\nstatus = 403",
            "match = { regex = \"\\\\.pdf$\" }\nrespond = \"\"\nstatus = 403",
        ],
    ),
    (
        "a guard of a location",
        "server { root /srv; location /x/ { limit_except GET { deny all; } allow 10.0.0.0/8; deny all; } }",
        1,
        &[
            "`limit_except GET`",
            "Its location answers 403.",
            "path = \"/x\"\nrespond = \"\"\nstatus = 403",
            "files = \"/srv\"",
        ],
    ),
    (
        "of one path, of an expression, and of a name",
        "server { root /srv; location = /x { limit_except GET { deny all; } }
           location ~ \\.key$ { secure_link $a; } location / { try_files $uri @a; }
           location @a { proxy_pass http://a; proxy_set_header X-User $ssl_client_i_dn; } }",
        3,
        &[
            "path = \"/x\"\nexact = true\nrespond = \"\"\nstatus = 403",
            "match = { regex = \"\\\\.key$\" }\nrespond = \"\"\nstatus = 403",
            "name = \"a\"\nrespond = \"\"\nstatus = 403",
            "!proxy =",
        ],
    ),
    (
        "a directive that nobody knows",
        "server { root /srv; location /x/ { geoip_country /x; } location /y/ { root /y; } }",
        1,
        &["path = \"/x\"\nrespond = \"\"\nstatus = 403", "files = \"/y/y\""],
    ),
    (
        "a guard of a server, beside another server",
        "server { server_name a; root /srv; auth_basic $x; location /y/ { root /y; } }
         server { server_name b; root /b; }",
        1,
        &["Its server answers 403.", "hosts = \"a\"", "files = \"/b\"", "!/srv", "!/y"],
    ),
    (
        "a guard of all servers",
        "http { auth_basic_user_file $host; server { server_name a; root /a; } server { server_name b; root /b; } }",
        1,
        &["!files =", "status = 403"],
    ),
    (
        "a condition, and a variable of a map",
        "map $a $b { x y; } server { root /srv; location /x/ { if ($b) { return 403; } }
           location /y/ { add_header X-A $b; } }",
        3,
        &["path = \"/x\"\nrespond = \"\"", "path = \"/y\"\nfiles = \"/srv/y\"", "!set ="],
    ),
    (
        "an upstream that cannot be written",
        "upstream app { server a:1 service=b; } server { root /srv; location /x/ { proxy_pass http://app; } }",
        1,
        &["path = \"/x\"\nrespond = \"\"\nstatus = 403", "!proxy ="],
    ),
    (
        "a location within another one",
        "server { root /srv; location /x/ { alias /srv/z/; location /x/y/ { deny all; } } }",
        1,
        &["path = \"/x\"\nrespond = \"\"\nstatus = 403"],
    ),
    (
        "other protocols",
        "stream { server { listen 1; } } server { root /srv; }",
        1,
        &["files = \"/srv\"", "`stream`"],
    ),
];

#[test]
fn what_cannot_be_translated_is_left_out_or_closed() {
    let mut faults = Vec::new();
    for (sentence, text, left_out, parts) in ROWS {
        let parsed = parse(text, "nginx.conf").expect(text);
        let imported = match nginx_partially(&parsed) {
            Ok(imported) => imported,
            Err(problems) => {
                faults.push(format!("{sentence}: {}", problems.join("\n")));
                continue;
            }
        };
        // Comments are broken at spaces.
        let joined = imported.text.replace("\n#  ", "");
        if imported.left_out != *left_out {
            faults.push(format!("{sentence}: {} left out:\n{joined}", imported.left_out));
        }
        for part in *parts {
            let (part, expected) = match part.strip_prefix('!') {
                Some(part) => (part, false),
                None => (*part, true),
            };
            if joined.contains(part) != expected {
                faults.push(format!("{sentence}: {part}:\n{joined}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn what_is_not_a_configuration_is_refused_as_without() {
    let rows = [
        "server { listen 127.0.0.1:x; root /srv; }",
        "events { }",
        "server { listen 80 weird; root /srv; }",
    ];
    for text in rows {
        let parsed = parse(text, "nginx.conf").expect(text);
        assert!(nginx_partially(&parsed).is_err(), "{text}");
    }
}
