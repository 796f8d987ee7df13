//! Apache's httpd with a .htaccess file, on a free port of this machine.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use hurtle::import::htaccess::{Options, htaccess_file};

use crate::servers::{Dir, Ours, PATIENCE, Seen, ask, free_port};

const MODULES: [&str; 20] = [
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "auth_basic",
    "access_compat",
    "alias",
    "dir",
    "mime",
    "rewrite",
    "headers",
    "expires",
    "setenvif",
    "env",
    "filter",
    "deflate",
    "autoindex",
    "proxy",
    "proxy_fcgi",
];

/// Apache with a configuration of the test.
pub(super) struct Apache(Child);

impl Apache {
    /// Starts it for the directory `www` in `dir`, whose .htaccess it reads.
    pub(super) fn start(
        program: &Path,
        (dir, fastcgi): (&Path, Option<&str>),
        port: u16,
    ) -> Apache {
        let here = dir.display();
        let load =
            |name: &&str| format!("LoadModule {name}_module {MODULE_DIRECTORY}/mod_{name}.so\n");
        let modules: String = ["mpm_event"].iter().chain(&MODULES).map(load).collect();
        let user = match rustix::process::geteuid().is_root() {
            true => "User www-data\nGroup www-data\n",
            false => "",
        };
        let scripts = fastcgi.map_or(String::new(), |address| {
            format!(
                "DirectoryIndex index.html index.php\n<FilesMatch \"\\.php$\">\nSetHandler \"proxy:{address}|fcgi://localhost\"\n</FilesMatch>\n"
            )
        });
        let text = format!(
            "ServerRoot {here}\nServerName localhost\nPidFile {here}/pid\nMutex pthread\nListen 127.0.0.1:{port}\n\
             {modules}{user}TypesConfig /etc/mime.types\nErrorLog {here}/apache.log\nDocumentRoot {here}/www\n\
             <Directory {here}/www>\nAllowOverride All\nRequire all granted\nOptions FollowSymLinks\n</Directory>\n\
             <FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n{scripts}"
        );
        let file = dir.join("apache.conf");
        fs::write(&file, text).expect("the configuration is written");
        let child = Command::new(program)
            .args(["-DFOREGROUND", "-f"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("stderr")).expect("a log"))
            .spawn()
            .expect("Apache starts");
        let mut apache = Apache(child);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = apache.0.try_wait().expect("a process");
            let log = || {
                ["stderr", "apache.log"]
                    .map(|name| fs::read_to_string(dir.join(name)).unwrap_or_default())
                    .concat()
            };
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "Apache ended: {}", log());
            thread::yield_now();
        }
        apache
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        // Its workers end with it.
        let id = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(id) = id {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

const MODULE_DIRECTORY: &str = "/usr/lib/apache2/modules";

/// Path of Apache's program; `None`: it is not installed.
pub(super) fn program() -> Option<PathBuf> {
    Some(PathBuf::from("/usr/sbin/apache2")).filter(|path| path.is_file())
}

/// A .htaccess file, and the requests whose answers are compared.
pub(super) struct Case<'c> {
    pub(super) sentence: &'c str,
    pub(super) text: &'c str,
    pub(super) options: Options,
    pub(super) requests: &'c [&'c str],
    /// Files beside those of every site.
    pub(super) files: &'c [(&'c str, &'c str)],
}

/// Compares the answers of Apache and of hurtle. Returns the differences.
pub(super) fn compare(
    apache: &Path,
    case: &Case<'_>,
    is_remarked: fn(&str, &Seen, &Seen, &str) -> bool,
) -> Vec<String> {
    let Case { sentence, text, options, requests, files } = case;
    let dir = Dir::new();
    let port = free_port();
    fs::create_dir_all(dir.0.join("www/empty")).expect("it is made");
    // Apache without PHP sends the sources of scripts, and hurtle does not.
    for script in ["x.php", "docs/x.php"].iter().filter(|_| options.fastcgi.is_none()) {
        fs::remove_file(dir.0.join("www").join(script)).expect("it is there");
    }
    for (name, content) in *files {
        let path = dir.0.join("www").join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
        fs::write(path, content).expect("it is written");
    }
    let file = dir.0.join("www/.htaccess");
    fs::write(&file, text.replace("{dir}", &dir.0.display().to_string())).expect("it is written");
    let imported = match htaccess_file(&file, options, false) {
        Ok(imported) => imported,
        Err(problems) => return vec![format!("{sentence}: refused:\n{}", problems.join("\n"))],
    };
    let _theirs = Apache::start(apache, (&dir.0, options.fastcgi.as_deref()), port);
    let ours = Ours::start_in(&local(&imported.text), port, &dir.0);
    let mut faults = Vec::new();
    for request in *requests {
        let (mut a, mut b) = (ask(port, request), ask(ours.port, request));
        for seen in [&mut a, &mut b] {
            normalize(seen);
        }
        if a != b && !is_remarked(request, &a, &b, &imported.text) {
            faults.push(format!("{sentence}: {request}\n  apache {a:?}\n  hurtle {b:?}"));
        }
    }
    match faults.is_empty() {
        true => faults,
        false => [faults, vec![configuration(&imported.text)]].concat(),
    }
}

/// A configuration without its comments.
pub(super) fn configuration(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    lines.join("\n")
}

/// The configuration for ports of this machine, with a certificate that it signs itself.
pub(super) fn local(text: &str) -> String {
    let text = text
        .replace("listen = [\"0.0.0.0:80\", \"[::]:80\"]", "listen = \"127.0.0.1:0\"")
        .replace(
            "listen_tls = [\"0.0.0.0:443\", \"[::]:443\"]",
            "listen_tls = \"127.0.0.1:0\"\nlocal_authority = \"ca\"",
        )
        .replace("\n[acme]\naccept_terms = true\n", "")
        .replace("certificate = \"auto\"", "certificate = \"local\"");
    match text.contains("listen = ") {
        true => text,
        false => format!("listen = \"127.0.0.1:0\"\n{text}"),
    }
}

/// Escapes are compared in upper case, and an escape that a path does not need as its character.
fn normalize(seen: &mut Seen) {
    if let Some(location) = &mut seen.location {
        let mut out = String::new();
        let mut rest = location.as_str();
        while let Some((before, after)) = rest.split_once('%') {
            let (digits, tail) = after.split_at_checked(2).unwrap_or((after, ""));
            out.push_str(before);
            match digits.to_ascii_uppercase().as_str() {
                "2B" => out.push('+'),
                digits => out.push_str(&format!("%{digits}")),
            }
            rest = tail;
        }
        out.push_str(rest);
        // The port of a certificate on another one than 443.
        if let Some(begin) = out.find("https://") {
            let authority = &out[begin + 8..];
            let end = authority.find('/').unwrap_or(authority.len());
            let host = authority[..end].split(':').next().unwrap_or_default().to_owned();
            out = format!("{}https://{host}{}", &out[..begin], &authority[end..]);
        }
        *location = out;
    }
}
