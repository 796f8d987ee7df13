//! .htaccess files of fields, error pages and hosts, with the requests that Apache and hurtle
//! answer alike.

use crate::htaccess_rows::{NONE, Row};

pub(super) const ROWS: &[Row] = &[
    Row {
        sentence: "fields",
        text: "Header set X-All \"yes\"\nHeader always set X-Docs 100%%\n<FilesMatch \"\\.(css|html)$\">\nHeader set X-Seen page\n</FilesMatch>\n\
               <Files a.txt>\nHeader unset X-All\nHeader append Cache-Control private\n</Files>\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /style.css",
            "GET /none",
            "GET /none.css",
            "GET /dir",
            "GET /dir/",
            "GET /docs/style.css",
        ],
    },
    Row {
        sentence: "caching by type",
        text: "ExpiresActive On\nExpiresDefault \"access plus 1 hour\"\nExpiresByType text/css \"access plus 1 year\"\nExpiresByType text/html A0\n\
               ExpiresByType image/* \"access plus 1 month\"\n<Files a.txt>\nExpiresActive Off\n</Files>\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /a.txt",
            "GET /style.css",
            "GET /about.html",
            "GET /docs/guide.txt",
            "GET /none",
            "GET /dir",
            "GET /dir/",
        ],
    },
    Row {
        sentence: "caching by type alone, and a field that replaces it",
        text: "ExpiresActive On\nExpiresByType text/css \"access plus 1 year\"\n<FilesMatch \"\\.html$\">\nHeader set Cache-Control no-cache\n</FilesMatch>\n\
               Header unset ETag\nFileETag None\nAddType text/x-custom .txt\nExpiresByType text/x-custom A5\n",
        hosts: NONE,
        requests: &[
            "GET /",
            "GET /style.css",
            "GET /about.html",
            "GET /a.txt",
            "GET /docs/guide.txt",
        ],
    },
    Row {
        sentence: "error pages",
        text: "ErrorDocument 404 /404.html\nErrorDocument 403 \"closed\"\nErrorDocument 410 https://example.org/gone\nRedirect gone /gone\n\
               <Files style.css>\nRequire all denied\n</Files>\n",
        hosts: NONE,
        requests: &[
            "GET /none",
            "HEAD /none",
            "POST /none",
            "GET /style.css",
            "GET /gone",
            "GET /404.html",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "indexes of several lines",
        text: "DirectoryIndex none.html\nDirectoryIndex guide.txt\n",
        hosts: NONE,
        requests: &["GET /docs/", "GET /dir/"],
    },
    Row {
        sentence: "other indexes",
        text: "DirectoryIndex guide.txt about.html\nOptions FollowSymLinks\nAddDefaultCharset UTF-8\n",
        hosts: NONE,
        requests: &["GET /", "GET /docs/", "GET /docs", "GET /dir/"],
    },
    Row {
        sentence: "one host",
        text: "RewriteEngine On\nRewriteCond %{HTTP_HOST} ^www\\.example\\.org$ [NC]\nRewriteRule ^(.*)$ http://example.org/$1 [R=301,L]\n\
               RewriteCond %{HTTP_HOST} ^(old|former)\\.example\\.org$\nRewriteRule ^ http://example.org/a.txt [R=301,L]\n",
        hosts: NONE,
        requests: &[
            "GET /a%20b?c Host=www.example.org",
            "GET /a.txt Host=WWW.example.org",
            "GET /a.txt Host=example.org",
            "GET /x Host=former.example.org",
        ],
    },
    Row {
        sentence: "all hosts but one",
        text: "RewriteEngine On\nRewriteCond %{HTTP_HOST} !^example\\.org$\nRewriteRule ^(.*)$ http://example.org/$1 [R=301,L]\n",
        hosts: NONE,
        requests: &[
            "GET /a%20b?c Host=www.example.org",
            "GET /a.txt Host=example.org",
            "GET / Host=x.test",
        ],
    },
    Row {
        sentence: "www off, and www on",
        text: "RewriteEngine On\nRewriteCond %{HTTP_HOST} ^www\\.(.+)$ [NC]\nRewriteRule ^ http://%1%{REQUEST_URI} [R=301,L]\n\
               RewriteCond %{HTTP_HOST} !^www\\.\nRewriteCond %{HTTP_HOST} ^b\nRewriteRule ^(.*)$ http://www.%{HTTP_HOST}/$1 [R=302,L]\n",
        hosts: &["a.example", "www.a.example", "b.example"],
        requests: &[
            "GET /x/y?z=1 Host=www.a.example",
            "GET /a.txt Host=a.example",
            "GET /x?y Host=b.example",
            "GET / Host=b.example",
        ],
    },
    Row {
        sentence: "HTTPS",
        text: "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteRule ^(.*)$ https://%{HTTP_HOST}%{REQUEST_URI} [L,R=301]\n",
        hosts: &["a.localhost"],
        requests: &[
            "GET / Host=a.localhost",
            "GET /x%20y?z=1 Host=a.localhost",
            "POST /a.txt Host=a.localhost",
        ],
    },
    Row {
        sentence: "HTTPS at a proxy",
        text: "RewriteEngine On\nRewriteCond %{HTTP:X-Forwarded-Proto} !https\nRewriteRule ^(.*)$ https://a.example/$1 [L,R=301]\n",
        hosts: NONE,
        requests: &[
            "GET /x?y",
            "GET /a.txt X-Forwarded-Proto=https",
            "GET /a.txt X-Forwarded-Proto=http",
        ],
    },
    Row {
        sentence: "the slash at the end, but not of directories",
        text: "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} (.+)/$\nRewriteRule ^ %1 [L,R=301]\n",
        hosts: NONE,
        requests: &[
            "GET /x/",
            "GET /x/y/?z=1",
            "GET /dir/",
            "GET /",
            "GET /docs/",
            "GET /dir",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "a path that is closed before it is rewritten",
        text: "RewriteEngine On\nRewriteRule ^x\\.php$ /a.txt [L]\nRewriteRule ^(.*)\\.log$ /about.html [L]\nRewriteRule ^secret - [F]\n\
               RewriteRule ^(secret|open)/guide$ /docs/guide.txt [L]\n<FilesMatch \"\\.(php|log)$\">\nRequire all denied\n</FilesMatch>\n",
        hosts: NONE,
        requests: &[
            "GET /x.php",
            "GET /y.log",
            "GET /secret/guide",
            "GET /open/guide",
            "GET /a.txt",
            "GET /about.html",
        ],
    },
    Row {
        sentence: "Redirect and a rewrite of the same path",
        text: "Redirect 301 /d/old /a.txt\nRewriteEngine On\nRewriteRule ^d/(.*)$ docs/$1 [L]\nRedirect gone /d/gone\n",
        hosts: NONE,
        requests: &["GET /d/old", "GET /d/guide.txt", "GET /d/gone", "GET /d/none"],
    },
    Row {
        sentence: "paths that pass before a redirect and a page",
        text: "RewriteEngine On\nRewriteRule ^(docs|api)/ - [L]\nRewriteRule \\.htm$ /a.txt [R=302,L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
               RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^ about.html [L]\n",
        hosts: NONE,
        requests: &[
            "GET /docs/x.htm",
            "GET /docs/guide.txt",
            "GET /api/x",
            "GET /x.htm",
            "GET /x",
            "GET /dir/",
            "GET /docs",
        ],
    },
    Row {
        sentence: "names that begin with a dot",
        text: "RewriteEngine On\nRewriteRule \"(^|/)\\.(?!well-known)\" - [F]\nRedirectMatch 404 /\\.git\n",
        hosts: NONE,
        requests: &[
            "GET /.hidden",
            "GET /.git/x",
            "GET /.well-known/a.txt",
            "GET /bare/.well-known/a.txt",
            "GET /a.txt",
        ],
    },
    Row {
        sentence: "sections in their order",
        text: "<FilesMatch \"\\.txt$\">\nRequire all denied\n</FilesMatch>\n<Files a.txt>\nRequire all granted\n</Files>\n\
               <Files style.css>\nRequire all granted\n</Files>\n<FilesMatch \"\\.css$\">\nRequire all denied\n</FilesMatch>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "GET /docs/guide.txt", "GET /style.css", "GET /docs/style.css"],
    },
    Row {
        sentence: "both releases at once",
        text: "Order deny,allow\nDeny from all\n<Files a.txt>\nRequire all granted\n</Files>\n<Files style.css>\nAllow from all\n</Files>\n\
               <Files about.html>\nOrder allow,deny\nAllow from all\nRequire all denied\n</Files>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "GET /style.css", "GET /about.html", "GET /"],
    },
    Row {
        sentence: "methods and files",
        text: "<Limit GET>\nRequire all denied\n</Limit>\n<Files a.txt>\nRequire all granted\n</Files>\n",
        hosts: NONE,
        requests: &["GET /a.txt", "HEAD /a.txt", "GET /style.css", "DELETE /style.css"],
    },
    Row {
        sentence: "one of two addresses, and none of two",
        text: "<RequireAny>\nRequire ip 192.0.2.1\nRequire ip 127.0.0.1\n</RequireAny>\n<Files a.txt>\nRequire ip 192.0.2.1\nRequire ip 192.0.2.2\n</Files>\n\
               <Files style.css>\n<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 127.0.0.0/8\n</RequireNone>\n</RequireAll>\n</Files>\n",
        hosts: NONE,
        requests: &["GET /", "GET /a.txt", "GET /style.css", "GET /about.html"],
    },
];
