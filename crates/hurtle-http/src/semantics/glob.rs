//! Path patterns: `*` matches any bytes except `/`, `**` matches any bytes, all other bytes match
//! themselves. A pattern without `/` is matched against the last segment of a path only.

/// True if the decoded `path` matches. A pattern with one wildcard takes time proportional to the
/// sum of both lengths, any other pattern at most to their product.
pub fn matches(pattern: &str, path: &[u8]) -> bool {
    let Some((wild, text)) = trim_literals(pattern.as_bytes(), subject(pattern, path)) else {
        return false;
    };
    match wild {
        b"" => true,
        b"*" => !text.contains(&b'/'),
        _ if is_stars(wild) => true,
        _ => Table::fill(wild, text).matches(),
    }
}

/// Returns the bytes that each wildcard of `pattern` matched, in order; `None` if `path` does not
/// match. Earlier wildcards match as much as they can.
///
/// Captures are chosen by the client and may hold line breaks: encode them before they are written
/// to a field.
pub fn captures<'p>(pattern: &str, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
    let (wild, text) = trim_literals(pattern.as_bytes(), subject(pattern, path))?;
    if wild.is_empty() {
        return Some(Vec::new());
    }
    Table::fill(wild, text).captures()
}

/// Replaces each `{name}` in `template` for which `find` has a text. Other braces are literal.
pub fn expand_with(template: &str, find: impl Fn(&str) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, opened)) = rest.split_once('{') {
        out.extend_from_slice(before.as_bytes());
        let found = opened.split_once('}').and_then(|(name, tail)| Some((find(name)?, tail)));
        match found {
            Some((text, tail)) => {
                out.extend_from_slice(&text);
                rest = tail;
            }
            None => {
                out.push(b'{');
                rest = opened;
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// Replaces `{1}`, `{2}` ... in `template` with the first, second ... capture. A number without a
/// capture is removed. Other braces are literal.
pub fn expand(template: &str, captures: &[&[u8]]) -> Vec<u8> {
    expand_with(template, |name| {
        let capture = captures.get(capture_number(name)? - 1);
        Some(capture.map_or_else(Vec::new, |text| text.to_vec()))
    })
}

/// Parses the number of a capture; it is at least 1.
pub fn capture_number(name: &str) -> Option<usize> {
    // `parse` would accept a sign.
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    name.parse().ok().filter(|&number| is_number && number > 0)
}

/// True if a text, which is no path, is like a pattern: `*` matches any bytes. It takes time
/// proportional at most to the product of both lengths.
pub fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The last star, and the end of what it has matched.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (p, t) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Returns the part of `path` that `pattern` is matched against.
fn subject<'p>(pattern: &str, path: &'p [u8]) -> &'p [u8] {
    if pattern.contains('/') {
        return path;
    }
    let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    &path[start..]
}

/// Removes the literal prefix and suffix of the pattern from both; `None` if the text differs from
/// them. The remaining pattern is empty, or begins and ends with a wildcard.
fn trim_literals<'g, 'p>(pattern: &'g [u8], text: &'p [u8]) -> Option<(&'g [u8], &'p [u8])> {
    let is_star = |byte: &u8| *byte == b'*';
    let Some(first) = pattern.iter().position(is_star) else {
        return (pattern == text).then_some((b"", b""));
    };
    let last = pattern.iter().rposition(is_star)?;
    let text = text.strip_prefix(&pattern[..first])?.strip_suffix(&pattern[last + 1..])?;
    Some((&pattern[first..=last], text))
}

/// True if `wild` is a single wildcard that crosses slashes. More than two asterisks mean two.
fn is_stars(wild: &[u8]) -> bool {
    wild.len() > 1 && wild.iter().all(|&byte| byte == b'*')
}

/// A part of a pattern.
#[derive(Clone, Copy)]
enum Piece<'g> {
    /// Bytes that match themselves.
    Literal(&'g [u8]),
    /// `*`
    WithinSegment,
    /// `**`
    AcrossSegments,
}

/// Table of which suffixes of a pattern match which suffixes of a text. Each piece takes one row,
/// so the work is bounded by pieces times bytes. A backtracking matcher takes exponential time on
/// some patterns.
struct Table<'g, 'p> {
    pieces: Vec<Piece<'g>>,
    text: &'p [u8],
    /// Row by row: true if the pieces from `piece` on match all of `text[at..]`. There is one row
    /// more than pieces and one column more than bytes.
    cells: Vec<bool>,
}

impl<'g, 'p> Table<'g, 'p> {
    fn fill(pattern: &'g [u8], text: &'p [u8]) -> Table<'g, 'p> {
        let pieces = split_pieces(pattern);
        let cells = vec![false; (pieces.len() + 1) * (text.len() + 1)];
        let mut table = Table { pieces, text, cells };
        // An empty list of pieces matches only the empty text.
        let end = table.index(table.pieces.len(), text.len());
        table.cells[end] = true;
        for piece in (0..table.pieces.len()).rev() {
            for at in (0..=text.len()).rev() {
                let here = table.index(piece, at);
                table.cells[here] = table.decide(piece, at);
            }
        }
        table
    }

    /// Computes one cell from the row below and from later cells of its own row.
    fn decide(&self, piece: usize, at: usize) -> bool {
        let rest = &self.text[at..];
        match self.pieces[piece] {
            Piece::Literal(literal) => {
                rest.starts_with(literal) && self.holds(piece + 1, at + literal.len())
            }
            Piece::WithinSegment => {
                self.holds(piece + 1, at)
                    || matches!(rest, [byte, ..] if *byte != b'/' && self.holds(piece, at + 1))
            }
            Piece::AcrossSegments => {
                self.holds(piece + 1, at) || (!rest.is_empty() && self.holds(piece, at + 1))
            }
        }
    }

    fn index(&self, piece: usize, at: usize) -> usize {
        piece * (self.text.len() + 1) + at
    }

    fn holds(&self, piece: usize, at: usize) -> bool {
        self.cells[self.index(piece, at)]
    }

    fn matches(&self) -> bool {
        self.holds(0, 0)
    }

    fn captures(&self) -> Option<Vec<&'p [u8]>> {
        if !self.matches() {
            return None;
        }
        let mut captures = Vec::new();
        let mut at = 0;
        for (index, piece) in self.pieces.iter().enumerate() {
            if let Piece::Literal(literal) = piece {
                at += literal.len();
                continue;
            }
            let rest = &self.text[at..];
            let reach = match piece {
                Piece::WithinSegment => rest.iter().position(|&byte| byte == b'/'),
                _ => None,
            };
            let reach = reach.unwrap_or(rest.len());
            // This piece matched, so at least one end within `reach` lets the other pieces match.
            let taken = (0..=reach).rev().find(|&taken| self.holds(index + 1, at + taken))?;
            captures.push(&rest[..taken]);
            at += taken;
        }
        Some(captures)
    }
}

