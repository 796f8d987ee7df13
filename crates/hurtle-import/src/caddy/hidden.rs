//! The Caddyfile and the files that it imports, which Caddy hides where they are beneath the root
//! of files.

use std::path::{Component, Path, PathBuf};

use hurtle_http::semantics::glob;

use super::block::Item;
use super::handlers::answer;
use super::matcher::Matcher;
use super::parts::Parts;
use super::pattern::{expression, has_variable, pattern};
use super::rewrite::Rewritten;
use super::scope::Scope;
use crate::mount::Keys;
use crate::report::Report;
use crate::syntax::Directive;

/// Absolute names of the files of a configuration, as Caddy compares them: without regard to links.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigFiles {
    /// Directory of the first one. Relative roots are those of a Caddy that runs there.
    dir: PathBuf,
    files: Vec<PathBuf>,
}

impl ConfigFiles {
    /// The file that was read first, and those of directives that were imported.
    pub(super) fn of(first: &Path, blocks: &[Directive]) -> ConfigFiles {
        let first = plain(&std::path::absolute(first).unwrap_or_else(|_| first.to_owned()));
        let dir = first.parent().unwrap_or(Path::new("/")).to_owned();
        let mut all = ConfigFiles { dir, files: vec![first] };
        blocks.iter().for_each(|block| all.add(block));
        all
    }

    fn add(&mut self, d: &Directive) {
        let file = Path::new(&*d.at.file);
        let file = plain(&std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        if !self.files.contains(&file) {
            self.files.push(file);
        }
        d.children().iter().for_each(|inner| self.add(inner));
    }

    /// Their last names, each once.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.files.iter().filter_map(|file| file.file_name()?.to_str()) {
            if !name.starts_with('.') && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Paths of those beneath a root, as a client requests them.
    fn beneath(&self, root: &str) -> Vec<String> {
        let root = plain(&self.dir.join(root));
        let name = |file: &PathBuf| Some(file.strip_prefix(&root).ok()?.to_str()?.to_owned());
        let is_served = |name: &String| !name.split('/').any(|part| part.starts_with('.'));
        self.files.iter().filter_map(name).filter(is_served).map(|n| format!("/{n}")).collect()
    }
}

/// An absolute name without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// `false` if no pattern of the requests is met by the path of a hidden file.
fn is_among(hidden: &Matcher, requests: &Matcher) -> bool {
    let is_met = |path: &String, written: &String| {
        // A pattern that hurtle does not have is refused where it is translated.
        pattern(&written.to_ascii_lowercase())
            .map_or(true, |glob| glob::matches(&glob, path.to_ascii_lowercase().as_bytes()))
    };
    requests.paths.is_empty()
        || hidden
            .paths
            .iter()
            .any(|path| requests.paths.iter().any(|written| is_met(path, written)))
}

/// The requests of these names in any directory. `None`: the patterns of the files hold none.
fn by_name(names: &[&str], requests: Matcher) -> Option<Matcher> {
    let may_meet = |name: &&&str| {
        let is_met = |written: &String| {
            pattern(&written.to_ascii_lowercase()).map_or(true, |glob| {
                // A pattern without a slash is one of last names.
                glob.contains('/')
                    || glob::matches(&glob, format!("/{name}").to_ascii_lowercase().as_bytes())
            })
        };
        requests.paths.is_empty() || requests.paths.iter().any(is_met)
    };
    let names: Vec<&str> = names.iter().filter(may_meet).copied().collect();
    if names.is_empty() {
        return None;
    }
    if requests.paths.is_empty() {
        let paths = names.iter().map(|name| format!("*/{name}")).collect();
        return Some(Matcher { paths, ..requests });
    }
    let all: Vec<String> = names.iter().map(|name| expression(name)).collect();
    let regex = Some((String::new(), format!("^(?:{})$", all.join("|"))));
    Some(Matcher { regex, ..requests })
}

/// Adds mounts before one of files, which answer 404 for the files of the configuration: by their
/// names in any directory where the root has a variable.
///
/// # Errors
/// Requests of the files that patterns of paths cannot express.
pub(super) fn hide(
    files: &Keys,
    item: &Item<'_>,
    scope: &Scope,
    parts: &mut Parts,
    report: &mut Report,
) -> Result<(), String> {
    let text = |key: &str| files.iter().find(|(name, _)| name == key)?.1.as_str();
    let Some(root) = text("files").or(text("root")) else { return Ok(()) };
    if matches!(scope.rewritten, Some(Rewritten::Page(_))) {
        return Ok(());
    }
    let requests = scope.requests(item.matcher.as_ref())?;
    let mut all = Vec::new();
    if has_variable(root) {
        let names = parts.config_files.names();
        all.extend(by_name(&names, requests.unwrap_or_default()));
        let text = format!(
            "the root has a variable: files with the names of the configuration ({}) are 404 in each directory, such as \
             GET /x/{}",
            names.join(", "),
            names.first().unwrap_or(&"")
        );
        if !all.is_empty() {
            report.remark(item.d, &text);
        }
    } else {
        for path in parts.config_files.beneath(root) {
            let hidden = Matcher { paths: vec![path], ..Matcher::default() };
            let hidden = scope.own(Some(&hidden))?.unwrap_or_default();
            match &requests {
                None => all.push(hidden),
                Some(requests) if !is_among(&hidden, requests) => {}
                Some(requests) => all.push(Matcher { paths: hidden.paths, ..requests.clone() }),
            }
        }
    }
    for met in all {
        let path = if scope.prefix.is_empty() { "/" } else { &scope.prefix };
        let keys = [answer("", 404), scope.mounted()].concat();
        let mount = parts.mount(path.to_owned(), met.key()?, keys);
        parts.push(mount);
        if files.iter().any(|(name, _)| name == "listing") {
            report.remark(item.d, "the listing, such as GET /, names the Caddyfile, which is 404");
        }
    }
    Ok(())
}
