//! Tests of unsupported methods: 405 with `Allow` (RFC 9110 15.5.6), which OPTIONS returns too.

use hurtle::config::{Auth, MountHandler, Uploads};

use crate::support::site::{files_of, mount};
use crate::support::{Dir, Server};

/// The methods of RFC 9110 9.3 and RFC 5789 except CONNECT, whose target is not a resource.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];

#[test]
fn allow_lists_the_methods_that_are_not_refused() {
    let dir = Dir::new(&[("a.txt", "a"), ("up/a.txt", "a")]);
    let root = dir.root();
    let server = Server::of(dir, |config| {
        let mut takes = files_of(&root.join("up"));
        takes.uploads = Some(Uploads { free_bytes: 0, ..Uploads::default() });
        let fixed = MountHandler::Fixed {
            status: http::StatusCode::OK,
            body: "fixed".to_owned(),
            content_type: http::HeaderValue::from_static("text/plain"),
        };
        let moved =
            MountHandler::Redirect { status: http::StatusCode::FOUND, to: "/a.txt".to_owned() };
        let site = &mut config.sites[0];
        site.auth = Some(Auth::None);
        site.mounts.push(mount("/up", MountHandler::Files(takes)));
        site.mounts.push(mount("/fixed", fixed));
        site.mounts.push(mount("/moved", moved));
    });
    for (path, expected) in [
        ("/a.txt", "GET, HEAD, OPTIONS"),
        ("/none", "GET, HEAD, OPTIONS"),
        ("/fixed", "GET, HEAD, OPTIONS"),
        ("/moved", "GET, HEAD, OPTIONS"),
        ("/up/a.txt", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("/up/none", "GET, HEAD, PUT, DELETE, OPTIONS"),
    ] {
        let allowed: Vec<&str> = expected.split(", ").collect();
        for method in METHODS {
            let answer = server.request(method, path);
            let is_refused = answer.status == 405;
            assert_eq!(is_refused, !allowed.contains(&method), "{method} {path}: {answer:?}");
            if is_refused || method == "OPTIONS" {
                assert_eq!(answer.field("Allow"), Some(expected), "{method} {path}");
            }
        }
    }
}
