//! Caddyfiles whose gates, hidden files or fields an import must not lose.

use hurtle::import::caddy::caddy;

use crate::caddy_table::without_comments;

/// A sentence, a Caddyfile, and the beginning of a refusal.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "a refusal of a path with a variable",
        ":80 {\n@a path {$ADMIN:/admin}/*\nrespond @a 403\nrespond ok\n}",
        "Caddyfile:2: cannot translate `@a path {env.ADMIN:/admin}/*`: `path {env.ADMIN:/admin}/*`: a path or name of a condition is fixed",
    ),
    (
        "a path that Caddy reads when a request comes",
        ":80 {\n@a path {env.ADMIN}/*\nrespond @a 403\nrespond ok\n}",
        "Caddyfile:2: cannot translate `@a path {env.ADMIN}/*`: `path {env.ADMIN}/*`: a path or name",
    ),
    (
        "an exception of a path with a variable",
        ":80 {\n@a not path /{$OPEN:open}/*\nrespond @a 403\nrespond ok\n}",
        "Caddyfile:2: cannot translate `@a not path /{env.OPEN:open}/*`: `not path /{env.OPEN:open}/*`: a path or name",
    ),
    (
        "a password in a block of a path with a variable",
        ":80 {\nhandle /{$P:admin}/* {\nbasic_auth {\nanna $2a$14$x\n}\nrespond secret\n}\nreverse_proxy app:1\n}",
        "Caddyfile:2: cannot translate `handle /{env.P:admin}/*`: a path or name of a condition is fixed",
    ),
    (
        "a password of a path with a variable, before a block",
        ":80 {\nbasic_auth /{$A:admin}/* {\nanna $2a$14$x\n}\nhandle /admin/* {\nreverse_proxy app:1\n}\n}",
        "Caddyfile:2: cannot translate `basic_auth /{env.A:admin}/*`: a path or name of a condition is fixed",
    ),
    (
        "a block whose path begins with a variable",
        ":80 {\nroot * /srv\nhandle {$PUB:/public}/* {\nfile_server\n}\nhandle {\nrespond 403\n}\n}",
        "Caddyfile:3: cannot translate `handle {env.PUB:/public}/*`: a path or name of a condition is fixed",
    ),
    (
        "a route of a path that is a variable",
        ":80 {\nroute {$PUB} {\nrespond open\n}\nrespond 403\n}",
        "Caddyfile:2: cannot translate `route {env.PUB}`: {env.PUB} is no matcher",
    ),
    (
        "an end of requests of a path that is a variable",
        ":80 {\nabort {$PUB}/x\nrespond ok\n}",
        "Caddyfile:2: cannot translate `abort {env.PUB}/x`: {env.PUB}/x is no matcher",
    ),
    (
        "a refusal of a path that is a variable",
        ":80 {\nrespond {$CLOSED:/closed} 403\nrespond ok\n}",
        "Caddyfile:2: cannot translate `respond {env.CLOSED:/closed} 403`: a path or name of a condition is fixed",
    ),
    (
        "a status that is a variable",
        ":80 {\nrespond /closed {$CODE:403}\nrespond ok\n}",
        "Caddyfile:2: cannot translate `respond /closed {env.CODE:403}`: a status has no variable",
    ),
    (
        "a status of an error that is a variable",
        ":80 {\nerror /closed closed {$CODE}\nrespond ok\n}",
        "Caddyfile:2: cannot translate `error /closed closed {env.CODE}`: its second word is a status",
    ),
    (
        "a parameter whose name is a variable",
        ":80 {\n@m query {$K:token}=x\nrespond @m 405\nrespond ok\n}",
        "Caddyfile:2: cannot translate `@m query {env.K:token}=x`: `query {env.K:token}=x`: a path or name",
    ),
    (
        "a field whose name is a variable",
        ":80 {\n@m header !{$K:X-Key}\nrespond @m 403\nrespond ok\n}",
        "Caddyfile:2: cannot translate `@m header !{env.K:X-Key}`: `header !{env.K:X-Key}`: a path or name",
    ),
    (
        "a method that is a variable",
        ":80 {\n@m method {$M:POST}\nrespond @m 405\nrespond ok\n}",
        "Caddyfile:2: cannot translate `@m method {env.M:POST}`: `method {env.M:POST}`: the methods of a condition",
    ),
    (
        "a script of an upstream that try_files finds",
        ":80 {\nroot * /srv\ntry_files {path} {path}.php\n@php path *.php\nreverse_proxy @php app:1\nfile_server\n}",
        "Caddyfile:3: cannot translate `try_files {path} {path}.php`: in Caddy `reverse_proxy @php app:1` gets the path of {path}.php",
    ),
    (
        "a script of an upstream that is an index",
        ":80 {\nroot * /srv\ntry_files {path} {path}/index.php\n@php path *.PHP\nhandle @php {\nreverse_proxy app:1\n}\nfile_server\n}",
        "Caddyfile:3: cannot translate `try_files {path} {path}/index.php`: in Caddy `handle @php` gets the path of {path}/index.php",
    ),
    (
        "a second try_files, for what the first has found",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\ntry_files {path} /index.html\nfile_server\n}",
        "Caddyfile:4: cannot translate `try_files {path} /index.html`: Caddy looks for the path",
    ),
    (
        "a later root of a route, which Caddy skips",
        ":80 {\nroute {\nroot * /srv/a\nfile_server /x/*\nroot * /srv/b\nfile_server\n}\n}",
        "Caddyfile:5: cannot translate `root * /srv/b`: Caddy skips it",
    ),
    (
        "a page of errors that a script makes",
        ":80 {\nroot * /srv\nreverse_proxy app:1\nhandle_errors {\nrewrite * /error.php\nphp_fastcgi unix//run/php.sock\n}\n}",
        "Caddyfile:5: cannot translate `rewrite * /error.php`: of errors it knows a page whose only handler is file_server",
    ),
    (
        "a page of one error that another server has",
        ":80 {\nroot * /srv\nfile_server\nhandle_errors {\n@404 expression {err.status_code} == 404\nrewrite @404 /not-found\nreverse_proxy errors:3001\n}\n}",
        "Caddyfile:6: cannot translate `rewrite @404 /not-found`: of errors it knows a page whose only handler is file_server",
    ),
    (
        "a page of one error that another server of a block has",
        ":80 {\nroot * /srv\nfile_server\nhandle_errors {\n@404 expression {err.status_code} == 404\nhandle {\nrewrite @404 /not-found\nreverse_proxy errors:3001\n}\n}\n}",
        "Caddyfile:7: cannot translate `rewrite @404 /not-found`: of errors it knows a page whose only handler is file_server",
    ),
    (
        "a text of errors of some paths, by a matcher of the site",
        ":80 {\n@api path /api/*\nreverse_proxy app:1\nhandle_errors {\nrespond @api none\nrespond other\n}\n}",
        "Caddyfile:5: cannot translate `respond @api none`: of conditions of errors it knows those of statuses",
    ),
    (
        "pages of errors with a status of their own",
        ":80 {\nroot * /srv\nfile_server\nhandle_errors {\nrewrite * /404.html\nfile_server {\nstatus 200\n}\n}\n}",
        "Caddyfile:7: cannot translate `status 200`: the files of errors have no such setting",
    ),
    (
        "a directory for some errors",
        ":80 {\nroot * /srv\nfile_server\nhandle_errors {\n@404 expression {err.status_code} == 404\nroot @404 /pages\nrewrite * /e.html\nfile_server\n}\n}",
        "Caddyfile:6: cannot translate `root @404 /pages`: for some errors the directory is one of a `handle`",
    ),
    (
        "a proxy between a site and its upstream",
        ":80 {\nreverse_proxy app:1 {\ntransport http {\nnetwork_proxy url http://proxy:3128\n}\n}\n}",
        "Caddyfile:4: cannot translate `network_proxy url http://proxy:3128`: hurtle's proxy has no such setting",
    ),
    (
        "a refusal by an expression of files that try_files finds",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\n@a path_regexp ^/(admin|secret)\\.html\nrespond @a 403\nfile_server\n}",
        "Caddyfile:3: cannot translate `try_files {path} {path}.html`: in Caddy `respond @a 403` refuses",
    ),
    (
        "a refusal of a name with any ending that try_files finds",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\nrespond /admin.* 403\nfile_server\n}",
        "Caddyfile:3: cannot translate `try_files {path} {path}.html`: in Caddy `respond /admin.* 403` refuses",
    ),
    (
        "a refusal of a file that try_files finds",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\nrespond /admin.html 403\nfile_server\n}",
        "Caddyfile:3: cannot translate `try_files {path} {path}.html`: in Caddy `respond /admin.html 403` refuses",
    ),
    (
        "a refusal of the page of a directory",
        ":80 {\nroot * /srv\ntry_files {path} {path}/index.html\nhandle /private/index.html {\nabort\n}\nfile_server\n}",
        "Caddyfile:3: cannot translate `try_files {path} {path}/index.html`: in Caddy `handle /private/index.html` refuses",
    ),
    (
        "files of another root beside scripts of a directory",
        ":80 {\nroot * /srv/app\nphp_fastcgi /api/* unix//run/php.sock\nfile_server {\nroot /srv/app/public\n}\n}",
        "Caddyfile:5: cannot translate `root /srv/app/public`: files beside scripts",
    ),
    (
        "a server that decides behind a rewrite",
        ":80 {\nrewrite /old/* /new\nforward_auth a:1 {\nuri /verify\n}\nreverse_proxy app:1\n}",
        "Caddyfile:3: cannot translate `forward_auth a:1`: in Caddy it gets the new path",
    ),
    (
        "a server that decides about fields that are removed before",
        ":80 {\nroute {\nrequest_header -X-User\nforward_auth a:1 {\nuri /verify\n}\nreverse_proxy app:1\n}\n}",
        "Caddyfile:4: cannot translate `forward_auth a:1`: in Caddy it gets the fields",
    ),
    (
        "files that are hidden beside scripts",
        ":80 {\nroot * /srv/app\nphp_fastcgi unix//run/php.sock\nfile_server {\nhide composer.json *.sql\n}\n}",
        "Caddyfile:5: cannot translate `hide composer.json *.sql`: files beside scripts",
    ),
    (
        "a condition on a field that a server has decided",
        ":80 {\nforward_auth a:1 {\nuri /verify\ncopy_headers Remote-Groups\n}\n@admin header Remote-Groups *admins*\nhandle @admin {\nreverse_proxy admin:1\n}\nhandle {\nreverse_proxy app:1\n}\n}",
        "Caddyfile:7: cannot translate `handle @admin`: Caddy compares Remote-Groups once",
    ),
    (
        "a condition on a field that is removed before",
        ":80 {\nrequest_header -X-Internal\n@int not header X-Internal no\nhandle @int {\nrespond inner\n}\nrespond else\n}",
        "Caddyfile:4: cannot translate `handle @int`: Caddy compares X-Internal once",
    ),
    (
        "a directory for each host",
        ":80 {\nfile_server {\nroot /srv/{host}\n}\n}",
        "Caddyfile:2: cannot translate `file_server`: a directory of hurtle is the same",
    ),
    (
        "fields of a block before a redirect that is a rule",
        ":80 {\nhandle /blog/* {\nheader Cache-Control no-store\n@p path_regexp p ^/blog/(.*)$\nredir @p /news/{re.p.1} 301\n}\nrespond else\n}",
        "Caddyfile:5: cannot translate `redir @p /news/{re.p.1} 301`: a rule of hurtle has no fields",
    ),
    (
        "fields by path and method before a rewrite",
        ":80 {\n@a {\npath /old\nmethod GET\n}\nheader @a X-Old 1\nrewrite /old /new\nreverse_proxy app:1\n}",
        "Caddyfile:7: cannot translate `rewrite /old /new`: fields before it",
    ),
    (
        "another root of files beside scripts",
        ":80 {\nroot * /srv/app\nphp_fastcgi unix//run/php.sock\nfile_server {\nroot /srv/app/public\n}\n}",
        "Caddyfile:5: cannot translate `root /srv/app/public`: files beside scripts",
    ),
    (
        "another root of scripts beside files",
        ":80 {\nroot * /srv/app/public\nphp_fastcgi php:9000 {\nroot /srv/app\n}\nfile_server\n}",
        "Caddyfile:3: cannot translate `php_fastcgi php:9000`: scripts and files have one directory",
    ),
    (
        "a handle without an answer in a route before files",
        ":80 {\nroot * /srv\nroute /a/* {\nhandle /a/b/* {\nheader X-A 1\n}\n}\nfile_server\n}",
        "Caddyfile:4: cannot translate `handle /a/b/*`: a request that its block does not answer",
    ),
    (
        "a public name with client certificates and the local authority",
        "{\nlocal_certs\n}\nintern.example.org {\ntls {\nclient_auth {\nmode require_and_verify\ntrusted_ca_cert_file /ca.pem\n}\n}\nrespond ok\n}",
        "Caddyfile:5: cannot translate `tls`: intern.example.org: the local authority",
    ),
    (
        "client certificates without certificates",
        "{\nauto_https off\n}\nhttps://a.org {\ntls {\nclient_auth {\nmode require_and_verify\ntrusted_ca_cert_file /ca.pem\n}\n}\nrespond ok\n}",
        "Caddyfile:5: cannot translate `tls`: it has TLS and no certificate",
    ),
    (
        "pages of errors by path",
        ":80 {\nroot * /srv\nfile_server\nhandle_errors {\nhandle /api/* {\nrespond api\n}\nhandle {\nrespond other\n}\n}\n}",
        "Caddyfile:5: cannot translate `handle /api/*`: of errors it knows pages of statuses",
    ),
    (
        "a page of some paths before a server that has it",
        ":80 {\nroot * /srv\nfile_server\nhandle_errors {\nrewrite /api/* /err.html\nreverse_proxy app:3000\n}\n}",
        "Caddyfile:5: cannot translate `rewrite /api/* /err.html`: of errors it knows pages of statuses",
    ),
    (
        "a password for a file that try_files finds",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\nbasic_auth /admin.html {\nanna $2a$14$x\n}\nfile_server\n}",
        "Caddyfile:3: cannot translate `try_files {path} {path}.html`: `basic_auth /admin.html` gets",
    ),
    (
        "a server that decides about a file that try_files finds",
        ":80 {\nroot * /srv\ntry_files {path} {path}/index.html /404.html\nforward_auth /private/* a:1 {\nuri /auth\n}\nfile_server\n}",
        "Caddyfile:3: cannot translate `try_files {path} {path}/index.html /404.html`: `forward_auth /private/* a:1` gets",
    ),
    (
        "scripts without the files beside them",
        ":80 {\nroot * /srv/app\nphp_fastcgi unix//run/php.sock\nfile_server /static/*\n}",
        "Caddyfile:3: cannot translate `php_fastcgi unix//run/php.sock`: the mount of scripts serves files",
    ),
    (
        "a redirect with groups in a block behind another",
        ":80 {\nhandle /api/* {\nreverse_proxy a:1\n}\nhandle {\n@h path_regexp h ^/(.*)\\.html$\nredir @h /{re.h.1} 301\nfile_server\n}\n}",
        "Caddyfile:7: cannot translate `redir @h /{re.h.1} 301`: rules of hurtle precede its mounts",
    ),
    (
        "a redirect with groups behind a refusal",
        ":80 {\nroute {\nrespond /private/* 403\n@h path_regexp h ^/(.*)\\.html$\nredir @h /{re.h.1} 301\nfile_server\n}\n}",
        "Caddyfile:5: cannot translate `redir @h /{re.h.1} 301`: rules of hurtle precede its mounts",
    ),
];

