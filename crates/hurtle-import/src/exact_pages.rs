//! Exact locations of files: the mount of their directory serves them, or they have mounts of their
//! own.

use toml::Value;

use super::block::Block;
use super::error_pages::{of_file, place_of, put_pages};
use super::kind::{FilesKind, HandlerKind, Kind, PathKind};
use super::location::mount;
use super::modifier::Modifier;
use super::mount::{Mount, put};
use super::mounts::{Mounts, Page};
use super::overlap::{SEARCH, admits_alike};
use super::path::join;
use super::report::Report;
use super::syntax::Directive;

impl<'a> Mounts<'a, '_> {
    /// A page of files: the mount of its directory serves it, if its settings are the same. Else it
    /// has one of its own.
    pub(super) fn page(&mut self, page: Page<'a>, report: &mut Report) {
        let Page { at, path, block, mut errors } = page;
        let is_error_page = self.site.errors.values().any(|other| place_of(other) == Some(&path));
        if is_error_page && let Some(d) = block.take(Kind::Path(PathKind::Internal)) {
            report.remark(d, "clients can request this path, too");
        }
        let is_directory = path.ends_with('/');
        if !is_directory {
            leave_out_index(&block, report);
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let own = block.first(&[TRY_FILES]).filter(|d| d.args != ["$uri", "=404"]);
        if let Some(d) = own {
            // The form of `exact_forms`: the file of a directory.
            let [file, last] = d.args.as_slice() else {
                return report.refuse(d, "only $uri =404 has a counterpart here");
            };
            if !is_directory || last != "=404" || file.contains(['$', '/']) {
                return report.refuse(d, "only $uri =404 has a counterpart here");
            }
            let file = block.take(TRY_FILES).map(|_| format!("/{file}"));
            let Some(mut wanted) = mount(at, &path, &block, None, self.context, report) else {
                return;
            };
            of_file(&mut wanted, &mut errors);
            put_pages(errors, &mut wanted);
            wanted.keys.retain(|(key, _)| key != "index" && key != "listing");
            put(&mut wanted.keys, "try_files", file.unwrap_or_default());
            let written = &at.args[at.args.len() - 1];
            let mount = wanted.at_exactly(&path);
            return self.add(at, Modifier::Exact, written, None, mount, report);
        }
        if is_directory && let Some(d) = block.first(&[TRY_FILES]) {
            return report.refuse(
                d,
                format!("{path} is no file, so that nginx answers 404: write return 404"),
            );
        }
        block.take(TRY_FILES);
        let Some(mut wanted) = mount(at, &path, &block, None, self.context, report) else {
            return;
        };
        of_file(&mut wanted, &mut errors);
        put_pages(errors, &mut wanted);
        if is_directory {
            self.of_directory(at, &path, &mut wanted, report);
            if self.is_of_scripts(at, &path, &wanted, report) {
                return;
            }
        }
        if !is_directory {
            wanted.keys.retain(|(key, _)| key != "index" && key != "listing");
            // The file, whose directory is served, may have another name.
            let file = wanted.key("files").and_then(Value::as_str).map(str::to_owned);
            let (directory, file) =
                file.as_deref().and_then(|f| f.rsplit_once('/')).unwrap_or_default();
            for (_, value) in wanted.keys.iter_mut().filter(|(key, _)| key == "files") {
                *value = Value::from(join(directory, ""));
            }
            if file != name {
                put(&mut wanted.keys, "try_files", format!("/{file}"));
            }
        }
        let is_ignored = |key: &str, _: bool| match key {
            "index" | "listing" => !is_directory,
            key => key == "files" || SEARCH.contains(&key),
        };
        // Exact locations precede expressions.
        let is_taken = self.expressions.iter().any(|(_, expression)| expression.is_in(&path));
        let is_served = !is_taken
            && self.holder(&path, None).is_some_and(|serving| {
                let directory =
                    serving.key("files").or(serving.key("root")).and_then(Value::as_str);
                let rest = parent.strip_prefix(serving.path.trim_end_matches('/'));
                let directory = directory.zip(rest).map(|(directory, rest)| join(directory, rest));
                directory.as_deref() == wanted.key("files").and_then(Value::as_str)
                    && difference(serving, &wanted, is_ignored).is_none()
                    && wanted.headers == serving.headers
                    && wanted.key("try_files").is_none()
                    && serving.key("spa").or(serving.key("try_files")).is_none()
            });
        if !is_served {
            self.add(
                at,
                Modifier::Exact,
                &at.args[at.args.len() - 1],
                None,
                wanted.at_exactly(&path),
                report,
            );
        }
    }

    /// `true`: it is the mount of an expression or of scripts.
    fn is_of_expression(&self, mount: &Mount) -> bool {
        let matcher = mount.place.iter().find(|(key, _)| key == "match").map(|(_, value)| value);
        let expressions = self.expressions.iter().map(|(_, expression)| expression);
        let mut expressions = expressions.chain(&self.script_expression);
        matcher.is_some_and(|matcher| expressions.any(|expression| expression.is(matcher)))
    }

    /// Refuses a rewrite within its location if the mount of the new paths is not like it.
    pub(super) fn stay(&self, page: Page<'a>, report: &mut Report) {
        let Page { at, path, block, .. } = page;
        let (parent, _) = path.rsplit_once('/').unwrap_or_default();
        let directory = format!("{parent}/");
        block.take(TRY_FILES);
        let Some(wanted) = mount(at, &directory, &block, None, self.context, report) else {
            return;
        };
        let is_like = |serving: &Mount| {
            let rest = directory.strip_prefix(serving.path.trim_end_matches('/'));
            let files = serving.key("files").and_then(Value::as_str);
            let files = files.zip(rest).map(|(files, rest)| join(files, rest));
            files.as_deref() == wanted.key("files").and_then(Value::as_str)
                && difference(serving, &wanted, |key, _| key == "files").is_none()
                && serving.headers == wanted.headers
        };
        let is_beneath = |own: &Mount| {
            let begins = own.path.starts_with(&path) && own.path.len() > directory.len();
            // A condition of the server is asked in any case.
            let is_of_server = self.before_rewrites.iter().any(|(_, mount)| mount == own);
            let is_expression = self.is_of_expression(own);
            let is_condition =
                !own.is_prefix() && !own.is_exact() && !is_of_server && !is_expression;
            let meets = begins || path.starts_with(&own.path);
            begins && (own.is_prefix() || own.is_exact()) || is_condition && meets
        };
        // One of endings meets the old path where it meets the new one.
        let expressions = self.expressions.iter().map(|(_, expression)| expression);
        let mut expressions = expressions.chain(&self.script_expression);
        let ends_alike = at.arg(1).ends_with(|c: char| c.is_ascii_digit());
        let others = self.site.mounts.iter().any(is_beneath)
            || expressions.any(|expression| !ends_alike || !expression.is_of_endings());
        if others || !self.holder(&directory, None).is_some_and(is_like) {
            report.refuse(
                at,
                "hurtle chooses the mount by the new path, which is another one here; write last",
            );
        }
    }

    /// `true`: the index of a directory may be a script, which a mount of files would send as it
    /// is. The mount of scripts around it serves the directory; it is refused where that is not
    /// alike.
    fn is_of_scripts(
        &self,
        at: &Directive,
        path: &str,
        wanted: &Mount,
        report: &mut Report,
    ) -> bool {
        let is_script = |name: &Value| name.as_str().is_some_and(|name| name.ends_with(".php"));
        let index = wanted.key("index").and_then(Value::as_array);
        let Some(serving) =
            self.holder(path, None).filter(|holder| holder.key("fastcgi").is_some())
        else {
            return false;
        };
        let own = index.filter(|names| names.iter().any(is_script));
        let Some(own) = own else { return false };
        let rest = path.strip_prefix(serving.path.trim_end_matches('/')).unwrap_or_default();
        let root = serving.key("root").and_then(Value::as_str).map(|root| join(root, rest));
        let is_alike = admits_alike(&serving.keys, &wanted.keys)
            && root.as_deref() == wanted.key("files").and_then(Value::as_str)
            && serving
                .key("index")
                .and_then(Value::as_array)
                .is_some_and(|names| names.starts_with(own));
        if !is_alike {
            report.refuse(at, "its index is a script; write its settings in location /");
        }
        true
    }

    /// The exact location of a directory: nginx finds the index, and looks up the location of its
    /// page.
    fn of_directory(&self, at: &Directive, path: &str, wanted: &mut Mount, report: &mut Report) {
        let Some(parent) = self.holder(path, None) else { return };
        if wanted.headers != parent.headers {
            report.remark(
                at,
                &format!("GET {path} has the fields of {}, as the index has in nginx", parent.path),
            );
        }
        wanted.headers.clone_from(&parent.headers);
        let rest = path.strip_prefix(parent.path.trim_end_matches('/')).unwrap_or_default();
        let directory = parent.key("files").or(parent.key("root")).and_then(Value::as_str);
        let expected = directory.map(|directory| join(directory, rest));
        let is_elsewhere = wanted.key("files").and_then(Value::as_str) != expected.as_deref();
        // It would search for the path of the page first.
        let is_searched = parent.key("try_files").is_some_and(|list| {
            let first = list.as_array().map_or(Some(list), |list| list.first());
            first.and_then(Value::as_str) != Some("{path}")
        });
        let other = match wanted.key("index").or(parent.key("index")) {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(name)) => vec![name.as_str()],
            _ => vec!["index.html"],
        };
        let by_expression = other.iter().find_map(|name| {
            let page = format!("{path}{name}");
            let own = self.expressions.iter().find(|(_, expression)| expression.is_in(&page));
            let exact = self.placed.iter().find(|placed| placed.path == page);
            own.map(|(at, _)| *at).or(exact.map(|placed| placed.at))
        });
        if let Some(other) = by_expression {
            report.remark(
                at,
                &format!("GET {path} is answered by this location alone; nginx looks its index up in `{other}`"),
            );
        } else if is_elsewhere || is_searched {
            report.remark(
                at,
                &format!(
                    "GET {path} is the index of this directory; nginx looks its page up in {}",
                    parent.path
                ),
            );
        }
    }
}

