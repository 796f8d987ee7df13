//! Locations with a regular expression: mounts with `match`, and scripts.

use super::block::{Block, Target};
use super::closed::{closed, without_root};
use super::error_pages::put_pages;
use super::expression::Expression;
use super::fastcgi::script_filename;
use super::front_script;
use super::kind::{HandlerKind, Kind};
use super::location::{fields, mount, target};
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::overlap;
use super::regex::{self, ScriptNames};
use super::report::Report;
use super::scope::Scope;
use super::scripts::{Scripts, fixed_script, place_of_scripts};
use super::syntax::Directive;

impl<'a> Mounts<'a, '_> {
    /// Translates a location with an expression. Scripts become the mount of `/`.
    pub(super) fn regex(
        &mut self,
        d: &'a Directive,
        text: &'a str,
        outer: &Scope,
        report: &mut Report,
    ) {
        let block = Block::of(d, outer, self.shared, report);
        let target = target(&block);
        if let (Some(names), Target::Fastcgi, None) =
            (regex::script_names(text), target, &self.scripts)
        {
            let Some(expression) = Expression::of(d, report) else { return };
            self.site.mounts.push(place_of_scripts(&expression));
            self.script_expression = Some(expression);
            self.scripts = Some(Scripts { at: d, block, names });
            return;
        }
        if target == Target::Fastcgi && regex::has_scripts(text) {
            return self.other_scripts(d, &block, report);
        }
        for kind in [HandlerKind::Alias, HandlerKind::FastcgiPass].map(Kind::Handler) {
            if let Some(other) = block.first(&[kind]) {
                return report.refuse(
                    other,
                    "with a regular expression it knows fastcgi_pass for names of scripts, and no alias",
                );
            }
        }
        let script = front_script::take(&block);
        let try_files = block.first(&[Kind::Handler(HandlerKind::TryFiles)]);
        let try_files = try_files.filter(|_| script.is_none());
        let is_known = |d: &Directive| match d.args.as_slice() {
            [path, last] => path == "$uri" && (last == "=404" || last.starts_with('@')),
            _ => false,
        };
        if let Some(d) = try_files.filter(|d| target == Target::Files && !is_known(d)) {
            return report.refuse(d, "only $uri =404 and $uri @name have a counterpart here");
        }
        let Some(expression) = Expression::of(d, report) else { return };
        let pages = self.error_pages(&block, false, target == Target::Files, report);
        let is_closed = block.scope().denies_all() && target != Target::Answer;
        let made = match is_closed {
            true => Some(closed(&block, "/", report)),
            false
                if target == Target::Files
                    && try_files.is_none()
                    && script.is_none()
                    && block.scope().root.peek().is_none() =>
            {
                without_root(d, &block, self.context, report)
            }
            false => mount(d, "/", &block, try_files, self.context, report),
        };
        let Some(mut made) = made else { return };
        if let Some(script) = script.filter(|_| !is_closed) {
            self.lead_to_script(script, &mut made, report);
        }
        put_pages(pages, &mut made);
        // A closed mount may take scripts, too, unless one is all that there is.
        let has_one =
            self.scripts.as_ref().is_some_and(|scripts| scripts.names != ScriptNames::All);
        let takes_none = has_one || !overlap::is_closed(&made);
        let scripts = self.script_expression.as_ref().filter(|_| takes_none);
        put(&mut made.place, "match", expression.matcher(scripts));
        if self.site.mounts.iter().any(|other| other.place == made.place) {
            return report.refuse(d, "a second location with this expression");
        }
        self.site.mounts.push(made);
        self.expressions.push((d, expression));
    }

    /// Translates a location of scripts beside another, such as those with a password.
    fn other_scripts(&mut self, d: &'a Directive, block: &Block<'a>, report: &mut Report) {
        let Some(expression) = Expression::of(d, report) else { return };
        let is_closed = block.scope().denies_all();
        let made = match is_closed {
            true => Some(closed(block, "/", report)),
            false => self.of_scripts(d, block, report),
        };
        let Some(mut made) = made else { return };
        let scripts = self.script_expression.as_ref();
        put(&mut made.place, "match", expression.matcher(scripts));
        if self.site.mounts.iter().any(|other| other.place == made.place) {
            return report.refuse(d, "a second location with this expression");
        }
        self.site.mounts.push(made);
        self.expressions.push((d, expression));
    }

    /// The mount of scripts alone, without its expression.
    fn of_scripts(&self, d: &Directive, block: &Block<'_>, report: &mut Report) -> Option<Mount> {
        let Some(root) = block.get(|scope| &scope.root).clone() else {
            report.refuse(d, "it has no root; write one, an absolute path");
            return None;
        };
        script_filename(block, Some(&root), &[], report);
        let mut keys = self.settings(d, block, report)?;
        fixed_script(d, &mut keys, &root, &ScriptNames::All, report);
        let at = keys.iter().position(|(key, _)| key == "fastcgi").map_or(0, |at| at + 1);
        let own = [
            ("root", root.into()),
            ("index", Vec::<String>::new().into()),
            ("front_controller", false.into()),
        ];
        keys.splice(at..at, own.map(|(key, value): (&str, toml::Value)| (key.to_owned(), value)));
        let headers = fields(block);
        block.finish(Target::Fastcgi, report);
        Some(Mount { path: "/".to_owned(), place: Keys::new(), keys, headers, choice: None })
    }
}
