//! The known word nearest to an unknown one, for "did you mean". What the known words are is
//! `schema`'s and `names`' business.

/// Longer words are not compared: no key is near this length, and the cost grows with its square.
const WORD_CHARS_MAX: usize = 40;

/// Beginnings shorter than this say nothing.
const PREFIX_CHARS_MIN: usize = 2;

/// The one of `known` that `word` most likely stands for: one of them begins with the other, or at
/// most a third of its letters are wrong, missing, surplus or swapped with a neighbour. Case does
/// not count, nor `-` for `_`.
pub(super) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = folded(word);
    if word.len() > WORD_CHARS_MAX {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| {
            let known = folded(candidate);
            let shorter = word.len().min(known.len());
            let begins = shorter >= PREFIX_CHARS_MIN && word[..shorter] == known[..shorter];
            (if begins { 0 } else { distance(&word, &known) }, candidate)
        })
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn folded(word: &str) -> Vec<char> {
    word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Edits from `a` to `b`, a swap of neighbours counting as one (optimal string alignment).
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
    fn a_slip_finds_its_word_and_a_stranger_finds_none() {
        let known = ["listen", "listing", "allow", "head_bytes", "on", "off"];
        let table = [
            ("a doubled letter", "listting", Some("listing")),
            ("two letters swapped", "lisetn", Some("listen")),
            ("a letter missing", "alow", Some("allow")),
            ("another case", "Listen", Some("listen")),
            ("a dash for an underscore", "head-bytes", Some("head_bytes")),
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
