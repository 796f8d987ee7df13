//! .htaccess files of applications in PHP: Apache and hurtle ask the same PHP-FPM.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hurtle::import::htaccess::{Options, htaccess_file};

use crate::apache::{Case, compare, local, program};
use crate::htaccess_alike::is_remarked;
use crate::php_fpm::PhpFpm;
use crate::servers::{Dir, Ours, ask};

/// Scripts of the site.
pub(super) const SCRIPTS: &[(&str, &str)] = &[
    ("index.php", SCRIPT),
    ("x.php", SCRIPT),
    ("wp-config.php", SCRIPT),
    ("docs/index.php", SCRIPT),
    ("docs/x.php", SCRIPT),
    ("docs/sub/index.php", SCRIPT),
    ("server.php", SERVER_SCRIPT),
];

/// A script that responds with its name, the request and its parameters.
const SCRIPT: &str = "<?php $text = $_SERVER['SCRIPT_NAME'] . ' ' . $_SERVER['REQUEST_URI'] . ' ' . json_encode($_GET) . ' ' \
                      . $_SERVER['REQUEST_METHOD'] . ' ' . ($_SERVER['HTTP_AUTHORIZATION'] ?? '') . \"\\n\"; \
                      header('X-Seen: php'); echo $text;";

/// A script that responds with what it knows of the connection.
const SERVER_SCRIPT: &str = "<?php foreach (['HTTPS', 'REQUEST_SCHEME', 'SERVER_NAME', 'SERVER_PORT', 'REMOTE_ADDR', 'REMOTE_USER'] \
                             as $name) { echo $name . '=' . ($_SERVER[$name] ?? 'none') . ' '; }";

const WORDPRESS: &str = "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\
    RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n\
    # END WordPress\n<Files wp-config.php>\nOrder allow,deny\nDeny from all\n</Files>\n";

const LARAVEL: &str = "<IfModule mod_rewrite.c>\n<IfModule mod_negotiation.c>\nOptions -MultiViews -Indexes\n</IfModule>\n\
    RewriteEngine On\nRewriteCond %{HTTP:Authorization} .\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
    RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\nRewriteRule ^ %1 [L,R=301]\n\
    RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n</IfModule>\n";

const SYMFONY: &str = "DirectoryIndex index.php\nRewriteEngine On\nRewriteCond %{REQUEST_URI}::$0 ^(/.+)/(.*)::\\2$\n\
    RewriteRule .* - [E=BASE:%1]\nRewriteCond %{HTTP:Authorization} .+\nRewriteRule ^ - [E=HTTP_AUTHORIZATION:%0]\n\
    RewriteCond %{ENV:REDIRECT_STATUS} =\"\"\nRewriteRule ^index\\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=301,L]\n\
    RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ %{ENV:BASE}/index.php [L]\n";

const PARAMETER: &str = "RewriteEngine On\nRewriteBase /\nRewriteRule ^feed\\.xml$ index.php?route=feed [L]\n\
    RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
    RewriteRule ^([^?]*) index.php?q=$1 [L,QSA]\n";

