//! Each kind of mount in the sandbox: as it starts, after other programs have replaced what it
//! uses, and in the next release.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rcgen::generate_simple_self_signed;
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::{Confined, Later, switch};
use crate::child::{Child, eventually, hurtle};
use crate::support::{Dir, reserved_address};
use crate::tokens::{Signer, set};

/// Everything that a release and its surroundings have.
struct Application {
    dir: Dir,
    key: Signer,
    upstream: SocketAddr,
    secure: SocketAddr,
}

impl Application {
    fn new() -> Application {
        let dir = Dir::new(&[
            ("releases/1/public/x.txt", "first"),
            ("releases/1/private/p.txt", "first, private"),
            ("releases/2/public/x.txt", "second"),
            ("releases/2/private/p.txt", "second, private"),
            ("data/up/", ""),
            ("cache/", ""),
            ("logs/", ""),
            ("run/", ""),
            ("live/", ""),
            ("archive/", ""),
            ("auth/", ""),
            ("temporary/", ""),
        ]);
        for part in ["data/up", "cache", "logs", "run", "temporary"] {
            fs::set_permissions(dir.path(part), Permissions::from_mode(0o777)).unwrap();
        }
        switch(&dir.path("current"), "releases/1");
        let secure = reserved_address();
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = upstream.local_addr().unwrap();
        thread::spawn(move || upstream.incoming().for_each(|stream| respond(stream.unwrap())));
        let app = Application { dir, key: Signer::hs256(), upstream: address, secure };
        app.listen("1");
        app.renew("1");
        app.write_accounts();
        app
    }

    /// Makes the sockets of applications anew, as a restart of them does.
    fn listen(&self, turn: &str) {
        let bind = |name: &str| {
            let path = self.dir.path(format!("run/{name}"));
            // The first time there is none.
            let _ = fs::remove_file(&path);
            let listener = UnixListener::bind(&path).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
            listener
        };
        let (http, fastcgi) = (bind("http.sock"), bind("fastcgi.sock"));
        let text = format!("fastcgi {turn}");
        thread::spawn(move || http.incoming().for_each(|stream| respond(stream.unwrap())));
        thread::spawn(move || {
            fastcgi.incoming().for_each(|stream| respond_fastcgi(stream.unwrap(), &text));
        });
    }

    /// Renews the certificate as certbot does: another file, then the link.
    fn renew(&self, turn: &str) {
        let pair = generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let files = [("cert", pair.cert.pem()), ("key", pair.signing_key.serialize_pem())];
        for (name, text) in files {
            self.dir.write(format!("archive/{name}{turn}.pem"), text);
            let link = self.dir.path(format!("live/{name}.pem"));
            switch(&link, format!("../archive/{name}{turn}.pem"));
        }
    }

    /// Replaces the files of users and keys, as editors do.
    fn write_accounts(&self) {
        let hash = bcrypt::hash("secret", 4).unwrap();
        let files = [("users", format!("anna:{hash}\n")), ("keys.json", set(&[self.key.jwk("a")]))];
        for (name, text) in files {
            self.dir.write(format!("auth/{name}.new"), text);
            let new = self.dir.path(format!("auth/{name}.new"));
            fs::rename(new, self.dir.path(format!("auth/{name}"))).unwrap();
        }
    }

    fn config(&self) -> String {
        let Application { dir, upstream, secure, .. } = self;
        let at = dir.root().display().to_string();
        format!(
            "error_log = {{ level = 'info' }}\nrevalidate = '0s'\nlisten_tls = '{secure}'\n\
             http3 = false\n\
             [access_log]\nformat = 'json'\nfields = ['target']\npath = '{at}/logs/access.log'\n\
             [[site]]\nhosts = ['a', 'a.test']\n[site.tls]\ncertificate = '{at}/live/cert.pem'\n\
             key = '{at}/live/key.pem'\nredirect = false\n\
             [[site.mount]]\nfiles = '{at}/current/public'\n\
             [[site.mount]]\npath = '/up'\nfiles = '{at}/data/up'\nauth = 'none'\nuploads = {{}}\n\
             [[site.mount]]\npath = '/proxy'\nproxy = 'http://{upstream}'\n\
             internal = '{at}/current/private'\n\
             [[site.mount]]\npath = '/cached'\nproxy = 'http://{upstream}'\n\
             cache = {{ disk = '{at}/cache', disk_size = '1 GiB' }}\n\
             [[site.mount]]\npath = '/unix'\nproxy = 'unix:{at}/run/http.sock'\n\
             [[site.mount]]\npath = '/fastcgi'\nfastcgi = 'unix:{at}/run/fastcgi.sock'\n\
             [[site.mount]]\npath = '/fixed'\nrespond = 'fixed'\n\
             [[site.mount]]\npath = '/moved'\nredirect = '/x.txt'\n\
             [[site.mount]]\npath = '/status'\nstatus = true\n\
             [[site.mount]]\npath = '/users'\nrespond = 'users'\nauth = 'basic'\n\
             users = '{at}/auth/users'\n\
             [[site.mount]]\npath = '/token'\nrespond = 'token'\nauth = 'jwt'\n\
             jwks = '{at}/auth/keys.json'\nalgorithms = 'HS256'\n"
        )
    }

