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
    Row {
        sentence: "a method that is closed, but open by what is around it",
        text: "Require all granted\n<Limit DELETE>\nRequire all denied\n</Limit>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "an address for a method, beside the own one for all",
        text: "Require ip 127.0.0.1\n<Limit DELETE>\nRequire ip 192.0.2.1\n</Limit>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "the own address for a method, beside another for all",
        text: "Require ip 192.0.2.1\n<LimitExcept GET>\nRequire ip 127.0.0.1\n</LimitExcept>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "HEAD /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "HEAD, which is GET",
        text: "<Limit HEAD>\nRequire all denied\n</Limit>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "HEAD /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "all but HEAD, which is GET",
        text: "<LimitExcept HEAD>\nRequire all denied\n</LimitExcept>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "HEAD /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "settings of a password in a section of methods, which are for all",
        text: "<Limit DELETE>\nAuthType Basic\nAuthName x\nAuthUserFile {dir}/ht\n</Limit>\nRequire valid-user\n",
        hosts: NONE,
        requests: &["GET /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "a password for a method, and nobody for the others",
        text: "AuthType Basic\nAuthName x\nAuthUserFile {dir}/ht\n<Limit DELETE>\nRequire valid-user\n</Limit>\n\
               Require all denied\n",
        hosts: NONE,
        requests: &["GET /a.txt", "DELETE /a.txt"],
    },
    Row {
        sentence: "the result of a rule with END, for which no refusal is",
        text: "RewriteEngine On\nRewriteRule ^x/ /about.html [END]\nRewriteRule !^about - [F]\n",
        hosts: NONE,
        requests: &["GET /x/1", "GET /about.html", "GET /a.txt", "GET /docs/guide.txt"],
    },
];

/// Files without another effect than a remark.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("<IfModule pagespeed_module>\nModPagespeed Off\n</IfModule>", OF_ABSENT_MODULE),
    (
        "<IfModule mod_brotli.c>\nAddOutputFilterByType BROTLI_COMPRESS text/html\n</IfModule>",
        OF_ABSENT_MODULE,
    ),
    (
        "<IfModule mod_security.c>\nSecFilterEngine Off\nSecFilterScanPOST Off\n</IfModule>",
        OF_ABSENT_MODULE,
    ),
    (
        "<IfModule mod_lsapi.c>\nSetEnvIfNoCase ^Authorization$ \"(.+)\" XAUTHORIZATION=$1\n\
         RequestHeader set XAuthorization %{XAUTHORIZATION}e env=XAUTHORIZATION\n</IfModule>",
        OF_ABSENT_MODULE,
    ),
    ("<IfModule lsapi_module>\nphp_value memory_limit 256M\n</IfModule>", OF_ABSENT_MODULE),
    ("<IfModule LiteSpeed>\nSetEnv noabort 1\nCacheLookup on\n</IfModule>", OF_ABSENT_MODULE),
    ("<IfModule !mod_foo.c>\nOptions -Indexes\n</IfModule>", "taken for absent: these lines apply"),
];

const OF_ABSENT_MODULE: &str = "the module is taken for absent, and so are these lines";

/// Files of a single-page application, with a line before it and one behind it, and their remark.
const BESIDE_A_PAGE: &[(&str, &str, &str)] = &[
    ("", "RewriteRule ^docs - [F]\n", "as /index.html answers the others before it"),
    (
        "RewriteCond %{REQUEST_URI} !^/robots\\.txt$\nRewriteCond %{HTTP_USER_AGENT} bad\nRewriteRule ^ - [F]\n",
        "",
        "missing files of the paths that it spares are answered by /index.html; Apache refuses them",
    ),
    (
        "",
        "Require all granted\n<Limit POST>\nRequire all denied\n</Limit>\n",
        "its Require keeps no client out",
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

/// The text of an import, with each comment on one line.
fn text_of(htaccess_text: &str) -> String {
    match htaccess(htaccess_text, &Tree::empty("/srv/www"), &Options::default(), false) {
        Ok(imported) => imported.text.replace("\n#  ", ""),
        Err(problems) => problems.join("\n"),
    }
}

#[test]
fn lines_that_guard_nothing_are_left_out() {
    let mut faults = Vec::new();
    for (text, remark) in WITHOUT_EFFECT {
        let found = text_of(text);
        let is_bare = configuration(&found) == "[[site]]\n[[site.mount]]\nfiles = \"/srv/www\"";
        if !is_bare || !found.contains(remark) {
            faults.push(format!("{text}\n{found}"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn refusals_that_apache_applies_otherwise_are_named() {
    let mut faults = Vec::new();
    for (before, behind, remark) in BESIDE_A_PAGE {
        let begin = format!("RewriteEngine On\n{before}");
        let page = SINGLE_PAGE.replacen("RewriteEngine On\n", &begin, 1);
        let found = text_of(&format!("{page}{behind}"));
        if !found.contains(remark) {
            faults.push(format!("no {remark} in\n{found}"));
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
