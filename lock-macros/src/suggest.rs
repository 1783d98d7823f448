//! Suggests corrections of misspelled words.

/// Returns the closest word, if it is at most two edits away and shares a letter with the misspelled one.
pub(crate) fn closest_match<'a>(misspelt: &str, words: &'a [impl AsRef<str>]) -> Option<&'a str> {
    words
        .iter()
        .map(|word| (edit_distance(misspelt, word.as_ref()), word.as_ref()))
        .min()
        .filter(|(far, word)| *far <= 2 && *far < word.len())
        .map(|(_, word)| word)
}

/// Returns how many letters must be changed, added or removed to turn one word into the other.
fn edit_distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.chars().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_changed_letters() {
        for (one, other, far) in [
            ("", "", 0),
            ("id", "id", 0),
            ("", "id", 2),
            ("idd", "id", 1),
            ("kitten", "sitting", 3),
            ("ß", "s", 1),
        ] {
            assert_eq!(
                (edit_distance(one, other), edit_distance(other, one)),
                (far, far),
                "{one} {other}"
            );
        }
    }

    #[test]
    fn the_closest_word_is_suggested() {
        let words = ["ttl", "wait", "id", "guard"];
        for (misspelt, meant) in [
            ("tll", Some("ttl")),
            ("waits", Some("wait")),
            ("idd", Some("id")),
            ("gaurd", Some("guard")),
            ("xy", None),
            ("timeout", None),
        ] {
            assert_eq!(closest_match(misspelt, &words), meant, "{misspelt}");
        }
    }
}
