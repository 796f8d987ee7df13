//! Handlers of files, scripts and fixed answers, as keys of mounts.

use toml::Value;

use super::pattern::is_placeholder;
use super::proxy;
use super::scope::Scope;
use crate::mount::{Keys, put, put_list};
use crate::report::Report;
use crate::syntax::Directive;

/// Returns the keys of a mount of scripts for `php_fastcgi`.
pub(super) fn php(
    d: &Directive,
    args: &[String],
    scope: &Scope,
    report: &mut Report,
) -> Result<Keys, String> {
    let addresses: Vec<String> = args.iter().map(|address| fastcgi_address(address)).collect();
    let mut keys = Keys::new();
    put_list(&mut keys, "fastcgi", &addresses);
    if addresses.len() > 1 {
        report.remark(d, "its addresses get requests in turn; Caddy chooses by chance");
    }
    let (mut params, mut rest) = (toml::Table::new(), Keys::new());
    let mut front = Front::All;
    for line in d.children() {
        let value = line.arg(0);
        match line.name.as_str() {
            // The directory would be that of the files that are sent, too.
            "root" if scope.root.as_deref() != Some(value) => {
                return Err("scripts and files have one directory: the site's `root`".to_owned());
            }
            "root" => {}
            "index" if value == "off" => front = Front::Off,
            "index" => put(&mut rest, "index", vec![value.to_owned()]),
            "try_files" => front = Front::of(&line.args)?,
            "split" if line.args.len() == 1 => put(&mut rest, "suffix", value),
            "env" if line.args.len() == 2 && !is_placeholder(line.arg(1)) => {
                params.insert(value.to_owned(), Value::from(line.arg(1)));
            }
            "dial_timeout" => put(&mut rest, "connect_timeout", proxy::duration(value)?),
            "read_timeout" => put(&mut rest, "read_timeout", proxy::duration(value)?),
            "write_timeout" => put(&mut rest, "send_timeout", proxy::duration(value)?),
            "resolve_root_symlink" => put(&mut rest, "real_path", true),
            "capture_stderr" => report.leave_out(line),
            _ => report.refuse(line, "hurtle's fastcgi has no such setting"),
        }
    }
    if !scope.try_files.is_empty() {
        return Err("the front controller is the script of `index`, not of try_files".to_owned());
    }
    if !scope.prefix.is_empty() {
        return Err(format!("scripts behind {}, which is taken off", scope.prefix));
    }
    let root = scope.root.clone().ok_or("it has no root")?;
    put(&mut keys, "root", root);
    front.write(&mut rest);
    if !params.is_empty() {
        put(&mut rest, "params", Value::Table(params));
    }
    keys.extend(rest);
    if let Some(fields) = scope.request.request_fields("", scope.has_proxies)? {
        put(&mut keys, "request_fields", fields);
    }
    Ok(keys)
}

/// The paths that the script of `index` answers.
enum Front {
    /// Those that are no file, scripts included.
    All,
    /// Directories: the script is their index, and missing files are 404.
    Directories,
    /// The script answers none: the indexes are index.html and index.txt.
    Off,
}

impl Front {
    /// The paths that `try_files` leaves to the script.
    fn of(tries: &[String]) -> Result<Front, String> {
        let tries: Vec<&str> = tries.iter().map(|path| path.trim_end_matches("?{query}")).collect();
        match tries.as_slice() {
            ["{path}", "{path}/index.php", "index.php" | "/index.php"] => Ok(Front::All),
            ["{path}", "{path}/index.php", "=404"] => Ok(Front::Directories),
            _ => {
                Err("of its try_files it knows {path}, {path}/index.php, and index.php or =404"
                    .into())
            }
        }
    }

    fn write(&self, keys: &mut Keys) {
        match self {
            Front::All => put(keys, "front_for_scripts", true),
            Front::Directories => put(keys, "front_controller", false),
            Front::Off => {
                put(keys, "index", vec!["index.html", "index.txt"]);
                put(keys, "front_controller", false);
            }
        }
    }
}

/// Translates the address of a FastCGI application.
pub(super) fn fastcgi_address(address: &str) -> String {
    match address.strip_prefix("unix/") {
        Some(path) => format!("unix:/{}", path.trim_start_matches('/')),
        None => address.trim_start_matches("tcp/").to_owned(),
    }
}

pub(super) fn file_server(
    d: &Directive,
    args: &[String],
    scope: &Scope,
    report: &mut Report,
) -> Result<Keys, String> {
    let (mut root, mut listing) = (scope.root.clone(), args.iter().any(|arg| arg == "browse"));
    if args.iter().any(|arg| arg != "browse") {
        return Err("it has the word browse, or none".to_owned());
    }
    let mut rest = Keys::new();
    for line in d.children() {
        match line.name.as_str() {
            "root" if is_placeholder(line.arg(0)) => {
                return Err("a directory of hurtle is the same for all requests".to_owned());
            }
            "root" => root = Some(line.arg(0).to_owned()),
            "browse" if line.args.is_empty() => listing = true,
            "index" => put(&mut rest, "index", line.args.clone()),
            "precompressed" => {}
            // Names that begin with a dot are not served, anyway.
            "hide" if line.args.iter().all(|name| name.starts_with('.') && !name.contains('/')) => {
                report.leave_out(line);
            }
            _ => report.refuse(line, "hurtle's files have no such setting"),
        }
    }
    if root.is_none() {
        report.remark(d, "Caddy serves the directory in which it runs; so does the root \".\"");
    }
    let mut keys: Keys = vec![("files".to_owned(), Value::from(root.unwrap_or(".".to_owned())))];
    // A directory is no file of `{path}`, so the fixed path at the end is taken.
    let leaves_out = scope.try_files.last().is_some_and(|last| last.starts_with('/'))
        && !scope.try_files.iter().any(|path| path == "{path}/");
    if leaves_out {
        rest.retain(|(name, _)| name != "index");
        put(&mut rest, "index", Vec::<String>::new());
    } else if listing {
        put(&mut keys, "listing", true);
    }
    if !scope.try_files.is_empty() {
        put(&mut keys, "try_files", scope.try_files.clone());
    }
    keys.extend(rest);
    if let Some(rewritten) = &scope.rewritten {
        rewritten.of_files(&mut keys);
    }
    Ok(keys)
}