/// A sentence, a file, and requests whose answers are compared.
const ROWS: &[(&str, &str, &[&str])] = &[
    (
        "an open script in a closed directory",
        "Require all denied\n<Files x.php>\nRequire all granted\n</Files>\n",
        &["GET /x.php/more", "GET /x.php", "GET /wp-config.php/x.php", "GET /index.php"],
    ),
    (
        "open files in a closed directory of scripts",
        "Require all denied\n<Files style.css>\nRequire all granted\n</Files>\n",
        &["GET /x.php/style.css", "GET /style.css", "GET /x.php", "GET /docs/style.css"],
    ),
    (
        "a script for all but files, and a closed index",
        "RewriteEngine On\nRewriteRule ^docs/.*\\.php$ - [F]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteRule ^ index.php [L]\n",
        &["GET /docs/x.php", "GET /docs/sub/index.php", "GET /gone"],
    ),
    (
        "no index, and a script of its name that is closed",
        "DirectoryIndex disabled\n<Files index.php>\nRequire all denied\n</Files>\n",
        &["GET /", "GET /index.php", "GET /docs/", "GET /x.php"],
    ),
    (
        "a script for missing files that are none of scripts",
        "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_URI} !\\.php$\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ index.php [L]\n",
        &["GET /gone", "HEAD /gone.php", "GET /x.php"],
    ),
    (
        "a method that is closed within a file that is open to others",
        "<Files x.php>\nOrder deny,allow\nDeny from 192.0.2.0/24\n<Limit POST>\nDeny from all\n</Limit>\n</Files>\n",
        &["GET /x.php", "POST /x.php"],
    ),
    (
        "no scripts beneath a directory, by other expressions",
        "RewriteEngine On\nRewriteRule ^docs/.+\\.php$ - [F]\n",
        &["GET /docs/", "GET /docs/sub/", "GET /docs/guide.txt"],
    ),
    (
        "no scripts beneath a directory, with a group",
        "RewriteEngine On\nRewriteRule ^docs/(.*)\\.php - [F]\n",
        &["GET /docs/", "GET /docs/sub/", "GET /docs/guide.txt"],
    ),
    (
        "no scripts of a directory, but those beneath it",
        "RewriteEngine On\nRewriteRule ^docs/[^/]+\\.php$ - [F]\n",
        &["GET /docs/", "GET /docs/x.php", "GET /docs/sub/", "GET /docs/sub/index.php"],
    ),
    (
        "no scripts of a directory, and of some endings",
        "RewriteEngine On\nRewriteRule ^docs/[^/]+\\.php$ - [F,L]\nRewriteRule ^docs/.*\\.(?:php[1-7]?|phtml?)\\.?$ - [NC,F]\n",
        &["GET /docs/x.php", "GET /docs/X.PHP", "GET /docs/", "GET /docs/guide.txt", "GET /x.php"],
    ),
    (
        "no scripts beneath a directory",
        "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} ^$ [OR]\nRewriteCond %{REQUEST_METHOD} ^GET$\n\
         RewriteRule ^docs/.*\\.php$ - [F]\n",
        &[
            "GET /docs/x.php",
            "GET /docs/index.php",
            "GET /docs/",
            "GET /docs/guide.txt",
            "GET /x.php",
        ],
    ),
    (
        "WordPress",
        WORDPRESS,
        &[
            "GET /",
            "GET /post/1/?x=y",
            "POST /post/1",
            "HEAD /post",
            "GET /a.txt",
            "GET /x.php?a=b",
            "GET /docs",
            "GET /docs/",
            "GET /docs/x.php",
            "GET /docs/gone",
            "GET /wp-config.php",
            "GET /wp-config.php/x",
            "GET /index.php",
            "GET /a%20b%2Bc",
            "GET /post Authorization=Basic~YW5uYTp4",
            "GET /gone.php",
            "GET /gone.php?a=b",
            "GET /gone.php/more",
            "POST /docs/gone.php",
            "GET /gone.css",
            "GET /dir/",
            "GET /style.css",
        ],
    ),
    (
        "Laravel",
        LARAVEL,
        &[
            "GET /",
            "GET /users/1?x=y",
            "GET /users/1/",
            "GET /users/1/?x=y",
            "POST /users",
            "DELETE /users/1",
            "GET /docs/",
            "GET /docs",
            "GET /a.txt",
            "GET /index.php",
            "GET /users Authorization=Basic~YW5uYTp4",
            "GET /dir/",
        ],
    ),
    (
        "Symfony",
        SYMFONY,
        &[
            "GET /",
            "GET /users/1?x=y",
            "GET /users/1/",
            "GET /index.php",
            "GET /index.php/a/b?c",
            "GET /a.txt",
            "PUT /users/1",
            "GET /docs/x.php",
        ],
    ),
    (
        "a path in a parameter",
        PARAMETER,
        &[
            "GET /",
            "GET /users/1?x=y",
            "GET /users/1/",
            "GET /feed.xml",
            "GET /docs/",
            "GET /docs/x.php",
            "GET /a.txt",
            "GET /gone.css",
            "POST /z",
        ],
    ),
    (
        "FallbackResource and an index",
        "DirectoryIndex index.php index.html\nFallbackResource /index.php\n",
        &["GET /", "GET /users/1?x=y", "GET /docs/", "GET /dir/", "GET /a.txt", "GET /x.php"],
    ),
    (
        "pages of PHP without a front controller",
        "DirectoryIndex index.php index.html\nOptions -Indexes\nErrorDocument 404 /404.html\nHeader set X-All yes\n",
        &[
            "GET /",
            "GET /x.php?a=b",
            "POST /x.php",
            "GET /docs/",
            "GET /dir/",
            "GET /none",
            "GET /gone/",
            "GET /a.txt",
        ],
    ),
    (
        "addresses without a file to a script",
        "RewriteEngine On\nRewriteRule ^item/([0-9]+)/?$ x.php?id=$1 [L,QSA]\nRewriteRule ^user/([^/]+)$ x.php?name=$1 [L]\n",
        &[
            "GET /item/5",
            "GET /item/5/?a=b",
            "GET /item/x",
            "GET /user/anna",
            "GET /user/anna?a=b",
            "GET /x.php?id=1",
            "POST /item/5",
        ],
    ),
    (
        "a script with a password, one for some addresses, and a page of errors",
        "DirectoryIndex index.php\nErrorDocument 403 /404.html\n<Files x.php>\nAuthType Basic\nAuthName x\nAuthUserFile {dir}/ht\n\
         Require valid-user\n</Files>\n<Files wp-config.php>\nOrder deny,allow\nDeny from all\nAllow from 192.0.2.0/24\n</Files>\n\
         RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ index.php [L]\n",
        &[
            "GET /x.php",
            "GET /docs/x.php",
            "POST /x.php/more",
            "GET /wp-config.php",
            "GET /wp-config.php/x",
            "GET /",
            "GET /gone",
            "GET /x.php Authorization=Basic~YW5uYTp4",
        ],
    ),
    (
        "settings of a mount beside a front controller: paths that pass, and methods",
        "DirectoryIndex index.php\nRewriteEngine On\nRewriteRule ^(docs|api)/ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ index.php [L]\n<Limit DELETE>\nRequire all denied\n</Limit>\n",
        &[
            "GET /docs/gone",
            "GET /docs/x.php",
            "GET /docs/",
            "GET /api/x",
            "GET /gone",
            "DELETE /gone",
            "DELETE /x.php",
            "PUT /gone",
        ],
    ),
    (
        "a front controller for one method alone",
        "Require all denied\n<Limit GET>\nRequire all granted\n</Limit>\nRewriteEngine On\n\
         RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ index.php [L]\n",
        &["GET /gone", "HEAD /gone", "GET /x.php", "GET /a.txt", "POST /gone", "POST /x.php"],
    ),
    (
        "scripts that nobody gets, and all but images",
        "DirectoryIndex index.php\n<FilesMatch \"\\.php$\">\nRequire all denied\n</FilesMatch>\n<Files x.php>\nRequire all granted\n</Files>\n",
        &[
            "GET /x.php",
            "GET /docs/x.php",
            "GET /index.php",
            "GET /index.php/a",
            "GET /",
            "GET /docs/",
            "GET /a.txt",
            "GET /wp-config.php",
        ],
    ),
];

