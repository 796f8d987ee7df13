//! .htaccess files and the requests that Apache and hurtle answer alike.

/// A file, and requests whose answers are compared.
pub(super) struct Row {
    pub(super) sentence: &'static str,
    pub(super) text: &'static str,
    /// Names of the site, as `--host` has them.
    pub(super) hosts: &'static [&'static str],
    /// Requests: method, target and, after a space each, field lines with `=`.
    pub(super) requests: &'static [&'static str],
}

pub(super) const NONE: &[&str] = &[];

pub(super) const ROWS: &[Row] = &[
    Row {
        sentence: "files alone",
        text: "Options -Indexes\nServerSignature Off\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "HEAD /",
            "GET /a.txt",
            "HEAD /a.txt",
            "POST /a.txt",
            "DELETE /a.txt",
            "OPTIONS /a.txt",
            "GET /dir",
            "GET /dir/",
            "GET /dir?x=1",
            "GET /none",
            "POST /none",
            "GET /empty/",
            "GET /%61.txt",
            "GET /a.txt/x",
            "GET //a.txt",
            "GET /.hidden",
            "GET /a.txt Range=bytes=1-2",
            "GET /docs/%2e%2e/a.txt",
        ],
    },
    Row {
        sentence: "a directory with some open files",
        text: "Options -Indexes\nRequire all denied\n<FilesMatch \"\\.(html|txt)$\">\nRequire all granted\n</FilesMatch>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "GET /", "GET /dir/", "GET /none.txt", "GET /x.css"],
    },
    Row {
        sentence: "a host beside an exception of it",
        text: "RewriteEngine On\nRewriteCond %{HTTP_HOST} ^(www\\.)?example\\.org$ [NC]\n\
               RewriteCond %{HTTP_HOST} !^www\\.example\\.org$ [NC]\n\
               RewriteRule ^(.*)$ https://www.example.org/$1 [R=301,L]\n",
        hosts: NONE,
        requests: &[
            "GET /a.txt Host=www.example.org",
            "GET /a.txt Host=example.org",
            "GET /a.txt Host=other.org",
        ],
    },
    Row {
        sentence: "a single-page application",
        text: "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.html$ - [L]\n\
               RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.html [L]\n\
               </IfModule>\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /route/deep",
            "GET /route/",
            "HEAD /route",
            "GET /route?x=1",
            "GET /a.txt",
            "GET /dir",
            "GET /dir/",
            "GET /none.js",
            "GET /r%20s",
            "POST /route",
            "GET /index.html",
            "GET /docs/gone",
        ],
    },
    Row {
        sentence: "a single-page application that lets files pass first",
        text: "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} -d\n\
               RewriteRule ^ - [L]\nRewriteRule ^ index.html [L]\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /route/deep",
            "GET /a.txt",
            "GET /dir",
            "GET /dir/",
            "POST /route",
        ],
    },
    Row {
        sentence: "a page for missing files and directories",
        text: "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_URI} !^/docs/\n\
               RewriteRule ^(.*)$ /about.html [L]\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /route",
            "GET /a.txt",
            "GET /dir/",
            "GET /docs/gone",
            "GET /docs/guide.txt",
        ],
    },
    Row {
        sentence: "FallbackResource",
        text: "FallbackResource /index.html\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /route/deep",
            "GET /a.txt",
            "GET /dir",
            "GET /dir/",
            "HEAD /gone",
        ],
    },
    Row {
        sentence: "names without their ending",
        text: "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME}\\.html -f\n\
               RewriteRule ^(.*)$ $1.html [NC,L]\n",
        hosts: NONE,
        requests: &[
            "GET /about",
            "HEAD /about",
            "GET /about.html",
            "GET /none",
            "GET /",
            "GET /dir",
            "GET /a.txt",
            "GET /docs/guide",
        ],
    },
    Row {
        sentence: "redirects of mod_alias",
        text: "Redirect 301 /old /about.html\nRedirect /moved/ https://example.org/new/\nRedirectPermanent /home https://example.org/\n\
               RedirectMatch 301 ^/blog/(.*)$ /news/$1\nRedirectMatch 302 \\.php5$ /about.html\nRedirect gone /gone\nRedirect 307 /t /a.txt\n\
               RedirectMatch 404 ^/hid(den)?$\nRedirectTemp /tmp /a.txt\nRedirect seeother /see /a.txt\n",
        hosts: NONE,
        requests: &[
            "GET /old",
            "GET /old/",
            "GET /old/x%20y?z=1",
            "GET /older",
            "HEAD /old",
            "POST /old",
            "GET /moved",
            "GET /moved/",
            "GET /moved/a/b?c=d",
            "GET /home",
            "GET /blog/x/y",
            "GET /blog/x%20y?z=1",
            "GET /blog",
            "GET /x.php5",
            "GET /gone",
            "GET /gone/x",
            "GET /goner",
            "POST /t",
            "GET /hidden",
            "GET /hid",
            "GET /hide",
            "GET /tmp",
            "GET /see",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "redirects of mod_rewrite",
        text: "RewriteEngine On\nRewriteBase /\nRewriteRule ^old$ about.html [R=301,L]\nRewriteRule ^blog/(.*)$ /news/$1 [R=301,L]\n\
               RewriteRule ^page/([0-9]+)/?$ /list?page=$1 [R,L]\nRewriteRule ^add/(.*)$ /list?x=$1 [R,L,QSA]\nRewriteRule ^drop$ /a.txt? [R,L]\n\
               RewriteRule ^UPPER$ /a.txt [NC,R=308]\nRewriteRule ^ext/(.*) https://example.org/$1 [L]\nRewriteRule ^/never$ /a.txt [R]\n\
               RewriteRule \\.aspx$ /a.txt [R=301,QSD]\nRewriteCond %{REQUEST_URI} ^/m/(.+)$\nRewriteRule ^ /n/%1 [R=302,L]\n",
        hosts: NONE,
        requests: &[
            "GET /old",
            "GET /old?x=1",
            "GET /old/",
            "HEAD /old",
            "POST /old",
            "GET /blog/",
            "GET /blog/a%20b%2Bc?d=e",
            "GET /page/3",
            "GET /page/3/?a=b",
            "GET /page/x",
            "GET /add/1?y=2",
            "GET /add/1",
            "GET /drop?x=1",
            "GET /upper",
            "GET /ext/a/b?c",
            "GET /never",
            "GET /x.aspx?y",
            "GET /m/a/b?c=d",
            "GET /m/",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "rewrites to other files",
        text: "RewriteEngine On\nRewriteRule ^guide$ docs/guide.txt [L]\nRewriteRule ^text/([a-z]+)$ /docs/$1.txt [L]\n\
               RewriteRule ^d/(.*)$ docs/$1 [L]\n",
        hosts: NONE,
        requests: &[
            "GET /guide",
            "HEAD /guide",
            "GET /text/guide",
            "GET /text/gone",
            "GET /d/guide.txt",
            "GET /d/x/y",
            "GET /guide/",
        ],
    },
    Row {
        sentence: "all requests to a directory",
        text: "RewriteEngine On\nRewriteCond %{REQUEST_URI} !^/docs/\nRewriteRule ^(.*)$ docs/$1 [L]\n",
        hosts: NONE,
        requests: &["GET /guide.txt", "GET /docs/guide.txt", "GET /a.txt", "GET /style.css"],
    },
    Row {
        sentence: "refusals by fields, which may be empty",
        text: "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} ^$\nRewriteRule ^docs/ - [F]\n\
               RewriteCond %{HTTP_USER_AGENT} (ahrefs|semrush) [NC]\nRewriteRule ^ - [F]\nRewriteCond %{HTTP_REFERER} !^$\n\
               RewriteCond %{HTTP_REFERER} !^https?://(www\\.)?example\\.org [NC]\nRewriteRule \\.css$ - [F]\n",
        hosts: NONE,
        requests: &[
            "GET /docs/guide.txt",
            "GET /docs/guide.txt User-Agent=",
            "GET /docs/guide.txt User-Agent=x",
            "GET /a.txt User-Agent=AhrefsBot",
            "GET /a.txt User-Agent=x",
            "GET /style.css",
            "GET /style.css Referer=",
            "GET /style.css Referer=https://WWW.Example.org/x",
            "GET /style.css Referer=https://bad.test/",
        ],
    },
    Row {
        sentence: "refusals of mod_rewrite",
        text: "RewriteEngine On\nRewriteRule ^secret - [F]\nRewriteRule ^gone$ - [G]\nRewriteCond %{REQUEST_METHOD} ^(TRACE|DELETE|PUT)$\n\
               RewriteRule .* - [F]\nRewriteCond %{HTTP_USER_AGENT} ^BadBot [OR]\nRewriteCond %{HTTP_USER_AGENT} Scraper\nRewriteRule ^ - [F,L]\n\
               RewriteCond %{QUERY_STRING} (^|&)debug=1(&|$)\nRewriteRule ^ - [R=404,L]\nRewriteCond %{HTTP_REFERER} ^https://bad\\.example/\n\
               RewriteRule \\.css$ - [F]\n",
        hosts: NONE,
        requests: &[
            "GET /secret",
            "GET /secret/x",
            "GET /docs/secret/key.txt",
            "GET /gone",
            "DELETE /a.txt",
            "PUT /a.txt",
            "GET /a.txt",
            "GET /a.txt User-Agent=BadBot/1",
            "GET /a.txt User-Agent=x~Scraper",
            "GET /a.txt User-Agent=x~BadBot",
            "GET /a.txt?debug=1",
            "GET /a.txt?x=1&debug=1",
            "GET /a.txt?debug=10",
            "GET /style.css Referer=https://bad.example/x",
            "GET /style.css",
        ],
    },
    Row {
        sentence: "refusals for the begin of any segment",
        text: "RewriteEngine On\nRewriteRule (?:^|/)[^/.]+\\.txt$ - [F]\nRewriteRule (/|^)[^a/]bout - [G]\n",
        hosts: NONE,
        requests: &["GET /a.txt", "GET /docs/guide.txt", "GET /about.html", "GET /style.css"],
    },
    Row {
        sentence: "files that nobody gets",
        text: "<FilesMatch \"\\.(txt|log)$\">\nRequire all denied\n</FilesMatch>\n<Files \"about.html\">\nOrder allow,deny\nDeny from all\n</Files>\n\
               <Files ~ \"^x\\.\">\nRequire all denied\n</Files>\n",
        hosts: NONE,
        requests: &[
            "GET /a.txt",
            "HEAD /a.txt",
            "POST /a.txt",
            "GET /a%2Etxt",
            "GET /a.txt/",
            "GET /a.txt/x",
            "GET /none.log",
            "GET /none.logs",
            "GET /docs/guide.txt",
            "GET /about.html",
            "GET /docs/about.html",
            "GET /x.php",
            "GET /bare/x.txt",
            "GET /style.css",
            "GET /",
        ],
    },
    Row {
        sentence: "an index that nobody gets",
        text: "<FilesMatch \"^index\\.html$\">\nRequire all denied\n</FilesMatch>\n",
        hosts: NONE,
        requests: &["GET /", "GET /index.html", "GET /dir/", "GET /dir", "GET /a.txt"],
    },
    Row {
        sentence: "a closed directory with open files",
        text: "Require all denied\n<FilesMatch \"\\.(css|txt)$\">\nRequire all granted\n</FilesMatch>\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /style.css",
            "GET /about.html",
            "GET /none.txt",
            "GET /docs/guide.txt",
            "GET /none",
        ],
    },
    Row {
        sentence: "addresses",
        text: "<RequireAll>\nRequire all granted\nRequire not ip 127.0.0.1\n</RequireAll>\n<Files a.txt>\nRequire ip 127\n</Files>\n",
        hosts: NONE,
        requests: &["GET /", "GET /a.txt", "GET /style.css"],
    },
    Row {
        sentence: "addresses of Apache 2.2",
        text: "Order deny,allow\nDeny from all\nAllow from 192.0.2 127.0.0.0/255.0.0.0\n<Files a.txt>\nOrder allow,deny\nAllow from all\nDeny from 127.0.0.1\n</Files>\n",
        hosts: NONE,
        requests: &["GET /", "GET /a.txt", "GET /style.css"],
    },
    Row {
        sentence: "methods",
        text: "<LimitExcept GET POST>\nRequire all denied\n</LimitExcept>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "HEAD /a.txt", "DELETE /a.txt", "PUT /none", "OPTIONS /a.txt"],
    },
    Row {
        sentence: "methods that are refused",
        text: "<Limit PUT DELETE>\nOrder deny,allow\nDeny from all\n</Limit>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "DELETE /a.txt", "PUT /none"],
    },
    Row {
        sentence: "files that nobody gets, beside methods of Apache 2.2",
        text: "<FilesMatch \"\\.(txt|log)$\">\nRequire all denied\n</FilesMatch>\n<Limit GET POST>\nOrder allow,deny\nAllow from all\n</Limit>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "POST /a.txt", "DELETE /a.txt", "GET /style.css"],
    },
    Row {
        sentence: "files of Apache 2.4, beside methods that 2.2 refuses",
        text: "<Files a.txt>\nRequire ip 127.0.0.1\n</Files>\n<Limit DELETE>\nOrder deny,allow\nDeny from all\n</Limit>\n\
               <Files style.css>\nRequire ip 192.0.2.1\n</Files>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "DELETE /a.txt", "GET /style.css", "GET /about.html"],
    },
    Row {
        sentence: "a password",
        text: "AuthType Basic\nAuthName \"staff\"\nAuthUserFile {dir}/ht\nRequire valid-user\n<Files style.css>\nRequire all granted\n</Files>\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /none",
            "GET /style.css",
            "GET /a.txt Authorization=Basic~YW5uYTp4",
        ],
    },
];
