//! Scripts that another mount runs: directories of files do not send them, whose source is secret.

use toml::Value;

use super::expression::Expression;
use super::modifier::holds;
use super::mount::Mount;
use super::mounts::Mounts;
use super::overlap::{index, is_closed, pages};
use super::report::Report;
use super::syntax::Directive;

/// Extensions of programs of the web.
const SCRIPTS: [&str; 12] =
    ["asp", "aspx", "cgi", "fcgi", "jsp", "lua", "phar", "php", "phtml", "pl", "py", "rb"];

/// Extensions of files whose content is for clients.
const CONTENTS: [&str; 22] = [
    "atom",
    "css",
    "gif",
    "htm",
    "html",
    "ico",
    "jpeg",
    "jpg",
    "js",
    "json",
    "map",
    "md",
    "mjs",
    "pdf",
    "png",
    "rss",
    "svg",
    "txt",
    "webmanifest",
    "webp",
    "xhtml",
    "xml",
];

/// `true`: the file is a program by its extension, such as `.php` and `.php8`.
pub(super) fn is_script(page: &str) -> bool {
    let extension = extension(page).to_ascii_lowercase();
    let plain = extension.trim_end_matches(|c: char| c.is_ascii_digit());
    SCRIPTS.contains(&plain)
}

/// Returns whether the content of a file may be for an application, and not for clients.
fn may_be_script(page: &str) -> bool {
    let extension = extension(page).to_ascii_lowercase();
    !extension.is_empty() && !CONTENTS.contains(&extension.as_str())
}

fn extension(page: &str) -> &str {
    page.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// A name of the index of directories that another mount runs.
struct Name<'a> {
    /// The place of their mount.
    mount: usize,
    name: String,
    /// The path of one page with it.
    page: String,
    /// The location that runs it, if it is known.
    location: Option<&'a Directive>,
}

impl<'a> Mounts<'a, '_> {
    /// Takes scripts of other mounts out of the index of directories of files. These would send the
    /// source of a script.
    pub(super) fn scripts_of_directories(&mut self, report: &mut Report) {
        let runners: Vec<&Mount> = self.site.mounts.iter().filter(|mount| runs(mount)).collect();
        let mut found: Vec<Name<'a>> = Vec::new();
        for (at, mount) in self.site.mounts.iter().enumerate() {
            for name in index(mount).into_iter().filter(|name| sends(mount, name)) {
                let others = runners.iter().filter(|runner| !std::ptr::eq(**runner, mount));
                let mut run = others.filter_map(|runner| {
                    let page = page_of(mount, &name, runner)?;
                    let location = self.location_of(runner);
                    Some(Name { mount: at, name: name.clone(), page, location })
                });
                found.extend(run.next());
            }
        }
        for Name { mount, name, page, location } in found {
            let keys = &mut self.site.mounts[mount].keys;
            let index = keys.iter_mut().find(|(key, _)| key == "index").map(|(_, value)| value);
            if let Some(Value::Array(index)) = index {
                index.retain(|one| one.as_str() != Some(&name));
            }
            let directory = page.rsplit_once('/').map_or("", |(directory, _)| directory);
            let text = format!("GET {directory}/ is 404; nginx runs its index {page}");
            match location {
                Some(at) => report.remark(at, &text),
                None => report.general(text),
            }
        }
    }

    /// The location that became this mount.
    fn location_of(&self, mount: &Mount) -> Option<&'a Directive> {
        let has = |expression: &Expression| {
            mount.place.iter().any(|(key, value)| key == "match" && expression.is(value))
        };
        let of_expression = self.expressions.iter().find(|(_, expression)| has(expression));
        let of_path = || {
            let mut placed = self.placed.iter();
            placed.find(|placed| mount.is_of(placed.path, mount.is_exact())).map(|placed| placed.at)
        };
        of_expression.map(|(at, _)| *at).or_else(of_path)
    }

    /// Refuses scripts of other mounts in place of missing files. `server`: the directive of pages
    /// whose location is not known.
    pub(super) fn check_scripts_in_place(&self, server: &Directive, report: &mut Report) {
        for mount in self.site.mounts.iter().filter(|mount| mount.key("files").is_some()) {
            let path = mount.path.trim_end_matches('/');
            let names = index(mount);
            let is_other =
                |page: &String| !names.iter().any(|name| *page == format!("{path}/{name}"));
            let mut ends = pages(mount).into_iter().filter(is_other);
            let Some(page) = ends.find(|page| self.is_run(page)) else { continue };
            let why = format!(
                "{page} in place of missing files would be sent as it is; nginx runs it: have location / lead to \
                 it, and location ~ \\.php$ to FastCGI"
            );
            report.refuse(self.location_of(mount).unwrap_or(server), why);
        }
    }

    /// Returns whether nginx has another mount than files answer for a script.
    fn is_run(&self, page: &str) -> bool {
        let is_held = || self.holder(page, None).is_some_and(runs);
        may_be_script(page) && (self.is_expressed(page) || is_held())
    }

    /// Returns whether a mount with an expression answers for a path, which is not a file's.
    fn is_expressed(&self, page: &str) -> bool {
        let holds = |mount: &&Mount| expression_of(mount).is_some_and(|own| own.is_in(page));
        let holder = self.holder(page, None);
        let is_final = holder.is_some_and(|mount| mount.is_page() || is_final(mount));
        !is_final && self.site.mounts.iter().filter(holds).any(runs)
    }
}

