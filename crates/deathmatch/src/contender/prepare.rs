//! Prepares a contender for starting: its folder, its files, its program.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::probe::{BUILT, find, is_root};
use super::template::{self, Names};
use super::{Contender, ReloadSignal, StopSignal};
use crate::process::{Launch, Running, StartError};
use crate::tls::Identity;

/// Timeout of a build, in seconds.
const BUILD_WITHIN_S: &str = "600";
/// File in the folder of a contender whose program was built from the files beside it; it contains
/// the name of the executable.
const BUILT_MARK: &str = ".built";
/// User that a server started by root becomes, if it can: Debian's own choice.
const USER: &str = "www-data";
/// A file in every docroot, requested to find out if a server is ready.
const READY_FILE: &str = "deathmatch-ready.txt";
const READY_TEXT: &str = "ready\n";
/// Folder of the run's certificate, beside the contenders' folders.
const TLS: &str = "tls";
/// Folder for uploads, in a contender's folder.
const INBOX: &str = "up";

/// Place and settings for which a contender is prepared.
#[derive(Clone, Debug)]
pub struct Site {
    /// Each contender gets a folder of its own beneath it.
    pub work: PathBuf,
    /// The files to be served.
    pub docroot: PathBuf,
    /// Port on 127.0.0.1; the next port is for its upstream or a program it starts.
    pub port: u16,
    /// The processors it may use; empty: all.
    pub cores: Vec<usize>,
    /// Number of its processes or threads, if it can be configured.
    pub workers: usize,
    /// `true` if it should take uploads; not all contenders can.
    pub uploads: bool,
}

/// A contender that can be started, as often as needed.
#[derive(Clone, Debug)]
pub struct Prepared {
    launch: Launch,
    /// Directory where it stores uploads.
    inbox: Option<PathBuf>,
    /// Name and text of each file written for it, for the report.
    pub files: Vec<(String, String)>,
    /// Each setting with its value here, and its reason.
    pub tuned: Vec<(String, String)>,
}

impl Prepared {
    /// Starts it, and returns once it answers. There are no uploads yet.
    pub fn start(&self) -> Result<Running, StartError> {
        if let Some(inbox) = &self.inbox {
            let shown = inbox.display().to_string();
            make_empty(inbox).map_err(|e| StartError::NotStarted(shown, e))?;
        }
        self.launch.start()
    }

    /// `true` if it takes uploads.
    pub fn takes_uploads(&self) -> bool {
        self.launch.uploads.is_some()
    }

    /// The file in which an upload is stored; `None` if it is not stored.
    pub fn stored(&self, name: &str) -> Option<PathBuf> {
        self.inbox.as_ref().map(|inbox| inbox.join(name))
    }

    /// Removes what was uploaded, once it is stopped.
    pub fn discard_uploads(&self) -> io::Result<()> {
        self.inbox.as_deref().map_or(Ok(()), make_empty)
    }

    /// The command that starts it, for the report.
    pub fn shown(&self) -> String {
        self.launch.shown()
    }
}

impl Contender {
    /// Writes its files and builds its program where that is needed.
    pub fn prepare(&self, site: &Site) -> io::Result<Prepared> {
        let work = std::path::absolute(site.work.join(&self.name))?;
        let docroot = std::path::absolute(&site.docroot)?;
        for folder in [&work, &docroot] {
            check_plain(folder)?;
        }
        fs::create_dir_all(&work)?;
        if self.helper.is_some() {
            // A server that has become another user makes its socket there.
            open_to_all(&work)?;
            check_reachable(&work)?;
        }
        check_reachable(&docroot)?;
        let identity = self.tls.then(|| Identity::within(&site.work.join(TLS))).transpose()?;
        let ready = docroot.join(READY_FILE);
        if !ready.exists() {
            fs::write(&ready, READY_TEXT)?;
        }
        let names = self.names(site, &work, &docroot)?;
        let filler = Filler { contender: self, names };
        let (files, is_new) = filler.write_files(&work)?;
        if self.is_to_build(is_new, &work, &filler) {
            filler.build(&work)?;
        }
        let is_stored = self.takes(site) && self.uploads.as_ref().is_some_and(|u| !u.drops);
        let inbox = is_stored.then(|| work.join(INBOX));
        if inbox.is_some() {
            check_reachable(&work)?;
        }
        let upstream = self.upstream(site, &work)?;
        let launch = Launch {
            upstream: upstream.map(Box::new),
            trust: identity.map(|identity| identity.trust),
            ..filler.launch(site, work)?
        };
        let tuned = self.tuned.iter().map(|t| Ok((filler.fill(&t.setting)?, filler.fill(&t.why)?)));
        let tuned = tuned.collect::<io::Result<_>>()?;
        Ok(Prepared { launch, inbox, files, tuned })
    }