/// Translates the paths of `try_files`.
pub(super) fn try_files(args: &[String]) -> Result<Vec<String>, String> {
    let path = |arg: &String| match arg.strip_prefix("{path}") {
        Some(rest) if !is_placeholder(rest) => Ok(arg.clone()),
        _ if is_placeholder(arg) || arg.contains('?') => {
            Err(format!("of try_files it knows {{path}} and fixed paths, not {arg}"))
        }
        _ => Ok(arg.clone()),
    };
    args.iter().map(path).collect()
}

/// Keys of a fixed answer.
pub(super) fn respond(d: &Directive, args: &[String], report: &mut Report) -> Result<Keys, String> {
    check_first(d, args, report)?;
    let (mut body, status) = match args {
        [] => (String::new(), 200),
        [one] => match status_of(one) {
            Some(status) => (String::new(), status),
            None => (one.clone(), 200),
        },
        [body, status] => match status_of(status) {
            Some(status) => (body.clone(), status),
            None if is_placeholder(status) || status.contains("{env.") => {
                return Err("its second word is a status".to_owned());
            }
            None => {
                report
                    .remark(d, "a status that is no number is 500, such as for GET /, as in Caddy");
                (String::new(), 500)
            }
        },
        _ => return Err("it has a body and a status".to_owned()),
    };
    for line in d.children() {
        match line.name.as_str() {
            "body" => body = line.arg(0).to_owned(),
            "close" => {}
            _ => return Err("of `respond` it knows body and close".to_owned()),
        }
    }
    if is_placeholder(&body) {
        return Err("the body of hurtle's answers is fixed".to_owned());
    }
    Ok(answer(&body, status))
}

/// The status of `error`.
///
/// # Errors
/// A status with a variable.
pub(super) fn error_status(
    d: &Directive,
    args: &[String],
    report: &mut Report,
) -> Result<i64, String> {
    check_first(d, args, report)?;
    match args {
        [] => Ok(500),
        [one] => Ok(status_of(one).unwrap_or(500)),
        [_, status] => match status_of(status) {
            Some(status) => Ok(status),
            None if status.contains('{') => Err("its second word is a status".to_owned()),
            None => Ok(500),
        },
        _ => Err("it has a message and a status".to_owned()),
    }
}

/// A word that is a status.
fn status_of(word: &str) -> Option<i64> {
    (word.len() == 3).then(|| word.parse().ok()).flatten()
}

/// Checks the first word of an answer: Caddy tells texts, statuses and matchers apart once it has
/// the values of variables.
///
/// # Errors
/// A variable whose default is a status.
fn check_first(d: &Directive, args: &[String], report: &mut Report) -> Result<(), String> {
    let word = args.first().and_then(|word| word.strip_prefix("{env."));
    let Some((variable, end)) = word.and_then(|word| word.split_once('}')) else { return Ok(()) };
    let may_be_status = args.len() == 1 && end.is_empty();
    let may_be_matcher = d.args.first() == args.first();
    match variable.split_once(':') {
        Some((_, default)) if may_be_status && status_of(default).is_some() => {
            return Err("a status has no variable: write its value".to_owned());
        }
        None if may_be_status || may_be_matcher => report.remark(
            d,
            "the variable is a text, also for GET /; in Caddy a value of three digits is a status, \
             and one that begins with / a matcher",
        ),
        _ => {}
    }
    Ok(())
}

/// Keys of an answer with this body.
pub(super) fn answer(body: &str, status: i64) -> Keys {
    let mut keys = Keys::new();
    put(&mut keys, "respond", body);
    if status != 200 {
        put(&mut keys, "status", status);
    }
    if body.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(body).is_ok() {
        put(&mut keys, "content_type", "application/json");
    }
    keys
}

/// Translates a size: `10MB` is of a thousand kilobytes, `10MiB` of 1,024.
pub(super) fn size_of(text: &str) -> Result<String, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..at].parse().map_err(|_| format!("{text} is not a size"))?;
    let factor: u64 = match text[at..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        _ => return Err(format!("{text} is not a size")),
    };
    let bytes = number.checked_mul(factor).ok_or_else(|| format!("{text} is too large"))?;
    Ok(match factor {
        f if f.is_power_of_two() && f > 1 => {
            format!("{number} {}iB", ["K", "M", "G"][(f.trailing_zeros() / 10 - 1) as usize])
        }
        _ => format!("{bytes} B"),
    })
}
