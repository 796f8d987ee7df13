//! .htaccess files of fields, error pages and hosts, with the requests that Apache and hurtle answer alike.

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
];