    /// Prepares its upstream, on the next port and with the same files.
    fn upstream(&self, site: &Site, work: &Path) -> io::Result<Option<Launch>> {
        let Some(name) = &self.upstream else { return Ok(None) };
        let upstream = Contender::by_name(name).ok_or_else(|| io::Error::other(name.clone()))?;
        let (work, port) = (work.join("upstream"), next_port(site)?);
        let site = Site { work, port, uploads: false, ..site.clone() };
        upstream.prepare(&site).map(|prepared| Some(prepared.launch))
    }

    /// `true` if it takes uploads and they are wanted.
    fn takes(&self, site: &Site) -> bool {
        let has = |need: &String| {
            template::fill(need, &self.vars).is_ok_and(|path| find(&path).is_some())
        };
        site.uploads && self.uploads.as_ref().is_some_and(|u| u.needs.iter().all(has))
    }

    /// `true` if its program has yet to be built. A chosen executable replaces the one that would
    /// be built, but another Erlang builds its modules anew.
    fn is_to_build(&self, is_new: bool, work: &Path, filler: &Filler<'_>) -> bool {
        let is_given = self.chosen.is_some() && self.executable.starts_with(BUILT);
        let by = fs::read_to_string(work.join(BUILT_MARK)).ok();
        !self.build.is_empty() && !is_given && (is_new || by.as_ref() != filler.names.get("BIN"))
    }

    fn names(&self, site: &Site, work: &Path, docroot: &Path) -> io::Result<Names> {
        let cores: Vec<String> = site.cores.iter().map(usize::to_string).collect();
        let mut names: Names = self.vars.clone();
        let (certificate, key) = Identity::files(&std::path::absolute(site.work.join(TLS))?);
        for (name, value) in [
            ("WORK", work.display().to_string()),
            ("DOCROOT", docroot.display().to_string()),
            ("PORT", site.port.to_string()),
            ("CERTIFICATE", certificate.display().to_string()),
            ("KEY", key.display().to_string()),
            ("CORES", cores.join(",")),
            ("WORKERS", site.workers.to_string()),
            ("TITLE", self.title.clone()),
            ("USER", USER.to_owned()),
            ("GROUP", USER.to_owned()),
        ] {
            names.insert(name.to_owned(), value);
        }
        let conditions = [(template::ROOT, is_root()), (template::UPLOADS, self.takes(site))];
        for (name, _) in conditions.iter().filter(|(_, holds)| *holds) {
            names.insert((*name).to_owned(), String::new());
        }
        let bin = match self.executable().map_err(io::Error::other)? {
            Some(path) => path.display().to_string(),
            None => template::fill(&self.executable, &names).map_err(io::Error::other)?,
        };
        names.insert("BIN".to_owned(), bin);
        if let Some(helper) = &self.helper {
            let path = self.helper(helper).map_err(io::Error::other)?;
            names.insert("HELPER".to_owned(), path.display().to_string());
        }
        if let Ok(port) = next_port(site) {
            names.insert("NEXT_PORT".to_owned(), port.to_string());
        }
        Ok(names)
    }
}

/// Port of a contender's upstream, or of a program it starts.
fn next_port(site: &Site) -> io::Result<u16> {
    site.port.checked_add(1).ok_or_else(|| io::Error::other("use a port below 65535"))
}

struct Filler<'a> {
    contender: &'a Contender,
    names: Names,
}

impl Filler<'_> {
    fn fill(&self, text: &str) -> io::Result<String> {
        template::fill(text, &self.names)
            .map_err(|why| io::Error::other(format!("{}: {why}", self.contender.name)))
    }

    fn fill_all(&self, texts: &[String]) -> io::Result<Vec<String>> {
        texts.iter().map(|text| self.fill(text)).collect()
    }

    fn env(&self) -> io::Result<Vec<(String, String)>> {
        let env: &BTreeMap<String, String> = &self.contender.env;
        env.iter().map(|(name, value)| Ok((name.clone(), self.fill(value)?))).collect()
    }

    /// Writes the files; `true` if any differs from the existing one.
    fn write_files(&self, work: &Path) -> io::Result<(Vec<(String, String)>, bool)> {
        let (mut written, mut is_new) = (Vec::new(), false);
        for file in &self.contender.files {
            let text = self
                .contender
                .text(&file.from)
                .ok_or_else(|| io::Error::other(format!("{} is not built in", file.from)))?;
            let text = self.fill(text)?;
            let path = work.join(&file.to);
            if fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                fs::write(&path, &text)?;
                is_new = true;
            }
            written.push((file.to.clone(), text));
        }
        Ok((written, is_new))
    }

    fn build(&self, work: &Path) -> io::Result<()> {
        let mark = work.join(BUILT_MARK);
        // Removed first, so that a failed build is tried again.
        let _ = fs::remove_file(&mark);
        for command in &self.contender.build {
            let command = self.fill_all(command)?;
            let output = Command::new("timeout")
                .arg(BUILD_WITHIN_S)
                .args(&command)
                .envs(self.env()?)
                .current_dir(work)
                .stdin(Stdio::null())
                .output()?;
            if !output.status.success() {
                let printed = [output.stdout, output.stderr].concat();
                let printed = String::from_utf8_lossy(&printed);
                let shown = command.join(" ");
                let text = format!("`{shown}` failed ({}):\n{}", output.status, printed.trim());
                return Err(io::Error::other(text));
            }
        }
        fs::write(mark, self.names.get("BIN").map_or("", String::as_str))
    }

    fn launch(&self, site: &Site, work: PathBuf) -> io::Result<Launch> {
        let contender = self.contender;
        let mut command = self.fill_all(&contender.start)?;
        // Run by its absolute path, since PATH may not contain it.
        if let Some(program) = command.first_mut()
            && let Some(path) = find(program)
        {
            *program = path.display().to_string();
        }
        Ok(Launch {
            name: contender.name.clone(),
            upstream: None,
            command,
            env: self.env()?,
            logs: self.fill_all(&contender.logs)?.into_iter().map(PathBuf::from).collect(),
            dir: contender.dir.clone().unwrap_or_else(|| work.clone()),
            work,
            cores: site.cores.clone(),
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, site.port)),
            trust: None,
            url: contender.url.clone(),
            uploads: contender
                .uploads
                .as_ref()
                .filter(|_| contender.takes(site))
                .map(|u| u.url.clone()),
            ready_file: READY_FILE.to_owned(),
            ready_within: Duration::from_secs(contender.ready_s),
            reload_signal: contender.reload.map(|signal| match signal {
                ReloadSignal::Hup => Signal::HUP,
                ReloadSignal::Usr1 => Signal::USR1,
            }),
            stop_signal: match contender.stop.signal {
                StopSignal::Term => Signal::TERM,
                StopSignal::Int => Signal::INT,
                StopSignal::Quit => Signal::QUIT,
            },
            stops_all: contender.stop.all,
            stop_within: Duration::from_secs(contender.stop.grace_s),
        })
    }
}

