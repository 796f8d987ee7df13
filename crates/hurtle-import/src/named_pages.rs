//! Writes the page to which a named location rewrites all paths in place of its name, before
//! anything is translated: a script, `location @front { rewrite ^ /index.php last; }`, in
//! `try_files`, and any other page in `error_page`.

use super::missing_files::page_of_rewrite;
use super::syntax::Directive;

/// Rewrites the servers of a configuration.
pub(super) fn as_pages(directives: &[Directive]) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => server(block),
            "http" => as_pages(block),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// Rewrites a server. A named location to which nothing else leads goes.
fn server(block: &[Directive]) -> Vec<Directive> {
    let mut rewritten = block.to_vec();
    for (name, page) in block.iter().filter_map(page) {
        let of = if page.contains(".php") { "try_files" } else { "error_page" };
        replace(&mut rewritten, of, name, &page);
        if !rewritten.iter().any(|d| leads_to(d, name)) {
            rewritten.retain(|d| d.name != "location" || d.arg(0) != name);
        }
    }
    rewritten
}

/// The name of a location that does nothing but rewrite all paths to a page, and the page.
fn page(d: &Directive) -> Option<(&str, String)> {
    let [only] = d.children() else { return None };
    let is_named = d.name == "location" && d.args.len() == 1 && d.arg(0).starts_with('@');
    let page = page_of_rewrite(only).filter(|_| is_named)?;
    Some((d.arg(0), page))
}

/// Replaces the name at the end of each directive of this kind.
fn replace(block: &mut [Directive], of: &str, name: &str, page: &str) {
    for d in block {
        match d.args.last_mut() {
            Some(last) if d.name == of && last == name => page.clone_into(last),
            _ => replace(d.block.as_deref_mut().unwrap_or_default(), of, name, page),
        }
    }
}

fn leads_to(d: &Directive, name: &str) -> bool {
    let is_own = d.name != "location" && d.args.iter().any(|arg| arg == name);
    is_own || d.children().iter().any(|inner| leads_to(inner, name))
}