    /// Requests each kind of mount.
    #[track_caller]
    fn check(&self, child: &Child, release: &str, turn: &str) {
        let (private, fastcgi) = (format!("{release}, private"), format!("fastcgi {turn}"));
        // anna:secret
        let basic = "Authorization: Basic YW5uYTpzZWNyZXQ=";
        let token = format!("Authorization: Bearer {}", self.key.token("", ""));
        let rows = [
            ("GET /x.txt", "", 200, release),
            ("PUT /up/new.txt", "Content-Length: 0", 201, ""),
            ("DELETE /up/new.txt", "", 204, ""),
            ("GET /proxy/a", "", 200, "upstream"),
            ("GET /proxy/internal", "", 200, &private),
            ("GET /cached/a", "", 200, "upstream"),
            ("GET /unix/a", "", 200, "upstream"),
            ("GET /fastcgi/a", "", 200, &fastcgi),
            ("POST /fastcgi/a", "Transfer-Encoding: chunked", 200, &fastcgi),
            ("GET /fixed", "", 200, "fixed"),
            ("GET /moved", "", 302, ""),
            ("GET /status", "", 200, ""),
            ("GET /users", basic, 200, "users"),
            ("GET /users", "", 401, ""),
            ("GET /token", &token, 200, "token"),
        ];
        for (line, field, status, text) in rows {
            let mut client = child.connect();
            let field = if field.is_empty() { String::new() } else { format!("{field}\r\n") };
            client.send(format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{field}\r\n"));
            if field.contains("chunked") {
                client.send("4\r\nbody\r\n0\r\n\r\n");
            }
            let answer = client.answer(line.split(' ').next().unwrap());
            let shown = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, status, "{line}: {shown}");
            assert!(text.is_empty() || shown == text, "{line}: {shown}");
        }
    }

    /// `true`: a client that trusts nothing but the certificate in this file accepts the server.
    fn is_trusted(&self, file: &str) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.dir.path(file)).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("a.test").unwrap();
        let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = TcpStream::connect(self.secure).unwrap();
        while session.is_handshaking() {
            if session.complete_io(&mut socket).is_err() {
                return false;
            }
        }
        true
    }
}

/// Responds to one request, or has the server send a private file in place of the response.
fn respond(mut stream: impl Read + Write) {
    let mut head = [0; 4096];
    let n = stream.read(&mut head).unwrap_or(0);
    let is_internal = String::from_utf8_lossy(&head[..n]).contains("/internal ");
    let field = if is_internal { "X-Accel-Redirect: /p.txt\r\n" } else { "" };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n{field}\r\n");
    // The server may have left.
    let _ = stream.write_all((head + "upstream").as_bytes());
}

