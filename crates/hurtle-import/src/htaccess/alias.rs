//! mod_alias and error pages: `Redirect`, `RedirectMatch` and `ErrorDocument`.

use toml::Value;

use super::file_set::regex;
use super::parts::{Parts, named};
use super::pattern::{checked, escaped, glob};
use super::rewrite::is_location;
use super::serving::check_page;
use crate::mount::{Keys, put};
use crate::syntax::Directive;

/// Translates a directive; `None`: it is of another module.
pub(super) fn translate<'d>(d: &'d Directive, parts: &mut Parts<'d>) -> Option<Result<(), String>> {
    Some(match d.name.to_ascii_lowercase().as_str() {
        "redirect" => redirect(d, &d.args, parts),
        "redirectpermanent" => {
            redirect(d, &[&["301".to_owned()], d.args.as_slice()].concat(), parts)
        }
        "redirecttemp" => redirect(d, &[&["302".to_owned()], d.args.as_slice()].concat(), parts),
        "redirectmatch" => redirect_match(d, parts),
        "errordocument" => error_document(d, parts),
        _ => return None,
    })
}

fn redirect<'d>(d: &'d Directive, args: &[String], parts: &mut Parts<'d>) -> Result<(), String> {
    let (status, rest) = status_of(args)?;
    let from = rest
        .first()
        .filter(|from| from.starts_with('/'))
        .ok_or("it has a path that begins with a slash")?;
    let plain = escaped(from);
    let text = match from.strip_suffix('/') {
        Some(bare) => format!("^{}/(.*)$", escaped(bare)),
        None => format!("^{plain}(/.*)?$"),
    };
    let to = match rest {
        [_] => None,
        [_, to] => Some(format!("{to}{{1}}")),
        _ => return Err("it has a path and a target".to_owned()),
    };
    let glob = from
        .strip_suffix('/')
        .filter(|_| !from.contains(['*', '{']))
        .map(|bare| format!("{bare}/**"));
    let matched = match glob {
        Some(glob) => Value::from(glob),
        None => regex(checked(&text)?),
    };
    // Parts of the target that are not the path's.
    let written = rest.get(1).map_or("", String::as_str);
    push(d, matched, to, status, text, written, parts)
}

fn redirect_match<'d>(d: &'d Directive, parts: &mut Parts<'d>) -> Result<(), String> {
    let (status, rest) = status_of(&d.args)?;
    let from = rest.first().ok_or("it has an expression")?;
    let matched = match glob(from) {
        Some(glob) => Value::from(glob),
        _ => regex(checked(from)?),
    };
    let to = match rest {
        [_] => None,
        [_, to] => {
            let to = to.replace("\\$", "\u{1}");
            let to = crate::regex::replacement(&to).filter(|to| !to.contains("{0}"));
            Some(to.ok_or("of groups it knows $1 to $9")?.replace('\u{1}', "$"))
        }
        _ => return Err("it has an expression and a target".to_owned()),
    };
    let written = rest.get(1).map_or("", String::as_str);
    push(d, matched, to, status, checked(from)?, written, parts)
}

/// Adds a rule, or the mount of a status that is no redirect.
fn push<'d>(
    d: &'d Directive,
    matched: Value,
    to: Option<String>,
    status: u16,
    text: String,
    written: &str,
    parts: &mut Parts<'d>,
) -> Result<(), String> {
    let place = vec![("match".to_owned(), matched)];
    parts.met.push((d, text.clone()));
    match (to, status) {
        (None, 400..=599) => {
            parts.refuse(place, status);
            parts.closed.push(text);
            Ok(())
        }
        (Some(to), 300..=399) => {
            if written.contains(['{', '}'])
                || !is_location(written.split('$').next().unwrap_or_default())
            {
                return Err("its target is a path that begins with a slash, or a URL".to_owned());
            }
            let mut keys = place;
            put(&mut keys, "redirect", to);
            put(&mut keys, "status", i64::from(status));
            parts.redirects.push(keys);
            parts.redirected.push(text);
            Ok(())
        }
        _ => Err("a redirect has a target, and another status has none".to_owned()),
    }
}

fn status_of(args: &[String]) -> Result<(u16, &[String]), String> {
    let Some((word, rest)) = args.split_first() else { return Err("it has a path".to_owned()) };
    let status = match word.to_ascii_lowercase().as_str() {
        "permanent" => 301,
        "temp" => 302,
        "seeother" => 303,
        "gone" => 410,
        word if word.len() == 3 && word.bytes().all(|b| b.is_ascii_digit()) => match word.parse() {
            Ok(status @ (301 | 302 | 303 | 307 | 308 | 400..=599)) => status,
            _ => return Err("its status is 301, 302, 303, 307, 308, or one of an error".to_owned()),
        },
        _ => return Ok((302, args)),
    };
    Ok((status, rest))
}

fn error_document(d: &Directive, parts: &mut Parts<'_>) -> Result<(), String> {
    let status: u16 = d
        .arg(0)
        .parse()
        .ok()
        .filter(|status| (400..=599).contains(status))
        .ok_or("its first word is the status of an error")?;
    let words = d.args[1..].join(" ");
    let name = format!("error{status}");
    if words.is_empty() {
        return Err("it has a page".to_owned());
    }
    if words.eq_ignore_ascii_case("default") {
        parts.errors.remove(&status);
        return Ok(());
    }
    let page = if words.starts_with('/') {
        if words.ends_with('/')
            || words.contains(['?', '#'])
            || words.split('/').any(|part| part.starts_with('.'))
        {
            return Err("its path is that of a page, without a query and dots".to_owned());
        }
        if words.ends_with(".php") || words.contains(".php/") {
            return Err("a script answers no errors here: write a page, or leave missing paths to index.php by \
                        FallbackResource"
                .to_owned());
        }
        check_page(&words)?;
        Value::from(words)
    } else if words.contains("://") {
        if status == 401 || words.ends_with('/') || !is_location(&words) {
            return Err("write a path of this site".to_owned());
        }
        let mut keys = Keys::new();
        put(&mut keys, "name", name.clone());
        put(&mut keys, "redirect", words);
        parts.named.push(named(keys));
        Value::from(format!("@{name}"))
    } else {
        let mut keys = Keys::new();
        put(&mut keys, "name", name.clone());
        put(&mut keys, "respond", words.strip_prefix('"').unwrap_or(&words));
        put(&mut keys, "status", i64::from(status));
        put(&mut keys, "content_type", "text/html; charset=utf-8");
        parts.named.push(named(keys));
        Value::from(format!("@{name}"))
    };
    parts.errors.insert(status, page);
    Ok(())
}
