//! Finds the known word nearest to an unknown one, for "did you mean".

/// Longer words are not compared: no key is this long, and the cost grows with the square.
const WORD_CHARS_MAX: usize = 40;

/// Shorter prefixes do not count as a match.
const PREFIX_CHARS_MIN: usize = 2;

/// Finds the known word that `word` most likely means: one is a prefix of the other, or at most a
/// third of the letters are wrong, missing, surplus or swapped with a neighbour. Ignores case and
/// takes `-` for `_`.
pub(super) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = fold_case(word);
    if word.len() > WORD_CHARS_MAX {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| {
            let known = fold_case(candidate);
            let shorter = word.len().min(known.len());
            let begins = shorter >= PREFIX_CHARS_MIN && word[..shorter] == known[..shorter];
            (if begins { 0 } else { distance(&word, &known) }, candidate)
        })
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        // `listen-tls` begins like `listen`, but is `listen_tls`.
        .min_by_key(|(distance, candidate)| (*distance, fold_case(candidate) != word))
        .map(|(_, candidate)| candidate)
}

fn fold_case(word: &str) -> Vec<char> {
    word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Number of edits from `a` to `b`; a swap of neighbours is one (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_neighbour_and_another_word_finds_none() {
        let known = ["listen", "listen_tls", "listing", "allow", "head_bytes", "on", "off"];
        let table = [
            ("a doubled letter", "listting", Some("listing")),
            ("two letters swapped", "lisetn", Some("listen")),
            ("a letter missing", "alow", Some("allow")),
            ("another case", "Listen", Some("listen")),
            ("a dash for an underscore", "head-bytes", Some("head_bytes")),
            ("the whole word, before its beginning", "listen-tls", Some("listen_tls")),
            ("the nearest of two", "listng", Some("listing")),
            ("a short word may differ by one letter only", "offf", Some("off")),
            ("the beginning of a word, nearer than a letter changed", "of", Some("off")),
            ("a word and more", "allowed", Some("allow")),
            ("nothing alike", "compression", None),
            ("nothing at all", "", None),
            ("longer than any key", &"listen".repeat(100), None),
        ];
        for (sentence, word, meant) in table {
            assert_eq!(nearest(word, known), meant, "{sentence}");
        }
    }
}
