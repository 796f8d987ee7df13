//! Caddyfiles of one site and the requests whose answers Caddy and hurtle give alike.

/// A site, and requests whose answers are compared.
pub(super) struct Row {
    pub(super) sentence: &'static str,
    /// Inside of the site; `{root}` and `{upstream}` are replaced. Global options may come before
    /// it, until a line `-- site`.
    pub(super) site: &'static str,
    /// Requests: method, target and, after a space each, field lines with `=`.
    pub(super) requests: &'static [&'static str],
}

pub(super) const ROWS: &[Row] = &[
    Row {
        sentence: "a static site",
        site: "root * {root}\nfile_server",
        requests: &[
            "GET /",
            "GET /a.txt",
            "HEAD /a.txt",
            "GET /dir",
            "GET /dir/",
            "GET /none",
            "GET /bare/",
            "POST /a.txt",
            "GET /a.txt Range=bytes=1-2",
            "GET /%61.txt",
            "GET /a.txt?x=1",
        ],
    },
    Row {
        sentence: "a root without a star",
        site: "root {root}\nfile_server",
        requests: &["GET /", "GET /a.txt"],
    },
    Row {
        sentence: "a single-page application",
        site: "root * {root}\ntry_files {path} /index.html\nfile_server",
        requests: &[
            "GET /",
            "GET /route/deep",
            "GET /a.txt",
            "GET /none.js",
            "HEAD /route",
            "GET /dir",
            "GET /dir/",
        ],
    },
    Row {
        sentence: "names without their ending",
        site: "root * {root}\ntry_files {path} {path}.html\nfile_server",
        requests: &["GET /about", "GET /about.html", "GET /none", "GET /", "GET /dir/"],
    },
    Row {
        sentence: "an API beside files",
        site: "handle /api/* {\nreverse_proxy {upstream}\n}\nhandle {\nroot * {root}\nfile_server\n}",
        requests: &[
            "GET /api/users",
            "GET /api/",
            "GET /api",
            "GET /apiary",
            "POST /api/x",
            "GET /a.txt",
            "GET /api/%2B%3B?q=%20",
            "GET /api/../a.txt",
        ],
    },
    Row {
        sentence: "a prefix is taken off",
        site: "handle_path /api/* {\nreverse_proxy {upstream}\n}\nhandle_path /d/* {\nroot * {root}/docs\nfile_server\n}\n\
               handle /e/* {\nuri strip_prefix /e\nreverse_proxy {upstream}\n}",
        requests: &[
            "GET /api/users",
            "GET /api/",
            "GET /api",
            "GET /d/guide.txt",
            "GET /d/none",
            "GET /e/x",
            "GET /none",
        ],
    },
    Row {
        sentence: "longer paths come first, whatever the order",
        site: "reverse_proxy /a/* {upstream}\nrespond /a/b/* deep\nhandle /a/c/* {\nrespond handled\n}\n\
               respond /x short\nrespond /x/y long\nrespond /x/* star",
        requests: &[
            "GET /a/b/c",
            "GET /a/c/d",
            "GET /a/d",
            "GET /x",
            "GET /x/y",
            "GET /x/z",
            "GET /none",
            "POST /none",
        ],
    },
    Row {
        sentence: "fixed answers",
        site: "respond /health ok\nrespond /gone 410\nrespond /text \"hello\\n\" 201\nrespond /json `{\"a\": 1}`\n\
               respond /block 202 {\nbody blocked\nclose\n}\nerror /error 503\nrespond 404",
        requests: &[
            "GET /health",
            "HEAD /health",
            "POST /health",
            "GET /gone",
            "GET /text",
            "GET /json",
            "GET /block",
            "GET /error",
            "GET /",
        ],
    },
    Row {
        sentence: "redirects",
        site: "redir /old /new\nredir /perm /new permanent\nredir /away https://example.org{uri}\n\
               redir /status /new 307\nredir /slash /new/\n@b path /b /b/*\nredir @b https://example.org{uri} 301\n\
               @re path_regexp re ^/blog/(.*)$\nredir @re /news/{re.re.1} 301\nrespond else",
        requests: &[
            "GET /old",
            "GET /old?x=1",
            "GET /perm",
            "GET /away?x=1",
            "GET /away/x",
            "POST /status",
            "GET /slash",
            "GET /b/c?d",
            "GET /blog/x/y",
            "GET /blog",
        ],
    },
    Row {
        sentence: "a site that only redirects",
        site: "redir https://example.org{uri} permanent",
        requests: &["GET /", "GET /a/b?c=d", "POST /x"],
    },
    Row {
        sentence: "a site that redirects to one page",
        site: "redir https://example.org/page/",
        requests: &["GET /", "GET /a/b"],
    },
    Row {
        sentence: "matchers",
        site: "@post method POST PUT\nrespond @post post\n@beta header X-Beta yes\nrespond @beta beta\n\
               @any header X-Any *\nrespond @any any\n@none header !X-Need\nrespond @none none\n\
               @q query a=1 a=2\nrespond @q query\n@not {\nnot path /public/*\npath *.txt *.md\n}\nrespond @not text\n\
               @re path_regexp ^/v[0-9]+/\nrespond @re version\n@local remote_ip 127.0.0.1\nrespond @local local\n\
               @host host a.test\nrespond @host host\nrespond end",
        requests: &[
            "POST /x X-Need=1",
            "GET /x X-Beta=yes X-Need=1",
            "GET /x X-Beta=no X-Need=1",
            "GET /x X-Any=1 X-Need=1",
            "GET /x",
            "GET /x?a=2 X-Need=1",
            "GET /x?a=3 X-Need=1",
            "GET /a.txt X-Need=1",
            "GET /public/a.txt X-Need=1",
            "GET /v2/x X-Need=1",
            "GET /x X-Need=1 Host=a.test",
        ],
    },
    Row {
        sentence: "a matcher with two nots, and one of a block",
        site: "@a {\nnot path /a /a/*\nnot path /b\n}\nrespond @a a\n@c not {\nmethod POST\npath /a\n}\nrespond @c c\nrespond end",
        requests: &["GET /a", "GET /b", "POST /a", "GET /x"],
    },
    Row {
        sentence: "patterns of paths",
        site: "@js path *.js
respond @js js
@end path */end
respond @end end
@mid path *mid*
respond @mid mid
respond /a* a
respond /x/*/y middle
respond none",
        requests: &[
            "GET /abc/d",
            "GET /x.js",
            "GET /d/x.js",
            "GET /q/end",
            "GET /x/1/y",
            "GET /x/1/2/y",
            "GET /z/amidst",
            "GET /zz",
        ],
    },
    Row {
        sentence: "fields of responses",
        site: "root * {root}\nheader X-All all\nheader /docs/* X-Docs docs\n@css path *.css\nheader @css Cache-Control max-age=60\n\
               header /dir/ {\nX-All dir\n-X-Docs\n}\nfile_server",
        requests: &[
            "GET /",
            "GET /docs/guide.txt",
            "GET /docs/none",
            "GET /style.css",
            "GET /docs/style.css",
            "GET /dir/",
            "GET /none.css",
        ],
    },
    Row {
        sentence: "fields that change when the response begins",
        site: "root * {root}\nheader {\nX-All all\n-X-Docs\n}\nheader /docs/* >X-All docs\nheader /docs/* X-Docs docs\n\
               header /dir/* X-All dir\nheader /dir/* ?X-Docs dir\nfile_server",
        requests: &[
            "GET /a.txt",
            "GET /none",
            "GET /docs/guide.txt",
            "GET /docs/none",
            "GET /dir/",
            "GET /dir/none",
        ],
    },
    Row {
        sentence: "the same for an upstream, and for answers",
        site: "header {\nX-All all\n-X-Docs\n-X-Seen\n}\nrespond /fixed 404\nrespond /ok ok\nerror /error 404\nreverse_proxy {upstream}",
        requests: &["GET /fixed", "GET /ok", "GET /error", "GET /x", "GET /deny"],
    },
    Row {
        sentence: "fields within a block, removed ones and defaults",
        site: "handle /api/* {\nheader X-All api\nheader -X-Seen\nreverse_proxy {upstream}\n}\n\
               handle /b/* {\nheader ?X-Seen no\nheader ?X-Docs default\nreverse_proxy {upstream}\n}\n\
               handle /c/* {\nreverse_proxy {upstream} {\nheader_down X-Docs down\nheader_down -X-Seen\n}\n}\nrespond else",
        requests: &["GET /api/x", "GET /b/x", "GET /c/x", "GET /else"],
    },
    Row {
        sentence: "fields for the upstream",
        site: "reverse_proxy {upstream} {\nheader_up Host app.internal\nheader_up X-Own-Host {host}\nheader_up X-Own-Scheme {scheme}\n\
               header_up X-Own-Client {remote_host}\nheader_up X-Own-Agent {http.request.header.User-Agent}\n\
               header_up -X-Own-Gone\nheader_up +X-Own-More more\n}",
        requests: &[
            "GET /x User-Agent=me X-Own-Gone=1",
            "GET /x Host=b.test X-Own-More=mine X-Own-Host=evil User-Agent=me",
        ],
    },
    Row {
        sentence: "the upstream's own name as Host, and a field of a request",
        site: "request_header X-Own-A a\nreverse_proxy {upstream} {\nheader_up Host {upstream_hostport}\n}",
        requests: &["GET /x"],
    },
    Row {
        sentence: "several upstreams with checks, and timeouts",
        site: "reverse_proxy {upstream} {upstream} {\nlb_policy least_conn\nhealth_uri /health\nhealth_interval 10s\nfail_duration 30s\n\
               transport http {\ndial_timeout 3s\nread_timeout 1m30s\n}\n}",
        requests: &["GET /x"],
    },
    Row {
        sentence: "another server decides",
        site: "forward_auth {upstream} {\nuri /check\ncopy_headers X-Seen\n}\nreverse_proxy {upstream}",
        requests: &["GET /x", "GET /y?z"],
    },
    Row {
        sentence: "another server refuses",
        site: "forward_auth {upstream} {\nuri /deny\n}\nreverse_proxy {upstream}",
        requests: &["GET /x"],
    },
    Row {
        sentence: "a password, for the site and for a block",
        site: "handle /open/* {\nrespond open\n}\nhandle {\nbasic_auth {\nanna $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}\nrespond secret\n}",
        requests: &["GET /open/x", "GET /x", "GET /x Authorization=Basic~YW5uYTp3cm9uZw=="],
    },
    Row {
        sentence: "a body that is too large",
        site: "request_body {\nmax_size 10B\n}\nreverse_proxy {upstream}",
        requests: &["GET /x"],
    },
    Row {
        sentence: "an error page",
        site: "root * {root}\nfile_server\nhandle_errors {\n@404 expression {err.status_code} == 404\nrewrite @404 /404.html\nfile_server\n}",
        requests: &["GET /none", "GET /a.txt"],
    },
    Row {
        sentence: "texts of errors, other servers in place of errors, and requests without a response",
        site: "root * {root}\nabort /closed/*\nreverse_proxy /gone/* 127.0.0.1:1\nerror /busy* 503\nfile_server\nhandle_errors 404 {\nrespond \"{err.status_code}: {err.status_text}\"\n}\nhandle_errors 502 {\nreverse_proxy {upstream}\n}\nhandle_errors 503 {\nredir https://example.org/busy\n}",
        requests: &[
            "GET /none",
            "HEAD /none",
            "GET /gone/x?a=b",
            "GET /busy",
            "GET /closed/x",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "one text for all errors",
        site: "root * {root}\nfile_server\nreverse_proxy /gone/* 127.0.0.1:1\nhandle_errors {\nrespond \"sorry\"\n}",
        requests: &["GET /none", "GET /gone/x", "GET /a.txt"],
    },
    Row {
        sentence: "pages of errors that another server has",
        site: "root * {root}\nfile_server\nreverse_proxy /gone/* 127.0.0.1:1\nerror /busy* 503\nhandle_errors 404 502 {\nrewrite * /pages/{err.status_code}.html\nreverse_proxy {upstream} {\nreplace_status {err.status_code}\n}\n}\nhandle_errors 503 {\nrewrite * /busy.html\nreverse_proxy {upstream} {\nreplace_status {err.status_code}\n}\n}",
        requests: &[
            "GET /none",
            "HEAD /none",
            "GET /gone/x",
            "GET /busy",
            "GET /.errors-1/pages/404.html",
            "GET /.errors-2/busy.html",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "a route keeps its order",
        site: "route {\nreverse_proxy /api/* {upstream}\nrespond /api/fixed never\nredir /r https://example.org{uri}\nrespond rest\n}",
        requests: &["GET /api/fixed", "GET /r", "GET /x"],
    },
    Row {
        sentence: "a handle that answers some of its requests",
        site: "handle /x/* {\nrespond /x/a a\n}\nhandle {\nrespond rest\n}",
        requests: &["GET /x/a", "GET /x/b", "GET /y"],
    },
    Row {
        sentence: "addresses that are refused",
        site: "@out not remote_ip 10.0.0.0/8\nrespond @out 403\nreverse_proxy {upstream}",
        requests: &["GET /x"],
    },
    Row {
        sentence: "files, and an application for what is missing",
        site: "root * {root}\n@missing not file\nreverse_proxy @missing {upstream}\nfile_server",
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /none",
            "POST /none?x=1",
            "POST /a.txt",
            "GET /dir/",
            "GET /dir/none",
            "HEAD /none",
        ],
    },
    Row {
        sentence: "a password for some paths, in any case of their letters",
        site: "basic_auth /secret/* {\nanna $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}\n\
               redir /secret/moved /new\nrespond /secret/fixed fixed\nhandle /other/* {\nrespond other\n}\nreverse_proxy {upstream}",
        requests: &[
            "GET /secret/x",
            "GET /SECRET/x",
            "GET /secret",
            "GET /secret/fixed",
            "GET /secret/moved",
            "GET /other/x",
            "GET /x",
            "GET /%53ecret/x",
        ],
    },
    Row {
        sentence: "refused paths, in any case of their letters",
        site: "@closed path /admin* *.php /x/*/y\nrespond @closed 403\nhandle_path /in/* {\nbasic_auth {\nanna $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}\n\
               respond in\n}\nrespond open",
        requests: &[
            "GET /admin",
            "GET /Admin/x",
            "GET /a/b.PHP",
            "GET /X/1/Y",
            "GET /in/x",
            "GET /open",
        ],
    },
    Row {
        sentence: "a password for the site, behind a redirect",
        site: "basic_auth {\nanna $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}\nredir /old /new\nhandle /a {\nrespond a\n}\nrespond b",
        requests: &["GET /old", "GET /a", "GET /b"],
    },
    Row {
        sentence: "a gate and a handler whose paths differ in the case of their letters",
        site: "forward_auth /closed/* {upstream} {\nuri /deny\n}\nhandle /CLOSED/* {\nrespond inside\n}\nrespond outside",
        requests: &["GET /closed/x", "GET /CLOSED/x", "GET /open"],
    },
    Row {
        sentence: "another server decides about some paths",
        site: "forward_auth /closed/* {upstream} {\nuri /deny\n}\nreverse_proxy {upstream}",
        requests: &["GET /closed/x", "GET /CLOSED/x", "GET /open"],
    },
    Row {
        sentence: "a rewrite with a query",
        site: "@wiki path_regexp wiki ^/wiki/([a-z]+)$\nrewrite @wiki /index?title={re.wiki.1}&{query}\nreverse_proxy {upstream}",
        requests: &["GET /wiki/abc?d=e", "GET /other?d=e"],
    },
    Row {
        sentence: "a rewrite to another query, and one that keeps it",
        site: "rewrite /x /y?a=b\nreverse_proxy {upstream}",
        requests: &["GET /x?d=e", "GET /x", "GET /z?d=e"],
    },
    Row {
        sentence: "redirects with and without the query",
        site: "@a path_regexp a ^/a/(.*)$\nredir @a /new/{re.a.1}\n@b path_regexp b ^/b/(.*)$\nredir @b /new/{re.b.1}?{query}\n\
               @c path_regexp c ^/c/([a-z]+)$\nredir @c /new?c={re.c.1}&{query} 301\nrespond else",
        requests: &["GET /a/x?y=z", "GET /a/x", "GET /b/x?y=z", "GET /c/x?y=z", "GET /d"],
    },
    Row {
        sentence: "a rewrite",
        site: "root * {root}\n@old path_regexp old ^/old/(.*)$\nrewrite @old /docs/{re.old.1}\nfile_server",
        requests: &["GET /old/guide.txt", "GET /old/none", "GET /a.txt"],
    },
    Row {
        sentence: "a route whose settings hold behind it",
        site: "route {\nheader X-All route\nrespond /a a\n}\nrespond b",
        requests: &["GET /a", "GET /b"],
    },
    Row {
        sentence: "a snippet with arguments, and a variable of the environment",
        site: "import answers one 201\nrespond /two {$HURTLE_NO_SUCH_VARIABLE:two}",
        requests: &["GET /one", "GET /two", "GET /x"],
    },
];
