//! Compares the output of a command with the output on its page.
//!
//! On the page, `…` stands for any run of characters within a line, and a line that is only `...`
//! for any number of lines.

/// Returns nothing if they agree; otherwise both, side by side.
pub(crate) fn differ(expected: &[String], actual: &[&str]) -> Option<String> {
    // A page cannot show trailing blanks, and blank lines at the end only separate commands.
    let expected = trimmed(expected.iter().map(String::as_str));
    let actual = trimmed(actual.iter().copied());
    if agree(&expected, &actual, line_agrees, &"...") {
        return None;
    }
    let same = expected
        .iter()
        .zip(&actual)
        .take_while(|(shown, real)| line_agrees(shown, real));
    let same = same.count();
    let common = expected[..same]
        .iter()
        .map(|line| format!("      {line}\n"));
    let shown = expected[same..]
        .iter()
        .map(|line| format!("    - {line}\n"));
    let real = actual[same..].iter().map(|line| format!("    + {line}\n"));
    Some(common.chain(shown).chain(real).collect())
}

fn trimmed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut lines: Vec<&str> = lines.map(str::trim_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

fn line_agrees(expected: &&str, actual: &&str) -> bool {
    let expected: Vec<char> = expected.chars().collect();
    let actual: Vec<char> = actual.chars().collect();
    agree(&expected, &actual, |shown, real| shown == real, &'…')
}

/// Returns whether `actual` fits `expected`, in which `any` stands for any number of items.
fn agree<T: PartialEq>(
    expected: &[T],
    actual: &[T],
    same: impl Fn(&T, &T) -> bool,
    any: &T,
) -> bool {
    let (mut shown, mut real) = (0, 0);
    // The place to continue after the last `any` when the items behind it do not fit: one item
    // later.
    let mut retry: Option<(usize, usize)> = None;
    while real < actual.len() {
        if expected.get(shown) == Some(any) {
            retry = Some((shown, real));
            shown += 1;
        } else if expected
            .get(shown)
            .is_some_and(|item| same(item, &actual[real]))
        {
            shown += 1;
            real += 1;
        } else if let Some((after, from)) = retry {
            retry = Some((after, from + 1));
            shown = after + 1;
            real = from + 1;
        } else {
            return false;
        }
    }
    expected[shown..].iter().all(|item| item == any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(expected: &str, actual: &str) -> bool {
        let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
        differ(&expected, &actual.lines().collect::<Vec<_>>()).is_none()
    }

    #[test]
    fn marks_stand_for_what_varies() {
        assert!(fits("a\nb", "a\nb"));
        assert!(fits("took … s", "took 1.5 s"));
        assert!(fits("… of …: …", "1 of 2: done of 3: x"));
        assert!(fits("a\n...\nz", "a\nb\nc\nz"));
        assert!(fits("a\n...\nz", "a\nz"));
        assert!(fits("...\nb …\n...", "a\nb\nb 1\nc"));
        assert!(fits("...", ""));
        assert!(fits("a  \n\n", "a"));
    }

    #[test]
    fn all_else_must_be_the_same() {
        assert!(!fits("a", "b"));
        assert!(!fits("a", ""));
        assert!(!fits("", "a"));
        assert!(!fits("a", "a\nb"));
        assert!(!fits("a\nb", "a"));
        assert!(!fits("took … s", "took 1.5 ms"));
        assert!(!fits("took … s", "took 1.5\n s"));
        assert!(!fits("a\n...\nz", "a\nb"));
        assert!(!fits("a\n\nb", "a\nb"));
    }

    #[test]
    fn the_difference_shows_both_sides() {
        let expected = ["a 1".to_owned(), "b".to_owned()];
        let diff = differ(&expected, &["a 1", "c"]).expect("they differ");
        assert_eq!(diff, "      a 1\n    - b\n    + c\n");
    }
}