fn split_pieces(pattern: &[u8]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for run in pattern.chunk_by(|a, b| (*a == b'*') == (*b == b'*')) {
        pieces.push(match run {
            b"*" => Piece::WithinSegment,
            [b'*', ..] => Piece::AcrossSegments,
            literal => Piece::Literal(literal),
        });
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_like_a_pattern() {
        let table = [
            ("itself", "abc", "abc", true),
            ("another", "abc", "abd", false),
            ("longer", "abc", "abcd", false),
            ("a beginning", "ab*", "abc", true),
            ("the beginning alone", "ab*", "ab", true),
            ("an end", "*bc", "abc", true),
            ("the middle", "*b*", "a/b/c", true),
            ("both ends", "a*c", "abcbc", true),
            ("two stars that have to step back", "*ab*ac", "xabaabac", true),
            ("nothing", "", "", true),
            ("any text", "*", "", true),
            ("no text", "", "a", false),
        ];
        for (sentence, pattern, text, expected) in table {
            assert_eq!(is_like(pattern.as_bytes(), text.as_bytes()), expected, "{sentence}");
        }
    }

    #[test]
    fn patterns() {
        // (description, pattern, path, captures if it matches)
        let rows: &[(&str, &str, &str, Option<&[&str]>)] = &[
            ("itself", "/a/b", "/a/b", Some(&[])),
            ("another path", "/a/b", "/a/c", None),
            ("beneath it", "/a", "/a/b", None),
            ("a trailing slash counts", "/a", "/a/", None),
            ("within a segment", "/a/*.js", "/a/x.js", Some(&["x"])),
            ("an asterisk matches nothing too", "/a/*.js", "/a/.js", Some(&[""])),
            ("an asterisk stops at a slash", "/a/*.js", "/a/b/x.js", None),
            ("two cross it", "/a/**.js", "/a/b/x.js", Some(&["b/x"])),
            ("everything beneath", "/a/**", "/a/b/c", Some(&["b/c"])),
            ("the directory itself", "/a/**", "/a/", Some(&[""])),
            ("but not without its slash", "/a/**", "/a", None),
            ("all paths", "**", "/a/b/c", Some(&["c"])),
            ("all paths, with a slash", "/**", "/a/b/c", Some(&["a/b/c"])),
            ("one segment after another", "/*/*", "/a/b", Some(&["a", "b"])),
            ("one too many", "/*/*", "/a/b/c", None),
            ("directories between", "/a/**/z", "/a/b/c/z", Some(&["b/c"])),
            ("slashes stand for themselves", "/a/**/z", "/a/z", None),
            ("both kinds", "/old/**/*.html", "/old/a/b/c.html", Some(&["a/b", "c"])),
            ("the earlier takes more", "/*-*", "/a-b-c", Some(&["a-b", "c"])),
            ("but no more than the rest can spare", "/*b*", "/abb", Some(&["ab", ""])),
            ("three are two", "/a***", "/ab/c", Some(&["b/c"])),
            ("prefix and suffix do not overlap", "/ab*ba", "/aba", None),
            ("without a slash: the last segment", "*.js", "/a/b/x.js", Some(&["x"])),
            ("and no other", "*.js", "/x.js/y", None),
            ("a name anywhere", "robots.txt", "/a/robots.txt", Some(&[])),
            ("an empty last segment", "*", "/a/", Some(&[""])),
            ("no other byte is special", "/[a]?{1}\\", "/[a]?{1}\\", Some(&[])),
            ("case counts", "/A", "/a", None),
            ("beyond ASCII", "/é*", "/éa", Some(&["a"])),
            ("an empty pattern: an empty name", "", "/a/", Some(&[])),
        ];
        for (why, pattern, path, expected) in rows {
            let matched = matches(pattern, path.as_bytes());
            assert_eq!(matched, expected.is_some(), "{why}: {pattern} {path}");
            let captures = captures(pattern, path.as_bytes());
            let expected: Option<Vec<&[u8]>> =
                expected.map(|captures| captures.iter().map(|text| text.as_bytes()).collect());
            assert_eq!(captures, expected, "{why}: {pattern} {path}");
        }
    }

    #[test]
    fn templates() {
        let rows: &[(&str, &str, &[&str], &str)] = &[
            ("no placeholder", "/new", &["a"], "/new"),
            ("one", "/new/{1}", &["a/b"], "/new/a/b"),
            ("in another order", "/{2}/{1}.html", &["a", "b"], "/b/a.html"),
            ("twice", "{1}{1}", &["a"], "aa"),
            ("of two digits", "{10}", &["", "", "", "", "", "", "", "", "", "j"], "j"),
            ("one that was not captured", "/{2}!", &["a"], "/!"),
            ("a capture is not expanded again", "{1}", &["{2}", "x"], "{2}"),
            ("zero is none", "{0}", &["a"], "{0}"),
            ("a name is none", "{path}", &["a"], "{path}"),
            ("a sign is none", "{+1}", &["a"], "{+1}"),
            ("an open brace", "a{1", &["a"], "a{1"),
            ("a brace before one", "{{1}}", &["a"], "{a}"),
            (
                "a number beyond all",
                "{99999999999999999999999}",
                &["a"],
                "{99999999999999999999999}",
            ),
        ];
        for (why, template, captures, expected) in rows {
            let captures: Vec<_> = captures.iter().map(|capture| capture.as_bytes()).collect();
            assert_eq!(expand(template, &captures), expected.as_bytes(), "{why}: {template}");
        }
    }

    /// Reference implementation by recursion, exponential in the worst case.
    fn matches_by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], text) => text.is_empty(),
            ([b'*', b'*', rest @ ..], text) => {
                (0..=text.len()).any(|at| matches_by_definition(rest, &text[at..]))
            }
            ([b'*', rest @ ..], text) => (0..=text.len())
                .take_while(|&at| !text[..at].contains(&b'/'))
                .any(|at| matches_by_definition(rest, &text[at..])),
            ([a, pattern @ ..], [b, text @ ..]) => a == b && matches_by_definition(pattern, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn results_equal_the_reference_implementation(
            pattern in "/([ab/]|\\*|\\*\\*){0,6}",
            path in "/[ab/]{0,8}",
        ) {
            let expected = matches_by_definition(pattern.as_bytes(), path.as_bytes());
            prop_assert_eq!(matches(&pattern, path.as_bytes()), expected);
            let captures = captures(&pattern, path.as_bytes());
            prop_assert_eq!(captures.is_some(), expected);
        }

        #[test]
        fn captures_put_back_give_the_path(
            pattern in "/([ab/]|\\*[ab/]|\\*\\*[ab/]){0,5}",
            path in "/[ab/]{0,10}",
        ) {
            if let Some(captures) = captures(&pattern, path.as_bytes()) {
                let mut template = String::new();
                let mut number = 0;
                for run in pattern.replace("**", "*").chars() {
                    if run == '*' {
                        number += 1;
                        template.push_str(&format!("{{{number}}}"));
                    } else {
                        template.push(run);
                    }
                }
                prop_assert_eq!(captures.len(), number);
                prop_assert_eq!(expand(&template, &captures), path.into_bytes());
            }
        }
    }

    #[test]
    fn no_pattern_takes_exponential_time() {
        // Each wildcard could end at thousands of positions, and no combination matches.
        let pattern = format!("/{}**b**", "**a*a".repeat(20));
        let path = format!("/{}", "a".repeat(8000));
        assert!(!matches(&pattern, path.as_bytes()));
        assert_eq!(captures(&pattern, path.as_bytes()), None);
    }
}
