//! The page or script that answers paths without a file.

use super::condition::Requests;
use super::matching::Subject;
use super::rule::{Query, Rule};
use super::{BEFORE_REFUSALS, Rewriting};
use crate::htaccess::pattern::{escaped, is_everything};
use crate::htaccess::serving;
use crate::mount::{Keys, put};
use crate::syntax::Directive;
use hurtle_config::PathRegex;
use toml::Value;

/// The page or script for missing files.
#[derive(Clone, Debug)]
pub(crate) struct Front<'d> {
    pub(crate) d: &'d Directive,
    /// Its path, from the root.
    pub(crate) path: String,
    /// `true`: it answers directories, too.
    pub(crate) takes_directories: bool,
    /// Expressions of paths that it does not answer.
    pub(crate) except: Vec<String>,
    /// `true`: Apache applies no rule to it.
    pub(crate) is_end: bool,
}

impl Front<'_> {
    /// The script, without its slash; `None`: a page.
    pub(crate) fn script(&self) -> Option<&str> {
        self.path.strip_prefix('/').filter(|name| name.ends_with(".php"))
    }
}

impl<'d> Rewriting<'d, '_> {
    /// Translates a rule for missing files.
    pub(super) fn front(
        &mut self,
        rule: &Rule<'d>,
        requests: &Requests,
        to: &str,
    ) -> Result<(), String> {
        let mut except = requests.not_regex.clone();
        let others = Requests {
            is_no_file: false,
            is_no_directory: false,
            not_regex: Vec::new(),
            ..requests.clone()
        };
        if others != Requests::default() {
            return Err(
                "a page or script for missing files has no other conditions here".to_owned()
            );
        }
        if !requests.is_no_file {
            return Err("a page or script in place of files that are there: add RewriteCond %{REQUEST_FILENAME} !-f".to_owned());
        }
        if !rule.is_not && !is_everything(&rule.pattern) {
            return Err(
                "a page or script for missing files is for all paths: write ^ in its place"
                    .to_owned(),
            );
        }
        let to = to.strip_prefix("%{ENV:BASE}").filter(|_| self.has_base).unwrap_or(to);
        let to = format!("/{}", to.trim_start_matches('/'));
        let (path, query) = to.split_once('?').unwrap_or((&to, ""));
        let (path, has_rest) = match path.split_once(".php/") {
            Some((begin, "$1" | "%{REQUEST_URI}")) => (format!("{begin}.php"), true),
            _ => (path.to_owned(), false),
        };
        if path.contains(['$', '%', '{', '\\']) {
            return Err("the page or script for missing files has a fixed path".to_owned());
        }
        serving::check_page(&path)?;
        // The one that keeps it from its own path has no counterpart.
        except.retain(|text| {
            let is_in =
                |path: &str| PathRegex::new(text).is_ok_and(|regex| regex.is_in(path.as_bytes()));
            !is_in(&path) || text.contains('|') || is_in("/other.php")
        });
        let is_script = path.ends_with(".php");
        if is_script && path[1..].contains('/') {
            return Err(
                "the script is in this directory: import the .htaccess of its own one".to_owned()
            );
        }
        if has_rest {
            self.report.remark(
                rule.d,
                &format!("{path} finds the path in REQUEST_URI, and not in PATH_INFO: GET /a/b"),
            );
        }
        match query {
            "" | "%{QUERY_STRING}" => {}
            _ if is_script && self.parts.has_conditional_refusal => {
                return Err(BEFORE_REFUSALS.to_owned());
            }
            _ if is_script => self.with_path(rule, &path, query, &except)?,
            _ => return Err("a page gets no query".to_owned()),
        }
        if self.parts.front.is_some() {
            return Err("another page or script answers missing files already".to_owned());
        }
        if is_script {
            self.parts.settings.has_php = true;
        }
        self.parts.front = Some(Front {
            d: rule.d,
            path,
            takes_directories: !requests.is_no_directory,
            except,
            is_end: rule.is_end,
        });
        Ok(())
    }

    /// Pages that are found without their ending.
    pub(super) fn with_suffix(
        &mut self,
        rule: &Rule<'d>,
        requests: Requests,
        to: &str,
    ) -> Result<(), String> {
        let suffix = requests.suffix.clone().unwrap_or_default();
        let others =
            Requests { suffix: None, is_no_file: false, is_no_directory: false, ..requests };
        let is_all = is_everything(&rule.pattern)
            || ["^([^.]+)$", r"^([^\.]+)$"].contains(&rule.pattern.as_str());
        let bare = to.strip_suffix(&suffix).unwrap_or_default().trim_start_matches('/');
        let is_own = matches!(bare, "$1" | "%{REQUEST_FILENAME}" | "%{REQUEST_URI}");
        if others != Requests::default() || !is_all || rule.is_not || !is_own {
            return Err(format!(
                "with an ending it knows `RewriteRule ^(.*)$ $1{suffix}` for all paths"
            ));
        }
        if !matches!(suffix.as_str(), ".html" | ".htm" | ".txt") {
            return Err(format!("files of {suffix} are found by their whole names"));
        }
        self.report.remark(
            rule.d,
            &format!(
                "a directory precedes the file of its name, and names with a dot are tried, too: GET /dir, for /dir{suffix}"
            ),
        );
        self.parts.suffixes.push((rule.d, suffix));
        Ok(())
    }

    /// A script that gets the path in a parameter: a rule for all paths that are not of this
    /// directory's files.
    fn with_path(
        &mut self,
        rule: &Rule<'d>,
        path: &str,
        query: &str,
        except: &[String],
    ) -> Result<(), String> {
        let own = super::target::expand(
            query,
            &super::target::Values {
                groups: Some("{1}"),
                path: Some("/{1}"),
                host: None,
                conditions: super::target::Conditions::None,
                has_base: false,
            },
        )?;
        let own = match rule.query {
            Query::Appended => format!("{own}&{{query}}"),
            _ => own,
        };
        let mut names: Vec<String> = self
            .tree
            .directories
            .iter()
            .chain(&self.tree.files)
            .map(|name| escaped(name))
            .collect();
        let script = escaped(&path[1..]);
        if !names.contains(&script) {
            names.push(script);
        }
        let mut requests = Requests::default();
        requests.not_regex.push(format!("^/(?:{})(?:/|$)", names.join("|")));
        requests.not_regex.extend(except.iter().cloned());
        requests.not_regex.extend(self.parts.closed.iter().cloned());
        requests.regex = Some("^/(.+)$".to_owned());
        let subject = Subject::Regex { text: "^/(.+)$".to_owned(), of_condition: false };
        let mut keys: Keys = subject.place(&requests, None)?;
        put(&mut keys, "rewrite", Value::from(format!("{path}?{own}")));
        self.parts.rules.push(keys);
        let example = self.tree.directories.first().map_or("x", String::as_str);
        self.report.remark(
            rule.d,
            &format!(
                "the rule is for names that are not in this directory now: GET /{example}/gone is answered by {path} \
                 without the parameter; add names of later files to `not`"
            ),
        );
        Ok(())
    }
}
