//! `nginx_config`: the importer of nginx's configurations.

use hurtle_import::syntax::{Directive, parse};
use hurtle_import::{nginx, nginx_partially};

/// A configuration is refused with a reason, or translated to a valid one; a part of it is, only if
/// it is not translated as a whole. Directives that are printed are read back equal.
pub fn nginx_config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let directives = match parse(text, "nginx.conf") {
        Ok(directives) => directives,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = parse(&print(&directives), "nginx.conf").expect("printed directives are read");
    assert_eq!(names(&again), names(&directives));
    let whole = nginx(&directives);
    match (&whole, nginx_partially(&directives)) {
        (Ok(text), Ok(partial)) => assert_eq!((text, 0), (&partial.text, partial.left_out)),
        (Err(_), Ok(partial)) => assert!(partial.left_out > 0, "{}", partial.text),
        (whole, Err(_)) => assert!(whole.is_err()),
    }
    match whole {
        Ok(toml) => {
            let file = std::path::Path::new("hurtle.toml");
            assert!(hurtle_config::check(&toml, file).is_ok(), "{toml}");
        }
        Err(problems) => assert!(problems.iter().all(|problem| !problem.is_empty())),
    }
}

/// Words and blocks without their positions.
fn names(directives: &[Directive]) -> String {
    let one = |d: &Directive| {
        let block = d.block.as_ref().map(|block| names(block));
        format!("{:?}{:?}{block:?}", d.name, d.args)
    };
    directives.iter().map(one).collect()
}

fn print(directives: &[Directive]) -> String {
    let mut text = String::new();
    for directive in directives {
        for word in std::iter::once(&directive.name).chain(&directive.args) {
            text += &format!("\"{}\" ", escaped(word));
        }
        match &directive.block {
            Some(block) => text += &format!("{{ {} }}\n", print(block)),
            None => text += ";\n",
        }
    }
    text
}

/// Doubles backslashes: `\t` of a regular expression is not a tab.
fn escaped(word: &str) -> String {
    word.replace('\\', "\\\\").replace('"', "\\\"")
}