/// Responds to one request of FastCGI, whose input ends with an empty record.
fn respond_fastcgi(mut stream: impl Read + Write, text: &str) {
    loop {
        let mut head = [0; 8];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        stream.read_exact(&mut vec![0; length + usize::from(head[6])]).unwrap();
        if head[1] == 5 && length == 0 {
            break;
        }
    }
    let content = format!("Content-Type: text/plain\r\n\r\n{text}");
    let mut reply = vec![1, 6, 0, 1, 0, content.len() as u8, 0, 0];
    reply.extend(content.as_bytes());
    reply.extend([1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    stream.write_all(&reply).unwrap();
}

#[test]
fn each_mount_works_with_what_other_programs_replace_and_in_the_next_release() {
    let app = Application::new();
    // Else a FastCGI mount would permit the directory that this one is in.
    let server = Confined::with_temporary(&app.config(), &app.dir.path("temporary"));
    let later = Later(&server.child);
    let log = |name: &str| fs::read_to_string(app.dir.path(name)).unwrap_or_default();
    let is_confined = server.is_confined();
    app.check(&server.child, "first", "1");
    assert!(app.is_trusted("archive/cert1.pem"));

    app.listen("2");
    app.renew("2");
    app.write_accounts();
    fs::rename(app.dir.path("logs/access.log"), app.dir.path("logs/access.log.1")).unwrap();
    server.child.signal(Signal::USR1);
    app.check(&server.child, "first", "2");
    eventually("the new certificate is used", || app.is_trusted("archive/cert2.pem"));
    eventually("a new log is written", || {
        server.get("/x.txt");
        log("logs/access.log").contains("x.txt")
    });
    let (code, said) = server.command("reload");
    assert_eq!((code, said.contains("reloaded")), (Some(0), true), "{said}");
    app.check(&server.child, "first", "2");
    assert_eq!(later.ids(), [0; 0], "{}", server.child.stderr());

    switch(&app.dir.path("current"), "releases/2");
    eventually("the next release is served", || server.get("/x.txt").1 == "second");
    app.check(&server.child, "second", "2");
    let replaced = usize::from(is_confined);
    assert_eq!(later.ids().len(), replaced, "{}", server.child.stderr());
}

/// A directory of logs, or one of uploads, that is replaced by another one.
#[test]
fn directories_that_are_written_may_be_replaced() {
    let dir = Dir::new(&[("logs/", ""), ("up/", ""), ("www/x.txt", "x")]);
    let open = |name: &str| {
        fs::set_permissions(dir.path(name), Permissions::from_mode(0o777)).unwrap();
    };
    ["logs", "up"].into_iter().for_each(open);
    let at = dir.root().display().to_string();
    let config = format!(
        "error_log = {{ level = 'info' }}\n[access_log]\nformat = 'json'\nfields = ['target']\n\
         path = '{at}/logs/access.log'\n[[site]]\n[[site.mount]]\nfiles = '{at}/www'\n\
         [[site.mount]]\npath = '/up'\nfiles = '{at}/up'\nauth = 'none'\nuploads = {{}}\n"
    );
    let server = Confined::start(&config);
    if !server.is_confined() {
        return;
    }
    let later = Later(&server.child);
    for name in ["logs", "up"] {
        fs::rename(dir.path(name), dir.path(format!("{name}.old"))).unwrap();
        fs::create_dir(dir.path(name)).unwrap();
        open(name);
    }
    eventually("an upload is stored in the new directory", || {
        let mut client = server.child.connect();
        client.send("PUT /up/new.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
        client.answer("PUT");
        dir.path("up/new.txt").exists()
    });
    eventually("the log is written in the new directory", || {
        server.get("/x.txt");
        let text = fs::read_to_string(dir.path("logs/access.log")).unwrap_or_default();
        text.contains("x.txt")
    });
    assert_eq!(later.ids().len(), 1, "both at once: {}", server.child.stderr());
}

/// A log by symbolic link could not be created anew beside its target.
#[test]
fn a_log_by_link_is_rotated_beside_its_target() {
    let dir = Dir::new(&[("links/", ""), ("logs/access.log", ""), ("www/x.txt", "x")]);
    let target = dir.path("logs/access.log");
    fs::set_permissions(dir.path("logs"), Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o666)).unwrap();
    switch(&dir.path("links/access.log"), &target);
    let config = format!(
        "error_log = {{ level = 'info' }}\n[access_log]\nformat = 'json'\nfields = ['target']\n\
         path = '{0}/links/access.log'\n[[site]]\n[[site.mount]]\nfiles = '{0}/www'\n",
        dir.root().display()
    );
    let server = Confined::start(&config);
    server.get("/x.txt");
    fs::rename(&target, dir.path("logs/access.log.1")).unwrap();
    server.child.signal(Signal::USR1);
    eventually("the log is written anew", || {
        server.get("/x.txt");
        fs::read_to_string(&target).unwrap_or_default().contains("x.txt")
    });
}

/// A server with `--tls` could not open its lock file for writing, so each reload was an upgrade.
#[test]
fn a_reload_of_a_server_with_a_local_authority_needs_no_other_process() {
    let (dir, data) = (Dir::new(&[("a.txt", "a")]), Dir::new(&[]));
    let mut command = hurtle();
    command.env("XDG_DATA_HOME", data.root()).arg(dir.root());
    command.args(["--tls", "--listen", "127.0.0.1:0", "--workers", "1"]);
    let child = Child::start(&mut command);
    let later = Later(&child);
    child.signal(Signal::HUP);
    eventually("it is reloaded", || {
        let log = child.stderr();
        log.contains("reloaded") || log.contains("upgraded")
    });
    assert_eq!(later.ids(), [0; 0], "{}", child.stderr());
}

/// A server of CGI programs has no sandbox, so a release by link is served at once.
#[test]
fn a_server_of_programs_follows_the_link() {
    let dir = Dir::new(&[]);
    for release in ["1", "2"] {
        let name = format!("releases/{release}/bin/run");
        dir.write(
            &name,
            format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nof {release}'\n"),
        );
        fs::set_permissions(dir.path(&name), Permissions::from_mode(0o755)).unwrap();
    }
    let current = dir.path("current");
    switch(&current, Path::new("releases/1"));
    let server = Confined::start(&format!(
        "error_log = {{ level = 'info' }}\n[[site]]\n[[site.mount]]\ncgi = '{}/bin'\n",
        current.display()
    ));
    assert_eq!(server.get("/run"), (200, "of 1".to_owned()));
    switch(&current, Path::new("releases/2"));
    eventually("the next release runs", || server.get("/run").1 == "of 2");
    assert_eq!(Later(&server.child).ids(), [0; 0]);
}
