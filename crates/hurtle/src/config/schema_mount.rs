//! The keys of a mount, and of what may be uploaded to one; the other tables are `schema`'s.

use super::auth::AuthName;
use super::bounds::{
    APP_FILES_MAX, APP_FILES_MIN, APP_PROCESSES_MAX, BYTES_MAX, CACHE_MEMORY_MIN, KEPT_MAX,
    RESUMABLE_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN,
};
use super::names::names;
use super::schema::Absent::{Is, Means};
use super::schema::Kind::{Choice, Flag, Integer, List, Map, Size, Table, Text, Time};
use super::schema::{AUTH, Key, Section};
use super::types::{EtagSource, Symlinks};
use super::upstream::Balance;

/// What makes a mount one of files.
const FILES: &[&str] = &["files"];

/// What makes it one of servers behind this one.
const PROXY: &[&str] = &["proxy"];

/// What makes it one of a FastCGI application.
const FASTCGI: &[&str] = &["fastcgi"];

/// What makes it one of programs.
const CGI: &[&str] = &["cgi"];

/// Those whose answer others make: by their own connection, and by whatever means.
const CONNECTED: &[&str] = &["proxy", "fastcgi"];
const ASKED: &[&str] = &["proxy", "fastcgi", "cgi"];

#[rustfmt::skip] // A paragraph a key.
pub(super) static MOUNT: Section = Section {
    header: "[[site.mount]]",
    doc: "What answers at a path and beneath it: one of `files`, `proxy`, `fastcgi`, `cgi`, `redirect` \
          and `respond`.",
    keys: &[
        Key::new("path", Text("an absolute path"), Is("\"/\""), "\"/docs\"",
            "The path; no two mounts of a site share one, the longest match answers."),
        Key::new("allow", List("networks"), Means("all"), "\"10.0.0.0/8\"",
            "Client addresses let in, beside the site's rule."),
        Key::new("deny", List("networks"), Means("none"), "\"10.6.6.0/24\"",
            "Client addresses refused, beside the site's rule."),
        Key::new("auth", Choice(names::<AuthName>), Means("the site's"), "\"none\"",
            "What clients must show: nothing, or a name and a password (HTTP Basic). Passwords are \
             checked against bcrypt hashes beside the event loops."),
        Key::new("users", Text("a file"), Means("required with `auth = \"basic\"`"),
            "\"users.htpasswd\"", "Names and hashes, a line of `htpasswd -nB NAME` for each; read \
             when the server starts.").with(AUTH),
        Key::new("realm", Text("a few words"), Is("\"hurtle\""), "\"staging\"",
            "What a browser says the password is for.").with(AUTH),
        Key::new("auth_cleartext", Flag, Is("false"), "true",
            "Whether passwords may come in clear over a network; otherwise every address listened \
             on must be a loopback one or a unix socket.").with(AUTH),
        Key::new("files", Text("a directory"), Means("see `proxy`, `redirect`, `respond`"), "\"public\"",
            "Serve this directory. It may be a symbolic link that moves."),
        Key::new("index", List("file names"), Is("[\"index.html\"]"),
            "[\"index.html\", \"index.htm\"]",
            "Names tried, in order, when a directory is asked for; `[]`: none. With `fastcgi` the \
             default is `[\"index.php\"]`, and the first of them that is a script answers for every \
             path where no file is.").with(&["files", "fastcgi"]),
        Key::new("try_files", List("paths"), Is("[]"),
            "[\"{path}\", \"{path}.html\", \"=404\"]",
            "Paths tried in order; `{path}` is the one asked for. A last `\"=404\"`, or another \
             final status, ends the search.").with(FILES),
        Key::new("spa", Text("an absolute path"), Means("off"), "\"/index.html\"",
            "The page of a single-page application: answered (200) in place of 404 to a GET that \
             accepts text/html.").with(FILES),
        Key::new("listing", Flag, Is("false"), "true",
            "Whether directories without an index are listed.").with(FILES),
        Key::new("symlinks", Choice(names::<Symlinks>), Is("\"within-root\""), "\"never\"",
            "Which symbolic links are followed: those that stay beneath the directory, none, or \
             all.").with(FILES),
        Key::new("dotfiles", Flag, Is("false"), "true",
            "Whether names that begin with a dot are served (`.well-known` always is).")
            .with(FILES),
        Key::new("sidecars", Flag, Is("true"), "false",
            "Whether `.br`, `.zst` and `.gz` beside a file are offered to clients that accept \
             them.").with(FILES),
        Key::new("etag", Choice(names::<EtagSource>), Is("\"auto\""), "\"content\"",
            "Where entity-tags come from: size and modification time (the contents where that time \
             means nothing), always the contents, or none is sent.").with(FILES),
        Key::new("media_types", Map("a table of extensions and media types"), Is("{}"),
            "{ foo = \"text/x-foo\" }",
            "Media types by file-name extension, before the built-in ones.").with(FILES),
        Key::new("rate", Size(0, BYTES_MAX), Is("0"), "\"2 MiB\"",
            "The fastest one answer sends a file, in bytes a second; 0: any.").with(FILES),
        Key::new("uploads", Table(&UPLOADS), Means("off"), "{}",
            "Whether files may be uploaded and deleted; the table may be empty (`uploads = {}`). \
             Needs `auth`, here or in the site.").with(FILES),
        Key::new("proxy", List("upstreams"), Means("see `files`, `redirect`, `respond`"),
            "[\"http://127.0.0.1:9000\", \"unix:/run/app.sock\"]",
            "Pass requests on to these servers, by HTTP/1.1: `http://` and a host with its port, or \
             `unix:` and the path of a socket."),
        Key::new("balance", Choice(names::<Balance>), Is("\"round-robin\""),
            "\"least-connections\"",
            "Which upstream gets a request: each in turn, the one with the fewest requests in \
             flight (from this worker), or always the same for a client's address or for a path.")
            .with(PROXY),
        Key::new("connect_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"5s\""), "\"1s\"",
            "How long connecting to an upstream may take (504).").with(CONNECTED),
        Key::new("send_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"30s\""), "\"10s\"",
            "How long an upstream may take none of a request's bytes (504).").with(ASKED),
        Key::new("first_byte_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"60s\""), "\"10s\"",
            "From a request's last byte to the end of its answer's head (504).").with(ASKED),
        Key::new("read_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"60s\""), "\"10m\"",
            "How long an answer's body may pause (the connection is cut).").with(ASKED),
        Key::new("health", Text("an absolute path"), Means("off"), "\"/healthz\"",
            "Ask each upstream for this path: one that does not answer with 2xx or 3xx twice in a \
             row gets no requests until it does (503 where no other is left).").with(PROXY),
        Key::new("health_interval", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"5s\""), "\"1s\"",
            "Between two such questions, from each worker.").with(&["health"]),
        Key::new("upgrades", List("protocols"), Is("[\"websocket\"]"), "[]",
            "Protocols a client may change to (Upgrade), if the upstream agrees; never `h2c`.")
            .with(PROXY),
        Key::new("internal", Text("a directory"), Means("off"), "\"/srv/private\"",
            "Send the file beneath this directory that the upstream or application names in \
             X-Accel-Redirect or X-Sendfile, in place of its own body.").with(ASKED),
        Key::new("fastcgi", Text("an address"), Means("see `files`, `proxy`, `cgi`"),
            "\"unix:/run/php/php-fpm.sock\"",
            "Have requests answered by this FastCGI application, such as PHP-FPM: a host with its \
             port, or `unix:` and the path of a socket; see [fastcgi.md](fastcgi.md)."),
        Key::new("root", Text("a directory"), Means("the application has no files"),
            "\"/srv/app/public\"",
            "Where its scripts are. Other files beneath it are served; without it the application is \
             asked for every path.").with(FASTCGI),
        Key::new("suffix", Text("the end of a file's name"), Is("\".php\""), "\".phtml\"",
            "What the names of scripts end with; only existing files of such names are run, and \
             they are never served.").with(FASTCGI),
        Key::new("keep_connections", Integer(0, KEPT_MAX), Is("0"), "4",
            "Idle connections that each worker keeps. A PHP-FPM child serves nobody else while one of \
             them is its own.").with(FASTCGI),
        Key::new("params", Map("a table of names and strings"), Is("{}"), "{ APP_ENV = \"prod\" }",
            "Variables for the application, beside the request's or in their place.")
            .with(&["fastcgi", "cgi"]),
        Key::new("cgi", Text("a directory"), Means("see `files`, `proxy`, `fastcgi`"),
            "\"/usr/lib/cgi-bin\"",
            "Run the executable file of this directory that the path names, once for each request \
             (CGI/1.1); see [fastcgi.md](fastcgi.md)."),
        Key::new("cpu_time", Time(1_000, TIME_MS_MAX), Is("\"60s\""), "\"5m\"",
            "Processor time that a program may use, and each process it starts.").with(CGI),
        Key::new("memory", Size(1 << 20, BYTES_MAX), Is("\"1 GiB\""), "\"256 MiB\"",
            "Address space of each of them.").with(CGI),
        Key::new("open_files", Integer(APP_FILES_MIN, APP_FILES_MAX), Is("1024"), "64",
            "Descriptors of each of them.").with(CGI),
        Key::new("processes", Integer(1, APP_PROCESSES_MAX), Means("unlimited"), "500",
            "Processes and threads that the server's user may have, all counted, for a program to \
             start another.").with(CGI),
        Key::new("authorizer", Text("an address"), Means("nobody is asked"), "\"127.0.0.1:9001\"",
            "Ask this FastCGI application (in the role of an authorizer) before a request is \
             answered: what it answers with another status than 200 is the answer."),
        Key::new("cache", Table(&CACHE), Means("off"), "{}",
            "Whether answers are kept for other requests, as they allow it (RFC 9111); the table may \
             be empty (`cache = {}`).").with(PROXY),
        Key::new("redirect", Text("a URL or an absolute path"), Means("see `files`, `proxy`, `respond`"),
            "\"https://example.org/\"",
            "Redirect everything beneath the path; the rest of the path and the query are appended \
             when it ends with `/`."),
        Key::new("respond", Text("a string"), Means("see `files`, `proxy`, `redirect`"), "\"ok\"",
            "Give every request this body."),
        Key::new("status", Integer(200, 599), Means("302 with redirect, 200 with respond"), "301",
            "Status of the answer; 301, 302, 303, 307 or 308 for `redirect`.")
            .with(&["redirect", "respond"]),
        Key::new("content_type", Text("a media type"), Is("\"text/plain; charset=utf-8\""),
            "\"application/json\"", "Content-Type of the answer.").with(&["respond"]),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static UPLOADS: Section = Section {
    header: "[site.mount.uploads]",
    doc: "PUT creates or replaces a file of the mount's directory, DELETE removes one; see \
          [uploads.md](uploads.md).",
    keys: &[
        Key::new("file_bytes", Size(0, BYTES_MAX), Is("\"1 GiB\""), "\"20 MiB\"",
            "The largest file taken (413); `body_bytes` does not hold here."),
        Key::new("free_bytes", Size(0, BYTES_MAX), Is("\"256 MiB\""), "\"10 GiB\"",
            "What must stay free on the file system (507)."),
        Key::new("rate", Size(0, BYTES_MAX), Is("0"), "\"2 MiB\"",
            "The fastest one upload is taken, in bytes a second; 0: any."),
        Key::new("resumable", Integer(0, RESUMABLE_MAX), Is("64"), "1000",
            "How many interrupted uploads are kept for a day, to be resumed; 0: none."),
        Key::new("resumable_bytes", Size(0, BYTES_MAX), Is("\"8 GiB\""), "\"100 GiB\"",
            "What they may take on the disk together; one whose length the client has not said \
             counts as `file_bytes`."),
        Key::new("fsync", Flag, Is("false"), "true",
            "Whether a file is on the disk, and not only in the kernel's memory, before its upload \
             is answered."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static CACHE: Section = Section {
    header: "[site.mount.cache]",
    doc: "Answers of upstreams that are kept for other requests; see [cache.md](cache.md).",
    keys: &[
        Key::new("memory", Size(CACHE_MEMORY_MIN, BYTES_MAX), Is("\"64 MiB\""), "\"256 MiB\"",
            "Memory for them, for the whole process."),
        Key::new("disk", Text("a directory"), Means("none; all is in memory"), "\"/var/cache/hurtle\"",
            "Where bodies of more than 64 KiB are kept, in files without names: nothing is left there \
             when the server ends."),
        Key::new("disk_size", Size(0, BYTES_MAX), Is("\"1 GiB\""), "\"20 GiB\"",
            "What they may take there.").with(&["disk"]),
        Key::new("max_object", Size(0, BYTES_MAX), Is("\"16 MiB\""), "\"1 MiB\"",
            "The largest body that is kept; also a quarter of `memory` at most, through which each \
             passes."),
    ],
};