/// Refuses paths that need quoting, since sixteen configuration languages quote in different ways.
fn check_plain(path: &Path) -> io::Result<()> {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+".contains(b);
    let shown = path.display().to_string();
    if shown.as_bytes().iter().all(is_plain) {
        return Ok(());
    }
    let text = format!("{shown}: use a folder named by letters, digits and ._-+ alone");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Makes a folder, or empties it.
fn make_empty(inbox: &Path) -> io::Result<()> {
    match fs::remove_dir_all(inbox) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => fs::create_dir(inbox)?,
    }
    open_to_all(inbox)
}

/// Makes a folder writable for all users, each for his own files: a server started by root writes
/// there as another user, who is not looked up.
fn open_to_all(folder: &Path) -> io::Result<()> {
    const EVERYBODY_MAY_WRITE: u32 = 0o1777;
    match is_root() {
        true => fs::set_permissions(folder, fs::Permissions::from_mode(EVERYBODY_MAY_WRITE)),
        false => Ok(()),
    }
}

/// Servers started by root read the files as another user.
fn check_reachable(docroot: &Path) -> io::Result<()> {
    const OTHERS_MAY_ENTER: u32 = 0o001;
    let ancestors = docroot.ancestors().filter(|_| is_root());
    for folder in ancestors {
        if fs::metadata(folder)?.permissions().mode() & OTHERS_MAY_ENTER == 0 {
            let text = format!(
                "{}: servers become {USER}, who may not enter {}: `chmod o+x` it, or choose \
                 another folder",
                docroot.display(),
                folder.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_can_be_filled_in() {
        let site = Site {
            work: "/work".into(),
            docroot: "/files".into(),
            port: 8000,
            cores: vec![0, 1],
            workers: 2,
            uploads: true,
        };
        for mut contender in Contender::all() {
            contender.chosen = Some("/bin/sh".into());
            contender.helper = contender.helper.map(|_| "/bin/sh".to_owned());
            let names = contender.names(&site, "/work/x".as_ref(), "/files".as_ref()).unwrap();
            let filler = Filler { contender: &contender, names };
            let launch = filler.launch(&site, "/work/x".into()).unwrap();
            assert!(launch.command.len() > 1, "{}", contender.name);
            for file in &contender.files {
                let text = filler.fill(contender.text(&file.from).unwrap()).unwrap();
                assert!(!text.contains("{WORK}"), "{}", file.from);
            }
            for command in contender.build.iter().chain([&contender.version.command]) {
                filler.fill_all(command).unwrap();
            }
            for command in &contender.install {
                let words = command.iter().map(|w| template::fill(w, &contender.vars));
                words.collect::<Result<Vec<_>, _>>().unwrap();
            }
            for tuned in &contender.tuned {
                filler.fill(&tuned.setting).unwrap();
            }
        }
    }

    #[test]
    fn a_path_that_needs_quoting_is_refused() {
        assert!(check_plain("/tmp/a-b_c.d+1".as_ref()).is_ok());
        for path in ["/tmp/a b", "/tmp/\"", "/tmp/a;b", "/tmp/{PORT}"] {
            assert!(check_plain(path.as_ref()).is_err(), "{path}");
        }
    }
}
