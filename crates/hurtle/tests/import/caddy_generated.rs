//! Sites of a few random directives, which Caddy and hurtle with their import answer alike.

use std::collections::BTreeSet;

use crate::caddy_alike::{compare, program};
use crate::servers::upstream;

/// Number of generated sites.
const GENERATED: u64 = 40;

/// Directives of generated sites.
const DIRECTIVES: &[&str] = &[
    "root * {root}",
    "file_server",
    "file_server",
    "root * {root}\nfile_server browse",
    "try_files {path} /index.html",
    "try_files {path} {path}.html {path}/ /404.html",
    "reverse_proxy {upstream}",
    "reverse_proxy /api/* {upstream}",
    "reverse_proxy /docs/* {upstream}",
    "respond rest",
    "respond /docs/* docs 201",
    "respond /docs/guide.txt guide",
    "respond 404",
    "@mtxt path *.txt\nrespond @mtxt text",
    "@mpost method POST\nrespond @mpost posted",
    "@mfoo header X-Foo yes\nreverse_proxy @mfoo {upstream}",
    "redir /old /new",
    "redir /docs/old https://example.org{uri} 301",
    "@mre path_regexp mre ^/d(.*)/old$\nredir @mre /x{re.mre.1} 308",
    "header X-All all",
    "header /docs/* X-Docs docs",
    "header {\nX-All other\n-X-Seen\n}",
    "header ?X-All default",
    "handle /docs/* {\nroot * {root}\nfile_server\n}",
    "handle_path /api/* {\nreverse_proxy {upstream}\n}",
    "handle_path /d/* {\nroot * {root}/docs\nfile_server\n}",
    "handle {\nrespond handled\n}",
    "handle {\nheader X-Docs handled\nreverse_proxy {upstream}\n}",
    "handle /dir* {\nrespond dir\n}",
    "route /docs/* {\nrespond /docs/guide.txt routed\nreverse_proxy {upstream}\n}",
    "route {\nheader X-Docs route\nrespond /old routed\n}",
    "basic_auth /docs/secret/* {\nanna $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n}",
    "forward_auth /api/* {upstream} {\nuri /check\n}",
    "forward_auth /docs/* {upstream} {\nuri /deny\n}",
    "@mnot not path /docs/* /api/*\nrespond @mnot elsewhere",
    "error /api/broken 503",
    "try_files {path} {path}.html",
    "handle /api/* {\nrewrite * /docs{uri}\nreverse_proxy {upstream}\n}",
    "handle_path /d/* {\nroot * {root}\nrewrite * /docs{path}\nfile_server\n}",
    "handle {\nroot * {root}\nrewrite * /about.html\nfile_server\n}",
    "handle /old {\nrewrite * /new\nreverse_proxy {upstream}\n}",
    "@morigin header X-Foo yes\nheader @morigin X-All foo",
    "@mquery query x=1\nheader @mquery X-Docs query",
    "request_header X-Own-A a",
];

/// Requests to generated sites.
const REQUESTS: &[&str] = &[
    "GET /",
    "GET /a.txt",
    "GET /about",
    "GET /none",
    "GET /none.txt",
    "GET /old?x=1",
    "GET /dir",
    "GET /dir/",
    "GET /docs/guide.txt",
    "GET /docs/none",
    "GET /docs/old?y",
    "GET /docs/secret/key.txt",
    "GET /DOCS/secret/key.txt",
    "GET /d/guide.txt",
    "GET /api",
    "GET /api/x%2By?q=%20",
    "GET /api/broken",
    "POST /api/x",
    "POST /none",
    "HEAD /a.txt",
    "GET /x X-Foo=yes",
    "GET /docs/x X-Foo=yes",
];

/// Sites of two to five of these directives, chosen by a number that a failure names.
#[test]
fn generated_sites_answer_alike() {
    let Some(caddy) = program() else {
        eprintln!("not run: no Caddy; `cargo xtask test --only packages` builds it");
        return;
    };
    let (upstream, mut refused) = (upstream().to_string(), 0);
    let mut faults = Vec::new();
    let first: u64 = std::env::var("CADDY_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    for seed in first..first + GENERATED {
        let mut state = seed;
        let mut random = |below: usize| {
            // Knuth's generator (The Art of Computer Programming, volume 2, section 3.3.4).
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let count = 2 + random(4);
        let site: Vec<&str> = (0..count).map(|_| DIRECTIVES[random(DIRECTIVES.len())]).collect();
        let site = site.join("\n").replace("@m", &format!("@m{seed}"));
        let mut lines: Vec<&str> = site.lines().collect();
        // A matcher is defined once.
        let mut seen = BTreeSet::new();
        lines.retain(|line| !line.starts_with('@') || seen.insert(*line));
        let site = lines.join("\n");
        match compare(&caddy, &upstream, (&format!("seed {seed}:\n{site}\n"), &site), REQUESTS) {
            Some(found) => faults.extend(found),
            None => refused += 1,
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    assert!(refused < GENERATED / 2, "{refused} of {GENERATED} are refused");
}
