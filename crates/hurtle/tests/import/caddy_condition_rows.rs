//! Caddyfiles whose matchers look at more of a request than its path, and the requests whose
//! answers Caddy and hurtle give alike.

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
        sentence: "fields by expressions, several exclusions, the scheme, and comparisons",
        site: "@bot header_regexp User-Agent (?i)(bot|crawl)\nrespond @bot 403\n\
               @cache {\nnot header_regexp Cookie \"wp-[a-z]+|logged_in\"\nnot method POST\nnot expression {query} != ''\n\
               not path /admin/*\nnot path /x\n}\nrespond @cache cached\n@q expression {method} == 'DELETE'\nrespond @q 405\n\
               @tls protocol https\nrespond @tls secret\n@clear protocol http\nrespond @clear clear",
        requests: &[
            "GET /a User-Agent=Crawler",
            "GET /a User-Agent=me",
            "GET /a Cookie=a=b;~wp-settings=1",
            "POST /a",
            "GET /a?b",
            "GET /a?",
            "GET /admin/x",
            "GET /x",
            "DELETE /a?b",
        ],
    },
    Row {
        sentence: "redirects to the requested host",
        site: "@www header X-Www yes\nredir @www https://www.{host}{uri} permanent\nredir /p/* {scheme}://{hostport}/q{uri}\n\
               redir /login https://sso.example/?to={scheme}://{host}{uri}\nrespond other",
        requests: &[
            "GET /a/b%20c?d=e Host=a.test X-Www=yes",
            "GET /p/x?y Host=a.test:81",
            "GET /login?a Host=a.test",
            "GET /x",
        ],
    },
    Row {
        sentence: "redirects where no file is",
        site: "root * {root}\n@old {\npath_regexp old ^/docs/(.*)\\.txt$\nnot file\n}\nredir @old https://b.example/posts/{re.old.1} 301\nfile_server",
        requests: &[
            "GET /docs/guide.txt",
            "GET /docs/none.txt",
            "GET /docs/none",
            "GET /a.txt",
            "GET /",
        ],
    },
    Row {
        sentence: "a page of the site's directory, before an application that does not respond",
        site: "root * {root}\nreverse_proxy 127.0.0.1:1\nhandle_errors {\nrewrite * /404.html\nfile_server\n}",
        requests: &["GET /", "GET /x", "HEAD /x"],
    },
    Row {
        sentence: "the same beside files of some paths",
        site: "root * {root}\n@style path *.css\nfile_server @style\nreverse_proxy 127.0.0.1:1\nhandle_errors {\n\
               rewrite * /404.html\nfile_server\n}",
        requests: &["GET /x", "GET /style.css"],
    },
    Row {
        sentence: "texts of all errors and, behind them, of one",
        site: "root * {root}\nfile_server\nreverse_proxy /gone/* 127.0.0.1:1\nhandle_errors {\nrespond \"other\"\n}\n\
               handle_errors 404 {\nrespond \"none\"\n}",
        requests: &["GET /none", "GET /gone/x"],
    },
    Row {
        sentence: "pages of errors in another directory",
        site: "root * {root}/docs\nfile_server\nreverse_proxy /gone/* 127.0.0.1:1\nhandle_errors {\n@404 expression {err.status_code} == 404\n\
               handle @404 {\nroot * {root}\nrewrite * /404.html\nfile_server\n}\nhandle {\nroot * {root}\nrewrite * /about.html\nfile_server\n}\n}",
        requests: &["GET /none", "GET /guide.txt", "GET /gone/x", "HEAD /none"],
    },
    Row {
        sentence: "a text of several lines with a status behind it, and names that are hidden anyway",
        site: "root * {root}\nrespond /h <<HTML\n\t<b>one</b>\n\t two\n\tHTML 201\nfile_server {\nhide .git .hidden\n}",
        requests: &["GET /h", "GET /.hidden", "GET /a.txt"],
    },
    Row {
        sentence: "a target that begins with a group",
        site: "@age path_regexp age ^(\\/.*\\/)age\\/$\nredir @age {http.regexp.age.1}\nrespond other",
        requests: &["GET /a/age/?x", "GET /a/b/age/", "POST /a/age/", "GET /age/", "GET /a/age"],
    },
    Row {
        sentence: "other paths for the handlers of blocks",
        site: "handle /api/* {\nrewrite * /v1{uri}\nreverse_proxy {upstream}\n}\n\
               handle_path /old/* {\nrewrite * /new{path}\nreverse_proxy {upstream}\n}\n\
               handle /one {\nrewrite * /other/page\nreverse_proxy {upstream}\n}\n\
               handle_path /d/* {\nroot * {root}\nrewrite * /docs{uri}\nfile_server\n}\n\
               handle {\nroot * {root}\nrewrite * /about.html\nfile_server\n}",
        requests: &[
            "GET /api/x%20y?a=b",
            "POST /api/",
            "GET /old/x?a=b",
            "GET /old/",
            "GET /old",
            "GET /one?a=b",
            "GET /d/guide.txt?a",
            "GET /d/none",
            "GET /",
            "GET /dir/",
            "GET /none",
            "HEAD /a.txt",
            "HEAD /api/x",
        ],
    },
    Row {
        sentence: "a prefix that is taken off, and a redirect of the upstream",
        site: "handle_path /api/* {\nreverse_proxy {upstream}\n}\nreverse_proxy {upstream}",
        requests: &["HEAD /api/count/302", "HEAD /count/303"],
    },
    Row {
        sentence: "files by other names, beside an application and answers",
        site: "root * {root}\ntry_files {path} {path}.html {path}/index.html\nreverse_proxy /api/* {upstream}\n\
               handle /b/* {\nreverse_proxy {upstream}\n}\nrespond /health ok\nfile_server",
        requests: &[
            "GET /about",
            "GET /api/x",
            "POST /b/x",
            "GET /health",
            "GET /none",
            "GET /dir/",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "a single-page application with refused paths",
        site: "root * {root}\ntry_files {path} /index.html\nrespond /docs/secret/* 403\n@never path_regexp ^\\.\n\
               handle @never {\nrespond hidden 403\n}\nfile_server",
        requests: &["GET /docs/secret/key.txt", "GET /route", "GET /a.txt"],
    },
    Row {
        sentence: "fields by conditions of a request",
        site: "root * {root}\n@cors header Origin https://a.test\nheader @cors X-All cors\n\
               @post {\nmethod POST\npath /api/*\n}\nheader @post {\nX-Docs post\nCache-Control no-store\n}\n\
               header X-Other all\nreverse_proxy /api/* {upstream}\nhandle /b/* {\n@q query a=1\nheader @q X-Seen query\n\
               respond b\n}\nfile_server",
        requests: &[
            "GET /a.txt",
            "GET /a.txt Origin=https://a.test",
            "GET /none Origin=https://a.test",
            "POST /api/x",
            "POST /api/x Origin=https://a.test",
            "GET /api/x Origin=https://a.test",
            "GET /b/x?a=1",
            "GET /b/x?a=1 Origin=https://a.test",
            "GET /b/x",
        ],
    },
    Row {
        sentence: "a status that is none",
        site: "respond /x 400 \"Bad request\"\nrespond else",
        requests: &["GET /x", "GET /y"],
    },
    Row {
        sentence: "fields of requests that are set and taken back",
        site: "request_header X-Own-A a\nreverse_proxy /one/* {upstream} {\nheader_up -X-Own-A\n}\nreverse_proxy {upstream} {\n\
               header_up X-Own-B b\nheader_up -X-Own-B\nheader_up Host {host}\n}",
        requests: &["GET /one/x", "GET /two", "GET /two X-Own-B=c", "GET /two Host=site.test:81"],
    },
    Row {
        sentence: "fields by path and method, beside a rewrite in a block",
        site: "@a {\npath /api/*\nmethod GET\n}\nheader @a X-Seen api\nhandle /legacy/* {\nrewrite * /new{uri}\n\
               reverse_proxy {upstream}\n}\nreverse_proxy {upstream}",
        requests: &["GET /api/x", "POST /api/x", "GET /legacy/x"],
    },
    Row {
        sentence: "a redirect of a block to a directory",
        site: "handle /old/* {\nredir * /new/ 301\n}\nhandle {\nrespond else\n}",
        requests: &["GET /old/x", "GET /x", "GET /"],
    },
    Row {
        sentence: "a page for a server that cannot decide",
        site: "forward_auth 127.0.0.1:1 {\nuri /verify\n}\nrespond ok\nhandle_errors 502 {\nrespond \"no login now\" 502\n}",
        requests: &["GET /", "GET /x"],
    },
    Row {
        sentence: "the last of two roots that stand together",
        site: "root * {root}/docs\nroot * {root}\nroute /docs/* {\nroot * {root}/dir\nroot * {root}\nfile_server\n}\nfile_server",
        requests: &["GET /a.txt", "GET /guide.txt", "GET /docs/guide.txt"],
    },
    Row {
        sentence: "a text of one error, and a page of the others",
        site: "root * {root}\nfile_server\nreverse_proxy /gone/* 127.0.0.1:1\nhandle_errors {\n@404 expression {err.status_code} == 404\n\
               rewrite * /about.html\nrespond @404 none\nfile_server\n}",
        requests: &["GET /none", "GET /gone/x", "GET /a.txt"],
    },
    Row {
        sentence: "pages of errors in a directory of their files",
        site: "root * {root}/docs\nfile_server\nhandle_errors {\nrewrite * /404.html\nfile_server {\nroot {root}\n}\n}",
        requests: &["GET /none", "GET /guide.txt"],
    },
];
