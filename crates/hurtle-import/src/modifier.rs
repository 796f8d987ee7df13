//! The modifier and the path of a `location`, and which of two locations nginx prefers.

use super::syntax::Directive;

/// The modifier of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modifier {
    /// A prefix of names. Regular expressions are tried after it, and win.
    Prefix,
    /// `^~`: a prefix of names that wins over regular expressions.
    Final,
    /// `=`: this path only.
    Exact,
    /// `~` or `~*`.
    Regex,
    /// `@name`: requests that other locations hand on.
    Named,
}

/// Reads the arguments of a location, without the `@` of a name; `None`: it has another form.
pub(super) fn modifier(location: &Directive) -> Option<(Modifier, &str)> {
    let (modifier, path) = match location.args.as_slice() {
        [name] if name.starts_with('@') => return Some((Modifier::Named, &name[1..])),
        [path] => (Modifier::Prefix, path),
        [modifier, path] => match modifier.as_str() {
            "^~" => (Modifier::Final, path),
            "=" => (Modifier::Exact, path),
            "~" | "~*" => (Modifier::Regex, path),
            _ => return None,
        },
        _ => return None,
    };
    (modifier == Modifier::Regex || path.starts_with('/')).then_some((modifier, path))
}

/// `true` if a mount of the path `mount` holds `path`: it is the path, or all beneath it.
pub(super) fn holds(mount: &str, path: &str) -> bool {
    mount == "/"
        || path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
