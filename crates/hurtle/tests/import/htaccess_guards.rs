//! .htaccess files whose scripts, access or conditions an import must not lose.

use std::fs;

use hurtle::import::htaccess::{Options, Tree, htaccess, htaccess_file};

use crate::apache::configuration;
use crate::htaccess_rows::{NONE, Row};
use crate::servers::Dir;

/// Files that Apache and hurtle answer alike.
pub(super) const ROWS: &[Row] = &[
    Row {
        sentence: "addresses for a method, beside those for all",
        text: "Order deny,allow\nDeny from all\n<Limit GET>\nAllow from 127.0.0.1\n</Limit>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "HEAD /a.txt", "DELETE /a.txt", "GET /docs/guide.txt"],
    },
    Row {
        sentence: "other addresses for a method, beside those for all",
        text: "Order deny,allow\nDeny from all\n<Limit GET>\nAllow from 192.0.2.0/24\n</Limit>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "addresses for a method, and an order behind it",
        text: "<Limit GET>\nAllow from all\n</Limit>\nDeny from all\nOrder allow,deny\n",
        hosts: NONE,
        requests: &["GET /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "names by a class of an escape, and others",
        text: "<FilesMatch \"[\\.]css$|^a\">\nRequire all denied\n</FilesMatch>\n",
        hosts: NONE,
        requests: &["GET /style.css", "GET /a.txt", "GET /docs/guide.txt"],
    },
    Row {
        sentence: "a refusal of all paths but some",
        text: "RewriteEngine On\nRewriteRule !^(a\\.txt|docs/) - [F]\n",
        hosts: NONE,
        requests: &["GET /a.txt", "GET /docs/guide.txt", "GET /style.css", "GET /dir/", "GET /"],
    },
    Row {
        sentence: "a redirect of all paths but one, in any case of letters",
        text: "RewriteEngine On\nRewriteRule !^A\\.TXT$ /a.txt [R=302,L,NC]\n",
        hosts: NONE,
        requests: &["GET /a.txt", "GET /style.css", "GET /"],
    },
    Row {
        sentence: "a last slash that goes for one host",
        text: "RewriteEngine On\nRewriteCond %{HTTP_HOST} ^old\\.example$\nRewriteCond %{REQUEST_FILENAME} !-d\n\
               RewriteRule ^(.+)/$ https://new.example/$1 [R=301,L]\n",
        hosts: NONE,
        requests: &[
            "GET /x/ Host=old.example",
            "GET /x/ Host=b.example",
            "GET /dir/ Host=old.example",
        ],
    },
];

/// A file, the line of a refusal, and its reason.
const REFUSED: &[(&str, usize, &str)] = &[
    (
        "RewriteEngine On\nRewriteRule ^(readme\\.html|license\\.txt)$ - [F]\n\
         RewriteCond %{REQUEST_FILENAME}.html -f\nRewriteRule ^(.*)$ $1.html [L]\n",
        4,
        "a rule or section for names with .html",
    ),
    (
        "RewriteEngine On\nRewriteCond %{REMOTE_ADDR} !^10\\.\nRewriteRule ^admin\\.html$ - [F]\n\
         RewriteCond %{REQUEST_FILENAME}.html -f\nRewriteRule ^(.*)$ $1.html [L]\n",
        5,
        "a rule or section for names with .html",
    ),
    (
        "RewriteEngine On\nRewriteCond %{REMOTE_ADDR} !^10\\.\nRewriteRule ^app\\.php - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ app.php [L]\n",
        6,
        "its result may meet a Redirect, a refusal",
    ),
    ("ErrorDocument 404 /index.php/error/404\n", 1, "a script answers no errors here"),
    (
        "RewriteEngine On\nRewriteCond %{REMOTE_ADDR} !^10\\.\nRewriteRule ^admin - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.*)$ index.php?q=$1 [L,QSA]",
        6,
        "before the rules with [F]",
    ),
    (
        "RewriteEngine On\nRewriteRule ^admin/pub - [L]\nRewriteRule ^admin - [F]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.*)$ index.php?q=$1 [L,QSA]",
        6,
        "before the rules with [F]",
    ),
    (
        "<FilesMatch \"\\.(php|phtml|inc)$\">\nSetHandler application/x-httpd-php\n</FilesMatch>",
        2,
        "names of scripts end with .php",
    ),
    (
        "<FilesMatch \".+\\.ph(?:ar|p|tml)$\">\nSetHandler application/x-httpd-php\n</FilesMatch>",
        2,
        "names of scripts end with .php",
    ),
    ("SetHandler application/x-httpd-php", 1, "<FilesMatch \\.php$>"),
    ("SetHandler proxy:unix:/run/php.sock|fcgi://localhost", 1, "<FilesMatch \\.php$>"),
    (
        "AddHandler proxy:unix:/run/php.sock|fcgi://localhost .php .phtml",
        1,
        "names of scripts end with .php",
    ),
    (
        "<Limit GET POST>\nDeny from all\n</Limit>\n<LimitExcept POST>\nAllow from all\n</LimitExcept>",
        4,
        "write their lines in one section",
    ),
    (
        "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} ^-?$\nRewriteRule ^ - [F]",
        3,
        "a request without USER-AGENT",
    ),
    (
        "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} ^$|bot\nRewriteRule ^ - [F]",
        3,
        "a request without USER-AGENT",
    ),
    (
        "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteCond %{REMOTE_ADDR} !^10\\.\nRewriteRule ^(.*)$ https://a.test.org/$1 [R=301,L]",
        4,
        "has no other conditions",
    ),
    (
        "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteCond %{REQUEST_METHOD} ^GET$\nRewriteRule ^(.*)$ https://a.test.org/$1 [R=301,L]",
        4,
        "has no other conditions",
    ),
    (
        "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^(.+)/$ https://a.test.org/$1 [R=301,L]",
        4,
        "the redirect to HTTPS",
    ),
    (
        "RewriteEngine On\nRewriteCond %{REQUEST_URI} !^/private/\nRewriteCond %{REQUEST_FILENAME} -f\nRewriteRule ^ - [L]\nRewriteRule ^ index.php [L]",
        4,
        "without ! conditions",
    ),
    (
        "RewriteEngine On\nRewriteCond %{REQUEST_URI} !^/up/private/\nRewriteRule ^up/ - [L]\nRewriteRule \\.(sql|bak)$ - [F]",
        3,
        "without ! conditions",
    ),
    (
        "RewriteEngine On\nRewriteCond %{REQUEST_METHOD} ^(PROP|DEL)\nRewriteRule ^ - [F]",
        3,
        "write whole methods",
    ),
    (
        "RewriteEngine On\nRewriteCond %{REQUEST_METHOD} ^P.*T$\nRewriteRule ^ - [F]",
        3,
        "write whole methods",
    ),
    (
        "Require all denied\n<FilesMatch \"\\.(html|css)$\">\nRequire ip 10.0.0.1\n</FilesMatch>",
        2,
        "for the page of a directory",
    ),
    (
        "Header set Cache-Control no-store\nHeader append Cache-Control must-revalidate",
        2,
        "an earlier Header",
    ),
    (
        "Header add Link a\n<Files a.txt>\nHeader always add link b\n</Files>",
        3,
        "an earlier Header",
    ),
];

/// A sentence, a file, and parts of the configuration that `--partial` makes of it.
const PARTIAL: &[(&str, &str, &str)] = &[
    ("types of scripts", "AddType application/x-httpd-php .php .phtml .inc\n", CLOSED),
    ("a filter of programs", "AddOutputFilter INCLUDES .shtml\n", CLOSED),
    ("a filter of programs for all", "SetOutputFilter INCLUDES\n", CLOSED),
    ("an index of PHP alone", "DirectoryIndex /index.php\n", CLOSED),
    ("a setting of PHP alone", "php_value memory_limit\n", CLOSED),
    (
        "a rule in any case of letters",
        "RewriteEngine On\nRewriteCond %{THE_REQUEST} x\nRewriteRule ^admin - [F,NC]\n",
        "match = { regex = \"(?i)^/admin\" }\nrespond = \"\"\nstatus = 403",
    ),
];

const CLOSED: &str = "[[site]]\n[[site.mount]]\nrespond = \"\"\nstatus = 403";

/// A single-page application.
const SINGLE_PAGE: &str = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
                           RewriteRule ^ index.html [L]\n";

#[test]
fn what_guards_is_refused_by_line() {
    let mut faults = Vec::new();
    for (text, line, reason) in REFUSED {
        let found = match htaccess(text, &Tree::empty("/srv/www"), &Options::default(), false) {
            Ok(imported) => vec![imported.text],
            Err(problems) => problems,
        };
        let begin = format!(".htaccess:{line}: cannot translate `");
        if !found.iter().any(|problem| problem.starts_with(&begin) && problem.contains(reason)) {
            faults
                .push(format!("{text}\n  expected {line}: {reason}\n  found {}", found.join("\n")));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn what_runs_scripts_is_not_left_out_alone() {
    let mut faults = Vec::new();
    for (sentence, text, part) in PARTIAL {
        let found = htaccess(text, &Tree::empty("/srv/www"), &Options::default(), true)
            .map_or_else(|problems| problems.join("\n"), |imported| configuration(&imported.text));
        let is_expected = if *part == CLOSED { found == CLOSED } else { found.contains(part) };
        if !is_expected {
            faults.push(format!("{sentence}: {found}"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn sources_of_scripts_are_not_sent() {
    const RUN: &str = "fastcgi = \"";
    const CLOSED: &str = "match = { regex = \"(?i)\\\\.php(/|$)\" }\nrespond = \"\"\nstatus = 403";
    const OTHERS: &str = "match = { regex = \"(?i)\\\\.(?:phtml|phar|phps|php[3-8])(/|$)\" }";
    // The directory of this test has x.php and docs/x.php.
    let dir = Dir::new();
    fs::create_dir_all(dir.0.join("bare/sub")).expect("it is made");
    fs::write(dir.0.join("bare/sub/x.PHP"), "<?php").expect("it is written");
    fs::create_dir_all(dir.0.join("other/sub")).expect("it is made");
    fs::write(dir.0.join("other/sub/x.phtml"), "<?php").expect("it is written");
    let at = |dir: &Dir, path: &str, text: &str| {
        let file = dir.0.join(path);
        fs::write(&file, text).expect("it is written");
        htaccess_file(&file, &Options::default(), false)
    };
    let fastcgi = Options { fastcgi: Some("unix:/run/php.sock".to_owned()), ..Options::default() };
    let tree = Tree::empty("/srv/www");
    let cut = Tree { is_cut: true, ..tree.clone() };
    let plain = Options::default();
    let rewritten = "RewriteEngine On\nRewriteRule ^p/(.*)$ app/$1.php [L]\n";
    let rows = [
        ("scripts in the directory", at(&dir, "www/.htaccess", "Options -Indexes\n"), RUN),
        ("a script beneath it", at(&dir, "bare/.htaccess", "Options -Indexes\n"), RUN),
        ("a page beside a script", at(&dir, "www/.htaccess", SINGLE_PAGE), CLOSED),
        ("an address of PHP-FPM", htaccess("", &tree, &fastcgi, false), RUN),
        ("scripts of a group", htaccess(rewritten, &tree, &plain, false), RUN),
        ("another ending", at(&dir, "other/.htaccess", "Options -Indexes\n"), OTHERS),
        ("a directory that was not looked through", htaccess("", &cut, &plain, false), CLOSED),
    ];
    let mut faults = Vec::new();
    for (sentence, imported, part) in rows {
        let found = imported
            .map_or_else(|problems| problems.join("\n"), |imported| configuration(&imported.text));
        if !found.contains(part) {
            faults.push(format!("{sentence}: no {part} in\n{found}"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
