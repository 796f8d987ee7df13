//! .htaccess files whose import is known; what is refused, by line; and what `--partial` leaves out
//! or closes.

use hurtle::import::htaccess::{Options, Tree, htaccess};

use crate::apache::configuration;

const NONE: &[&str] = &[];

fn options(hosts: &[&str]) -> Options {
    Options { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), fastcgi: None }
}

#[test]
fn directives_become_keys() {
    let rows: [(&str, &str, &[&str], &[&str]); 15] = [
        (
            "settings of PHP",
            "php_value memory_limit 256M\nphp_flag display_errors off\nSetEnv APP_ENV prod\n",
            NONE,
            &[
                "fastcgi = \"unix:/run/php/php-fpm.sock\"\nroot = \"/srv/www\"\nfront_controller = false",
                "params = { APP_ENV = \"prod\", PHP_VALUE = \"memory_limit=256M\\ndisplay_errors=0\" }",
            ],
        ),
        (
            "the address of PHP-FPM",
            "<FilesMatch \\.php$>\nSetHandler \"proxy:unix:/run/php8.sock|fcgi://localhost\"\n</FilesMatch>\n",
            NONE,
            &["fastcgi = \"unix:/run/php8.sock\""],
        ),
        (
            "a handler of a host of sites",
            "AddHandler application/x-httpd-php81 .php\n",
            NONE,
            &["fastcgi = "],
        ),
        ("a size", "LimitRequestBody 1048576\n", NONE, &["body_bytes = 1048576"]),
        (
            "compression of scripts",
            "DirectoryIndex index.php\nAddOutputFilterByType DEFLATE text/html\n",
            NONE,
            &["compress = true"],
        ),
        (
            "lists and types",
            "Options +Indexes\nAddType text/x-foo .foo\nFileETag None\n",
            NONE,
            &[
                "files = \"/srv/www\"\nlisting = true\netag = \"off\"\nmedia_types = { foo = \"text/x-foo\" }",
            ],
        ),
        ("links", "Options None\n", NONE, &["symlinks = \"never\""]),
        (
            "an index of programs beside one of files",
            "DirectoryIndex index.htm index.cgi index.pl\n",
            NONE,
            &["index = [\"index.htm\"]"],
        ),
        (
            "HTTPS for a name",
            "RewriteEngine On\nRewriteCond %{SERVER_PORT} ^80$\nRewriteRule ^(.*)$ https://a.example.org/$1 [R=301,L]\n",
            NONE,
            &[
                "listen = [\"0.0.0.0:80\", \"[::]:80\"]\nlisten_tls = [\"0.0.0.0:443\", \"[::]:443\"]\n[acme]\naccept_terms = true",
                "hosts = \"a.example.org\"\ndefault = true\n[site.tls]\ncertificate = \"auto\"",
            ],
        ),
        (
            "HTTPS or www",
            "RewriteEngine On\nRewriteCond %{HTTPS} off [OR]\nRewriteCond %{HTTP_HOST} !^www\\. [NC]\n\
             RewriteRule ^(.*)$ https://www.a.test.org/$1 [R=301,L]\n",
            &["a.test.org", "www.a.test.org"],
            &[
                "match = { path = \"/**\", host = \"a.test.org\" }\nredirect = \"https://www.a.test.org/{1}\"\nstatus = 301",
                "certificate = \"auto\"",
            ],
        ),
        (
            "modules",
            "<IfModule mod_x.c>\nHeader set X y\n</IfModule>\n<IfModule !mod_rewrite.c>\nRedirect / /x\n</IfModule>\n",
            NONE,
            &["[[site]]\n[[site.mount]]\nfiles = \"/srv/www\""],
        ),
        (
            "versions",
            "<IfVersion >= 2.4>\nRequire all denied\n</IfVersion>\n<IfVersion < 2.4>\nDeny from all\n</IfVersion>\n",
            NONE,
            &["[[site.mount]]\nrespond = \"\"\nstatus = 403"],
        ),
        (
            "addresses of both releases",
            "Require all granted\nOrder deny,allow\nDeny from 10.1.\nDeny from 192.0.2.1\n",
            NONE,
            &["deny = [\"10.1.0.0/16\", \"192.0.2.1\"]"],
        ),
        (
            "a password",
            "AuthType Basic\nAuthName \"Members only\"\nAuthUserFile /srv/.htpasswd\nRequire valid-user\n",
            NONE,
            &["auth = \"basic\"\nusers = \"/srv/.htpasswd\"\nrealm = \"Members only\""],
        ),
        (
            "a brace that is none of hurtle's",
            "Header set X-A {env.HOME}\n",
            NONE,
            &["set = { X-A = \"{{env.HOME}\" }"],
        ),
    ];
    let mut faults = Vec::new();
    for (sentence, text, hosts, parts) in rows {
        match htaccess(text, &Tree::empty("/srv/www"), &options(hosts), false) {
            Ok(imported) => {
                let found = configuration(&imported.text);
                let missing = parts.iter().filter(|part| !found.contains(**part));
                faults.extend(missing.map(|part| format!("{sentence}: no\n{part}\nin\n{found}")));
            }
            Err(problems) => faults.push(format!("{sentence}: {}", problems.join("\n"))),
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn what_has_no_counterpart_is_refused_by_line() {
    let rows: [(&str, usize, &str); 62] = [
        (
            "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} BadBot [OR]\nRewriteRule ^private/ - [F]",
            3,
            "take OR off",
        ),
        ("Require all granted\nRequire not ip 192.0.2.1", 2, "Apache answers 500"),
        (
            "<RequireAny>\nRequire ip 10\n<RequireNone>\nRequire ip 10.1\n</RequireNone>\n</RequireAny>",
            3,
            "Apache answers 500",
        ),
        ("<RequireAll>\nRequire not ip 192.0.2.1\n</RequireAll>", 1, "Apache answers 500"),
        ("<IfModule mod_ssl.c>\nSSLRequireSSL\n</IfModule>", 1, "write its lines without"),
        (
            "<RequireAll>\nRequire ip 10.1.2.3\nRequire not ip 10.1.0.0/16\n</RequireAll>",
            3,
            "that another refuses",
        ),
        (
            "Require ip 10.1.2.3\nOrder allow,deny\nAllow from all\nDeny from 10.1.0.0/16",
            1,
            "that another refuses",
        ),
        ("Redirect 301 /index.html /", 1, "the index of a directory"),
        ("RewriteEngine On\nRewriteRule ^docs/index\\.html$ - [F]", 2, "the index of a directory"),
        (
            "RewriteEngine On\nRewriteBase /\nRewriteRule \\.html$ /a.txt [R]",
            3,
            "the index of a directory",
        ),
        (
            "<Files a.txt>\nRequire ip 192.0.2.1\n</Files>\n<Limit GET>\nOrder allow,deny\nAllow from 192.0.2.2\n</Limit>",
            4,
            "write all sections with Require",
        ),
        (
            "<Files *.txt>\nRequire all denied\n</Files>\n<Files b*>\nRequire all granted\nOrder deny,allow\n</Files>",
            4,
            "write all sections with Require",
        ),
        ("RewriteEngine On\nRewriteRule (^|.*/)[^/]+\\.bak$ - [F]\n", 2, "write ^ at the begin"),
        (
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME}.html -f\nRewriteRule ^(.*)$ $1.html\n<Files b.html>\nRequire all denied\n</Files>",
            3,
            "for names with .html",
        ),
        (
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME}.html -f\nRewriteRule ^(.*)$ $1.html\n<Files b.html>\nRequire ip 192.0.2.1\n</Files>",
            4,
            "without their ending",
        ),
        (
            "Redirect /docs/x /y\nRewriteEngine On\nRewriteRule ^d/(.*)$ docs/$1 [L]",
            3,
            "meet a Redirect",
        ),
        (
            "Redirect /index.php /\nFoo\nRewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]",
            5,
            "meet a Redirect",
        ),
        (
            "RewriteEngine On\nRewriteRule \\.html$ /a [R]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ /b.html [L]",
            4,
            "its result may meet",
        ),
        (
            "RewriteEngine On\nRewriteRule ^index - [F]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ /index.html [L]",
            4,
            "its result may meet",
        ),
        (
            "Options -FollowSymLinks\nRewriteEngine On\nRewriteRule ^a$ /b [R]",
            1,
            "needs FollowSymLinks",
        ),
        ("RewriteEngine On\nRewriteRule ^a$ b.html [R]", 2, "without RewriteBase"),
        ("RewriteEngine On\nRewriteBase /blog/", 2, "write RewriteBase /"),
        (
            "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R,L]",
            3,
            "--host",
        ),
        (
            "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteCond %{HTTP_HOST} !^localhost$\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]",
            4,
            "--host",
        ),
        (
            "RewriteEngine On\nRewriteCond %{HTTP_HOST} ^www\\.(.*)$\nRewriteRule ^ http://%1/ [R,L]",
            3,
            "--host",
        ),
        ("RewriteEngine On\nRewriteRule ^(.*)$ http://127.0.0.1/$1 [P]", 2, "`proxy`"),
        ("RewriteEngine On\nRewriteRule ^a$ b [CO=x:y:z]", 2, "the flag CO is not known"),
        ("RewriteEngine On\nRewriteRule ^a$ - [E=X:1]", 2, "variable X of the environment"),
        ("RewriteEngine On\nRewriteRule ^(.*)$ x.php?p=$1 [L]", 2, "its result may meet"),
        (
            "RewriteEngine On\nRewriteRule ^a$ /b [L]\nRewriteRule ^b$ /c [L]",
            2,
            "its result may meet",
        ),
        (
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f\nRewriteRule ^ - [F]",
            3,
            "look at no files",
        ),
        (
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^a/ /index.html [L]",
            3,
            "is for all paths",
        ),
        (
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ /sub/index.php [L]",
            3,
            "in this directory",
        ),
        (
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME}.php -f\nRewriteRule ^(.*)$ $1.php [L]",
            3,
            "by their whole names",
        ),
        (
            "RewriteEngine On\nRewriteCond %{THE_REQUEST} x\nRewriteRule ^ - [F]",
            3,
            "THE_REQUEST is not known",
        ),
        (
            "RewriteEngine On\nRewriteCond %{QUERY_STRING} x\nRewriteRule ^ - [F]",
            3,
            "one parameter",
        ),
        ("RewriteEngine On\nRewriteRule a(?=b) - [F]", 2, "look-around"),
        ("RewriteEngine On\nRewriteRule ^([0-9]+ - [F]", 2, "not a regular expression"),
        ("RewriteEngine On\nRewriteRule ^a$ %{HTTP_REFERER} [R]", 2, "HTTP_REFERER is not known"),
        ("RewriteOptions Inherit\nRewriteEngine On", 1, "this file alone"),
        ("Redirect 301 old /new", 1, "begins with a slash"),
        ("Redirect 301 /old new", 1, "or a URL"),
        ("RedirectMatch 301 ^/(.*$ /new", 1, "not a regular expression"),
        ("Redirect 200 /a /b", 1, "its status is"),
        ("ErrorDocument 404 /404.php", 1, "a script answers no errors"),
        ("Options Indexes +FollowSymLinks", 1, "Apache answers 500"),
        ("Options +MultiViews", 1, "multiviews is not known"),
        ("Options +ExecCGI", 1, "execcgi is not known"),
        ("DirectoryIndex /x/index.html", 1, "a name in the directory"),
        ("Require host example.org", 1, "of conditions on clients"),
        ("Require user anna", 1, "write valid-user"),
        ("AuthType Digest\nAuthUserFile /x\nRequire valid-user", 3, "AuthType Basic"),
        ("Order allow,deny\nAllow from .example.org", 2, "no address or network"),
        ("Satisfy Any", 1, "Satisfy All"),
        ("Header set A b env=X", 1, "not on variables"),
        ("Header edit A b c", 1, "of actions it knows"),
        ("Header set A %{X}e", 1, "% begins a variable"),
        (
            "ExpiresActive On\nExpiresByType text/css \"modification plus 1 day\"",
            2,
            "since the last change",
        ),
        ("php_flag engine off", 1, "in the whole directory"),
        ("AddHandler cgi-script .pl", 1, "those of PHP"),
        ("<If \"true\">\n</If>", 1, "no counterpart"),
        ("Foo bar", 1, "no counterpart"),
    ];
    let mut faults = Vec::new();
    for (text, line, reason) in rows {
        let found = match htaccess(text, &Tree::empty("/srv/www"), &options(NONE), false) {
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
fn what_is_refused_is_left_out_or_closed() {
    const CLOSED: &str = "[[site]]\n[[site.mount]]\nrespond = \"\"\nstatus = 403";
    // A file, the number of directives left out, and the end of the configuration.
    let rows: [(&str, &str, usize, &str); 12] = [
        (
            "scripts that are turned off",
            "php_flag engine off\nDirectoryIndex index.html index.php\n",
            1,
            CLOSED,
        ),
        ("a whole one", "Options -Indexes\n", 0, "files = \"/srv/www\""),
        (
            "a field",
            "Header set A %{X}e\nHeader set B c\n",
            1,
            "set = { B = \"c\" }\n[[site.mount]]\nfiles = \"/srv/www\"",
        ),
        (
            "fields on a condition",
            "<If \"true\">\nHeader set A b\n</If>\n",
            1,
            "files = \"/srv/www\"",
        ),
        (
            "a rule",
            "RewriteEngine On\nRewriteCond %{THE_REQUEST} x\nRewriteRule ^a/ - [F]\n",
            1,
            "[[site.mount]]\nmatch = { regex = \"^/a/\" }\nrespond = \"\"\nstatus = 403\n[[site.mount]]\nfiles = \"/srv/www\"",
        ),
        (
            "a rule for all paths",
            "RewriteEngine On\nRewriteRule ^(.*)$ public/$1 [P]\n",
            1,
            "match = \"/**\"\nrespond = \"\"\nstatus = 403",
        ),
        (
            "a rule with an expression that cannot be",
            "RewriteEngine On\nRewriteRule a(?=b) - [F]\n",
            1,
            CLOSED,
        ),
        (
            "access to files",
            "<Files a.txt>\nRequire host x\n</Files>\n",
            1,
            "[[site.mount]]\nmatch = { regex = \"/a\\\\.txt(/|$)\" }\nrespond = \"\"\nstatus = 403\n[[site.mount]]\nfiles = \"/srv/www\"",
        ),
        (
            "files that cannot be named",
            "<FilesMatch \"(?<=a)b\">\nRequire all denied\n</FilesMatch>\n",
            1,
            CLOSED,
        ),
        (
            "fields of files that cannot be named",
            "<FilesMatch \"(?<=a)b\">\nHeader set A b\n</FilesMatch>\n",
            1,
            "files = \"/srv/www\"",
        ),
        ("access", "Require host x\n", 1, CLOSED),
        (
            "access on a condition",
            "<IfModule mod_rewrite.c>\n<If \"true\">\nRequire all denied\n</If>\n</IfModule>\n",
            1,
            CLOSED,
        ),
    ];
    let mut faults = Vec::new();
    for (sentence, text, left_out, expected) in rows {
        match htaccess(text, &Tree::empty("/srv/www"), &options(NONE), true) {
            Ok(imported) => {
                let found = configuration(&imported.text);
                let has_ended = match expected {
                    CLOSED => found == CLOSED,
                    part => found.contains(part),
                };
                if !has_ended || imported.left_out != left_out {
                    faults.push(format!(
                        "{sentence}: {} left out\n{}",
                        imported.left_out, imported.text
                    ));
                }
            }
            Err(problems) => faults.push(format!("{sentence}: {}", problems.join("\n"))),
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn other_files_are_named() {
    let tree = Tree { nested: vec!["uploads/.htaccess".to_owned()], ..Tree::empty("/srv/www") };
    let imported = htaccess("", &tree, &options(NONE), false).expect("it is translated");
    assert!(
        imported.text.contains("uploads/.htaccess: Apache applies this file, too"),
        "{}",
        imported.text
    );
}