#[test]
fn scripts_get_the_same_requests() {
    let apache =
        program().expect("apache2 is missing; `cargo xtask test --only packages` installs it");
    let fpm = PhpFpm::start(2);
    let socket = fpm.dir.path("fpm.sock");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))
        .expect("Apache's user may write to it");
    let mut faults = Vec::new();
    for (sentence, text, requests) in ROWS {
        let fastcgi = Some(format!("unix:{}", socket.display()));
        let options = Options { hosts: Vec::new(), fastcgi };
        let case = Case { sentence, text, options, requests, files: SCRIPTS };
        faults.extend(compare(&apache, &case, is_remarked));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn scripts_with_another_ending_are_not_sent() {
    const SCRIPT_PATHS: [&str; 4] = ["/x.php.bak", "/docs/X.PHP.Old", "/x.php.", "/x%2Ephp.bak"];
    let dir = Dir::new();
    let www = dir.0.join("www");
    for name in ["x.php.bak", "docs/X.PHP.Old", "x.php."] {
        fs::write(www.join(name), "<?php").expect("it is written");
    }
    let file = www.join(".htaccess");
    let mut faults = Vec::new();
    // Regression: mod_mime has the handler of any ending of a name run it, not only of the last.
    for directive in ["AddHandler", "AddType"] {
        let text = format!("{directive} application/x-httpd-php .php\n");
        fs::write(&file, &text).expect("it is written");
        let imported = htaccess_file(&file, &Options::default(), false).expect("it is translated");
        let ours = Ours::start_in(&local(&imported.text), 0, &dir.0);
        for path in SCRIPT_PATHS {
            let seen = ask(ours.port, &format!("GET {path}"));
            if seen.status != "403" || seen.body.contains("<?php") {
                faults.push(format!("{text}{path}: {seen:?}"));
            }
        }
        let seen = ask(ours.port, "GET /docs/guide.txt");
        if seen.status != "200" || !imported.text.replace("\n#  ", "").contains("GET /x.php.bak") {
            faults.push(format!("{text}{}\n{seen:?}", imported.text));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
