//! Scripts that another mount runs: directories of files do not send them, whose source is secret.

use toml::Value;

use super::expression::Expression;
use super::mount::Mount;
use super::mounts::Mounts;
use super::overlap::{index, is_closed, pages};
use super::report::Report;
use super::syntax::Directive;

/// Extensions of programs, whose source the clients must not get.
const SCRIPTS: [&str; 12] =
    ["asp", "aspx", "cgi", "fcgi", "jsp", "lua", "phar", "php", "phtml", "pl", "py", "rb"];

/// `true`: the file is a program by its extension, such as `.php` and `.php8`.
pub(super) fn is_script(page: &str) -> bool {
    let Some((_, extension)) = page.rsplit_once('.') else { return false };
    let extension = extension.to_ascii_lowercase();
    let plain = extension.trim_end_matches(|c: char| c.is_ascii_digit());
    SCRIPTS.contains(&plain)
}

/// A name of the index of directories of files.
struct Name {
    /// The place of their mount.
    mount: usize,
    name: String,
    /// The path of one page with it that another mount runs.
    page: String,
}

impl<'a> Mounts<'a, '_> {
    /// Takes scripts of other mounts out of the index of directories of files, which would send
    /// their source.
    pub(super) fn scripts_of_directories(&mut self, report: &mut Report) {
        let runners: Vec<&Mount> = self.site.mounts.iter().filter(|mount| runs(mount)).collect();
        let mut found: Vec<(Name, Option<&'a Directive>)> = Vec::new();
        for (at, mount) in self.site.mounts.iter().enumerate() {
            let Some(Value::Array(index)) = mount.key("index") else { continue };
            let names = index.iter().filter_map(Value::as_str).filter(|name| is_script(name));
            for name in names.filter(|_| mount.key("files").is_some()) {
                let mut run = runners.iter().filter_map(|runner| {
                    let page = self.page_of(mount, name, runner)?;
                    Some((
                        Name { mount: at, name: name.to_owned(), page },
                        self.location_of(runner),
                    ))
                });
                found.extend(run.next());
            }
        }
        for (Name { mount, name, page }, location) in found {
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

    /// The path of a page with this name of a mount's index that `runner` answers in nginx.
    fn page_of(&self, mount: &Mount, name: &str, runner: &Mount) -> Option<String> {
        let path = mount.path.trim_end_matches('/');
        if let Some(expression) = expression_of(runner) {
            if is_final(mount) {
                return None;
            }
            let own = format!("{path}/{name}");
            return match expression.is_in(&own) {
                true => Some(own),
                false => expression.page_beneath(path, name),
            };
        }
        let is_path = runner.is_page() || runner.is_prefix();
        let is_named = is_path && runner.path.rsplit('/').next() == Some(name);
        let directories = self.holder(&runner.path, Some(runner)).filter(|_| is_named)?;
        std::ptr::eq(directories, mount).then(|| runner.path.clone())
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

    /// Refuses scripts of other mounts in place of missing files and of errors. `server`: the
    /// directive of pages whose location is not known.
    pub(super) fn check_scripts_in_place(&self, server: &Directive, report: &mut Report) {
        for mount in self.site.mounts.iter().filter(|mount| mount.key("files").is_some()) {
            let names = index(mount);
            let is_other = |page: &String| {
                let name = page.rsplit('/').next().unwrap_or_default();
                !names.iter().any(|own| own == name)
            };
            let mut ends = pages(mount).into_iter().filter(is_other);
            let Some(page) = ends.find(|page| self.is_run(page)) else { continue };
            let why = format!(
                "{page} in place of missing files would be sent as it is; nginx runs it: have location / lead to \
                 it, and location ~ \\.php$ to FastCGI"
            );
            report.refuse(self.location_of(mount).unwrap_or(server), why);
        }
        // Mounts of paths are asked for their pages of errors.
        let of_expression = |page: &&str| is_script(page) && self.is_expressed(page);
        if let Some(page) = self.all_error_pages().into_iter().find(of_expression) {
            let why = format!(
                "{page} in place of an error would be sent as it is; nginx runs it: give it a location = {page} of \
                 its own"
            );
            report.refuse(server, why);
        }
    }

    /// Returns whether nginx has another mount than files answer for a script.
    fn is_run(&self, page: &str) -> bool {
        let is_held = || self.holder(page, None).is_some_and(runs);
        is_script(page) && (self.is_expressed(page) || is_held())
    }

    /// Returns whether a mount with an expression answers for a path, which is not a file's.
    fn is_expressed(&self, page: &str) -> bool {
        let holds = |mount: &&Mount| expression_of(mount).is_some_and(|own| own.is_in(page));
        let holder = self.holder(page, None);
        let is_final = holder.is_some_and(|mount| mount.is_page() || is_final(mount));
        !is_final && self.site.mounts.iter().filter(holds).any(runs)
    }
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