/// A sentence, a Caddyfile, and a part of its configuration.
const TRANSLATED: &[(&str, &str, &str)] = &[
    (
        "variables in directories, values and upstreams",
        ":80 {\nroot * {$WWW:/srv}\nheader X-A {env.A}\n@a header X-Key {$KEY}\nreverse_proxy @a {$APP:a:1}\nfile_server\n}",
        "match = { header = { X-Key = [\"{env.KEY}\"] } }\nproxy = \"http://{env.APP:a:1}\"",
    ),
    (
        "an upstream of a directory by an expression, beside try_files",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\n@api path_regexp ^/api/(.*)$\nreverse_proxy @api a:1\nfile_server\n}",
        "proxy = \"http://a:1\"",
    ),
    (
        "an upstream of several directories by an expression, beside try_files",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\n@api path_regexp ^/(api|admin)/v\\d+/\nreverse_proxy @api a:1\nfile_server\n}",
        "proxy = \"http://a:1\"",
    ),
    (
        "files of the configuration beneath a root with a variable, for some paths",
        ":80 {\nroot * {$WWW:/srv}\n@docs path /docs/* *.txt\nfile_server @docs\nfile_server\n}",
        "match = { path = [\"/docs/**\", \"*.txt\"], regex = \"^(?:.*/Caddyfile)$\" }\nrespond = \"\"\nstatus = 404",
    ),
    (
        "names with a dot that are refused beside try_files",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\n@hidden path_regexp /\\.\nrespond @hidden 404\nfile_server\n}",
        "status = 404",
    ),
    (
        "a server that decides beside a rewrite of another path",
        ":80 {\nrewrite /favicon.ico /static/favicon.ico\nforward_auth /admin/* a:1 {\nuri /verify\n}\nreverse_proxy app:1\n}",
        "auth = \"forward\"",
    ),
    (
        "a refusal of a directory beside try_files",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\nrespond /private/* 403\nfile_server\n}",
        "status = 403",
    ),
    (
        "files beside scripts, compressed and without names with a dot",
        ":80 {\nroot * /srv/app\nphp_fastcgi unix//run/php.sock\nfile_server {\nprecompressed\nhide .git\n}\n}",
        "fastcgi = \"unix:/run/php.sock\"",
    ),
    (
        "files with an index beside scripts of a directory",
        ":80 {\nroot * /srv\nphp_fastcgi /app/* unix//run/php.sock\nfile_server {\nindex home.html\n}\n}",
        "index = [\"home.html\"]",
    ),
    (
        "a password for a method beside try_files",
        ":80 {\nroot * /srv\ntry_files {path} {path}.html\n@post method POST\nbasic_auth @post {\nanna $2a$14$x\n}\nfile_server\n}",
        "auth = \"basic\"",
    ),
    (
        "fields that scripts get and do not get",
        ":80 {\nroot * /srv/app\nrequest_header -X-User\nrequest_header X-App a\nphp_fastcgi unix//run/php.sock\nfile_server\n}",
        "request_fields = { set = { X-App = \"a\" }, remove = [\"X-User\"] }",
    ),
    (
        "exceptions of paths, in any case of letters and in all segments",
        ":80 {\n@public not path /admin/* *secret*\nhandle @public {\nreverse_proxy a:1\n}\nhandle {\nrespond 403\n}\n}",
        "match = { not = { regex = \"(?i)^(?:/admin/.*|/.*secret.*)$\" } }",
    ),
    (
        "a redirect with groups beside another path",
        ":80 {\nhandle /api/* {\nreverse_proxy a:1\n}\nhandle /old/* {\n@h path_regexp h ^/old/(.*)\\.html$\nredir @h /{re.h.1} 301\nrespond a\n}\n}",
        "[[site.rule]]",
    ),
    (
        "a redirect of a site, without those of Caddy",
        "{\nauto_https disable_redirects\n}\nhttp://a.org {\nredir https://{host}{uri}\n}\na.org {\nrespond a\n}",
        "redirect = \"https://a.org/\"",
    ),
    (
        "a redirect of some paths",
        "http://a.org {\nredir /old/* https://{host}{uri}\n}\nb.org {\nrespond a\n}",
        "redirect = \"https://a.org/\"",
    ),
    (
        "one name in clear beside it with TLS",
        "http://a.org {\nrespond clear\n}\na.org {\nrespond tls\n}",
        "certificate = \"auto\"\nredirect = false",
    ),
    (
        "one of two names in clear beside it with TLS",
        "http://a.org {\nrespond clear\n}\na.org, b.org {\nrespond tls\n}",
        "hosts = \"a.org\"\nlisten = [\"0.0.0.0:443\", \"[::]:443\"]\n[site.tls]\ncertificate = \"auto\"\nredirect = false\n",
    ),
    (
        "the other of two names with TLS",
        "http://a.org {\nrespond clear\n}\na.org, b.org {\nrespond tls\n}",
        "hosts = \"b.org\"\nlisten = [\"0.0.0.0:80\", \"[::]:80\", \"0.0.0.0:443\", \"[::]:443\"]\n[site.tls]\ncertificate = \"auto\"\n[[",
    ),
    (
        "a redirect of a path that is apart from a prefix",
        ":80 {\nroot * /srv\nhandle /docs/* {\nreverse_proxy 127.0.0.1:3000\n}\nhandle {\nredir /docs /docs/ 301\nfile_server\n}\n}",
        "redirect = \"/docs/?\"",
    ),
];

#[test]
fn what_guards_is_refused_by_line() {
    let mut faults = Vec::new();
    for (sentence, text, problem) in REFUSED {
        let found = match caddy(text, false) {
            Ok(imported) => imported.text,
            Err(problems) => problems.join("\n"),
        };
        if !found.contains(problem) {
            faults.push(format!("{sentence}: {found}"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn what_guards_is_translated() {
    let mut faults = Vec::new();
    for (sentence, text, part) in TRANSLATED {
        let found = match caddy(text, false) {
            Ok(imported) => without_comments(&imported.text),
            Err(problems) => problems.join("\n"),
        };
        if !found.contains(part) {
            faults.push(format!("{sentence}: no {part} in\n{found}"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn an_answer_beside_pages_of_errors_has_a_comment() {
    let text = ":80 {\nroot * /srv\nrespond /private/* \"members only\" 403\nhandle_errors {\nrewrite * /{err.status_code}.html\nfile_server\n}\nfile_server\n}";
    let imported = caddy(text, false).expect("it is translated").text;
    let comment = "Caddyfile:3: its answer is the page of 403";
    assert!(imported.contains(comment), "{imported}");
    let upstream = caddy(":80 {\nreverse_proxy {$BACKEND}\n}", false).expect("a variable").text;
    assert!(upstream.contains("Caddyfile:2: the variable is a host"), "{upstream}");
}
