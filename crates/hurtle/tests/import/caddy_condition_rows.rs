//! Caddyfiles whose matchers look at more of a request than its path, and the requests whose answers Caddy
//! and hurtle give alike.

use crate::caddy_rows::Row;

pub(super) const CONDITION_ROWS: &[Row] = &[
    Row {
        sentence: "peers, and clients that a proxy names",
        site: "servers {\ntrusted_proxies static 127.0.0.1\n}\n-- site\n\
               @out not remote_ip 127.0.0.0/8\nrespond @out 403\n@peer {\npath /peer\nremote_ip 127.0.0.1 ::1\n}\n\
               respond @peer peer\n@client {\npath /client\nclient_ip 192.0.2.0/24\n}\nrespond @client client\n\
               @far {\npath /far\nremote_ip 192.0.2.0/24\n}\nabort @far\nrespond other",
        requests: &[
            "GET /peer X-Forwarded-For=192.0.2.7",
            "GET /client X-Forwarded-For=192.0.2.7",
            "GET /client X-Forwarded-For=198.51.100.1",
            "GET /client",
            "GET /far X-Forwarded-For=192.0.2.7",
            "GET /x X-Forwarded-For=198.51.100.1",
        ],
    },
    Row {
        sentence: "redirects with the path of the request behind another one",
        site: "redir /x/* https://example.org/new{uri}\nredir /y/* /z{uri} 308\nrespond other",
        requests: &["GET /x/a?b=c", "GET /y/c%20d?e", "POST /y/c", "GET /x", "HEAD /x/"],
    },
    Row {
        sentence: "a target that begins with a group",
        site: "@age path_regexp age ^(\\/.*\\/)age\\/$\nredir @age {http.regexp.age.1}\nrespond other",
        requests: &["GET /a/age/?x", "GET /a/b/age/", "POST /a/age/", "GET /age/", "GET /a/age"],
    },
];