/// Returns whether a mount sends a file of this name as it is, though it may be a script.
fn sends(mount: &Mount, name: &str) -> bool {
    let is_run = mount.key("fastcgi").is_some() && name.ends_with(".php");
    let has_files = mount.key("files").is_some() || mount.key("root").is_some();
    has_files && !is_run && may_be_script(name)
}

/// Returns the path of a page with this name of a mount's index that `runner` may answer in nginx.
fn page_of(mount: &Mount, name: &str, runner: &Mount) -> Option<String> {
    let own = expression_of(mount);
    if own.as_ref().is_some_and(Expression::is_of_endings) {
        // It has no directories.
        return None;
    }
    let named = own.map(|own| format!("{}{name}", own.directory()));
    let page = || named.unwrap_or_else(|| format!("{}/{name}", mount.path.trim_end_matches('/')));
    if let Some(expression) = expression_of(runner) {
        if is_final(mount) {
            return None;
        }
        let page = page();
        if expression.is_in(&page) {
            return Some(page);
        }
        let path = mount.path.trim_end_matches('/');
        let beneath = expression.page_beneath(path, name);
        // If that is not known, the expression has the extension at least.
        let any = || format!("{path}/DIRECTORY/{name}");
        return beneath.or_else(|| expression.has(extension(name)).then(any));
    }
    if (runner.is_page() || runner.is_prefix()) && runner.path.rsplit('/').next() == Some(name) {
        return holds(&mount.path, &runner.path).then(|| runner.path.clone());
    }
    // The scripts of a whole directory.
    let is_of_all = runner.key("fastcgi").is_some() && runner.key("root").is_some();
    let is_beneath = runner.is_prefix() && holds(&runner.path, &mount.path) && !is_final(mount);
    (is_of_all && is_beneath && name.ends_with(".php")).then(page)
}

/// The expression of the paths of a mount.
fn expression_of(mount: &Mount) -> Option<Expression> {
    let matcher = mount.place.iter().find(|(key, _)| key == "match").map(|(_, value)| value)?;
    Expression::of_text(matcher.get("regex")?.as_str()?)
}

/// `true`: expressions take none of its paths.
fn is_final(mount: &Mount) -> bool {
    mount.place.iter().any(|(key, _)| key == "final")
}

/// `true`: something other than files answers for its paths, and it does not refuse all of them.
fn runs(mount: &Mount) -> bool {
    mount.key("files").is_none() && !is_closed(mount)
}
