//! Suggests the word that a person who misspelt it probably meant.

/// Returns "did you mean …" if a known word is near, else the list of known words.
pub fn suggestion(text: &str, known: &[&str]) -> String {
    nearest(text, known).map_or_else(
        || format!("known are {}", known.join(", ")),
        |word| format!("did you mean `{word}`?"),
    )
}

/// Returns the nearest known word within a few typing errors.
pub(super) fn nearest<'a>(text: &str, known: &[&'a str]) -> Option<&'a str> {
    let nearest = known.iter().map(|word| (distance(text, word), *word)).min();
    // A word of which no letter remains is no neighbour.
    let is_near = |(distance, word): &(usize, &str)| {
        *distance <= 2.max(text.len() / 3) && *distance < word.len()
    };
    nearest.filter(is_near).map(|(_, word)| word)
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        assert_eq!(
            suggestion("fingerprnt", &["fingerprint", "key"]),
            "did you mean `fingerprint`?"
        );
        assert_eq!(
            suggestion("zzz", &["fingerprint", "key"]),
            "known are fingerprint, key"
        );
        assert_eq!(suggestion("d", &["a", "b"]), "known are a, b");
    }
}
