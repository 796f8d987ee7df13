//! .htaccess files that are refused: hurtle would lose a guard, send a source, or refuse what
//! Apache answers, such as a page.

use hurtle::import::htaccess::{Options, Tree, htaccess};

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
    (
        "<IfModule mod_cgi.c>\nAddHandler cgi-script .cgi\nOptions +ExecCGI\n</IfModule>",
        1,
        OF_UNKNOWN_MODULE,
    ),
    ("<IfModule mod_ssl.c>\nSSLVerifyClient require\n</IfModule>", 1, OF_UNKNOWN_MODULE),
    ("<IfModule mod_foo.c>\nRedirectMatch 403 ^/admin\n</IfModule>", 1, OF_UNKNOWN_MODULE),
    ("<IfModule mod_foo.c>\nphp_flag engine off\n</IfModule>", 1, OF_UNKNOWN_MODULE),
    ("<IfModule mod_foo.c>\nSetOutputFilter INCLUDES\n</IfModule>", 1, OF_UNKNOWN_MODULE),
    (
        "<IfModule mod_foo.c>\n<FilesMatch \\.pl$>\nSetHandler cgi-script\n</FilesMatch>\n</IfModule>",
        1,
        OF_UNKNOWN_MODULE,
    ),
    ("DirectoryIndex index.cgi index.pl", 1, "the source of index.cgi would be sent"),
    ("DirectoryIndex index.PHP", 1, "the source of index.PHP would be sent"),
    ("FallbackResource /index.phtml", 1, "the source of index.phtml would be sent"),
    ("ErrorDocument 404 /404.phtml", 1, "the source of 404.phtml would be sent"),
    (
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^(.*)$ index.cgi [QSA,L]",
        3,
        "the source of index.cgi would be sent",
    ),
    (
        "RewriteEngine On\nRewriteRule ^item/([0-9]+)$ index.cgi?id=$1 [L]",
        2,
        "the source of index.cgi would be sent",
    ),
    (
        "RewriteEngine On\nRewriteRule ^item/(.*)$ app.fcgi/$1 [L]",
        2,
        "the source of app.fcgi would be sent",
    ),
    (
        "<Limit GET POST>\nRequire all denied\n</Limit>\n<LimitExcept POST>\nRequire ip 10\n</LimitExcept>",
        4,
        "write their lines in one section",
    ),
    ("<Limit GET>\n<Files a.txt>\nRequire all denied\n</Files>\n</Limit>", 2, "Apache answers 500"),
    (
        "<Limit GET PUT>\n<Limit GET>\nRequire all denied\n</Limit>\n</Limit>",
        2,
        "in a section of methods",
    ),
    ("<Limit TRACE>\nRequire all denied\n</Limit>", 1, "no module has the method TRACE"),
    ("<Limit get>\nRequire all denied\n</Limit>", 1, "no module has the method get"),
    (
        "Require all denied\n<Files a.txt>\n<Limit DELETE>\nRequire all denied\n</Limit>\n</Files>",
        3,
        OF_OTHER_METHODS,
    ),
    (
        "<Files *.txt>\nRequire all denied\n</Files>\n<Files a.txt>\n<Limit PUT>\nRequire ip 10\n</Limit>\n</Files>",
        5,
        OF_OTHER_METHODS,
    ),
    (
        "Order deny,allow\nDeny from all\n<Files a.txt>\n<Limit GET>\nAllow from all\n</Limit>\n</Files>",
        4,
        OF_OTHER_METHODS,
    ),
    (
        "AuthType Basic\nAuthUserFile /x\nRequire ip 10\n<Limit POST>\nRequire valid-user\n</Limit>",
        4,
        "one of its lines or of those around it",
    ),
    (
        "Require all denied\n<Limit GET>\nRequire all granted\n</Limit>\nRewriteEngine On\n\
         RewriteCond %{REQUEST_URI} !^/docs/\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ /about.html [L]",
        2,
        "spares paths",
    ),
    ("RewriteEngine On\nRewriteRule ^a$ /b.txt [END]\nRewriteRule ^b - [F]", 2, NOT_BY_APACHE),
    ("RewriteEngine On\nRewriteRule ^b - [F]\nRewriteRule ^a$ /b.txt [END]", 3, NOT_BY_APACHE),
    (
        "RewriteEngine On\nRewriteRule ^d/(.*)$ docs/$1 [END]\nRewriteRule ^docs/secret - [F]",
        2,
        NOT_BY_APACHE,
    ),
    ("RewriteEngine On\nRewriteRule ^a$ /b.txt [END]\nRewriteRule ^ - [F]", 2, NOT_BY_APACHE),
    (
        "RewriteEngine On\nRewriteCond %{ENV:REDIRECT_STATUS} ^$\nRewriteRule ^b - [F]\nRewriteRule ^a$ /b.txt [L]",
        4,
        NOT_BY_APACHE,
    ),
    (
        "RewriteEngine On\nRewriteRule !^docs - [F]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ about.html [L]",
        5,
        "its result may meet a Redirect, a refusal",
    ),
];

const OF_UNKNOWN_MODULE: &str = "write its lines without <IfModule>";

const OF_OTHER_METHODS: &str = "for other methods Apache grants its files";

const NOT_BY_APACHE: &str = "is applied to its result here, and not by Apache";

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
