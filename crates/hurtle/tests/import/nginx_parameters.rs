//! Parameters of FastCGI applications: the script of a location, and constants.

use hurtle::import::nginx;
use hurtle::import::syntax::parse;

/// The inside of a server with the root /srv, and parts of its import, or of the problem.
const ROWS: &[(&str, Result<&[&str], &str>)] = &[
    (
        "location = /x.php { fastcgi_pass a:9; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Ok(&[
            "SCRIPT_FILENAME = \"/srv/x.php\"",
            "SCRIPT_NAME = \"/x.php\"",
            "DOCUMENT_ROOT = \"/srv\"",
            "PATH_INFO = \"\"",
        ]),
    ),
    (
        "fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name; location = /x.php { fastcgi_pass a:9; }",
        Ok(&["SCRIPT_FILENAME = \"/srv/x.php\""]),
    ),
    // As in Debian's snippets/fastcgi-php.conf.
    (
        "location = /x.php { fastcgi_split_path_info ^(.+?\\.php)(/.*)$; try_files $fastcgi_script_name =404;
         set $path_info $fastcgi_path_info; fastcgi_param PATH_INFO $path_info; fastcgi_index index.php;
         fastcgi_pass a:9; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Ok(&["SCRIPT_FILENAME = \"/srv/x.php\"", "PATH_INFO = \"\""]),
    ),
    // A page of PHP-FPM, and another script, of which a file of the path would have to be there.
    (
        "location = /status { try_files $fastcgi_script_name =404; fastcgi_pass a:9;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Err("would lose it"),
    ),
    (
        "location = /x.php { try_files $uri =404; fastcgi_pass a:9;
         fastcgi_param SCRIPT_FILENAME $document_root/y.php; }",
        Err("would lose it"),
    ),
    (
        "location = /x.php { try_files $uri /y.php; fastcgi_pass a:9;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Err("would lose it"),
    ),
    (
        "location = /x.php { fastcgi_pass a:9; fastcgi_param SCRIPT_FILENAME $request_filename; }",
        Ok(&["SCRIPT_FILENAME = \"/srv/x.php\""]),
    ),
    (
        "location = /x.php { fastcgi_pass a:9; fastcgi_param SCRIPT_FILENAME /app$fastcgi_script_name;
         fastcgi_param DOCUMENT_ROOT /own; fastcgi_param SCRIPT_NAME /y.php; }",
        Ok(&[
            "SCRIPT_FILENAME = \"/app/x.php\"",
            "DOCUMENT_ROOT = \"/own\"",
            "SCRIPT_NAME = \"/y.php\"",
        ]),
    ),
    (
        "location = / { fastcgi_pass a:9; fastcgi_index i.php;
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Ok(&["SCRIPT_FILENAME = \"/srv/i.php\"", "SCRIPT_NAME = \"/i.php\""]),
    ),
    (
        "location = / { fastcgi_pass a:9; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Err("hurtle finds scripts by their paths"),
    ),
    (
        "location /app/ { fastcgi_pass a:9; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }",
        Ok(&["SCRIPT_FILENAME is left out, without which PHP-FPM answers 404"]),
    ),
    (
        "location / { fastcgi_pass a:9; fastcgi_param SCRIPT_FILENAME /srv/x.php;
         fastcgi_param SCRIPT_FILENAME $document_root/y.php; }",
        Ok(&["SCRIPT_FILENAME = \"/srv/y.php\""]),
    ),
    (
        "location / { fastcgi_pass a:9; fastcgi_param DOCUMENT_ROOT /app; fastcgi_param SERVER_SOFTWARE nginx;
         fastcgi_param SERVER_PROTOCOL HTTP/1.0; fastcgi_param GATEWAY_INTERFACE CGI/1.1;
         fastcgi_param REDIRECT_STATUS 200; }",
        Ok(&[
            "params = { DOCUMENT_ROOT = \"/app\", SERVER_PROTOCOL = \"HTTP/1.0\", SERVER_SOFTWARE = \"nginx\" }",
        ]),
    ),
    (
        "location / { fastcgi_pass a:9; fastcgi_param SERVER_SOFTWARE x/$nginx_version; }",
        Ok(&["SERVER_SOFTWARE: applications get the name of hurtle"]),
    ),
    (
        "location /app/ { fastcgi_pass a:9; fastcgi_param SCRIPT_NAME ''; }",
        Ok(&["SCRIPT_NAME: applications get the path of their location"]),
    ),
    (
        "location / { uwsgi_pass a:9; uwsgi_param DOCUMENT_ROOT /app; uwsgi_param SCRIPT_NAME ''; }",
        Ok(&["params = { DOCUMENT_ROOT = \"/app\", SCRIPT_NAME = \"\" }"]),
    ),
];

/// Regression: constants were left out without a word, and exact locations had no script.
#[test]
fn parameters_are_those_of_nginx_or_named() {
    for (server, expected) in ROWS {
        let text = format!("server {{ root /srv; {server} }}");
        match (nginx(&parse(&text, "nginx.conf").expect(server)), expected) {
            (Ok(text), Ok(parts)) => {
                let text = text.replace("\n#   ", " ");
                for part in *parts {
                    assert!(text.contains(part), "{server}: expected {part:?} in {text}");
                }
            }
            (Err(problems), Err(part)) => {
                let text = problems.join("\n");
                assert!(text.contains(part), "{server}: expected {part:?} in {text}");
            }
            (result, _) => panic!("{server}: expected {expected:?}, got {result:?}"),
        }
    }
}
