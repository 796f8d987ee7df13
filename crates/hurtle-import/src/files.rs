//! Translates a location of files, and its `try_files`.

use toml::Value;

use super::block::Block;
use super::kind::{FilesKind, HandlerKind, Kind};
use super::mount::{Keys, put};
use super::named::Named;
use super::path::{has_variable, join};
use super::report::Report;
use super::syntax::Directive;

/// Extensions of files that browsers execute.
const ACTIVE: [&str; 13] = [
    "css", "htm", "html", "js", "mjs", "pdf", "shtml", "svg", "svgz", "swf", "xhtml", "xml", "xsl",
];

/// Adds the keys of a mount of files; `None` if it was refused.
pub(super) fn files(
    at: &Directive,
    path: &str,
    block: &Block<'_>,
    try_files: Option<&Directive>,
    named: &[Named<'_>],
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let alias = block.take(Kind::Handler(HandlerKind::Alias));
    let root = || block.get(|scope| &scope.root).clone();
    let directory = match (alias, if alias.is_some() { None } else { root() }) {
        (Some(alias), _) if has_variable(alias.arg(0)) || !alias.arg(0).starts_with('/') => {
            report.refuse(alias, "write an absolute path without variables");
            return None;
        }
        (Some(alias), _) if path.ends_with('/') && !alias.arg(0).ends_with('/') => {
            report.refuse(alias, "end the location and the alias with /, or neither");
            return None;
        }
        (Some(alias), _) => {
            if alias.arg(0).ends_with('/') && !path.ends_with('/') {
                let text = format!(
                    "GET {path}a.css is another path here; nginx takes it for a.css of {}",
                    alias.arg(0)
                );
                report.remark(alias, &text);
            }
            join(alias.arg(0), "")
        }
        (None, Some(root)) => join(&root, path),
        (None, None) => {
            report.refuse(at, "it has no root; write one, an absolute path");
            return None;
        }
    };
    put(keys, "files", directory);
    report.general(
        "Files: OPTIONS /a.txt is 204, PROPFIND /a.txt 501, POST of a missing file 405 and GET /a%2Fb 404; nginx \
         answers 405, 405 and 404, and takes %2F for a slash"
            .to_owned(),
    );
    let search = match try_files {
        None => Search::default(),
        Some(d) => {
            block.take(Kind::Handler(HandlerKind::TryFiles));
            candidates(d, path, named, report)?
        }
    };
    if let Some(d) = try_files.filter(|_| search.has_no_directories && path != "/") {
        let bare = path.trim_end_matches('/');
        report.remark(
            d,
            &format!(
                "GET {bare} is redirected to {bare}/ where that is a directory; nginx has none here"
            ),
        );
    }
    let index = block.get(|scope| &scope.index);
    let lists = *block.get(|scope| &scope.listing);
    if search.has_no_directories {
        put(keys, "index", Vec::<String>::new());
    } else if !index.is_empty() && *index != ["index.html"] {
        put(keys, "index", index.clone());
    }
    let list = search.list;
    // A search that ends with another status ends with no 404.
    let has_status = list.last().is_some_and(|last| last.starts_with('='));
    if list.len() > 1 || list.first().is_some_and(|one| one != "{path}") {
        put(keys, "try_files", list);
    }
    let page = block.get(|scope| &scope.spa).as_deref().filter(|_| !has_status);
    let name = page.and_then(|page| page.strip_prefix('@'));
    match (search.otherwise.as_deref(), name, page) {
        (Some(_), _, Some(_)) => {
            report.refuse(at, "try_files leads elsewhere, and so does error_page 404");
            return None;
        }
        (None, Some(name), _) if !named.iter().any(|named| named.name == name) => {
            report.refuse(at, format!("there is no location @{name}, which error_page names"));
            return None;
        }
        (Some(name), ..) | (None, Some(name), _) => put(keys, "otherwise", name),
        (None, None, Some(page)) => put(keys, "spa", page),
        (None, None, None) => {}
    }
    if lists && !search.has_no_directories {
        put(keys, "listing", true);
    }
    let mut types = block.get(|scope| &scope.media_types).clone();
    if let Some(only) = block.get(|scope| &scope.only_types) {
        let default = block.get(|scope| &scope.default_type).as_deref().unwrap_or("text/plain");
        let others = ACTIVE.iter().filter(|ext| !only.iter().any(|own| own == *ext));
        types.extend(others.map(|ext| ((*ext).to_owned(), default.to_owned())));
        let text = format!(
            "types: {} are {default} if they are not named; GET /a of other extensions has the type of hurtle's own \
             table, and in nginx {default}",
            ACTIVE.join(", ")
        );
        report.remark(block.first(&[Kind::Files(FilesKind::Types)]).unwrap_or(at), &text);
    }
    if !types.is_empty() {
        let types: toml::Table =
            types.iter().map(|(ext, media)| (ext.clone(), Value::from(media.clone()))).collect();
        put(keys, "media_types", types);
    }
    let rate = *block.get(|scope| &scope.rate);
    if rate > 0 {
        put(keys, "rate", i64::try_from(rate).unwrap_or(i64::MAX));
    }
    match try_files.filter(|_| *block.get(|scope| &scope.uploads)) {
        Some(d) => report.remark(d, NO_UPLOADS),
        None if *block.get(|scope| &scope.uploads) => put(keys, "uploads", toml::Table::new()),
        None => {}
    }
    if let Some(d) = block.first(&[Kind::Files(FilesKind::DefaultType)]) {
        block.take(Kind::Files(FilesKind::DefaultType));
        report.remark(d, "default_type: files of other extensions get no media type by location");
    }
    Some(())
}

/// The script that answers paths without a file: the last element of `try_files`, such as
/// `/index.php?$query_string`.
pub(super) fn script_of(try_files: &Directive) -> Option<String> {
    let last = try_files.args.last()?;
    let path = last.split(['?', '$']).next().unwrap_or_default();
    let name = path.strip_prefix('/')?;
    (name.ends_with(".php") && !name.contains('/')).then(|| name.to_owned())
}

/// Compares the query that nginx gives the script at the end of `try_files` with that of the
/// request, which hurtle gives it.
pub(super) fn check_query(try_files: &Directive, report: &mut Report) {
    let last = try_files.args.last().map_or("", String::as_str);
    let end = last.split_once(".php").map_or("", |(_, end)| end);
    let plain = end.replace("$query_string", "$args").replace("$is_args", "?");
    match plain.as_str() {
        "?$args" => {}
        "" | "?" => report.remark(
            try_files,
            "the script gets the query of GET /x?a=b; nginx takes it off: for that it is written \
             ?$args",
        ),
        TWICE => report.remark(
            try_files,
            "the script gets the query of GET /x?a=b once; nginx gives it a=b&a=b",
        ),
        "$request_uri" => report.remark(
            try_files,
            "the script gets the path of GET /x/y in REQUEST_URI; nginx gives it in PATH_INFO, too",
        ),
        _ => report.refuse(
            try_files,
            "hurtle gives the script the query of the request; have it read REQUEST_URI, and \
             write ?$args",
        ),
    }
}

/// The difference of uploads beside `try_files`.
pub(super) const NO_UPLOADS: &str = "PUT /x and DELETE /x store and remove nothing; nginx searches by try_files first, and stores \
    files that are there: for uploads leave try_files out";

/// The query of a rewrite to `/x.php?$args`, to which nginx appends that of the request.
pub(super) const TWICE: &str = "?$args&$args";

/// The translation of `try_files`.
#[derive(Debug, Default)]
struct Search {
    list: Vec<String>,
    /// The name of the location that it ends with.
    otherwise: Option<String>,
    /// `true`: directories are not among the candidates.
    has_no_directories: bool,
}

/// Translates `try_files` of files; `None` if it was refused.
fn candidates(
    d: &Directive,
    path: &str,
    named: &[Named<'_>],
    report: &mut Report,
) -> Option<Search> {
    let mut search = Search {
        has_no_directories: !d.args.iter().any(|arg| arg == "$uri/"),
        ..Search::default()
    };
    let last = d.args.len().saturating_sub(1);
    for (at, arg) in d.args.iter().enumerate() {
        let mut arg = arg;
        if let Some(name) = arg.strip_prefix('@') {
            match named.iter().find(|named| named.name == name) {
                Some(Named { page: Some(page), .. }) => arg = page,
                Some(_) => {
                    search.otherwise = Some(name.to_owned());
                    continue;
                }
                None => {
                    report.refuse(d, format!("there is no location @{name}"));
                    return None;
                }
            }
        }
        if let Some(status) = arg.strip_prefix('=') {
            // A search without a hit ends with 404 anyway.
            if status != "404" {
                search.list.push(arg.clone());
            }
            continue;
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let item = match arg.strip_prefix("$uri").filter(|rest| !rest.starts_with(is_name)) {
            // Directories are found by the path, too.
            Some("/") => continue,
            Some(rest) => format!("{{path}}{rest}"),
            // Paths of the last element are those of the site, the others beneath the root.
            None => match path.trim_end_matches('/') {
                "" => arg.clone(),
                prefix => match arg.strip_prefix(prefix) {
                    Some(rest) if rest.starts_with('/') => rest.to_owned(),
                    _ => {
                        report.refuse(d, format!("write paths beneath {path}"));
                        return None;
                    }
                },
            },
        };
        if has_variable(&item) || item.contains('?') {
            let needs = if at == last { "a script; see fastcgi" } else { "variables" };
            report.refuse(d, format!("it needs {needs}"));
            return None;
        }
        search.list.push(item);
    }
    Some(search)
}