const TRY_FILES: Kind = Kind::Handler(HandlerKind::TryFiles);

/// Names settings of directories in a location of files only.
fn leave_out_index(block: &Block<'_>, report: &mut Report) {
    for kind in [FilesKind::Index, FilesKind::Autoindex] {
        for d in block.take_all(Kind::Files(kind)) {
            report.remark(d, &format!("`{d}` is left out: the location has no directory"));
        }
    }
}

/// The first key in which the mount that serves a path differs from the one that it should have.
/// `is_ignored` gets a key, and `true` if the wanted mount has it.
fn difference(
    serving: &Mount,
    wanted: &Mount,
    is_ignored: impl Fn(&str, bool) -> bool,
) -> Option<String> {
    let is_scripts = serving.key("fastcgi").is_some();
    let of_serving = |key: &str| match (key, is_scripts) {
        ("files", true) => serving.key("root"),
        _ => serving.key(key),
    };
    let unlike = wanted
        .keys
        .iter()
        .find(|(key, value)| !is_ignored(key, true) && of_serving(key) != Some(value));
    if let Some((key, _)) = unlike {
        return Some(key.clone());
    }
    let is_own = |key: &str, value: &Value| match (key, is_scripts) {
        (
            "fastcgi" | "root" | "index" | "params" | "buffer" | "connect_timeout" | "send_timeout",
            true,
        )
        | ("first_byte_timeout" | "read_timeout", true) => true,
        // Files are compressed without this key.
        ("compress", true) => *value == Value::from(true),
        _ => false,
    };
    let other = serving.keys.iter().find(|(key, value)| {
        wanted.key(key).is_none() && !is_ignored(key, false) && !is_own(key, value)
    });
    other.map(|(key, _)| key.clone())
}
