//! Caddyfiles of which something is refused: by line, and what `--partial` closes.

use hurtle::import::caddy::caddy;

use crate::caddy_table::without_comments;

/// Refused text, the line of the refusal, and what `--partial` makes of it: the mounts of the site,
/// or a refusal as well.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    (
        "an address that Caddy takes for a name",
        "0.0.0.0:6000 {\nrespond a\n}",
        "write :6000 for all",
        "",
    ),
    (
        "proxies of one listener of two",
        "{\nservers :8080 {\nmetrics\ntrusted_proxies static 192.0.2.0/24\n}\n}\n:8080 {\nrespond a\n}\n:8081 {\nrespond b\n}",
        "Caddyfile:4: cannot translate `trusted_proxies static 192.0.2.0/24`: hurtle has it for all listeners",
        "Caddyfile:4: cannot translate",
    ),
    (
        "templates in files",
        ":80 {\nroot * /srv\ntemplates\nfile_server\n}",
        "Caddyfile:3: cannot translate `templates`: hurtle runs no templates in files",
        "",
    ),
    (
        "metrics at another path",
        ":9090 {\nmetrics /figures\n}\n:80 {\nrespond a\n}",
        "Caddyfile:2: cannot translate `metrics /figures`",
        "respond = \"a\"",
    ),
    (
        "pages of errors by their status and by the path",
        ":80 {\nrespond a\nhandle_errors {\nrewrite * /{err.status_code}{uri}\nreverse_proxy a:1\n}\n}",
        "Caddyfile:4: cannot translate `rewrite * /{err.status_code}{uri}`: of paths of errors",
        "respond = \"a\"",
    ),
    (
        "paths that change before a block is chosen",
        ":80 {\ntry_files {path} /index.html\nhandle /api/* {\nreverse_proxy a:1\n}\nroot * /srv\nfile_server\n}",
        "Caddyfile:2: cannot translate `try_files {path} /index.html`",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a new path for one of several handlers",
        ":80 {\nhandle /a/* {\nrewrite * /b{uri}\nreverse_proxy /a/x a:1\nreverse_proxy b:1\n}\n}",
        "Caddyfile:3: cannot translate `rewrite * /b{uri}`: what is behind it has conditions",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "one path for all that an upstream gets",
        ":80 {\nhandle /a/* {\nrewrite * /b\nreverse_proxy a:1\n}\n}",
        "Caddyfile:4: cannot translate `reverse_proxy a:1`: an upstream of hurtle gets one path",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a field by a condition that a field of all replaces",
        ":80 {\n@a method POST\nheader @a X-A a\nheader X-A b\nrespond a\n}",
        "Caddyfile:3: cannot translate `header @a X-A a`",
        "respond = \"a\"",
    ),
    (
        "two gates for one path",
        ":80 {\nbasic_auth /a/* {\nu $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}\nforward_auth /a/b/* b:1 {\nuri /\n}\nrespond a\n}",
        "Caddyfile:5: cannot translate `forward_auth /a/b/* b:1`",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a gate of a block beside that of the site",
        ":80 {\nforward_auth b:1 {\nuri /\n}\nhandle /x/* {\nbasic_auth {\nu $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}\nrespond a\n}\n}",
        "Caddyfile:6: cannot translate `basic_auth`",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a redirect behind a gate",
        ":80 {\nroute {\nbasic_auth /a/* {\nu $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}\nredir /a/x /secret\nrespond a\n}\n}",
        "Caddyfile:6: cannot translate `redir /a/x /secret`",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "scripts by FastCGI",
        ":80 {\nreverse_proxy 127.0.0.1:9000 {\ntransport fastcgi {\nsplit .php\nenv A {host}\n}\n}\n}",
        "Caddyfile:2: cannot translate `reverse_proxy 127.0.0.1:9000`: without SCRIPT_FILENAME",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "one script by FastCGI behind a rewrite",
        ":80 {\nroute {\nrewrite * /x{path}\nreverse_proxy 127.0.0.1:9000 {\ntransport fastcgi {\nenv SCRIPT_FILENAME /a.cgi\n}\n}\n}\n}",
        "Caddyfile:4: cannot translate `reverse_proxy 127.0.0.1:9000`: it has an upstream, and the path",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a directive of a plugin",
        ":80 {\nrate_limit {\n}\nrespond a\n}",
        "Caddyfile:2: cannot translate `rate_limit`",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "templates, whose source would be shown",
        ":80 {\ntemplates\nfile_server\n}",
        "Caddyfile:2: cannot translate `templates`",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a condition that hurtle does not have",
        ":80 {\n@a expression {query}.size() > 3\nrespond @a 403\nrespond a\n}",
        "Caddyfile:2: cannot translate `@a expression",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a condition within a guard",
        ":80 {\n@a {\nvars a x\n}\nbasic_auth @a {\nu $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}\nrespond a\n}",
        "Caddyfile:2: cannot translate `@a`: `vars a x`",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a password that is no hash of bcrypt",
        ":80 {\nbasic_auth {\nu $argon2id$x\n}\nrespond a\n}",
        "Caddyfile:2: cannot translate `basic_auth`",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "a field that decides who a client is",
        ":80 {\nreverse_proxy a:1 {\nheader_up Remote-User {http.auth.user.id}\n}\n}",
        "hurtle has no variable {http.auth.user.id}",
        "respond = \"\"\nstatus = 403",
    ),
    (
        "certificates on demand for any name",
        ":443 {\ntls {\non_demand\n}\nrespond a\n}",
        "hurtle asks a server about each name",
        "all names: write `tls { on_demand }`",
    ),
    (
        "a field of responses",
        ":80 {\nheader X-A {http.request.uuid}\nrespond a\n}",
        "Caddyfile:2: cannot translate `header X-A",
        "respond = \"a\"",
    ),
    (
        "a page of errors",
        ":80 {\nhandle_errors {\nvars a b\n}\nrespond a\n}",
        "Caddyfile:3: cannot translate `vars a b`",
        "respond = \"a\"",
    ),
    (
        "a certificate of Caddy's own for a public name",
        "a.test.org {\ntls internal\nrespond a\n}",
        "a.test.org: the local authority of hurtle signs for private names only",
        "signs for private names only",
    ),
    (
        "certificates of Caddy's own for any name",
        ":443 {\ntls internal\nrespond a\n}",
        "hurtle signs certificates for names in the configuration",
        "for names in the configuration",
    ),
    (
        "a public address",
        "192.0.2.1 {\nrespond a\n}",
        "192.0.2.1: the local authority of hurtle signs for private names only",
        "Its site is left out",
    ),
    (
        "a wildcard",
        "*.a.test.org {\nrespond a\n}",
        "Caddyfile:1: cannot translate `*.a.test.org`",
        "Its site is left out",
    ),
    (
        "proxies by a plugin",
        "{\nservers {\ntrusted_proxies cloudflare\n}\n}\n:80\nrespond a",
        "Caddyfile:3: cannot translate `trusted_proxies cloudflare`",
        "of its sources hurtle knows static",
    ),
    (
        "another order, in which a guard comes late",
        "{\norder basic_auth after respond\n}\n:80 {\nrespond a\n}",
        "Caddyfile:2: cannot translate `order basic_auth after respond`: hurtle sorts directives in",
        "write them in a `route`",
    ),
    (
        "a snippet that is not there",
        ":80 {\nimport nothing\n}",
        "Caddyfile:2: no snippet `nothing` is before it",
        "no snippet",
    ),
    (
        "an import of itself",
        "(a) {\nimport a\n}\n:80 {\nimport a\n}",
        "an import leads to itself",
        "an import leads to itself",
    ),
    (
        "an open block",
        ":80 {\nrespond a",
        "Caddyfile:1: a block does not end with }",
        "a block does not end",
    ),
    ("nothing", "# nothing\n", "no site is in it", "no site is in it"),
];

#[test]
fn what_cannot_be_translated_is_refused_by_line_and_closed_in_part() {
    for (sentence, text, problem, partial) in REFUSED {
        let problems = caddy(text, false).expect_err(sentence).join("\n");
        assert!(problems.contains(problem), "{sentence}: {problems}");
        let found = match caddy(text, true) {
            Ok(imported) => {
                assert!(imported.left_out > 0, "{sentence}: something is left out");
                assert!(imported.text.starts_with("# NOT WHOLE"), "{sentence}: {}", imported.text);
                without_comments(&imported.text)
            }
            Err(problems) => problems.join("\n"),
        };
        assert!(found.contains(partial), "{sentence}: no\n{partial}\nin\n{found}");
        let opens = partial.contains("403") && found.contains("respond = \"a\"");
        assert!(!opens, "{sentence}: it is open\n{found}");
    }
}
